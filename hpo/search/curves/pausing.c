#include "hpo/search/curves/pausing.h"

#include "base/heap.h"
#include "hpo/search/curves/places.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STAGES = FT_CURVE_STAGES - 1, FEW = 8, MANY = 40 }; // one more stage is what the place lets expect
static const double SAME = 1e-9;                                // of a part of the way
static const double WIDTH = 0.2;                                // before there are trials to tell
static const double FENCE = 3;    // spreads below the mean, at which a value counts that is worse
static const double LEAST = 0.02; // trust in a trial that has shown nothing

// ---- the stages -----------------------------------------------------------------------------------------------------

typedef struct schedule {
    int stages;             // 0: no trial is complete yet
    double at[MOST_STAGES]; // parts of a whole trial
    double steps;           // of that one
} schedule;

static schedule schedule_of(const ft_trials *trials) {
    schedule s = {0};
    for (int64_t i = 0; i < trials->count && s.stages == 0; i++) {
        const ft_trial *t = &trials->trial[i];
        const int n = t->report_count;
        if (t->state != FT_COMPLETE || n == 0 || t->reports[n - 1].step <= 0) continue;
        s.stages = n < MOST_STAGES ? n : MOST_STAGES;
        s.steps = (double)t->reports[n - 1].step;
        for (int k = 0; k < s.stages; k++)
            s.at[k] = (double)t->reports[((int64_t)(k + 1) * n + s.stages - 1) / s.stages - 1].step / s.steps;
    }
    return s;
}

// ---- the curves -----------------------------------------------------------------------------------------------------

// A trial that has a place; `value` begins with what that lets expect.
typedef struct listed {
    int64_t number;
    bool curve; // else it failed, is beyond what it must keep, or has no finite values
    ft_freeze_thaw_trial as;
} listed;

static double length_of(const schedule *s, const ft_trial *t, const ft_pausing_trial *view) {
    if (view->steps > 0) return (double)view->steps;
    return t->state == FT_COMPLETE && t->report_count > 0 ? fmax(1, (double)t->reports[t->report_count - 1].step)
                                                          : s->steps;
}

// values [stages + 1] of what it has shown; returns how many there are.
static int shown(const schedule *s, const ft_trial *t, double length, double *values) {
    int known = 0;
    for (int i = 0; i < t->report_count; i++)
        while (known < s->stages && (double)t->reports[i].step >= (s->at[known] - SAME) * length)
            values[known++] = t->reports[i].value;
    if (t->state != FT_COMPLETE) return known;
    for (; known < s->stages; known++) // it ended early
        values[known] = known > 0 ? values[known - 1] : t->values[0];
    values[known] = t->values[0];
    return known + 1;
}

static bool all_finite(const double *values, int count) {
    for (int i = 0; i < count; i++)
        if (!isfinite(values[i])) return false;
    return true;
}

static ft_status list(const ft_trials *trials, const ft_pausing_trial *view, const schedule *s, double usual_seconds,
                      ft_arena *arena, listed *out, int64_t *count) {
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *t = &trials->trial[i];
        if (t->state == FT_WAITING) continue;
        double *value = ft_arena_alloc(arena, ((size_t)s->stages + 2) * sizeof *value);
        if (value == NULL) return FT_NO_MEMORY;
        const double length = length_of(s, t, &view[i]),
                     each = view[i].step_seconds > 0 ? view[i].step_seconds : usual_seconds;
        const int known = shown(s, t, length, value + 1);
        const double done = t->report_count > 0 ? (double)t->reports[t->report_count - 1].step : 0;
        const double next = known < s->stages ? s->at[known] * length - done : 1;
        const bool failed = t->state == FT_FAIL || (t->state == FT_PRUNED && known == 0) ||
                            (t->state == FT_COMPLETE && ft_trial_violation(t) > 0);
        out[(*count)++] = (listed){.number = i,
                                   .curve = !failed && all_finite(value + 1, known),
                                   .as = {value, known + 1, view[i].waits, fmax(next, 1) * each}};
    }
    return FT_OK;
}

