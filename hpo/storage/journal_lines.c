// journal_lines.c - a line of a journal as a change of a study, and back.
#include "hpo/storage/journal.h"

#include "hpo/storage/pyjson.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- times ----------------------------------------------------------------------------------------------------------

// As isoformat() writes them: in UTC today, in local time without an offset before Optuna 5.
static bool read_time(const char *text, char out[FT_JOURNAL_TIME]) {
    struct tm parts = {.tm_isdst = -1};
    int used = 0, hours = 0, minutes = 0;
    char sign = 0;
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &parts.tm_year, &parts.tm_mon, &parts.tm_mday, &parts.tm_hour,
               &parts.tm_min, &parts.tm_sec, &used) != 6 ||
        used == 0)
        return false;
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    char digits[8] = "000000";
    const char *at = text + used;
    if (*at == '.') {
        const size_t length = strspn(at + 1, "0123456789");
        memcpy(digits, at + 1, length < 6 ? length : 6);
        at += 1 + length;
    }
    const bool offset = sscanf(at, "%c%2d:%2d", &sign, &hours, &minutes) == 3 && (sign == '+' || sign == '-');
    time_t seconds = offset || *at == 'Z' ? timegm(&parts) : mktime(&parts);
    if (offset) seconds -= (sign == '-' ? -1 : 1) * (3600 * hours + 60 * minutes);
    struct tm utc;
    if (gmtime_r(&seconds, &utc) == NULL || utc.tm_year < 1000 - 1900 || utc.tm_year > 9999 - 1900) return false; // four digits are written
    const size_t n = strftime(out, FT_JOURNAL_TIME, "%Y-%m-%d %H:%M:%S", &utc);
    snprintf(out + n, FT_JOURNAL_TIME - n, ".%.6s", digits);
    return true;
}

static void write_time(FILE *out, const char *time) {
    if (time[0] == '\0')
        fputs("null", out);
    else
        fprintf(out, "\"%.10sT%s+00:00\"", time, time + 11);
}

static ft_status time_of(const json_t *object, const char *key, const char *where, char out[FT_JOURNAL_TIME]) {
    const char *text = json_string_value(json_object_get(object, key));
    out[0] = '\0';
    if (text == NULL || read_time(text, out)) return FT_OK;
    return ft_fail(FT_INVALID, where, "%s is no time", key);
}

// ---- reading --------------------------------------------------------------------------------------------------------

static ft_status bad(const char *where, const char *what) {
    return ft_fail(FT_INVALID, where, "not a line of a journal of studies: %s", what);
}

static ft_status id_of(const json_t *root, const char *key, const char *where, int64_t *id) {
    const json_t *value = json_object_get(root, key);
    *id = json_integer_value(value);
    return json_is_integer(value) && *id >= 0 ? FT_OK : bad(where, key);
}

// {"user_attr": {KEY: VALUE}}
static ft_status attribute_of(const json_t *root, const char *name, const char *where, ft_arena *arena,
                              ft_journal_change *change) {
    json_t *object = json_object_get(root, name);
    void *at = json_is_object(object) && json_object_size(object) == 1 ? json_object_iter(object) : NULL;
    if (at == NULL) return bad(where, name);
    char *text;
    FT_TRY(ft_pyjson_text(json_object_iter_value(at), &text));
    change->key = json_object_iter_key(at);
    change->json = ft_arena_strdup(arena, text);
    free(text);
    return change->json != NULL ? FT_OK : FT_NO_MEMORY;
}

static ft_status values_of(const json_t *list, const char *where, ft_arena *arena, ft_journal_change *change) {
    if (list == NULL || json_is_null(list)) return FT_OK;
    const size_t count = json_array_size(list);
    double *values = ft_arena_alloc(arena, (count + 1) * sizeof *values);
    if (values == NULL) return FT_NO_MEMORY;
    if (!json_is_array(list) || count > 64) return bad(where, "values");
    for (size_t i = 0; i < count; i++)
        if (!ft_pyjson_number(json_array_get(list, i), &values[i])) return bad(where, "values");
    change->values = values;
    change->value_count = (int)count;
    return FT_OK;
}

