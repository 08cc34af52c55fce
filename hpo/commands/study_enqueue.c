// study_enqueue.c - `ftengine study enqueue`: trials that the search must try, with some or all of their parameters.
#include "hpo/commands/study.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/utf8.h"
#include "hpo/space/options_study.h"
#include "hpo/space/space.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- values ---------------------------------------------------------------------------------------------------------

static bool whole_number(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *text != '\0' && *end == '\0' && errno == 0;
}

static bool real_number(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return *text != '\0' && *end == '\0' && isfinite(*out);
}

// As it looks: for names that no trial has had.
static ft_choice value_by_look(const char *text) {
    ft_choice value = {.kind = FT_CHOICE_TEXT, .text = text};
    if (whole_number(text, &value.integer))
        value.kind = FT_CHOICE_INT;
    else if (real_number(text, &value.number))
        value.kind = FT_CHOICE_FLOAT;
    else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        value = (ft_choice){.kind = FT_CHOICE_BOOL, .integer = text[0] == 't'};
    else if (strcmp(text, "null") == 0)
        value = (ft_choice){.kind = FT_CHOICE_NULL};
    return value;
}

// The value as this distribution has it. *internal is NaN when the text is not even of its kind.
static ft_status value_of(ft_arena *arena, const ft_distribution *d, const char *text, ft_choice *value,
                          double *internal) {
    *internal = NAN;
    if (d->kind == FT_FLOAT) {
        *value = (ft_choice){.kind = FT_CHOICE_FLOAT};
        if (real_number(text, &value->number)) *internal = value->number;
    } else if (d->kind == FT_INT) {
        *value = (ft_choice){.kind = FT_CHOICE_INT};
        if (whole_number(text, &value->integer)) *internal = (double)value->integer;
    }
    for (int i = 0; d->kind == FT_CATEGORICAL && i < d->choice_count && isnan(*internal); i++) {
        const char *spelt = ft_study_param_text(arena, d, i);
        if (spelt == NULL) return FT_NO_MEMORY;
        if (strcmp(spelt, text) != 0) continue;
        *value = d->choices[i];
        *internal = i;
    }
    return FT_OK;
}

static double nearest_value(const ft_distribution *d, double value) {
    if (d->step != 0) value = d->low + nearbyint((value - d->low) / d->step) * d->step;
    return value < d->low ? d->low : value > d->high ? d->high : value;
}

static ft_status bad_value(study_call *call, const char *name, const ft_distribution *d, const char *text) {
    if (d->kind == FT_CATEGORICAL) {
        const char **choices = ft_arena_alloc(&call->arena, (size_t)d->choice_count * sizeof *choices);
        for (int i = 0; choices != NULL && i < d->choice_count; i++) {
            choices[i] = ft_study_param_text(&call->arena, d, i);
            if (choices[i] == NULL) return FT_NO_MEMORY;
        }
        return choices == NULL ? FT_NO_MEMORY : ft_no_such(name, "choice", text, d->choice_count, choices);
    }
    const char *range = ft_study_range_text(&call->arena, d);
    if (range == NULL) return FT_NO_MEMORY;
    double value;
    ft_status status = ft_fail(FT_INVALID, name, "'%.100s' is not in %s", text, range);
    if (real_number(text, &value)) {
        const char *near = ft_study_param_text(&call->arena, d, nearest_value(d, value));
        if (near != NULL) ft_hint("the nearest is %s", near);
    }
    return status;
}

// Whether the distribution takes the text; *status: an error of another kind.
static bool takes(study_call *call, const ft_distribution *d, const char *text, ft_choice *value, ft_status *status) {
    double internal;
    *status = value_of(&call->arena, d, text, value, &internal);
    return *status == FT_OK && !isnan(internal) && ft_distribution_contains(d, internal);
}

