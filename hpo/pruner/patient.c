// patient.c - another pruner's verdict counts only once a trial has stopped improving: the best of its last patience +
// 1 reports is worse, by more than min_delta, than the best of those before.
#include "hpo/pruner/internal.h"

typedef struct patient_pruner {
    ft_pruner base;
    ft_pruner *wrapped; // NULL: prune at once
    int64_t patience;
    double min_delta;
} patient_pruner;

static ft_status decide(ft_pruner *pruner, const ft_trials *trials, const ft_trial *trial, ft_verdict *verdict) {
    const patient_pruner *p = (const patient_pruner *)pruner;
    int64_t before = trial->report_count - p->patience - 1;
    if (before <= 0) return FT_OK;
    bool maximize = trials->maximize[0];
    double old = ft_best_report(trial->reports, before, maximize);
    double recent = ft_best_report(trial->reports + before, p->patience + 1, maximize);
    // With NaN on either side both comparisons are false.
    bool stalled = maximize ? old - p->min_delta > recent : old + p->min_delta < recent;
    if (!stalled) return FT_OK;
    if (p->wrapped != NULL) return ft_pruner_decide(p->wrapped, trials, trial->number, verdict);
    verdict->prune = true;
    return FT_OK;
}

static void release(ft_pruner *pruner) { ft_pruner_free(((patient_pruner *)pruner)->wrapped); }

ft_status ft_pruner_patient(ft_pruner *wrapped, int64_t patience, double min_delta, ft_pruner **out) {
    static const ft_pruner_kind kind = {.name = "patient", .decide = decide, .release = release};
    *out = NULL;
    ft_status status = FT_OK;
    if (patience < 0 || patience > INT32_MAX)
        status = ft_fail(FT_INVALID, kind.name, "patience must be at least 0, got %lld", (long long)patience);
    else if (!(min_delta >= 0))
        status = ft_fail(FT_INVALID, kind.name, "the least improvement must be at least 0, got %g", min_delta);
    patient_pruner *pruner = status == FT_OK ? ft_calloc(1, sizeof *pruner, "a pruner") : NULL;
    if (pruner == NULL) {
        ft_pruner_free(wrapped);
        return status == FT_OK ? FT_NO_MEMORY : status;
    }
    *pruner = (patient_pruner){.base.kind = &kind, .wrapped = wrapped, .patience = patience, .min_delta = min_delta};
    *out = &pruner->base;
    return FT_OK;
}
