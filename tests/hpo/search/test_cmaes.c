// CMA-ES: its state after generations against the package cmaes (vectors/cmaes/cmaes.txt), axes of a matrix, which
// trial is better; as a sampler: it turns with a problem, leaves no value of a grid for ever, begins anew where nothing
// is left, repeats after a kill, and is what auto may take for long studies of numbers.
#include "hpo/search/cmaes/eigen.h"
#include "hpo/search/cmaes/evolution.h"
#include "hpo/search/cmaes/ranking.h"
#include "hpo/search/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- numbers of others ----------------------------------------------------------------------------------------------

static void read_numbers(FILE *f, double *out, int count) {
    for (int i = 0; i < count; i++)
        assert_int_equal(fscanf(f, "%lf", &out[i]), 1);
}

static void near(const char *what, int generation, const double *ours, const double *theirs, int count) {
    for (int i = 0; i < count; i++)
        if (!(fabs(ours[i] - theirs[i]) <= 1e-9 * fmax(fabs(theirs[i]), 1e-3)))
            fail_msg("generation %d, %s %d: %.17g, not %.17g", generation, what, i, ours[i], theirs[i]);
}

static void test_generations(void **state) {
    FILE *f = fopen(FT_TEST_VECTORS "/cmaes/cmaes.txt", "r");
    char word[32];
    int n, lambda, cases = 0, generations = 0;
    double sigma;
    assert_non_null(f);
    while (fscanf(f, "%31s", word) == 1 && strcmp(word, "case") == 0) {
        ft_arena arena = {0};
        ft_evolution e;
        double mean[8], matrix[64], weights[32], rates[5], points[32 * 8], want[80];
        const double *sorted[32];
        assert_int_equal(fscanf(f, "%d %d %lf", &n, &lambda, &sigma), 3);
        read_numbers(f, mean, n);
        const long at = ftell(f);
        assert_int_equal(fscanf(f, "%31s", word), 1);
        const bool unit = strcmp(word, "unit") == 0;
        if (!unit) {
            assert_int_equal(fseek(f, at, SEEK_SET), 0);
            read_numbers(f, matrix, n * n);
        }
        assert_int_equal(ft_evolution_init(n, lambda, &arena, &e), FT_OK);
        ft_evolution_begin(&e, mean, sigma, unit ? NULL : matrix);
        read_numbers(f, weights, lambda);
        near("weight", 0, e.weight, weights, lambda);
        assert_int_equal(fscanf(f, "%31s", word), 1);
        read_numbers(f, rates, 5);
        near("rate", 0, (double[]){e.cc, e.c1, e.cmu, e.cs, e.damping}, rates, 5);
        for (int g = 1; fscanf(f, "%31s", word) == 1 && strcmp(word, "generation") == 0; g++, generations++) {
            read_numbers(f, points, lambda * n);
            for (int p = 0; p < lambda; p++)
                sorted[p] = points + (size_t)p * (size_t)n;
            ft_evolution_tell(&e, sorted);
            assert_int_equal(fscanf(f, "%31s", word), 1);
            read_numbers(f, want, 1 + n + n * n);
            near("sigma", g, &e.sigma, want, 1);
            near("mean", g, e.mean, want + 1, n);
            near("matrix", g, e.covariance, want + 1 + n, n * n);
        }
        assert_string_equal(word, "end");
        cases++;
        ft_arena_free(&arena);
    }
    assert_true(cases == 4 && generations == 56);
    fclose(f);
}

static void test_axes(void **state) {
    static const int sizes[] = {1, 2, 3, 10, 25};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int kind = 0; kind < 3; kind++) { // any; all one length; lengths far apart
            const int n = sizes[s];
            double a[625] = {0}, copy[625], values[25], vectors[625];
            for (int i = 0; i < n; i++)
                for (int k = 0; k <= i; k++) {
                    const double scale = kind == 2 ? pow(10, -6.0 * (i + k) / (2 * n)) : 1;
                    a[i * n + k] = a[k * n + i] = kind == 1 ? i == k : scale * (cos(i * 7 + k * k) + (i == k ? n : 0));
                }
            memcpy(copy, a, sizeof a);
            ft_eigen(copy, n, values, vectors);
            for (int i = 0; i < n; i++)
                for (int k = 0; k < n; k++) {
                    double made = 0, dot = 0;
                    for (int j = 0; j < n; j++) {
                        made += vectors[i * n + j] * values[j] * vectors[k * n + j];
                        dot += vectors[j * n + i] * vectors[j * n + k];
                    }
                    assert_true(fabs(made - a[i * n + k]) < 1e-12 * n && fabs(dot - (i == k)) < 1e-12);
                }
        }
}

