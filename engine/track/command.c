#include "engine/track/command.h"

#include "base/clock.h"
#include "base/heap.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

// This process's environment with `variables` in front, where getenv finds them first.
static char **environment_with(const char *const *variables) {
    size_t ours = 0, theirs = 0;
    while (variables[ours] != NULL)
        ours++;
    while (environ[theirs] != NULL)
        theirs++;
    char **list = ft_calloc(ours + theirs + 1, sizeof *list, "an environment");
    if (list == NULL) return NULL;
    for (size_t i = 0; i < ours; i++)
        list[i] = (char *)variables[i];
    memcpy(list + ours, environ, theirs * sizeof *list);
    return list;
}

// A file in memory: however long the text, and whoever does not read it, nobody waits.
static ft_status input_file(const char *input, int *descriptor) {
    const size_t length = strlen(input);
    *descriptor = memfd_create("notice", MFD_CLOEXEC);
    if (*descriptor >= 0 && write(*descriptor, input, length) == (ssize_t)length &&
        lseek(*descriptor, 0, SEEK_SET) == 0)
        return FT_OK;
    const int error = errno;
    if (*descriptor >= 0) close(*descriptor);
    return ft_fail_errno(FT_FAILED, error, "notify.command", "cannot hand it anything");
}

static int start(const char *command, int input, char **environment, pid_t *child) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, standard;
    char *const arguments[] = {(char *)"sh", (char *)"-c", (char *)command, NULL};
    sigemptyset(&none);
    sigemptyset(&standard);
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ, SIGCHLD};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        sigaddset(&standard, signals[i]);
    int error = posix_spawn_file_actions_init(&files);
    if (error != 0) return error;
    if ((error = posix_spawnattr_init(&how)) == 0) {
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        posix_spawnattr_setpgroup(&how, 0);
        posix_spawnattr_setsigmask(&how, &none);
        posix_spawnattr_setsigdefault(&how, &standard);
        if ((error = posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO)) == 0 &&
            (error = posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO)) ==
                0) // results are the program's
            error = posix_spawn(child, "/bin/sh", &files, &how, arguments, environment);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static ft_status wait_for(pid_t child, double timeout) {
    int status = 0;
    const double end = ft_now() + timeout;
    for (pid_t ended = 0; ended == 0; nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL)) {
        ended = waitpid(child, &status, WNOHANG);
        if (ended < 0 && errno == EINTR) ended = 0;
        if (ended < 0) return ft_fail_errno(FT_FAILED, errno, "notify.command", "nobody knows how it ended");
        if (ended != 0 || ft_now() < end) continue;
        kill(-child, SIGKILL);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        return ft_fail(FT_FAILED, "notify.command", "it took longer than notify.timeout, %g seconds, and was killed",
                       timeout);
    }
    if (WIFSIGNALED(status)) return ft_fail(FT_FAILED, "notify.command", "it was ended by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status) != 0)
        return ft_fail(FT_FAILED, "notify.command", "it ended with exit code %d", WEXITSTATUS(status));
    return FT_OK;
}

ft_status ft_command_hand(const char *command, const char *input, const char *const *variables, double timeout) {
    int descriptor;
    pid_t child;
    FT_TRY(input_file(input, &descriptor));
    char **environment = environment_with(variables);
    const int error = environment != NULL ? start(command, descriptor, environment, &child) : ENOMEM;
    free(environment);
    close(descriptor);
    return error == 0 ? wait_for(child, timeout) : ft_fail_errno(FT_FAILED, error, "notify.command", "cannot start it");
}
