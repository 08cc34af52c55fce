// tile_kernels.h - each tile primitive in a kernel of its own, for test_tile.c. tile_kernels.cu has them.
#ifndef FT_TILE_KERNELS_H
#define FT_TILE_KERNELS_H

#include "kernels/dtype.h"
#include "kernels/status.h"

#include <stdbool.h>
#include <stdint.h>

// Every lane's four registers of ldmatrix over a 16 x 16 matrix of 16-bit numbers whose quarters are the four matrices:
// upper left, lower left, upper right, lower right.
ft_status tile_ldmatrix(const uint16_t matrix[256], bool transposed, uint32_t registers[32][4]);
// d += left right, out of registers: row-major 16 x 16, 16 x 8, 16 x 8. dtype: FT_BF16 or FT_F16.
ft_status tile_mma(ft_dtype dtype, const uint16_t left[256], const uint16_t right[128], float d[128]);
// The same of tiles through copies, shared memory and fragments, as attention does it: rows x 32 in both, a product of
// rows of `left` with rows of `right` (16 x 32), and that rounded times `values` (32 x 64): result 16 x 64. Rows of
// `right` and `values` from `valid` on count as zeros, and are not read. Strides are in elements.
ft_status tile_chain(ft_dtype dtype, const uint16_t *left, const uint16_t *right, const uint16_t *values, int64_t stride,
                     int valid, float result[16 * 64]);

#endif
