#include "hpo/sharing/tempo.h"

#include <math.h>

void ft_tempo_note(ft_tempo *p, double now, int64_t step, uint64_t company, int others, double slowdown) {
    const int64_t steps = step - p->step;
    if (step < 0 || steps == 0) { // in the middle of something: time is taken where a step shows up first
        p->known = p->known && step >= 0 && p->company == company;
        return;
    }
    if (p->known && p->company == company && steps > 0 && now > p->now) {
        *(others > 0 ? &p->shared : &p->alone) += now - p->now;
        *(others > 0 ? &p->shared_steps : &p->alone_steps) += steps;
        if (others > 0) p->predicted += (double)steps * slowdown;
    }
    p->known = true;
    p->now = now;
    p->step = step;
    p->company = company;
}

static double each(double seconds, int64_t steps) { return steps >= FT_TEMPO_STEPS ? seconds / (double)steps : NAN; }

double ft_tempo_alone(const ft_tempo *p) { return each(p->alone, p->alone_steps); }
double ft_tempo_shared(const ft_tempo *p) { return each(p->shared, p->shared_steps); }

double ft_tempo_predicted(const ft_tempo *p) {
    return p->shared_steps > 0 && p->predicted > 0 ? p->predicted / (double)p->shared_steps : NAN;
}

const char *ft_tempo_against_name(ft_tempo_against against) {
    static const char *const names[] = {"unknown", "itself", "prediction"};
    return names[against];
}

ft_tempo_against ft_tempo_seen(const ft_tempo *p, double predicted, double scale, double *seen) {
    const double shared = ft_tempo_shared(p), alone = ft_tempo_alone(p), scaled = predicted * scale;
    *seen = NAN;
    if (isnan(shared)) return FT_AGAINST_NOTHING;
    if (isnan(alone) && !(scaled > 0)) return FT_AGAINST_NOTHING;
    *seen = shared / (isnan(alone) ? scaled : alone);
    return isnan(alone) ? FT_AGAINST_PREDICTION : FT_AGAINST_ITSELF;
}
