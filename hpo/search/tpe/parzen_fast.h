// parzen_fast.h - the log density of parzen.h at many points, in a fraction of the time and with the same bits.
//
// Most kernels are too far from a point to count: ft_parzen_log_sum leaves out what is more than 40 below the largest.
// A filter in float bounds every summand from above; only those that may reach the limit are computed, by the very
// expressions of the plain density. So the same summands are added in the same order.
#ifndef FT_HPO_PARZEN_FAST_H
#define FT_HPO_PARZEN_FAST_H

#include "hpo/search/tpe/parzen.h"

typedef struct ft_parzen_fast {
    struct ft_mass_table *tables; // [dimensions] masses of cells known from earlier points (parzen_masses.h)
    int dimensions;
    float *constant, *bound; // [capacity + blocks]
    int *blocks;             // of kernels that may count
    double *terms;           // of their kernels
    int capacity;
} ft_parzen_fast; // {0} is empty; belongs to one estimator for good

void ft_parzen_fast_free(ft_parzen_fast *fast);
// out[i] = ft_parzen_log_density at points [count][dimensions].
ft_status ft_parzen_fast_log_density(ft_parzen_fast *fast, ft_parzen *parzen, const double *points, int count,
                                     double *out);

#endif
