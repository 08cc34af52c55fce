// hopper_kernels.h - the primitives of sm_90a (kernels/cuda/tile: mbarrier, tensor_copy, wgmma) in small kernels, for hopper_checks.c.
// hopper_kernels.cu has them. Matrices are 16-bit numbers as they lie in memory.
#ifndef FT_HOPPER_KERNELS_H
#define FT_HOPPER_KERNELS_H

#include "base/status.h"
#include "kernels/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HOPPER_BOX = 24, HOPPER_TILE = 64 }; // rows of the box that is copied; rows and columns of a tile

// image: what shared memory has after the copy of the box at (row, column) of a matrix, whose rows are `stride` numbers apart.
ft_status hopper_copy(const uint16_t *matrix, int rows, int columns, int stride, int row, int column,
                      uint16_t image[HOPPER_BOX * 64]);

// d = or += left (64 x 128) times the right operand of 128 terms and N columns, 64 or 128, or of rows 32. image: the tiles in shared
// memory, 128 KB at most: with `by_columns` N / 64 tiles of 128 rows, else two tiles of N rows. left_image: NULL, or the left operand too,
// for products with nothing in registers, of 64 columns alone: two tiles of 64 rows or, `left_by_columns` (and `by_columns`), one of 128,
// whose columns are the left operand's rows.
ft_status hopper_product(ft_dtype dtype, bool by_columns, int n, bool add, const uint16_t left[64 * 128], const uint16_t *left_image,
                         bool left_by_columns, const uint16_t *image, float *d);

// d = left (64 x 64 * tiles) times a matrix of `rows` rows and 64 columns, whose rows from 64 * tiles on must not matter, even
// where they are NaN: a warp brings tiles of 64 rows, four use them, through two buffers. fault: "", or what is planted.
ft_status hopper_pipeline(const char *fault, const uint16_t *left, const uint16_t *right, int rows, int valid, float d[64 * 64]);

#endif
