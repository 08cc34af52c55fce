// What more trials may gain: on random functions, whose minimum is known from a grid, the expected gain is that which
// is left on average, and what is said to be enough is; nothing is said where nothing can be known.
#include "hpo/search/gp/outlook.h"
#include "hpo/search/sampler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WAVES = 6, GRID = 80, MOST = 5 };
typedef struct wave {
    double a, b, u[MOST];
} wave;

static uint64_t bits;
static double uniform(void) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    return (double)(bits >> 11) * 0x1p-53;
}

static double at(const wave *w, int dims, const double *x) {
    double sum = 0;
    for (int i = 0; i < WAVES; i++) {
        double phase = w[i].b;
        for (int k = 0; k < dims; k++)
            phase += w[i].u[k] * x[k];
        sum += w[i].a * cos(phase);
    }
    return sum;
}

static void draw(wave *w, int dims, double rate) {
    for (int i = 0; i < WAVES; i++) {
        w[i].a = uniform();
        for (int k = 0; k < dims; k++)
            w[i].u[k] = rate * uniform();
        w[i].b = 6.28 * uniform();
    }
}

// From many places downhill, by steps at random; of two dimensions a grid.
static double descend(const wave *w, int dims, double whole) {
    enum { PLACES = 300, STEPS = 300 };
    double best = INFINITY;
    for (int p = 0; p < PLACES; p++) {
        double x[MOST], next[MOST], step = 0.2;
        for (int k = 0; k < dims; k++)
            x[k] = (k == 0 ? whole : 1) * uniform();
        double here = at(w, dims, x);
        for (int s = 0; s < STEPS; s++) {
            for (int k = 0; k < dims; k++)
                next[k] = fmin(fmax(x[k] + step * (2 * uniform() - 1), 0), k == 0 ? whole : 1);
            const double there = at(w, dims, next);
            if (there < here) here = there, memcpy(x, next, sizeof x);
            else if (s % 6 == 5) step *= 0.8;
        }
        best = fmin(best, here);
    }
    return best;
}

static double least(const wave *w, int dims, double whole) {
    double best = INFINITY;
    if (dims > 2) return descend(w, dims, whole);
    for (int i = 0; i <= GRID; i++)
        for (int j = 0; j <= GRID; j++)
            best = fmin(best, at(w, 2, (double[]){whole * i / GRID, j / (double)GRID}));
    return best;
}

// Trials of a sampler, with the luck of each; what the one is worth that seems best.
static double search(const wave *w, int dims, ft_sampler_kind kind, uint64_t seed, int trials, double luck, double whole, double sign,
                     ft_trials *t) {
    static const char *const names[MOST] = {"x", "y", "z", "u", "v"};
    ft_sampler_options options = ft_sampler_defaults();
    ft_sampler *sampler;
    ft_distribution d;
    double seems = INFINITY, best = INFINITY;
    options.kind = kind;
    options.seed = seed;
    assert_int_equal(ft_distribution_float("x", 0, 1, false, 0, &d), FT_OK);
    assert_int_equal(ft_trials_init(t, 1, (bool[]){sign < 0}), FT_OK);
    assert_int_equal(ft_sampler_new(&options, t, &sampler), FT_OK);
    for (int n = 0; n < trials; n++) {
        int64_t number;
        double p[MOST];
        assert_int_equal(ft_trials_append(t, FT_RUNNING, &number), FT_OK);
        for (int k = 0; k < dims; k++) {
            int name, distribution;
            assert_int_equal(ft_sampler_suggest(sampler, number, names[k], &d, &p[k]), FT_OK);
            assert_int_equal(ft_trials_name(t, names[k], &name), FT_OK);
            assert_int_equal(ft_trials_distribution(t, &d, &distribution), FT_OK);
            assert_int_equal(ft_trials_set_param(t, number, name, distribution, p[k]), FT_OK);
        }
        const double worth = p[0] < whole ? at(w, dims, p) : 1e6;
        const double value = luck == 0 ? worth : worth + luck * sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform());
        if (value < seems) seems = value, best = worth;
        assert_int_equal(ft_trials_finish(t, number, FT_COMPLETE, &(double){sign * value}, 1), FT_OK);
    }
    ft_sampler_free(sampler);
    return best;
}

