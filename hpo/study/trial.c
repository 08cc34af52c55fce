#include "hpo/study/trial.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/train/train.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

void ft_trial_attach(const char *directory, ft_trial_files *files) {
    *files = (ft_trial_files){.directory = directory, .step = -1};
}

void ft_trial_detach(ft_trial_files *files) {
    free(files->line);
    files->line = NULL;
}

bool ft_trial_held(const char *directory) {
    int descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return false; // whoever begins there will tell
    bool held = flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; // some file systems have no locks
    close(descriptor);
    return held;
}

// ---- metrics.jsonl --------------------------------------------------------------------------------------------------

// Is the line that was read last still where it was?
static bool still_there(const ft_trial_files *p, FILE *file) {
    if (p->line == NULL) return false;
    char *now = malloc((size_t)p->line_length);
    bool same = now != NULL && fseeko(file, (off_t)p->line_at, SEEK_SET) == 0 &&
                fread(now, 1, (size_t)p->line_length, file) == (size_t)p->line_length &&
                memcmp(now, p->line, (size_t)p->line_length) == 0;
    free(now);
    return same;
}

// One whole line from the file's position, NULL at its end.
static ft_status read_line(ft_trial_files *p, FILE *file, char **line, int64_t *at, int64_t *length) {
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

static ft_status next_line(ft_trial_files *p, FILE *file, const char *path, json_t **out) {
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

ft_status ft_trial_line(ft_trial_files *p, json_t **line) {
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

char *ft_trial_log_tail(const char *directory, size_t most, ft_arena *arena) {
    const char *path = ft_path_join(arena, directory, "log.txt");
    char *text = path != NULL ? ft_arena_alloc(arena, most + 1) : NULL;
    FILE *file = text != NULL ? fopen(path, "re") : NULL;
    if (file == NULL) return text;
    fseeko(file, 0, SEEK_END);
    off_t size = ftello(file), from = size > (off_t)most ? size - (off_t)most : 0;
    fseeko(file, from, SEEK_SET);
    size_t length = fread(text, 1, most, file);
    text[length] = '\0';
    fclose(file);
    char *line = from > 0 ? strchr(text, '\n') : NULL; // not from the middle of one
    return line != NULL ? line + 1 : text;
}
