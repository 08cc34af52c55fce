// pruner.h - whether a running trial should go on, judged by what it and the others have reported. The verdicts are
// Optuna's: each pruner's file tells its rule.
//
//     ft_pruner *pruner = NULL;
//     FT_TRY(ft_pruner_percentile(&(ft_pruner_percentile_options){FT_PRUNER_PERCENTILE_DEFAULTS}, &pruner));
//     ft_verdict verdict;
//     FT_TRY(ft_pruner_decide(pruner, &trials, number, &verdict));
//
// A pruner changes nothing but itself: what it wants remembered (the rungs of successive halving) is in the verdict,
// and the caller stores it whether or not the trial is pruned.
#ifndef FT_HPO_PRUNER_H
#define FT_HPO_PRUNER_H

#include "hpo/search/history/trials.h"

typedef struct ft_pruner ft_pruner;

typedef struct ft_verdict {
    bool prune;
    // So many new rungs were completed, each with `rung_value`: Optuna's system attributes completed_rung_K, with K
    // from the trial's rung_count on.
    int rungs;
    double rung_value;
} ft_verdict;

// Judges trial `number` by its last report. FT_INVALID for a study of several objectives: nothing says which one
// counts.
ft_status ft_pruner_decide(ft_pruner *pruner, const ft_trials *trials, int64_t number, ft_verdict *verdict);
void ft_pruner_free(ft_pruner *pruner); // NULL is fine

// Makers: options out of bounds are FT_INVALID.
ft_status ft_pruner_none(ft_pruner **out);

// Prunes a trial whose best report so far is worse than the percentile of what completed trials had at this step.
typedef struct ft_pruner_percentile_options {
    double percentile;      // 0 to 100: how many of the completed trials count as good; 50 is the median
    int64_t startup_trials; // completed trials before it begins
    int64_t warmup_steps, interval_steps;
    int64_t min_trials; // completed trials that must have reported at this step
} ft_pruner_percentile_options;
#define FT_PRUNER_PERCENTILE_DEFAULTS                                                                                  \
    .percentile = 50, .startup_trials = 5, .warmup_steps = 0, .interval_steps = 1, .min_trials = 1
ft_status ft_pruner_percentile(const ft_pruner_percentile_options *options, ft_pruner **out);
ft_status ft_pruner_median(int64_t startup_trials, int64_t warmup_steps, int64_t interval_steps, int64_t min_trials,
                           ft_pruner **out);

// Asynchronous successive halving: at min_resource * factor^(rate + rung) steps only the best 1/factor go on.
typedef struct ft_pruner_halving_options {
    int64_t min_resource; // 0 = auto: 1/100 of the longest completed trial
    int64_t reduction_factor;
    int64_t min_early_stopping_rate;
    int64_t bootstrap_count; // a rung promotes nobody before it has more values than that; not with auto
} ft_pruner_halving_options;
#define FT_PRUNER_HALVING_DEFAULTS                                                                                     \
    .min_resource = 0, .reduction_factor = 4, .min_early_stopping_rate = 0, .bootstrap_count = 0
ft_status ft_pruner_halving(const ft_pruner_halving_options *options, ft_pruner **out);

// Several successive halvings beside each other, each trial in one of them (by a hash of study name and number).
typedef struct ft_pruner_hyperband_options {
    int64_t min_resource;
    int64_t max_resource; // 0 = auto: the longest completed trial, as soon as there is one
    int64_t reduction_factor;
    int64_t bootstrap_count; // not with auto
} ft_pruner_hyperband_options;
#define FT_PRUNER_HYPERBAND_DEFAULTS .min_resource = 1, .max_resource = 0, .reduction_factor = 3, .bootstrap_count = 0
ft_status ft_pruner_hyperband(const ft_pruner_hyperband_options *options, const char *study_name, ft_pruner **out);

// Lets `wrapped` decide only when the last patience + 1 reports were no improvement over those before. Takes `wrapped`
// over, also when it fails; NULL prunes at once.
ft_status ft_pruner_patient(ft_pruner *wrapped, int64_t patience, double min_delta, ft_pruner **out);

// Prunes a trial whose reports, of the same runs (folds, seeds), are worse than the best trial's by a signed-rank test,
// p < 0.1.
ft_status ft_pruner_wilcoxon(ft_pruner **out);

// Prunes outside of [lower, upper] and on NaN.
ft_status ft_pruner_threshold(double lower, double upper, int64_t warmup_steps, int64_t interval_steps,
                              ft_pruner **out);

#endif
