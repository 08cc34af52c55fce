// percentile.c - the best value a trial has reported at any step is held against the percentile of the values that
// completed trials had at exactly its last step; strictly worse prunes. Fewer than startup_trials completed trials, or
// fewer than min_trials with a report at this step: keep. A trial with nothing but NaN: prune.
#include "hpo/pruner/internal.h"

#include <math.h>
#include <stdlib.h>

typedef struct percentile_pruner {
    ft_pruner base;
    ft_pruner_percentile_options options;
} percentile_pruner;

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Linear interpolation between the sorted values, in numpy's order of operations: with infinities it can be NaN.
static double percentile_of(double *values, int64_t count, double percent) {
    if (count == 0) return NAN;
    qsort(values, (size_t)count, sizeof *values, ascending);
    double at = (double)(count - 1) * (percent / 100), t = at - floor(at);
    int64_t below = (int64_t)at, above = below + 1 < count ? below + 1 : below;
    double difference = values[above] - values[below];
    return t >= 0.5 ? values[above] - difference * (1 - t) : values[below] + difference * t;
}

// The value of each completed trial at `step`: how many have one, and those that are numbers.
static void column(const ft_trials *trials, int64_t step, double *values, int64_t *numbers, int64_t *reports) {
    *numbers = *reports = 0;
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        if (trial->state != FT_COMPLETE) continue;
        int low = 0, high = trial->report_count;
        while (low < high) {
            int middle = low + (high - low) / 2;
            if (trial->reports[middle].step < step)
                low = middle + 1;
            else
                high = middle;
        }
        if (low == trial->report_count || trial->reports[low].step != step) continue;
        ++*reports;
        if (!isnan(trial->reports[low].value)) values[(*numbers)++] = trial->reports[low].value;
    }
}

static ft_status decide(ft_pruner *pruner, const ft_trials *trials, const ft_trial *trial, ft_verdict *verdict) {
    const ft_pruner_percentile_options *o = &((percentile_pruner *)pruner)->options;
    int64_t completed = 0;
    for (int64_t i = 0; i < trials->count; i++)
        completed += trials->trial[i].state == FT_COMPLETE;
    if (completed == 0 || completed < o->startup_trials) return FT_OK;
    if (!ft_pruner_due(trial, o->warmup_steps, o->interval_steps)) return FT_OK;
    bool maximize = trials->maximize[0];
    double best = ft_best_report(trial->reports, trial->report_count, maximize);
    if (isnan(best)) {
        verdict->prune = true;
        return FT_OK;
    }
    double *values = ft_calloc((size_t)completed, sizeof *values, "a column of reports");
    if (values == NULL) return FT_NO_MEMORY;
    int64_t numbers, reports;
    column(trials, ft_last_report(trial)->step, values, &numbers, &reports);
    double bar = NAN;
    if (reports >= o->min_trials) bar = percentile_of(values, numbers, maximize ? 100 - o->percentile : o->percentile);
    free(values);
    verdict->prune = maximize ? best < bar : best > bar; // false when there is no bar
    return FT_OK;
}

ft_status ft_pruner_percentile(const ft_pruner_percentile_options *options, ft_pruner **out) {
    static const ft_pruner_kind kind = {.name = "percentile", .decide = decide};
    *out = NULL;
    if (!(options->percentile >= 0 && options->percentile <= 100))
        return ft_fail(FT_INVALID, kind.name, "the percentile must be from 0 to 100, got %g", options->percentile);
    if (options->startup_trials < 0)
        return ft_fail(FT_INVALID, kind.name, "the number of start-up trials must be at least 0, got %lld",
                       (long long)options->startup_trials);
    if (options->min_trials < 1)
        return ft_fail(FT_INVALID, kind.name, "the least number of trials must be at least 1, got %lld",
                       (long long)options->min_trials);
    FT_TRY(ft_pruner_check_interval(kind.name, options->warmup_steps, options->interval_steps));
    percentile_pruner *pruner = ft_calloc(1, sizeof *pruner, "a pruner");
    if (pruner == NULL) return FT_NO_MEMORY;
    *pruner = (percentile_pruner){.base.kind = &kind, .options = *options};
    *out = &pruner->base;
    return FT_OK;
}