// Seconds of a step, of those that are known; 1: of none.
static double usual_seconds(const ft_trials *trials, const ft_pausing_trial *view) {
    double sum = 0, count = 0;
    for (int64_t i = 0; i < trials->count; i++)
        if (view[i].step_seconds > 0) sum += view[i].step_seconds, count++;
    return count > 0 ? sum / count : 1;
}

// That the first stage of a new trial takes.
static double new_seconds(const ft_trials *trials, const ft_pausing_trial *view, const schedule *s, double usual) {
    double sum = 0, count = 0;
    for (int64_t i = 0; i < trials->count; i++) {
        if (trials->trial[i].state == FT_WAITING) continue;
        sum += length_of(s, &trials->trial[i], &view[i]) * (view[i].step_seconds > 0 ? view[i].step_seconds : usual);
        count++;
    }
    return s->at[0] * (count > 0 ? sum / count : s->steps * usual);
}

// ---- the places -----------------------------------------------------------------------------------------------------

typedef struct study {
    const ft_trials *trials;
    schedule schedule;
    listed *listed; // [count]
    int64_t count;
    double sign; // of better values
    ft_gp_axes axes;
    ft_nearby nearby;
} study;

// What is known of final values by the curves alone. Those far below the others count as little below.
static ft_status learn(study *y, ft_arena *arena) {
    ft_nearby *n = &y->nearby;
    ft_curve *curves = ft_arena_alloc(arena, ((size_t)y->count + 1) * sizeof *curves);
    ft_curve_model model;
    double mean, variance, weights = 0, sum = 0;
    int64_t used = 0;
    if (curves == NULL) return FT_NO_MEMORY;
    const ft_freeze_thaw_options o = ft_freeze_thaw_defaults(y->schedule.stages, y->sign > 0);
    ft_freeze_thaw_trial *plain = ft_arena_alloc(arena, ((size_t)y->count + 1) * sizeof *plain);
    if (plain == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < y->count; i++)
        if (y->listed[i].curve) {
            plain[used] = y->listed[i].as;
            plain[used].value++, plain[used++].known--;
        }
    FT_TRY(ft_freeze_thaw_believe(plain, used, &o, arena, &model));
    ft_curve_ask(&model, NULL, 0, &mean, &variance);
    n->mean = mean;
    n->spread = sqrt(variance);
    for (int64_t i = 0, k = 0; i < y->count; i++) {
        double value[MOST_STAGES + 1];
        n->trust[i] = 1; // one that failed has told that
        n->value[i] = -INFINITY;
        if (!y->listed[i].curve) continue;
        for (int s = 0; s < plain[k].known; s++)
            value[s] = y->sign * plain[k].value[s];
        ft_curve_ask(&model, value, plain[k++].known, &n->value[i], &variance);
        const double part = sqrt(variance) / (n->spread + 1e-12);
        n->trust[i] = fmax(LEAST, 1 - part * part);
        sum += n->trust[i] * n->value[i];
        weights += n->trust[i];
    }
    if (weights > 0) n->mean = sum / weights;
    for (int64_t i = 0; i < y->count; i++)
        n->value[i] = fmax(n->value[i], n->mean - FENCE * n->spread);
    return FT_OK;
}

static ft_status place_all(study *y, const ft_pausing_widths *widths, ft_arena *arena) {
    FT_TRY(ft_gp_axes_of(y->trials, -1, 0, arena, &y->axes));
    const size_t axes = (size_t)y->axes.count, count = (size_t)y->count;
    double *at = ft_arena_alloc(arena, (axes * count + 1) * sizeof *at);
    ft_nearby *n = &y->nearby;
    *n = (ft_nearby){.axes = y->axes.count,
                     .choice = y->axes.choice,
                     .count = y->count,
                     .at = at,
                     .value = ft_arena_alloc(arena, (count + 1) * sizeof *n->value),
                     .trust = ft_arena_alloc(arena, (count + 1) * sizeof *n->trust),
                     .width = ft_arena_alloc(arena, (axes + 1) * sizeof *n->width)};
    if (at == NULL || n->value == NULL || n->trust == NULL || n->width == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < y->count; i++)
        ft_gp_point(&y->axes, &y->trials->trial[y->listed[i].number], false, at + i * n->axes);
    for (int a = 0; a < n->axes; a++) {
        const int name = y->axes.axis[a].name;
        n->width[a] =
            widths->fitted > 0 && name < widths->count && widths->width[name] > 0 ? widths->width[name] : WIDTH;
    }
    return FT_OK;
}

