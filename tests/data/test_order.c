// The order of examples against torch.randperm (vectors/order.txt).
#include "base/files.h"
#include "engine/data/order/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_hash(const int32_t *order, int64_t n, const char *expected) {
    unsigned char *bytes = malloc((size_t)n * 4);
    assert_non_null(bytes);
    for (int64_t i = 0; i < n; i++)
        for (int b = 0; b < 4; b++)
            bytes[4 * i + b] = (unsigned char)((uint32_t)order[i] >> (8 * b));
    char hex[65];
    assert_int_equal(ft_sha256(bytes, (size_t)n * 4, hex), FT_OK);
    assert_string_equal(hex, expected);
    free(bytes);
}

static void matches_torch(void **state) {
    FILE *vectors = fopen(FT_TEST_VECTORS "/order.txt", "r");
    assert_non_null(vectors);
    int cases = 0;
    uint64_t seed;
    int64_t epoch, n;
    while (fscanf(vectors, "%" SCNu64 " %" SCNd64 " %" SCNd64, &seed, &epoch, &n) == 3) {
        int32_t *order = malloc((size_t)n * sizeof *order);
        assert_non_null(order);
        assert_int_equal(ft_epoch_order(seed, epoch, n, order), FT_OK);
        char word[80];
        for (int64_t i = 0; i < n; i++) {
            assert_int_equal(fscanf(vectors, "%79s", word), 1);
            if (strcmp(word, "sha256") == 0) {
                assert_int_equal(fscanf(vectors, "%79s", word), 1);
                check_hash(order, n, word);
                break;
            }
            assert_int_equal(order[i], atoi(word));
        }
        free(order);
        cases++;
    }
    assert_int_equal(cases, 18);
    fclose(vectors);
}

static void is_a_permutation(void **state) {
    enum { N = 5000 };
    static int32_t order[N], other[N];
    static bool seen[N];
    assert_int_equal(ft_epoch_order(9, 0, N, order), FT_OK);
    for (int i = 0; i < N; i++) {
        assert_true(order[i] >= 0 && order[i] < N);
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
    }
    assert_int_equal(ft_epoch_order(9, 1, N, other), FT_OK);
    assert_memory_not_equal(order, other, sizeof order);
    // Epoch e of seed s is epoch 0 of seed s + e.
    assert_int_equal(ft_epoch_order(10, 0, N, order), FT_OK);
    assert_memory_equal(order, other, sizeof order);
}

static void bounds(void **state) {
    int32_t untouched = 77;
    assert_int_equal(ft_epoch_order(42, 0, 0, &untouched), FT_OK);
    assert_int_equal(untouched, 77);
    assert_int_equal(ft_epoch_order(42, 0, -1, &untouched), FT_INVALID);
    assert_int_equal(ft_epoch_order(42, 0, INT64_C(1) << 31, &untouched), FT_INVALID);
    assert_int_equal(ft_epoch_order(42, -1, 1, &untouched), FT_INVALID);
    assert_int_equal(untouched, 77);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_torch),
        cmocka_unit_test(is_a_permutation),
        cmocka_unit_test(bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
