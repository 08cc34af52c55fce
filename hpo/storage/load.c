// load.c - from the tables into the history in memory, and what other processes wrote since.
#include "hpo/storage/internal.h"

#include "hpo/storage/distribution_json.h"
#include "hpo/storage/pyjson.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// What is known of a parameter's name. A study repeats the same few distributions: their text is compared, not parsed
// again.
struct ft_seen_param {
    char *json; // of the distribution seen last
    int distribution;
    int first; // -1: none yet. All others of the name must be compatible with it
};

// ---- errors ---------------------------------------------------------------------------------------------------------

static const char *place(const ft_stored *study, int64_t number, char where[512]) {
    snprintf(where, 512, "%.400s, trial %lld", study->storage->path, (long long)number);
    return where;
}

static ft_status bad(const ft_stored *study, int64_t number, const char *what) {
    char where[512];
    return ft_fail(FT_INVALID, place(study, number, where), "%s", what);
}

// Sets WHERE for errors of the history's own checks, which know the number but not the file.
static ft_status in_trial(const ft_stored *study, int64_t number, ft_status status) {
    if (status != FT_OK) ft_hint("in %s, trial %lld", study->storage->path, (long long)number);
    return status;
}

static const double MOST_WHOLE = 9007199254740992.0; // of what a double counts

// ---- parameters -----------------------------------------------------------------------------------------------------

static ft_status seen_of(ft_stored *study, const char *name, int *id) {
    FT_TRY(ft_trials_name(&study->trials, name, id));
    if (*id < study->seen_capacity) return FT_OK;
    int wanted = 2 * (*id + 4);
    struct ft_seen_param *grown = ft_realloc(study->seen, (size_t)wanted, sizeof *grown, "names of parameters");
    if (grown == NULL) return FT_NO_MEMORY;
    study->seen = grown;
    for (; study->seen_capacity < wanted; study->seen_capacity++)
        grown[study->seen_capacity] = (struct ft_seen_param){NULL, -1, -1};
    return FT_OK;
}

// Takes over `json`.
static void remember(struct ft_seen_param *seen, int distribution, char *json) {
    free(seen->json);
    seen->json = json;
    seen->distribution = distribution;
    if (seen->first < 0) seen->first = distribution;
}

ft_status ft_stored_compatible(const ft_stored *study, const char *name, const ft_distribution *distribution) {
    int id = ft_trials_find_name(&study->trials, name);
    if (id < 0 || id >= study->seen_capacity || study->seen[id].first < 0) return FT_OK;
    const ft_distribution *first = study->trials.distributions[study->seen[id].first];
    if (ft_distribution_compatible(first, distribution)) return FT_OK;
    ft_status status = ft_fail(FT_INVALID, name, "the study has this parameter with %s",
                               first->kind != distribution->kind      ? "another kind of values"
                               : distribution->kind == FT_CATEGORICAL ? "other choices"
                                                                      : "another log flag");
    ft_hint("give the parameter another name, or begin a new study");
    return status;
}

ft_status ft_stored_seen(ft_stored *study, const char *name, const ft_distribution *distribution, int *name_id,
                         int *distribution_id, const char **json) {
    FT_TRY(ft_stored_compatible(study, name, distribution));
    FT_TRY(seen_of(study, name, name_id));
    struct ft_seen_param *seen = &study->seen[*name_id];
    FT_TRY(ft_trials_distribution(&study->trials, distribution, distribution_id));
    if (seen->json == NULL || seen->distribution != *distribution_id) {
        char *text;
        FT_TRY(ft_distribution_to_json(distribution, &text));
        remember(seen, *distribution_id, text);
    }
    *json = seen->json;
    return FT_OK;
}

