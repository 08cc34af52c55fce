// The sampler "gp" from outside: every suggestion is legal and new, whatever the space; the same history gives the same
// suggestion; it finds a minimum, learns where trials diverge, keeps limits, and several objectives are refused.
#include "hpo/search/gp/conditions.h"
#include "hpo/search/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One trial that asks as it goes.
typedef struct asker {
    ft_trials trials;
    ft_sampler *sampler;
    ft_arena arena;
    int64_t number;
} asker;

static void start_as(asker *a, ft_sampler_options options, uint64_t seed, bool maximize) {
    options.seed = seed;
    *a = (asker){0};
    assert_int_equal(ft_trials_init(&a->trials, 1, &maximize), FT_OK);
    assert_int_equal(ft_sampler_new(&options, &a->trials, &a->sampler), FT_OK);
}

static void start(asker *a, uint64_t seed, bool maximize) {
    ft_sampler_options options = ft_sampler_defaults();
    options.kind = FT_SAMPLER_GP;
    start_as(a, options, seed, maximize);
}

static void stop(asker *a) {
    ft_sampler_free(a->sampler);
    ft_trials_free(&a->trials);
    ft_arena_free(&a->arena);
}

static int64_t begin(asker *a) {
    assert_int_equal(ft_trials_append(&a->trials, FT_RUNNING, &a->number), FT_OK);
    return a->number;
}

static double ask(asker *a, const char *name, const ft_distribution *d) {
    double value;
    int name_id, distribution_id;
    assert_int_equal(ft_sampler_suggest(a->sampler, a->number, name, d, &value), FT_OK);
    assert_true(ft_distribution_contains(d, value));
    assert_int_equal(ft_trials_name(&a->trials, name, &name_id), FT_OK);
    assert_int_equal(ft_trials_distribution(&a->trials, d, &distribution_id), FT_OK);
    assert_int_equal(ft_trials_set_param(&a->trials, a->number, name_id, distribution_id, value), FT_OK);
    return value;
}

static double number_of(asker *a, const char *name, double low, double high, bool log, double step) {
    ft_distribution d;
    assert_int_equal(ft_distribution_float(name, low, high, log, step, &d), FT_OK);
    return ask(a, name, &d);
}

static double whole_of(asker *a, const char *name, int64_t low, int64_t high, bool log) {
    ft_distribution d;
    assert_int_equal(ft_distribution_int(name, low, high, log, 1, &d), FT_OK);
    return ask(a, name, &d);
}

static int choice_of(asker *a, const char *name, int count) {
    ft_choice choices[8];
    ft_distribution d;
    for (int i = 0; i < count; i++)
        choices[i] = (ft_choice){.kind = FT_CHOICE_INT, .integer = i};
    assert_int_equal(ft_distribution_categorical(name, &a->arena, choices, count, &d), FT_OK);
    return (int)ask(a, name, &d);
}

static void end(asker *a, int64_t number, ft_trial_state state, double value) {
    assert_int_equal(ft_trials_finish(&a->trials, number, state, &value, state == FT_COMPLETE), FT_OK);
}

static double square(double x) { return x * x; }

// ---- spaces ---------------------------------------------------------------------------------------------------------

// Branches below branches, numbers of each kind, a choice that is rare, a range that changes.
static double odd_space(asker *a) {
    double value = square(log10(number_of(a, "rate", 1e-6, 1e-1, true, 0)) + 3);
    switch (choice_of(a, "kind", 5)) {
    case 0:
        value += square(number_of(a, "zero.x", -1, 1, false, 0) - 0.3);
        if (choice_of(a, "zero.deep", 2) == 1) value += whole_of(a, "zero.layers", 1, 12, false) / 12;
        break;
    case 1: value += fabs(log2(whole_of(a, "one.units", 8, 1024, true)) - 6); break;
    case 2: value += 0.1 + number_of(a, "two.drop", 0, 0.5, false, 0.1); break;
    default: value += 1;
    }
    return value + number_of(a, "warmup", 0, a->number % 5 == 4 ? 0.1 : 0.3, false, 0);
}

