// gemm_pack.h - operands copied into the order in which the micro-kernel reads them.
#ifndef FT_CPU_GEMM_PACK_H
#define FT_CPU_GEMM_PACK_H

#include "kernels/cpu/isa/gemm_kernel.h"

// Panel of `width` columns (n of them real, the others 0) and k rows: out[p * width + j] = B(p, j).
// b: B as [k][n], rows ldb apart.
static void pack_columns(const float *b, int64_t ldb, int64_t k, int n, int width, float *out) {
    int whole = n / REG_LANES * REG_LANES, rest = n - whole;
    for (int64_t p = 0; p < k; p++, b += ldb, out += width) {
        for (int j = 0; j < whole; j += REG_LANES) reg_store(out + j, reg_load(b + j));
        if (rest) reg_store(out + whole, reg_load_n(b + whole, rest));
    }
}
// b: B as [n][k], rows ldb apart.
static void pack_rows(const float *b, int64_t ldb, int64_t k, int n, int width, float *out) {
    int j = 0;
    for (; j + 8 <= n; j += 8, b += 8 * ldb) {
        int64_t p = 0;
        for (; p + 8 <= k; p += 8) transpose8(b + p, ldb, out + p * width + j, width);
        for (; p < k; p++)
            for (int i = 0; i < 8; i++) out[p * width + j + i] = b[i * ldb + p];
    }
    for (; j < width; j++, b += ldb)
        for (int64_t p = 0; p < k; p++) out[p * width + j] = j < n ? b[p] : 0.0f;
}
// Tile of m rows of a transposed A, stored [k][m]: out[p * TILE_ROWS + i]; the rows beyond m are never read.
static void pack_tile(const float *a, int64_t lda, int64_t k, int m, float *out) {
    if (m == TILE_ROWS)
        for (int64_t p = 0; p < k; p++, a += lda, out += TILE_ROWS) memcpy(out, a, TILE_ROWS * sizeof *out);
    else
        for (int64_t p = 0; p < k; p++, a += lda, out += TILE_ROWS)
            for (int i = 0; i < m; i++) out[i] = a[i];
}

#endif
