// median.c - the percentile pruner at 50: a trial worse than half of the completed ones at its step is stopped.
#include "hpo/pruner/pruner.h"

ft_status ft_pruner_median(int64_t startup_trials, int64_t warmup_steps, int64_t interval_steps, int64_t min_trials,
                           ft_pruner **out) {
    return ft_pruner_percentile(
        &(ft_pruner_percentile_options){50, startup_trials, warmup_steps, interval_steps, min_trials}, out);
}
