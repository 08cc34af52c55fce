#include "hpo/search/curves/freeze_thaw.h"

#include <math.h>

ft_freeze_thaw_options ft_freeze_thaw_defaults(int stages, bool maximize) {
    return (ft_freeze_thaw_options){
        .stages = stages, .maximize = maximize, .new_seconds = 1, .may_begin = true, .whole = 3, .memory = 40};
}

// Curves that are better when higher. What is learnt follows the sampler: half of the study at least counts.
static ft_curve *curves_of(const ft_freeze_thaw_trial *trials, int64_t count, const ft_freeze_thaw_options *o,
                           ft_arena *arena) {
    ft_curve *curves = ft_arena_alloc(arena, ((size_t)count + 1) * sizeof *curves);
    const double memory = fmax(o->memory, (double)count / 2);
    for (int64_t i = 0; curves != NULL && i < count; i++) {
        double *value = ft_arena_alloc(arena, ((size_t)trials[i].known + 1) * sizeof *value);
        if (value == NULL) return NULL;
        for (int k = 0; k < trials[i].known; k++)
            value[k] = o->maximize ? trials[i].value[k] : -trials[i].value[k];
        curves[i] = (ft_curve){value, trials[i].known, exp(-(double)(count - 1 - i) / memory)};
    }
    return curves;
}

static int64_t first_whole(const ft_freeze_thaw_trial *trials, int64_t count, const ft_freeze_thaw_options *o) {
    for (int64_t i = 0; i < count && i < o->whole; i++)
        if (trials[i].waits) return i;
    if (count < o->whole && o->may_begin) return FT_FREEZE_THAW_NEW;
    return FT_FREEZE_THAW_NONE;
}

static void compare(const ft_freeze_thaw_trial *trials, const ft_curve *curves, int64_t count,
                    const ft_freeze_thaw_options *o, const ft_curve_model *model, const ft_worth *worth,
                    ft_freeze_thaw_choice *out) {
    double best = -INFINITY, mean, variance;
    for (int64_t i = 0; i < count; i++) {
        ft_curve_ask(model, curves[i].value, curves[i].known, &mean, &variance);
        out->expected[i] = o->maximize ? mean : -mean;
        out->deviation[i] = sqrt(variance);
        if (curves[i].known > o->stages) best = fmax(best, mean);
    }
    ft_curve_ask(model, NULL, 0, &mean, &variance);
    if (!isfinite(best)) best = mean;
    out->worth_new = ft_worth_index(worth, 0, mean - best) / o->new_seconds;
    out->trial = o->may_begin ? FT_FREEZE_THAW_NEW : FT_FREEZE_THAW_NONE;
    out->worth = o->may_begin ? out->worth_new : -1;
    double hope = INFINITY; // of equal ones a new trial, then the one that will be better, then the oldest
    for (int64_t i = 0; i < count; i++) {
        if (!trials[i].waits || trials[i].known > o->stages) continue;
        const double expected = o->maximize ? out->expected[i] : -out->expected[i];
        const double w = ft_worth_index(worth, trials[i].known, expected - best) / trials[i].seconds;
        if (w > out->worth || (w == out->worth && expected > hope)) out->worth = w, out->trial = i, hope = expected;
    }
}

ft_status ft_freeze_thaw_believe(const ft_freeze_thaw_trial *trials, int64_t count, const ft_freeze_thaw_options *o,
                                 ft_arena *arena, ft_curve_model *belief) {
    const ft_curve *curves = curves_of(trials, count, o, arena);
    return curves != NULL ? ft_curve_model_of(curves, count, o->stages, arena, belief) : FT_NO_MEMORY;
}

ft_status ft_freeze_thaw_pick(const ft_curve_model *belief, const ft_freeze_thaw_trial *trials, int64_t count,
                              const ft_freeze_thaw_options *o, ft_arena *arena, ft_freeze_thaw_choice *out) {
    ft_worth worth;
    *out = (ft_freeze_thaw_choice){.expected = ft_arena_alloc(arena, ((size_t)count + 1) * sizeof *out->expected),
                                   .deviation = ft_arena_alloc(arena, ((size_t)count + 1) * sizeof *out->deviation)};
    const ft_curve *curves = curves_of(trials, count, o, arena);
    if (out->expected == NULL || out->deviation == NULL || curves == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_worth_of(belief, arena, &worth));
    compare(trials, curves, count, o, belief, &worth, out);
    const int64_t first = first_whole(trials, count, o);
    if (first != FT_FREEZE_THAW_NONE) out->trial = first;
    return FT_OK;
}

ft_status ft_freeze_thaw_choose(const ft_freeze_thaw_trial *trials, int64_t count, const ft_freeze_thaw_options *o,
                                ft_arena *arena, ft_freeze_thaw_choice *out) {
    ft_curve_model belief;
    FT_TRY(ft_freeze_thaw_believe(trials, count, o, arena, &belief));
    return ft_freeze_thaw_pick(&belief, trials, count, o, arena, out);
}
