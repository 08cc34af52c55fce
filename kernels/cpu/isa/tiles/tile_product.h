// tile_product.h - small matrix products on operands where they lie: what attention is made of.
//
//     C[m,n] = A[m,k] B[k,n]  or, with accumulate, C + A B
//
// Lanes run along n; A is read element by element, so that it may as well be stored transposed (A_COLUMNS). As in gemm,
// an element is one chain of fused multiply-adds over k in order: splitting k over accumulating calls, or m and n in
// any way, changes no bit. Nothing is packed: the operands are blocks that fit the first-level cache.
#ifndef FT_CPU_TILE_PRODUCT_H
#define FT_CPU_TILE_PRODUCT_H

#include "kernels/cpu/isa/lanes/vec.h"

#include <stdbool.h>

// Tiles of C in registers, TILE_ROWS_<vectors> x vectors: as many as there are registers, enough to hide the latency.
#if defined(FT_ISA_avx512)
enum { TILE_VECTORS = 4, TILE_ROWS_1 = 8, TILE_ROWS_2 = 8, TILE_ROWS_4 = 6, TILE_ROWS_MOST = 8 };
#elif defined(FT_ISA_avx2) || defined(FT_ISA_neon)
enum { TILE_VECTORS = 1, TILE_ROWS_1 = 6, TILE_ROWS_MOST = 6 };
#else
enum { TILE_VECTORS = 1, TILE_ROWS_1 = 2, TILE_ROWS_MOST = 2 };
#endif

enum { TILE_FEW_ROWS = 16 };

typedef enum a_order { A_ROWS, A_COLUMNS } a_order; // element (i, p) is a[i * a_row + p], or a[p * a_row + i]

typedef struct tile_operands {
    int64_t k;
    const float *a, *b;
    float *c;
    int64_t a_row, b_row, c_row;
    int lanes; // of the last vector; 16 unless the tile is a masked one
    bool accumulate;
} tile_operands;

// rows, vectors, order and masked are constants where this is inlined: the loops over them unroll, acc lives in
// registers.
FT_VEC void tile_run(const tile_operands *t, const int rows, const int vectors, const a_order order,
                     const bool masked) {
    v16 acc[TILE_ROWS_MOST][TILE_VECTORS];
    const int lanes = t->lanes;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            const float *c = t->c + i * t->c_row + j * FT_LANES;
            acc[i][j] = !t->accumulate ? v_zero() : masked ? v_load_n(c, lanes) : v_load(c);
        }
    const float *a = t->a, *b = t->b;
    const int64_t across = order == A_ROWS ? t->a_row : 1, along = order == A_ROWS ? 1 : t->a_row, b_row = t->b_row;
    for (int64_t p = t->k; p > 0; p--, a += along, b += b_row) {
        v16 x[TILE_VECTORS];
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            x[j] = masked ? v_load_n(b, lanes) : v_load(b + j * FT_LANES);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            v16 y = v_set1(a[i * across]);
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++)
                acc[i][j] = v_fma(y, x[j], acc[i][j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++) {
            float *c = t->c + i * t->c_row + j * FT_LANES;
            if (masked)
                v_store_n(c, acc[i][j], lanes);
            else
                v_store(c, acc[i][j]);
        }
}

typedef void tile_function(const tile_operands *t);
#define FT_TILES(rows, vectors)                                                                                        \
    static void tile_rows_##rows##x##vectors(const tile_operands *t) { tile_run(t, rows, vectors, A_ROWS, false); }    \
    static void tile_columns_##rows##x##vectors(const tile_operands *t) {                                              \
        tile_run(t, rows, vectors, A_COLUMNS, false);                                                                  \
    }
#define FT_MASKED_TILES(rows)                                                                                          \
    static void tile_rows_##rows##x0(const tile_operands *t) { tile_run(t, rows, 1, A_ROWS, true); }                   \
    static void tile_columns_##rows##x0(const tile_operands *t) { tile_run(t, rows, 1, A_COLUMNS, true); }
