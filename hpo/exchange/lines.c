#include "hpo/exchange/lines.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/data/tables/source.h"
#include "hpo/storage/distribution_json.h"
#include "hpo/storage/internal.h"
#include "hpo/storage/pyjson.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- lines ----------------------------------------------------------------------------------------------------------

ft_status ft_lines_open(const char *path, ft_lines *lines) {
    const size_t most = (size_t)1 << 30; // as of a file that is not packed
    size_t length;
    *lines = (ft_lines){.path = path};
    FT_TRY(ft_read_stream(strcmp(path, "-") == 0 ? "/dev/stdin" : path, most, &lines->data, &length));
    FT_TRY(ft_source_unpack(path, most, &lines->data, &length));
    lines->data[length] = '\0';
    lines->at = lines->data;
    return strlen(lines->data) == length ? FT_OK : ft_fail(FT_INVALID, path, "this is no text");
}

void ft_lines_close(ft_lines *lines) {
    free(lines->data);
    lines->data = lines->at = NULL;
}

ft_status ft_lines_next(ft_lines *lines, json_t **line) {
    *line = NULL;
    while (lines->at != NULL && *lines->at != '\0') {
        char *begin = lines->at, *end = strchr(begin, '\n');
        lines->at = end != NULL ? end + 1 : NULL;
        size_t length = end != NULL ? (size_t)(end - begin) : strlen(begin);
        lines->line++;
        snprintf(lines->where, sizeof lines->where, "%.480s:%d", lines->path, lines->line);
        if (length > 0 && begin[length - 1] == '\r') length--;
        if (length == 0) continue;
        FT_TRY(ft_json_parse(begin, length, lines->where, line));
        if (json_is_object(*line)) return FT_OK;
        json_decref(*line);
        *line = NULL;
        return ft_fail(FT_INVALID, lines->where, "a line must be a JSON object");
    }
    return FT_OK;
}

void ft_lines_place_error(const ft_lines *lines) {
    ft_error_where_default("%s", lines->where);
    if (strcmp(ft_error_where(), lines->where) != 0 && lines->line > 0) ft_hint("in %s", lines->where);
}

// ---- fields ---------------------------------------------------------------------------------------------------------

ft_status ft_lines_bad(const ft_lines *lines, const char *key, const char *what) {
    return ft_fail(FT_INVALID, lines->where, "%s: %s", key, what);
}