static ft_status load_param(ft_stored *study, int64_t number) {
    ft_storage *storage = study->storage;
    const char *name = ft_sql_text(storage, FT_SQL_PARAMS, 0), *json = ft_sql_text(storage, FT_SQL_PARAMS, 2);
    double value;
    if (name == NULL || json == NULL)
        return bad(study, number, "a parameter has no name or no distribution that is UTF-8");
    if (!ft_sql_double(storage, FT_SQL_PARAMS, 1, &value) || !isfinite(value))
        return bad(study, number, "a parameter's value is not a number");
    int id;
    FT_TRY(seen_of(study, name, &id));
    struct ft_seen_param *seen = &study->seen[id];
    if (seen->json == NULL || strcmp(seen->json, json) != 0) {
        char where[512];
        place(study, number, where);
        ft_arena arena = {0};
        ft_distribution distribution;
        int distribution_id = -1;
        ft_status status = ft_distribution_from_json(json, where, &arena, &distribution);
        if (status == FT_OK) status = ft_trials_distribution(&study->trials, &distribution, &distribution_id);
        ft_arena_free(&arena);
        FT_TRY(status);
        char *copy = strdup(json);
        if (copy == NULL) return ft_fail_memory(strlen(json), "a distribution");
        remember(seen, distribution_id, copy);
    }
    const ft_distribution *d = study->trials.distributions[seen->distribution];
    if (d->kind != FT_FLOAT) value = trunc(value); // as Optuna makes an int of it
    if (d->kind == FT_INT && fabs(value) > MOST_WHOLE) return bad(study, number, "a parameter's value is no integer within +-2^53");
    if (d->kind == FT_CATEGORICAL && !ft_distribution_contains(d, value))
        return bad(study, number, "a parameter's value is no index of its choices");
    if (d->log && value <= 0) return bad(study, number, "a parameter with log has a value that is not positive");
    return in_trial(study, number, ft_trials_set_param(&study->trials, number, id, seen->distribution, value));
}

// ---- system attributes ----------------------------------------------------------------------------------------------

enum { MOST_RUNGS = 64, MOST_PIECES = 4096 };

// What the system attributes of one trial say, gathered before it is used: their order is no matter.
typedef struct gathered {
    double rungs[MOST_RUNGS];
    bool has_rung[MOST_RUNGS];
    char **pieces; // [MOST_PIECES] of tpe:relative_params
    json_t *list;  // of constraints
    json_t *named;
} gathered;

// The number behind `prefix` of a key, -1 when it is no such key or not below `most`.
static int index_behind(const char *key, const char *prefix, int most) {
    size_t length = strlen(prefix);
    if (strncmp(key, prefix, length) != 0) return -1;
    char *end;
    long index = strtol(key + length, &end, 10);
    return end != key + length && *end == '\0' && index >= 0 && index < most ? (int)index : -1;
}

static ft_status gather(ft_stored *study, int64_t number, const char *key, const char *json, gathered *g) {
    int rung = index_behind(key, "completed_rung_", MOST_RUNGS);
    int piece = index_behind(key, "tpe:relative_params:", MOST_PIECES);
    bool list = strcmp(key, "constraints") == 0, named = strncmp(key, "constraints:", 12) == 0;
    if (rung < 0 && piece < 0 && !list && !named) return FT_OK;
    char where[512];
    json_t *value;
    FT_TRY(ft_pyjson_parse(json, place(study, number, where), &value));
    ft_status status = FT_OK;
    if (rung >= 0) {
        g->has_rung[rung] = ft_pyjson_number(value, &g->rungs[rung]);
        if (!g->has_rung[rung]) status = bad(study, number, "a completed rung is not a number");
    } else if (piece >= 0) {
        if (g->pieces == NULL) g->pieces = ft_calloc(MOST_PIECES, sizeof *g->pieces, "relative parameters");
        if (g->pieces == NULL)
            status = FT_NO_MEMORY;
        else if (json_is_string(value) && g->pieces[piece] == NULL)
            g->pieces[piece] = strdup(json_string_value(value)); // without memory: as if it were not written yet
    } else if (list) {
        json_decref(g->list);
        g->list = json_incref(value);
    } else {
        if (g->named == NULL) g->named = json_object();
        if (json_object_set_nocheck(g->named, key + 12, value) != 0) status = ft_fail_memory(0, "constraints");
    }
    json_decref(value);
    return status;
}

static ft_status set_constraint(ft_stored *study, int64_t number, const char *name, const json_t *value) {
    double amount;
    if (!ft_pyjson_number(value, &amount)) return bad(study, number, "a constraint is not a number");
    int id;
    FT_TRY(ft_trials_constraint_name(&study->trials, name, &id));
    return in_trial(study, number, ft_trials_set_constraint(&study->trials, number, id, amount));
}

static ft_status use_constraints(ft_stored *study, int64_t number, const gathered *g) {
    if (g->list != NULL && !json_is_null(g->list) && !json_is_array(g->list))
        return bad(study, number, "the constraints are no list");
    for (size_t i = 0; i < json_array_size(g->list); i++) {
        char name[24];
        snprintf(name, sizeof name, "%zu", i);
        if (json_object_get(g->named, name) != NULL) continue; // the named one wins
        FT_TRY(set_constraint(study, number, name, json_array_get(g->list, i)));
    }
    for (void *at = json_object_iter(g->named); at != NULL; at = json_object_iter_next(g->named, at))
        FT_TRY(set_constraint(study, number, json_object_iter_key(at), json_object_iter_value(at)));
    return FT_OK;
}

