// Importances against Optuna's (vectors/importance.txt).
#include "hpo/search/importance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t generator;

static double uniform(void) {
    generator = generator * 6364136223846793005u + 1442695040888963407u;
    return (double)(generator >> 11) / 9007199254740992.0;
}

static int below(int n) { return (int)(uniform() * n); }

static void add(ft_trials *trials, int64_t number, const char *name, const ft_distribution *distribution,
                double value) {
    int name_id, distribution_id;
    assert_int_equal(ft_trials_name(trials, name, &name_id), FT_OK);
    assert_int_equal(ft_trials_distribution(trials, distribution, &distribution_id), FT_OK);
    assert_int_equal(ft_trials_set_param(trials, number, name_id, distribution_id, value), FT_OK);
}

static ft_distribution floats(double low, double high, bool log, double step) {
    ft_distribution d;
    assert_int_equal(ft_distribution_float("test", low, high, log, step, &d), FT_OK);
    return d;
}

static ft_distribution ints(int64_t low, int64_t high, bool log, int64_t step) {
    ft_distribution d;
    assert_int_equal(ft_distribution_int("test", low, high, log, step, &d), FT_OK);
    return d;
}

// As history() in make_pruner_vectors.py, draw for draw.
static void make_trial(ft_trials *trials, int i, int count) {
    static const ft_choice list[] = {{.kind = FT_CHOICE_TEXT, .text = "x"},
                                     {.kind = FT_CHOICE_NULL},
                                     {.kind = FT_CHOICE_BOOL, .integer = 1},
                                     {.kind = FT_CHOICE_FLOAT, .number = 2.5}};
    ft_distribution unit = floats(0, 1, false, 0), twice = floats(0, 2, false, 0),
                    log = floats(0.001953125, 2, true, 0);
    ft_distribution step = floats(0, 2, false, 0.25), int_log = ints(1, 1000, true, 1),
                    int_step = ints(0, 24, false, 8);
    ft_distribution single = ints(7, 7, false, 1), whole = ints(-20, 79, false, 1);
    ft_distribution choice = {.kind = FT_CATEGORICAL, .choices = list, .choice_count = 4};
    int64_t n;
    assert_int_equal(ft_trials_append(trials, FT_RUNNING, &n), FT_OK);
    double a = uniform(), b = uniform(), c = uniform(), d = uniform(), e = uniform(), h = uniform();
    add(trials, n, "float", &unit, a);
    add(trials, n, "log", &log, (1 + b) * ldexp(1, -below(9)));
    double stepped = 0.25 * below(9);
    add(trials, n, "step", &step, stepped);
    add(trials, n, "int", &whole, below(100) - 20);
    add(trials, n, "int_log", &int_log, 1 + below(1000));
    double eights = 8 * below(4);
    add(trials, n, "int_step", &int_step, eights);
    int chosen = below(4);
    add(trials, n, "choice", &choice, chosen);
    add(trials, n, "single", &single, 7);
    if (c < 0.4) add(trials, n, "conditional", &unit, d);
    add(trials, n, "moving", i < count / 2 ? &unit : &twice, e);
    double value = (a - 0.3) * (a - 0.3) + 0.05 * eights + (chosen == 1 ? 0.5 : 0) + 0.1 * h;
    if (c < 0.4) value += 0.5 * d;
    int state = below(10);
    if (below(40) == 0) value = INFINITY;
    ft_trial_state end = state < 8 ? FT_COMPLETE : state == 8 ? FT_PRUNED : FT_FAIL;
    double values[2] = {value, stepped - e};
    assert_int_equal(ft_trials_finish(trials, n, end, values, end == FT_COMPLETE ? trials->objectives : 0), FT_OK);
}

static void make_history(ft_trials *trials, int seed, int count, int objectives) {
    generator = (uint64_t)seed;
    bool directions[2] = {seed % 2 == 0, seed % 2 != 0};
    assert_int_equal(ft_trials_init(trials, objectives, directions), FT_OK);
    for (int i = 0; i < count; i++)
        make_trial(trials, i, count);
}

