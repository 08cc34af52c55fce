// tile_kernels.h - each tile primitive in a kernel of its own, for test_tile.c. tile_kernels.cu has them.
#ifndef FT_TILE_KERNELS_H
#define FT_TILE_KERNELS_H

#include "base/status.h"
#include "kernels/dtype.h"

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
ft_status tile_exp2(const float x[32], float y[32]);

// The three skews of tile/skew.h, of numbers that fp16 has. rows: what 16 rows have at 32 columns that go down the
// distances; columns: what 16 columns have at 32 rows that go up them; gradients: of 16 rows, three steps of 16 columns.
typedef struct tile_skews {
    float rows[16][32], columns[32][16], gradients[16][48];
    float from_rows[16][16], from_columns[16][16]; // results; from_columns was 1 before
    float bands[4][16][16];                        // after each step and one of zeros: [row][row of the chunk]
} tile_skews;
ft_status tile_skew(tile_skews *s);
// Two numbers as a pair of fp16, the first in the low half; beyond its range the largest instead of infinity.
ft_status tile_pack_bounded(const float x[32][2], uint32_t pairs[32]);

#endif