// What is believed is right on average, also of many parameters, with the luck of each trial, and beside disasters.
static void test_calibrated(void **state) {
    static const struct {
        int dims, trials, functions;
        double rate, luck;
        double whole;    // what the first parameter is below, or a trial is a disaster
        int sure, wrong; // ended at least, and of these wrongly at most
    } rows[] = {{2, 24, 24, 6, 0, 2, 3, 0}, {3, 40, 24, 4, 0.05, 2, 3, 0}, {5, 60, 16, 3, 0.1, 2, 1, 1}, {2, 30, 16, 6, 0.1, 0.5, 1, 1}};
    const ft_gp_options options = ft_gp_defaults();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const int functions = rows[r].functions, dims = rows[r].dims;
        double gain = 0, left = 0, enough = 0, were = 0;
        int sure = 0, wrong = 0;
        bits = 7;
        for (int f = 0; f < functions; f++) {
            wave w[WAVES];
            ft_trials t;
            ft_gp_outlook o, again;
            draw(w, dims, rows[r].rate);
            const ft_sampler_kind kind = r == 0 && f % 2 == 0 ? FT_SAMPLER_QUASI_RANDOM : FT_SAMPLER_GP;
            const double best = search(w, dims, kind, (uint64_t)f, rows[r].trials, rows[r].luck, rows[r].whole, f % 3 == 0 ? -1 : 1, &t),
                         true_gain = fmax(best - least(w, dims, fmin(rows[r].whole, 1)), 0);
            assert_int_equal(ft_gp_outlook_of(&t, &options, &o), FT_OK);
            assert_int_equal(ft_gp_outlook_of(&t, &options, &again), FT_OK);
            assert_true(o.known && o.gain == again.gain && o.enough == again.enough); // a function of the trials
            assert_true(o.gain >= 0 && o.tolerance > 0 && o.stop == (o.enough >= FT_OUTLOOK_SURE));
            gain += o.gain, left += true_gain, enough += o.enough, were += true_gain <= o.tolerance;
            sure += o.stop, wrong += o.stop && true_gain > o.tolerance;
            ft_trials_free(&t);
        }
        const bool disasters = rows[r].whole < 1;
        print_message("%d parameters%s: expected %.3f, left %.3f; enough %.2f, were %.0f of %d; stopped %d, wrongly %d\n", dims,
                      disasters ? " and disasters" : "", gain / functions, left / functions, enough, were, functions, sure, wrong);
        assert_true(gain > 0.4 * left && gain < (disasters ? 5 : 2.5) * left);
        assert_true(fabs(enough - were) < 0.25 * functions);
        assert_true(sure >= rows[r].sure && wrong <= rows[r].wrong);
    }
}

static void test_unknown(void **state) {
    const ft_gp_options options = ft_gp_defaults();
    ft_gp_outlook o;
    ft_trials t;
    wave w[WAVES];
    bits = 3;
    draw(w, 2, 6);
    (void)search(w, 2, FT_SAMPLER_RANDOM, 1, FT_OUTLOOK_TRIALS - 1, 0, 2, 1, &t); // too few
    assert_int_equal(ft_gp_outlook_of(&t, &options, &o), FT_OK);
    assert_false(o.known);
    ft_trials_free(&t);
    for (int i = 0; i < WAVES; i++)
        w[i].a = 0; // all alike
    (void)search(w, 2, FT_SAMPLER_RANDOM, 1, 30, 0, 2, 1, &t);
    assert_int_equal(ft_gp_outlook_of(&t, &options, &o), FT_OK);
    assert_false(o.known);
    ft_trials_free(&t);
    assert_int_equal(ft_trials_init(&t, 2, (bool[]){false, true}), FT_OK); // several objectives
    assert_int_equal(ft_gp_outlook_of(&t, &options, &o), FT_OK);
    assert_false(o.known);
    ft_trials_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_calibrated), cmocka_unit_test(test_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