static ft_status fit(study *y, const ft_pausing_widths *before, ft_arena *arena, ft_pausing_widths *after) {
    *after = *before;
    if (y->count < FEW || y->count < before->fitted + (before->fitted < MANY ? 8 : 25)) return FT_OK;
    FT_TRY(ft_nearby_fit(&y->nearby, arena));
    after->fitted = y->count;
    after->count = y->trials->names.count;
    after->width = ft_arena_alloc(arena, ((size_t)after->count + 1) * sizeof *after->width);
    if (after->width == NULL) return FT_NO_MEMORY;
    for (int a = 0; a < y->nearby.axes; a++)
        after->width[y->axes.axis[a].name] = y->nearby.width[a];
    return FT_OK;
}

// Kernels of pairs that are as they were are not made anew.
static ft_status weigh(ft_pausing *p, study *y) {
    ft_nearby *n = &y->nearby;
    const size_t axes = (size_t)n->axes, row = axes * sizeof *p->at;
    int64_t same = 0;
    if (p->axes == n->axes && p->count > 0 && (axes == 0 || memcmp(p->width, n->width, row) == 0))
        while (same < p->count && same < n->count &&
               (axes == 0 || memcmp(p->at + same * n->axes, n->at + same * n->axes, row) == 0))
            same++;
    if (n->count > p->room) {
        const int64_t room = 2 * n->count + 64;
        double *kernel = ft_calloc((size_t)(room * room), sizeof *kernel, "trials of a study");
        if (kernel == NULL) return FT_NO_MEMORY;
        free(p->kernel);
        p->kernel = kernel;
        p->room = room;
        same = 0;
    }
    double *at = ft_realloc(p->at, (size_t)p->room * (axes + 1), sizeof *at, "trials of a study");
    if (at != NULL) p->at = at;
    double *width = ft_realloc(p->width, axes + 1, sizeof *width, "trials of a study");
    if (width != NULL) p->width = width;
    if (at == NULL || width == NULL) return FT_NO_MEMORY;
    n->kernel = p->kernel;
    n->room = p->room;
    ft_nearby_weigh(n, same);
    p->axes = n->axes;
    p->count = n->count;
    memcpy(p->at, n->at, (size_t)n->count * row);
    memcpy(p->width, n->width, row);
    return FT_OK;
}

void ft_pausing_free(ft_pausing *p) {
    free(p->kernel);
    free(p->at);
    free(p->width);
    *p = (ft_pausing){0};
}

// ---- the choice -----------------------------------------------------------------------------------------------------

static void tell(const study *y, const ft_freeze_thaw_trial *trials, const int64_t *numbers, int64_t count,
                 const ft_freeze_thaw_choice *by, ft_pausing_choice *out) {
    double best = -INFINITY;
    for (int64_t i = 0; i < count; i++)
        if (by->deviation[i] <= 0) best = fmax(best, y->sign * by->expected[i]);
    for (int64_t i = 0; i < count; i++) {
        const double ahead = y->sign * by->expected[i] - best;
        out->expected[numbers[i]] = by->expected[i];
        out->chance[numbers[i]] = by->deviation[i] > 0 ? 0.5 * erfc(-ahead / by->deviation[i] * 0.7071067811865476) : 0;
    }
}

