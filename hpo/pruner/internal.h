// internal.h - what pruners share: how one is made, and the questions that several ask.
#ifndef FT_HPO_PRUNER_INTERNAL_H
#define FT_HPO_PRUNER_INTERNAL_H

#include "hpo/pruner/pruner.h"

typedef struct ft_pruner_kind {
    const char *name;
    // *verdict is {0} before; the trial has at least one report.
    ft_status (*decide)(ft_pruner *pruner, const ft_trials *trials, const ft_trial *trial, ft_verdict *verdict);
    void (*release)(ft_pruner *pruner); // NULL when there is nothing inside
} ft_pruner_kind;

struct ft_pruner { // the first member of each pruner's own struct
    const ft_pruner_kind *kind;
};

static inline const ft_trial_report *ft_last_report(const ft_trial *trial) {
    return &trial->reports[trial->report_count - 1];
}

// Warm-up is over and no report since the last multiple of `interval` has been judged.
bool ft_pruner_due(const ft_trial *trial, int64_t warmup, int64_t interval);
ft_status ft_pruner_check_interval(const char *pruner, int64_t warmup, int64_t interval);
// The best of `count` reports, NaN left out; NaN when nothing is left.
double ft_best_report(const ft_trial_report *reports, int64_t count, bool maximize);
// The largest last step of a COMPLETE trial, -1 when none has reported.
int64_t ft_longest_complete(const ft_trials *trials);

// One decision of successive halving. `rivals`: which trials compete (NULL = all).
typedef struct ft_halving {
    int64_t min_resource, reduction_factor, rate, bootstrap_count;
} ft_halving;
typedef bool ft_rival_filter(const void *context, const ft_trial *trial);
void ft_halving_decide(const ft_halving *halving, const ft_trials *trials, const ft_trial *trial,
                       ft_rival_filter *rivals, const void *context, ft_verdict *verdict);
ft_status ft_halving_check(const char *pruner, const ft_halving *halving, bool automatic);

#endif
