// import.c - JSON lines back into a database.
#include "hpo/exchange/exchange.h"

#include "base/files.h"
#include "base/json/json.h"
#include "hpo/storage/distribution_json.h"
#include "hpo/storage/internal.h"
#include "hpo/storage/pyjson.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *path;
    char *data, *at; // the whole file, the next line
    int line;
    char where[512]; // file:line
} reader;

// ---- fields ---------------------------------------------------------------------------------------------------------

static ft_status bad(const reader *r, const char *key, const char *what) {
    return ft_fail(FT_INVALID, r->where, "%s: %s", key, what);
}

// A number, or one of the words for those that JSON has none for.
static bool number_of(const json_t *value, double *out) {
    if (json_is_number(value)) {
        *out = json_number_value(value);
        return true;
    }
    const char *text = json_string_value(value);
    if (text == NULL) return false;
    if (strcmp(text, "NaN") == 0)
        *out = NAN;
    else if (strcmp(text, "Infinity") == 0)
        *out = INFINITY;
    else if (strcmp(text, "-Infinity") == 0)
        *out = -INFINITY;
    else
        return false;
    return true;
}

static ft_status object_of(const reader *r, const json_t *line, const char *key, json_t **out) {
    *out = json_object_get(line, key);
    if (*out == NULL || json_is_null(*out)) *out = NULL;
    return *out == NULL || json_is_object(*out) ? FT_OK : bad(r, key, "must be an object");
}

static ft_status set_attributes(const reader *r, ft_stored *study, int64_t number, const json_t *line) {
    static const char *const keys[] = {"user_attributes", "system_attributes"};
    for (int kind = 0; kind < 2; kind++) {
        json_t *object;
        FT_TRY(object_of(r, line, keys[kind], &object));
        for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
            char *text;
            FT_TRY(ft_pyjson_text(json_object_iter_value(at), &text));
            ft_status status =
                ft_stored_set_attribute(study, number, (ft_attribute_kind)kind, json_object_iter_key(at), text);
            free(text);
            FT_TRY(status);
        }
    }
    return FT_OK;
}

static ft_status internal_value(const reader *r, const char *name, const ft_distribution *d, const json_t *value,
                                double *out) {
    if (d->kind != FT_CATEGORICAL) {
        if (!json_is_number(value)) return bad(r, name, "must be a number");
        *out = json_number_value(value);
        if (d->kind == FT_INT && *out != nearbyint(*out)) return bad(r, name, "must be an integer");
        return FT_OK;
    }
    ft_choice choice;
    int index = -1;
    if (ft_pyjson_scalar(value, &choice)) index = ft_distribution_find_choice(d, &choice);
    double number;
    if (index < 0 && json_is_string(value) && number_of(value, &number)) // a choice NaN or infinity
        index = ft_distribution_find_choice(d, &(ft_choice){.kind = FT_CHOICE_FLOAT, .number = number});
    *out = index;
    return index >= 0 ? FT_OK : bad(r, name, "is none of the choices of its distribution");
}

