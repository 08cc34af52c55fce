// json.c - studies and trials as JSON values, and JSON lines of them.
#include "hpo/exchange/exchange.h"

#include "base/json/json.h"
#include "hpo/storage/distribution_json.h"
#include "hpo/storage/pyjson.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

json_t *ft_exchange_number(double value) {
    if (isfinite(value)) return json_real(value);
    return json_string(isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
}

static json_t *choice_value(const ft_choice *choice) {
    switch (choice->kind) {
    case FT_CHOICE_BOOL: return json_boolean(choice->integer != 0);
    case FT_CHOICE_INT: return json_integer(choice->integer);
    case FT_CHOICE_FLOAT: return ft_exchange_number(choice->number);
    case FT_CHOICE_TEXT: return ft_json_text(choice->text);
    case FT_CHOICE_NULL: break;
    }
    return json_null();
}

json_t *ft_exchange_value(const ft_distribution *d, double value) {
    if (d->kind == FT_CATEGORICAL) return choice_value(&d->choices[(int)value]);
    return d->kind == FT_INT ? json_integer((json_int_t)value) : json_real(value);
}

void ft_exchange_time(int64_t microseconds, char text[FT_EXCHANGE_TIME]) {
    text[0] = '\0';
    if (microseconds < 0) return;
    time_t seconds = (time_t)(microseconds / 1000000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t n = strftime(text, 32, "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(text + n, FT_EXCHANGE_TIME - n, ".%06d", (int)(microseconds % 1000000));
}

static json_t *time_value(int64_t microseconds) {
    char text[FT_EXCHANGE_TIME];
    ft_exchange_time(microseconds, text);
    return text[0] != '\0' ? json_string(text) : json_null();
}

static ft_status attributes_value(ft_stored *study, int64_t number, ft_attribute_kind kind, json_t **out) {
    ft_arena arena = {0};
    ft_attribute *attributes;
    int count;
    bool failed = false;
    *out = json_object();
    ft_status status = ft_stored_attributes(study, number, kind, &arena, &attributes, &count);
    for (int i = 0; status == FT_OK && i < count; i++) {
        json_t *value;
        status = ft_pyjson_parse(attributes[i].json, attributes[i].key, &value);
        if (status == FT_OK) ft_json_put(*out, attributes[i].key, value, &failed);
    }
    ft_arena_free(&arena);
    if (status == FT_OK && (*out == NULL || failed)) status = ft_fail_memory(0, "attributes");
    if (status == FT_OK) return FT_OK;
    json_decref(*out);
    *out = NULL;
    return status;
}

// ---- the two kinds of lines -----------------------------------------------------------------------------------------

static ft_status put_attributes(ft_stored *study, int64_t number, json_t *object, bool *failed) {
    static const char *const keys[] = {"user_attributes", "system_attributes"};
    for (int kind = 0; kind < 2; kind++) {
        json_t *value;
        FT_TRY(attributes_value(study, number, (ft_attribute_kind)kind, &value));
        ft_json_put(object, keys[kind], value, failed);
    }
    return FT_OK;
}

static ft_status fill_study(ft_stored *study, json_t *object) {
    bool failed = false;
    json_t *directions = json_array();
    ft_json_put(object, "format_version", json_integer(1), &failed);
    ft_json_put(object, "study", ft_json_text(study->name), &failed);
    for (int i = 0; i < study->trials.objectives; i++)
        ft_json_append(directions, json_string(study->trials.maximize[i] ? "maximize" : "minimize"), &failed);
    ft_json_put(object, "directions", directions, &failed);
    FT_TRY(put_attributes(study, FT_STUDY_ATTRIBUTE, object, &failed));
    json_t *names = json_object_get(json_object_get(object, "system_attributes"), "study:metric_names");
    if (json_is_array(names)) ft_json_put(object, "metric_names", json_incref(names), &failed);
    return failed ? ft_fail_memory(0, "a study") : FT_OK;
}

static ft_status put_params(const ft_trials *trials, const ft_trial *t, json_t *object, bool *failed) {
    json_t *params = json_object(), *distributions = json_object();
    ft_json_put(object, "params", params, failed);
    ft_json_put(object, "distributions", distributions, failed);
    for (int i = 0; i < t->param_count && !*failed; i++) {
        const char *name = trials->names.name[t->params[i].name];
        const ft_distribution *d = trials->distributions[t->params[i].distribution];
        char *text;
        json_t *parsed;
        FT_TRY(ft_distribution_to_json(d, &text));
        ft_status status = ft_pyjson_parse(text, name, &parsed);
        free(text);
        FT_TRY(status);
        ft_json_put(distributions, name, parsed, failed);
        ft_json_put(params, name, ft_exchange_value(d, t->params[i].value), failed);
    }
    return FT_OK;
}

static ft_status fill_trial(ft_stored *study, int64_t number, json_t *object) {
    const ft_trials *trials = &study->trials;
    const ft_trial *t = &trials->trial[number];
    bool failed = false;
    int64_t start, finish;
    json_t *values = json_array(), *reports = json_object(), *constraints = json_object();
    ft_json_put(object, "number", json_integer(number), &failed);
    ft_json_put(object, "state", json_string(ft_trial_state_name(t->state)), &failed);
    ft_json_put(object, "values", values, &failed);
    for (int i = 0; i < t->value_count && !failed; i++)
        ft_json_append(values, ft_exchange_number(t->values[i]), &failed);
    ft_status status = ft_stored_times(study, number, &start, &finish);
    if (status == FT_OK) {
        ft_json_put(object, "datetime_start", time_value(start), &failed);
        ft_json_put(object, "datetime_complete", time_value(finish), &failed);
        status = put_params(trials, t, object, &failed);
    }
    ft_json_put(object, "intermediate_values", reports, &failed);
    for (int i = 0; i < t->report_count && !failed; i++) {
        char step[24];
        snprintf(step, sizeof step, "%lld", (long long)t->reports[i].step);
        ft_json_put(reports, step, ft_exchange_number(t->reports[i].value), &failed);
    }
    ft_json_put(object, "constraints", constraints, &failed);
    for (int i = 0; i < t->constraint_count && !failed; i++)
        ft_json_put(constraints, trials->constraint_names.name[t->constraints[i].name],
                    ft_exchange_number(t->constraints[i].value), &failed);
    FT_TRY(status);
    FT_TRY(put_attributes(study, number, object, &failed));
    return failed ? ft_fail_memory(0, "a trial") : FT_OK;
}

// Hands `object` over when it was filled.
static ft_status finished(json_t *object, ft_status status, json_t **out) {
    *out = NULL;
    if (status == FT_OK)
        *out = object;
    else
        json_decref(object);
    return status;
}

ft_status ft_exchange_study(ft_stored *study, json_t **out) {
    *out = NULL;
    json_t *object = json_object();
    if (object == NULL) return ft_fail_memory(0, "a study");
    return finished(object, fill_study(study, object), out);
}

ft_status ft_exchange_trial(ft_stored *study, int64_t number, json_t **out) {
    *out = NULL;
    if (number < 0 || number >= study->trials.count)
        return ft_fail(FT_INVALID, study->name, "there is no trial %lld", (long long)number);
    json_t *object = json_object();
    if (object == NULL) return ft_fail_memory(0, "a trial");
    return finished(object, fill_trial(study, number, object), out);
}

// ---- JSON lines -----------------------------------------------------------------------------------------------------

static ft_status write_line(FILE *out, ft_status status, json_t *value) {
    FT_TRY(status);
    char *line = ft_json_line(value);
    json_decref(value);
    if (line == NULL) return FT_NO_MEMORY;
    fprintf(out, "%s\n", line);
    free(line);
    return FT_OK;
}

ft_status ft_export_jsonl(ft_stored *study, FILE *out) {
    json_t *value;
    ft_status made = ft_exchange_study(study, &value);
    FT_TRY(write_line(out, made, value));
    for (int64_t i = 0; i < study->trials.count; i++) {
        made = ft_exchange_trial(study, i, &value);
        FT_TRY(write_line(out, made, value));
    }
    return FT_OK;
}
