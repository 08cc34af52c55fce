#include "benchmarks/search/freeze_thaw_replay.h"

#include "base/clock.h"
#include "hpo/search/curves/freeze_thaw.h"
#include "hpo/search/sampler.h"

#include <math.h>
#include <stdlib.h>

typedef struct paused_study {
    const recorded_curves *curves;
    ft_tuning *tuning;
    int64_t count, room;
    int parameters;
    double *params, *curve; // [room][parameters], [room][points]
    int *known;             // [room] evaluations, or points: it has ended
    ft_freeze_thaw_trial *trials;
} paused_study;

static bool ended(const paused_study *s, int64_t i) { return s->known[i] == s->curves->points; }

static const ft_distribution *distribution_of(const paused_study *s, int name) {
    const ft_trial *trial = s->curves->trial[0];
    return s->curves->study->distributions[ft_trial_find_param(trial, name)->distribution];
}

static ft_status set_param(const paused_study *s, ft_trials *view, int64_t number, int name, double value) {
    int id, distribution;
    FT_TRY(ft_trials_name(view, s->curves->study->names.name[name], &id));
    FT_TRY(ft_trials_distribution(view, distribution_of(s, name), &distribution));
    return ft_trials_set_param(view, number, id, distribution, value);
}

// As the sampler sees it: all trials have ended, those that have not with the value that is expected.
static ft_status view_of(const paused_study *s, const ft_freeze_thaw_choice *choice, ft_trials *view) {
    for (int64_t i = 0; i < s->count; i++) {
        int64_t number;
        FT_TRY(ft_trials_append(view, FT_RUNNING, &number));
        for (int name = 0; name < s->parameters; name++)
            FT_TRY(set_param(s, view, number, name, s->params[i * s->parameters + name]));
        FT_TRY(ft_trials_finish(view, number, FT_COMPLETE, &choice->expected[i], 1));
    }
    return FT_OK;
}

static ft_status suggest(const paused_study *s, ft_sampler *sampler, ft_trials *view, double *values) {
    int64_t number;
    FT_TRY(ft_trials_append(view, FT_RUNNING, &number));
    for (int name = 0; name < s->parameters; name++) {
        FT_TRY(ft_sampler_suggest(sampler, number, s->curves->study->names.name[name], distribution_of(s, name),
                                  &values[name]));
        FT_TRY(set_param(s, view, number, name, values[name]));
    }
    return FT_OK;
}

static ft_status grow(paused_study *s) {
    if (s->count < s->room) return FT_OK;
    s->room = 2 * s->room + 64;
    const size_t n = (size_t)s->room;
    double *params = ft_realloc(s->params, n * (size_t)s->parameters, sizeof *params, "a replay");
    if (params == NULL) return FT_NO_MEMORY;
    s->params = params;
    double *curve = ft_realloc(s->curve, n * (size_t)s->curves->points, sizeof *curve, "a replay");
    if (curve == NULL) return FT_NO_MEMORY;
    s->curve = curve;
    int *known = ft_realloc(s->known, n, sizeof *known, "a replay");
    if (known == NULL) return FT_NO_MEMORY;
    s->known = known;
    ft_freeze_thaw_trial *trials = ft_realloc(s->trials, n, sizeof *trials, "a replay");
    if (trials == NULL) return FT_NO_MEMORY;
    s->trials = trials;
    return FT_OK;
}

static ft_status begin_trial(paused_study *s, const ft_freeze_thaw_choice *choice) {
    ft_trials view;
    ft_sampler *sampler = NULL;
    FT_TRY(grow(s));
    double *values = s->params + s->count * s->parameters;
    ft_status status = ft_trials_init(&view, 1, s->curves->study->maximize);
    if (status == FT_OK) status = view_of(s, choice, &view);
    if (status == FT_OK) status = ft_tuning_sampler(s->tuning, &view, &sampler);
    if (status == FT_OK) status = suggest(s, sampler, &view, values);
    ft_sampler_free(sampler);
    ft_trials_free(&view);
    if (status != FT_OK) return status;
    recorded_curves_draw(s->curves, s->tuning->options->seed, s->count, values,
                         s->curve + s->count * s->curves->points);
    s->known[s->count++] = 0;
    return FT_OK;
}

static ft_status one_stage(paused_study *s, freeze_thaw_replay *out, double *seconds) {
    const recorded_curves *c = s->curves;
    const bool maximize = c->study->maximize[0];
    const ft_freeze_thaw_options options = ft_freeze_thaw_defaults(c->points - 1, maximize);
    ft_freeze_thaw_choice choice;
    ft_arena arena = {0};
    const double start = ft_now();
    for (int64_t i = 0; i < s->count; i++)
        s->trials[i] = (ft_freeze_thaw_trial){s->curve + i * c->points, s->known[i], !ended(s, i), 1};
    ft_status status = ft_freeze_thaw_choose(s->trials, s->count, &options, &arena, &choice);
    *seconds += ft_now() - start;
    int64_t i = status == FT_OK ? choice.trial : 0;
    if (status == FT_OK && i == FT_FREEZE_THAW_NEW) {
        i = s->count;
        status = begin_trial(s, &choice);
    }
    ft_arena_free(&arena);
    if (status != FT_OK) return status;
    const ft_trial_report *reports = c->trial[0]->reports;
    const int stage = s->known[i]++;
    out->steps += reports[stage].step - (stage > 0 ? reports[stage - 1].step : 0);
    if (s->known[i] < c->points - 1) return FT_OK;
    s->known[i] = c->points; // the final value is known with the last evaluation
    const double value = s->curve[i * c->points + c->points - 1];
    if (isnan(out->best) || (maximize ? value > out->best : value < out->best)) out->best = value;
    return FT_OK;
}

ft_status freeze_thaw_replay_run(const recorded_curves *curves, ft_tuning *tuning, double goal, int64_t most,
                                 freeze_thaw_replay *out) {
    paused_study s = {.curves = curves, .tuning = tuning, .parameters = curves->study->names.count};
    const double sign = curves->study->maximize[0] ? 1 : -1;
    double seconds = 0;
    int64_t choices = 0;
    *out = (freeze_thaw_replay){.best = NAN};
    ft_status status = FT_OK;
    for (; status == FT_OK && !(sign * out->best >= sign * goal) && out->steps < most; choices++)
        status = one_stage(&s, out, &seconds);
    out->trials = s.count;
    for (int64_t i = 0; i < s.count; i++)
        out->paused += !ended(&s, i);
    out->seconds = choices > 0 ? seconds / (double)choices : 0;
    free(s.params);
    free(s.curve);
    free(s.known);
    free(s.trials);
    return status;
}