static ft_status set_params(const reader *r, ft_stored *study, int64_t number, const json_t *line) {
    json_t *params, *distributions;
    FT_TRY(object_of(r, line, "params", &params));
    FT_TRY(object_of(r, line, "distributions", &distributions));
    for (void *at = json_object_iter(params); at != NULL; at = json_object_iter_next(params, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *described = json_object_get(distributions, name);
        if (described == NULL) return bad(r, name, "there is no distribution of this parameter");
        char *text;
        FT_TRY(ft_pyjson_text(described, &text));
        ft_arena arena = {0};
        ft_distribution d;
        double value = 0;
        ft_status status = ft_distribution_from_json(text, r->where, &arena, &d);
        free(text);
        if (status == FT_OK) status = internal_value(r, name, &d, json_object_iter_value(at), &value);
        if (status == FT_OK) status = ft_stored_param(study, number, name, &d, value);
        ft_arena_free(&arena);
        FT_TRY(status);
    }
    return FT_OK;
}

static ft_status set_reports(const reader *r, ft_stored *study, int64_t number, const json_t *line) {
    json_t *reports;
    FT_TRY(object_of(r, line, "intermediate_values", &reports));
    for (void *at = json_object_iter(reports); at != NULL; at = json_object_iter_next(reports, at)) {
        const char *key = json_object_iter_key(at);
        char *end;
        long long step = strtoll(key, &end, 10);
        double value = 0;
        if (*key == '\0' || *end != '\0' || step < 0) return bad(r, "intermediate_values", "a step is no number");
        if (!number_of(json_object_iter_value(at), &value)) return bad(r, "intermediate_values", "must be numbers");
        FT_TRY(ft_stored_report(study, number, step, value));
    }
    return FT_OK;
}

// Times are set behind the back of storage.h, which knows only "now": within the transaction that made the trial.
static ft_status set_times(const reader *r, ft_stored *study, int64_t number, const json_t *line) {
    static const char *const keys[] = {"datetime_start", "datetime_complete"};
    char text[2][FT_EXCHANGE_TIME];
    for (int k = 0; k < 2; k++) {
        const char *given;
        FT_TRY(ft_json_string(line, r->where, keys[k], NULL, &given));
        ft_exchange_time(ft_sql_time(given), text[k]);
        if (given != NULL && text[k][0] == '\0') return bad(r, keys[k], "must be YYYY-MM-DD HH:MM:SS");
    }
    return ft_sql_run(study->storage, FT_SQL_TRIAL_TIMES_SET, NULL, "itt", study->trial_ids[number],
                      text[0][0] != '\0' ? text[0] : NULL, text[1][0] != '\0' ? text[1] : NULL);
}

// ---- lines ----------------------------------------------------------------------------------------------------------

// The next line that is not empty, parsed; *line = NULL at the end of the file.
static ft_status next_line(reader *r, json_t **line) {
    *line = NULL;
    while (r->at != NULL && *r->at != '\0') {
        char *begin = r->at, *end = strchr(begin, '\n');
        r->at = end != NULL ? end + 1 : NULL;
        size_t length = end != NULL ? (size_t)(end - begin) : strlen(begin);
        r->line++;
        snprintf(r->where, sizeof r->where, "%.480s:%d", r->path, r->line);
        if (length > 0 && begin[length - 1] == '\r') length--;
        if (length == 0) continue;
        FT_TRY(ft_json_parse(begin, length, r->where, line));
        if (json_is_object(*line)) return FT_OK;
        json_decref(*line);
        *line = NULL;
        return ft_fail(FT_INVALID, r->where, "a line must be a JSON object");
    }
    return FT_OK;
}

static ft_status finish(const reader *r, ft_stored *study, int64_t number, ft_trial_state state, const json_t *line) {
    enum { MOST = 64 };
    double values[MOST];
    const json_t *list = json_object_get(line, "values");
    size_t count = json_array_size(list);
    if (list != NULL && !json_is_null(list) && !json_is_array(list)) return bad(r, "values", "must be a list");
    if (count > MOST) return bad(r, "values", "there are more than 64");
    for (size_t i = 0; i < count; i++)
        if (!number_of(json_array_get(list, i), &values[i])) return bad(r, "values", "must be numbers");
    if (state == FT_COMPLETE && count != (size_t)study->trials.objectives)
        return bad(r, "values", "a COMPLETE trial has one for every objective");
    if (state == FT_FAIL && count > 0) return bad(r, "values", "a FAIL trial has none");
    if (state == FT_PRUNED && count > (study->trials.objectives == 1 ? 1 : 0))
        return bad(r, "values", "a PRUNED trial has one at most, and none with several objectives");
    return ft_stored_finish(study, number, state, values, (int)count);
}

static ft_status add_trial(const reader *r, ft_stored *study, const json_t *line) {
    const char *name;
    int64_t number, given;
    ft_trial_state state;
    FT_TRY(ft_json_int(line, r->where, "number", -1, 0, INT64_MAX, &given));
    if (given != study->trials.count) return bad(r, "number", "trials must be numbered from 0 without gaps");
    FT_TRY(ft_json_string(line, r->where, "state", "", &name));
    if (ft_state_of(name, &state) != FT_OK)
        return ft_fail(FT_INVALID, r->where, "state: '%.40s' is none of COMPLETE, PRUNED, FAIL, RUNNING, WAITING",
                       name);
    FT_TRY(ft_stored_ask(study, state == FT_WAITING ? FT_WAITING : FT_RUNNING, &number));
    FT_TRY(set_params(r, study, number, line));
    // ft_stored_finish() would remove the others, where it can.
    if (state != FT_PRUNED || study->trials.objectives == 1) FT_TRY(set_reports(r, study, number, line));
    FT_TRY(set_attributes(r, study, number, line));
    if (ft_trial_finished(state)) FT_TRY(finish(r, study, number, state, line));
    return set_times(r, study, number, line);
}

static ft_status create(const reader *r, const json_t *line, ft_storage *to, const char *name, ft_stored **out) {
    enum { MOST = 64 };
    bool maximize[MOST];
    int64_t version;
    const char *stored_name;
    const json_t *directions = json_object_get(line, "directions");
    size_t count = json_array_size(directions);
    FT_TRY(ft_json_int(line, r->where, "format_version", -1, INT64_MIN, INT64_MAX, &version));
    FT_TRY(ft_json_string(line, r->where, "study", NULL, &stored_name));
    if (version != 1 || stored_name == NULL || count < 1 || count > MOST) {
        ft_status status = version > 1 ? ft_fail(FT_INVALID, r->where, "format_version %lld is newer than this program",
                                                 (long long)version)
                                       : ft_fail(FT_INVALID, r->where, "this is no exported study");
        ft_hint("`ftengine study export NAME --output FILE.jsonl` writes one");
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        const char *direction = json_string_value(json_array_get(directions, i));
        maximize[i] = direction != NULL && strcmp(direction, "maximize") == 0;
        if (!maximize[i] && (direction == NULL || strcmp(direction, "minimize") != 0))
            return bad(r, "directions", "must be \"minimize\" or \"maximize\"");
    }
    FT_TRY(ft_stored_create(to, name != NULL ? name : stored_name, (int)count, maximize, out));
    return set_attributes(r, *out, FT_STUDY_ATTRIBUTE, line);
}

static ft_status import_lines(reader *r, ft_storage *to, const char *name, ft_stored **out) {
    json_t *line;
    FT_TRY(next_line(r, &line));
    if (line == NULL) return ft_fail(FT_INVALID, r->path, "the file is empty");
    ft_status status = create(r, line, to, name, out);
    json_decref(line);
    while (status == FT_OK && (status = next_line(r, &line)) == FT_OK && line != NULL) {
        status = add_trial(r, *out, line);
        json_decref(line);
    }
    return status;
}

ft_status ft_import_jsonl(const char *path, ft_storage *to, const char *name, ft_stored **out) {
    *out = NULL;
    reader r = {.path = path};
    size_t length;
    FT_TRY(ft_read_stream(strcmp(path, "-") == 0 ? "/dev/stdin" : path, 0, &r.data, &length));
    r.at = r.data;
    ft_status status = strlen(r.data) == length ? FT_OK : ft_fail(FT_INVALID, path, "this is no text");
    if (status == FT_OK) status = ft_storage_begin(to);
    if (status == FT_OK) {
        status = import_lines(&r, to, name, out);
        if (status == FT_OK) status = ft_storage_commit(to);
        if (status != FT_OK) {
            ft_error_where_default("%s", r.where);
            if (strcmp(ft_error_where(), r.where) != 0 && r.line > 0) ft_hint("in %s", r.where);
            ft_storage_rollback(to);
        }
    }
    free(r.data);
    if (status == FT_OK) return FT_OK;
    ft_stored_close(*out);
    *out = NULL;
    return status;
}
