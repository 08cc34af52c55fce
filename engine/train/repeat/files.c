// files.c - what the runs of one configuration come to, in files like those of a single run.
#include "engine/train/repeat/repeat.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/config/config_json.h"

#include <math.h>
#include <string.h>

// ---- means ----------------------------------------------------------------------------------------------------------------

int ft_repeat_first(const ft_repeat *r, int runs) { return runs > 0 && r->runs[runs - 1].share > 0 ? runs - 1 : 0; }

static bool mean_of(const ft_repeat *r, int runs, const char *metric, double *mean, double *sd) {
    double sum = 0, squares = 0;
    const int first = ft_repeat_first(r, runs), count = runs - first;
    for (int i = first; i < runs; i++) {
        const json_t *value = json_object_get(json_object_get(r->runs[i].json, "metrics"), metric);
        if (!json_is_number(value)) return false;
        sum += json_number_value(value);
    }
    if (runs == 0) return false;
    *mean = sum / count;
    for (int i = first; i < runs; i++) {
        double distance = json_number_value(json_object_get(json_object_get(r->runs[i].json, "metrics"), metric)) - *mean;
        squares += distance * distance;
    }
    *sd = count > 1 ? sqrt(squares / (count - 1)) : NAN;
    return true;
}

bool ft_repeat_mean(const ft_repeat *r, const char *metric, double *mean, double *sd) {
    return mean_of(r, r->done, metric, mean, sd);
}

// ---- metrics.jsonl --------------------------------------------------------------------------------------------------------

// The means of the first `runs` runs, and what the last of them has, as its run.json tells it.
static json_t *line_of(const ft_repeat *r, int runs, bool *failed) {
    const ft_repeat_run *last = &r->runs[runs - 1];
    const json_int_t step = last->share > 0 ? r->runs[0].share / last->share : runs;
    json_t *line = json_pack("{s:i, s:I, s:o, s:O}", "format_version", 1, "step", step, "run", ft_json_text(last->name),
                             "run_metrics", json_object_get(last->json, "metrics"));
    const char *key;
    json_t *value;
    double mean, sd;
    *failed |= line == NULL;
    json_object_foreach(json_object_get(r->runs[ft_repeat_first(r, runs)].json, "metrics"), key, value) {
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

// ---- run.json -------------------------------------------------------------------------------------------------------------

static double sum_of(const ft_repeat *r, const char *object, const char *key) {
    double sum = 0;
    for (int i = 0; i < r->count; i++) {
        const json_t *from = object != NULL ? json_object_get(r->runs[i].json, object) : r->runs[i].json;
        sum += json_number_value(json_object_get(from, key));
    }
    return sum;
}

// The file of the run that took most memory; NULL: there is none.
static ft_status load_largest(const ft_repeat *r, ft_arena *arena, json_t **json) {
    const ft_repeat_run *largest = NULL;
    double most = -1;
    *json = NULL;
    for (int i = 0; i < r->count; i++) {
        double peak = json_number_value(json_object_get(json_object_get(r->runs[i].json, "memory"), "peak_allocated_bytes"));
        if (r->runs[i].json != NULL && peak > most) most = peak, largest = &r->runs[i];
    }
    if (largest == NULL) return FT_OK;
    char *path = ft_path_join(arena, largest->dir, "run.json");
    return path != NULL ? ft_json_load(path, json) : FT_NO_MEMORY;
}

// Of shares the texts are those of the last run, of others each has the same: the largest's.
static ft_status load_last_share(const ft_repeat *r, json_t *largest, ft_arena *arena, json_t **json) {
    const ft_repeat_run *last = NULL;
    for (int i = 0; i < r->count; i++)
        if (r->runs[i].share > 0 && r->runs[i].json != NULL) last = &r->runs[i];
    *json = last == NULL && largest != NULL ? json_incref(largest) : NULL;
    if (last == NULL) return FT_OK;
    char *path = ft_path_join(arena, last->dir, "run.json");
    return path != NULL ? ft_json_load(path, json) : FT_NO_MEMORY;
}

static void put_metrics(const ft_repeat *r, json_t *root, bool *failed) {
    json_t *means = json_object(), *deviations = json_object(), *value;
    const char *key;
    double mean, sd;
    json_object_foreach(r->done > 0 ? json_object_get(r->runs[ft_repeat_first(r, r->done)].json, "metrics") : NULL, key, value) {
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

// What is kept of a run's file until all are done, and what of that is listed: the rest of it grows with classes and with layers.
static const char *const kept[] = {"status", "steps", "epochs", "best", "metrics", "tokens", "seconds", "stopped_early", "memory"};
enum { KEPT = sizeof kept / sizeof kept[0], LISTED = KEPT - 1 };

ft_status ft_repeat_load(const char *path, json_t **json) {
    json_t *whole;
    bool failed = false;
    FT_TRY(ft_json_load(path, &whole));
    *json = json_object();
    for (int k = 0; k < KEPT; k++) {
        json_t *value = json_object_get(whole, kept[k]);
        if (value != NULL) ft_json_put(*json, kept[k], json_incref(value), &failed);
    }
    json_decref(whole);
    if (*json != NULL && !failed) return FT_OK;
    json_decref(*json);
    *json = NULL;
    return ft_fail_memory(0, path);
}

static json_t *runs_json(const ft_repeat *r, bool *failed) {
    json_t *list = json_array();
    for (int i = 0; i < r->count; i++) {
        const ft_repeat_run *run = &r->runs[i];
        if (run->json == NULL) continue;
        json_t *entry = json_pack("{s:o, s:I}", "name", ft_json_text(run->name), "seed", (json_int_t)run->seed);
        if (run->share > 0) ft_json_put(entry, "share", json_integer((json_int_t)run->share), failed);
        if (run->fold > 0) ft_json_put(entry, "fold", json_integer((json_int_t)run->fold), failed);
        for (int k = 0; k < LISTED; k++) {
            json_t *value = json_object_get(run->json, kept[k]);
            if (value != NULL) ft_json_put(entry, kept[k], json_incref(value), failed);
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
                                         "sites", "model"};
    ft_error error; // writing must not replace the error that it reports
    ft_error_save(&error);
    json_t *largest, *last;
    FT_TRY(load_largest(r, &r->arena, &largest));
    FT_TRY(load_last_share(r, largest, &r->arena, &last));
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
    ft_json_put(root, "data", data_json(r, last, &failed), &failed);
    ft_json_put(root, "config", ft_config_json(r->config, &failed), &failed);
    ft_json_put(root, "runs", runs_json(r, &failed), &failed);
    json_decref(largest);
    json_decref(last);
    if (outcome != FT_OK && outcome != FT_INTERRUPTED && outcome != FT_TERMINATED)
        ft_json_put(root, "error", ft_json_text(error.message), &failed);
    ft_status status = root == NULL || failed ? ft_fail_memory(0, "run.json") : ft_json_save(path, root);
    if (status == FT_OK) ft_error_restore(&error);
    json_decref(root);
    return status;
}
