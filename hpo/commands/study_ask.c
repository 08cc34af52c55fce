// study_ask.c - `ftengine study ask` and `tell`: the search for any program's objective.
#include "hpo/commands/study.h"

#include "base/files.h"
#include "base/json/json.h"
#include "engine/config/options.h"
#include "hpo/commands/space_file.h"
#include "hpo/space/options_study.h"
#include "hpo/study/outside.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LIMITS = 64 }; // constraints of a program

// What both work with. The study's own configuration where it has one, else the standard sampler and pruner; settings of the command
// line lie over it.
typedef struct asking {
    ft_config config;
    ft_space space;
    ft_tuning tuning;
} asking;

// Of a run's options none is looked at: it is another program that trains.
static ft_status check_settings(const study_call *call, bool draws) {
    for (int i = 0; i < call->setting_count; i++) {
        const char *setting = call->settings[i];
        if (strncmp(setting, "study.", 6) == 0 || (draws && strncmp(setting, "space.", 6) == 0)) continue;
        ft_fail(FT_INVALID, setting, "%s takes no such setting", call->subcommand);
        if (strncmp(setting, "space.", 6) != 0) ft_hint("those of [study] it does, as study.sampler=gp");
        else ft_hint(strcmp(call->subcommand, "ask") == 0 ? "the space is that of --space" : "`ftengine study ask` does");
        return FT_INVALID;
    }
    return FT_OK;
}

static ft_status load(study_call *call, bool draws, ft_config *config) {
    const char *path = NULL;
    if (call->place.directory != NULL && (path = ft_path_join(&call->arena, call->place.directory, "config.ini")) == NULL) return FT_NO_MEMORY;
    const bool own = path != NULL && ft_path_exists(path);
    FT_TRY(ft_study_config_load(config, own ? 1 : 0, &path, call->setting_count, call->settings));
    FT_TRY(check_settings(call, draws));
    const ft_study_options *o = ft_study_options_of(config);
    if (!own && strcmp(o->pruner, "freeze_thaw") == 0) {
        ft_fail(FT_INVALID, "study.pruner", "freeze_thaw pauses trials of `ftengine tune`, and this study has none");
        ft_hint("the other pruners judge what `ftengine study tell --step` reports");
        return FT_INVALID;
    }
    if (!own && strcmp(o->fidelity, "data") == 0)
        return ft_fail(FT_INVALID, "study.fidelity", "data is of the texts that ftengine's own trials train on, and this study has none");
    if (own || o->constraints[0] == '\0') return FT_OK;
    ft_fail(FT_INVALID, "study.constraints", "is of the metrics that ftengine's own trials have, and this study has none");
    ft_hint("--constraints of `ftengine study tell` says what a program's own came to");
    return FT_INVALID;
}

static ft_status read_space(study_call *call, asking *a) {
    if (call->space != NULL) return ft_space_file_read(call->space, &a->space);
    FT_TRY(ft_space_read(&a->config, &a->space));
    if (a->space.count > 0) return FT_OK;
    ft_fail(FT_INVALID, call->opened->name, "this study has no search space of its own");
    ft_hint("--space FILE.json gives it: {\"x\": {\"name\": \"FloatDistribution\", \"attributes\": {\"low\": 0, \"high\": 1}}}");
    return FT_INVALID;
}

// ---- ask ---------------------------------------------------------------------------------------------------------------

static json_t *value_json(const ft_distribution *d, double value) {
    if (d->kind == FT_INT) return json_integer((json_int_t)value);
    if (d->kind == FT_FLOAT) return json_real(value);
    const ft_choice *c = &d->choices[(int)value];
    switch (c->kind) {
    case FT_CHOICE_NULL: return json_null();
    case FT_CHOICE_BOOL: return json_boolean(c->integer);
    case FT_CHOICE_INT: return json_integer(c->integer);
    case FT_CHOICE_FLOAT: return json_real(c->number);
    case FT_CHOICE_TEXT: break;
    }
    return json_string(c->text);
}

// params: what was drawn. options: of a study of runs also what each option is set to, as --json of `config` has them.
static ft_status print_asked(study_call *call, const asking *a, int64_t number, const char *const *values) {
    const ft_trials *trials = &call->opened->trials;
    const ft_trial *trial = &trials->trial[number];
    bool failed = false;
    json_t *document = json_object(), *params = json_object(), *options = json_object();
    for (int i = 0; i < trial->param_count; i++) {
        const ft_distribution *d = trials->distributions[trial->params[i].distribution];
        const char *name = trials->names.name[trial->params[i].name];
        ft_json_put(params, name, value_json(d, trial->params[i].value), &failed);
    }
    for (int i = 0; call->space == NULL && i < ft_option_count(); i++)
        if (values[i] != NULL) ft_json_put(options, ft_option_at(i)->name, ft_json_text(values[i]), &failed);
    ft_json_put(document, "format_version", json_integer(1), &failed);
    ft_json_put(document, "study", ft_json_text(call->opened->name), &failed);
    ft_json_put(document, "number", json_integer(number), &failed);
    ft_json_put(document, "params", params, &failed);
    ft_json_put(document, "options", options, &failed);
    if (call->json) return ft_study_print_json(document, failed);
    json_decref(document);
    printf("trial %" PRId64 "\n", number);
    for (int i = 0; i < a->space.count; i++) {
        const ft_space_rule *rule = &a->space.rules[i];
        const int name = rule->name != NULL ? ft_trials_find_name(trials, rule->name) : -1;
        const ft_trial_param *p = name >= 0 ? ft_trial_find_param(trial, name) : NULL;
        if (p == NULL || (i > 0 && ft_space_find(&a->space, rule->name) != rule)) continue; // a name may have several rules
        const char *text = ft_study_param_text(&call->arena, trials->distributions[p->distribution], p->value);
        if (text == NULL) return FT_NO_MEMORY;
        fputs("  ", stdout);
        ft_text_clean(rule->name, stdout);
        fputs(" = ", stdout);
        ft_text_clean(text, stdout);
        putchar('\n');
    }
    return FT_OK;
}

