#include "engine/track/tracker.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/track/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const double PATIENCE = 15; // seconds, of whoever waits for a run's end

struct ft_tracker {
    pid_t pid;
    int input; // the other end of its standard input: when that is closed, what it tells of has ended
    char *what;
};

static ft_status spawn(char *const *arguments, int input, pid_t *child) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    int error = posix_spawn_file_actions_init(&files);
    if (error == 0 && (error = posix_spawnattr_init(&how)) == 0) {
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP); // Ctrl-C is not meant for it
        posix_spawnattr_setpgroup(&how, 0);
        if ((error = posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO)) == 0 &&
            (error = posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO)) == 0)
            error = posix_spawn(child, "/proc/self/exe", &files, &how, arguments, environ);
        posix_spawnattr_destroy(&how);
        posix_spawn_file_actions_destroy(&files);
    }
    return error == 0 ? FT_OK : ft_fail_errno(FT_FAILED, error, "track", "cannot start a process that tells MLflow");
}

static ft_status start(const char *uri, const char *experiment, const char *storage, ft_tracker *t) {
    ft_arena arena = {0};
    int ends[2];
    char *const to = ft_arena_format(&arena, "track.mlflow=%s", uri), *const of = ft_arena_format(
                                                                          &arena, "track.experiment=%s", experiment);
    char *arguments[10] = {(char *)"ftengine", (char *)"track", (char *)"--live", t->what, to, of};
    int count = 6;
    if (ft_log_get_level() <= FT_LOG_QUIET) arguments[count++] = (char *)"--quiet";
    if (storage != NULL) arguments[count++] = (char *)"--storage", arguments[count++] = (char *)storage;
    ft_status status = to != NULL && of != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK && pipe2(ends, O_CLOEXEC) != 0)
        status = ft_fail_errno(FT_FAILED, errno, "track", "cannot make a pipe");
    if (status == FT_OK) {
        status = spawn(arguments, ends[0], &t->pid);
        close(ends[0]);
        if (status == FT_OK)
            t->input = ends[1];
        else
            close(ends[1]);
    }
    ft_arena_free(&arena);
    return status;
}

void ft_tracker_start(const ft_config *config, const char *what, const char *storage, ft_tracker **tracker) {
    const char *uri = ft_follow_uri(config);
    *tracker = NULL;
    if (uri == NULL) return;
    ft_tracker *t = ft_calloc(1, sizeof *t, "a tracker");
    ft_status status = FT_NO_MEMORY;
    if (t != NULL && (t->what = strdup(what)) != NULL) status = start(uri, ft_follow_experiment(config), storage, t);
    if (status == FT_OK) {
        *tracker = t;
        return;
    }
    if (t != NULL) free(t->what);
    free(t);
    ft_warn("MLflow is not told of %s: %s; `ftengine track` tells it later", what, ft_error_message());
    ft_error_clear();
}

// Its exit code; -1: it has not ended within that time.
static int wait_for(pid_t child, double seconds) {
    int status;
    for (const double end = ft_now() + seconds;; nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL)) {
        const pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : FT_FAILED;
        if ((ended < 0 && errno != EINTR) || ft_now() > end) return -1;
    }
}

void ft_tracker_end(ft_tracker *t) {
    ft_error error;
    if (t == NULL) return;
    ft_error_save(&error);
    close(t->input);
    const int code = wait_for(t->pid, PATIENCE);
    if (code != FT_OK)
        ft_warn("MLflow was not told all of %s%s; `ftengine track %s` tells it the rest", t->what,
                code < 0 ? " yet, it is slow" : "", t->what);
    free(t->what);
    free(t);
    ft_error_restore(&error);
}
