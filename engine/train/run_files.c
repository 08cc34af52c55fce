// run_files.c - the run directory: where it is, its line-by-line log, the best model, the predictions.
#include "engine/train/trainer.h"

#include "engine/io/files.h"
#include "engine/io/json.h"
#include "engine/model/settings.h"
#include "kernels/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LAST_NUMBER = 999999 };

// What a directory holds: nothing (leftovers of writers that were killed do not count), a run, or something else.
typedef enum contents { EMPTY, A_RUN, OTHER_FILES } contents;

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static ft_status look_into(const char *path, contents *what) {
    *what = EMPTY;
    DIR *d = opendir(path);
    if (d == NULL) return errno == ENOENT ? FT_OK : ft_fail_errno(errno == ENOTDIR ? FT_INVALID : FT_FAILED, errno, path, "cannot use as a run directory");
    for (struct dirent *e; *what != A_RUN && (e = readdir(d)) != NULL;) {
        const char *name = e->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || ends_with(name, ".ft-tmp") || ends_with(name, ".ft-old")) continue;
        *what = strcmp(name, "config.ini") == 0 || strcmp(name, "checkpoints") == 0 ? A_RUN : OTHER_FILES;
    }
    closedir(d);
    return FT_OK;
}

// The greatest N of the directories <stem>-N; 0 when there is none.
static ft_status greatest_number(const char *stem, int *greatest) {
    *greatest = 0;
    const char *slash = strrchr(stem, '/'), *base = slash != NULL ? slash + 1 : stem;
    ft_arena arena = {0};
    char *parent = ft_arena_strndup(&arena, stem, slash != NULL ? (size_t)(slash - stem) : 0);
    DIR *d = parent != NULL ? opendir(parent[0] != '\0' ? parent : slash != NULL ? "/" : ".") : NULL;
    ft_status status = parent != NULL ? FT_OK : FT_NO_MEMORY;
    if (parent != NULL && d == NULL && errno != ENOENT) status = ft_fail_errno(FT_FAILED, errno, stem, "cannot look for run directories");
    size_t length = strlen(base);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, base, length) != 0 || e->d_name[length] != '-') continue;
        char *end;
        long number = strtol(e->d_name + length + 1, &end, 10);
        if (*end == '\0' && end > e->d_name + length + 1 && number > *greatest && number <= LAST_NUMBER) *greatest = (int)number;
    }
    if (d != NULL) closedir(d);
    ft_arena_free(&arena);
    return status;
}

static char *numbered(ft_arena *arena, const char *stem, int number) { return ft_arena_format(arena, "%s-%03d", stem, number); }

// Creates the next <stem>-NNN: mkdir decides, so that two runs started at once get two numbers.
static ft_status create_numbered(ft_trainer *t, const char *stem) {
    int number;
    FT_TRY(greatest_number(stem, &number));
    while (++number <= LAST_NUMBER) {
        char *dir = numbered(&t->arena, stem, number);
        if (dir == NULL) return FT_NO_MEMORY;
        if (mkdir(dir, 0777) == 0) {
            t->dir = dir;
            return FT_OK;
        }
        if (errno != EEXIST) return ft_fail_errno(FT_FAILED, errno, dir, "cannot create the run directory");
    }
    return ft_fail(FT_FAILED, stem, "more than %d run directories", LAST_NUMBER);
}

// runs/<config>-NNN: the next free number, or with resume the greatest there is.
static ft_status choose_by_number(ft_trainer *t, bool resume) {
    char *parent = ft_path_absolute(&t->arena, NULL, "runs");
    char *stem = parent != NULL ? ft_path_join(&t->arena, parent, t->config->name) : NULL;
    if (stem == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_make_directories(parent));
    int number = 0;
    if (resume) FT_TRY(greatest_number(stem, &number));
    if (number == 0) return create_numbered(t, stem);
    t->dir = numbered(&t->arena, stem, number);
    return t->dir != NULL ? FT_OK : FT_NO_MEMORY;
}

// output.dir as given. Files that are not a run's are never touched: a run beside them would replace model/.
static ft_status choose_given(ft_trainer *t) {
    const ft_config *c = t->config;
    contents what;
    FT_TRY(look_into(c->output.dir, &what));
    if (what != EMPTY && c->output.exists == FT_EXISTS_NEW) return create_numbered(t, c->output.dir);
    if (what != EMPTY && c->output.exists == FT_EXISTS_ERROR) {
        ft_fail(FT_INVALID, "output.dir", "%s holds %s already", c->output.dir, what == A_RUN ? "a run" : "other files");
        ft_hint("output.exists = resume continues a run, new takes the next free number");
        return FT_INVALID;
    }
    if (what == OTHER_FILES) {
        ft_fail(FT_INVALID, "output.dir", "%s holds files, but no run to resume", c->output.dir);
        ft_hint("name an empty or a new directory");
        return FT_INVALID;
    }
    t->dir = c->output.dir;
    return ft_make_directories(t->dir);
}