#define FT_TILE_NAMES(of, rows)                                                                                        \
    { tile_rows_##rows##x##of, tile_columns_##rows##x##of }
// clang-format off
FT_TILES(1, 1) FT_TILES(2, 1) FT_MASKED_TILES(1) FT_MASKED_TILES(2)
#if !defined(FT_ISA_portable)
FT_TILES(3, 1) FT_TILES(4, 1) FT_TILES(5, 1) FT_TILES(6, 1)
FT_MASKED_TILES(3) FT_MASKED_TILES(4) FT_MASKED_TILES(5) FT_MASKED_TILES(6)
#endif
#if defined(FT_ISA_avx512)
FT_TILES(7, 1) FT_TILES(8, 1) FT_MASKED_TILES(7) FT_MASKED_TILES(8)
FT_TILES(1, 2) FT_TILES(2, 2) FT_TILES(3, 2) FT_TILES(4, 2) FT_TILES(5, 2) FT_TILES(6, 2) FT_TILES(7, 2) FT_TILES(8, 2)
FT_TILES(1, 4) FT_TILES(2, 4) FT_TILES(3, 4) FT_TILES(4, 4) FT_TILES(5, 4) FT_TILES(6, 4)
#define FT_TILES_OF(of)                                                                                                \
    {FT_TILE_NAMES(of, 1), FT_TILE_NAMES(of, 2), FT_TILE_NAMES(of, 3), FT_TILE_NAMES(of, 4),                           \
     FT_TILE_NAMES(of, 5), FT_TILE_NAMES(of, 6), FT_TILE_NAMES(of, 7), FT_TILE_NAMES(of, 8)}
#elif defined(FT_ISA_avx2) || defined(FT_ISA_neon)
#define FT_TILES_OF(of)                                                                                                \
    {FT_TILE_NAMES(of, 1), FT_TILE_NAMES(of, 2), FT_TILE_NAMES(of, 3),                                                 \
     FT_TILE_NAMES(of, 4), FT_TILE_NAMES(of, 5), FT_TILE_NAMES(of, 6)}
#else
#define FT_TILES_OF(of) {FT_TILE_NAMES(of, 1), FT_TILE_NAMES(of, 2)}
#endif
// By rows - 1 and order.
static tile_function *const tiles_masked[TILE_ROWS_1][2] = FT_TILES_OF(0);
static tile_function *const tiles_of_1[TILE_ROWS_1][2] = FT_TILES_OF(1);
#if defined(FT_ISA_avx512)
static tile_function *const tiles_of_2[TILE_ROWS_2][2] = FT_TILES_OF(2);
static tile_function *const tiles_of_4[TILE_ROWS_4][2] = {
    FT_TILE_NAMES(4, 1), FT_TILE_NAMES(4, 2), FT_TILE_NAMES(4, 3),
    FT_TILE_NAMES(4, 4), FT_TILE_NAMES(4, 5), FT_TILE_NAMES(4, 6)};
#endif
// clang-format on
#undef FT_TILES
#undef FT_MASKED_TILES
#undef FT_TILE_NAMES
#undef FT_TILES_OF

// One column of tiles: m rows in groups of nearly equal size, since the last of unequal ones would be too small to hide
// the latency of its own additions.
FT_VEC void tile_column(tile_operands t, int64_t m, a_order order, tile_function *const (*tiles)[2], int most) {
    int64_t groups = (m + most - 1) / most;
    for (; groups > 0; groups--) {
        int64_t rows = (m + groups - 1) / groups;
        tiles[rows - 1][order](&t);
        t.a += order == A_ROWS ? rows * t.a_row : rows;
        t.c += rows * t.c_row;
        m -= rows;
    }
}

static void tile_product(int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row, a_order order, const float *b,
                         int64_t b_row, float *c, int64_t c_row, bool accumulate) {
    tile_operands t = {k, a, b, c, a_row, b_row, c_row, FT_LANES, accumulate};
    int64_t j = 0;
#if defined(FT_ISA_avx512)
    for (; n - j >= 4 * FT_LANES; j += 4 * FT_LANES, t.b += 4 * FT_LANES, t.c += 4 * FT_LANES)
        tile_column(t, m, order, tiles_of_4, TILE_ROWS_4);
    for (; n - j >= 2 * FT_LANES; j += 2 * FT_LANES, t.b += 2 * FT_LANES, t.c += 2 * FT_LANES)
        tile_column(t, m, order, tiles_of_2, TILE_ROWS_2);
#endif
    for (; n - j >= FT_LANES; j += FT_LANES, t.b += FT_LANES, t.c += FT_LANES)
        tile_column(t, m, order, tiles_of_1, TILE_ROWS_1);
    t.lanes = (int)(n - j);
    if (t.lanes) tile_column(t, m, order, tiles_masked, TILE_ROWS_1);
}

// A block of rows, `row` elements apart.
typedef struct tile_block {
    const float *x;
    int64_t row;
} tile_block;

// The block copied to `out` without gaps. Rows of activations are often a multiple of a large power of two apart: then
// they share so few sets of the cache that they drive each other out. A handful of rows does not, and stays where it
// is.
static tile_block tile_gather(const float *in, int64_t in_row, int64_t rows, int64_t columns, float *out) {
    if (rows <= TILE_FEW_ROWS) return (tile_block){in, in_row};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < columns; c += FT_LANES)
            v_store_any(out + i * columns + c, v_load_any(in + i * in_row + c, columns - c), columns - c);
    return (tile_block){out, columns};
}

// out[c * out_row + i] = factor * in[i * in_row + c] for 16 * vectors values of i, zeros where i >= rows.
static void tile_transpose(const float *in, int64_t in_row, int64_t rows, int64_t columns, float factor, float *out,
                           int64_t out_row) {
    v16 scale = v_set1(factor);
    for (int64_t i = 0; i < rows; i += FT_LANES) {
        for (int64_t c = 0; c < columns; c += FT_LANES) {
            // Two rounds of interleaving by four: the first brings rows 4a + b to lanes 4m + a, the second to 4a + b.
            u16x first[4][4];
#pragma GCC unroll 4
            for (int b = 0; b < 4; b++) {
                u16x row[4];
#pragma GCC unroll 4
                for (int a = 0; a < 4; a++) {
                    int64_t r = i + 4 * a + b;
                    row[a] = u_bits(r < rows ? v_mul(v_load_any(in + r * in_row + c, columns - c), scale) : v_zero());
                }
                u_interleave4(row[0], row[1], row[2], row[3], first[b]);
            }
#pragma GCC unroll 4
            for (int q = 0; q < 4; q++) {
                u16x second[4];
                u_interleave4(first[0][q], first[1][q], first[2][q], first[3][q], second);
#pragma GCC unroll 4
                for (int m = 0; m < 4; m++)
                    if (c + 4 * q + m < columns)
                        u_store((uint32_t *)(void *)(out + (c + 4 * q + m) * out_row + i), second[m]);
            }
        }
    }
}

#endif
