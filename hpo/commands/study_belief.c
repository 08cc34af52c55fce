#include "hpo/commands/study_belief.h"

#include "base/json/json.h"
#include "hpo/search/gp/teachers.h"
#include "hpo/space/objective.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- why a trial ----------------------------------------------------------------------------------------------------

static ft_status newest(study_call *call, const char *text, int64_t *number) {
    const ft_trials *trials = &call->opened->trials;
    char *end;
    *number = trials->count - 1;
    while (text == NULL && *number >= 0 && trials->trial[*number].state == FT_WAITING)
        --*number;
    if (text == NULL) return FT_OK;
    *number = strtoll(text, &end, 10);
    if (*text != '\0' && *end == '\0' && *number >= 0 && *number < trials->count) return FT_OK;
    if (trials->count == 0) return ft_fail(FT_INVALID, "--trial", "the study has no trials");
    return ft_fail(FT_INVALID, "--trial", "there is no trial %s, only 0 to %" PRId64, text, trials->count - 1);
}

// then [number]: the earlier trials that had ended when it began. Without times: all that have.
static ft_status ended_before(study_call *call, int64_t number, bool *then, int64_t *ended) {
    const ft_trials *trials = &call->opened->trials;
    int64_t start, finish, began;
    *ended = 0;
    FT_TRY(ft_stored_times(call->opened, number, &began, &finish));
    for (int64_t i = 0; i < number; i++) {
        FT_TRY(ft_stored_times(call->opened, i, &start, &finish));
        then[i] = ft_trial_finished(trials->trial[i].state) && (began < 0 || finish < 0 || finish <= began);
        *ended += then[i];
    }
    return FT_OK;
}

// As sampler.c does it: auto is gp, or tpe where that cannot be; a start is over after so many trials that ended, of tpe that did not fail
// unless failed ones count.
static ft_status who_chose(study_call *call, int64_t number, const bool *then, int64_t ended, const ft_report_settings *settings,
                           bool learns, const char **out) {
    const ft_trials *trials = &call->opened->trials;
    const char *fixed, *sampler = settings->sampler;
    int64_t start = settings->startup_trials, past = ended;
    *out = NULL;
    FT_TRY(ft_stored_attribute(call->opened, number, FT_SYSTEM_ATTRIBUTE, "fixed_params", &call->arena, &fixed));
    if (fixed != NULL || sampler == NULL) return (void)(*out = fixed != NULL ? "person" : NULL), FT_OK;
    const bool beyond = ended > FT_INSIGHT_MOST || trials->names.count > FT_INSIGHT_PARAMETERS || trials->objectives > 1;
    if (strcmp(sampler, "auto") == 0) sampler = beyond ? "tpe" : "gp";
    const bool tpe = strcmp(sampler, "tpe") == 0, by_ended = strcmp(sampler, "gp") == 0 || strcmp(sampler, "cmaes") == 0;
    for (int64_t i = 0; i < number && tpe && !settings->count_failed; i++)
        past -= then[i] && trials->trial[i].state == FT_FAIL;
    if (by_ended && learns) start += start / 2;
    *out = (tpe || by_ended) && past < start ? "start" : sampler;
    return FT_OK;
}

static ft_status explain(study_call *call, const ft_report_settings *settings, const ft_lessons *lessons,
                         ft_study_beliefs *b) {
    const ft_trials *trials = &call->opened->trials;
    ft_gp_options options = b->now->options;
    ft_gp_teachers teachers;
    int64_t ended;
    bool *then = ft_arena_alloc(&call->arena, (size_t)b->trial + 1);
    if (then == NULL) return FT_NO_MEMORY;
    FT_TRY(ended_before(call, b->trial, then, &ended));
    b->learns = lessons != NULL;
    FT_TRY(who_chose(call, b->trial, then, ended, settings, b->learns, &b->chosen_by));
    if (trials->trial[b->trial].param_count == 0) return FT_OK; // it has no place yet
    const bool always = settings->sampler != NULL && strcmp(settings->sampler, "gp") == 0;
    if (lessons == NULL || trials->objectives > 1)
        return ft_gp_insight_before(trials, &options, b->trial, then, always, &b->view, &b->silence);
    FT_TRY(ft_gp_teachers_init(lessons, &teachers));
    options.teachers = &teachers;
    ft_status status = ft_gp_insight_before(trials, &options, b->trial, then, always, &b->view, &b->silence);
    ft_gp_teachers_free(&teachers);
    return status;
}

