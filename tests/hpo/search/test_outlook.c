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

typedef struct wave {
    double a, u, v, b;
} wave;
enum { WAVES = 6, GRID = 80 };

static uint64_t bits;
static double uniform(void) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    return (double)(bits >> 11) * 0x1p-53;
}

static double at(const wave *w, double x, double y) {
    double sum = 0;
    for (int i = 0; i < WAVES; i++)
        sum += w[i].a * cos(w[i].u * x + w[i].v * y + w[i].b);
    return sum;
}

static void draw(wave *w) {
    for (int i = 0; i < WAVES; i++)
        w[i] = (wave){uniform(), 6 * uniform(), 6 * uniform(), 6.28 * uniform()};
}

static double least(const wave *w) {
    double best = INFINITY;
    for (int i = 0; i <= GRID; i++)
        for (int j = 0; j <= GRID; j++)
            best = fmin(best, at(w, i / (double)GRID, j / (double)GRID));
    return best;
}

// Trials of a sampler; the best value.
static double search(const wave *w, ft_sampler_kind kind, uint64_t seed, int trials, double sign, ft_trials *t) {
    ft_sampler_options options = ft_sampler_defaults();
    ft_sampler *sampler;
    ft_distribution d;
    double best = INFINITY;
    options.kind = kind;
    options.seed = seed;
    assert_int_equal(ft_distribution_float("x", 0, 1, false, 0, &d), FT_OK);
    assert_int_equal(ft_trials_init(t, 1, (bool[]){sign < 0}), FT_OK);
    assert_int_equal(ft_sampler_new(&options, t, &sampler), FT_OK);
    for (int n = 0; n < trials; n++) {
        int64_t number;
        double p[2];
        assert_int_equal(ft_trials_append(t, FT_RUNNING, &number), FT_OK);
        for (int k = 0; k < 2; k++) {
            int name, distribution;
            assert_int_equal(ft_sampler_suggest(sampler, number, k == 0 ? "x" : "y", &d, &p[k]), FT_OK);
            assert_int_equal(ft_trials_name(t, k == 0 ? "x" : "y", &name), FT_OK);
            assert_int_equal(ft_trials_distribution(t, &d, &distribution), FT_OK);
            assert_int_equal(ft_trials_set_param(t, number, name, distribution, p[k]), FT_OK);
        }
        const double value = at(w, p[0], p[1]);
        best = fmin(best, value);
        assert_int_equal(ft_trials_finish(t, number, FT_COMPLETE, &(double){sign * value}, 1), FT_OK);
    }
    ft_sampler_free(sampler);
    return best;
}

static void test_calibrated(void **state) {
    enum { FUNCTIONS = 24 };
    const ft_gp_options options = ft_gp_defaults();
    double gain = 0, left = 0, enough = 0, were = 0;
    int sure = 0, wrong = 0;
    bits = 7;
    for (int f = 0; f < FUNCTIONS; f++) {
        wave w[WAVES];
        ft_trials t;
        ft_gp_outlook o, again;
        draw(w);
        const double best = search(w, f % 2 == 0 ? FT_SAMPLER_QUASI_RANDOM : FT_SAMPLER_GP, (uint64_t)f, 24,
                                   f % 3 == 0 ? -1 : 1, &t),
                     true_gain = best - least(w);
        assert_int_equal(ft_gp_outlook_of(&t, &options, &o), FT_OK);
        assert_int_equal(ft_gp_outlook_of(&t, &options, &again), FT_OK);
        assert_true(o.known && o.gain == again.gain && o.enough == again.enough); // a function of the trials
        assert_true(o.gain >= 0 && o.tolerance > 0 && o.stop == (o.enough >= FT_OUTLOOK_SURE));
        gain += o.gain, left += fmax(true_gain, 0), enough += o.enough, were += true_gain <= o.tolerance;
        sure += o.stop, wrong += o.stop && true_gain > 2 * o.tolerance;
        ft_trials_free(&t);
    }
    print_message("expected %.3f, left %.3f; enough %.2f, were %.0f of %d; stopped %d, wrongly %d\n", gain / FUNCTIONS,
                  left / FUNCTIONS, enough, were, FUNCTIONS, sure, wrong);
    assert_true(gain > 0.4 * left && gain < 2.5 * left);
    assert_true(fabs(enough - were) < 0.25 * FUNCTIONS);
    assert_true(sure >= 3 && wrong <= 1);
}

static void test_unknown(void **state) {
    const ft_gp_options options = ft_gp_defaults();
    ft_gp_outlook o;
    ft_trials t;
    wave w[WAVES];
    bits = 3;
    draw(w);
    (void)search(w, FT_SAMPLER_RANDOM, 1, FT_OUTLOOK_TRIALS - 1, 1, &t); // too few
    assert_int_equal(ft_gp_outlook_of(&t, &options, &o), FT_OK);
    assert_false(o.known);
    ft_trials_free(&t);
    for (int i = 0; i < WAVES; i++)
        w[i].a = 0; // all alike
    (void)search(w, FT_SAMPLER_RANDOM, 1, 30, 1, &t);
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
