#include "benchmarks/search/freeze_thaw_replay.h"

#include "base/clock.h"
#include "hpo/search/curves/pausing.h"
#include "hpo/search/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct paused_study {
    const recorded_curves *curves;
    ft_tuning *tuning;
    ft_trials trials;
    ft_sampler *sampler; // of the first trial, before which there are no places
    ft_pausing pausing;
    ft_pausing_trial *view; // [room]
    double *curve;          // [room][points] as recorded_curves draws it
    int64_t room;
    ft_pausing_widths widths; // those that the latest trial began with; [names]
    double *values, *place;   // [names] of a trial; [points]
} paused_study;

static ft_status grow(paused_study *s) {
    if (s->trials.count < s->room) return FT_OK;
    s->room = 2 * s->room + 64;
    ft_pausing_trial *view = ft_realloc(s->view, (size_t)s->room, sizeof *view, "a replay");
    if (view != NULL) s->view = view;
    double *curve = ft_realloc(s->curve, (size_t)(s->room * s->curves->points), sizeof *curve, "a replay");
    if (curve != NULL) s->curve = curve;
    return view != NULL && curve != NULL ? FT_OK : FT_NO_MEMORY;
}

// As `ftengine tune` does it: what was proposed for the whole trial, and what is asked for of it.
static ft_status begin_trial(paused_study *s, const ft_pausing_choice *choice, int64_t *number) {
    const ft_trials *recorded = s->curves->study;
    FT_TRY(ft_trials_append(&s->trials, FT_RUNNING, number));
    FT_TRY(grow(s));
    for (int i = 0; i < choice->place_count; i++)
        FT_TRY(ft_trials_set_relative(&s->trials, *number, choice->place[i].name, choice->place[i].distribution, choice->place[i].value));
    for (int name = 0; name < recorded->names.count; name++) {
        const ft_distribution *d = recorded->distributions[ft_trial_find_param(s->curves->trial[0], name)->distribution];
        int id, distribution;
        FT_TRY(ft_sampler_suggest(s->sampler, *number, recorded->names.name[name], d, &s->values[name]));
        FT_TRY(ft_trials_name(&s->trials, recorded->names.name[name], &id));
        FT_TRY(ft_trials_distribution(&s->trials, d, &distribution));
        FT_TRY(ft_trials_set_param(&s->trials, *number, id, distribution, s->values[name]));
    }
    recorded_curves_draw(s->curves, s->tuning->options->seed, *number, s->values, s->curve + *number * s->curves->points);
    s->view[*number] = (ft_pausing_trial){.waits = true, .steps = s->curves->trial[0]->reports[s->curves->points - 2].step, .step_seconds = 1};
    if (choice->widths.fitted == s->widths.fitted) return FT_OK;
    s->widths.fitted = choice->widths.fitted;
    s->widths.count = choice->widths.count;
    memcpy(s->widths.width, choice->widths.width, (size_t)choice->widths.count * sizeof(double));
    return FT_OK;
}

static ft_status choose(paused_study *s, int64_t *number, double *seconds) {
    const ft_pausing_options options = {.seed = (uint64_t)s->tuning->options->seed, .may_begin = true, .places = true};
    ft_pausing_choice choice;
    ft_arena arena = {0};
    const double start = ft_now();
    ft_status status = ft_pausing_choose(&s->pausing, &s->trials, s->view, &s->widths, &options, &arena, &choice);
    if (status == FT_OK) *number = choice.trial;
    if (status == FT_OK && choice.trial == FT_FREEZE_THAW_NEW) status = begin_trial(s, &choice, number);
    ft_arena_free(&arena);
    *seconds += ft_now() - start;
    return status;
}

static ft_status one_stage(paused_study *s, const recorded_race *goal, freeze_thaw_replay *out, double *seconds) {
    const recorded_curves *c = s->curves;
    const ft_trial_report *reports = c->trial[0]->reports;
    int64_t i = 0;
    FT_TRY(choose(s, &i, seconds));
    const int stage = s->trials.trial[i].report_count;
    const double *curve = s->curve + i * c->points;
    out->race.steps += reports[stage].step - (stage > 0 ? reports[stage - 1].step : 0);
    FT_TRY(ft_trials_report(&s->trials, i, reports[stage].step, curve[stage]));
    if (stage + 1 < c->points - 1) return FT_OK;
    s->view[i].waits = false; // the final value is known with the last evaluation
    const double value = curve[c->points - 1];
    for (int name = 0; name < c->study->names.count; name++) // numbers of names are those of the recorded study: they were asked for in that order
        s->values[name] = ft_trial_find_param(&s->trials.trial[i], name)->value;
    recorded_race_add(&out->race, c, s->values, value, goal, s->place);
    return ft_trials_finish(&s->trials, i, FT_COMPLETE, &value, 1);
}

static ft_status begin(paused_study *s) {
    ft_sampler_options options = ft_sampler_defaults();
    const size_t names = (size_t)s->curves->study->names.count + 1;
    options.kind = FT_SAMPLER_RANDOM;
    options.seed = (uint64_t)s->tuning->options->seed;
    FT_TRY(ft_trials_init(&s->trials, 1, s->curves->study->maximize));
    s->values = ft_calloc(names, sizeof *s->values, "a replay");
    s->place = ft_calloc((size_t)s->curves->points, sizeof *s->place, "a replay");
    s->widths.width = ft_calloc(names, sizeof *s->widths.width, "a replay");
    if (s->values == NULL || s->place == NULL || s->widths.width == NULL) return FT_NO_MEMORY;
    FT_TRY(grow(s));
    return ft_sampler_new(&options, &s->trials, &s->sampler);
}

ft_status freeze_thaw_replay_run(const recorded_curves *curves, ft_tuning *tuning, const recorded_race *goal,
                                 freeze_thaw_replay *out) {
    paused_study s = {.curves = curves, .tuning = tuning};
    double seconds = 0;
    int64_t choices = 0;
    *out = (freeze_thaw_replay){.race = {.best = NAN, .place = NAN}};
    ft_status status = begin(&s);
    for (; status == FT_OK && !recorded_race_over(&out->race, goal); choices++)
        status = one_stage(&s, goal, out, &seconds);
    out->trials = s.trials.count;
    for (int64_t i = 0; i < s.trials.count; i++)
        out->paused += s.trials.trial[i].state == FT_RUNNING;
    out->seconds = choices > 0 ? seconds / (double)choices : 0;
    ft_sampler_free(s.sampler);
    ft_pausing_free(&s.pausing);
    ft_trials_free(&s.trials);
    free(s.widths.width);
    free(s.values);
    free(s.place);
    free(s.view);
    free(s.curve);
    return status;
}
