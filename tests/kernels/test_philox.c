// Philox against the published answers, and dropout's bits against what dropout needs of them.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// The generators with any number of rounds, written anew from the paper's figures: high and low halves of two products.
static void philox4x32(int rounds, const uint32_t in[4], uint32_t k0, uint32_t k1, uint32_t out[4]) {
    uint32_t l0 = in[0], r0 = in[1], l1 = in[2], r1 = in[3];
    for (int i = 0; i < rounds; i++) {
        uint64_t m0 = 0xD2511F53ull * l0, m1 = 0xCD9E8D57ull * l1;
        uint32_t left0 = (uint32_t)(m1 >> 32) ^ r0 ^ (k0 + (uint32_t)i * 0x9E3779B9u);
        uint32_t left1 = (uint32_t)(m0 >> 32) ^ r1 ^ (k1 + (uint32_t)i * 0xBB67AE85u);
        l0 = left0, r0 = (uint32_t)m1, l1 = left1, r1 = (uint32_t)m0;
    }
    out[0] = l0, out[1] = r0, out[2] = l1, out[3] = r1;
}
static void philox2x32(int rounds, const uint32_t in[2], uint32_t k, uint32_t out[2]) {
    uint32_t l = in[0], r = in[1];
    for (int i = 0; i < rounds; i++) {
        uint64_t m = 0xD256D193ull * l;
        l = (uint32_t)(m >> 32) ^ r ^ (k + (uint32_t)i * 0x9E3779B9u);
        r = (uint32_t)m;
    }
    out[0] = l, out[1] = r;
}

static void test_published_answers_of_ten_rounds(void **state) {
    static const uint32_t zeros[4] = {0}, ones[4] = {~0u, ~0u, ~0u, ~0u};
    static const uint32_t pi[4] = {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344};
    uint32_t out[4];
    philox2x32(10, zeros, 0, out);
    assert_memory_equal(out, ((uint32_t[]){0xff1dae59, 0x6cd10df2}), 8);
    philox2x32(10, ones, ~0u, out);
    assert_memory_equal(out, ((uint32_t[]){0x2c3f628b, 0xab4fd7ad}), 8);
    philox2x32(10, pi, 0x13198a2e, out);
    assert_memory_equal(out, ((uint32_t[]){0xdd7ce038, 0xf62a4c12}), 8);
    philox4x32(10, zeros, 0, 0, out);
    assert_memory_equal(out, ((uint32_t[]){0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}), 16);
    philox4x32(10, ones, ~0u, ~0u, out);
    assert_memory_equal(out, ((uint32_t[]){0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}), 16);
    philox4x32(10, pi, 0xa4093822, 0x299f31d0, out);
    assert_memory_equal(out, ((uint32_t[]){0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}), 16);
}

static void test_seven_rounds_are_the_same_generator(void **state) {
    uint64_t random = 1;
    for (int i = 0; i < 1000; i++) {
        uint32_t c[4], want[4];
        for (int j = 0; j < 4; j++)
            c[j] = (uint32_t)(random = ft_splitmix64(random));
        uint64_t key = ft_splitmix64(random);
        uint32_t c2[2] = {c[0], c[1]}, want2[2];
        philox4x32(7, c, (uint32_t)key, (uint32_t)(key >> 32), want);
        philox2x32(7, c2, (uint32_t)key, want2);
        ft_philox4x32_7(c, key);
        ft_philox2x32_7(c2, (uint32_t)key);
        assert_memory_equal(c, want, sizeof want);
        assert_memory_equal(c2, want2, sizeof want2);
    }
}

static void test_threshold_and_scale(void **state) {
    assert_int_equal(ft_dropout_threshold(0.0f), 0);
    assert_int_equal(ft_dropout_threshold(0.1f), 6554);
    assert_int_equal(ft_dropout_threshold(0.5f), 32768);
    for (uint32_t threshold = 0; threshold < 65536; threshold += 97) { // kept elements keep the expectation
        double kept = (65536.0 - threshold) / 65536.0;
        assert_true(fabs((double)ft_dropout_scale(threshold) * kept - 1.0) < 1e-7);
    }
    assert_true(ft_dropout_scale(65536) == 0.0f);
}