static ft_status state_of(const json_t *root, const char *where, ft_journal_change *change) {
    const json_t *state = json_object_get(root, "state");
    const json_int_t value = json_integer_value(state);
    change->has_state = json_is_integer(state);
    if (state != NULL && (!change->has_state || value < FT_RUNNING || value > FT_WAITING)) return bad(where, "state");
    change->state = change->has_state ? (ft_trial_state)value : FT_RUNNING;
    return FT_OK;
}

static ft_status directions_of(const json_t *root, const char *where, ft_arena *arena, ft_journal_change *change) {
    const json_t *list = json_object_get(root, "directions");
    const size_t count = json_array_size(list);
    bool *maximize = ft_arena_alloc(arena, count + 1);
    if (maximize == NULL) return FT_NO_MEMORY;
    if (count < 1 || count > 64) return bad(where, "directions");
    for (size_t i = 0; i < count; i++) {
        const json_int_t direction = json_integer_value(json_array_get(list, i));
        if (direction != 1 && direction != 2) return bad(where, "directions");
        maximize[i] = direction == 2;
    }
    change->maximize = maximize;
    change->objectives = (int)count;
    return FT_OK;
}

static ft_status created_trial(const json_t *root, const char *where, ft_arena *arena, ft_journal_change *change) {
    FT_TRY(id_of(root, "study_id", where, &change->id));
    FT_TRY(state_of(root, where, change));
    FT_TRY(time_of(root, "datetime_start", where, change->start));
    FT_TRY(time_of(root, "datetime_complete", where, change->complete));
    FT_TRY(values_of(json_object_get(root, "values"), where, arena, change));
    double value;
    if (change->values == NULL && ft_pyjson_number(json_object_get(root, "value"), &value)) {
        double *one = ft_arena_alloc(arena, sizeof *one);
        if (one == NULL) return FT_NO_MEMORY;
        *one = value;
        change->values = one;
        change->value_count = 1;
    }
    change->template_ = root;
    return FT_OK;
}

static ft_status parse_trial(const json_t *root, const char *where, ft_arena *arena, ft_journal_change *change) {
    FT_TRY(id_of(root, "trial_id", where, &change->id));
    switch (change->op) {
    case FT_JOURNAL_PARAM:
        change->key = json_string_value(json_object_get(root, "param_name"));
        change->json = json_string_value(json_object_get(root, "distribution"));
        return change->key != NULL && change->json != NULL &&
                       ft_pyjson_number(json_object_get(root, "param_value_internal"), &change->value)
                   ? FT_OK
                   : bad(where, "a parameter");
    case FT_JOURNAL_STATE:
        FT_TRY(state_of(root, where, change));
        FT_TRY(time_of(root, "datetime_start", where, change->start));
        FT_TRY(time_of(root, "datetime_complete", where, change->complete));
        return values_of(json_object_get(root, "values"), where, arena, change);
    case FT_JOURNAL_REPORT:
        FT_TRY(id_of(root, "step", where, &change->step));
        return ft_pyjson_number(json_object_get(root, "intermediate_value"), &change->value)
                   ? FT_OK
                   : bad(where, "intermediate_value");
    case FT_JOURNAL_USER: return attribute_of(root, "user_attr", where, arena, change);
    default: return attribute_of(root, "system_attr", where, arena, change);
    }
}

ft_status ft_journal_parse(const char *line, const char *where, ft_arena *arena, json_t **root,
                           ft_journal_change *change) {
    *change = (ft_journal_change){.op = FT_JOURNAL_DISCARD};
    FT_TRY(ft_pyjson_parse(line, where, root));
    const json_t *op = json_object_get(*root, "op_code");
    if (!json_is_integer(op) || json_integer_value(op) < 0 || json_integer_value(op) > FT_JOURNAL_DISCARD)
        return bad(where, "op_code");
    change->op = (ft_journal_op)json_integer_value(op);
    switch (change->op) {
    case FT_JOURNAL_CREATE_STUDY:
        change->key = json_string_value(json_object_get(*root, "study_name"));
        return change->key != NULL ? directions_of(*root, where, arena, change) : bad(where, "study_name");
    case FT_JOURNAL_DELETE_STUDY: return id_of(*root, "study_id", where, &change->id);
    case FT_JOURNAL_STUDY_USER:
    case FT_JOURNAL_STUDY_SYSTEM:
        FT_TRY(id_of(*root, "study_id", where, &change->id));
        return attribute_of(*root, change->op == FT_JOURNAL_STUDY_USER ? "user_attr" : "system_attr", where, arena,
                            change);
    case FT_JOURNAL_CREATE_TRIAL: return created_trial(*root, where, arena, change);
    case FT_JOURNAL_DISCARD: return FT_OK;
    default: return parse_trial(*root, where, arena, change);
    }
}

