// Scales from a history: what is given back is likelihood times the prior that fit.h states, at a place where no step
// gains.
#include "hpo/search/gp/fit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 24, AXES = 3, SIZE = AXES + 3 };

typedef struct sample {
    const char *name;
    bool lacks[AXES]; // every third point lacks the axis
    ft_arena arena;
    ft_gp_points points;
    ft_gp_pairs pairs;
    ft_gp_scratch scratch;
    double y[POINTS];
} sample;

static double frac(double x) { return x - floor(x); }

// A slope along one number, a choice that matters, and a number that says nothing.
static void make(sample *s) {
    static const bool choice[AXES] = {false, true, false};
    double mean = 0, square = 0;
    assert_int_equal(ft_gp_points_init(&s->points, AXES, choice, POINTS, &s->arena), FT_OK);
    for (int i = 0; i < POINTS; i++) {
        double x[AXES] = {frac(0.618 * i), i % 3, frac(0.414 * i)};
        s->y[i] = 4 * (x[0] - 0.3) * (x[0] - 0.3) + 0.3 * (x[1] == 2) + 0.02 * sin(37.0 * i);
        for (int a = 0; a < AXES; a++)
            if (s->lacks[a] && i % 3 == 0) x[a] = NAN;
        ft_gp_points_add(&s->points, x);
        mean += s->y[i] / POINTS;
    }
    for (int i = 0; i < POINTS; i++)
        square += (s->y[i] - mean) * (s->y[i] - mean) / POINTS;
    for (int i = 0; i < POINTS; i++)
        s->y[i] = (s->y[i] - mean) / sqrt(square);
    assert_int_equal(ft_gp_pairs_of(&s->points, &s->arena, &s->pairs), FT_OK);
    assert_int_equal(ft_gp_scratch_init(&s->scratch, POINTS, &s->arena), FT_OK);
}

static double evidence_of(sample *s, const double *theta, bool may_be_rough) {
    double unused[SIZE], sum = ft_gp_log_likelihood(&s->pairs, s->y, theta, &s->scratch, unused);
    const double variance = exp(theta[0]), noise = exp(theta[1 + AXES]), rough = exp(theta[2 + AXES]);
    for (int a = 0; a < AXES; a++) {
        const double weight = exp(theta[1 + a]), length = -0.5 * theta[1 + a];
        const double z = (length - sqrt(2.0) - 0.5 * log(AXES)) / sqrt(3.0);
        sum += s->lacks[a] ? -0.5 * z * z : -0.1 / weight - (may_be_rough ? 0.01 * AXES : 0.1) * weight;
    }
    return sum + log(variance) - variance + 0.3 * log(noise) - 30 * noise - AXES * AXES * rough;
}

static void most_likely(void **state) {
    sample cases[] = {{.name = "all have all"},
                      {.name = "some lack a number", .lacks = {[2] = true}},
                      {.name = "some lack a choice", .lacks = {[1] = true}},
                      {.name = "some lack two", .lacks = {[0] = true, [1] = true}}};
    for (size_t c = 0; c < 2 * (sizeof cases / sizeof *cases); c++) {
        sample *s = &cases[c / 2];
        const bool rough = c % 2 == 1;
        double theta[SIZE], other[SIZE], evidence;
        make(s);
        assert_int_equal(ft_gp_fit(&s->points, s->y, rough, &s->arena, theta, &evidence), FT_OK);
        if (!(fabs(evidence - evidence_of(s, theta, rough)) <= 1e-9))
            fail_msg("%s: %.17g, not %.17g", s->name, evidence, evidence_of(s, theta, rough));
        assert_true(rough || exp(theta[SIZE - 1]) == 0);
        for (int k = 0; k < 2 * (rough ? SIZE : SIZE - 1); k++) {
            memcpy(other, theta, sizeof other);
            other[k / 2] += k % 2 == 0 ? 0.3 : -0.3;
            if (!(evidence_of(s, other, rough) < evidence + 0.02)) fail_msg("%s: a step along %d gains", s->name, k / 2);
        }
        ft_arena_free(&s->arena);
    }
}

// Ripples without noise, at points most of which are near one place, as a search has them: what is no noise is not taken for it.
static void near_points_differ(void **state) {
    enum { N = 60, WIDE = 25 };
    double y[N], mean = 0, square = 0, noise[2];
    ft_arena arena = {0};
    ft_gp_points points;
    assert_int_equal(ft_gp_points_init(&points, 2, (bool[]){false, false}, N, &arena), FT_OK);
    for (int i = 0; i < N; i++) {
        const double width = i < WIDE ? 1 : 0.1, x[2] = {0.5 + width * (frac(0.7549 * i) - 0.5), 0.5 + width * (frac(0.5698 * i) - 0.5)};
        y[i] = 20 * (x[0] - 0.4) * (x[0] - 0.4) + 20 * (x[1] - 0.6) * (x[1] - 0.6) - 0.6 * (cos(60 * x[0]) + cos(60 * x[1]));
        ft_gp_points_add(&points, x);
        mean += y[i] / N;
    }
    for (int i = 0; i < N; i++)
        square += (y[i] - mean) * (y[i] - mean) / N;
    for (int i = 0; i < N; i++)
        y[i] = (y[i] - mean) / sqrt(square);
    for (int rough = 0; rough < 2; rough++) {
        double theta[5];
        assert_int_equal(ft_gp_fit(&points, y, rough == 1, &arena, theta, NULL), FT_OK);
        noise[rough] = exp(theta[3]);
    }
    print_message("noise %.2g, where it may be rough %.2g\n", noise[0], noise[1]);
    assert_true(noise[1] < 0.003);
    ft_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(most_likely), cmocka_unit_test(near_points_differ)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
