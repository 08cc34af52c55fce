// wilcoxon.c - of a trial that is many runs of one configuration (folds, seeds), each run's value is held against that of
// the best trial's same run: prunes when the signed-rank test finds it worse with p < 0.1. Needs two runs in common to look
// and four to find anything.
//
// Rank the |differences|, ties and zeros sharing the mean of their ranks. W = the ranks of the differences for the worse,
// and half of those that are zero; p = P(W >= it) were every sign as likely as the other. Up to 13 differences, and up to 50
// of which none are tied or zero, p is counted; beyond that it is the normal distribution's, with the variance
// (n(n+1)(2n+1) - sum(t^3 - t)/2) / 24 for ties of t, without continuity correction. That is scipy.stats.wilcoxon with
// zero_method="zsplit", as Optuna calls it.
#include "hpo/pruner/internal.h"

#include <math.h>
#include <stdlib.h>

static const double THRESHOLD = 0.1;
enum { LEAST = 2, COUNTED = 50, COUNTED_WITH_TIES = 13 };

static bool all_finite(const ft_trial *trial) {
    for (int i = 0; i < trial->report_count; i++)
        if (!isfinite(trial->reports[i].value)) return false;
    return true;
}

static double mean_of(const ft_trial *trial) {
    double sum = 0;
    for (int i = 0; i < trial->report_count; i++)
        sum += trial->reports[i].value;
    return sum / trial->report_count;
}

static const ft_trial *best_of(const ft_trials *trials) {
    const ft_trial *best = NULL;
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        if (trial->state != FT_COMPLETE || ft_trial_violation(trial) > 0) continue;
        const double value = trial->values[0];
        if (best == NULL || (trials->maximize[0] ? value > best->values[0] : value < best->values[0])) best = trial;
    }
    return best;
}

static int by_size(const void *a, const void *b) {
    double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return (x > y) - (x < y);
}

// Of the sorted differences: twice the rank of each, and of their W; the sum of t^3 - t.
typedef struct ranks {
    int *twice; // [count]
    int count, zeros;
    int64_t w;
    double ties;
} ranks;

static void rank(const double *d, ranks *r) {
    for (int i = 0, end; i < r->count; i = end) {
        for (end = i + 1; end < r->count && fabs(d[end]) == fabs(d[i]); end++) {
        }
        const double t = end - i;
        r->ties += t * t * t - t;
        for (int k = i; k < end; k++) {
            r->twice[k] = i + 1 + end;
            r->zeros += d[k] == 0;
            r->w += d[k] > 0 ? 2 * r->twice[k] : d[k] == 0 ? r->twice[k] : 0; // four times, for halves of halves
        }
    }
}

// The share of all ways to give the differences a sign that have at least this W.
static ft_status counted(const double *d, const ranks *r, double *p) {
    const int most = r->count * (r->count + 1); // of twice the ranks
    double *ways = ft_calloc((size_t)most + 1, sizeof *ways, "a signed-rank test");
    if (ways == NULL) return FT_NO_MEMORY;
    int64_t fixed = 0;
    double all = 1, enough = 0;
    ways[0] = 1;
    for (int i = 0; i < r->count; i++) {
        if (d[i] == 0) {
            fixed += r->twice[i];
            continue;
        }
        for (int sum = most; sum >= r->twice[i]; sum--)
            ways[sum] += ways[sum - r->twice[i]];
        all *= 2; // up to 2^50, exactly
    }
    for (int sum = 0; sum <= most; sum++)
        if (2 * sum + fixed >= r->w) enough += ways[sum];
    free(ways);
    *p = enough / all;
    return FT_OK;
}

static double approximated(const ranks *r) {
    const double n = r->count, mean = n * (n + 1) / 4;
    const double deviation = sqrt((n * (n + 1) * (2 * n + 1) - r->ties / 2) / 24);
    return erfc(((double)r->w / 4 - mean) / deviation / M_SQRT2) / 2; // nothing but zeros: not a number
}

static ft_status p_value(double *d, int count, double *p) {
    ranks r = {.count = count, .twice = ft_calloc((size_t)count, sizeof *r.twice, "ranks")};
    if (r.twice == NULL) return FT_NO_MEMORY;
    qsort(d, (size_t)count, sizeof *d, by_size);
    rank(d, &r);
    const bool plain = r.ties == 0 && r.zeros == 0;
    ft_status status = FT_OK;
    if (count <= (plain ? COUNTED : COUNTED_WITH_TIES)) status = counted(d, &r, p);
    else *p = approximated(&r);
    free(r.twice);
    return status;
}

// How much worse the trial is, run by run that both have.
static int differences(const ft_trial *trial, const ft_trial *best, bool maximize, double *d) {
    int count = 0;
    for (int i = 0, k = 0; i < trial->report_count && k < best->report_count;) {
        const ft_trial_report *own = &trial->reports[i], *other = &best->reports[k];
        if (own->step == other->step) d[count++] = maximize ? other->value - own->value : own->value - other->value;
        i += own->step <= other->step;
        k += other->step <= own->step;
    }
    return count;
}

static ft_status decide(ft_pruner *pruner, const ft_trials *trials, const ft_trial *trial, ft_verdict *verdict) {
    const ft_trial *best = best_of(trials);
    const bool maximize = trials->maximize[0];
    if (best == NULL || best->report_count == 0 || !all_finite(trial) || !all_finite(best)) return FT_OK;
    double *d = ft_calloc((size_t)trial->report_count, sizeof *d, "differences"), p = 1;
    if (d == NULL) return FT_NO_MEMORY;
    const int count = differences(trial, best, maximize, d);
    ft_status status = count >= LEAST ? p_value(d, count, &p) : FT_OK;
    free(d);
    // One whose mean is the better one is not stopped, whatever the ranks say.
    const double own = mean_of(trial), other = mean_of(best);
    verdict->prune = p < THRESHOLD && !(maximize ? own >= other : own <= other);
    return status;
}

ft_status ft_pruner_wilcoxon(ft_pruner **out) {
    static const ft_pruner_kind kind = {.name = "wilcoxon", .decide = decide};
    ft_pruner *pruner = ft_calloc(1, sizeof *pruner, "a pruner");
    *out = pruner;
    if (pruner == NULL) return FT_NO_MEMORY;
    pruner->kind = &kind;
    return FT_OK;
}