// ---- writing --------------------------------------------------------------------------------------------------------

// A line break outside of texts means nothing to JSON, and the end of a line to a journal.
static void write_json(FILE *out, const char *json) {
    for (; *json != '\0'; json++)
        putc((unsigned char)*json < 0x20 ? ' ' : *json, out);
}

static void write_attribute(FILE *out, const char *name, const ft_journal_change *c) {
    fprintf(out, ",\"%s\":{", name);
    ft_pyjson_write_text(out, c->key);
    putc(':', out);
    write_json(out, c->json);
    putc('}', out);
}

static void write_values(FILE *out, const ft_journal_change *c) {
    fputs(",\"values\":", out);
    for (int i = 0; i < c->value_count; i++) {
        putc(i > 0 ? ',' : '[', out);
        ft_pyjson_write_number(out, c->values[i]);
    }
    fputs(c->value_count > 0 ? "]" : "null", out);
}

static void write_trial(FILE *out, const ft_journal_change *c) {
    fprintf(out, ",\"trial_id\":%lld", (long long)c->id);
    switch (c->op) {
    case FT_JOURNAL_PARAM:
        fputs(",\"param_name\":", out);
        ft_pyjson_write_text(out, c->key);
        fputs(",\"param_value_internal\":", out);
        ft_pyjson_write_number(out, c->value);
        fputs(",\"distribution\":", out);
        ft_pyjson_write_text(out, c->json);
        break;
    case FT_JOURNAL_STATE:
        fprintf(out, ",\"state\":%d", (int)c->state);
        write_values(out, c);
        fputs(c->state == FT_RUNNING ? ",\"datetime_start\":" : ",\"datetime_complete\":", out);
        write_time(out, c->state == FT_RUNNING ? c->start : c->complete);
        break;
    case FT_JOURNAL_REPORT:
        fprintf(out, ",\"step\":%lld,\"intermediate_value\":", (long long)c->step);
        ft_pyjson_write_number(out, c->value);
        break;
    case FT_JOURNAL_USER: write_attribute(out, "user_attr", c); break;
    default: write_attribute(out, "system_attr", c); break;
    }
}

void ft_journal_write(FILE *out, const ft_journal_change *c, const char *worker) {
    fprintf(out, "{\"op_code\":%d,\"worker_id\":\"%s\"", (int)c->op, worker);
    switch (c->op) {
    case FT_JOURNAL_CREATE_STUDY:
        fputs(",\"study_name\":", out);
        ft_pyjson_write_text(out, c->key);
        for (int i = 0; i < c->objectives; i++)
            fprintf(out, "%s%d", i > 0 ? "," : ",\"directions\":[", c->maximize[i] ? 2 : 1);
        putc(']', out);
        break;
    case FT_JOURNAL_DELETE_STUDY: fprintf(out, ",\"study_id\":%lld", (long long)c->id); break;
    case FT_JOURNAL_STUDY_USER:
    case FT_JOURNAL_STUDY_SYSTEM:
        fprintf(out, ",\"study_id\":%lld", (long long)c->id);
        write_attribute(out, c->op == FT_JOURNAL_STUDY_USER ? "user_attr" : "system_attr", c);
        break;
    case FT_JOURNAL_CREATE_TRIAL:
        fprintf(out, ",\"study_id\":%lld,\"datetime_start\":", (long long)c->id);
        write_time(out, c->start);
        // Only a trial that does not run at once needs more, and a program that adds one says all of it.
        if (c->state == FT_WAITING)
            fputs(",\"state\":4,\"value\":null,\"values\":null,\"distributions\":{},\"params\":{},\"user_attrs\":{},"
                  "\"system_attrs\":{},"
                  "\"intermediate_values\":{}",
                  out);
        break;
    default: write_trial(out, c); break;
    }
    fputs("}\n", out);
}