// Curves with what their places let expect, and behind them the new one's.
static ft_status pick(study *y, const ft_pausing_options *options, double seconds, ft_arena *arena,
                      ft_pausing_choice *out) {
    ft_freeze_thaw_options o = ft_freeze_thaw_defaults(y->schedule.stages + 1, y->sign > 0);
    ft_freeze_thaw_trial *trials = ft_arena_alloc(arena, ((size_t)y->count + 1) * sizeof *trials);
    int64_t *numbers = ft_arena_alloc(arena, ((size_t)y->count + 1) * sizeof *numbers), count = 0;
    ft_random_stream stream = ft_random_stream_of(options->seed, y->trials->count, FT_DRAW_ACQUIRE, "place");
    ft_curve_model belief;
    ft_freeze_thaw_choice choice;
    ft_place place = {0};
    if (trials == NULL || numbers == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < y->count; i++) {
        if (!y->listed[i].curve) continue;
        ((double *)y->listed[i].as.value)[0] = y->sign * ft_nearby_expect(&y->nearby, i);
        numbers[count] = y->listed[i].number;
        trials[count++] = y->listed[i].as;
    }
    FT_TRY(ft_freeze_thaw_believe(trials, count, &o, arena, &belief));
    const bool proposes = options->may_begin && options->places;
    double first;
    o.may_begin = options->may_begin && !proposes;
    o.new_seconds = seconds;
    if (proposes) {
        const double nothing = 0;
        double mean, variance;
        ft_curve_ask(&belief, &nothing, 1, &mean, &variance);
        y->nearby.spread = sqrt(variance);
        FT_TRY(ft_places_propose(y->trials, &y->axes, &y->nearby, &stream, arena, &place));
        first = y->sign * place.expected;
        trials[count] = (ft_freeze_thaw_trial){&first, 1, true, seconds};
    }
    FT_TRY(ft_freeze_thaw_pick(&belief, trials, count + proposes, &o, arena, &choice));
    tell(y, trials, numbers, count, &choice, out);
    out->trial = choice.trial == count ? FT_FREEZE_THAW_NEW : choice.trial < 0 ? choice.trial : numbers[choice.trial];
    out->place = place.params;
    out->place_count = proposes ? y->axes.count : 0;
    return FT_OK;
}

// One that goes first, or has begun and shown nothing; before any trial is complete, the oldest.
static int64_t before_others(const ft_trials *trials, const ft_pausing_trial *view, const schedule *s) {
    for (int64_t i = 0; i < trials->count; i++)
        if (view[i].waits && view[i].first) return i;
    for (int64_t i = 0; i < trials->count; i++)
        if (view[i].waits && (s->stages == 0 || trials->trial[i].report_count == 0)) return i;
    return FT_FREEZE_THAW_NONE;
}

ft_status ft_pausing_choose(ft_pausing *p, const ft_trials *trials, const ft_pausing_trial *view,
                            const ft_pausing_widths *widths, const ft_pausing_options *o, ft_arena *arena,
                            ft_pausing_choice *out) {
    study y = {.trials = trials, .schedule = schedule_of(trials), .sign = trials->maximize[0] ? 1 : -1};
    const size_t count = (size_t)trials->count + 1;
    *out = (ft_pausing_choice){.trial = before_others(trials, view, &y.schedule),
                               .expected = ft_arena_alloc(arena, count * sizeof *out->expected),
                               .chance = ft_arena_alloc(arena, count * sizeof *out->chance),
                               .widths = *widths};
    y.listed = ft_arena_alloc(arena, count * sizeof *y.listed);
    if (out->expected == NULL || out->chance == NULL || y.listed == NULL) return FT_NO_MEMORY;
    for (int64_t i = 0; i < trials->count; i++)
        out->expected[i] = out->chance[i] = NAN;
    if (out->trial != FT_FREEZE_THAW_NONE) return FT_OK;
    if (y.schedule.stages == 0) {
        if (o->may_begin) out->trial = FT_FREEZE_THAW_NEW;
        return FT_OK;
    }
    const double usual = usual_seconds(trials, view);
    FT_TRY(list(trials, view, &y.schedule, usual, arena, y.listed, &y.count));
    FT_TRY(place_all(&y, widths, arena));
    FT_TRY(learn(&y, arena));
    FT_TRY(fit(&y, widths, arena, &out->widths));
    FT_TRY(weigh(p, &y));
    return pick(&y, o, new_seconds(trials, view, &y.schedule, usual), arena, out);
}