typedef uint32_t bits_of(uint64_t key, uint32_t a, uint32_t b);
static uint32_t row_bits(uint64_t key, uint32_t a, uint32_t b) { return ft_dropout_bits_row(key, a >> 9, a & 511, b); }
static uint32_t score_bits(uint64_t key, uint32_t a, uint32_t b) {
    return ft_dropout_bits_score(key, a >> 9, b >> 9, a & 511, b & 511);
}

// Rate, and how often two neighbours (across, down, of the next step) drop together, within five standard deviations.
static void check_rates(bits_of *bits, float p) {
    enum { N = 1024 };
    uint32_t threshold = ft_dropout_threshold(p);
    uint64_t key = ft_dropout_key(42, 3, 1, FT_SITE_ATTENTION), next = ft_dropout_key(42, 4, 1, FT_SITE_ATTENTION);
    double rate = threshold / 65536.0, n = (double)N * N;
    double dropped = 0, together[4] = {0};
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t j = 0; j < N; j++) {
            if (bits(key, i, j) >= threshold) continue;
            dropped++;
            together[0] += bits(key, i, (j + 1) % N) < threshold;
            together[1] += bits(key, (i + 8) % N, j) < threshold;
            together[2] += bits(next, i, j) < threshold;
            together[3] += bits(key, j, i) < threshold && i != j;
        }
    }
    assert_true(fabs(dropped - n * rate) < 5 * sqrt(n * rate * (1 - rate)));
    for (int k = 0; k < 4; k++) // pairs seen from both sides: twice the variance
        assert_true(fabs(together[k] - n * rate * rate) < 5 * sqrt(2 * n) * rate + N);
}
static void test_rates(void **state) {
    check_rates(row_bits, 0.1f);
    check_rates(row_bits, 0.5f);
    check_rates(score_bits, 0.1f);
    check_rates(score_bits, 0.5f);
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// Every (block, word, half) of the scores belongs to one element: what is claimed of the counter's layout.
static void test_elements_of_scores_share_nothing(void **state) {
    enum { N = 96 };
    static uint64_t places[N * N];
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < N; j++) {
            uint32_t counter = (i >> 4) << 22 | (j >> 4) << 12 | (i & 7) << 3 | (j & 7);
            places[i * N + j] = (uint64_t)counter << 2 | ((i >> 3) & 1) << 1 | ((j >> 3) & 1);
        }
    qsort(places, N * N, sizeof *places, compare);
    for (int i = 1; i < N * N; i++)
        assert_true(places[i] != places[i - 1]);
}

static void test_keys_differ(void **state) {
    enum { N = 8 * 8 * 8 * 5 };
    static uint64_t keys[N], low[N];
    int n = 0;
    for (uint64_t seed = 0; seed < 8; seed++)
        for (uint32_t step = 0; step < 8; step++)
            for (uint32_t layer = 0; layer < 8; layer++)
                for (uint32_t site = 0; site < 5; site++)
                    keys[n++] = ft_dropout_key(seed, step, layer, site);
    for (int i = 0; i < N; i++)
        low[i] = keys[i] & 0xFFFFFFFF;
    qsort(keys, N, sizeof *keys, compare);
    qsort(low, N, sizeof *low, compare);
    for (int i = 1; i < N; i++)
        assert_true(keys[i] != keys[i - 1] && low[i] != low[i - 1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_answers_of_ten_rounds),
        cmocka_unit_test(test_seven_rounds_are_the_same_generator),
        cmocka_unit_test(test_threshold_and_scale),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_elements_of_scores_share_nothing),
        cmocka_unit_test(test_keys_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
