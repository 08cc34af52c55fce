// write.c - changes of trials: to the file, then to the history in memory. Every statement writes only while the trial
// is unfinished in the file too, so a trial that another process has finished stays as it is.
#include "hpo/storage/internal.h"

#include "hpo/storage/pyjson.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Ends a group: commits, or rolls back and keeps the error.
static ft_status end_group(ft_stored *study, ft_status status) {
    if (status == FT_OK) status = ft_storage_commit(study->storage);
    if (status != FT_OK) ft_storage_rollback(study->storage);
    return status;
}

// ---- begin of a trial -----------------------------------------------------------------------------------------------

// Holding the write lock nobody else can add trials: after a refresh ours is the next number.
static ft_status insert_trial(ft_stored *study, ft_trial_state state, int64_t *trial_id) {
    char now[32];
    ft_sql_now(now);
    study->storage->next =
        &(ft_next_trial){.state = ft_trial_state_name(state), .start = state == FT_RUNNING ? now : NULL};
    const ft_status status = ft_stored_refresh(study);
    study->storage->next = NULL;
    FT_TRY(status);
    FT_TRY(ft_sql_run(study->storage, FT_SQL_TRIAL_INSERT, NULL, state == FT_RUNNING ? "iitt" : "iitn",
                      study->trials.count, study->id, ft_trial_state_name(state), now));
    *trial_id = ft_sql_last_id(study->storage);
    return FT_OK;
}

ft_status ft_stored_ask(ft_stored *study, ft_trial_state state, int64_t *number) {
    *number = -1;
    if (ft_trial_finished(state)) return ft_fail(FT_FAILED, "study", "a new trial is RUNNING or WAITING");
    int64_t trial_id = 0;
    FT_TRY(ft_storage_begin(study->storage));
    FT_TRY(end_group(study, insert_trial(study, state, &trial_id)));
    return ft_stored_append(study, trial_id, state, number);
}

static ft_status fixed_json(const ft_fixed_param *params, int count, char **text) {
    ft_text_stream stream;
    FT_TRY(ft_text_open(&stream));
    putc('{', stream.file);
    for (int i = 0; i < count; i++) {
        if (i > 0) fputs(", ", stream.file);
        ft_pyjson_write_text(stream.file, params[i].name);
        fputs(": ", stream.file);
        ft_pyjson_write_scalar(stream.file, &params[i].value);
    }
    putc('}', stream.file);
    return ft_text_close(&stream, text);
}

// In one transaction: another worker must not take the trial before its parameters are there.
static ft_status enqueue(ft_stored *study, const char *json, int64_t *number) {
    FT_TRY(ft_storage_begin(study->storage));
    ft_status status = ft_stored_ask(study, FT_WAITING, number);
    if (status == FT_OK) status = ft_stored_set_attribute(study, *number, FT_SYSTEM_ATTRIBUTE, "fixed_params", json);
    if (status == FT_OK) return ft_storage_commit(study->storage);
    ft_storage_rollback(study->storage);
    return status;
}

ft_status ft_stored_enqueue(ft_stored *study, const ft_fixed_param *params, int count, int64_t *number) {
    *number = -1;
    char *json;
    FT_TRY(fixed_json(params, count, &json));
    ft_status status = enqueue(study, json, number);
    free(json);
    return status;
}

ft_status ft_stored_start(ft_stored *study, int64_t number, bool *started) {
    char now[32];
    int changed;
    ft_sql_now(now);
    FT_TRY(ft_sql_run(study->storage, FT_SQL_TRIAL_START, &changed, "it", study->trial_ids[number], now));
    *started = changed != 0; // else the next refresh will see it
    return *started ? ft_trials_start(&study->trials, number) : FT_OK;
}

ft_status ft_stored_pop(ft_stored *study, int64_t *number) {
    bool started = false;
    *number = -1;
    FT_TRY(ft_stored_refresh(study));
    for (int64_t i = 0; i < study->trials.count && !started; i++) {
        if (study->trials.trial[i].state != FT_WAITING) continue;
        FT_TRY(ft_stored_start(study, i, &started));
        if (started) *number = i;
    }
    return FT_OK;
}

