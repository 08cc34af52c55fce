#include "engine/train/schedule.h"

#include <math.h>

// x / y in double, as Python divides; a run that is all warm-up has nothing to divide by.
static double part(int64_t x, int64_t y) { return (double)x / (double)(y > 1 ? y : 1); }

double ft_schedule_factor(ft_scheduler kind, int64_t step, int64_t warmup_steps, int64_t total_steps) {
    if (kind == FT_SCHED_CONSTANT) return 1;
    if (step < warmup_steps) return part(step, warmup_steps);
    switch (kind) {
    case FT_SCHED_LINEAR: return fmax(0, part(total_steps - step, total_steps - warmup_steps));
    case FT_SCHED_COSINE: return fmax(0, 0.5 * (1 + cos(M_PI * part(step - warmup_steps, total_steps - warmup_steps))));
    case FT_SCHED_CONSTANT:
    case FT_SCHED_CONSTANT_WITH_WARMUP: break;
    }
    return 1;
}

int64_t ft_warmup_steps(double ratio, int64_t steps, int64_t total_steps) {
    return steps > 0 ? steps : (int64_t)ceil((double)total_steps * ratio);
}
