// Distributions: steps as Optuna adjusts them (vectors/distributions.txt), what is contained, equal and refused.
#include "hpo/search/history/distribution.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void steps_as_optuna(void **state) {
    FILE *vectors = fopen(FT_TEST_VECTORS "/distributions.txt", "r");
    assert_non_null(vectors);
    char kind[8];
    double low, high, step, adjusted;
    int single, contains[5], lines = 0;
    while (fscanf(vectors, "%7s %lf %lf %lf %lf %d %d %d %d %d %d", kind, &low, &high, &step, &adjusted, &single,
                  &contains[0], &contains[1], &contains[2], &contains[3], &contains[4]) == 11) {
        ft_distribution d;
        if (strcmp(kind, "int") == 0)
            assert_int_equal(ft_distribution_int("x", (int64_t)low, (int64_t)high, false, (int64_t)step, &d), FT_OK);
        else
            assert_int_equal(ft_distribution_float("x", low, high, false, step, &d), FT_OK);
        if (d.high != adjusted)
            fail_msg("%s %.17g %.17g %.17g: %.17g, not %.17g", kind, low, high, step, d.high, adjusted);
        assert_int_equal(ft_distribution_single(&d), single);
        for (int k = 0; k < 5; k++)
            if (ft_distribution_contains(&d, low + (k - 1) * step / 2) != (contains[k] != 0))
                fail_msg("%s %.17g %.17g %.17g: half step %d", kind, low, high, step, k - 1);
        lines++;
    }
    assert_true(feof(vectors) && lines > 400);
    fclose(vectors);
}

static void exact_in_decimals(void **state) {
    ft_distribution d;
    assert_int_equal(ft_distribution_float("x", 0.1, 0.45, false, 0.1, &d), FT_OK);
    assert_true(d.high == 0.4);
    assert_int_equal(ft_distribution_float("x", 0, 0.3, false, 0.1, &d), FT_OK); // 0.3 / 0.1 is not 3 in binary
    assert_true(d.high == 0.3);
    assert_true(ft_distribution_size(&d) == 4);
    assert_int_equal(ft_distribution_float("x", 1e-300, 1, false, 1e-310, &d), FT_INVALID);
    char text[32];
    const double values[] = {0.1, 1e-5, 123456789.123, 5e-324, -2.5, 1e22, 0, 1.0 / 3};
    for (int i = 0; i < 8; i++) {
        ft_shortest_double(values[i], text);
        assert_true(strtod(text, NULL) == values[i]);
    }
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0.1, "0.1"}, {100, "100"}, {-20, "-20"}, {1500000, "1500000"}, {1e-6, "1e-06"}, {1e22, "1e+22"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_shortest_double(cases[i].value, text);
        assert_string_equal(text, cases[i].text);
    }
    ft_error_clear();
}

static void refused(void **state) {
    ft_distribution d;
    ft_arena arena = {0};
    assert_int_equal(ft_distribution_float("x", 2, 1, false, 0, &d), FT_INVALID);
    assert_string_equal(ft_error_where(), "x");
    assert_int_equal(ft_distribution_float("x", 0, NAN, false, 0, &d), FT_INVALID);
    assert_int_equal(ft_distribution_float("x", 0, INFINITY, false, 0, &d), FT_INVALID);
    assert_int_equal(ft_distribution_float("x", 0, 1, true, 0, &d), FT_INVALID);
    assert_int_equal(ft_distribution_float("x", 1, 2, true, 0.1, &d), FT_INVALID);
    assert_int_equal(ft_distribution_float("x", 1, 2, false, -1, &d), FT_INVALID);
    assert_int_equal(ft_distribution_float("x", 1, 2, false, NAN, &d), FT_INVALID);
    assert_int_equal(ft_distribution_int("x", 2, 1, false, 1, &d), FT_INVALID);
    assert_int_equal(ft_distribution_int("x", 0, 8, true, 1, &d), FT_INVALID);
    assert_int_equal(ft_distribution_int("x", 1, 8, true, 2, &d), FT_INVALID);
    assert_int_equal(ft_distribution_int("x", 1, 8, false, 0, &d), FT_INVALID);
    assert_int_equal(ft_distribution_int("x", 0, INT64_MAX, false, 1, &d), FT_INVALID);
    assert_int_equal(ft_distribution_int("x", INT64_MIN, 0, false, 1, &d), FT_INVALID);
    assert_int_equal(ft_distribution_categorical("x", &arena, NULL, 0, &d), FT_INVALID);
    ft_choice twice[2] = {{.kind = FT_CHOICE_INT, .integer = 1}, {.kind = FT_CHOICE_BOOL, .integer = 1}};
    assert_int_equal(ft_distribution_categorical("x", &arena, twice, 2, &d), FT_INVALID);
    ft_error_clear();
    ft_arena_free(&arena);
}

