#include "engine/data/augment/draws.h"

#include "kernels/philox.h"

#include <math.h>
#include <string.h>

ft_draws ft_draws_of(uint64_t seed, int64_t epoch, int64_t picture, ft_draws_site site) {
    const uint64_t of_epoch = ft_splitmix64(ft_splitmix64(seed) ^ (uint64_t)epoch);
    return (ft_draws){.key = ft_splitmix64(of_epoch ^ (uint64_t)picture), .site = site, .used = 4};
}

static uint32_t next_word(ft_draws *d) {
    if (d->used == 4) {
        const uint32_t counter[4] = {d->block++, d->site, 0x70696374, 0}; // "pict": dropout has other counters
        memcpy(d->word, counter, sizeof counter);
        ft_philox4x32_7(d->word, d->key);
        d->used = 0;
    }
    return d->word[d->used++];
}

double ft_draw(ft_draws *d) {
    const uint64_t high = next_word(d) >> 5, low = next_word(d) >> 6;
    return (double)(high << 26 | low) * 0x1p-53;
}

double ft_draw_between(ft_draws *d, double low, double high) { return low + (high - low) * ft_draw(d); }

int64_t ft_draw_below(ft_draws *d, int64_t end) { return (int64_t)(ft_draw(d) * (double)end); }

static double above_zero(ft_draws *d) { return 1 - ft_draw(d); }

static double normal(ft_draws *d) {
    const double radius = sqrt(-2 * log(above_zero(d)));
    return radius * cos(2 * M_PI * ft_draw(d));
}

// The logarithm of a number of Gamma(alpha), as Marsaglia and Tsang (2000) draw it; below 1 one of alpha + 1 times a
// power, which may be too small for a double.
static double log_gamma_draw(ft_draws *d, double alpha) {
    const double a = alpha < 1 ? alpha + 1 : alpha, third = a - 1.0 / 3, scale = 1 / sqrt(9 * third);
    for (;;) {
        const double x = normal(d), root = 1 + scale * x, v = root * root * root, u = above_zero(d);
        if (root <= 0 || log(u) >= 0.5 * x * x + third * (1 - v + log(v))) continue;
        return log(third * v) + (alpha < 1 ? log(above_zero(d)) / alpha : 0);
    }
}

double ft_draw_beta(ft_draws *d, double alpha) {
    const double a = log_gamma_draw(d, alpha), b = log_gamma_draw(d, alpha);
    return 1 / (1 + exp(b - a));
}