ft_status ft_study_beliefs_load(study_call *call, const char *trial, const ft_lessons *lessons, ft_study_beliefs *b) {
    ft_report_settings settings;
    *b = (ft_study_beliefs){.best_trial = -1, .silence = FT_GP_FEW};
    FT_TRY(ft_report_settings_load(call->place.directory, call->opened->trials.objectives, &call->arena, &settings));
    FT_TRY(ft_study_belief_of(&call->opened->trials, &settings, &call->arena, &b->now));
    if (b->now->silence == FT_GP_SPEAKS) {
        FT_TRY(ft_gp_insight_best(&b->now->insight, &call->arena, &b->best, &b->best_trial));
        FT_TRY(ft_gp_insight_next(&b->now->insight, &call->arena, &b->next));
    }
    FT_TRY(newest(call, trial, &b->trial));
    return b->trial >= 0 ? explain(call, &settings, lessons, b) : FT_OK;
}

// ---- for people ----------------------------------------------------------------------------------------------------

static void print_view(const ft_study_beliefs *b, const ft_gp_view *view, const char *objective) {
    char value[FT_FIGURE_TEXT], off[FT_FIGURE_TEXT];
    ft_figure_text(objective, view->worse ? b->now->insight.middle : view->mean, 5, value);
    if (view->worse)
        printf(b->now->silence == FT_GP_SPEAKS ? "worse than the middle trial (%s now)" : "worse than the middle trial",
               value);
    else
        printf("%s, give or take %s", value, ft_figure_text(objective, view->deviation, 2, off));
}

static ft_status print_params(study_call *call, const ft_gp_place *place) {
    const ft_trials *trials = &call->opened->trials;
    char number[FT_FIGURE_TEXT];
    for (int i = 0; i < place->count; i++) {
        const ft_trial_param *p = &place->params[i];
        const ft_distribution *d = trials->distributions[p->distribution];
        const char *text = d->kind == FT_FLOAT ? ft_figure_text("", p->value, 5, number)
                                               : ft_study_param_text(&call->arena, d, p->value);
        if (text == NULL) return FT_NO_MEMORY;
        putchar(' ');
        ft_text_clean(trials->names.name[p->name], stdout);
        putchar('=');
        ft_text_clean(text, stdout);
    }
    putchar('\n');
    return FT_OK;
}

static void print_gain(const ft_gp_view *view, const char *objective) {
    char gain[FT_FIGURE_TEXT];
    printf("; expected gain %s", ft_figure_text(objective, view->gain, 2, gain));
    if (view->chance < 0.995) printf(", %.0f%% likely to fail or to break a limit", 100 * (1 - view->chance));
}

static void print_trial(study_call *call, const ft_study_beliefs *b, const char *objective) {
    const ft_trial *trial = &call->opened->trials.trial[b->trial];
    char came_to[FT_FIGURE_TEXT];
    const char *by = b->chosen_by;
    if (by == NULL && b->silence != FT_GP_SPEAKS) return;
    printf("trial %-4" PRId64 " ", b->trial);
    if (by == NULL)
        fputs("a Gaussian process of the trials before", stdout);
    else if (strcmp(by, "person") == 0)
        fputs("a person asked for it", stdout);
    else if (strcmp(by, "start") == 0)
        printf("one of the first, which are spread over the space%s", b->learns ? " or good in another study" : "");
    else if (strcmp(by, "gp") == 0)
        fputs("chosen by the Gaussian process", stdout);
    else
        printf("chosen by %s", by);
    if (b->silence == FT_GP_SPEAKS) {
        fputs(by == NULL || strcmp(by, "gp") == 0 ? " expected " : "; a Gaussian process expected ", stdout);
        print_view(b, &b->view, objective);
        print_gain(&b->view, objective);
    }
    if (trial->value_count == 1) printf("; it came to %s", ft_figure_text(objective, trial->values[0], 5, came_to));
    putchar('\n');
}