// A parameter drawn but not asked for yet. Its distribution is not stored: it is the one the name had last.
static ft_status use_relative(ft_stored *study, int64_t number, const char *name, const json_t *value) {
    int id = ft_trials_find_name(&study->trials, name);
    if (id < 0 || id >= study->seen_capacity || study->seen[id].distribution < 0) return FT_OK;
    int distribution = study->seen[id].distribution;
    const ft_distribution *d = study->trials.distributions[distribution];
    ft_choice choice;
    double internal;
    if (d->kind == FT_CATEGORICAL) {
        if (!ft_pyjson_scalar(value, &choice)) return FT_OK;
        internal = ft_distribution_find_choice(d, &choice);
        if (internal < 0) return FT_OK;
    } else if (!ft_pyjson_number(value, &internal) || !isfinite(internal) || (d->log && internal <= 0) ||
               (d->kind == FT_INT && fabs(internal) > MOST_WHOLE)) {
        return FT_OK;
    }
    return ft_trials_set_relative(&study->trials, number, id, distribution, internal);
}

// Another worker may be between two pieces: text that does not parse yet counts as none.
static ft_status use_pieces(ft_stored *study, int64_t number, const gathered *g) {
    if (g->pieces == NULL || g->pieces[0] == NULL) return FT_OK;
    ft_text_stream stream;
    FT_TRY(ft_text_open(&stream));
    for (int i = 0; i < MOST_PIECES && g->pieces[i] != NULL; i++)
        fputs(g->pieces[i], stream.file);
    char *text;
    FT_TRY(ft_text_close(&stream, &text));
    json_t *object;
    ft_status status = ft_pyjson_parse(text, "tpe:relative_params", &object);
    free(text);
    if (status == FT_INVALID) {
        ft_error_clear();
        return FT_OK;
    }
    if (status != FT_OK) return status;
    for (void *at = json_object_iter(object); status == FT_OK && at != NULL; at = json_object_iter_next(object, at))
        status = use_relative(study, number, json_object_iter_key(at), json_object_iter_value(at));
    json_decref(object);
    return status;
}

static ft_status use_gathered(ft_stored *study, int64_t number, ft_trial_state state, const gathered *g) {
    FT_TRY(use_constraints(study, number, g));
    for (int i = study->trials.trial[number].rung_count; i < MOST_RUNGS && g->has_rung[i]; i++)
        FT_TRY(ft_trials_add_rung(&study->trials, number, g->rungs[i]));
    return state == FT_RUNNING ? use_pieces(study, number, g) : FT_OK;
}

static ft_status load_system_attributes(ft_stored *study, int64_t number, ft_trial_state state) {
    ft_storage *storage = study->storage;
    gathered g = {.pieces = NULL};
    ft_status status = ft_sql_bind(storage, FT_SQL_SYSTEM_ATTRIBUTES, "i", study->trial_ids[number]);
    bool row = false, any = false;
    while (status == FT_OK && (status = ft_sql_step(storage, FT_SQL_SYSTEM_ATTRIBUTES, &row)) == FT_OK && row) {
        const char *key = ft_sql_text(storage, FT_SQL_SYSTEM_ATTRIBUTES, 0);
        const char *json = ft_sql_text(storage, FT_SQL_SYSTEM_ATTRIBUTES, 1);
        status = key != NULL && json != NULL
                     ? gather(study, number, key, json, &g)
                     : bad(study, number, "a system attribute has no name or no value that is UTF-8");
        any = true;
    }
    if (status == FT_OK && any) status = use_gathered(study, number, state, &g);
    ft_sql_reset(storage, FT_SQL_SYSTEM_ATTRIBUTES);
    for (int i = 0; g.pieces != NULL && i < MOST_PIECES; i++)
        free(g.pieces[i]);
    free(g.pieces);
    json_decref(g.list);
    json_decref(g.named);
    return status;
}

// ---- values and reports ---------------------------------------------------------------------------------------------

