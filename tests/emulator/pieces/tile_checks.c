#include "tests/emulator/pieces/tile_checks.h"

#include "tests/emulator/half.h"
#include "tests/emulator/pieces/tile_kernels.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

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

// As closely as PTX promises (2^-22, and a last place for our own rounding); its ends; nothing below normal numbers.
ft_status tile_check_exp2(void) {
    for (int round = 0; round < 64; round++) {
        float x[32], y[32];
        for (int i = 0; i < 32; i++)
            x[i] = (float)(uniform() * (i < 16 ? 1 : 130));
        const float ends[] = {0, 1, -1, 127, -126, -126.5f, -149, 128, INFINITY, -INFINITY, NAN, -0.0f};
        for (size_t i = 0; i < sizeof ends / sizeof *ends && round == 0; i++)
            x[i] = ends[i];
        memset(y, 0x7f, sizeof y);
        FT_TRY(tile_exp2(x, y));
        for (int i = 0; i < 32; i++) {
            double want = exp2((double)x[i]), off = fabs((double)y[i] - want);
            bool right = off <= want * 0x1.8p-22;
            if (isnan(x[i])) right = isnan(y[i]);
            else if (want < 0x1p-126) right = y[i] == 0;
            else if (want > (double)FLT_MAX) right = isinf(y[i]);
            if (!right) return ft_fail(FT_FAILED, "exp2", "2^%.9g: %.9g, not %.9g", (double)x[i], (double)y[i], want);
        }
    }
    return FT_OK;
}

// Whole numbers of which fp16 has four times as many: each place has a number of its own.
ft_status tile_check_skew(void) {
    static tile_skews s;
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 32; j++) {
            s.rows[i][j] = (float)(4 * (i * 32 + j) - 900);
            s.columns[j][i] = (float)(4 * (j * 16 + i) - 700);
        }
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 48; j++)
            s.gradients[i][j] = (float)(i * 48 + j + 1);
    FT_TRY(tile_skew(&s));
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            if (s.from_rows[i][j] != s.rows[i][j - i + 16])
                return ft_fail(FT_FAILED, "skew", "rows, (%d,%d): %g, not %g", i, j, (double)s.from_rows[i][j],
                               (double)s.rows[i][j - i + 16]);
            if (s.from_columns[i][j] != 1 + s.columns[i + 15 - j][j])
                return ft_fail(FT_FAILED, "skew", "columns, (%d,%d): %g, not %g", i, j, (double)s.from_columns[i][j],
                               (double)(1 + s.columns[i + 15 - j][j]));
            for (int step = 0; step < 4; step++) {
                int column = 16 * (step - 1) + i + j; // row j of the chunk is 16 - j to the right of the step before
                float want = column >= 0 && column < 48 ? s.gradients[i][column] : 0;
                if (s.bands[step][i][j] != want)
                    return ft_fail(FT_FAILED, "skew", "band %d, (%d,%d): %g, not %g", step, i, j, (double)s.bands[step][i][j],
                                   (double)want);
            }
        }
    return FT_OK;
}

ft_status tile_check_pack_bounded(void) {
    const double most = 65504;
    float x[32][2] = {{0, -0.0f}, {1, -2}, {65504, 65519}, {65520, -65520}, {1e6f, -1e6f}, {INFINITY, -INFINITY}, {NAN, 3}};
    uint32_t pairs[32];
    for (int i = 7; i < 32; i++)
        for (int k = 0; k < 2; k++)
            x[i][k] = (float)(uniform() * ldexp(1, i - 12));
    FT_TRY(tile_pack_bounded(x, pairs));
    for (int i = 0; i < 32; i++)
        for (int k = 0; k < 2; k++) {
            double given = (double)x[i][k], got = half_value(FT_F16, (uint16_t)(pairs[i] >> 16 * k));
            double want = half_value(FT_F16, half_bits(FT_F16, given > most ? most : given < -most ? -most : given));
            if (isnan(given) ? !isnan(got) : got != want)
                return ft_fail(FT_FAILED, "pack_bounded", "%.9g: %.9g, not %.9g", given, got, want);
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
