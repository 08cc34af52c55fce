// parzen.h - the Parzen estimator of TPE: a mixture with one kernel an observation and one for the prior. A kernel is a
// product over the parameters: a normal cut to the range (numbers), its mass in a cell (numbers with a step), or a row
// of probabilities (choices).
//
//     e_0 = low, e_1 <= ... <= e_n the observations, e_n+1 = high  (after the logarithm; low and high half a step
//     wider) sigma_i = max(e_i - e_i-1, e_i+1 - e_i), for the outermost two the inner gap only, clipped to [R /
//     min(100, n + 2), R] prior: the middle of the range, sigma = R = high - low weights: the latest 25 and the prior
//     1, older ones falling linearly to 1/n log density(x) = log sum over kernels of exp(log weight + sum over
//     parameters of log kernel(x))
//
// Two ways to one estimator: ft_parzen_build from nothing, and insert/remove/refresh from trial to trial. They end in
// the same bits. ft_parzen_log_density is the plain density; parzen_fast.h has one with the same bits in a fraction of
// the time.
//
// 1. Kernels are in order of trial number, the prior is last (index count).
// 2. Equal observations are sorted by trial number: in a run of them only the ends keep a gap, so the order decides
// which
//    trial gets which sigma. (Optuna sorts unstably: its ties depend on the processor.)
// 3. Summands more than 40 below the largest are left out, here and in the fast density: together under 1e-13 of the
// sum
//    for any history below 20,000 trials.
#ifndef FT_HPO_PARZEN_H
#define FT_HPO_PARZEN_H

#include "hpo/search/history/distribution.h"
#include "hpo/search/history/normal.h"

#include <math.h>

typedef struct ft_parzen_dimension {
    const ft_distribution *distribution; // must outlive the estimator
    double low, high;                    // of the range, widened and transformed
    double *mu, *sigma;                  // [count + 1]; choices: mu is the index
    double *norm;                        // [count + 1] logarithm of what the kernel is divided by
    int *sorted;                         // [count] kernels by (mu, number)
    float *at, *scale, *slack;           // [count + 1] for the filter of the fast density, see parzen_fast.c
    int *group;                          // [count + 1] kernels with equal (mu, sigma), -1 = not known yet
    double log_hit, log_miss, log_prior; // choices: log probability of the observed choice, of another, in the prior
} ft_parzen_dimension;

typedef struct ft_parzen {
    ft_parzen_dimension *dimension;
    int dimensions;
    int count, capacity; // observations
    int parts;           // the sigmas at hand are at least range / parts
    // What the caller sets, before the first observation and before each build or refresh:
    bool fine;                   // sigmas of values with a step are at least half a step. Optuna: off
    int wanted;                  // parts; 0: Optuna's min(100, count + 2)
    bool equal;                  // all weights 1 (several objectives, below)
    double *weight, *log_weight; // [count + 1], sum 1
    int weighted;                // count the weights are for, -1 = none yet
} ft_parzen;

// An estimator with the prior alone. Distributions that are single are the caller's business.
ft_status ft_parzen_init(ft_parzen *parzen, const ft_distribution *const *distributions, int dimensions, bool equal);
void ft_parzen_free(ft_parzen *parzen); // {0} is fine

// `wanted` of good trials for kernels finer than Optuna's, by the number of good and other trials together. Optuna's
// are never narrower than range / 27 there: 25 good trials are all there will be.
int ft_parzen_fine_parts(int64_t trials);

// All at once: observations [count][dimensions], internal values, oldest first.
ft_status ft_parzen_build(ft_parzen *parzen, const double *observations, int count);
// One by one; `position` counts kernels. Call refresh before anything is read.
ft_status ft_parzen_insert(ft_parzen *parzen, int position, const double *observation);
void ft_parzen_remove(ft_parzen *parzen, int position);
void ft_parzen_refresh(ft_parzen *parzen);
// The same; weights are copied from an estimator of as many observations, which saves a logarithm each.
void ft_parzen_refresh_like(ft_parzen *parzen, const ft_parzen *other);

