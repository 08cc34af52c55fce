// gemm_kernel.h - the innermost loop: an m x (nv vectors) tile of C stays in registers while k runs.
//
// TILE_ROWS x TILE_REGS is the largest tile: as many accumulators as fit beside one row of B and one
// broadcast element of A. Every smaller tile has its own code, so that no lane computes what is thrown away.
#ifndef FT_CPU_GEMM_KERNEL_H
#define FT_CPU_GEMM_KERNEL_H

#include "kernels/cpu/isa/tiles/reg.h"

// A tile of C and where its operands are.
typedef struct tile {
    int64_t k;
    const float *a; // element (i, p) at a[i * a_row + p] (as it lies) or a[p * TILE_ROWS + i] (packed)
    int64_t a_row;
    const float *b; // element (p, j) at b[p * nv * REG_LANES + j] (packed) or b[p * b_row + j] (as it lies)
    int64_t b_row;
    float *c; // element (i, j) at c[i * ldc + j], or c[j * ldc + i] when the product is swapped
    int64_t ldc;
    int last_lanes;    // columns of C in the last of the nv vectors, 1..REG_LANES
    bool load_c;       // the chains go on from C, else from 0
    const float *bias; // of the tile's columns (of its rows when swapped), or NULL: this is not the last part of k
} tile;

// What is not as in PLAIN: A as it lies, B packed, C as it lies.
enum { PLAIN, A_PACKED, C_SWAPPED, B_DIRECT, KERNEL_MODES };

// A tile on its way to or from a C stored transposed. Out of line: once a tile, and every tile function shares them.
static __attribute__((noinline)) void tile_from_swapped(float buffer[TILE_ROWS][PANEL], int m, int columns,
                                                        const tile *t) {
    memset(buffer, 0, sizeof(float) * TILE_ROWS * PANEL);
    for (int j = 0; j < columns; j++)
        for (int i = 0; i < m; i++)
            buffer[i][j] = t->c[j * t->ldc + i];
}
static __attribute__((noinline)) void tile_to_swapped(const float buffer[8][PANEL], int m, int columns, const tile *t) {
    int j = 0;
    for (; j + 8 <= columns; j += 8) {
        float block[8][8], *c = t->c + j * t->ldc;
        transpose8(&buffer[0][j], PANEL, &block[0][0], 8);
        for (int row = 0; row < 8; row++)
            for (int i = 0; i < m; i++)
                c[row * t->ldc + i] = block[row][i];
    }
    for (; j < columns; j++)
        for (int i = 0; i < m; i++)
            t->c[j * t->ldc + i] = buffer[i][j];
}

// m, nv and mode are constants where this is inlined; the loops over them unroll and acc lives in registers.
FT_VEC void run_tile(const tile *t, const int m, const int nv, const int mode) {
    reg acc[TILE_ROWS][TILE_REGS];
    const int last = nv - 1;
    const bool whole = t->last_lanes == REG_LANES;
    if (!t->load_c) {
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                acc[i][j] = reg_zero();
    } else if (mode == C_SWAPPED) {
        float buffer[TILE_ROWS][PANEL];
        tile_from_swapped(buffer, m, last * REG_LANES + t->last_lanes, t);
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                acc[i][j] = reg_load(&buffer[i][j * REG_LANES]);
    } else {
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            const float *c = t->c + i * t->ldc;
#pragma GCC unroll 4
            for (int j = 0; j < last; j++)
                acc[i][j] = reg_load(c + j * REG_LANES);
            acc[i][last] = whole ? reg_load(c + last * REG_LANES) : reg_load_n(c + last * REG_LANES, t->last_lanes);
        }
    }
    const float *a = t->a, *b = t->b;
    const int64_t a_row = mode == A_PACKED ? 1 : t->a_row, a_step = mode == A_PACKED ? TILE_ROWS : 1;
    for (int64_t p = t->k; p > 0; p--) {
        reg x[TILE_REGS];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            x[j] = reg_load(b + j * REG_LANES);
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            reg y = reg_set1(a[i * a_row]);
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                acc[i][j] = reg_fma(y, x[j], acc[i][j]);
        }
        a += a_step;
        b += mode == B_DIRECT ? t->b_row : nv * REG_LANES;
    }
    if (t->bias) {
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++) {
                reg bias = mode == C_SWAPPED   ? reg_set1(t->bias[i])
                           : j < last || whole ? reg_load(t->bias + j * REG_LANES)
                                               : reg_load_n(t->bias + j * REG_LANES, t->last_lanes);
                acc[i][j] = reg_add(acc[i][j], bias);
            }
    }
    if (mode == C_SWAPPED) {
        float buffer[8][PANEL]; // rows beyond m are moved along, never stored
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++)
                reg_store(&buffer[i][j * REG_LANES], acc[i][j]);
        tile_to_swapped(buffer, m, last * REG_LANES + t->last_lanes, t);
        return;
    }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++) {
        float *c = t->c + i * t->ldc;
#pragma GCC unroll 4
        for (int j = 0; j < last; j++)
            reg_store(c + j * REG_LANES, acc[i][j]);
        if (whole)
            reg_store(c + last * REG_LANES, acc[i][last]);
        else
            reg_store_n(c + last * REG_LANES, acc[i][last], t->last_lanes);
    }
}