static void choices(void **state) {
    ft_arena arena = {0}, other = {0};
    ft_choice list[6] = {{.kind = FT_CHOICE_TEXT, .text = "adamw"}, {.kind = FT_CHOICE_NULL},
                         {.kind = FT_CHOICE_BOOL, .integer = 1},    {.kind = FT_CHOICE_INT, .integer = 2},
                         {.kind = FT_CHOICE_FLOAT, .number = 0.5},  {.kind = FT_CHOICE_FLOAT, .number = NAN}};
    ft_distribution d, copy, shorter;
    assert_int_equal(ft_distribution_categorical("x", &arena, list, 6, &d), FT_OK);
    for (int i = 0; i < 6; i++)
        assert_int_equal(ft_distribution_find_choice(&d, &list[i]), i);
    assert_int_equal(ft_distribution_find_choice(&d, &(ft_choice){.kind = FT_CHOICE_INT, .integer = 1}), 2);
    assert_int_equal(ft_distribution_find_choice(&d, &(ft_choice){.kind = FT_CHOICE_FLOAT, .number = 2}), 3);
    assert_int_equal(ft_distribution_find_choice(&d, &(ft_choice){.kind = FT_CHOICE_TEXT, .text = "2"}), -1);
    assert_int_equal(ft_distribution_find_choice(&d, &(ft_choice){.kind = FT_CHOICE_INT, .integer = 0}), -1);
    assert_int_equal(ft_distribution_copy(&other, &d, &copy), FT_OK);
    assert_int_equal(ft_distribution_categorical("x", &arena, list, 5, &shorter), FT_OK);
    assert_true(ft_distribution_equal(&d, &copy) && ft_distribution_compatible(&d, &copy));
    assert_false(ft_distribution_equal(&d, &shorter));
    assert_false(ft_distribution_compatible(&d, &shorter));
    ft_arena_free(&arena);
    assert_string_equal(copy.choices[0].text, "adamw");
    ft_arena_free(&other);
    // 2^53 + 1 is no double: equal only to itself.
    ft_choice large = {.kind = FT_CHOICE_INT, .integer = 9007199254740993};
    assert_false(ft_choice_equal(&large, &(ft_choice){.kind = FT_CHOICE_FLOAT, .number = 9007199254740992.0}));
    assert_true(ft_choice_equal(&large, &large));
    assert_true(ft_distribution_contains(&d, 0) && ft_distribution_contains(&d, 5) && !ft_distribution_contains(&d, 6));
    assert_false(ft_distribution_contains(&d, -1));
    assert_false(ft_distribution_contains(&d, NAN));
}

static void equality(void **state) {
    ft_distribution a, b;
    assert_int_equal(ft_distribution_int("x", 1, 8, false, 1, &a), FT_OK);
    assert_int_equal(ft_distribution_float("x", 1, 8, false, 1, &b), FT_OK);
    assert_false(ft_distribution_compatible(&a, &b));
    assert_int_equal(ft_distribution_int("x", 1, 9, false, 1, &b), FT_OK);
    assert_true(ft_distribution_compatible(&a, &b) && !ft_distribution_equal(&a, &b));
    assert_int_equal(ft_distribution_int("x", 1, 8, true, 1, &b), FT_OK);
    assert_false(ft_distribution_compatible(&a, &b));
    assert_int_equal(ft_distribution_int("x", 1, 8, false, 7, &b), FT_OK);
    assert_false(ft_distribution_equal(&a, &b));
    assert_false(ft_distribution_contains(&b, 4) || ft_distribution_contains(&b, 15) ||
                 ft_distribution_contains(&b, NAN));
    assert_int_equal(ft_distribution_int("x", 1, 5, false, 7, &b), FT_OK);
    assert_true(ft_distribution_single(&b) && ft_distribution_single_value(&b) == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_as_optuna), cmocka_unit_test(exact_in_decimals), cmocka_unit_test(refused),
        cmocka_unit_test(choices),         cmocka_unit_test(equality),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
