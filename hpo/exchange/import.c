// import.c - JSON lines back into a database.
#include "hpo/exchange/exchange.h"

#include "base/json/json.h"
#include "hpo/exchange/lines.h"
#include "hpo/storage/internal.h"
#include "hpo/storage/pyjson.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// What is read of a trial when its study is opened: found only there, it would make all of the study unreadable.
static bool is_readable(const char *key, const json_t *value) {
    static const char list[] = "constraints", named[] = "constraints:", rung[] = "completed_rung_";
    double number;
    const bool is_rung = strncmp(key, rung, sizeof rung - 1) == 0 && isdigit((unsigned char)key[sizeof rung - 1]);
    if (is_rung) return ft_pyjson_number(value, &number);
    if (strncmp(key, named, sizeof named - 1) == 0) return ft_pyjson_number(value, &number) && !isnan(number);
    if (strcmp(key, list) != 0 || json_is_null(value)) return true;
    if (!json_is_array(value)) return false;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!ft_pyjson_number(json_array_get(value, i), &number) || isnan(number)) return false;
    return true;
}

static ft_status set_attributes(const ft_lines *lines, ft_stored *study, int64_t number, const json_t *line) {
    static const char *const keys[] = {"user_attributes", "system_attributes"};
    for (int kind = 0; kind < 2; kind++) {
        json_t *object;
        FT_TRY(ft_lines_object(lines, line, keys[kind], &object));
        for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
            char *text;
            const char *key = json_object_iter_key(at);
            if (kind == FT_SYSTEM_ATTRIBUTE && number != FT_STUDY_ATTRIBUTE && !is_readable(key, json_object_iter_value(at)))
                return ft_lines_bad(lines, key, "must be a number, or a list of them");
            FT_TRY(ft_pyjson_text(json_object_iter_value(at), &text));
            ft_status status = ft_stored_set_attribute(study, number, (ft_attribute_kind)kind, key, text);
            free(text);
            FT_TRY(status);
        }
    }
    return FT_OK;
}

typedef struct target {
    ft_stored *study;
    int64_t number;
} target;

static ft_status store_param(void *context, const char *name, const ft_distribution *d, double value) {
    const target *to = context;
    return ft_stored_param(to->study, to->number, name, d, value);
}

static ft_status store_report(void *context, int64_t step, double value) {
    const target *to = context;
    return ft_stored_report(to->study, to->number, step, value);
}

// Times are set behind the back of storage.h, which knows only "now": within the transaction that made the trial.
static ft_status set_times(const ft_lines *lines, ft_stored *study, int64_t number, const json_t *line) {
    static const char *const keys[] = {"datetime_start", "datetime_complete"};
    char text[2][FT_EXCHANGE_TIME];
    for (int k = 0; k < 2; k++) {
        const char *given;
        FT_TRY(ft_json_string(line, lines->where, keys[k], NULL, &given));
        ft_exchange_time(ft_sql_time(given), text[k]);
        if (given != NULL && text[k][0] == '\0') return ft_lines_bad(lines, keys[k], "must be YYYY-MM-DD HH:MM:SS");
    }
    return ft_sql_run(study->storage, FT_SQL_TRIAL_TIMES_SET, NULL, "itt", study->trial_ids[number],
                      text[0][0] != '\0' ? text[0] : NULL, text[1][0] != '\0' ? text[1] : NULL);
}

static ft_status finish(const ft_lines *lines, ft_stored *study, int64_t number, ft_trial_state state,
                        const json_t *line) {
    double values[FT_LINES_OBJECTIVES];
    int count;
    FT_TRY(ft_lines_values(lines, line, state, study->trials.objectives, values, &count));
    return ft_stored_finish(study, number, state, values, count);
}

static ft_status add_trial(const ft_lines *lines, ft_stored *study, const json_t *line) {
    int64_t number, given;
    ft_trial_state state;
    FT_TRY(ft_lines_trial(lines, line, &given, &state));
    if (given != study->trials.count)
        return ft_lines_bad(lines, "number", "trials must be numbered from 0 without gaps");
    FT_TRY(ft_stored_ask(study, state == FT_WAITING ? FT_WAITING : FT_RUNNING, &number));
    target to = {study, number};
    FT_TRY(ft_lines_params(lines, line, store_param, &to));
    // ft_stored_finish() would remove the others, where it can.
    if (state != FT_PRUNED || study->trials.objectives == 1) FT_TRY(ft_lines_reports(lines, line, store_report, &to));
    FT_TRY(set_attributes(lines, study, number, line));
    if (ft_trial_finished(state)) FT_TRY(finish(lines, study, number, state, line));
    return set_times(lines, study, number, line);
}

static ft_status create(const ft_lines *lines, const json_t *line, ft_storage *to, const char *name, ft_stored **out) {
    bool maximize[FT_LINES_OBJECTIVES];
    const char *stored_name;
    int count;
    FT_TRY(ft_lines_study(lines, line, &stored_name, maximize, &count));
    FT_TRY(ft_stored_create(to, name != NULL ? name : stored_name, count, maximize, out));
    return set_attributes(lines, *out, FT_STUDY_ATTRIBUTE, line);
}

static ft_status import_lines(ft_lines *lines, ft_storage *to, const char *name, ft_stored **out) {
    json_t *line;
    FT_TRY(ft_lines_next(lines, &line));
    if (line == NULL) return ft_fail(FT_INVALID, lines->path, "the file is empty");
    ft_status status = create(lines, line, to, name, out);
    json_decref(line);
    while (status == FT_OK && (status = ft_lines_next(lines, &line)) == FT_OK && line != NULL) {
        status = add_trial(lines, *out, line);
        json_decref(line);
    }
    return status;
}

ft_status ft_import_jsonl(const char *path, ft_storage *to, const char *name, ft_stored **out) {
    *out = NULL;
    ft_lines lines;
    ft_status status = ft_lines_open(path, &lines);
    if (status == FT_OK) status = ft_storage_begin(to);
    if (status == FT_OK) {
        status = import_lines(&lines, to, name, out);
        if (status == FT_OK) status = ft_storage_commit(to);
        if (status != FT_OK) {
            ft_lines_place_error(&lines);
            ft_storage_rollback(to);
        }
    }
    ft_lines_close(&lines);
    if (status == FT_OK) return FT_OK;
    ft_stored_close(*out);
    *out = NULL;
    return status;
}