// Any distribution that a trial had under this name will do, or that the study's space gives it: ranges may differ.
static ft_status known_value(study_call *call, const ft_space *space, const char *name, const char *text,
                             ft_choice *value, bool *known) {
    const ft_trials *trials = &call->opened->trials;
    const ft_distribution *first = NULL, *last = NULL; // tried: the first is for the message
    const int id = ft_trials_find_name(trials, name);
    ft_status status = FT_OK;
    for (int64_t i = trials->count - 1; id >= 0 && i >= 0; i--) {
        const ft_trial_param *p = ft_trial_find_param(&trials->trial[i], id);
        const ft_distribution *d = p != NULL ? trials->distributions[p->distribution] : last;
        if (d == last) continue;
        last = d;
        if (first == NULL) first = d;
        if (takes(call, d, text, value, &status) || status != FT_OK) return status;
    }
    for (int i = 0; i < space->count; i++) {
        const ft_space_rule *rule = &space->rules[i];
        if (rule->name == NULL || strcmp(rule->name, name) != 0) continue;
        if (first == NULL) first = &rule->distribution;
        if (takes(call, &rule->distribution, text, value, &status) || status != FT_OK) return status;
    }
    *known = first != NULL;
    return *known ? bad_value(call, name, first, text) : FT_OK;
}

static ft_status unknown_name(study_call *call, const ft_space *space, const char *name) {
    const ft_names *tried = &call->opened->trials.names;
    const char **names = ft_arena_alloc(&call->arena, (size_t)(tried->count + space->count + 1) * sizeof *names);
    int count = 0;
    if (names == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < tried->count; i++)
        names[count++] = tried->name[i];
    for (int i = 0; i < space->count; i++)
        if (space->rules[i].name != NULL && ft_trials_find_name(&call->opened->trials, space->rules[i].name) < 0 &&
            ft_space_find(space, space->rules[i].name) == &space->rules[i])
            names[count++] = space->rules[i].name;
    ft_status status = ft_no_such(call->opened->name, "parameter", name, count, names);
    ft_hint("--force enqueues it all the same, for a parameter that no trial has had yet");
    return status;
}

static ft_status parse_setting(study_call *call, const ft_space *space, const char *word, ft_fixed_param *out) {
    const char *equals = strchr(word, '=');
    if (ft_utf8_valid_prefix(word, strlen(word)) != strlen(word))
        return ft_fail(FT_INVALID, word, "not UTF-8, which studies are written in");
    char *name = ft_arena_strndup(&call->arena, word, (size_t)(equals - word));
    if (name == NULL) return FT_NO_MEMORY;
    if (*name == '\0') return ft_fail(FT_INVALID, word, "there is no name in front of the '='");
    out->name = name;
    bool known = true, nothing_to_know = call->opened->trials.names.count == 0 && space->count == 0;
    if (!call->force && !nothing_to_know) {
        FT_TRY(known_value(call, space, name, equals + 1, &out->value, &known));
        return known ? FT_OK : unknown_name(call, space, name);
    }
    out->value = value_by_look(equals + 1);
    return FT_OK;
}

// The space of a study of ours is in its config.ini. Without one, or with one that this version cannot read, there are
// the trials.
static ft_status read_space(study_call *call, ft_space *space) {
    *space = (ft_space){0};
    ft_config config;
    const char *path = ft_path_join(&call->arena, call->place.directory, "config.ini");
    if (path == NULL) return FT_NO_MEMORY;
    if (!ft_path_exists(path)) return FT_OK;
    ft_status status = ft_study_config_load(&config, 1, &path, 0, NULL);
    if (status == FT_OK) {
        status = ft_space_read(&config, space);
        ft_config_free(&config);
    }
    if (status == FT_NO_MEMORY) return status;
    ft_error_clear();
    return FT_OK;
}

// ---- is it there already? -------------------------------------------------------------------------------------------

static bool number_value(const ft_choice *c, double *out) {
    *out = c->kind == FT_CHOICE_INT ? (double)c->integer : c->number;
    return c->kind == FT_CHOICE_INT || c->kind == FT_CHOICE_FLOAT;
}

// Numbers within 1e-5 of each other are the same, as for Optuna.
static bool same_value(const ft_choice *a, const ft_choice *b) {
    double x, y;
    if (number_value(a, &x) && number_value(b, &y))
        return x == y || fabs(x - y) <= 1e-5 * fabs(y) || (isnan(x) && isnan(y));
    return a->kind == b->kind && ft_choice_equal(a, b);
}