static ft_status ask(study_call *call, asking *a) {
    const char *values[FT_OPTION_LIMIT] = {NULL};
    int64_t number = -1;
    FT_TRY(load(call, call->space == NULL, &a->config));
    FT_TRY(read_space(call, a));
    FT_TRY(ft_outside_open(call->opened, &a->config, &a->space, &a->tuning));
    FT_TRY(ft_outside_ask(&a->tuning, &number, &call->arena, values));
    return print_asked(call, a, number, values);
}

// ---- tell --------------------------------------------------------------------------------------------------------------

static ft_status whole(const char *what, const char *text, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (*text != '\0' && *end == '\0' && errno == 0 && *out >= 0) return FT_OK;
    return ft_fail(FT_INVALID, "study", "%s is a whole number from 0 on, got '%.40s'", what, text);
}

static ft_status read_state(const study_call *call, ft_trial_state *state) {
    static const char *const names[] = {"complete", "pruned", "fail"};
    static const ft_trial_state states[] = {FT_COMPLETE, FT_PRUNED, FT_FAIL};
    *state = FT_COMPLETE;
    for (int i = 0; call->state != NULL; i++) {
        if (i == 3) return ft_no_such("--state", "end", call->state, 3, names);
        *state = states[i];
        if (strcmp(call->state, names[i]) == 0) return FT_OK;
    }
    return FT_OK;
}

static ft_status read_value(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    if (*text == '\0' || *end != '\0') return ft_fail(FT_INVALID, "study", "'%.40s' is no value of an objective", text);
    if (!isnan(*value)) return FT_OK;
    ft_fail(FT_INVALID, "study", "nan is no value that a trial can be compared by");
    ft_hint("--state fail tells that it diverged");
    return FT_INVALID;
}

static ft_status print_told(study_call *call, int64_t number, const bool *prune) {
    const ft_trial *trial = &call->opened->trials.trial[number];
    if (call->json) {
        bool failed = false;
        json_t *document = json_object();
        ft_json_put(document, "format_version", json_integer(1), &failed);
        ft_json_put(document, "number", json_integer(number), &failed);
        ft_json_put(document, "state", json_string(ft_trial_state_name(trial->state)), &failed);
        if (prune != NULL) ft_json_put(document, "prune", json_boolean(*prune), &failed);
        return ft_study_print_json(document, failed);
    }
    if (prune != NULL) puts(*prune ? "prune" : "go on");
    else printf("trial %" PRId64 " is told\n", number);
    return FT_OK;
}

// "-1,0.5": what constraints came to, <= 0 where they are kept.
static ft_status read_limits(const char *text, double limits[static LIMITS], int *count) {
    *count = 0;
    for (const char *at = text; at != NULL; at++) {
        char *end;
        const double value = strtod(at, &end);
        if (end == at || (*end != ',' && *end != '\0') || isnan(value))
            return ft_fail(FT_INVALID, "--constraints", "takes numbers with commas between, 0 or less where one is kept; got '%.100s'", text);
        if (*count == LIMITS) return ft_fail(FT_INVALID, "--constraints", "takes up to %d numbers", LIMITS);
        limits[(*count)++] = value;
        if (*end == '\0') break;
        at = end;
    }
    return FT_OK;
}

static ft_status tell(study_call *call, asking *a) {
    const ft_words *w = &call->words;
    double values[FT_OBJECTIVE_LIMIT + 1], limits[LIMITS];
    int64_t number, step = 0;
    int limit_count;
    ft_trial_state state;
    bool prune;
    if (w->plain_count == 0) return ft_fail(FT_INVALID, "study", "which trial?");
    const int count = w->plain_count - 1;
    FT_TRY(whole("a trial's number", w->plain[0], &number));
    FT_TRY(read_state(call, &state));
    if (count > FT_OBJECTIVE_LIMIT) return ft_fail(FT_INVALID, "study", "%d values are more than any study has objectives", count);
    for (int i = 0; i < count; i++) FT_TRY(read_value(w->plain[i + 1], &values[i]));
    if (call->step != NULL) FT_TRY(whole("a step", call->step, &step));
    FT_TRY(read_limits(call->constraints, limits, &limit_count));
    if (call->step != NULL && (count != 1 || call->state != NULL || limit_count > 0))
        return ft_fail(FT_INVALID, "study", "with --step go one value and no %s: the trial goes on", limit_count > 0 ? "--constraints" : "--state");
    FT_TRY(load(call, false, &a->config));
    FT_TRY(ft_outside_open(call->opened, &a->config, &a->space, &a->tuning));
    if (call->step == NULL) {
        FT_TRY(ft_outside_end(&a->tuning, number, state, values, count, limits, limit_count));
        return print_told(call, number, NULL);
    }
    FT_TRY(ft_outside_report(&a->tuning, number, step, values[0], &prune));
    return print_told(call, number, &prune);
}

static ft_status with(study_call *call, ft_status (*work)(study_call *call, asking *a)) {
    asking a = {.tuning = {.lock = -1}};
    ft_status status = work(call, &a);
    ft_outside_close(&a.tuning);
    ft_space_free(&a.space);
    ft_config_free(&a.config);
    return status;
}

ft_status ft_study_ask(study_call *call) { return with(call, ask); }
ft_status ft_study_tell(study_call *call) { return with(call, tell); }