// One process a run directory: the lock goes with the process, however it ends.
static ft_status lock_directory(ft_trainer *t) {
    t->dir_lock = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->dir_lock < 0) return ft_fail_errno(FT_FAILED, errno, t->dir, "cannot open the run directory");
    if (flock(t->dir_lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return FT_OK; // some file systems have no locks
    return ft_fail(FT_INVALID, t->dir, "another process is training in this run directory");
}

ft_status ft_run_dir_open(ft_trainer *t) {
    bool resume = t->config->output.exists == FT_EXISTS_RESUME;
    FT_TRY(t->config->output.dir[0] == '\0' ? choose_by_number(t, resume) : choose_given(t));
    return lock_directory(t);
}

ft_status ft_run_write_config(ft_trainer *t) {
    char *path = ft_path_join(&t->arena, t->dir, "config.ini");
    if (path == NULL) return FT_NO_MEMORY;
    ft_atomic_file file;
    FT_TRY(ft_atomic_open(&file, path));
    ft_status status = ft_config_write(t->asked, true, true, file.stream);
    if (status == FT_OK) return ft_atomic_commit(&file);
    ft_atomic_abort(&file);
    return status;
}

// ---- metrics.jsonl ----------------------------------------------------------------------------------------------------

ft_status ft_run_metrics_open(ft_trainer *t) {
    char *path = ft_path_join(&t->arena, t->dir, "metrics.jsonl");
    if (path == NULL) return FT_NO_MEMORY;
    t->metrics_file = fopen(path, "a");
    if (t->metrics_file == NULL) return ft_fail_errno(FT_FAILED, errno, path, "cannot open");
    if (ftruncate(fileno(t->metrics_file), t->state.metrics_bytes) != 0)
        return ft_fail_errno(FT_FAILED, errno, path, "cannot cut at the checkpoint's step");
    return FT_OK;
}

// Writes one line and frees the object.
static ft_status append_line(ft_trainer *t, json_t *line) {
    char *text = ft_json_line(line);
    json_decref(line);
    if (text == NULL) return FT_NO_MEMORY;
    int written = fprintf(t->metrics_file, "%s\n", text);
    free(text);
    if (written < 0 || fflush(t->metrics_file) != 0) return ft_fail_errno(FT_FAILED, errno, "metrics.jsonl", "cannot write in %s", t->dir);
    t->state.metrics_bytes += written;
    return FT_OK;
}

static json_t *figure(double value) { return ft_json_rounded(value, 9); }
static double epoch_of(const ft_trainer *t) { return (double)t->state.step / (double)t->plan.steps_per_epoch; }

ft_status ft_run_log_train(ft_trainer *t) {
    if (t->state.loss_steps == 0) return FT_OK;
    double loss = t->state.loss_sum / (double)t->state.loss_steps;
    double seconds = t->state.seconds_train - t->logged_seconds;
    double rate = seconds > 0 ? (double)(t->state.tokens - t->logged_tokens) / seconds : 0;
    json_t *line = json_pack("{s:i, s:I, s:o, s:o, s:o, s:o, s:o}", "format_version", 1, "step", (json_int_t)t->state.step, "epoch", figure(epoch_of(t)), "loss",
                             figure(loss), "learning_rate", figure(t->state.learning_rate), "grad_norm", figure(t->state.gradient_norm),
                             "tokens_per_second", ft_json_rounded(rate, 5));
    t->state.loss_sum = 0;
    t->state.loss_steps = 0;
    t->logged_tokens = t->state.tokens;
    t->logged_seconds = t->state.seconds_train;
    ft_progress_log(t, loss);
    return append_line(t, line);
}

ft_status ft_run_log_eval(ft_trainer *t, const ft_metrics *m) {
    json_t *line = json_pack("{s:i, s:I, s:o}", "format_version", 1, "step", (json_int_t)t->state.step, "epoch", figure(epoch_of(t)));
    bool failed = line == NULL;
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        char key[48];
        double value = ft_metric_value(m, (ft_metric)k);
        snprintf(key, sizeof key, "eval_%s", ft_metric_name((ft_metric)k));
        if (value == value) ft_json_put(line, key, figure(value), &failed);
    }
    if (!failed) return append_line(t, line);
    json_decref(line);
    return ft_fail_memory(0, "a line of metrics.jsonl");
}

// ---- model/ and predictions.jsonl -------------------------------------------------------------------------------------