// ---- trials ---------------------------------------------------------------------------------------------------------

typedef struct world {
    ft_trials trials;
    ft_sampler *sampler;
    ft_arena arena;
    ft_sampler_options options;
} world;

static void start(world *w, ft_sampler_kind kind, uint64_t seed, int startup) {
    *w = (world){.options = ft_sampler_defaults()};
    w->options.kind = kind;
    w->options.seed = seed;
    w->options.startup_trials = startup;
    w->options.long_cmaes = true;
    w->options.gp.fitted = 12, w->options.gp.modelled = 20, w->options.gp.candidates = 20, w->options.gp.starts = 1;
    assert_int_equal(ft_trials_init(&w->trials, 1, (bool[]){false}), FT_OK);
    assert_int_equal(ft_sampler_new(&w->options, &w->trials, &w->sampler), FT_OK);
}

static void stop(world *w) {
    ft_sampler_free(w->sampler);
    ft_trials_free(&w->trials);
    ft_arena_free(&w->arena);
}

static double ask(world *w, int64_t number, const char *name, const ft_distribution *d) {
    double value;
    int name_id, distribution_id;
    assert_int_equal(ft_sampler_suggest(w->sampler, number, name, d, &value), FT_OK);
    assert_true(ft_distribution_contains(d, value));
    assert_int_equal(ft_trials_name(&w->trials, name, &name_id), FT_OK);
    assert_int_equal(ft_trials_distribution(&w->trials, d, &distribution_id), FT_OK);
    assert_int_equal(ft_trials_set_param(&w->trials, number, name_id, distribution_id, value), FT_OK);
    return value;
}

static double real(world *w, int64_t number, const char *name, double low, double high, bool log) {
    ft_distribution d;
    assert_int_equal(ft_distribution_float(name, low, high, log, 0, &d), FT_OK);
    return ask(w, number, name, &d);
}

static double whole(world *w, int64_t number, const char *name, int low, int high, bool log) {
    ft_distribution d;
    assert_int_equal(ft_distribution_int(name, low, high, log, 1, &d), FT_OK);
    return ask(w, number, name, &d);
}

static int choice(world *w, int64_t number, const char *name) {
    const ft_choice choices[] = {{.kind = FT_CHOICE_INT, .integer = 0}, {.kind = FT_CHOICE_INT, .integer = 1}};
    ft_distribution d;
    assert_int_equal(ft_distribution_categorical(name, &w->arena, choices, 2, &d), FT_OK);
    return (int)ask(w, number, name, &d);
}

static int64_t add(world *w) {
    int64_t number;
    assert_int_equal(ft_trials_append(&w->trials, FT_RUNNING, &number), FT_OK);
    return number;
}

static void end(world *w, int64_t number, ft_trial_state state, double value) {
    assert_int_equal(ft_trials_finish(&w->trials, number, state, &value, state != FT_FAIL), FT_OK);
}

