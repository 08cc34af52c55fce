#include "hpo/trial.h"

#include "engine/io/files.h"
#include "engine/io/json.h"
#include "engine/train/trainer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void nap(double seconds) {
    nanosleep(
        &(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)},
        NULL);
}

// ---- the process ----------------------------------------------------------------------------------------------------

// After a kill -9 of the coordinator its child may take a moment to die; until then it holds its run directory.
static ft_status wait_for_directory(const char *directory) {
    int descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return ft_fail_errno(FT_FAILED, errno, directory, "cannot open the trial's directory");
    bool locked = false;
    for (double end = ft_now() + 30; !locked; nap(0.02)) {
        locked = flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
        if (ft_now() > end) break;
    }
    close(descriptor);
    return locked ? FT_OK : ft_fail(FT_FAILED, directory, "another process is training in this directory");
}

// In the child: only calls that are safe between fork and exec.
static void become_trial(char *const *arguments, int log, int null, pid_t parent) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(SIGINT, &standard, NULL);
    sigaction(SIGTERM, &standard, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127); // it died before the line above
    if (dup2(null, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) _exit(127);
    execv("/proc/self/exe", arguments);
    _exit(127);
}

static ft_status launch(ft_trial_process *p, char *const *arguments, const char *log_path) {
    int ends[2], log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log < 0) return ft_fail_errno(FT_FAILED, errno, log_path, "cannot open");
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || pipe(ends) != 0) {
        int error = errno;
        close(log);
        if (null >= 0) close(null);
        return ft_fail_errno(FT_FAILED, error, p->directory, "cannot start a trial");
    }
    fcntl(ends[0], F_SETFD, FD_CLOEXEC); // the other end stays open in the child for as long as it lives
    pid_t parent = getpid();
    p->pid = fork();
    if (p->pid == 0) become_trial(arguments, log, null, parent);
    int error = errno;
    close(log);
    close(null);
    close(ends[1]);
    p->alive = ends[0];
    p->started = ft_now();
    if (p->pid > 0) return FT_OK;
    p->pid = 0;
    close(p->alive);
    p->alive = -1;
    return ft_fail_errno(FT_FAILED, error, p->directory, "cannot start a trial");
}

void ft_trial_attach(const char *directory, ft_trial_process *process) {
    *process = (ft_trial_process){.directory = directory, .alive = -1, .step = -1};
}

ft_status ft_trial_start(const char *directory, ft_trial_process *p) {
    ft_trial_attach(directory, p);
    FT_TRY(wait_for_directory(directory));
    ft_arena arena = {0};
    char *config = ft_path_join(&arena, directory, "config.ini"), *log = ft_path_join(&arena, directory, "log.txt");
    char *output = ft_arena_format(&arena, "output.dir=%s", directory);
    char name[] = "ftengine", train[] = "train", resume[] = "output.exists=resume";
    char *const arguments[] = {name, train, config, output, resume, NULL};
    ft_status status = config != NULL && log != NULL && output != NULL ? launch(p, arguments, log) : FT_NO_MEMORY;
    ft_arena_free(&arena);
    return status;
}

static int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

static ft_status collect(ft_trial_process *p, int *code) {
    int status;
    pid_t got;
    while ((got = waitpid(p->pid, &status, 0)) < 0 && errno == EINTR) {
    }
    if (got < 0) return ft_fail_errno(FT_FAILED, errno, p->directory, "cannot wait for the trial");
    close(p->alive);
    p->alive = -1;
    p->pid = 0;
    *code = code_of(status);
    return FT_OK;
}

ft_status ft_trial_wait(ft_trial_process *p, double seconds, bool *ended, int *code) {
    *ended = false;
    struct pollfd end = {.fd = p->alive, .events = POLLIN};
    int ready = poll(&end, 1, (int)(seconds * 1000)); // a signal ends the wait early, which is what it is for
    if (ready <= 0) return FT_OK;
    *ended = true;
    return collect(p, code);
}

void ft_trial_stop(ft_trial_process *p, int signal_number) {
    if (p->pid <= 0) return;
    kill(p->pid, p->stopping ? SIGKILL : signal_number);
    p->stopping = true;
}

