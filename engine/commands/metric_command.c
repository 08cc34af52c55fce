#include "engine/commands/metric_command.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST_OUTPUT = 4096 };
static const char where[] = "--command";

static int start(const char *command, int input, int output, pid_t *child) {
    posix_spawn_file_actions_t files;
    char *const arguments[] = {(char *)"sh", (char *)"-c", (char *)command, NULL};
    int error = posix_spawn_file_actions_init(&files);
    if (error != 0) return error;
    if ((error = posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO)) == 0 &&
        (error = posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO)) == 0)
        error = posix_spawn(child, "/bin/sh", &files, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

// All that it prints, of which the beginning is kept.
static void read_output(int descriptor, char text[MOST_OUTPUT]) {
    size_t length = 0;
    char rest[MOST_OUTPUT];
    for (;;) {
        const bool full = length + 1 == MOST_OUTPUT;
        const ssize_t got =
            read(descriptor, full ? rest : text + length, full ? sizeof rest : MOST_OUTPUT - 1 - length);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (!full) length += (size_t)got;
    }
    text[length] = '\0';
}

static ft_status wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return ft_fail_errno(FT_FAILED, errno, where, "nobody knows how it ended");
    if (WIFSIGNALED(status)) return ft_fail(FT_FAILED, where, "it was ended by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status) == 0 ? FT_OK
                                    : ft_fail(FT_FAILED, where, "it ended with exit code %d", WEXITSTATUS(status));
}

static ft_status number_in(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    const bool any = end != text;
    while (isspace((unsigned char)*end))
        end++;
    if (any && *end == '\0') return FT_OK;
    return ft_fail(FT_FAILED, where, "it must print one number, it printed \"%.60s\"", text);
}

ft_status ft_metric_command(const char *command, int input, double *value) {
    int ends[2];
    pid_t child;
    char text[MOST_OUTPUT];
    if (lseek(input, 0, SEEK_SET) != 0 || pipe2(ends, O_CLOEXEC) != 0)
        return ft_fail_errno(FT_FAILED, errno, where, "cannot hand it anything");
    const int error = start(command, input, ends[1], &child);
    close(ends[1]);
    if (error == 0) read_output(ends[0], text);
    close(ends[0]);
    if (error != 0) return ft_fail_errno(FT_FAILED, error, where, "cannot start it");
    FT_TRY(wait_for(child));
    return number_in(text, value);
}
