// model.h - a Gaussian process over points with a Matern 5/2 kernel of one scale an axis, and the same at an eighth of all lengths:
//
//     k(x, y) = variance * (m(r) + rough * m(8 r)),   m(r) = (1 + r + r^2/3) e^-r,   r^2 = 5 * sum of weight[a] * distance^2 along axis a,
//
// weight = 1 / length^2. `rough` is what lies between trials that are near each other and is not noise: ripples, a narrow valley. Lengths
// alone tell it from noise only where they give up what is known of the rest. Along an axis of numbers the distance is that of coordinates;
// a point that lacks the axis lies at (0, 0), others at (u - 1/2, 1/2), so that distances stay those of a space and the kernel positive
// definite. Along an axis of choices it is 0 or 1, and lacking it is a choice of its own.
#ifndef FT_HPO_GP_MODEL_H
#define FT_HPO_GP_MODEL_H

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

// Points as columns: what is done to all of them goes along memory.
typedef struct ft_gp_points {
    int count, axes, capacity;
    const bool *choice; // [axes] its values are indices of choices
    double *at;         // [axes][capacity] u - 1/2, or 0; an index, or -1
    double *there;      // [axes][capacity] 1/2, or 0 where the point lacks the axis; 0 of choices
} ft_gp_points;

ft_status ft_gp_points_init(ft_gp_points *points, int axes, const bool *choice, int capacity, ft_arena *arena);
// point [axes]: u from 0 to 1, an index, or NaN where it lacks the axis.
void ft_gp_points_add(ft_gp_points *points, const double *point);
bool ft_gp_points_lack(const ft_gp_points *points, int axis, int point); // does it lack the axis?

// Squared distances of all pairs i < j, axis by axis: what a likelihood needs again and again.
typedef struct ft_gp_pairs {
    int points, axes;
    double *squared; // [axes][points * (points - 1) / 2], i slowest
} ft_gp_pairs;
ft_status ft_gp_pairs_of(const ft_gp_points *points, ft_arena *arena, ft_gp_pairs *out);

// Parameters are logarithms: theta [axes + 3] = ln variance, ln weight of each axis, ln noise (a variance), ln rough (-INFINITY: smooth).
static inline int ft_gp_theta_size(int axes) { return axes + 3; }

// What likelihoods work in; for ft_gp_covariance_gradient too.
typedef struct ft_gp_scratch {
    double *covariance, *inverse, *work, *extra; // [points][points]
    double *shape, *slope, *tip;                 // [pairs] k / variance; -dk/d(sum of weighted squares) * 6 / (5 variance); m(8 r)
    double rough;                                // of the last covariance
    double *vector, *other;                      // [points]
    double *third, *fourth, *fifth, *sixth;      // [points]
} ft_gp_scratch;
ft_status ft_gp_scratch_init(ft_gp_scratch *scratch, int points, ft_arena *arena);

// shape, slope and tip of the pairs; covariance = the kernel's matrix, upper triangle, with `noise` on the diagonal. Of theta the first
// axes + 1 are read.
void ft_gp_covariance(const ft_gp_pairs *pairs, const double *theta, double noise, double rough, ft_gp_scratch *scratch);
// Adds to gradient [axes + 1], by ln variance and ln weights: sum over i < j of factor[i][j] dk_ij of the last covariance, which is read
// from the upper triangle of `factor` [points][points], and half its diagonal's.
void ft_gp_covariance_gradient(const ft_gp_pairs *pairs, const double *theta, const double *factor,
                               ft_gp_scratch *scratch, double *gradient);

// ln p(y | theta) of values y [points] with mean 0, and its gradient [axes + 3]; -INFINITY where the matrix is not
// positive definite in doubles.
double ft_gp_log_likelihood(const ft_gp_pairs *pairs, const double *y, const double *theta, ft_gp_scratch *scratch,
                            double *gradient);

// A process that has seen its points, to be asked about others:
// mean = offset + k'alpha, variance = k(x, x) - k'Q k.
typedef struct ft_gp_model {
    ft_gp_points points;
    double variance, rough, offset;
    double *weight;                // [axes]
    double *alpha;                 // [count]
    double *precision;             // [count][count] Q
    double *kernel, *pull, *slope; // [count]: scratch of a question
} ft_gp_model;

// From values with noise, theta [axes + 3]. The points are shared, not copied. FT_FAILED: not positive definite, even with more noise.
ft_status ft_gp_model_of(const ft_gp_points *points, const double *y, const double *theta, ft_arena *arena,
                         ft_gp_model *out);
// A smooth one without values; theta [axes + 1].
ft_status ft_gp_model_room(const ft_gp_points *points, const double *theta, ft_arena *arena, ft_gp_model *out);
// Mean and variance (without noise, at least 1e-12 of the kernel's) at a point [axes]. With gradients [axes] not NULL
// also theirs by the coordinates of numbers; 0 by choices and what the point lacks. variance NULL, and its gradient
// with it: the mean alone, which costs a fraction.
void ft_gp_ask(ft_gp_model *model, const double *point, double *mean, double *variance, double *mean_gradient,
               double *variance_gradient);

#endif