static void check(ft_trials *trials, double *importance, int *compared) {
    double sum = 0;
    int known = 0;
    for (int i = 0; i < trials->names.count; i++) {
        if (importance[i] < 0) continue;
        sum += importance[i];
        known++;
    }
    assert_int_equal(known, *compared);
    assert_true(fabs(sum - 1) < 1e-12);
}

static void equals_optuna(void **state) {
    FILE *vectors = fopen(FT_TEST_VECTORS "/importance.txt", "r");
    assert_non_null(vectors);
    ft_trials trials = {0};
    double *importance = NULL, worst = 0, expected;
    char line[120], name[40];
    int cases = 0, compared = 0, seed, count, objectives, objective;
    while (fgets(line, sizeof line, vectors) != NULL) {
        if (sscanf(line, "case %d %d %d %d", &seed, &count, &objectives, &objective) == 4) {
            if (cases > 0) check(&trials, importance, &compared);
            ft_trials_free(&trials);
            free(importance);
            make_history(&trials, seed, count, objectives);
            importance = calloc((size_t)trials.names.count, sizeof *importance);
            assert_non_null(importance);
            assert_int_equal(ft_importance(&trials, objective, importance), FT_OK);
            compared = 0;
            cases++;
            continue;
        }
        assert_int_equal(sscanf(line, "%39s %lf", name, &expected), 2);
        int id = ft_trials_find_name(&trials, name);
        assert_true(id >= 0);
        double error = fabs(importance[id] - expected);
        if (!(error <= 1e-9)) fail_msg("case %d, %s: %.17g, Optuna %.17g", seed, name, importance[id], expected);
        if (error > worst) worst = error;
        compared++;
    }
    check(&trials, importance, &compared);
    fclose(vectors);
    ft_trials_free(&trials);
    free(importance);
    assert_int_equal(cases, 9 + 2 * 2);
    print_message("largest difference %.2g\n", worst);
}

static void nothing_to_say(void **state) {
    ft_trials trials;
    ft_distribution unit = floats(0, 1, false, 0);
    int64_t number;
    double importance = 5;
    assert_int_equal(ft_trials_init(&trials, 1, &(bool){false}), FT_OK);
    assert_int_equal(ft_importance(&trials, FT_ALL_OBJECTIVES, &importance), FT_OK);
    assert_true(importance == 5); // there is no name to write for
    assert_int_equal(ft_trials_append(&trials, FT_RUNNING, &number), FT_OK);
    add(&trials, number, "x", &unit, 0.5);
    assert_int_equal(ft_importance(&trials, FT_ALL_OBJECTIVES, &importance), FT_OK);
    assert_true(importance == -1);
    ft_trials_free(&trials);
}

// A range whose width is no finite number has cells like any other.
static void widest_range(void **state) {
    ft_trials trials;
    bool maximize = false;
    double importance[2];
    ft_distribution all = floats(-1.7e308, 1.7e308, false, 0), unit = floats(0, 1, false, 0);
    assert_int_equal(ft_trials_init(&trials, 1, &maximize), FT_OK);
    for (int i = 0; i < 40; i++) {
        int64_t n;
        assert_int_equal(ft_trials_append(&trials, FT_RUNNING, &n), FT_OK);
        double value = -1.7e308 + i * (1.7e308 / 20);
        add(&trials, n, "all", &all, i == 39 ? 1.7e308 : value);
        add(&trials, n, "unit", &unit, (i * 7 % 40) / 40.0);
        assert_int_equal(ft_trials_finish(&trials, n, FT_COMPLETE, &(double){i}, 1), FT_OK);
    }
    assert_int_equal(ft_importance(&trials, FT_ALL_OBJECTIVES, importance), FT_OK);
    assert_true(importance[0] > 0.8 && importance[0] <= 1 && fabs(importance[0] + importance[1] - 1) < 1e-12);
    ft_trials_free(&trials);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equals_optuna), cmocka_unit_test(nothing_to_say),
                                       cmocka_unit_test(widest_range)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
