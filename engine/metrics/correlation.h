// correlation.h - how two columns of numbers go together.
#ifndef FT_CORRELATION_H
#define FT_CORRELATION_H

#include "base/status.h"

#include <stdint.h>
#include <stddef.h>

// Numbers, or their ranks.
typedef struct ft_series {
    const float *value;          // [n]; NULL: ranks
    const uint32_t *twice_rank;  // [n] of which these are the doubles: ranks of equal numbers are halves
} ft_series;

// twice_rank [n] of values, from 2, equal ones getting their mean. scratch [n].
void ft_average_ranks(const float *values, int64_t n, uint32_t *scratch, uint32_t *twice_rank);
// Pearson's correlation; NaN where one side is constant or n < 2.
double ft_pearson(ft_series x, ft_series y, int64_t n);
// Bytes for both columns with their ranks, and what ranking takes.
size_t ft_correlation_host_bytes(int64_t n);

#endif
