// The tile primitives against the layouts of the PTX manual and plain arithmetic in double precision, in all orders of
// threads. On a GPU the same kernels are what the emulator's twins are held against.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/emulator/half.h"
#include "tests/emulator/simt/control.h"
#include "tests/emulator/tile_kernels.h"

#include <stdlib.h>

static const ft_dtype dtypes[] = {FT_BF16, FT_F16};

static uint32_t random_state = 1;
static double uniform(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (double)(random_state >> 8) / 8388608.0 - 1;
}

static void good(ft_status status) {
    if (status != FT_OK) fail_msg("%s", ft_error_message());
}

static void test_halves(void **state) {
    for (int d = 0; d < 2; d++)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            double x = half_value(dtypes[d], (uint16_t)bits);
            if (!isnan(x)) assert_int_equal(half_bits(dtypes[d], x), bits);
        }
    assert_int_equal(half_bits(FT_F16, 1 + ldexp(1, -11)), 0x3c00); // ties
    assert_int_equal(half_bits(FT_F16, 1 + ldexp(3, -11)), 0x3c02);
    assert_int_equal(half_bits(FT_BF16, 1 + ldexp(1, -8)), 0x3f80);
    assert_int_equal(half_bits(FT_BF16, 1 + ldexp(3, -8)), 0x3f82);
}

static void test_ldmatrix(void **state) {
    uint16_t matrix[256];
    for (int i = 0; i < 256; i++)
        matrix[i] = (uint16_t)(i * 257 + 3);
    for (int order = 0; order < SIMT_ORDERS; order++)
        for (int transposed = 0; transposed < 2; transposed++) {
            uint32_t registers[32][4];
            simt_set_order((simt_order)order, 1);
            good(tile_ldmatrix(matrix, transposed, registers));
            for (int lane = 0; lane < 32; lane++)
                for (int m = 0; m < 4; m++)
                    for (int half = 0; half < 2; half++) {
                        int row = lane / 4, column = lane % 4 * 2 + half;
                        int r = m % 2 * 8 + (transposed ? column : row), c = m / 2 * 8 + (transposed ? row : column);
                        assert_int_equal(registers[lane][m] >> 16 * half & 0xffff, matrix[r * 16 + c]);
                    }
        }
}

// Small whole numbers: every sum is exact, whatever its order.
static void test_mma(void **state) {
    for (int d = 0; d < 2; d++)
        for (int order = 0; order < SIMT_ORDERS; order++) {
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
            simt_set_order((simt_order)order, 1);
            good(tile_mma(dtypes[d], left, right, sum));
            assert_memory_equal(sum, want, sizeof want);
        }
}

static void test_chain(void **state) {
    enum { STRIDE = 72 };
    _Alignas(16) static uint16_t left[16 * STRIDE], right[32 * STRIDE], values[32 * STRIDE];
    static const int valid[] = {32, 1, 17, 0};
    for (int d = 0; d < 2; d++)
        for (int c = 0; c < 4; c++)
            for (int order = 0; order < SIMT_ORDERS; order++) {
                ft_dtype dtype = dtypes[d];
                float got[16 * 64];
                uint16_t nan = half_bits(dtype, (double)NAN);
                for (int i = 0; i < 16 * STRIDE; i++)
                    left[i] = i % STRIDE < 32 ? half_bits(dtype, uniform()) : nan;
                for (int i = 0; i < 32 * STRIDE; i++) {
                    right[i] = i % STRIDE < 32 && i / STRIDE < valid[c] ? half_bits(dtype, uniform()) : nan;
                    values[i] = i % STRIDE < 64 && i / STRIDE < valid[c] ? half_bits(dtype, uniform()) : nan;
                }
                simt_set_order((simt_order)order, 1);
                good(tile_chain(dtype, left, right, values, STRIDE, valid[c], got));
                for (int i = 0; i < 16; i++)
                    for (int j = 0; j < 64; j++) {
                        double want = 0, size = 1e-30;
                        for (int k = 0; k < valid[c]; k++) {
                            double s = 0;
                            for (int e = 0; e < 32; e++)
                                s += half_value(dtype, left[i * STRIDE + e]) * half_value(dtype, right[k * STRIDE + e]);
                            want += s * half_value(dtype, values[k * STRIDE + j]);
                            size += fabs(s * half_value(dtype, values[k * STRIDE + j]));
                        }
                        // the scores are rounded to 8 or 11 bits
                        double bound = size * (dtype == FT_BF16 ? ldexp(1, -8) : ldexp(1, -10));
                        if (!(fabs((double)got[i * 64 + j] - want) <= bound))
                            fail_msg("%s, %d rows, (%d,%d): %g, not %g", ft_dtype_name(dtype), valid[c], i, j,
                                     (double)got[i * 64 + j], want);
                    }
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_ldmatrix),
        cmocka_unit_test(test_mma),
        cmocka_unit_test(test_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
