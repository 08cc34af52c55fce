// A share held out: its size, that of every class, groups together, drawn by the seed alone.
#include "engine/data/order/holdout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 1000 };
static const char *label[ROWS], *group[ROWS];
static char group_name[ROWS][12];

static void fill(void) {
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < ROWS; i++) {
        label[i] = names[i % 20 == 0 ? 2 : i % 3 == 0]; // 50 of c, the rest two to one
        snprintf(group_name[i], sizeof group_name[i], "g%d", (i * 7) % 90);
        group[i] = group_name[i];
    }
}

static int held(const int32_t *part, const char *of) {
    int count = 0;
    for (int i = 0; i < ROWS; i++) count += part[i] == 0 && (of == NULL || strcmp(label[i], of) == 0);
    return count;
}

static int all(const char *of) {
    int count = 0;
    for (int i = 0; i < ROWS; i++) count += strcmp(label[i], of) == 0;
    return count;
}

static void shares(void **state) {
    static const double share[] = {0.1, 0.2, 1.0 / 3, 0.5, 0.85};
    int32_t part[ROWS], again[ROWS], other[ROWS];
    for (int s = 0; s < 5; s++) {
        assert_int_equal(ft_holdout_assign(label, NULL, ROWS, share[s], 42, "x", part), FT_OK);
        assert_int_equal(held(part, NULL), (int)floor(ROWS * share[s] + 0.5));
        for (const char *c = "abc"; *c != '\0'; c++) {
            const char name[2] = {*c, '\0'};
            assert_true(fabs(held(part, name) - share[s] * all(name)) <= 1);
        }
        assert_int_equal(ft_holdout_assign(label, NULL, ROWS, share[s], 42, "x", again), FT_OK);
        assert_memory_equal(part, again, sizeof part);
        assert_int_equal(ft_holdout_assign(label, NULL, ROWS, share[s], 43, "x", other), FT_OK);
        assert_memory_not_equal(part, other, sizeof part);
    }
    assert_int_equal(ft_holdout_assign(NULL, NULL, ROWS, 0.25, 1, "x", part), FT_OK); // without labels
    assert_int_equal(held(part, NULL), 250);
    int first_half = 0; // drawn, not cut off at an end
    for (int i = 0; i < ROWS / 2; i++) first_half += part[i] == 0;
    assert_true(first_half > 90 && first_half < 160);
}

static void groups_stay_together(void **state) {
    int32_t part[ROWS];
    static const double share[] = {0.1, 0.25, 0.8};
    for (int s = 0; s < 3; s++) {
        assert_int_equal(ft_holdout_assign(label, group, ROWS, share[s], 5, "x", part), FT_OK);
        for (int i = 0; i < ROWS; i++)
            for (int k = 0; k < i; k++)
                if (strcmp(group[i], group[k]) == 0) assert_int_equal(part[i], part[k]);
        assert_true(fabs(held(part, NULL) - share[s] * ROWS) < 30);
    }
}

static void refusals(void **state) {
    int32_t part[ROWS];
    assert_int_equal(ft_holdout_assign(label, NULL, 3, 0.1, 1, "data.validation_split", part), FT_INVALID);
    assert_string_equal(ft_error_where(), "data.validation_split");
    assert_non_null(strstr(ft_error_message(), "judge on"));
    assert_int_equal(ft_holdout_assign(label, NULL, 3, 0.95, 1, "x", part), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "train on"));
    const char *one[] = {"g", "g", "g"};
    assert_int_equal(ft_holdout_assign(label, one, 3, 0.5, 1, "x", part), FT_INVALID);
}

int main(void) {
    fill();
    const struct CMUnitTest tests[] = {cmocka_unit_test(shares), cmocka_unit_test(groups_stay_together), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
