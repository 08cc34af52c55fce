#include "engine/train/job/schedule.h"

#include <math.h>

// x / y in double, as Python divides; a run that is all warm-up has nothing to divide by.
static double part(int64_t x, int64_t y) { return (double)x / (double)(y > 1 ? y : 1); }

double ft_schedule_factor(const ft_schedule *s, int64_t step) {
    if (s->kind == FT_SCHED_CONSTANT) return 1;
    if (step < s->warmup_steps) return part(step, s->warmup_steps);
    const int64_t behind = step - s->warmup_steps, all = s->total_steps - s->warmup_steps;
    switch (s->kind) {
    case FT_SCHED_LINEAR: return fmax(0, part(s->total_steps - step, all));
    case FT_SCHED_COSINE: return fmax(0, 0.5 * (1 + cos(M_PI * part(behind, all))));
    case FT_SCHED_POLYNOMIAL:
        if (step > s->total_steps) return s->end;
        return (1 - s->end) * pow(1 - part(behind, all), s->power) + s->end;
    case FT_SCHED_COSINE_WITH_RESTARTS:
        if (part(behind, all) >= 1) return 0;
        return fmax(0, 0.5 * (1 + cos(M_PI * fmod((double)s->cycles * part(behind, all), 1))));
    case FT_SCHED_CONSTANT:
    case FT_SCHED_CONSTANT_WITH_WARMUP: break;
    }
    return 1;
}

ft_schedule ft_schedule_of(const ft_config *c, int64_t warmup_steps, int64_t total_steps) {
    return (ft_schedule){.kind = c->train.lr_scheduler,
                         .warmup_steps = warmup_steps,
                         .total_steps = total_steps,
                         .end = c->train.lr_end / c->train.learning_rate,
                         .power = c->train.lr_power,
                         .cycles = c->train.lr_cycles};
}

int64_t ft_warmup_steps(double ratio, int64_t steps, int64_t total_steps) {
    return steps > 0 ? steps : (int64_t)ceil((double)total_steps * ratio);
}
