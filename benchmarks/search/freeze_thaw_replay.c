#include "benchmarks/search/freeze_thaw_replay.h"

#include "base/clock.h"
#include "benchmarks/search/nearby_trials.h"
#include "hpo/search/curves/freeze_thaw.h"

#include <math.h>
#include <stdlib.h>

// A curve begins with what the trial's parameters let expect of it: known before the first evaluation, and worth as
// much as it has told the final values so far, which the regressions of hpo/search/curves find out. A new trial is the
// most promising point of those that are looked at.
typedef struct paused_study {
    const recorded_curves *curves;
    ft_tuning *tuning;
    int64_t count, room;
    const ft_distribution **distribution; // [parameters]
    nearby_trials nearby;
    double *curve,
        *shown; // [room][points] as recorded_curves draws it; [room][points + 1] with what was expected before it
    int *known; // [room] evaluations, or points: it has ended
    ft_freeze_thaw_trial *trials; // [room + 1]
} paused_study;

static bool ended(const paused_study *s, int64_t i) { return s->known[i] == s->curves->points; }

static double sign_of(const paused_study *s) { return s->curves->study->maximize[0] ? 1 : -1; }

static ft_status grow_one(void **memory, size_t count, size_t size) {
    void *grown = ft_realloc(*memory, count, size, "a replay");
    if (grown == NULL) return FT_NO_MEMORY;
    *memory = grown;
    return FT_OK;
}

// There is room for one more than there are.
static ft_status grow(paused_study *s) {
    if (s->count + 1 < s->room) return FT_OK;
    s->room = 2 * s->room + 64;
    const size_t n = (size_t)s->room, points = (size_t)s->curves->points;
    FT_TRY(grow_one((void **)&s->nearby.at, n * (size_t)s->nearby.parameters, sizeof(double)));
    FT_TRY(grow_one((void **)&s->nearby.value, n, sizeof(double)));
    FT_TRY(grow_one((void **)&s->nearby.trust, n, sizeof(double)));
    FT_TRY(grow_one((void **)&s->nearby.kernel, n * n, sizeof(double)));
    s->nearby.room = s->room;
    nearby_weigh(&s->nearby, 0);
    FT_TRY(grow_one((void **)&s->curve, n * points, sizeof(double)));
    FT_TRY(grow_one((void **)&s->shown, n * (points + 1), sizeof(double)));
    FT_TRY(grow_one((void **)&s->known, n, sizeof(int)));
    return grow_one((void **)&s->trials, n, sizeof *s->trials);
}

// As the curves are learnt: the expectation by the parameters, and behind it what was evaluated.
static void show(paused_study *s) {
    const int points = s->curves->points;
    for (int64_t i = 0; i < s->count; i++) {
        double *shown = s->shown + i * (points + 1);
        shown[0] = sign_of(s) * nearby_expect(&s->nearby, i);
        for (int k = 0; k < points; k++)
            shown[k + 1] = s->curve[i * points + k];
        s->trials[i] = (ft_freeze_thaw_trial){shown, s->known[i] + 1, !ended(s, i), 1};
    }
}

// What is known now of the final values. Those far below the others count as little below.
static void learn(paused_study *s, const ft_freeze_thaw_choice *choice) {
    nearby_trials *n = &s->nearby;
    double weights = 0, sum = 0;
    n->spread = choice->deviation[s->count];
    for (int64_t i = 0; i < s->count; i++) {
        const double part = choice->deviation[i] / (n->spread + 1e-12);
        n->value[i] = sign_of(s) * choice->expected[i];
        n->trust[i] = fmax(0.02, 1 - part * part);
        sum += n->trust[i] * n->value[i];
        weights += n->trust[i];
    }
    if (weights > 0) n->mean = sum / weights;
    for (int64_t i = 0; i < s->count; i++)
        n->value[i] = fmax(n->value[i], n->mean - 3 * n->spread);
}

static void begin_trial(paused_study *s, const double *values, double expected) {
    const int64_t i = s->count++;
    s->nearby.value[i] = expected;
    s->nearby.trust[i] = 0;
    s->nearby.count = s->count;
    nearby_weigh(&s->nearby, i);
    s->known[i] = 0;
    recorded_curves_draw(s->curves, s->tuning->options->seed, i, values, s->curve + i * s->curves->points);
}