ft_status ft_trial_end(ft_trial_process *p, double patience, int *code) {
    ft_status status = FT_OK;
    bool ended = p->pid <= 0;
    *code = 0;
    for (double last = ft_now() + patience; !ended && status == FT_OK && ft_now() < last;)
        status = ft_trial_wait(p, 0.1, &ended, code);
    if (p->pid > 0) {
        kill(p->pid, SIGKILL);
        ft_status collected = collect(p, code);
        if (status == FT_OK) status = collected;
    }
    free(p->line);
    p->line = NULL;
    return status;
}

int64_t ft_trial_memory(const ft_trial_process *p) {
    char path[64], line[256];
    long long kib = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)p->pid);
    FILE *file = p->pid > 0 ? fopen(path, "r") : NULL;
    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmRSS: %lld", &kib) == 1) break;
    fclose(file);
    return kib * 1024;
}

// ---- metrics.jsonl --------------------------------------------------------------------------------------------------

// Is the line that was read last still where it was?
static bool still_there(const ft_trial_process *p, FILE *file) {
    if (p->line == NULL) return false;
    char *now = malloc((size_t)p->line_length);
    bool same = now != NULL && fseeko(file, (off_t)p->line_at, SEEK_SET) == 0 &&
                fread(now, 1, (size_t)p->line_length, file) == (size_t)p->line_length &&
                memcmp(now, p->line, (size_t)p->line_length) == 0;
    free(now);
    return same;
}

// One whole line from the file's position, NULL at its end.
static ft_status read_line(ft_trial_process *p, FILE *file, char **line, int64_t *at, int64_t *length) {
    size_t size = 0;
    *line = NULL;
    *at = (int64_t)ftello(file);
    errno = 0;
    ssize_t got = getline(line, &size, file);
    *length = got;
    if (got > 0 && (*line)[got - 1] == '\n') return FT_OK;
    if (got < 0 && errno == ENOMEM) return ft_fail_memory(0, "a line of metrics.jsonl");
    free(*line); // the end, or a line that is still being written
    *line = NULL;
    return FT_OK;
}

static ft_status next_line(ft_trial_process *p, FILE *file, const char *path, json_t **out) {
    if (!still_there(p, file)) rewind(file);
    for (;;) {
        char *line;
        int64_t at, length, step;
        FT_TRY(read_line(p, file, &line, &at, &length));
        if (line == NULL) return FT_OK;
        ft_status status = ft_json_parse(line, (size_t)length, path, out);
        if (status == FT_OK) status = ft_json_int(*out, path, "step", -1, -1, INT64_MAX, &step);
        if (status != FT_OK) {
            free(line);
            json_decref(*out);
            *out = NULL;
            return status;
        }
        free(p->line);
        p->line = line;
        p->line_at = at;
        p->line_length = length;
        // Lines of training and evaluation share a step; both are wanted, but nothing from before.
        if (step >= p->step) {
            p->step = step;
            return FT_OK;
        }
        json_decref(*out);
        *out = NULL;
    }
}

ft_status ft_trial_line(ft_trial_process *p, json_t **line) {
    *line = NULL;
    ft_arena arena = {0};
    char *path = ft_path_join(&arena, p->directory, "metrics.jsonl");
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    ft_status status = path == NULL ? FT_NO_MEMORY : FT_OK;
    if (path != NULL && file == NULL && errno != ENOENT) status = ft_fail_errno(FT_FAILED, errno, path, "cannot read");
    if (file != NULL) {
        status = next_line(p, file, path, line);
        fclose(file);
    }
    ft_arena_free(&arena);
    return status;
}

// ---- log.txt --------------------------------------------------------------------------------------------------------

const char *ft_trial_error(const char *directory, ft_arena *arena) {
    static const char mark[] = "ftengine: error: ";
    const char *path = ft_path_join(arena, directory, "log.txt"), *found = "";
    FILE *file = path != NULL ? fopen(path, "re") : NULL;
    if (path == NULL || file == NULL) return path == NULL ? NULL : "";
    char line[2048];
    fseeko(file, 0, SEEK_END);
    off_t size = ftello(file);
    fseeko(file, size > 65536 ? size - 65536 : 0, SEEK_SET);
    while (found != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, mark, sizeof mark - 1) == 0) found = ft_arena_strdup(arena, line + sizeof mark - 1);
    }
    fclose(file);
    return found;
}