static void test_which_is_better(void **state) {
    // The better one first; steps: how far a pruned one came, -1: it never reported.
    static const struct {
        ft_trial_state state;
        double value, violation;
        int steps;
    } cases[] = {{FT_COMPLETE, -2, 0, 0}, {FT_COMPLETE, 5, -1, 0}, {FT_COMPLETE, -9, 0.5, 0}, {FT_COMPLETE, -9, 2, 0},
                 {FT_PRUNED, 4, 0, 7},    {FT_PRUNED, 1, 0, 3},    {FT_PRUNED, 2, 0, 3},      {FT_PRUNED, 0, 0, -1},
                 {FT_FAIL, 0, 0, 0},      {FT_FAIL, 0, 0, 0}};
    enum { N = sizeof cases / sizeof cases[0] };
    for (int maximize = 0; maximize < 2; maximize++) {
        ft_trials t;
        ft_standing standing[N];
        int limit;
        assert_int_equal(ft_trials_init(&t, 1, (bool[]){maximize}), FT_OK);
        assert_int_equal(ft_trials_constraint_name(&t, "0", &limit), FT_OK);
        for (int64_t i = 0; i < N; i++) {
            int64_t number;
            const double value = maximize ? -cases[i].value : cases[i].value;
            assert_int_equal(ft_trials_append(&t, FT_RUNNING, &number), FT_OK);
            if (cases[i].violation != 0)
                assert_int_equal(ft_trials_set_constraint(&t, i, limit, cases[i].violation), FT_OK);
            if (cases[i].state == FT_PRUNED && cases[i].steps >= 0)
                assert_int_equal(ft_trials_report(&t, i, cases[i].steps, value), FT_OK);
            const bool none = cases[i].state == FT_FAIL || cases[i].steps < 0;
            assert_int_equal(ft_trials_finish(&t, i, cases[i].state, &value, !none), FT_OK);
            standing[N - 1 - i] = ft_standing_of(&t, &t.trial[i]);
        }
        qsort(standing, N, sizeof *standing, ft_standing_compare);
        for (int i = 0; i < N; i++)
            assert_int_equal(standing[i].number, i);
        ft_trials_free(&t);
    }
}

// ---- searches -------------------------------------------------------------------------------------------------------

// A bowl that is a thousand times steeper along one direction than along another, none of them an axis.
static double turned(world *w, int64_t n) {
    static const char *const names[] = {"a", "b", "c", "d"};
    double x[4], sum = 0, value = 0;
    for (int i = 0; i < 4; i++)
        x[i] = real(w, n, names[i], 0, 1, false) - 0.2 * (i + 1), sum += x[i];
    for (int i = 0; i < 4; i++) {
        const double along = x[i] - sum / 2; // a reflection
        value += pow(1000, i / 3.0) * along * along;
    }
    return value;
}

static double best_turned(ft_sampler_kind kind, uint64_t seed, int trials) {
    world w;
    double best = INFINITY;
    start(&w, kind, seed, 10);
    for (int i = 0; i < trials; i++) {
        const int64_t n = add(&w);
        const double value = turned(&w, n);
        end(&w, n, FT_COMPLETE, value);
        best = fmin(best, value);
    }
    stop(&w);
    return best;
}

static void test_it_turns(void **state) {
    for (uint64_t seed = 0; seed < 3; seed++) {
        const double ours = best_turned(FT_SAMPLER_CMAES, seed, 400), tpe = best_turned(FT_SAMPLER_TPE, seed, 400);
        if (!(ours < 0.1 * tpe)) fail_msg("seed %d: %g, TPE %g", (int)seed, ours, tpe);
    }
}

// The best value of a grid lies far from where the search begins, and each value on the way is hardly better.
static void test_grid(void **state) {
    world w;
    int found = 0;
    start(&w, FT_SAMPLER_CMAES, 2, 10);
    for (int i = 0; i < 400; i++) {
        const int64_t n = add(&w);
        const double k = whole(&w, n, "k", 1, 40, false), units = whole(&w, n, "units", 1, 1024, true),
                     x = real(&w, n, "x", 1e-6, 1, true);
        found += k == 40 && units == 1;
        end(&w, n, FT_COMPLETE, 1e-3 * (40 - k) + 1e-3 * log2(units) + fabs(log10(x) + 2));
    }
    assert_true(found >= 10);
    stop(&w);
}

// Nothing is ever better than the first generation: it looks elsewhere, again and again, in larger generations.
static void test_begins_anew(void **state) {
    world w;
    double low = INFINITY, high = -INFINITY;
    start(&w, FT_SAMPLER_CMAES, 1, 4);
    for (int i = 0; i < 600; i++) {
        const int64_t n = add(&w);
        const double x = real(&w, n, "x", 0, 1, false), y = real(&w, n, "y", 0, 1, false);
        if (i >= 400) low = fmin(low, x), high = fmax(high, x);
        end(&w, n, FT_COMPLETE, i == 3 ? -1 : floor(x) + floor(y));
    }
    assert_true(high - low > 0.5);
    stop(&w);
}