bool ft_lines_number(const json_t *value, double *out) {
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

ft_status ft_lines_object(const ft_lines *lines, const json_t *line, const char *key, json_t **out) {
    *out = json_object_get(line, key);
    if (*out == NULL || json_is_null(*out)) *out = NULL;
    return *out == NULL || json_is_object(*out) ? FT_OK : ft_lines_bad(lines, key, "must be an object");
}

// ---- a study --------------------------------------------------------------------------------------------------------

ft_status ft_lines_study(const ft_lines *lines, const json_t *line, const char **name,
                         bool maximize[FT_LINES_OBJECTIVES], int *objectives) {
    int64_t version;
    const json_t *directions = json_object_get(line, "directions");
    const size_t count = json_array_size(directions);
    FT_TRY(ft_json_int(line, lines->where, "format_version", -1, INT64_MIN, INT64_MAX, &version));
    FT_TRY(ft_json_string(line, lines->where, "study", NULL, name));
    if (version != 1 || *name == NULL || count < 1 || count > FT_LINES_OBJECTIVES) {
        ft_status status = version > 1 ? ft_fail(FT_INVALID, lines->where,
                                                 "format_version %lld is newer than this program", (long long)version)
                                       : ft_fail(FT_INVALID, lines->where, "this is no exported study");
        ft_hint("`ftengine study export NAME --output FILE.jsonl` writes one");
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        const char *direction = json_string_value(json_array_get(directions, i));
        maximize[i] = direction != NULL && strcmp(direction, "maximize") == 0;
        if (!maximize[i] && (direction == NULL || strcmp(direction, "minimize") != 0))
            return ft_lines_bad(lines, "directions", "must be \"minimize\" or \"maximize\"");
    }
    *objectives = (int)count;
    return FT_OK;
}

// ---- trials ---------------------------------------------------------------------------------------------------------

ft_status ft_lines_trial(const ft_lines *lines, const json_t *line, int64_t *number, ft_trial_state *state) {
    const char *name;
    FT_TRY(ft_json_int(line, lines->where, "number", -1, 0, INT64_MAX, number));
    if (*number < 0) return ft_lines_bad(lines, "number", "every trial has one");
    FT_TRY(ft_json_string(line, lines->where, "state", "", &name));
    if (ft_state_of(name, state) == FT_OK) return FT_OK;
    return ft_fail(FT_INVALID, lines->where, "state: '%.40s' is none of COMPLETE, PRUNED, FAIL, RUNNING, WAITING",
                   name);
}

ft_status ft_lines_values(const ft_lines *lines, const json_t *line, ft_trial_state state, int objectives,
                          double values[FT_LINES_OBJECTIVES], int *count) {
    const json_t *list = json_object_get(line, "values");
    const size_t given = json_array_size(list);
    if (list != NULL && !json_is_null(list) && !json_is_array(list))
        return ft_lines_bad(lines, "values", "must be a list");
    if (given > FT_LINES_OBJECTIVES) return ft_lines_bad(lines, "values", "there are more than 64");
    for (size_t i = 0; i < given; i++)
        if (!ft_lines_number(json_array_get(list, i), &values[i]))
            return ft_lines_bad(lines, "values", "must be numbers");
    if (state == FT_COMPLETE && given != (size_t)objectives)
        return ft_lines_bad(lines, "values", "a COMPLETE trial has one for every objective");
    if (state == FT_FAIL && given > 0) return ft_lines_bad(lines, "values", "a FAIL trial has none");
    if (state == FT_PRUNED && given > (objectives == 1 ? 1 : 0))
        return ft_lines_bad(lines, "values", "a PRUNED trial has one at most, and none with several objectives");
    *count = (int)given;
    return FT_OK;
}

static ft_status internal_value(const ft_lines *lines, const char *name, const ft_distribution *d, const json_t *value,
                                double *out) {
    if (d->kind != FT_CATEGORICAL) {
        if (!json_is_number(value)) return ft_lines_bad(lines, name, "must be a number");
        *out = json_number_value(value);
        if (d->kind == FT_INT && *out != nearbyint(*out)) return ft_lines_bad(lines, name, "must be an integer");
        const bool fits = isfinite(*out) && (d->kind != FT_INT || fabs(*out) <= 0x1p53) && (!d->log || *out > 0);
        return fits ? FT_OK : ft_lines_bad(lines, name, "this is no value of it");
    }
    ft_choice choice;
    int index = -1;
    if (ft_pyjson_scalar(value, &choice)) index = ft_distribution_find_choice(d, &choice);
    double number;
    if (index < 0 && json_is_string(value) && ft_lines_number(value, &number)) // a choice NaN or infinity
        index = ft_distribution_find_choice(d, &(ft_choice){.kind = FT_CHOICE_FLOAT, .number = number});
    *out = index;
    return index >= 0 ? FT_OK : ft_lines_bad(lines, name, "is none of the choices of its distribution");
}

ft_status ft_lines_params(const ft_lines *lines, const json_t *line, ft_lines_take_param *take, void *context) {
    json_t *params, *distributions;
    FT_TRY(ft_lines_object(lines, line, "params", &params));
    FT_TRY(ft_lines_object(lines, line, "distributions", &distributions));
    for (void *at = json_object_iter(params); at != NULL; at = json_object_iter_next(params, at)) {
        const char *name = json_object_iter_key(at);
        const json_t *described = json_object_get(distributions, name);
        if (described == NULL) return ft_lines_bad(lines, name, "there is no distribution of this parameter");
        char *text;
        FT_TRY(ft_pyjson_text(described, &text));
        ft_arena arena = {0};
        ft_distribution d;
        double value = 0;
        ft_status status = ft_distribution_from_json(text, lines->where, &arena, &d);
        free(text);
        if (status == FT_OK) status = internal_value(lines, name, &d, json_object_iter_value(at), &value);
        if (status == FT_OK) status = take(context, name, &d, value);
        ft_arena_free(&arena);
        FT_TRY(status);
    }
    return FT_OK;
}

ft_status ft_lines_reports(const ft_lines *lines, const json_t *line, ft_lines_take_report *take, void *context) {
    static const char key_of_all[] = "intermediate_values";
    json_t *reports;
    FT_TRY(ft_lines_object(lines, line, key_of_all, &reports));
    for (void *at = json_object_iter(reports); at != NULL; at = json_object_iter_next(reports, at)) {
        const char *key = json_object_iter_key(at);
        char *end;
        long long step = strtoll(key, &end, 10);
        double value = 0;
        if (*key == '\0' || *end != '\0' || step < 0) return ft_lines_bad(lines, key_of_all, "a step is no number");
        if (!ft_lines_number(json_object_iter_value(at), &value))
            return ft_lines_bad(lines, key_of_all, "must be numbers");
        FT_TRY(take(context, step, value));
    }
    return FT_OK;
}