// ---- parameters -----------------------------------------------------------------------------------------------------

ft_status ft_stored_param(ft_stored *study, int64_t number, const char *name, const ft_distribution *distribution,
                          double value) {
    FT_TRY(ft_stored_changeable(study, number));
    if (!isfinite(value)) return ft_fail(FT_INVALID, name, "a parameter cannot be %g", value);
    if (distribution->kind == FT_CATEGORICAL && !ft_distribution_contains(distribution, value))
        return ft_fail(FT_INVALID, name, "there is no choice %g", value);
    int name_id, distribution_id, changed;
    const char *json;
    FT_TRY(ft_stored_seen(study, name, distribution, &name_id, &distribution_id, &json));
    FT_TRY(ft_sql_run(study->storage, FT_SQL_PARAM_SET, &changed, "itdt", study->trial_ids[number], name, value, json));
    if (changed == 0) return ft_stored_gone(study, number);
    return ft_trials_set_param(&study->trials, number, name_id, distribution_id, value);
}

// A value as Python code would have it: an int, a float or the choice itself.
static void write_external(FILE *out, const ft_distribution *distribution, double value) {
    if (distribution->kind == FT_CATEGORICAL)
        ft_pyjson_write_scalar(out, &distribution->choices[(int)value]);
    else if (distribution->kind == FT_INT)
        fprintf(out, "%lld", (long long)value);
    else
        ft_pyjson_write_number(out, value);
}

static ft_status relative_json(const ft_stored_value *values, int count, char **text) {
    ft_text_stream stream;
    FT_TRY(ft_text_open(&stream));
    putc('{', stream.file);
    for (int i = 0; i < count; i++) {
        if (i > 0) fputs(", ", stream.file);
        ft_pyjson_write_text(stream.file, values[i].name);
        fputs(": ", stream.file);
        write_external(stream.file, values[i].distribution, values[i].value);
    }
    putc('}', stream.file);
    return ft_text_close(&stream, text);
}

// In pieces of 2045 characters, the most that some of Optuna's other databases take.
static ft_status store_pieces(ft_stored *study, int64_t number, const char *text) {
    enum { PIECE = 2045 };
    size_t length = strlen(text);
    for (size_t at = 0; at < length; at += PIECE) {
        char key[48], piece[PIECE + 1];
        snprintf(key, sizeof key, "tpe:relative_params:%zu", at / PIECE);
        snprintf(piece, sizeof piece, "%s", text + at);
        ft_choice value = {.kind = FT_CHOICE_TEXT, .text = piece};
        FT_TRY(ft_stored_set_scalar(study, number, FT_SYSTEM_ATTRIBUTE, key, &value));
    }
    return FT_OK;
}

ft_status ft_stored_relative(ft_stored *study, int64_t number, const ft_stored_value *values, int count) {
    FT_TRY(ft_stored_changeable(study, number));
    for (int i = 0; i < count; i++)
        if (values[i].distribution->kind == FT_CATEGORICAL &&
            !ft_distribution_contains(values[i].distribution, values[i].value))
            return ft_fail(FT_INVALID, values[i].name, "there is no choice %g", values[i].value);
    char *text;
    FT_TRY(relative_json(values, count, &text));
    ft_status status = ft_storage_begin(study->storage);
    if (status == FT_OK) status = end_group(study, store_pieces(study, number, text));
    free(text);
    for (int i = 0; status == FT_OK && i < count; i++) {
        int name_id, distribution_id;
        const char *json;
        status = ft_stored_seen(study, values[i].name, values[i].distribution, &name_id, &distribution_id, &json);
        if (status == FT_OK)
            status = ft_trials_set_relative(&study->trials, number, name_id, distribution_id, values[i].value);
    }
    return status;
}

// ---- reports, rungs, constraints ------------------------------------------------------------------------------------

