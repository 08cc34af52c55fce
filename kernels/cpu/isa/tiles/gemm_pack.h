// gemm_pack.h - operands copied into the order in which the micro-kernel reads them.
#ifndef FT_CPU_GEMM_PACK_H
#define FT_CPU_GEMM_PACK_H

#include "kernels/cpu/gemm_plan.h"
#include "kernels/cpu/isa/tiles/gemm_kernel.h"
#include "kernels/half.h"

// Columns of a block, cut into panels of nearly equal width: 4 vectors make 2 + 2, since a tile of 3 + 1 would leave
// the second one short of independent chains. Panel i: out[first[i] * k + p * width + j] = B(p, first[i] + j), 0 beyond
// n.
typedef struct panels {
    int count;
    int first[FT_GEMM_NC / PANEL + 2]; // columns; first[count] is the end, a multiple of REG_LANES
} panels;
static inline panels panels_of(int64_t columns) {
    int vectors = (int)((columns + REG_LANES - 1) / REG_LANES);
    panels p = {.count = (vectors + TILE_REGS - 1) / TILE_REGS};
    for (int i = 0; i <= p.count; i++)
        p.first[i] = vectors * i / p.count * REG_LANES;
    return p;
}

// Rows of a source lie far apart, often on pages of their own, where hardware does not look ahead: ask for rows early.
enum { LINE = 16, AHEAD = 24 };
// May point beyond the source, which is harmless; as a number, since such a pointer must not be formed.
FT_VEC void prefetch(const float *p, int64_t offset) {
    __builtin_prefetch((const void *)((uintptr_t)p + (uintptr_t)offset * sizeof *p));
}

// One panel of `width` columns, n of them real; b: B as [k][n], rows ldb apart. Panel by panel and not row by row over
// all panels: these lie a multiple of 4 KiB apart, and that many write streams evict each other.
static void pack_columns(const float *b, int64_t ldb, int64_t k, int n, int width, float *out) {
    int whole = n / REG_LANES * REG_LANES;
    for (int64_t p = 0; p < k; p++, b += ldb, out += width) {
        for (int j = 0; j < n; j += LINE)
            prefetch(b, AHEAD * ldb + j);
        for (int j = 0; j < whole; j += REG_LANES)
            reg_store(out + j, reg_load(b + j));
        if (n > whole) reg_store(out + whole, reg_load_n(b + whole, n - whole));
    }
}
// The same; b: B as [n][k], rows ldb apart.
static void pack_rows(const float *b, int64_t ldb, int64_t k, int n, int width, float *out) {
    int j = 0;
    for (; j + 8 <= n; j += 8, b += 8 * ldb) {
        int64_t p = 0;
        for (; p + 8 <= k; p += 8)
            transpose8(b + p, ldb, out + p * width + j, width);
        for (; p < k; p++)
            for (int i = 0; i < 8; i++)
                out[p * width + j + i] = b[i * ldb + p];
    }
    for (; j < width; j++, b += ldb)
        for (int64_t p = 0; p < k; p++)
            out[p * width + j] = j < n ? b[p] : 0.0f;
}
// The same as pack_columns, of bf16.
static void pack_half_columns(const uint16_t *b, int64_t ldb, int64_t k, int n, int width, float *out) {
    for (int64_t p = 0; p < k; p++, b += ldb, out += width) {
        for (int j = 0; j < n; j += 2 * LINE) __builtin_prefetch((const void *)((uintptr_t)b + (uintptr_t)(AHEAD * ldb + j) * sizeof *b));
        for (int j = 0; j < n; j++) out[j] = ft_from_bf16(b[j]);
        for (int j = n; j < width; j++) out[j] = 0;
    }
}
// Rows of the next tile when `left` remain. The last two share: 6 + 2 would leave the second one short of chains.
static inline int tile_rows(int64_t left) {
    if (left >= 2 * TILE_ROWS) return TILE_ROWS;
    return (int)(left > TILE_ROWS ? (left + 1) / 2 : left);
}

// m rows of a transposed A, stored [k][m]: tile number i at out[i * TILE_ROWS * k], element (row, p) at
// p * TILE_ROWS + row. Rows beyond a tile's own are never read. A few tiles at a time, so that cache lines of the
// source are used whole.
static void pack_tiles(const float *a, int64_t lda, int64_t k, int64_t m, float *out) {
    enum { GROUP = 4 * TILE_ROWS };
    for (; m >= GROUP + TILE_ROWS; m -= GROUP, a += GROUP, out += GROUP * k)
        for (int64_t p = 0; p < k; p++) {
            for (int64_t i = 0; i < GROUP; i += LINE)
                prefetch(a, (p + AHEAD) * lda + i);
            for (int64_t i = 0; i < GROUP; i += TILE_ROWS)
                memcpy(out + i * k + p * TILE_ROWS, a + p * lda + i, TILE_ROWS * sizeof *a);
        }
    for (int rows; m > 0; m -= rows, a += rows, out += TILE_ROWS * k) {
        rows = tile_rows(m);
        for (int64_t p = 0; p < k; p++)
            for (int i = 0; i < rows; i++)
                out[p * TILE_ROWS + i] = a[p * lda + i];
    }
}
// The same, of bf16.
FT_VEC void widen_rows(const uint16_t *a, float *out, const int rows) {
    for (int i = 0; i < rows; i++)
        out[i] = ft_from_bf16(a[i]);
}
static void pack_half_tiles(const uint16_t *a, int64_t lda, int64_t k, int64_t m, float *out) {
    enum { GROUP = 4 * TILE_ROWS };
    for (; m >= GROUP + TILE_ROWS; m -= GROUP, a += GROUP, out += GROUP * k)
        for (int64_t p = 0; p < k; p++)
            for (int i = 0; i < GROUP; i += TILE_ROWS)
                widen_rows(a + p * lda + i, out + i * k + p * TILE_ROWS, TILE_ROWS);
    for (int rows; m > 0; m -= rows, a += rows, out += TILE_ROWS * k) {
        rows = tile_rows(m);
        for (int64_t p = 0; p < k; p++)
            widen_rows(a + p * lda, out + p * TILE_ROWS, rows);
    }
}

#endif
