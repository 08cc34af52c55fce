// skew.h - products that depend on a distance, moved to where the scores of that distance are. Accumulators of 16 x 8
// (fragment.h) hold the products of 16 rows with a table that goes down the distances; a score at (row, column) wants
// element row - column of it, so every row, or every column, is shifted by its own number. That is done on pairs of fp16
// in registers: one byte permutation, which cuts a pair out of two neighbouring ones, and one shuffle.
//
// Columns of scores are spread: column 2t + x of an accumulator stands for column t + 4x of its eight. For that
// ldmatrix reads rows in the order ft_spread(), see ft_chunk_lane. (Design and derivation: three skews, lane by lane,
// were enumerated beforehand; tests/emulator/pieces/tile_checks.c has them against their definition.)
#ifndef FT_CUDA_TILE_SKEW_H
#define FT_CUDA_TILE_SKEW_H

#include "kernels/cuda/tile/fragment.h"

// ---- pairs of fp16 -----------------------------------------------------------------------------------------------------
#ifdef __CUDACC__
// Rounded to fp16; beyond its range the largest number instead of infinity. NaN stays NaN.
FT_DEVICE unsigned ft_pack_bounded(float first, float second) {
    unsigned pair;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
}
#else
FT_DEVICE unsigned ft_pack_bounded(float first, float second) {
    auto bounded = [](float x) { return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x; };
    return ft_pack<__half>(bounded(first), bounded(second));
}
#endif

// ---- lanes ---------------------------------------------------------------------------------------------------------------

FT_HOST_DEVICE int ft_spread(int r) { return r / 2 + r % 2 * 4; }

// Where a lane's row of ldmatrix begins in a chunk: 16 rows in shared memory, ft_tile_stride(COLUMNS) elements apart. Add
// 16 for every step along the columns.
template <int COLUMNS> struct ft_chunk_lane {
    int rows;       // rows of the chunk as spread columns of the product (right operand)
    int reversed;   // rows of the chunk from the last to the first as rows of the product (left operand)
    int inner;      // rows of the chunk as spread numbers to sum over (transposed right operand)
    int plain;      // the same, not spread
};
template <int COLUMNS> FT_DEVICE ft_chunk_lane<COLUMNS> ft_chunk_lane_of() {
    constexpr int STRIDE = ft_tile_stride(COLUMNS);
    const int lane = int(threadIdx.x) % FT_WARP, m = lane / 8, r = lane % 8;
    return {(m / 2 * 8 + ft_spread(r)) * STRIDE + m % 2 * 8, (15 - m % 2 * 8 - r) * STRIDE + m / 2 * 8,
            (m % 2 * 8 + ft_spread(r)) * STRIDE + m / 2 * 8, (m % 2 * 8 + r) * STRIDE + m / 2 * 8};
}

struct ft_skew {
    int row_source, band_source, column_source[2];
    unsigned row_select, band_select, column_select[2];
};
// A pair cut out of two neighbouring ones, q halves behind the first: 0, 1 or 2.
FT_DEVICE unsigned ft_skew_select(int q) { return 0x3210u + 0x2222u * unsigned(q); }
FT_DEVICE ft_skew ft_skew_of() {
    const int lane = int(threadIdx.x) % FT_WARP, g = lane / 4, t = lane % 4;
    ft_skew s;
    s.row_source = lane / 4 * 4 + ((t + 8 - g) & 3);
    s.row_select = ft_skew_select((((t - 8 + g) & 3) + 8 - g) >> 2);
    s.band_source = lane / 4 * 4 + ((t - 8 + g) & 3);
    s.band_select = ft_skew_select((((t + 8 - g) & 3) + g) >> 2);
#pragma unroll
    for (int x = 0; x < 2; x++) {
        s.column_source[x] = ((g + 7 - t - 4 * x) & 7) * 4 + t;
        s.column_select[x] = ft_skew_select(g < 7 - t - 4 * x ? 1 : 0);
    }
    return s;
}

// ---- rows: score(row, column) += product(row, column - row + 16) over 32 columns that go down the distances ----------------

