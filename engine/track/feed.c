#include "engine/track/feed.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MOST_KEPT = 1 << 16, MOST_LINES = 200, MOST_BYTES = 1 << 20 };

ft_status ft_feed_open(const char *directory, ft_feed *f) {
    ft_arena arena = {0};
    const char *path = ft_path_join(&arena, directory, "metrics.jsonl");
    *f = (ft_feed){.path = path != NULL ? strdup(path) : NULL};
    ft_arena_free(&arena);
    return f->path != NULL ? FT_OK : ft_fail_memory(0, "a path");
}

void ft_feed_close(ft_feed *f) {
    free(f->path);
    free(f->times);
    *f = (ft_feed){0};
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Bytes from `at` on, at most `most`: *text on the heap with a NUL behind it; 0 and no error where the file is not
// there yet.
static ft_status read_from(const char *path, int64_t at, size_t most, char **text, size_t *length) {
    *text = NULL;
    *length = 0;
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return errno == ENOENT ? FT_OK : ft_fail_errno(FT_FAILED, errno, path, "cannot read");
    char *out = ft_calloc(most + 1, 1, "lines of metrics.jsonl");
    const ssize_t got = out != NULL ? pread(file, out, most, at) : 0;
    const int error = errno;
    close(file);
    if (out == NULL) return FT_NO_MEMORY;
    if (got < 0) {
        free(out);
        return ft_fail_errno(FT_FAILED, error, path, "cannot read");
    }
    *text = out;
    *length = (size_t)got;
    return FT_OK;
}

static ft_status add_time(ft_feed *f, int64_t time) {
    if (f->count == f->capacity) {
        const int capacity = 2 * f->capacity + 64;
        int64_t *grown = ft_realloc(f->times, (size_t)capacity, sizeof *grown, "times of metrics.jsonl");
        if (grown == NULL) return FT_NO_MEMORY;
        f->times = grown;
        f->capacity = capacity;
    }
    f->times[f->count++] = time;
    return FT_OK;
}

ft_status ft_feed_look(ft_feed *f) {
    struct stat file;
    if (stat(f->path, &file) != 0)
        return errno == ENOENT ? FT_OK : ft_fail_errno(FT_FAILED, errno, f->path, "cannot read");
    if (file.st_size < f->seen) f->offset = f->seen = f->count = 0; // it was cut: steps tell what is known
    const int64_t time = f->looked ? now_ms() : (int64_t)file.st_mtim.tv_sec * 1000 + file.st_mtim.tv_nsec / 1000000;
    while (f->count < MOST_KEPT && f->seen < file.st_size) {
        char *text;
        size_t length, used = 0;
        FT_TRY(read_from(f->path, f->seen, MOST_BYTES, &text, &length));
        ft_status status = FT_OK;
        for (char *end;
             status == FT_OK && f->count < MOST_KEPT && (end = memchr(text + used, '\n', length - used)) != NULL;) {
            used = (size_t)(end - text) + 1;
            status = add_time(f, time);
        }
        free(text);
        FT_TRY(status);
        f->seen += (int64_t)used;
        if (used == 0) break; // half a line
    }
    f->looked = true;
    return FT_OK;
}

static int64_t step_of(const json_t *record, const char *key) {
    const json_t *step = json_object_get(record, key);
    return json_is_integer(step) ? json_integer_value(step) : -1;
}

// One line; what it says of its epoch is said once a step.
static void take_line(const json_t *line, int64_t time, ft_feed_piece *piece, ft_mlflow_batch *batch, bool *failed) {
    const int64_t step = json_integer_value(json_object_get(line, "step"));
    const char *key;
    const json_t *value;
    bool evaluation = false;
    json_object_foreach((json_t *)line, key, value) evaluation |= strncmp(key, "eval_", 5) == 0;
    int64_t *told = evaluation ? &piece->eval_step : &piece->train_step;
    if (step <= *told) return;
    const bool again = evaluation && step <= piece->train_step;
    *told = step;
    json_object_foreach((json_t *)line, key, value) {
        if (!json_is_number(value) || strcmp(key, "step") == 0 || strcmp(key, "format_version") == 0) continue;
        if (again && strcmp(key, "epoch") == 0) continue;
        ft_mlflow_metric(batch, key, json_number_value(value), step, time, failed);
    }
}

ft_status ft_feed_take(ft_feed *f, const json_t *record, ft_mlflow_batch *batch, ft_feed_piece *piece) {
    char *text;
    size_t length;
    bool failed = false;
    *piece = (ft_feed_piece){.train_step = step_of(record, "train_step"), .eval_step = step_of(record, "eval_step")};
    if (f->count == 0) return FT_OK;
    FT_TRY(read_from(f->path, f->offset, MOST_BYTES, &text, &length));
    for (char *end; piece->lines < MOST_LINES && piece->lines < f->count &&
                    (end = memchr(text + piece->bytes, '\n', length - (size_t)piece->bytes)) != NULL;) {
        const char *from = text + piece->bytes;
        json_t *line = NULL;
        if (ft_json_parse(from, (size_t)(end - from), f->path, &line) != FT_OK) ft_error_clear();
        if (json_is_object(line))
            take_line(line, f->times[piece->lines], piece, batch, &failed); // else damaged, and no business of ours
        json_decref(line);
        piece->bytes = end - text + 1;
        piece->lines++;
    }
    free(text);
    return failed ? ft_fail_memory(0, "a request") : FT_OK;
}

ft_status ft_feed_told(ft_feed *f, json_t *record, const ft_feed_piece *piece) {
    bool failed = false;
    ft_json_put(record, "train_step", json_integer((json_int_t)piece->train_step), &failed);
    ft_json_put(record, "eval_step", json_integer((json_int_t)piece->eval_step), &failed);
    f->offset += piece->bytes;
    f->count -= piece->lines;
    memmove(f->times, f->times + piece->lines, (size_t)f->count * sizeof *f->times);
    return failed ? ft_fail_memory(0, "a record") : FT_OK;
}
