// pareto.h - several objectives: which points no other beats, and which few cover most of the space between them and a
// reference point. All values are losses: smaller is better.
#ifndef FT_HPO_PARETO_H
#define FT_HPO_PARETO_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// chosen [n] becomes true for the k best of n points [n][objectives]: whole non-dominated ranks while they fit, then a
// greedy choice of hypervolume within the rank that does not. 0 <= k <= n; ties go to the earlier point.
ft_status ft_pareto_best(const double *points, int64_t n, int objectives, int64_t k, bool *chosen);

// front [n] becomes true for the points that no other dominates; equal points share their fate.
ft_status ft_pareto_front(const double *points, int64_t n, int objectives, bool *front);

// Volume between the points and the reference that at least one point dominates. Points beyond the reference add
// nothing.
ft_status ft_hypervolume(const double *points, int64_t n, int objectives, const double *reference, double *volume);

#endif
