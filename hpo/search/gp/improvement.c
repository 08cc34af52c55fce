#include "hpo/search/gp/improvement.h"

#include "hpo/search/history/normal.h"

#include <math.h>

static const double LOG_SQRT_2PI = 0.91893853320467274178;

double ft_log_improvement(double z, double *slope) {
    if (z > -3) {
        const double density = exp(-0.5 * z * z - LOG_SQRT_2PI), below = 0.5 * erfc(-z / sqrt(2.0));
        const double h = density + z * below;
        *slope = below / h;
        return log(h);
    }
    // The difference has lost its digits: the continued fraction of Mills' ratio has them.
    const double t = -z;
    const int levels = z > -5 ? 80 : z > -10 ? 40 : 20;
    double d = t;
    for (int k = levels; k >= 2; k--)
        d = t + k / d;
    *slope = d;
    return -0.5 * t * t - LOG_SQRT_2PI - log1p(t * d);
}

double ft_log_chance(double z, double *slope) {
    const double log_below = ft_log_normal_cdf(z);
    *slope = exp(-0.5 * z * z - LOG_SQRT_2PI - log_below);
    return log_below;
}