static ft_status load_reports(ft_stored *study, int64_t number) {
    ft_storage *storage = study->storage;
    FT_TRY(ft_sql_bind(storage, FT_SQL_REPORTS, "i", study->trial_ids[number]));
    for (;;) {
        bool row;
        FT_TRY(ft_sql_step(storage, FT_SQL_REPORTS, &row));
        if (!row) return FT_OK;
        int64_t step;
        double value;
        if (!ft_sql_int(storage, FT_SQL_REPORTS, 0, &step) || !ft_sql_typed(storage, FT_SQL_REPORTS, 1, &value))
            return bad(study, number, "an intermediate value is no number");
        FT_TRY(in_trial(study, number, ft_trials_report(&study->trials, number, step, value)));
    }
}

static ft_status load_values(ft_stored *study, int64_t number, double *values, int *count) {
    ft_storage *storage = study->storage;
    FT_TRY(ft_sql_bind(storage, FT_SQL_VALUES, "i", study->trial_ids[number]));
    for (*count = 0;; ++*count) {
        bool row;
        FT_TRY(ft_sql_step(storage, FT_SQL_VALUES, &row));
        if (!row) return FT_OK;
        int64_t objective;
        double value;
        if (!ft_sql_int(storage, FT_SQL_VALUES, 0, &objective) || objective != *count ||
            objective >= study->trials.objectives)
            return bad(study, number, "its values do not belong to the study's objectives");
        if (!ft_sql_typed(storage, FT_SQL_VALUES, 1, &value) || isnan(value))
            return bad(study, number, "its value is no number");
        values[objective] = value;
    }
}

static ft_status finish(ft_stored *study, int64_t number, ft_trial_state state) {
    double *values = ft_calloc((size_t)study->trials.objectives, sizeof *values, "values of a trial");
    if (values == NULL) return FT_NO_MEMORY;
    int count = 0;
    ft_status status = load_values(study, number, values, &count);
    ft_sql_reset(study->storage, FT_SQL_VALUES);
    if (status == FT_OK && state == FT_COMPLETE && count != study->trials.objectives)
        status = bad(study, number, "it is COMPLETE without a value for every objective");
    // Optuna lets programs add failed trials with values, and pruned ones of several objectives; nobody reads them.
    if (state == FT_FAIL || (state == FT_PRUNED && study->trials.objectives > 1)) count = 0;
    if (status == FT_OK)
        status = in_trial(study, number, ft_trials_finish(&study->trials, number, state, values, count));
    free(values);
    return status;
}

// ---- trials ---------------------------------------------------------------------------------------------------------

ft_status ft_stored_append(ft_stored *study, int64_t trial_id, ft_trial_state state, int64_t *number) {
    if (study->trials.count == study->id_capacity) {
        int64_t wanted = study->id_capacity > 0 ? 2 * study->id_capacity : 64;
        int64_t *grown = ft_realloc(study->trial_ids, (size_t)wanted, sizeof *grown, "trials");
        if (grown == NULL) return FT_NO_MEMORY;
        study->trial_ids = grown;
        study->id_capacity = wanted;
    }
    FT_TRY(ft_trials_append(&study->trials, state == FT_WAITING ? FT_WAITING : FT_RUNNING, number));
    study->trial_ids[*number] = trial_id;
    return FT_OK;
}

// Everything of one trial that is unfinished in memory; what is known already is only confirmed.
static ft_status load_trial(ft_stored *study, int64_t number, ft_trial_state state) {
    ft_storage *storage = study->storage;
    if (state != FT_WAITING && study->trials.trial[number].state == FT_WAITING)
        FT_TRY(ft_trials_start(&study->trials, number));
    FT_TRY(ft_sql_bind(storage, FT_SQL_PARAMS, "i", study->trial_ids[number]));
    for (;;) {
        bool row;
        FT_TRY(ft_sql_step(storage, FT_SQL_PARAMS, &row));
        if (!row) break;
        FT_TRY(load_param(study, number));
    }
    FT_TRY(load_reports(study, number));
    FT_TRY(load_system_attributes(study, number, state));
    return ft_trial_finished(state) ? finish(study, number, state) : FT_OK;
}

