// read.c - JSON lines into memory alone: for who learns from a study and needs none of its database.
#include "hpo/exchange/exchange.h"

#include "hpo/exchange/lines.h"

#include <string.h>

typedef struct reading {
    ft_lines lines;
    ft_trials trials;
    int64_t number; // of the trial that is being read
} reading;

static ft_status take_param(void *context, const char *name, const ft_distribution *d, double value) {
    reading *r = context;
    int name_id, distribution_id;
    FT_TRY(ft_trials_name(&r->trials, name, &name_id));
    FT_TRY(ft_trials_distribution(&r->trials, d, &distribution_id));
    return ft_trials_set_param(&r->trials, r->number, name_id, distribution_id, value);
}

static ft_status take_report(void *context, int64_t step, double value) {
    reading *r = context;
    return ft_trials_report(&r->trials, r->number, step, value);
}

static ft_status take_constraints(reading *r, const json_t *line) {
    json_t *constraints;
    FT_TRY(ft_lines_object(&r->lines, line, "constraints", &constraints));
    for (void *at = json_object_iter(constraints); at != NULL; at = json_object_iter_next(constraints, at)) {
        double value;
        int name;
        if (!ft_lines_number(json_object_iter_value(at), &value))
            return ft_lines_bad(&r->lines, "constraints", "must be numbers");
        FT_TRY(ft_trials_constraint_name(&r->trials, json_object_iter_key(at), &name));
        FT_TRY(ft_trials_set_constraint(&r->trials, r->number, name, value));
    }
    return FT_OK;
}

// Trials may have been left out, so their numbers need not run on.
static ft_status take_trial(reading *r, const json_t *line) {
    double values[FT_LINES_OBJECTIVES];
    int64_t number;
    ft_trial_state state;
    int count;
    FT_TRY(ft_lines_trial(&r->lines, line, &number, &state));
    FT_TRY(ft_trials_append(&r->trials, state == FT_WAITING ? FT_WAITING : FT_RUNNING, &r->number));
    FT_TRY(ft_lines_params(&r->lines, line, take_param, r));
    FT_TRY(ft_lines_reports(&r->lines, line, take_report, r));
    FT_TRY(take_constraints(r, line));
    if (!ft_trial_finished(state)) return FT_OK;
    FT_TRY(ft_lines_values(&r->lines, line, state, r->trials.objectives, values, &count));
    return ft_trials_finish(&r->trials, r->number, state, values, count);
}

// Up to the line that begins another one, which is *line then.
static ft_status take_study(reading *r, json_t **line, ft_exchange_taker *take, void *context) {
    bool maximize[FT_LINES_OBJECTIVES];
    const char *name;
    int objectives;
    ft_arena arena = {0};
    FT_TRY(ft_lines_study(&r->lines, *line, &name, maximize, &objectives));
    name = ft_arena_strdup(&arena, name);
    ft_status status = name != NULL ? ft_trials_init(&r->trials, objectives, maximize) : FT_NO_MEMORY;
    while (status == FT_OK) {
        json_decref(*line);
        status = ft_lines_next(&r->lines, line);
        if (status != FT_OK || *line == NULL || json_object_get(*line, "format_version") != NULL) break;
        status = take_trial(r, *line);
    }
    if (status != FT_OK) ft_lines_place_error(&r->lines);
    if (status == FT_OK) status = take(context, name, &r->trials);
    ft_trials_free(&r->trials);
    r->trials = (ft_trials){0};
    ft_arena_free(&arena);
    return status;
}

ft_status ft_exchange_read(const char *path, ft_exchange_taker *take, void *context) {
    reading r = {.number = 0};
    json_t *line = NULL;
    ft_status status = ft_lines_open(path, &r.lines);
    if (status == FT_OK) status = ft_lines_next(&r.lines, &line);
    if (status == FT_OK && line == NULL) status = ft_fail(FT_INVALID, path, "the file is empty");
    while (status == FT_OK && line != NULL)
        status = take_study(&r, &line, take, context);
    json_decref(line);
    ft_lines_close(&r.lines);
    return status;
}
