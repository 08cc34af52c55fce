// blackwell_kernels.h - the primitives of sm_100a (kernels/cuda/tile/tcgen05.h) in a small kernel, for blackwell_checks.c.
// blackwell_kernels.cu has it. Matrices are 16-bit numbers as they lie in memory.
#ifndef FT_BLACKWELL_KERNELS_H
#define FT_BLACKWELL_KERNELS_H

#include "base/status.h"
#include "kernels/dtype.h"

#include <stdbool.h>
#include <stdint.h>

// What a product is told that it is; a product of 128 rows and N columns, 64 or 128.
uint32_t blackwell_kind(ft_dtype dtype, int n, bool by_columns);

// d = or += left (128 x 128) times the right operand of 128 terms and N columns. left_image: two tiles of 128 rows; right_image: two tiles of N
// rows or, `by_columns`, N / 64 tiles of 128. descriptors: of the first 16 terms of both operands, the addresses taken out of them. fault: "", or
// what is planted.
ft_status blackwell_product(const char *fault, ft_dtype dtype, bool by_columns, int n, bool add, const uint16_t left_image[128 * 128],
                            const uint16_t *right_image, float *d, uint64_t descriptors[2]);

#endif
