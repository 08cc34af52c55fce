// A number of fp32 as two halves of 16 bits (kernels/split.h): what the header says, in doubles and for numbers of every kind.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/half.h"
#include "tests/emulator/half.h"

#include <math.h>

static bool is_nan(uint32_t bits) { return (bits & 0x7FFFFFFF) > 0x7F800000; }

// The nearest bf16 number, ties away from zero, as a double would choose it. What rounds to 2^128 is infinity.
static bool is_nearest_away(float x, uint16_t high) {
    const double exact = (double)x, size = fabs(exact), sign = signbit(x) ? -1 : 1;
    const double step = size < 0x1p-126 ? 0x1p-133 : ldexp(1, ilogb(size) - 7);
    const double nearest = isinf(x) ? size : floor(size / step + 0.5) * step;
    const double want = nearest >= 0x1p128 ? (double)INFINITY : nearest;
    return half_value(FT_BF16, high) == sign * want && (high >> 15 != 0) == (sign < 0);
}

static void check(uint32_t bits) {
    const uint32_t pair = ft_split(bits), back = ft_join(pair);
    const uint16_t high = (uint16_t)(pair >> 16), tail = (uint16_t)pair;
    if (is_nan(bits)) {
        if (!is_nan(back) || !isnan(half_value(FT_BF16, high)) || ft_split(back) != pair)
            fail_msg("NaN %08x becomes %04x %04x and %08x", bits, high, tail, back);
        return;
    }
    if (back != bits) fail_msg("%08x becomes %04x %04x and %08x", bits, high, tail, back);
    const uint32_t sum = ((uint32_t)high << 16) + (uint32_t)(int32_t)(int16_t)tail;
    if (sum != bits) fail_msg("%08x becomes %04x %04x, whose sum is %08x", bits, high, tail, sum);
    if (!is_nearest_away(ft_bits_float(bits), high))
        fail_msg("%08x (%a) becomes %04x, not the nearest", bits, (double)ft_bits_float(bits), high);
}

static void test_numbers_of_every_kind(void **state) {
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 2003) check((uint32_t)bits);
    static const uint32_t low[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF}; // 0x8000: all ties
    for (uint32_t upper = 0; upper < 1u << 16; upper++)
        for (size_t i = 0; i < sizeof low / sizeof *low; i++) check(upper << 16 | low[i]);
}

// Arrays are as their numbers, and weights rounded alone are the first halves.
static void test_arrays(void **state) {
    enum { N = 1027 };
    float from[N], to[N];
    uint16_t high[N], tail[N], alone[N];
    for (uint32_t i = 0; i < N; i++) from[i] = ft_bits_float(0x3F800000 + i * 0x2222 + (i % 2 ? 0x80000000 : 0));
    from[3] = -INFINITY, from[4] = ft_bits_float(0x3F808000), from[5] = ft_bits_float(0xBF808000);
    ft_split_all(from, high, tail, N);
    ft_narrow_weights(FT_BF16, from, alone, N);
    ft_join_all(high, tail, to, N);
    assert_memory_equal(to, from, sizeof from);
    assert_memory_equal(alone, high, sizeof high);
    assert_true(high[4] == 0x3F81 && high[5] == 0xBF81 && tail[4] == 0x8000);
    ft_narrow_weights(FT_F16, from, alone, N);
    for (int i = 0; i < N; i++) assert_int_equal(alone[i], half_bits(FT_F16, (double)from[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_every_kind),
        cmocka_unit_test(test_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