// What a trial was told to take, else what it took.
static ft_status params_of(ft_stored *study, int64_t number, ft_arena *arena, ft_fixed_param **params, int *count) {
    const ft_trials *trials = &study->trials;
    const ft_trial *t = &trials->trial[number];
    FT_TRY(ft_stored_fixed(study, number, arena, params, count));
    if (*params != NULL) return FT_OK;
    *params = ft_arena_alloc(arena, (size_t)(t->param_count + 1) * sizeof **params);
    if (*params == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < t->param_count; i++) {
        const ft_distribution *d = trials->distributions[t->params[i].distribution];
        double value = t->params[i].value;
        (*params)[(*count)++] =
            (ft_fixed_param){trials->names.name[t->params[i].name],
                             d->kind == FT_CATEGORICAL ? d->choices[(int)value]
                             : d->kind == FT_INT       ? (ft_choice){.kind = FT_CHOICE_INT, .integer = (int64_t)value}
                                                       : (ft_choice){.kind = FT_CHOICE_FLOAT, .number = value}};
    }
    return FT_OK;
}

static bool same_params(const ft_fixed_param *a, int a_count, const ft_fixed_param *b, int b_count) {
    int same = 0;
    for (int i = 0; i < a_count && a_count == b_count; i++)
        for (int k = 0; k < b_count; k++)
            same += strcmp(a[i].name, b[k].name) == 0 && same_value(&a[i].value, &b[k].value);
    return a_count == b_count && same == a_count;
}

static ft_status find_twin(ft_stored *study, const ft_fixed_param *params, int count, int64_t *twin) {
    *twin = -1;
    for (int64_t i = 0; i < study->trials.count && *twin < 0; i++) {
        ft_arena arena = {0};
        ft_fixed_param *others;
        int other_count;
        ft_status status = params_of(study, i, &arena, &others, &other_count);
        if (status == FT_OK && same_params(params, count, others, other_count)) *twin = i;
        ft_arena_free(&arena);
        FT_TRY(status);
    }
    return FT_OK;
}

// In one transaction, so that two who enqueue the same at once do not both find nothing.
static ft_status add(study_call *call, const ft_fixed_param *params, int count, int64_t *number, int64_t *twin) {
    *twin = -1;
    FT_TRY(ft_storage_begin(call->file));
    ft_status status = ft_stored_refresh(call->opened);
    if (status == FT_OK && call->skip_if_exists) status = find_twin(call->opened, params, count, twin);
    if (status == FT_OK && *twin < 0) status = ft_stored_enqueue(call->opened, params, count, number);
    if (status == FT_OK) status = ft_storage_commit(call->file);
    if (status != FT_OK) ft_storage_rollback(call->file);
    return status;
}

static ft_status parse_settings(study_call *call, const ft_space *space, ft_fixed_param *params) {
    for (int i = 0; i < call->setting_count; i++) {
        FT_TRY(parse_setting(call, space, call->settings[i], &params[i]));
        for (int k = 0; k < i; k++)
            if (strcmp(params[k].name, params[i].name) == 0)
                return ft_fail(FT_INVALID, params[i].name, "this parameter is given twice");
    }
    return FT_OK;
}

ft_status ft_study_enqueue(study_call *call) {
    int count = call->setting_count;
    if (count == 0) return ft_fail(FT_INVALID, "study", "enqueue needs at least one PARAMETER=VALUE");
    ft_fixed_param *params = ft_arena_alloc(&call->arena, (size_t)count * sizeof *params);
    if (params == NULL) return FT_NO_MEMORY;
    int64_t number = -1, twin = -1;
    ft_space space; // parsed choices are its own: it stays until they are stored
    FT_TRY(read_space(call, &space));
    ft_status status = parse_settings(call, &space, params);
    if (status == FT_OK) status = add(call, params, count, &number, &twin);
    ft_space_free(&space);
    FT_TRY(status);
    if (call->json) {
        bool failed = false;
        json_t *document = json_object();
        ft_json_put(document, "format_version", json_integer(1), &failed);
        ft_json_put(document, "number", json_integer(twin >= 0 ? twin : number), &failed);
        ft_json_put(document, "enqueued", json_boolean(twin < 0), &failed);
        return ft_study_print_json(document, failed);
    }
    if (twin >= 0)
        printf("trial %" PRId64 " has these parameters already: nothing is enqueued\n", twin);
    else
        printf("trial %" PRId64 " is waiting\n", number);
    return FT_OK;
}