// kernels[mode][m - 1][nv - 1]
typedef void tile_function(const tile *t);
#define FT_TILE(m, nv)                                                                                                 \
    static void tile_plain_##m##x##nv(const tile *t) { run_tile(t, m, nv, PLAIN); }                                    \
    static void tile_packed_##m##x##nv(const tile *t) { run_tile(t, m, nv, A_PACKED); }                                \
    static void tile_swapped_##m##x##nv(const tile *t) { run_tile(t, m, nv, C_SWAPPED); }                              \
    static void tile_direct_##m##x##nv(const tile *t) { run_tile(t, m, nv, B_DIRECT); }
#if defined(FT_ISA_avx512) || defined(FT_ISA_neon)
#define FT_TILE_ROW(m) FT_TILE(m, 1) FT_TILE(m, 2) FT_TILE(m, 3)
#define FT_TILE_NAMES(kind, m)                                                                                         \
    { tile##kind##m##x1, tile##kind##m##x2, tile##kind##m##x3 }
#elif defined(FT_ISA_avx2)
#define FT_TILE_ROW(m) FT_TILE(m, 1) FT_TILE(m, 2)
#define FT_TILE_NAMES(kind, m)                                                                                         \
    { tile##kind##m##x1, tile##kind##m##x2 }
#else
#define FT_TILE_ROW(m) FT_TILE(m, 1) FT_TILE(m, 2) FT_TILE(m, 3) FT_TILE(m, 4)
#define FT_TILE_NAMES(kind, m)                                                                                         \
    { tile##kind##m##x1, tile##kind##m##x2, tile##kind##m##x3, tile##kind##m##x4 }
#endif
FT_TILE_ROW(1)
FT_TILE_ROW(2) FT_TILE_ROW(3) FT_TILE_ROW(4)
#if defined(FT_ISA_avx512) || defined(FT_ISA_neon)
    FT_TILE_ROW(5) FT_TILE_ROW(6) FT_TILE_ROW(7) FT_TILE_ROW(8)
#define FT_TILE_MORE(kind)                                                                                             \
    , FT_TILE_NAMES(kind, 5), FT_TILE_NAMES(kind, 6), FT_TILE_NAMES(kind, 7), FT_TILE_NAMES(kind, 8)
#elif defined(FT_ISA_avx2)
    FT_TILE_ROW(5) FT_TILE_ROW(6)
#define FT_TILE_MORE(kind) , FT_TILE_NAMES(kind, 5), FT_TILE_NAMES(kind, 6)
#else
#define FT_TILE_MORE(kind)
#endif
#define FT_TILE_TABLE(kind)                                                                                            \
    {                                                                                                                  \
        FT_TILE_NAMES(kind, 1), FT_TILE_NAMES(kind, 2), FT_TILE_NAMES(kind, 3),                                        \
            FT_TILE_NAMES(kind, 4) FT_TILE_MORE(kind)                                                                  \
    }
        static tile_function *const kernels[KERNEL_MODES][TILE_ROWS][TILE_REGS] = {
            FT_TILE_TABLE(_plain_), FT_TILE_TABLE(_packed_), FT_TILE_TABLE(_swapped_), FT_TILE_TABLE(_direct_)};
#undef FT_TILE
#undef FT_TILE_ROW
#undef FT_TILE_NAMES
#undef FT_TILE_MORE
#undef FT_TILE_TABLE

#endif
