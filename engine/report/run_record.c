#include "engine/report/run_record.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/config/config_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CURVES = 128 };

// ---- metrics.jsonl ------------------------------------------------------------------------------------------------------

static ft_run_curve *curve_named(ft_run_record *r, const char *name) {
    for (int i = 0; i < r->curve_count; i++)
        if (strcmp(r->curves[i].name, name) == 0) return &r->curves[i];
    if (r->curve_count == MOST_CURVES) return NULL;
    ft_run_curve *curve = &r->curves[r->curve_count];
    *curve = (ft_run_curve){.name = ft_arena_strdup(&r->arena, name)};
    if (curve->name != NULL) r->curve_count++;
    return curve->name != NULL ? curve : NULL;
}

static ft_status add_point(ft_run_curve *c, double step, double value) {
    if (c->count == c->capacity) {
        int64_t capacity = c->capacity > 0 ? 2 * c->capacity : 64;
        double *steps = ft_realloc(c->step, (size_t)capacity, sizeof *steps, "a curve");
        if (steps == NULL) return FT_NO_MEMORY;
        c->step = steps;
        double *values = ft_realloc(c->value, (size_t)capacity, sizeof *values, "a curve");
        if (values == NULL) return FT_NO_MEMORY;
        c->value = values;
        c->capacity = capacity;
    }
    c->step[c->count] = step;
    c->value[c->count++] = value;
    return FT_OK;
}

static ft_status take_line(void *context, const json_t *line) {
    ft_run_record *r = context;
    const json_t *step = json_object_get(line, "step"), *value;
    const char *key;
    if (!json_is_integer(step)) return ft_fail(FT_INVALID, r->path, "a line of metrics.jsonl has no step");
    json_object_foreach((json_t *)line, key, value) {
        if (!json_is_number(value) || strcmp(key, "step") == 0 || strcmp(key, "format_version") == 0) continue;
        ft_run_curve *curve = curve_named(r, key);
        if (curve == NULL) return r->curve_count == MOST_CURVES ? FT_OK : FT_NO_MEMORY;
        FT_TRY(add_point(curve, json_number_value(step), json_number_value(value)));
    }
    return FT_OK;
}

// ---- options ------------------------------------------------------------------------------------------------------------

static ft_status options_of_file(const struct ft_section *const *sections, const char *path, json_t **options) {
    ft_config config = {0};
    bool failed = false;
    ft_status status = ft_config_load_with(sections, &config, 1, &path, 0, NULL);
    if (status == FT_OK) *options = ft_config_json(&config, &failed);
    ft_config_free(&config);
    return failed ? ft_fail_memory(0, "the options of a run") : status;
}

// ---- figures ------------------------------------------------------------------------------------------------------------

// The names are those of a study's objective (hpo/space/objective.h); `member` of `object`, or of run.json itself.
static const struct {
    const char *name, *object, *member;
} figures[] = {
    {"best.step", "best", "step"},
    {"steps", NULL, "steps"},
    {"epochs", NULL, "epochs"},
    {"tokens", NULL, "tokens"},
    {"tokens_per_second", NULL, "tokens_per_second"},
    {"seconds.total", "seconds", "total"},
    {"seconds.train", "seconds", "train"},
    {"seconds.eval", "seconds", "eval"},
    {"memory.peak_requested_bytes", "memory", "peak_requested_bytes"},
    {"memory.peak_allocated_bytes", "memory", "peak_allocated_bytes"},
    {"memory.peak_reserved_bytes", "memory", "peak_reserved_bytes"},
    {"memory.outside_allocator_bytes", "memory", "outside_allocator_bytes"},
};
enum { FIGURES = sizeof figures / sizeof figures[0] };

// "eval_accuracy" is called eval.accuracy.
static void put_metric(ft_run_record *r, const char *key, double value, bool *failed) {
    char name[128];
    snprintf(name, sizeof name, "%s", key);
    size_t section = strcspn(name, "_");
    bool known = section == 4 || section == 5; // eval, test, train
    if (known && name[section] == '_') name[section] = '.';
    if (isfinite(value)) ft_json_put(r->figures, name, json_real(value), failed);
}

static void figures_of_run(ft_run_record *r, bool *failed) {
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(r->run, "metrics"), key, value) {
        if (json_is_number(value)) put_metric(r, key, json_number_value(value), failed);
        const json_t *sd = json_object_get(json_object_get(r->run, "metrics_sd"), key); // of several runs
        char name[128];
        snprintf(name, sizeof name, "%s.sd", key);
        if (json_is_number(sd)) put_metric(r, name, json_number_value(sd), failed);
    }
    for (int i = 0; i < FIGURES; i++) {
        const json_t *object = figures[i].object != NULL ? json_object_get(r->run, figures[i].object) : r->run;
        json_t *number = json_object_get(object, figures[i].member);
        if (json_is_number(number)) ft_json_put(r->figures, figures[i].name, json_incref(number), failed);
    }
}

