#include "hpo/search/gp/acquire.h"

#include "hpo/search/gp/classifier.h"
#include "hpo/search/gp/improvement.h"

#include <math.h>
#include <string.h>

// Adds what a model's mean and variance change, by its own derivatives.
static void chain(const ft_gp_acquisition *q, double by_mean, double by_variance, double *gradient) {
    for (int a = 0; gradient != NULL && a < q->axes; a++)
        gradient[a] += by_mean * q->scratch[a] + by_variance * q->scratch[q->axes + a];
}

void ft_gp_believe(ft_gp_acquisition *q, const double *point, double *mean, double *variance, double *mean_gradient,
                   double *variance_gradient) {
    ft_gp_ask(&q->objective, point, mean, variance, mean_gradient, variance_gradient);
    if (q->belief != NULL)
        ft_gp_belief_add(q->belief, q->axes, point, mean, variance, mean_gradient, variance_gradient);
}

double ft_gp_chance(ft_gp_acquisition *q, const double *point) {
    double mean, variance, slope, other, value = 0;
    for (int l = 0; l < q->limits; l++) {
        ft_gp_ask(&q->limit[l], point, &mean, &variance, NULL, NULL);
        value += ft_log_chance(-mean / sqrt(variance), &slope);
    }
    if (!q->doubts) return value;
    ft_gp_ask(&q->odds, point, &mean, &variance, NULL, NULL);
    return value + ft_gp_log_odds(mean, variance, &slope, &other);
}

double ft_gp_acquire(ft_gp_acquisition *q, const double *point, double *gradient) {
    double *by_place = gradient != NULL ? q->scratch : NULL,
           *by_place2 = gradient != NULL ? q->scratch + q->axes : NULL;
    double mean, variance, slope, value = 0;
    if (gradient != NULL) memset(gradient, 0, (size_t)q->axes * sizeof *gradient);
    if (q->improves) {
        ft_gp_believe(q, point, &mean, &variance, by_place, by_place2);
        const double deviation = sqrt(variance), z = (q->best - mean) / deviation;
        const double gain = log(deviation) + ft_log_improvement(z, &slope);
        value += q->exploits ? -mean : gain;
        if (q->exploits) chain(q, -1, 0, gradient);
        else chain(q, -slope / deviation, (1 - z * slope) / (2 * variance), gradient);
    }
    for (int l = 0; l < q->limits; l++) {
        ft_gp_ask(&q->limit[l], point, &mean, &variance, by_place, by_place2);
        const double deviation = sqrt(variance), z = -mean / deviation;
        value += ft_log_chance(z, &slope);
        chain(q, -slope / deviation, -0.5 * slope * z / variance, gradient);
    }
    if (q->doubts) {
        double by_mean, by_variance;
        ft_gp_ask(&q->odds, point, &mean, &variance, by_place, by_place2);
        if (!q->improves) { // nothing is known to be good: rather where little is known than where the last one nearly
                            // did it
            const double deviation = sqrt(variance);
            value += ft_gp_log_odds(mean + 2 * deviation, 0, &by_mean, &by_variance);
            chain(q, by_mean, by_mean / deviation, gradient);
            return value;
        }
        value += q->caution * ft_gp_log_odds(mean, variance, &by_mean, &by_variance);
        chain(q, q->caution * by_mean, q->caution * by_variance, gradient);
    }
    return value;
}
