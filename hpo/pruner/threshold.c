// threshold.c - the last value itself must be a number within bounds, whatever the other trials did: stops what has
// diverged.
#include "hpo/pruner/internal.h"

typedef struct threshold_pruner {
    ft_pruner base;
    double lower, upper;
    int64_t warmup_steps, interval_steps;
} threshold_pruner;

static ft_status decide(ft_pruner *pruner, const ft_trials *trials, const ft_trial *trial, ft_verdict *verdict) {
    const threshold_pruner *p = (const threshold_pruner *)pruner;
    if (!ft_pruner_due(trial, p->warmup_steps, p->interval_steps)) return FT_OK;
    double value = ft_last_report(trial)->value;
    verdict->prune = !(value >= p->lower && value <= p->upper); // NaN too
    return FT_OK;
}

ft_status ft_pruner_threshold(double lower, double upper, int64_t warmup_steps, int64_t interval_steps,
                              ft_pruner **out) {
    static const ft_pruner_kind kind = {.name = "threshold", .decide = decide};
    *out = NULL;
    if (!(lower <= upper))
        return ft_fail(FT_INVALID, kind.name, "lower must not exceed upper, got %g and %g", lower, upper);
    FT_TRY(ft_pruner_check_interval(kind.name, warmup_steps, interval_steps));
    threshold_pruner *pruner = ft_calloc(1, sizeof *pruner, "a pruner");
    if (pruner == NULL) return FT_NO_MEMORY;
    *pruner = (threshold_pruner){{&kind}, lower, upper, warmup_steps, interval_steps};
    *out = &pruner->base;
    return FT_OK;
}