static ft_status load_new(ft_stored *study) {
    ft_storage *storage = study->storage;
    int64_t last = study->trials.count > 0 ? study->trial_ids[study->trials.count - 1] : -1;
    FT_TRY(ft_sql_bind(storage, FT_SQL_TRIALS_AFTER, "ii", study->id, last));
    for (;;) {
        bool row;
        FT_TRY(ft_sql_step(storage, FT_SQL_TRIALS_AFTER, &row));
        if (!row) return FT_OK;
        int64_t trial_id, number, at;
        ft_trial_state state;
        FT_TRY(in_trial(study, study->trials.count, ft_state_of(ft_sql_text(storage, FT_SQL_TRIALS_AFTER, 2), &state)));
        if (!ft_sql_int(storage, FT_SQL_TRIALS_AFTER, 0, &trial_id) ||
            !ft_sql_int(storage, FT_SQL_TRIALS_AFTER, 1, &number) || number != study->trials.count)
            return bad(study, study->trials.count,
                       "there is no trial of this number: they must run from 0 without gaps");
        FT_TRY(ft_stored_append(study, trial_id, state, &at));
        FT_TRY(load_trial(study, at, state));
    }
}

static ft_status load_changed(ft_stored *study) {
    for (int64_t number = 0; number < study->trials.count; number++) {
        if (ft_trial_finished(study->trials.trial[number].state)) continue;
        bool row;
        ft_trial_state state = FT_RUNNING;
        FT_TRY(ft_sql_bind(study->storage, FT_SQL_TRIAL, "i", study->trial_ids[number]));
        FT_TRY(ft_sql_step(study->storage, FT_SQL_TRIAL, &row));
        if (!row) return bad(study, number, "it has gone from the database");
        ft_status status = ft_state_of(ft_sql_text(study->storage, FT_SQL_TRIAL, 0), &state);
        ft_sql_reset(study->storage, FT_SQL_TRIAL);
        FT_TRY(in_trial(study, number, status));
        FT_TRY(load_trial(study, number, state));
    }
    return FT_OK;
}

ft_status ft_stored_refresh(ft_stored *study) {
    ft_storage *storage = study->storage;
    bool news;
    FT_TRY(storage->is->look(study, &news));
    if (!news) return FT_OK;
    ft_status status = load_changed(study);
    if (status == FT_OK) status = load_new(study);
    for (int id = FT_SQL_TRIALS_AFTER; id <= (int)FT_SQL_SYSTEM_ATTRIBUTES; id++)
        ft_sql_reset(storage, (ft_sql)id);
    storage->is->looked(study, status == FT_OK);
    return status;
}

static ft_status load_directions(ft_stored *study) {
    enum { MOST_OBJECTIVES = 64 };
    ft_storage *storage = study->storage;
    bool maximize[MOST_OBJECTIVES], row;
    int count = 0;
    FT_TRY(ft_sql_bind(storage, FT_SQL_DIRECTIONS, "i", study->id));
    for (;; count++) {
        FT_TRY(ft_sql_step(storage, FT_SQL_DIRECTIONS, &row));
        if (!row) break;
        int64_t objective;
        const char *direction = ft_sql_text(storage, FT_SQL_DIRECTIONS, 1);
        bool known = direction != NULL && (strcmp(direction, "MINIMIZE") == 0 || strcmp(direction, "MAXIMIZE") == 0);
        bool in_order = ft_sql_int(storage, FT_SQL_DIRECTIONS, 0, &objective) && objective == count;
        if (!known || !in_order || count == MOST_OBJECTIVES) {
            ft_sql_reset(storage, FT_SQL_DIRECTIONS);
            return ft_fail(FT_INVALID, storage->path, "study '%s' has no proper directions", study->name);
        }
        maximize[count] = direction[1] == 'A';
    }
    if (count == 0) return ft_fail(FT_INVALID, storage->path, "study '%s' has no directions", study->name);
    return ft_trials_init(&study->trials, count, maximize);
}

ft_status ft_stored_load(ft_storage *storage, int64_t id, const char *name, ft_stored **out) {
    *out = NULL;
    ft_stored *study = ft_calloc(1, sizeof *study, "a study");
    if (study == NULL) return FT_NO_MEMORY;
    study->storage = storage;
    study->id = id;
    study->data_version = -1;
    study->name = strdup(name);
    ft_status status = study->name != NULL ? load_directions(study) : ft_fail_memory(strlen(name), "a name");
    if (status == FT_OK) status = ft_stored_refresh(study);
    if (status == FT_OK)
        *out = study;
    else
        ft_stored_close(study);
    return status;
}

void ft_stored_close(ft_stored *study) {
    if (study == NULL) return;
    for (int i = 0; i < study->seen_capacity; i++)
        free(study->seen[i].json);
    free(study->seen);
    free(study->trial_ids);
    free(study->name);
    ft_trials_free(&study->trials);
    free(study);
}
