// sums.h - sums of what ranks bring, in their order (collectives.h).
#ifndef FT_COLLECTIVES_SUMS_H
#define FT_COLLECTIVES_SUMS_H

#include "kernels/dtype.h"

#include <stdint.h>

// `count` elements of each of `ranks` parts, which lie `stride` bytes behind each other; 16-bit numbers are summed in
// fp32 and rounded once.
void ft_sum_parts(const void *parts, size_t stride, int ranks, int64_t count, ft_dtype dtype, void *out);

#endif
