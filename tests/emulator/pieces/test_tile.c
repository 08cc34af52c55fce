// The tile primitives on the emulator, in all orders of threads (tile_checks.h); and the 16-bit numbers of the tests.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/emulator/half.h"
#include "tests/emulator/pieces/tile_checks.h"
#include "tests/emulator/pieces/orders.h"

static const ft_dtype dtypes[] = {FT_BF16, FT_F16};

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

static void test_ldmatrix(void **state) { in_all_orders(tile_check_ldmatrix); }
static void test_mma(void **state) { in_all_orders(tile_check_mma); }
static void test_exp2(void **state) { in_all_orders(tile_check_exp2); }
static void test_skew(void **state) { in_all_orders(tile_check_skew); }
static void test_pack_bounded(void **state) { in_all_orders(tile_check_pack_bounded); }
static void test_chain(void **state) { in_all_orders(tile_check_chain); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_ldmatrix),
        cmocka_unit_test(test_mma),
        cmocka_unit_test(test_exp2),
        cmocka_unit_test(test_skew),
        cmocka_unit_test(test_pack_bounded),
        cmocka_unit_test(test_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