ft_status ft_study_beliefs_print(study_call *call, const ft_study_beliefs *b, const char *objective) {
    if (b->now->silence == FT_GP_SPEAKS) {
        fputs("expects    ", stdout);
        print_view(b, &b->best.view, objective);
        if (b->best_trial >= 0)
            printf(", best at trial %" PRId64 ":", b->best_trial);
        else
            fputs(", best where no trial was:", stdout);
        FT_TRY(print_params(call, &b->best));
    } else if (b->now->silence != FT_GP_FEW) {
        printf("expects    nothing, since %s\n", ft_gp_silence_text(b->now->silence));
    }
    if (b->now->silence == FT_GP_SPEAKS && b->next.count > 0) {
        fputs("next       ", stdout);
        print_view(b, &b->next.view, objective);
        print_gain(&b->next.view, objective);
        putchar(':');
        FT_TRY(print_params(call, &b->next));
    }
    if (b->trial >= 0) print_trial(call, b, objective);
    return FT_OK;
}

// ---- for programs --------------------------------------------------------------------------------------------------

static json_t *number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

static void put_view(json_t *object, const ft_gp_view *view, bool *failed) {
    ft_json_put(object, "expected", view->worse ? json_null() : number(view->mean), failed);
    ft_json_put(object, "worse_than_middle", json_boolean(view->worse), failed);
    ft_json_put(object, "deviation", number(view->deviation), failed);
    ft_json_put(object, "expected_gain", number(view->gain), failed);
    ft_json_put(object, "chance", number(view->chance), failed);
}

static json_t *place_value(study_call *call, const ft_gp_place *place, int64_t trial, bool *failed) {
    const ft_trials *trials = &call->opened->trials;
    if (place->count == 0) return json_null();
    json_t *object = json_object(), *params = json_object();
    for (int i = 0; i < place->count; i++)
        ft_json_put(params, trials->names.name[place->params[i].name],
                    ft_exchange_value(trials->distributions[place->params[i].distribution], place->params[i].value),
                    failed);
    ft_json_put(object, "params", params, failed);
    ft_json_put(object, "trial", trial >= 0 ? json_integer(trial) : json_null(), failed);
    put_view(object, &place->view, failed);
    return object;
}

void ft_study_beliefs_put(study_call *call, const ft_study_beliefs *b, json_t *document, bool *failed) {
    json_t *belief = json_object(), *chosen = b->trial >= 0 ? json_object() : json_null();
    const bool speaks = b->now->silence == FT_GP_SPEAKS;
    ft_json_put(belief, "none_since", speaks ? json_null() : ft_json_text(ft_gp_silence_text(b->now->silence)), failed);
    ft_json_put(belief, "middle", speaks ? number(b->now->insight.middle) : json_null(), failed);
    ft_json_put(belief, "best", speaks ? place_value(call, &b->best, b->best_trial, failed) : json_null(), failed);
    ft_json_put(belief, "next", speaks ? place_value(call, &b->next, -1, failed) : json_null(), failed);
    ft_json_put(document, "belief", belief, failed);
    if (b->trial >= 0) {
        json_t *before = b->silence == FT_GP_SPEAKS ? json_object() : json_null();
        if (b->silence == FT_GP_SPEAKS) put_view(before, &b->view, failed);
        ft_json_put(chosen, "trial", json_integer(b->trial), failed);
        ft_json_put(chosen, "by", b->chosen_by != NULL ? ft_json_text(b->chosen_by) : json_null(), failed);
        ft_json_put(chosen, "before", before, failed);
    }
    ft_json_put(document, "chosen", chosen, failed);
}
