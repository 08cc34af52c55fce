// Freeze-thaw: what is expected of learning curves and what a stage is worth, against numpy and scipy
// (tests/vectors/curves); which trial goes on, in a table of cases; the same choice every time.
#include "hpo/search/curves/freeze_thaw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 128 };

static double number(FILE *f) {
    double x;
    assert_int_equal(fscanf(f, "%lf", &x), 1);
    return x;
}

static void near(const char *what, int which, double ours, double theirs, double relative, double least) {
    if (!(fabs(ours - theirs) <= relative * fmax(fabs(theirs), least)))
        fail_msg("%s %d: %.17g, not %.17g", what, which, ours, theirs);
}

// Curves of a case; the values are in `values`, row by row.
static void read_curves(FILE *f, int stages, int count, double *values, ft_curve *curves) {
    for (int i = 0; i < count; i++) {
        double *row = values + i * (stages + 1);
        curves[i].known = (int)number(f);
        curves[i].weight = number(f);
        curves[i].value = row;
        for (int k = 0; k < curves[i].known; k++)
            row[k] = number(f);
    }
}

static void check_case(FILE *f, int stages, int count) {
    static double values[MOST * (FT_CURVE_STAGES + 1)], seen[FT_CURVE_STAGES + 1];
    ft_curve curves[MOST];
    ft_curve_model model;
    ft_worth worth;
    ft_arena arena = {0};
    assert_true(count <= MOST && stages <= FT_CURVE_STAGES);
    read_curves(f, stages, count, values, curves);
    assert_int_equal(ft_curve_model_of(curves, count, stages, &arena, &model), FT_OK);
    for (int k = 0; k <= stages + 1; k++) {
        double mean, variance;
        assert_int_equal((int)number(f), k);
        for (int i = 0; i < k; i++)
            seen[i] = number(f);
        ft_curve_ask(&model, seen, k, &mean, &variance);
        near("mean after", k, mean, number(f), 1e-9, model.scale);
        near("variance after", k, variance, number(f), 1e-8, model.scale * model.scale);
    }
    assert_int_equal(ft_worth_of(&model, &arena, &worth), FT_OK);
    const int asked = stages > 2 ? 3 : stages > 1 ? 2 : 1;
    for (int i = 0; i < 5 * asked; i++) {
        const int known = (int)number(f);
        const double ahead = number(f), theirs = number(f);
        // Ours looks at a coarser grid: within 3%, and 2 thousandths of the scale, which tell no trials apart.
        const double ours = ft_worth_index(&worth, known, ahead);
        if (!(fabs(ours - theirs) <= 0.03 * theirs + 2e-3 * worth.unit))
            fail_msg("%d stages, %d seen, %g ahead: worth %g, not %g", stages, known, ahead, ours, theirs);
    }
    ft_arena_free(&arena);
}

static void test_oracle(void **state) {
    FILE *f = fopen(FT_TEST_VECTORS "/curves/curves.txt", "r");
    char word[16];
    int stages, count, cases = 0;
    assert_non_null(f);
    for (; fscanf(f, "%15s %d %d", word, &stages, &count) == 3; cases++) {
        assert_string_equal(word, "case");
        check_case(f, stages, count);
    }
    assert_int_equal(cases, 5);
    fclose(f);
}

static void test_refused(void **state) {
    ft_arena arena = {0};
    ft_curve_model model;
    assert_int_equal(ft_curve_model_of(NULL, 0, 0, &arena, &model), FT_INVALID);
    assert_int_equal(ft_curve_model_of(NULL, 0, FT_CURVE_STAGES + 1, &arena, &model), FT_INVALID);
    ft_error_clear();
    ft_arena_free(&arena);
}

// A stage where all say the same but for rounding, and another one where they do not.
static void test_rounding(void **state) {
    const double a[] = {0.7, 0.53, 0.61}, b[] = {0.7000000000000002};
    const ft_curve curves[] = {{a, 3, 0.97}, {b, 1, 1}};
    ft_arena arena = {0};
    ft_curve_model model;
    double mean, variance;
    assert_int_equal(ft_curve_model_of(curves, 2, 2, &arena, &model), FT_OK);
    ft_curve_ask(&model, NULL, 0, &mean, &variance);
    assert_true(isfinite(mean) && variance > 1e-6);
    ft_arena_free(&arena);
}

// ---- which trial goes on --------------------------------------------------------------------------------------------

enum { STAGES = 5, OLD = 20 };

// A study that has gone on for a while: OLD trials of which every second one came to its end.
static void old_trials(double values[][STAGES + 1], ft_freeze_thaw_trial *trials) {
    for (int i = 0; i < OLD; i++) {
        const double top = 0.8 + 0.01 * ((i * 7) % 10 - 5);
        for (int k = 0; k < STAGES; k++)
            values[i][k] = top - 0.3 / (k + 1) + 0.002 * ((i * 3 + k * 5) % 7 - 3);
        values[i][STAGES] = fmax(values[i][STAGES - 1], values[i][STAGES - 2]);
        trials[i] = (ft_freeze_thaw_trial){values[i], i % 2 == 0 ? STAGES + 1 : STAGES, false, 1};
    }
}