static bool same_values(const ft_trial *t, const ft_trial *u) {
    if (t->param_count != u->param_count) return false;
    for (int p = 0; p < t->param_count; p++) {
        const ft_trial_param *other = ft_trial_find_param(u, t->params[p].name);
        if (other == NULL || other->value != t->params[p].value) return false;
    }
    return true;
}

static void legal_and_new(void **state) {
    for (uint64_t seed = 0; seed < 2; seed++) {
        asker a[2];
        for (int k = 0; k < 2; k++) {
            int64_t running[3];
            double value[3];
            start(&a[k], seed, seed == 1);
            for (int n = 0; n < 45; n++) { // three at a time, which end out of order; some fail, some are pruned
                const int slot = n * 2 % 3;
                if (n >= 3) {
                    const int64_t number = running[slot];
                    if (number % 9 == 5)
                        assert_int_equal(ft_trials_report(&a[k].trials, number, 1, value[slot]), FT_OK);
                    if (number % 9 == 5)
                        assert_int_equal(ft_trials_finish(&a[k].trials, number, FT_PRUNED, &value[slot], 1), FT_OK);
                    else
                        end(&a[k], number, number % 7 == 3 ? FT_FAIL : FT_COMPLETE,
                            number % 11 == 8 ? INFINITY : value[slot]);
                }
                running[n < 3 ? n : slot] = begin(&a[k]);
                value[n < 3 ? n : slot] = odd_space(&a[k]);
            }
            for (int64_t i = 0; i < a[k].trials.count; i++)
                for (int64_t j = 0; j < i; j++)
                    assert_false(same_values(&a[k].trials.trial[i], &a[k].trials.trial[j]));
        }
        for (int64_t i = 0; i < a[0].trials.count; i++)
            assert_true(same_values(&a[0].trials.trial[i], &a[1].trials.trial[i]));
        stop(&a[0]);
        stop(&a[1]);
    }
}

// 12 points: each once, then again. A trial that failed before it asked for anything has none of them.
static void small_space(void **state) {
    for (int lost = 0; lost < 2; lost++) {
        asker a;
        int seen[4][3] = {{0}};
        start(&a, 3, false);
        if (lost == 1) end(&a, begin(&a), FT_FAIL, 0);
        for (int n = 0; n < 16; n++) {
            begin(&a);
            const int x = choice_of(&a, "x", 4), y = (int)whole_of(&a, "y", 0, 2, false);
            seen[x][y]++;
            end(&a, a.number, FT_COMPLETE, x + 0.3 * y);
        }
        int distinct = 0;
        for (int i = 0; i < 12; i++)
            distinct += seen[i / 3][i % 3] > 0;
        print_message("%d of 12 points in 16 trials\n", distinct);
        assert_true(distinct >= 11); // the first ones are drawn before there is a model, and may repeat
        stop(&a);
    }
}

static double branin(double u, double v) {
    const double x = 15 * u - 5, y = 15 * v, pi = 3.14159265358979323846;
    return square(y - 5.1 / (4 * pi * pi) * x * x + 5 / pi * x - 6) + 10 * (1 - 1 / (8 * pi)) * cos(x) + 10 - 0.397887;
}

// A narrow valley (Rosenbrock's), and ripples (Rastrigin's).
static double bent(double u, double v) { return 100 * square(square(6 * u - 3) - (6 * v - 3)) + square(6 * u - 4); }
static double rippled(double u, double v) {
    const double x = 8 * u - 4.7, y = 8 * v - 2.9, tau = 6.28318530717958648;
    return 20 + x * x + y * y - 10 * (cos(tau * x) + cos(tau * y));
}

static void finds_the_minimum(void **state) {
    static const struct {
        const char *name;
        double (*value)(double, double); // the least is 0
        int trials;
        double near;
    } cases[] = {{"branin", branin, 40, 0.05}, // 10 random points and then chance: about 0.5
                 // smooth alone: 0.10, 0.01, 0.40; and 2.6, 7.1, 1.8, since ripples pass for noise
                 {"a bent valley", bent, 100, 0.05},
                 {"ripples", rippled, 100, 1.8}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            asker a;
            double best = INFINITY;
            start(&a, seed, true);
            for (int n = 0; n < cases[k].trials; n++) {
                begin(&a);
                const double u = number_of(&a, "x", 0, 1, false, 0), v = number_of(&a, "y", 0, 1, false, 0), value = cases[k].value(u, v);
                best = fmin(best, value);
                end(&a, n, FT_COMPLETE, -value);
            }
            print_message("%s: %.5f above its minimum after %d trials\n", cases[k].name, best, cases[k].trials);
            assert_true(best < cases[k].near);
            stop(&a);
        }
}