static ft_status fill_model_dir(ft_trainer *t, const char *dir) {
    const ft_config *c = t->config;
    FT_TRY(ft_model_save_weights(&t->model, dir));
    char *config = ft_path_join(&t->arena, dir, "config.json"), *settings = ft_path_join(&t->arena, dir, "ftengine.json");
    if (config == NULL || settings == NULL) return FT_NO_MEMORY;
    bool custom = c->model.head.hidden.count > 0;
    ft_custom_head head = {c->model.head.hidden, c->model.head.activation, t->model.head_dropout};
    FT_TRY(ft_model_config_save(&t->model_config, config, t->labels.count, t->label_names, t->model.hidden_dropout,
                                t->model.attention_dropout, t->model.classifier_dropout, custom ? &head : NULL));
    if (custom) FT_TRY(ft_custom_head_save_loader(t->model_config.family, dir));
    for (const char *const *name = ft_tokenizer_files(t->tokenizer); *name != NULL; name++) {
        char *from = ft_path_join(&t->arena, t->tokenizer_dir, *name), *to = ft_path_join(&t->arena, dir, *name);
        if (from == NULL || to == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_copy_file(from, to));
    }
    ft_model_settings s = {.text_column = t->split[FT_SPLIT_TRAIN].table.text_column,
                           .pair_column = t->config->data.text_pair,
                           .label_column = t->split[FT_SPLIT_TRAIN].table.label_column,
                           .max_length = t->max_length,
                           .tokenizer_rules = c->model.tokenizer_rules,
                           .label_count = t->labels.count,
                           .labels = t->labels.names,
                           .head_hidden = c->model.head.hidden,
                           .head_activation = c->model.head.activation};
    return ft_model_settings_save(&s, settings);
}

ft_status ft_run_save_model(ft_trainer *t) {
    ft_memory_set_phase(t->memory, FT_PHASE_SAVE);
    char *path = ft_path_join(&t->arena, t->dir, "model");
    if (path == NULL) return FT_NO_MEMORY;
    ft_atomic_dir dir;
    FT_TRY(ft_atomic_dir_open(&dir, path));
    ft_status status = fill_model_dir(t, dir.temporary);
    if (status == FT_OK) return ft_atomic_dir_commit(&dir);
    ft_atomic_dir_abort(&dir);
    return status;
}

// One line of predictions.jsonl; NULL with the error set. p: room for a probability a class.
static char *prediction_line(const ft_trainer *t, ft_split split, int64_t example, const float *logits, double *p) {
    const int classes = t->labels.count;
    ft_softmax(logits, classes, p);
    json_t *probabilities = json_object();
    bool failed = false;
    for (int k = 0; k < classes; k++) ft_json_put(probabilities, t->label_names[k], figure(p[k]), &failed);
    json_t *line = json_pack("{s:i, s:s, s:I, s:s, s:s, s:o}", "format_version", 1, "split", ft_split_name(split), "id", (json_int_t)example, "label",
                             t->label_names[t->split[split].data.label[example]], "predicted",
                             t->label_names[ft_argmax(logits, classes)], "probabilities", probabilities);
    char *text = failed ? NULL : ft_json_line(line);
    if (failed) ft_fail_memory(0, "a line of predictions.jsonl");
    json_decref(line);
    return text;
}

static ft_status write_predictions(const ft_trainer *t, ft_split split, const float *logits, FILE *out) {
    double *p = ft_calloc((size_t)t->labels.count, sizeof *p, "probabilities");
    ft_status status = p != NULL ? FT_OK : FT_NO_MEMORY;
    for (int64_t i = 0; status == FT_OK && i < t->split[split].data.examples; i++) {
        char *text = prediction_line(t, split, i, logits + i * t->labels.count, p);
        if (text == NULL) status = FT_NO_MEMORY;
        else if (fprintf(out, "%s\n", text) < 0) status = ft_fail_errno(FT_FAILED, errno, "predictions.jsonl", "cannot write in %s", t->dir);
        free(text);
    }
    free(p);
    return status;
}

// The validation lines of an earlier predictions.jsonl: the test set's come behind them.
static ft_status copy_validation(const char *path, FILE *out) {
    char *old;
    size_t length;
    if (!ft_path_exists(path)) return FT_OK;
    FT_TRY(ft_read_file(path, 0, &old, &length));
    for (char *line = old, *end; line < old + length; line = end) {
        end = memchr(line, '\n', (size_t)(old + length - line));
        end = end != NULL ? end + 1 : old + length;
        static const char test[] = "{\"format_version\":1,\"split\":\"test\"";
        if (strncmp(line, test, sizeof test - 1) != 0) fwrite(line, 1, (size_t)(end - line), out);
    }
    free(old);
    return FT_OK;
}

ft_status ft_run_save_predictions(ft_trainer *t, ft_split split, const float *logits) {
    char *path = ft_path_join(&t->arena, t->dir, "predictions.jsonl");
    if (path == NULL) return FT_NO_MEMORY;
    ft_atomic_file file;
    FT_TRY(ft_atomic_open(&file, path));
    ft_status status = split == FT_SPLIT_TEST ? copy_validation(path, file.stream) : FT_OK;
    if (status == FT_OK) status = write_predictions(t, split, logits, file.stream);
    if (status == FT_OK) return ft_atomic_commit(&file);
    ft_atomic_abort(&file);
    return status;
}