// Two accumulators side by side, columns 0..15 of a chunk, as words: [8 columns][rows g, rows g + 8].
struct ft_row_words {
    unsigned w[2][2];
};
FT_DEVICE ft_row_words ft_row_words_of(const float (&first)[4], const float (&second)[4], float shrink) {
    return {{{ft_pack_bounded(first[0] * shrink, first[1] * shrink), ft_pack_bounded(first[2] * shrink, first[3] * shrink)},
             {ft_pack_bounded(second[0] * shrink, second[1] * shrink),
              ft_pack_bounded(second[2] * shrink, second[3] * shrink)}}};
}
// scores = grow * the products of chunk `before` (columns 0..15) and the one behind it (columns 16..31).
FT_DEVICE void ft_skew_rows(float (&scores)[2][4], const ft_skew &s, const ft_row_words &before, const ft_row_words &now,
                            float grow) {
    const unsigned words[2][2] = {{__byte_perm(before.w[1][0], now.w[0][0], s.row_select),
                                   __byte_perm(before.w[0][1], before.w[1][1], s.row_select)},
                                  {__byte_perm(now.w[0][0], now.w[1][0], s.row_select),
                                   __byte_perm(before.w[1][1], now.w[0][1], s.row_select)}};
#pragma unroll
    for (int b = 0; b < 2; b++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float2 pair = ft_unpack<__half>(__shfl_sync(FT_ALL_LANES, words[b][h], s.row_source));
            scores[b][2 * h] = pair.x * grow;
            scores[b][2 * h + 1] = pair.y * grow;
        }
}

// ---- columns: score(row, column) += product(row + 15 - column, column) over 32 rows that go up the distances ---------------

// Two accumulators side by side as words of two rows: [8 columns][t, t + 4].
struct ft_column_words {
    unsigned w[2][2];
};
FT_DEVICE ft_column_words ft_column_words_of(const float (&first)[4], const float (&second)[4], float shrink) {
    return {{{ft_pack_bounded(first[0] * shrink, first[2] * shrink), ft_pack_bounded(first[1] * shrink, first[3] * shrink)},
             {ft_pack_bounded(second[0] * shrink, second[2] * shrink),
              ft_pack_bounded(second[1] * shrink, second[3] * shrink)}}};
}
// scores += grow * the products, rows 0..15 in `low`, 16..31 in `high`.
FT_DEVICE void ft_skew_columns(float (&scores)[2][4], const ft_skew &s, const ft_column_words &low, const ft_column_words &high,
                               float grow) {
#pragma unroll
    for (int b = 0; b < 2; b++)
#pragma unroll
        for (int x = 0; x < 2; x++) {
            const unsigned select = s.column_select[x] + (b == 0 ? 0x2222u : 0u);
            const unsigned word = __byte_perm(low.w[b][x], high.w[b][x], select);
            const float2 pair = ft_unpack<__half>(__shfl_sync(FT_ALL_LANES, word, s.column_source[x]));
            scores[b][x] = fmaf(pair.x, grow, scores[b][x]);
            scores[b][2 + x] = fmaf(pair.y, grow, scores[b][2 + x]);
        }
}

// ---- bands: the way back. band(row, i) = gradient(row, row - e) for the 16 distances e = e0 - i of a chunk -----------------

// Words of gradients that the next band needs.
struct ft_band_carry {
    unsigned w[3];
};
// Gradients of 16 columns, as words [8 columns][rows g, rows g + 8], complete the band of the chunk behind the one that
// they would meet first: a left operand whose numbers to sum over are spread.
FT_DEVICE void ft_skew_band(unsigned (&band)[4], const ft_skew &s, ft_band_carry &carry, const unsigned (&gradients)[2][2]) {
    const unsigned words[4] = {__byte_perm(carry.w[0], carry.w[1], s.band_select),
                               __byte_perm(carry.w[2], gradients[0][1], s.band_select),
                               __byte_perm(carry.w[1], gradients[0][0], s.band_select),
                               __byte_perm(gradients[0][1], gradients[1][1], s.band_select)};
#pragma unroll
    for (int q = 0; q < 4; q++)
        band[q] = __shfl_sync(FT_ALL_LANES, words[q], s.band_source);
    carry = {{gradients[0][0], gradients[1][0], gradients[1][1]}};
}

#endif