ft_status ft_stored_report(ft_stored *study, int64_t number, int64_t step, double value) {
    FT_TRY(ft_stored_changeable(study, number));
    if (step < 0) return ft_fail(FT_INVALID, "report", "a step must be at least 0, got %lld", (long long)step);
    int changed;
    FT_TRY(ft_sql_run(study->storage, FT_SQL_REPORT_SET, &changed, "iidt", study->trial_ids[number], step, value,
                      ft_sql_type_name(value)));
    if (changed == 0) return ft_stored_gone(study, number);
    return ft_trials_report(&study->trials, number, step, value);
}

ft_status ft_stored_rungs(ft_stored *study, int64_t number, int count, double value) {
    FT_TRY(ft_stored_changeable(study, number));
    for (int i = 0; i < count; i++) {
        char key[48];
        snprintf(key, sizeof key, "completed_rung_%d", study->trials.trial[number].rung_count);
        ft_choice rung = {.kind = FT_CHOICE_FLOAT, .number = value};
        FT_TRY(ft_stored_set_scalar(study, number, FT_SYSTEM_ATTRIBUTE, key, &rung));
        FT_TRY(ft_trials_add_rung(&study->trials, number, value));
    }
    return FT_OK;
}

// All in one list under "constraints".
static ft_status store_list(ft_stored *study, int64_t number, const double *values, int count) {
    ft_text_stream stream;
    FT_TRY(ft_text_open(&stream));
    for (int i = 0; i < count; i++) {
        fputs(i > 0 ? ", " : "[", stream.file);
        ft_pyjson_write_number(stream.file, values[i]);
    }
    fputs(count > 0 ? "]" : "[]", stream.file);
    char *text;
    FT_TRY(ft_text_close(&stream, &text));
    ft_status status = ft_stored_set_attribute(study, number, FT_SYSTEM_ATTRIBUTE, "constraints", text);
    free(text);
    return status;
}

static ft_status store_named(ft_stored *study, int64_t number, const char *const *names, const double *values,
                             int count) {
    for (int i = 0; i < count; i++) {
        ft_arena arena = {0};
        ft_choice value = {.kind = FT_CHOICE_FLOAT, .number = values[i]};
        const char *key = ft_arena_format(&arena, "constraints:%s", names[i]);
        ft_status status =
            key != NULL ? ft_stored_set_scalar(study, number, FT_SYSTEM_ATTRIBUTE, key, &value) : FT_NO_MEMORY;
        ft_arena_free(&arena);
        FT_TRY(status);
    }
    return FT_OK;
}

ft_status ft_stored_constraints(ft_stored *study, int64_t number, const char *const *names, const double *values,
                                int count) {
    FT_TRY(ft_stored_changeable(study, number));
    for (int i = 0; i < count; i++)
        if (isnan(values[i]))
            return ft_fail(FT_INVALID, names != NULL ? names[i] : "constraints",
                           "a constraint cannot be NaN (trial %lld)", (long long)number);
    FT_TRY(ft_storage_begin(study->storage));
    FT_TRY(end_group(study, names != NULL ? store_named(study, number, names, values, count)
                                          : store_list(study, number, values, count)));
    for (int i = 0; i < count; i++) {
        char index[16];
        int id;
        snprintf(index, sizeof index, "%d", i);
        FT_TRY(ft_trials_constraint_name(&study->trials, names != NULL ? names[i] : index, &id));
        FT_TRY(ft_trials_set_constraint(&study->trials, number, id, values[i]));
    }
    return FT_OK;
}

// ---- end of a trial -------------------------------------------------------------------------------------------------

static ft_status check_values(const ft_stored *study, int64_t number, ft_trial_state state, const double *values,
                              int count) {
    if (!ft_trial_finished(state))
        return ft_fail(FT_FAILED, "study", "%s is no final state", ft_trial_state_name(state));
    int objectives = study->trials.objectives;
    bool fits = state == FT_COMPLETE ? count == objectives
                                     : count == 0 || (state == FT_PRUNED && count == 1 && objectives == 1);
    if (!fits)
        return ft_fail(FT_FAILED, "study", "trial %lld cannot end as %s with %d values (%d objectives)",
                       (long long)number, ft_trial_state_name(state), count, objectives);
    for (int i = 0; i < count; i++)
        if (isnan(values[i])) return ft_fail(FT_INVALID, "study", "the value of trial %lld is NaN", (long long)number);
    return FT_OK;
}