static void figures_of_lines(ft_run_record *r, bool *failed) {
    double steps = 0;
    for (int i = 0; i < r->curve_count; i++) {
        const ft_run_curve *c = &r->curves[i];
        if (c->count == 0) continue;
        double last = c->value[c->count - 1];
        steps = fmax(steps, c->step[c->count - 1]);
        if (strncmp(c->name, "eval_", 5) == 0)
            put_metric(r, c->name, last, failed);
        else if (strcmp(c->name, "loss") == 0)
            put_metric(r, "train_loss", last, failed);
        else if (strcmp(c->name, "tokens_per_second") == 0)
            put_metric(r, c->name, last, failed);
    }
    ft_json_put(r->figures, "steps", json_integer((json_int_t)steps), failed);
}

// ---- the directory ------------------------------------------------------------------------------------------------------

static bool holds(const char *path, const char *name) {
    ft_arena arena = {0};
    char *file = ft_path_join(&arena, path, name);
    bool there = file != NULL && ft_path_exists(file);
    ft_arena_free(&arena);
    return there;
}

// A study's directory has a config.ini too.
bool ft_run_is_there(const char *path) {
    return holds(path, "run.json") || (holds(path, "config.ini") && !holds(path, "trials"));
}

static ft_status no_run(const char *path) {
    if (!ft_path_is_directory(path)) {
        ft_fail(FT_INVALID, path, ft_path_exists(path) ? "not a run directory but a file" : "no such run directory");
        ft_hint("give the directory of a run, as runs/quickstart-001");
        return FT_INVALID;
    }
    ft_fail(FT_INVALID, path, "this directory is not a run: it has no run.json");
    if (holds(path, "trials"))
        ft_hint("this is a study; its runs are in %s/trials", path);
    else if (holds(path, "config.json"))
        ft_hint("this is a model; give the run directory that it is in");
    else
        ft_hint("`ftengine train` writes run directories");
    return FT_INVALID;
}

// The last part of the path; a trial's alone would be a bare number.
static const char *name_of(ft_arena *arena, const char *path) {
    char *absolute = ft_path_absolute(arena, NULL, path);
    if (absolute == NULL) return NULL;
    char *slash = strrchr(absolute, '/');
    const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : absolute;
    if (name == absolute || strspn(name, "0123456789") != strlen(name)) return name;
    *slash = '\0'; // .../STUDY/trials/00042
    char *trials = strrchr(absolute, '/');
    if (trials == NULL || strcmp(trials, "/trials") != 0) return name;
    *trials = '\0';
    char *study = strrchr(absolute, '/');
    return ft_arena_format(arena, "%s/%s", study != NULL ? study + 1 : absolute, name);
}

static ft_status read_all(const struct ft_section *const *sections, ft_run_record *r) {
    char *run = ft_path_join(&r->arena, r->path, "run.json"), *config = ft_path_join(&r->arena, r->path, "config.ini");
    char *lines = ft_path_join(&r->arena, r->path, "metrics.jsonl");
    r->name = name_of(&r->arena, r->path);
    r->curves = ft_arena_alloc(&r->arena, MOST_CURVES * sizeof *r->curves);
    r->figures = json_object();
    if (!run || !config || !lines || !r->name || !r->curves) return FT_NO_MEMORY;
    if (ft_path_exists(run)) FT_TRY(ft_json_load(run, &r->run));
    if (r->run != NULL && !json_is_object(r->run)) return ft_fail(FT_INVALID, run, "must be a JSON object");
    const json_t *options = json_object_get(r->run, "config");
    if (json_is_object(options))
        r->config = json_incref((json_t *)options);
    else
        FT_TRY(options_of_file(sections, config, &r->config));
    FT_TRY(ft_json_string(r->run, run, "status", "unfinished", &r->status));
    FT_TRY(ft_json_lines_read(lines, take_line, r));
    bool failed = r->figures == NULL;
    if (r->run != NULL)
        figures_of_run(r, &failed);
    else
        figures_of_lines(r, &failed);
    return failed ? ft_fail_memory(0, "the figures of a run") : FT_OK;
}

ft_status ft_run_record_open(const struct ft_section *const *sections, const char *path, ft_run_record *r) {
    *r = (ft_run_record){.path = path, .status = "unfinished"};
    return ft_run_is_there(path) ? read_all(sections, r) : no_run(path);
}

void ft_run_record_close(ft_run_record *r) {
    for (int i = 0; i < r->curve_count; i++) {
        free(r->curves[i].step);
        free(r->curves[i].value);
    }
    json_decref(r->run);
    json_decref(r->config);
    json_decref(r->figures);
    ft_arena_free(&r->arena);
    memset(r, 0, sizeof *r);
}

const ft_run_curve *ft_run_curve_find(const ft_run_record *r, const char *name) {
    for (int i = 0; i < r->curve_count; i++)
        if (strcmp(r->curves[i].name, name) == 0 && r->curves[i].count > 0) return &r->curves[i];
    return NULL;
}

const char *ft_run_option(const ft_run_record *r, const char *name) {
    return json_string_value(json_object_get(r->config, name));
}