// Half of the range of a learning rate diverges, and the best one lies just before that.
static int diverged(const ft_sampler_options *options, uint64_t seed) {
    asker a;
    int late = 0;
    start_as(&a, *options, seed, false);
    for (int n = 0; n < 60; n++) {
        begin(&a);
        const double rate = log10(number_of(&a, "rate", 1e-6, 1e-2, true, 0)),
                     decay = number_of(&a, "decay", 0, 0.3, false, 0);
        const double dropout = number_of(&a, "dropout", 0, 0.5, false, 0);
        const bool diverges = rate > -4;
        if (n >= 20) late += diverges;
        end(&a, n, diverges ? FT_FAIL : FT_COMPLETE, square(rate + 4.3) + square(decay - 0.1) + square(dropout - 0.2));
    }
    stop(&a);
    return late;
}

static void learns_where_trials_diverge(void **state) {
    static const struct {
        const char *what;
        ft_sampler_kind kind;
        bool failed;
        int least, most, sum; // of the last 40 in each of three studies, in all of them
    } cases[] = {
        {"gp", FT_SAMPLER_GP, false, 0, 5, 15},
        {"cmaes", FT_SAMPLER_CMAES, false, 0, 15, 30},
        {"tpe, failed ones count", FT_SAMPLER_TPE, true, 0, 5, 15},
        {"tpe as Optuna's", FT_SAMPLER_TPE, false, 10, 40, 120}, // forgets them
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ft_sampler_options options = ft_sampler_defaults();
        int sum = 0;
        options.kind = cases[k].kind;
        options.failed = cases[k].failed;
        options.fine = FT_SWITCH_AUTO;
        for (uint64_t seed = 0; seed < 3; seed++) {
            const int late = diverged(&options, seed);
            print_message("%s: %d of the last 40 trials diverged\n", cases[k].what, late);
            assert_in_range(late, cases[k].least, cases[k].most);
            sum += late;
        }
        assert_true(sum <= cases[k].sum);
    }
}

// All fail at first: only where they came to an end is known to be better.
static void goes_away_from_failures(void **state) {
    static const struct {
        const char *what;
        ft_sampler_kind kind;
        int least; // of the last 15 in each of four studies come to an end: by chance four
    } cases[] = {{"gp", FT_SAMPLER_GP, 40}, {"tpe", FT_SAMPLER_TPE, 15}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ft_sampler_options options = ft_sampler_defaults();
        int ended = 0;
        options.kind = cases[k].kind;
        options.failed = true;
        for (uint64_t seed = 0; seed < 4; seed++) {
            asker a;
            start_as(&a, options, seed, false);
            for (int n = 0; n < 40; n++) {
                begin(&a);
                const double x = number_of(&a, "x", 0, 1, false, 0), y = number_of(&a, "y", 0, 1, false, 0);
                const bool ends = x > 0.8 && y > 0.7 && n >= 12;
                if (n >= 25) ended += ends;
                end(&a, n, ends ? FT_COMPLETE : FT_FAIL, square(x - 0.93) + square(y - 0.8));
            }
            stop(&a);
        }
        print_message("%s: %d of the last 15 of four came to an end\n", cases[k].what, ended);
        assert_true(ended >= cases[k].least);
    }
}

static void keeps_limits(void **state) {
    asker a;
    int kept = 0, id;
    double best = INFINITY;
    start(&a, 2, false);
    assert_int_equal(ft_trials_constraint_name(&a.trials, "0", &id), FT_OK);
    for (int n = 0; n < 40; n++) {
        begin(&a);
        const double x = number_of(&a, "x", 0, 1, false, 0), y = number_of(&a, "y", 0, 1, false, 0);
        const double limit = 1.5 - x - 2 * y - 0.5 * sin(6.28318530717958648 * (x * x - 2 * y));
        assert_int_equal(ft_trials_set_constraint(&a.trials, n, id, limit), FT_OK);
        end(&a, n, FT_COMPLETE, x + y);
        if (n >= 20) kept += limit <= 0;
        if (limit <= 0) best = fmin(best, x + y);
    }
    print_message("best %.4f, %d of 20 within the limit\n", best, kept);
    assert_true(best < 0.65 && kept >= 5); // the minimum is 0.5998; by chance about 0.8
    stop(&a);
}