static ft_status store_end(ft_stored *study, int64_t number, ft_trial_state state, const double *values, int count) {
    ft_storage *storage = study->storage;
    int64_t trial_id = study->trial_ids[number];
    for (int i = 0; i < count; i++)
        FT_TRY(ft_sql_run(storage, FT_SQL_VALUE_SET, NULL, "iidt", trial_id, (int64_t)i, values[i],
                          ft_sql_type_name(values[i])));
    // With them Optuna's TPE raises at every later suggestion of such a study.
    if (state == FT_PRUNED && study->trials.objectives > 1)
        FT_TRY(ft_sql_run(storage, FT_SQL_REPORTS_DELETE, NULL, "i", trial_id));
    char now[32];
    int changed;
    ft_sql_now(now);
    FT_TRY(ft_sql_run(storage, FT_SQL_TRIAL_FINISH, &changed, "itt", trial_id, ft_trial_state_name(state), now));
    return changed == 1 ? FT_OK : ft_stored_gone(study, number);
}

ft_status ft_stored_finish(ft_stored *study, int64_t number, ft_trial_state state, const double *values, int count) {
    FT_TRY(ft_stored_changeable(study, number));
    FT_TRY(check_values(study, number, state, values, count));
    FT_TRY(ft_storage_begin(study->storage));
    FT_TRY(end_group(study, store_end(study, number, state, values, count)));
    return ft_trials_finish(&study->trials, number, state, values, count);
}

// ---- signs of life --------------------------------------------------------------------------------------------------

ft_status ft_stored_heartbeat(ft_stored *study, int64_t number) {
    FT_TRY(ft_stored_changeable(study, number));
    int changed;
    FT_TRY(ft_sql_run(study->storage, FT_SQL_HEARTBEAT_SET, &changed, "i", study->trial_ids[number]));
    return changed == 1 ? FT_OK : ft_stored_gone(study, number);
}

ft_status ft_stored_heartbeat_age(ft_stored *study, int64_t number, double *seconds) {
    *seconds = -1;
    if (number < 0 || number >= study->trials.count)
        return ft_fail(FT_FAILED, study->storage->path, "there is no trial %lld", (long long)number);
    bool row;
    double age;
    FT_TRY(ft_sql_bind(study->storage, FT_SQL_HEARTBEAT_AGE, "i", study->trial_ids[number]));
    FT_TRY(ft_sql_step(study->storage, FT_SQL_HEARTBEAT_AGE, &row));
    // A clock that was set back must not look like no sign of life at all.
    if (row && ft_sql_double(study->storage, FT_SQL_HEARTBEAT_AGE, 0, &age)) *seconds = age > 0 ? age : 0;
    ft_sql_reset(study->storage, FT_SQL_HEARTBEAT_AGE);
    return FT_OK;
}

ft_status ft_stored_times(ft_stored *study, int64_t number, int64_t *start, int64_t *finish) {
    *start = *finish = -1;
    if (number < 0 || number >= study->trials.count)
        return ft_fail(FT_FAILED, study->storage->path, "there is no trial %lld", (long long)number);
    bool row;
    FT_TRY(ft_sql_bind(study->storage, FT_SQL_TRIAL, "i", study->trial_ids[number]));
    FT_TRY(ft_sql_step(study->storage, FT_SQL_TRIAL, &row));
    if (row) {
        *start = ft_sql_time(ft_sql_text(study->storage, FT_SQL_TRIAL, 1));
        *finish = ft_sql_time(ft_sql_text(study->storage, FT_SQL_TRIAL, 2));
    }
    ft_sql_reset(study->storage, FT_SQL_TRIAL);
    return FT_OK;
}
