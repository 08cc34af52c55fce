// attention_rows.h - blocks of rows of a head as fp32, whatever the rows are, and results back to where they belong.
#ifndef FT_CPU_ATTENTION_ROWS_H
#define FT_CPU_ATTENTION_ROWS_H

#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/tiles/bf16_lanes.h"
#include "kernels/cpu/isa/tiles/tile_product.h"

// Columns [column, column + d) of `rows` rows: where they lie or a copy in `near`, which has room for rows x d.
static tile_block head_rows(ft_tensor t, int64_t row, int64_t column, int64_t rows, int64_t d, float *near) {
    if (t.dtype != FT_BF16) return tile_gather(ft_row(t, row) + column, t.stride, rows, d, near);
    for (int64_t i = 0; i < rows; i++)
        (void)v_widened(lanes_of(t, row + i, true), column, d, near + i * d);
    return (tile_block){near, d};
}

// Sums in progress, `row` elements apart: in the rows of the result themselves, or in scratch until they are complete
// and can be rounded.
typedef struct head_sums {
    float *x;
    int64_t row;
} head_sums;
FT_VEC head_sums head_sums_of(ft_tensor t, int64_t row, int64_t column, int64_t d, float *scratch) {
    return t.dtype == FT_BF16 ? (head_sums){scratch, d} : (head_sums){ft_row(t, row) + column, t.stride};
}
// They are complete.
static void head_sums_end(head_sums sums, ft_tensor t, int64_t row, int64_t column, int64_t rows, int64_t d) {
    if (t.dtype != FT_BF16) return;
    for (int64_t i = 0; i < rows; i++)
        v_rounded(lanes_of(t, row + i, true), column, d, sums.x + i * sums.row);
}
static __attribute__((unused)) void head_sums_clear(head_sums sums, int64_t first, int64_t rows, int64_t d) {
    for (int64_t i = first; i < first + rows; i++)
        memset(sums.x + i * sums.row, 0, (size_t)d * sizeof *sums.x);
}
// Zeros have the same bytes in every type.
static void clear_head_rows(ft_tensor t, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const size_t size = t.dtype == FT_BF16 ? sizeof(uint16_t) : sizeof(float);
    for (int64_t i = row; i < row + rows; i++)
        memset((char *)lanes_of(t, i, true).x + (size_t)column * size, 0, (size_t)columns * size);
}

#endif