// Which limit's name was heard of first makes no difference, to the bit.
static void limits_in_any_order(void **state) {
    static const char *const names[] = {"memory", "seconds", "size"};
    asker a[2];
    int id[2][3];
    for (int k = 0; k < 2; k++) {
        start(&a[k], 2, false);
        for (int c = 0; c < 3; c++) {
            const int at = k == 0 ? c : 2 - c;
            assert_int_equal(ft_trials_constraint_name(&a[k].trials, names[at], &id[k][at]), FT_OK);
        }
    }
    for (int n = 0; n < 30; n++) {
        double x[2], y[2];
        for (int k = 0; k < 2; k++) {
            begin(&a[k]);
            x[k] = number_of(&a[k], "x", 0, 1, false, 0), y[k] = number_of(&a[k], "y", 0, 1, false, 0);
            const double limits[] = {x[k] * y[k] - 0.3, 0.1 - y[k], sin(5 * x[k]) - 0.7};
            for (int c = 0; c < 3; c++)
                assert_int_equal(ft_trials_set_constraint(&a[k].trials, n, id[k][c], limits[c]), FT_OK);
            end(&a[k], n, FT_COMPLETE, square(x[k] - 0.7) + y[k]);
        }
        assert_true(memcmp(&x[0], &x[1], sizeof *x) == 0 && memcmp(&y[0], &y[1], sizeof *y) == 0);
    }
    stop(&a[0]);
    stop(&a[1]);
}

// auto is the Gaussian process, and TPE where that is not for.
static void chosen_by_itself(void **state) {
    static const ft_sampler_kind kinds[] = {FT_SAMPLER_AUTO, FT_SAMPLER_GP, FT_SAMPLER_TPE};
    for (int many = 0; many < 3; many++) { // parameters; trials; neither
        const int parameters = many == 0 ? FT_AUTO_GP_PARAMETERS + 1 : 2,
                  trials = many == 1 ? FT_AUTO_GP_TRIALS + 1 : 15;
        asker a[3];
        double next[3] = {0};
        for (int k = 0; k < 3; k++) {
            ft_sampler_options options = ft_sampler_defaults();
            start(&a[k], 4, false);
            ft_sampler_free(a[k].sampler);
            options.kind = kinds[k];
            options.branch_joint = options.branch_split = true;
            options.gp.candidates = 50;
            for (int n = 0; n < trials; n++) { // one history for all
                int64_t number;
                assert_int_equal(ft_trials_append(&a[k].trials, FT_RUNNING, &number), FT_OK);
                for (int p = 0; p < parameters; p++) {
                    char name[16];
                    int name_id, id;
                    ft_distribution d;
                    snprintf(name, sizeof name, "x%d", p);
                    assert_int_equal(ft_distribution_float(name, 0, 1, false, 0, &d), FT_OK);
                    assert_int_equal(ft_trials_name(&a[k].trials, name, &name_id), FT_OK);
                    assert_int_equal(ft_trials_distribution(&a[k].trials, &d, &id), FT_OK);
                    assert_int_equal(
                        ft_trials_set_param(&a[k].trials, number, name_id, id, fmod(0.37 * (n + 1) * (p + 1), 1)),
                        FT_OK);
                }
                end(&a[k], number, n % 5 == 4 ? FT_FAIL : FT_COMPLETE, fmod(0.37 * (n + 1), 1));
            }
            assert_int_equal(ft_sampler_new(&options, &a[k].trials, &a[k].sampler), FT_OK);
            begin(&a[k]);
            next[k] = number_of(&a[k], "x0", 0, 1, false, 0);
            stop(&a[k]);
        }
        assert_true(next[0] == next[many == 2 ? 1 : 2] && next[1] != next[2]);
    }
}

// ---- which parameters decide about others ---------------------------------------------------------------------------