// The point that a new trial would have stands behind the others, as one that waits.
static ft_status choose(paused_study *s, int64_t *chosen, double *seconds) {
    nearby_trials *n = &s->nearby;
    ft_freeze_thaw_options options = ft_freeze_thaw_defaults(s->curves->points, s->curves->study->maximize[0]);
    ft_freeze_thaw_choice choice;
    ft_arena arena = {0};
    const double start = ft_now();
    double *room = ft_arena_alloc(&arena, 3 * (size_t)n->parameters * sizeof *room), first;
    ft_random_stream stream =
        ft_random_stream_of((uint64_t)s->tuning->options->seed, s->count, FT_DRAW_ACQUIRE, "place");
    ft_status status = room != NULL ? grow(s) : FT_NO_MEMORY;
    if (status == FT_OK) {
        double *values = room + 2 * n->parameters;
        if (n->count >= 8 && n->count >= n->fitted + (n->fitted < 40 ? 8 : 25)) nearby_fit(n);
        show(s);
        const double expected = nearby_propose(n, &stream, room, values, n->at + s->count * n->parameters);
        first = sign_of(s) * expected;
        s->trials[s->count] = (ft_freeze_thaw_trial){&first, 1, true, 1};
        options.may_begin = false;
        status = ft_freeze_thaw_choose(s->trials, s->count + 1, &options, &arena, &choice);
        if (status == FT_OK) learn(s, &choice), *chosen = choice.trial;
        if (status == FT_OK && *chosen == s->count) begin_trial(s, values, expected);
    }
    ft_arena_free(&arena);
    *seconds += ft_now() - start;
    return status;
}

static ft_status one_stage(paused_study *s, freeze_thaw_replay *out, double *seconds) {
    const recorded_curves *c = s->curves;
    const ft_trial_report *reports = c->trial[0]->reports;
    int64_t i = 0;
    FT_TRY(choose(s, &i, seconds));
    const int stage = s->known[i]++;
    out->steps += reports[stage].step - (stage > 0 ? reports[stage - 1].step : 0);
    if (s->known[i] < c->points - 1) return FT_OK;
    s->known[i] = c->points; // the final value is known with the last evaluation
    const double value = s->curve[i * c->points + c->points - 1];
    if (isnan(out->best) || sign_of(s) * value > sign_of(s) * out->best) out->best = value;
    return FT_OK;
}

static ft_status begin(paused_study *s) {
    const int parameters = s->nearby.parameters;
    s->distribution = ft_calloc((size_t)parameters + 1, sizeof *s->distribution, "a replay");
    s->nearby.width = ft_calloc((size_t)parameters + 1, sizeof *s->nearby.width, "a replay");
    if (s->distribution == NULL || s->nearby.width == NULL) return FT_NO_MEMORY;
    for (int p = 0; p < parameters; p++) {
        s->distribution[p] = s->curves->study->distributions[ft_trial_find_param(s->curves->trial[0], p)->distribution];
        s->nearby.width[p] = 0.2;
    }
    s->nearby.distribution = s->distribution;
    return FT_OK;
}

ft_status freeze_thaw_replay_run(const recorded_curves *curves, ft_tuning *tuning, double goal, int64_t most,
                                 freeze_thaw_replay *out) {
    paused_study s = {
        .curves = curves, .tuning = tuning, .nearby = {.parameters = curves->study->names.count, .spread = 1}};
    double seconds = 0;
    int64_t choices = 0;
    *out = (freeze_thaw_replay){.best = NAN};
    ft_status status = begin(&s);
    for (; status == FT_OK && !(sign_of(&s) * out->best >= sign_of(&s) * goal) && out->steps < most; choices++)
        status = one_stage(&s, out, &seconds);
    out->trials = s.count;
    for (int64_t i = 0; i < s.count; i++)
        out->paused += !ended(&s, i);
    out->seconds = choices > 0 ? seconds / (double)choices : 0;
    free(s.distribution);
    free(s.nearby.width);
    free(s.nearby.at);
    free(s.nearby.value);
    free(s.nearby.trust);
    free(s.nearby.kernel);
    free(s.curve);
    free(s.shown);
    free(s.known);
    free(s.trials);
    return status;
}