// The weights of the kernels once some dimensions of a point are known: weight [count + 1] times the density of the
// kernel there, up to a common factor. `known` [dimensions].
void ft_parzen_given(const ft_parzen *parzen, const double *point, const bool *known, double *weight);
// The kernel that a uniform number picks by these weights [count + 1], whatever their sum; and the value (internal, a
// legal one) that another draws from it.
int ft_parzen_pick(const ft_parzen *parzen, const double *weight, double uniform);
double ft_parzen_draw(const ft_parzen *parzen, int dimension, int kernel, double uniform);

// Log density at `point` [dimensions], internal values. `scratch` has room for count + 1.
double ft_parzen_log_density(const ft_parzen *parzen, const double *point, double *scratch);

// ---- Shared by both densities, so that they agree to the bit ----------------------------------------------------

typedef struct ft_parzen_cell {
    double left, right; // transformed; equal without a step
    bool inside;
} ft_parzen_cell;
ft_parzen_cell ft_parzen_cell_of(const ft_parzen_dimension *dimension, double value);

static inline double ft_parzen_continuous(const ft_parzen_dimension *d, int kernel, double x) {
    double z = (x - d->mu[kernel]) / d->sigma[kernel];
    return -0.5 * (z * z) - d->norm[kernel];
}
static inline double ft_parzen_mass(const ft_parzen_dimension *d, int kernel, ft_parzen_cell cell) {
    double mu = d->mu[kernel], sigma = d->sigma[kernel];
    return ft_log_normal_mass((cell.left - mu) / sigma, (cell.right - mu) / sigma);
}
static inline double ft_parzen_discrete(const ft_parzen_dimension *d, int kernel, ft_parzen_cell cell) {
    return ft_parzen_mass(d, kernel, cell) - d->norm[kernel];
}
static inline double ft_parzen_choice(const ft_parzen_dimension *d, int kernel, int prior, double index) {
    return kernel == prior ? d->log_prior : d->mu[kernel] == index ? d->log_hit : d->log_miss;
}
// exp(x) for -40 <= x <= 0 within an ulp, by operations that processors with and without wide registers do alike:
// libm's exp differs between libraries and cannot be computed for several numbers at once. x = k log 2 + r, and a
// polynomial that meets exp at the 11 Chebyshev nodes of |r| <= log 2 / 2.
static inline double ft_parzen_exp(double x) {
    const double round = 0x1.8p52; // its sum with a small number has that number, rounded, in the lowest bits
    double shifted = x * 0x1.71547652b82fep0 + round, k = shifted - round;
    double r =
        (x - k * 0x1.62e42fefa38p-1) - k * 0x1.ef35793c7673p-45; // log 2 in two parts, k times the first is exact
    double p = 0x1.28a2c0a7209fbp-22;
    p = p * r + 0x1.72faf024b693bp-19;
    p = p * r + 0x1.a019a66a75dd4p-16;
    p = p * r + 0x1.a01978c6baf81p-13;
    p = p * r + 0x1.6c16c17f43a58p-10;
    p = p * r + 0x1.1111112dd67c5p-7;
    p = p * r + 0x1.55555555520afp-5;
    p = p * r + 0x1.555555554b757p-3;
    p = p * r + 0x1.0000000000005p-1;
    p = p * r + 0x1.000000000001ep0;
    p = p * r + 1;
    union {
        double number;
        uint64_t bits;
    } low = {.number = shifted}, power = {.bits = (low.bits + 1023) << 52}; // 2^k
    return p * power.number;
}

// log sum exp of terms[0..count), see 3. The i-th of the summands that are not left out is added to sum i mod 8, in
// order; then the sums in pairs. So the fast density may drop what is left out before it computes a single exponential.
enum { FT_PARZEN_SUMS = 8 };
double ft_parzen_log_sum(const double *terms, int count);
static inline double ft_parzen_log_of_sums(const double sums[FT_PARZEN_SUMS], double most) {
    double s0 = sums[0] + sums[4], s1 = sums[1] + sums[5], s2 = sums[2] + sums[6], s3 = sums[3] + sums[7];
    return log((s0 + s2) + (s1 + s3)) + most;
}
#define FT_PARZEN_CUT 40.0

#endif
