#include "hpo/pruner/internal.h"

#include <math.h>
#include <stdlib.h>

ft_status ft_pruner_decide(ft_pruner *pruner, const ft_trials *trials, int64_t number, ft_verdict *verdict) {
    *verdict = (ft_verdict){0};
    if (number < 0 || number >= trials->count)
        return ft_fail(FT_FAILED, "pruner", "there is no trial %lld", (long long)number);
    if (trials->objectives != 1) {
        ft_status status =
            ft_fail(FT_INVALID, "study.pruner", "a study of %d objectives cannot prune", trials->objectives);
        ft_hint("study.pruner = none, or a single objective");
        return status;
    }
    const ft_trial *trial = &trials->trial[number];
    if (trial->report_count == 0) return FT_OK;
    return pruner->kind->decide(pruner, trials, trial, verdict);
}

void ft_pruner_free(ft_pruner *pruner) {
    if (pruner == NULL) return;
    if (pruner->kind->release != NULL) pruner->kind->release(pruner);
    free(pruner);
}

// A pruner is asked after every report, but may be set to look only every `interval` steps; reports can skip steps, so
// the first one at or behind a multiple is judged.
bool ft_pruner_due(const ft_trial *trial, int64_t warmup, int64_t interval) {
    int64_t last = ft_last_report(trial)->step;
    if (last < warmup) return false;
    int64_t checkpoint = warmup + (last - warmup) / interval * interval;
    int64_t before = trial->report_count > 1 ? trial->reports[trial->report_count - 2].step : -1;
    return before < checkpoint;
}

ft_status ft_pruner_check_interval(const char *pruner, int64_t warmup, int64_t interval) {
    if (warmup < 0)
        return ft_fail(FT_INVALID, pruner, "the number of warm-up steps must be at least 0, got %lld",
                       (long long)warmup);
    if (interval < 1)
        return ft_fail(FT_INVALID, pruner, "the interval must be at least 1 step, got %lld", (long long)interval);
    return FT_OK;
}

double ft_best_report(const ft_trial_report *reports, int64_t count, bool maximize) {
    double best = NAN;
    for (int64_t i = 0; i < count; i++)
        if (isnan(best) || (maximize ? reports[i].value > best : reports[i].value < best)) best = reports[i].value;
    return best;
}

int64_t ft_longest_complete(const ft_trials *trials) {
    int64_t longest = -1;
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        if (trial->state != FT_COMPLETE || trial->report_count == 0) continue;
        if (ft_last_report(trial)->step > longest) longest = ft_last_report(trial)->step;
    }
    return longest;
}