// Rows of kind (a choice), layers (a number), other (a number) and the asked parameter, there or not.
static void who_decides(void **state) {
    enum { MOST = 8, AXES = 4 };
    static const struct {
        const char *what;
        double rows[MOST][AXES];
        int count, by;
    } cases[] = {
        {"all have it", {{0, .1, .3, .5}, {1, .9, .2, .5}}, 2, -1},
        {"a choice", {{0, .1, .5, .5}, {1, .2, .1, NAN}, {0, .9, .3, .5}, {1, .8, .4, NAN}}, 4, 0},
        {"a number above a border", {{0, .1, .5, NAN}, {1, .9, .1, .5}, {0, .8, .6, .5}, {1, .2, .9, NAN}, {0, .2, .4, NAN}}, 5, 1},
        {"a number by itself, not one with more changes", {{0, .1, .1, NAN}, {1, .9, .2, .5}, {0, .8, .5, .5}, {1, .2, .4, NAN}}, 4, 1},
        {"one that some lack, and they lack the parameter too", {{0, NAN, .1, NAN}, {1, .9, .3, .5}, {1, .1, .4, NAN}, {0, NAN, .2, NAN}, {1, .8, .05, .5}}, 5, 1},
        {"no one: equal values have it and lack it", {{0, .1, .1, NAN}, {0, .1, .1, .5}}, 2, -1},
        {"no one: what comes with it does not decide", {{0, .3, .1, .5}, {0, NAN, .1, NAN}}, 2, -1},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ft_arena arena = {0};
        int by[AXES];
        assert_int_equal(ft_gp_conditions_of(&cases[k].rows[0][0], cases[k].count, (bool[]){true, false, false, false}, AXES, 2, &arena, by), FT_OK);
        if (by[3] != cases[k].by) fail_msg("%s: %d, not %d", cases[k].what, by[3], cases[k].by);
        ft_arena_free(&arena);
    }
}

// Few of the first trials are in a branch, and none where its best values are; one combination of kind and layers nobody tried.
static void leaves_the_first_values_of_a_branch(void **state) {
    int found = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        asker a;
        double best = INFINITY;
        start(&a, seed, false);
        for (int n = 0; n < 45; n++) {
            char name[16];
            begin(&a);
            const int kind = choice_of(&a, "kind", 2), layers = (int)whole_of(&a, "layers", 1, 4, false);
            double loss = kind == 0 ? 1 + square(number_of(&a, "own", 0, 1, false, 0) - 0.5) : 0;
            loss += square(number_of(&a, "shared", 0, 1, false, 0) - 0.35) + 0.1 * abs(layers - 2);
            for (int l = 0; l < layers; l++) {
                snprintf(name, sizeof name, "width%d", l);
                loss += 0.1 * square(number_of(&a, name, 0, 1, false, 0) - 0.4 * l);
            }
            best = fmin(best, loss);
            end(&a, n, FT_COMPLETE, loss);
        }
        print_message("branches: %.5f above the least\n", best);
        found += best < 0.002;
        stop(&a);
    }
    assert_true(found >= 6);
}

static void several_objectives(void **state) {
    ft_trials trials;
    ft_sampler *sampler;
    ft_sampler_options options = ft_sampler_defaults();
    options.kind = FT_SAMPLER_GP;
    assert_int_equal(ft_trials_init(&trials, 2, (bool[]){false, true}), FT_OK);
    assert_int_equal(ft_sampler_new(&options, &trials, &sampler), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "one objective"));
    ft_error_clear();
    options.kind = FT_SAMPLER_AUTO;
    assert_int_equal(ft_sampler_new(&options, &trials, &sampler), FT_OK);
    ft_sampler_free(sampler);
    ft_trials_free(&trials);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal_and_new),           cmocka_unit_test(small_space),
        cmocka_unit_test(finds_the_minimum),       cmocka_unit_test(learns_where_trials_diverge),
        cmocka_unit_test(goes_away_from_failures), cmocka_unit_test(keeps_limits),
        cmocka_unit_test(limits_in_any_order),
        cmocka_unit_test(several_objectives),      cmocka_unit_test(chosen_by_itself),
        cmocka_unit_test(who_decides),             cmocka_unit_test(leaves_the_first_values_of_a_branch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