// What a trial shows that will come to `top`.
static void promising(double top, double value[STAGES + 1]) {
    for (int k = 0; k <= STAGES; k++)
        value[k] = top - 0.3 / (k + 1);
}

typedef struct paused {
    double top;
    int known;
    double seconds;
} paused;

static const struct {
    const char *name;
    paused a, b; // trials OLD and OLD + 1
    double new_seconds;
    bool closed; // no new one may begin
    int64_t expected;
} cases[] = {
    {"far better than the best", {0.90, 3, 1}, {0.70, 3, 1}, 1, false, OLD},
    {"the other one", {0.70, 3, 1}, {0.90, 3, 1}, 1, false, OLD + 1},
    {"both are hopeless", {0.60, 4, 1}, {0.62, 4, 1}, 1, false, FT_FREEZE_THAW_NEW},
    {"hopeless, and nothing may begin", {0.60, 4, 1}, {0.62, 4, 1}, 1, true, OLD + 1},
    {"equal, one is dearer", {0.88, 3, 20}, {0.88, 3, 1}, 1, false, OLD + 1},
    {"equal: the older one", {0.88, 3, 1}, {0.88, 3, 1}, 1, false, OLD},
    {"too dear beside a new one", {0.84, 2, 1e6}, {0.84, 2, 1e6}, 1, false, FT_FREEZE_THAW_NEW},
    {"a new one is worth more", {0.79, 2, 1}, {0.70, 2, 1}, 1, false, FT_FREEZE_THAW_NEW},
    {"a new one is too dear", {0.79, 2, 1}, {0.70, 2, 1}, 1e6, false, OLD},
    {"nearer to its end for the same", {0.88, 2, 1}, {0.88, 4, 1}, 1, false, OLD + 1},
};

static ft_freeze_thaw_choice choose(int which, bool maximize, ft_arena *arena) {
    static double values[OLD + 2][STAGES + 1];
    ft_freeze_thaw_trial trials[OLD + 2];
    ft_freeze_thaw_options options = ft_freeze_thaw_defaults(STAGES, maximize);
    ft_freeze_thaw_choice choice;
    const paused two[2] = {cases[which].a, cases[which].b};
    old_trials(values, trials);
    for (int i = 0; i < 2; i++) {
        promising(two[i].top, values[OLD + i]);
        trials[OLD + i] = (ft_freeze_thaw_trial){values[OLD + i], two[i].known, true, two[i].seconds};
    }
    for (int i = 0; i < OLD + 2; i++)
        for (int k = 0; k <= STAGES; k++)
            values[i][k] *= maximize ? 1 : -1;
    options.new_seconds = cases[which].new_seconds;
    options.may_begin = !cases[which].closed;
    assert_int_equal(ft_freeze_thaw_choose(trials, OLD + 2, &options, arena, &choice), FT_OK);
    return choice;
}

static void test_choice(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int maximize = 0; maximize < 2; maximize++) {
            ft_arena arena = {0};
            const ft_freeze_thaw_choice c = choose((int)i, maximize != 0, &arena),
                                        d = choose((int)i, maximize != 0, &arena);
            if (c.trial != cases[i].expected)
                fail_msg("%s: trial %lld, worth %g, a new one %g", cases[i].name, (long long)c.trial, c.worth,
                         c.worth_new);
            assert_memory_equal(&c.worth, &d.worth, sizeof c.worth);
            assert_memory_equal(c.expected, d.expected, (OLD + 2) * sizeof *c.expected);
            assert_true(c.deviation[0] == 0 && c.deviation[1] > 0 && c.deviation[OLD] > 0);
            ft_arena_free(&arena);
        }
}

// The first ones go to their ends, one after the other; then there is something to compare with.
static void test_beginning(void **state) {
    double values[4][STAGES + 1];
    ft_freeze_thaw_trial trials[4];
    ft_freeze_thaw_options options = ft_freeze_thaw_defaults(STAGES, true);
    int count = 0;
    options.whole = 3;
    for (int step = 0; step < 3 * STAGES; step++) {
        ft_arena arena = {0};
        ft_freeze_thaw_choice choice;
        assert_int_equal(ft_freeze_thaw_choose(trials, count, &options, &arena, &choice), FT_OK);
        assert_int_equal(choice.trial, step % STAGES == 0 ? FT_FREEZE_THAW_NEW : step / STAGES);
        ft_arena_free(&arena);
        if (step % STAGES == 0) {
            promising(0.8 + 0.01 * count, values[count]);
            trials[count] = (ft_freeze_thaw_trial){values[count], 0, true, 1};
            count++;
        }
        ft_freeze_thaw_trial *t = &trials[count - 1];
        if (++t->known == STAGES) *t = (ft_freeze_thaw_trial){t->value, STAGES + 1, false, 1};
    }
    ft_arena arena = {0};
    ft_freeze_thaw_choice choice;
    assert_int_equal(ft_freeze_thaw_choose(trials, count, &options, &arena, &choice), FT_OK);
    assert_int_equal(choice.trial, FT_FREEZE_THAW_NEW);
    options.may_begin = false;
    assert_int_equal(ft_freeze_thaw_choose(trials, count, &options, &arena, &choice), FT_OK);
    assert_int_equal(choice.trial, FT_FREEZE_THAW_NONE);
    ft_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_oracle),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