// It turns away from where trials fail, without a value that says so.
static void test_failures(void **state) {
    world w;
    int failed = 0;
    start(&w, FT_SAMPLER_CMAES, 2, 10);
    for (int i = 0; i < 150; i++) {
        const int64_t n = add(&w);
        const double x = real(&w, n, "x", 0, 1, false), y = real(&w, n, "y", 0, 1, false);
        const bool diverges = x > 0.5;
        failed += diverges && i >= 100;
        end(&w, n, diverges ? FT_FAIL : FT_COMPLETE, -x + (y - 0.5) * (y - 0.5)); // the best lies at the cliff
    }
    assert_true(failed <= 30);
    stop(&w);
}

// All trials fail: there is nothing to begin from, and still values to suggest.
static void test_all_fail(void **state) {
    world w;
    start(&w, FT_SAMPLER_CMAES, 2, 3);
    for (int i = 0; i < 40; i++) {
        const int64_t n = add(&w);
        (void)real(&w, n, "x", 0, 1, false);
        end(&w, n, FT_FAIL, 0);
    }
    stop(&w);
}

// ---- auto -----------------------------------------------------------------------------------------------------------

// A history of 251 ended trials of two numbers, and a choice where `more`.
static void long_history(world *w, ft_sampler_kind kind, bool more) {
    start(w, kind, 5, 10);
    for (int i = 0; i < 251; i++) {
        const int64_t n = add(w);
        const char *const names[] = {"x", "y", "c"};
        double value = 0;
        for (int p = 0; p < (more ? 3 : 2); p++) {
            const ft_choice choices[] = {{.kind = FT_CHOICE_INT, .integer = 0}, {.kind = FT_CHOICE_INT, .integer = 1}};
            ft_distribution d;
            int name, distribution;
            const double u = fmod(0.618 * (p + 1) * i, 1);
            if (p < 2)
                assert_int_equal(ft_distribution_float(names[p], 0, 1, false, 0, &d), FT_OK);
            else
                assert_int_equal(ft_distribution_categorical(names[p], &w->arena, choices, 2, &d), FT_OK);
            assert_int_equal(ft_trials_name(&w->trials, names[p], &name), FT_OK);
            assert_int_equal(ft_trials_distribution(&w->trials, &d, &distribution), FT_OK);
            assert_int_equal(ft_trials_set_param(&w->trials, n, name, distribution, p < 2 ? u : floor(2 * u)), FT_OK);
            value += (u - 0.3) * (u - 0.3);
        }
        end(w, n, FT_COMPLETE, value);
    }
}

static void test_auto(void **state) {
    for (int more = 0; more < 2; more++) {
        world a, tpe;
        bool same = true;
        long_history(&a, FT_SAMPLER_AUTO, more);
        long_history(&tpe, FT_SAMPLER_TPE, more);
        for (int i = 0; i < 3; i++) {
            const int64_t n = add(&a), m = add(&tpe);
            same = real(&a, n, "x", 0, 1, false) == real(&tpe, m, "x", 0, 1, false) && same;
            same = real(&a, n, "y", 0, 1, false) == real(&tpe, m, "y", 0, 1, false) && same;
            if (more) same = choice(&a, n, "c") == choice(&tpe, m, "c") && same;
            if (!more) assert_true(fabs(a.trials.trial[n].params[0].value - 0.3) < 0.3); // from where the best ones are
        }
        assert_int_equal(same, more);
        stop(&a), stop(&tpe);
    }
}

static void test_refused(void **state) {
    static const ft_lessons none = {0};
    ft_sampler_options options = ft_sampler_defaults();
    ft_sampler *sampler;
    ft_trials t;
    options.kind = FT_SAMPLER_CMAES;
    assert_int_equal(ft_trials_init(&t, 2, (bool[]){false, false}), FT_OK);
    assert_int_equal(ft_sampler_new(&options, &t, &sampler), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "cmaes knows one objective, and there are 2"));
    ft_trials_free(&t);
    options.lessons = &none;
    assert_int_equal(ft_trials_init(&t, 1, (bool[]){false}), FT_OK);
    assert_int_equal(ft_sampler_new(&options, &t, &sampler), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "this sampler learns from no trials"));
    ft_error_clear();
    ft_trials_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generations), cmocka_unit_test(test_axes),     cmocka_unit_test(test_which_is_better),
        cmocka_unit_test(test_it_turns),    cmocka_unit_test(test_grid),     cmocka_unit_test(test_begins_anew),
        cmocka_unit_test(test_failures),    cmocka_unit_test(test_all_fail), cmocka_unit_test(test_auto),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
