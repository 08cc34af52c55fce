// schedule.h - the learning rate over a run, as a factor of train.learning_rate. The formulas are those of
// transformers' get_scheduler, so that the first update of a warm-up has rate 0 and the last one of a linear decay is
// above 0.
#ifndef FT_SCHEDULE_H
#define FT_SCHEDULE_H

#include "engine/config/config.h"

#include <stdint.h>

// Factor of update `step`, counted from 0.
typedef struct ft_schedule {
    ft_scheduler kind;
    int64_t warmup_steps, total_steps;
    double end, power; // polynomial: the last factor, and the power
    int64_t cycles;    // cosine_with_restarts
} ft_schedule;
double ft_schedule_factor(const ft_schedule *schedule, int64_t step);
// That of the configuration, in a run of so many steps.
ft_schedule ft_schedule_of(const ft_config *config, int64_t warmup_steps, int64_t total_steps);
// `steps` when it is above 0, else the share `ratio` of the run, rounded up.
int64_t ft_warmup_steps(double ratio, int64_t steps, int64_t total_steps);

#endif
