// minimise.h - a smooth function's minimum within a box: projected L-BFGS with backtracking. Small, without state, the
// same steps for the same function.
#ifndef FT_HPO_MINIMISE_H
#define FT_HPO_MINIMISE_H

#include "base/status.h"

// The value at x [n], its gradient in gradient [n]. A value that is not finite is a place not to go to.
typedef double (*ft_smooth)(void *context, const double *x, double *gradient);

typedef struct ft_minimise {
    ft_smooth function;
    void *context;
    const double *low, *high; // [n]
    int n;
    int steps;        // at most
    double tolerance; // ends when no free part of the gradient is larger, or a step gains less than a fifth of it
} ft_minimise;

// From x, which lies in the box, in place; *value is that of the result, never above that of the start.
ft_status ft_minimise_run(const ft_minimise *m, double *x, double *value);

#endif
