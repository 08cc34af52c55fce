// files.c - what the runs of one configuration come to, in files like those of a single run.
#include "engine/train/repeat/repeat.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/spill.h"
#include "engine/config/config_json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- means ----------------------------------------------------------------------------------------------------------------

static bool mean_of(const ft_repeat *r, int runs, const char *metric, double *mean, double *sd) {
    double sum = 0, squares = 0;
    for (int i = 0; i < runs; i++) {
        const json_t *value = json_object_get(json_object_get(r->runs[i].json, "metrics"), metric);
        if (!json_is_number(value)) return false;
        sum += json_number_value(value);
    }
    if (runs == 0) return false;
    *mean = sum / runs;
    for (int i = 0; i < runs; i++) {
        double distance = json_number_value(json_object_get(json_object_get(r->runs[i].json, "metrics"), metric)) - *mean;
        squares += distance * distance;
    }
    *sd = runs > 1 ? sqrt(squares / (runs - 1)) : NAN;
    return true;
}

bool ft_repeat_mean(const ft_repeat *r, const char *metric, double *mean, double *sd) {
    return mean_of(r, r->done, metric, mean, sd);
}

// ---- metrics.jsonl --------------------------------------------------------------------------------------------------------

// The means of the first `runs` runs, and what the last of them has, as its run.json tells it.
static json_t *line_of(const ft_repeat *r, int runs, bool *failed) {
    const ft_repeat_run *last = &r->runs[runs - 1];
    json_t *line = json_pack("{s:i, s:i, s:o, s:O}", "format_version", 1, "step", runs, "run", ft_json_text(last->name),
                             "run_metrics", json_object_get(last->json, "metrics"));
    const char *key;
    json_t *value;
    double mean, sd;
    *failed |= line == NULL;
    json_object_foreach(json_object_get(r->runs[0].json, "metrics"), key, value) {
        bool eval = strncmp(key, "eval_", 5) == 0;
        if (eval && mean_of(r, runs, key, &mean, &sd)) ft_json_put(line, key, ft_json_rounded(mean, 9), failed);
    }
    return line;
}

ft_status ft_repeat_write_metrics(ft_repeat *r) {
    char *path = ft_path_join(&r->arena, r->dir, "metrics.jsonl");
    ft_atomic_file file;
    if (path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_atomic_open(&file, path));
    for (int runs = 1; runs <= r->done; runs++) {
        bool failed = false;
        json_t *line = line_of(r, runs, &failed);
        char *text = failed ? NULL : ft_json_line(line);
        json_decref(line);
        if (text == NULL) {
            ft_atomic_abort(&file);
            return ft_fail_memory(0, "a line of metrics.jsonl");
        }
        fprintf(file.stream, "%s\n", text);
        free(text);
    }
    return ft_atomic_commit(&file);
}

// ---- predictions.jsonl ----------------------------------------------------------------------------------------------------

// What the lines of a task hold: the truth, and numbers by name, of which the means are taken.
static const struct {
    const char *truth, *numbers;
} kinds[] = {{"label", "probabilities"}, {"labels", "probabilities"}, {"targets", "values"}};
enum { SINGLE_LABEL, SEVERAL_LABELS, TARGETS, KINDS };

typedef struct prediction {
    bool test;      // of the test set
    int64_t id, at; // at: where its numbers are
    json_t *truth;
} prediction;

typedef struct predictions {
    ft_arena arena;
    int kind;           // KINDS: not known yet
    const char **names; // of the numbers: classes or targets
    int columns;
    prediction *rows; // of base/spill.h, as the numbers are: there may be more of them than memory
    double *number;   // [count * columns]
    int64_t count, capacity;
    bool other; // there are lines that do not go together
} predictions;

