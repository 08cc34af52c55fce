#include "tests/emulator/tile_checks.h"

#include "tests/emulator/half.h"
#include "tests/emulator/tile_kernels.h"

static const ft_dtype dtypes[] = {FT_BF16, FT_F16};

static uint32_t random_state = 1;
static double uniform(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (double)(random_state >> 8) / 8388608.0 - 1;
}

ft_status tile_check_ldmatrix(void) {
    uint16_t matrix[256];
    for (int i = 0; i < 256; i++)
        matrix[i] = (uint16_t)(i * 257 + 3);
    for (int transposed = 0; transposed < 2; transposed++) {
        uint32_t registers[32][4];
        FT_TRY(tile_ldmatrix(matrix, transposed, registers));
        for (int lane = 0; lane < 32; lane++)
            for (int m = 0; m < 4; m++)
                for (int upper = 0; upper < 2; upper++) {
                    int row = lane / 4, column = lane % 4 * 2 + upper;
                    int r = m % 2 * 8 + (transposed ? column : row), c = m / 2 * 8 + (transposed ? row : column);
                    uint32_t got = registers[lane][m] >> 16 * upper & 0xffff;
                    if (got != matrix[r * 16 + c])
                        return ft_fail(FT_FAILED, "ldmatrix", "lane %d, register %d, half %d%s: %u, not %u", lane, m, upper,
                                       transposed ? ", transposed" : "", got, matrix[r * 16 + c]);
                }
    }
    return FT_OK;
}

// Small whole numbers: every sum is exact, whatever its order.
ft_status tile_check_mma(void) {
    for (int d = 0; d < 2; d++) {
        uint16_t left[256], right[128];
        float sum[128], want[128];
        for (int i = 0; i < 256; i++)
            left[i] = half_bits(dtypes[d], floor(uniform() * 20));
        for (int i = 0; i < 128; i++) {
            right[i] = half_bits(dtypes[d], floor(uniform() * 20));
            sum[i] = (float)floor(uniform() * 1000);
        }
        for (int i = 0; i < 16; i++)
            for (int j = 0; j < 8; j++) {
                double x = (double)sum[i * 8 + j];
                for (int k = 0; k < 16; k++)
                    x += half_value(dtypes[d], left[i * 16 + k]) * half_value(dtypes[d], right[k * 8 + j]);
                want[i * 8 + j] = (float)x;
            }
        FT_TRY(tile_mma(dtypes[d], left, right, sum));
        for (int i = 0; i < 128; i++)
            if (sum[i] != want[i])
                return ft_fail(FT_FAILED, "mma", "%s, (%d,%d): %g, not %g", ft_dtype_name(dtypes[d]), i / 8, i % 8,
                               (double)sum[i], (double)want[i]);
    }
    return FT_OK;
}

enum { STRIDE = 72 };

static ft_status check_chain(ft_dtype dtype, int valid) {
    _Alignas(16) static uint16_t left[16 * STRIDE], right[32 * STRIDE], values[32 * STRIDE];
    float got[16 * 64];
    uint16_t nan = half_bits(dtype, (double)NAN); // in what must not be read
    for (int i = 0; i < 16 * STRIDE; i++)
        left[i] = i % STRIDE < 32 ? half_bits(dtype, uniform()) : nan;
    for (int i = 0; i < 32 * STRIDE; i++) {
        right[i] = i % STRIDE < 32 && i / STRIDE < valid ? half_bits(dtype, uniform()) : nan;
        values[i] = i % STRIDE < 64 && i / STRIDE < valid ? half_bits(dtype, uniform()) : nan;
    }
    FT_TRY(tile_chain(dtype, left, right, values, STRIDE, valid, got));
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 64; j++) {
            double want = 0, size = 1e-30;
            for (int k = 0; k < valid; k++) {
                double s = 0;
                for (int e = 0; e < 32; e++)
                    s += half_value(dtype, left[i * STRIDE + e]) * half_value(dtype, right[k * STRIDE + e]);
                want += s * half_value(dtype, values[k * STRIDE + j]);
                size += fabs(s * half_value(dtype, values[k * STRIDE + j]));
            }
            double bound = size * ldexp(1, dtype == FT_BF16 ? -8 : -10); // the scores are rounded to 8 or 11 bits
            if (!(fabs((double)got[i * 64 + j] - want) <= bound))
                return ft_fail(FT_FAILED, "tiles", "%s, %d rows, (%d,%d): %g, not %g", ft_dtype_name(dtype), valid, i, j,
                               (double)got[i * 64 + j], want);
        }
    return FT_OK;
}

ft_status tile_check_chain(void) {
    static const int valid[] = {32, 1, 17, 0};
    for (int d = 0; d < 2; d++)
        for (int v = 0; v < 4; v++)
            FT_TRY(check_chain(dtypes[d], valid[v]));
    return FT_OK;
}
