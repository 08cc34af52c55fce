// Shares of a table: their sizes, those of every class, each within the larger ones, groups together, drawn by the seed alone.
#include "engine/data/order/shares.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 1000, GROUPS = 90 };
static const char *label[ROWS], *group[ROWS];
static char group_name[ROWS][12];

static void fill(void) {
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < ROWS; i++) {
        label[i] = names[i % 20 == 0 ? 2 : i % 3 == 0]; // 50 of c, the rest two to one
        snprintf(group_name[i], sizeof group_name[i], "g%d", (i * 7) % GROUPS);
        group[i] = group_name[i];
    }
}

static int count(const bool *out, const char *of, bool all) {
    int n = 0;
    for (int i = 0; i < ROWS; i++) n += (all || !out[i]) && (of == NULL || strcmp(label[i], of) == 0);
    return n;
}

static void cut(bool groups, bool labels, int64_t one_in, uint64_t seed, bool *out) {
    assert_int_equal(ft_shares_leave_out(labels ? label : NULL, groups ? group : NULL, ROWS, one_in, seed, out), FT_OK);
}

static void sizes(void **state) {
    static const int64_t one_in[] = {1, 2, 3, 9, 27, 1000, 5000};
    bool out[ROWS];
    for (int labels = 0; labels < 2; labels++)
        for (int s = 0; s < 7; s++) {
            const int k = (int)one_in[s];
            cut(false, labels, k, 42, out);
            assert_int_equal(count(out, NULL, false), (ROWS + k - 1) / k);
            for (const char *c = "abc"; labels && *c != '\0'; c++) {
                const char name[2] = {*c, '\0'};
                const int all = count(out, name, true), here = count(out, name, false);
                assert_true(here >= all / k && here <= all / k + 1);
            }
        }
    int first_half = 0; // drawn, not cut off at an end nor every k-th of the file
    bool every = true;
    cut(false, false, 4, 42, out);
    for (int i = 0; i < ROWS; i++) first_half += i < ROWS / 2 && !out[i], every = every && out[i] == (i % 4 != 0);
    assert_true(first_half > 90 && first_half < 160 && !every);
}

static void each_within_the_next(void **state) {
    static const int64_t chain[][4] = {{27, 9, 3, 1}, {64, 16, 4, 1}, {12, 6, 2, 1}};
    bool small[ROWS], large[ROWS];
    for (int groups = 0; groups < 2; groups++)
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 3; i++) {
                cut(groups, true, chain[c][i], 7, small);
                cut(groups, true, chain[c][i + 1], 7, large);
                for (int k = 0; k < ROWS; k++) assert_true(small[k] || !large[k]);
                assert_true(count(small, NULL, false) < count(large, NULL, false));
            }
}

static void groups_stay_together(void **state) {
    bool out[ROWS], seen[GROUPS];
    for (int64_t k = 2; k < 200; k *= 3) {
        int n = 0;
        memset(seen, 0, sizeof seen);
        cut(true, true, k, 5, out);
        for (int i = 0; i < ROWS; i++) {
            for (int j = 0; j < i; j++)
                if (strcmp(group[i], group[j]) == 0) assert_int_equal(out[i], out[j]);
            n += !out[i] && !seen[(i * 7) % GROUPS];
            seen[(i * 7) % GROUPS] |= !out[i];
        }
        assert_int_equal(n, (GROUPS + k - 1) / k);
    }
}

// Also where each row is a class of its own, as numbers are.
static void the_seed_decides(void **state) {
    static char number[ROWS][12];
    const char *own[ROWS];
    bool one[ROWS], again[ROWS], other[ROWS];
    for (int i = 0; i < ROWS; i++) {
        snprintf(number[i], sizeof number[i], "%.4f", i / 1000.0);
        own[i] = number[i];
    }
    const char *const *const labels[] = {NULL, label, own, label}, *const *const groups[] = {NULL, NULL, NULL, group};
    for (int k = 0; k < 4; k++) {
        assert_int_equal(ft_shares_leave_out(labels[k], groups[k], ROWS, 3, 42, one), FT_OK);
        assert_int_equal(ft_shares_leave_out(labels[k], groups[k], ROWS, 3, 42, again), FT_OK);
        assert_int_equal(ft_shares_leave_out(labels[k], groups[k], ROWS, 3, 43, other), FT_OK);
        assert_memory_equal(one, again, sizeof one);
        assert_memory_not_equal(one, other, sizeof one);
    }
}

int main(void) {
    fill();
    const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(each_within_the_next), cmocka_unit_test(groups_stay_together),
                                       cmocka_unit_test(the_seed_decides)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