static ft_status name_columns(predictions *p, const json_t *line) {
    const char *key;
    json_t *value;
    for (p->kind = 0; p->kind < KINDS && json_object_get(line, kinds[p->kind].truth) == NULL;)
        p->kind++;
    const json_t *numbers = p->kind < KINDS ? json_object_get(line, kinds[p->kind].numbers) : NULL;
    p->names = ft_arena_alloc(&p->arena, (json_object_size(numbers) + 1) * sizeof *p->names);
    if (p->names == NULL) return FT_NO_MEMORY;
    json_object_foreach((json_t *)numbers, key, value) {
        p->names[p->columns] = ft_arena_strdup(&p->arena, key);
        if (p->names[p->columns++] == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

static ft_status make_room(predictions *p) {
    if (p->count < p->capacity) return FT_OK;
    int64_t capacity = p->capacity > 0 ? 2 * p->capacity : 1024;
    prediction *rows = ft_spill_realloc(p->rows, (size_t)capacity, sizeof *rows, "predictions");
    if (rows == NULL) return FT_NO_MEMORY;
    p->rows = rows;
    double *numbers = ft_spill_realloc(p->number, (size_t)capacity * (size_t)p->columns, sizeof *numbers, "predictions");
    if (numbers == NULL) return FT_NO_MEMORY;
    p->number = numbers;
    p->capacity = capacity;
    return FT_OK;
}

static ft_status take_prediction(void *context, const json_t *line) {
    predictions *p = context;
    const char *split = json_string_value(json_object_get(line, "split"));
    const json_t *id = json_object_get(line, "id");
    if (p->columns == 0) FT_TRY(name_columns(p, line));
    json_t *truth = p->kind < KINDS ? json_object_get(line, kinds[p->kind].truth) : NULL;
    const json_t *numbers = p->kind < KINDS ? json_object_get(line, kinds[p->kind].numbers) : NULL;
    bool ours = split && truth && json_is_integer(id) && p->columns > 0 && json_object_size(numbers) == (size_t)p->columns;
    for (int k = 0; k < p->columns && ours; k++)
        ours = json_is_number(json_object_get(numbers, p->names[k]));
    if (!ours) {
        p->other = true;
        return FT_OK;
    }
    FT_TRY(make_room(p));
    prediction *row = &p->rows[p->count];
    *row = (prediction){.test = strcmp(split, "test") == 0,
                        .id = json_integer_value(id),
                        .at = p->count * p->columns,
                        .truth = json_incref(truth)};
    for (int k = 0; k < p->columns; k++)
        p->number[row->at + k] = json_number_value(json_object_get(numbers, p->names[k]));
    p->count++;
    return FT_OK;
}

static int by_example(const void *a, const void *b) {
    const prediction *x = a, *y = b;
    if (x->test != y->test) return x->test - y->test;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

// What the mean probabilities come to: the most probable label, or all that are more probable than not.
static json_t *decided(const predictions *p, const double *mean, bool *failed) {
    json_t *names = json_array();
    int best = 0;
    for (int k = 0; k < p->columns; k++) {
        if (mean[k] > mean[best]) best = k;
        if (mean[k] >= 0.5) ft_json_append(names, json_string(p->names[k]), failed);
    }
    if (p->kind == SEVERAL_LABELS) return names;
    json_decref(names);
    return json_string(p->names[best]);
}

// The mean of rows [first, last), which are of one example. mean: room for it.
static ft_status write_example(const predictions *p, int64_t first, int64_t last, double *mean, FILE *out) {
    const prediction *row = &p->rows[first];
    json_t *numbers = json_object();
    bool failed = false;
    for (int k = 0; k < p->columns; k++) {
        mean[k] = 0;
        for (int64_t i = first; i < last; i++)
            mean[k] += p->number[p->rows[i].at + k] / (double)(last - first);
        ft_json_put(numbers, p->names[k], ft_json_rounded(mean[k], 9), &failed);
    }
    json_t *line =
        json_pack("{s:i, s:s, s:I}", "format_version", 1, "split", row->test ? "test" : "validation", "id", (json_int_t)row->id);
    ft_json_put(line, kinds[p->kind].truth, json_incref(row->truth), &failed);
    if (p->kind != TARGETS) ft_json_put(line, "predicted", decided(p, mean, &failed), &failed);
    ft_json_put(line, kinds[p->kind].numbers, numbers, &failed);
    char *text = failed ? NULL : ft_json_line(line);
    json_decref(line);
    if (text == NULL) return ft_fail_memory(0, "a line of predictions.jsonl");
    fprintf(out, "%s\n", text);
    free(text);
    return FT_OK;
}

static ft_status write_means(predictions *p, const char *path) {
    ft_atomic_file file;
    qsort(p->rows, (size_t)p->count, sizeof *p->rows, by_example);
    double *mean = ft_arena_alloc(&p->arena, (size_t)p->columns * sizeof *mean);
    if (mean == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_atomic_open(&file, path));
    ft_status status = FT_OK;
    for (int64_t first = 0, last; status == FT_OK && first < p->count; first = last) {
        for (last = first + 1;
             last < p->count && p->rows[last].test == p->rows[first].test && p->rows[last].id == p->rows[first].id; last++) {
        }
        status = write_example(p, first, last, mean, file.stream);
    }
    if (status == FT_OK) return ft_atomic_commit(&file);
    ft_atomic_abort(&file);
    return status;
}

ft_status ft_repeat_write_predictions(ft_repeat *r) {
    predictions p = {.kind = KINDS};
    char *path = ft_path_join(&r->arena, r->dir, "predictions.jsonl");
    ft_status status = path != NULL ? FT_OK : FT_NO_MEMORY;
    for (int i = 0; status == FT_OK && i < r->done; i++) {
        char *own = ft_path_join(&r->arena, r->runs[i].dir, "predictions.jsonl");
        status = own != NULL ? ft_json_lines_read(own, take_prediction, &p) : FT_NO_MEMORY;
    }
    if (status == FT_OK && p.count > 0 && !p.other) status = write_means(&p, path);
    for (int64_t i = 0; i < p.count; i++)
        json_decref(p.rows[i].truth);
    ft_spill_free(p.rows);
    ft_spill_free(p.number);
    ft_arena_free(&p.arena);
    return status;
}

// ---- run.json -------------------------------------------------------------------------------------------------------------

static double sum_of(const ft_repeat *r, const char *object, const char *key) {
    double sum = 0;
    for (int i = 0; i < r->count; i++) {
        const json_t *from = object != NULL ? json_object_get(r->runs[i].json, object) : r->runs[i].json;
        sum += json_number_value(json_object_get(from, key));
    }
    return sum;
}

// The run that took most memory.
static const json_t *largest_run(const ft_repeat *r) {
    const json_t *largest = NULL;
    double most = -1;
    for (int i = 0; i < r->count; i++) {
        double peak = json_number_value(json_object_get(json_object_get(r->runs[i].json, "memory"), "peak_allocated_bytes"));
        if (r->runs[i].json != NULL && peak > most) most = peak, largest = r->runs[i].json;
    }
    return largest;
}

static void put_metrics(const ft_repeat *r, json_t *root, bool *failed) {
    json_t *means = json_object(), *deviations = json_object(), *value;
    const char *key;
    double mean, sd;
    json_object_foreach(r->done > 0 ? json_object_get(r->runs[0].json, "metrics") : NULL, key, value) {
        if (!ft_repeat_mean(r, key, &mean, &sd)) continue;
        ft_json_put(means, key, json_real(mean), failed);
        if (isfinite(sd)) ft_json_put(deviations, key, json_real(sd), failed);
    }
    char name[64];
    const char *metric = ft_metric_name(r->config->eval.metric);
    snprintf(name, sizeof name, "eval_%s", metric);
    value = json_object_get(means, name);
    json_t *best =
        json_is_number(value) ? json_pack("{s:s, s:f}", "metric", metric, "value", json_number_value(value)) : json_null();
    ft_json_put(root, "best", best, failed);
    ft_json_put(root, "metrics", means, failed);
    ft_json_put(root, "metrics_sd", deviations, failed);
}

static json_t *runs_json(const ft_repeat *r, bool *failed) {
    static const char *const taken[] = {"status", "steps", "epochs", "best", "metrics", "tokens", "seconds", "stopped_early"};
    json_t *list = json_array();
    for (int i = 0; i < r->count; i++) {
        const ft_repeat_run *run = &r->runs[i];
        if (run->json == NULL) continue;
        json_t *entry = json_pack("{s:o, s:I}", "name", ft_json_text(run->name), "seed", (json_int_t)run->seed);
        if (run->fold > 0) ft_json_put(entry, "fold", json_integer((json_int_t)run->fold), failed);
        for (size_t k = 0; k < sizeof taken / sizeof taken[0]; k++) {
            json_t *value = json_object_get(run->json, taken[k]);
            if (value != NULL) ft_json_put(entry, taken[k], json_incref(value), failed);
        }
        ft_json_append(list, entry, failed);
    }
    return list;
}

// Of folds the whole training file, which each run has in two parts.
static json_t *data_json(const ft_repeat *r, const json_t *of_run, bool *failed) {
    const json_t *from = json_object_get(of_run, "data"), *train = json_object_get(from, "train"),
                 *rest = json_object_get(from, "validation");
    if (r->runs[0].fold == 0 || train == NULL || rest == NULL) return from != NULL ? json_incref((json_t *)from) : json_object();
    static const char *const counts[] = {"examples", "tokens", "truncated"};
    json_t *data = json_object(), *whole = json_object(), *test = json_object_get(from, "test");
    for (int k = 0; k < 2; k++) {
        const char *key = k == 0 ? "path" : "sha256";
        ft_json_put(whole, key, json_incref(json_object_get(train, key)), failed);
    }
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++)
        ft_json_put(whole, counts[k],
                    json_integer(json_integer_value(json_object_get(train, counts[k])) +
                                 json_integer_value(json_object_get(rest, counts[k]))),
                    failed);
    json_int_t longest = json_integer_value(json_object_get(train, "longest")),
               other = json_integer_value(json_object_get(rest, "longest"));
    ft_json_put(whole, "longest", json_integer(longest > other ? longest : other), failed);
    ft_json_put(data, "train", whole, failed);
    if (test != NULL) ft_json_put(data, "test", json_incref(test), failed);
    return data;
}

ft_status ft_repeat_write_json(ft_repeat *r, ft_status outcome) {
    char *path = ft_path_join(&r->arena, r->dir, "run.json");
    if (path == NULL) return FT_NO_MEMORY;
    static const char *const shared[] = {"device", "device_description", "precision", "versions", "resolved", "memory", "planned",
                                         "sites"};
    const json_t *largest = largest_run(r);
    double seconds = sum_of(r, "seconds", "train"), tokens = sum_of(r, NULL, "tokens");
    bool failed = false;
    json_t *root =
        json_pack("{s:i, s:s, s:I, s:f, s:I, s:{s:f, s:f, s:f}, s:f}", "format_version", 1, "status", ft_run_status_name(outcome),
                  "steps", (json_int_t)sum_of(r, NULL, "steps"), "epochs", sum_of(r, NULL, "epochs"), "tokens",
                  (json_int_t)tokens, "seconds", "total", sum_of(r, "seconds", "total"), "train", seconds, "eval",
                  sum_of(r, "seconds", "eval"), "tokens_per_second", seconds > 0 ? tokens / seconds : 0.0);
    put_metrics(r, root, &failed);
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        json_t *value = json_object_get(largest, shared[i]);
        if (value != NULL) ft_json_put(root, shared[i], json_incref(value), &failed);
    }
    ft_json_put(root, "data", data_json(r, largest, &failed), &failed);
    ft_json_put(root, "config", ft_config_json(r->config, &failed), &failed);
    ft_json_put(root, "runs", runs_json(r, &failed), &failed);
    ft_error error;
    ft_error_save(&error);
    if (outcome != FT_OK && outcome != FT_INTERRUPTED && outcome != FT_TERMINATED)
        ft_json_put(root, "error", ft_json_text(error.message), &failed);
    ft_status status = root == NULL || failed ? ft_fail_memory(0, "run.json") : ft_json_save(path, root);
    if (status == FT_OK) ft_error_restore(&error);
    json_decref(root);
    return status;
}
