// count_kernels.h - small kernels of one warp whose counts anybody can work out. count_kernels.cu has them.
#ifndef FT_COUNT_KERNELS_H
#define FT_COUNT_KERNELS_H

#include "base/status.h"

enum { COUNT_FLOATS = 4096 }; // that a kernel may read and write

// FT_INVALID: no such kernel.
ft_status count_run(const char *name, const float *from, float *to);

#endif
