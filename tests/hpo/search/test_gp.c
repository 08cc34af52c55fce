// The Gaussian process against scikit-learn (tests/vectors/gaussian/make_gp_vectors.py) and 40-digit arithmetic; its gradients
// against differences.
#include "hpo/search/gp/acquire.h"
#include "hpo/search/gp/classifier.h"
#include "hpo/search/gp/improvement.h"
#include "hpo/search/gp/matrix.h"
#include "hpo/search/gp/minimise.h"
#include "hpo/search/gp/targets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };

static void near(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance * fmax(1, fabs(expected)))) fail_msg("%.17g, not %.17g", value, expected);
}

static double number(FILE *in) {
    double value = 0;
    assert_int_equal(fscanf(in, "%lf", &value), 1);
    return value;
}

// A case as it was read.
typedef struct sample {
    ft_arena arena;
    ft_gp_points points;
    ft_gp_pairs pairs;
    ft_gp_scratch scratch;
    bool classes, rough, choice[MOST], *good;
    double *y, theta[MOST];
    int n, axes, questions;
} sample;

static bool read_sample(FILE *in, sample *s) {
    char kind[20];
    *s = (sample){0};
    if (fscanf(in, " case %19s %d %d %d", kind, &s->n, &s->axes, &s->questions) != 4) return false;
    s->classes = strcmp(kind, "classification") == 0;
    s->theta[0] = log(number(in));
    for (int a = 0; a < s->axes; a++)
        s->theta[1 + a] = -2 * log(number(in));
    s->theta[1 + s->axes] = log(number(in));
    const double rough = number(in);
    s->rough = rough > 0;
    s->theta[2 + s->axes] = log(rough);
    assert_int_equal(ft_gp_points_init(&s->points, s->axes, s->choice, s->n, &s->arena), FT_OK);
    s->y = ft_arena_alloc(&s->arena, (size_t)s->n * sizeof *s->y);
    s->good = ft_arena_alloc(&s->arena, (size_t)s->n);
    for (int i = 0; i < s->n; i++) {
        double x[MOST];
        for (int a = 0; a < s->axes; a++)
            x[a] = number(in);
        s->y[i] = number(in);
        s->good[i] = s->y[i] == 1;
        ft_gp_points_add(&s->points, x);
    }
    assert_int_equal(ft_gp_pairs_of(&s->points, &s->arena, &s->pairs), FT_OK);
    assert_int_equal(ft_gp_scratch_init(&s->scratch, s->n, &s->arena), FT_OK);
    return true;
}

static double likelihood(sample *s, const double *theta, double *gradient) {
    double mode[64] = {0};
    if (!s->classes) return ft_gp_log_likelihood(&s->pairs, s->y, theta, &s->scratch, gradient);
    return ft_gp_classifier_evidence(&s->pairs, s->good, 0, theta, &s->scratch, mode, gradient);
}

static FILE *vectors(void) {
    FILE *in = fopen(FT_TEST_VECTORS "/gaussian/gp.txt", "r");
    assert_non_null(in);
    return in;
}

static void equals_scikit_learn(void **state) {
    FILE *in = vectors();
    int cases = 0;
    for (sample s; read_sample(in, &s); cases++) {
        // Its Newton's method ends at a change of 1e-10.
        const double tolerance = s.classes ? 1e-7 : 1e-8;
        double gradient[MOST];
        near(likelihood(&s, s.theta, gradient), number(in), tolerance);
        near(gradient[0], number(in), tolerance);
        for (int a = 0; a < s.axes; a++)
            near(-2 * gradient[1 + a], number(in), tolerance);
        if (!s.classes) near(gradient[1 + s.axes], number(in), tolerance);
        if (s.rough) near(gradient[2 + s.axes], number(in), tolerance);
        ft_gp_model model;
        assert_int_equal(s.classes ? ft_gp_classifier_of(&s.points, s.good, 0, s.theta, &s.arena, &model)
                                   : ft_gp_model_of(&s.points, s.y, s.theta, &s.arena, &model),
                         FT_OK);
        for (int q = 0; q < s.questions; q++) {
            double x[MOST], mean, variance;
            for (int a = 0; a < s.axes; a++)
                x[a] = number(in);
            ft_gp_ask(&model, x, &mean, &variance, NULL, NULL);
            near(mean, number(in), tolerance);
            near(variance, number(in), tolerance);
        }
        ft_arena_free(&s.arena);
    }
    assert_int_equal(cases, 9);
    fclose(in);
}

static void likelihood_gradients(void **state) {
    FILE *in = vectors();
    for (sample s; read_sample(in, &s); ft_arena_free(&s.arena)) {
        double gradient[MOST], other[MOST], theta[MOST];
        likelihood(&s, s.theta, gradient);
        for (int i = 0; i < s.axes + (s.classes ? 1 : s.rough ? 3 : 2); i++) {
            const double h = 1e-5;
            memcpy(theta, s.theta, sizeof theta);
            theta[i] += h;
            const double above = likelihood(&s, theta, other);
            theta[i] -= 2 * h;
            near(gradient[i], (above - likelihood(&s, theta, other)) / (2 * h), 1e-6);
        }
        for (int k = 0; k < s.questions * (s.axes + 2) + s.axes + (s.classes ? 2 : s.rough ? 4 : 3); k++)
            number(in);
    }
    fclose(in);
}

// A column of choices and a parameter that some points lack; values of 40-digit arithmetic.
static void choices(void **state) {
    static const double x[5][3] = {{.1, .2, 0}, {.4, .9, 1}, {.7, .3, 2}, {.9, .8, 0}, {.25, .55, 1}};
    static const double y[5] = {.5, -1.2, .3, 1.1, -.7}, theta_of[5] = {1.3, 6.25, 1.5625, .9, .01};
    static const double asked[2][3] = {{.5, .5, 1}, {.5, .5, 2}};
    static const double expected[2][3] = {{-.656825441193284, .361837893823087, -8.10025775918387},
                                          {-.02746000302706, .397049254187514, -4.684123706135518}};
    const bool choice[3] = {false, false, true};
    ft_arena arena = {0};
    ft_gp_points points;
    ft_gp_pairs pairs;
    ft_gp_scratch scratch;
    ft_gp_model model;
    double theta[6] = {[5] = -INFINITY}, gradient[6], losses[5];
    for (int i = 0; i < 5; i++)
        theta[i] = log(theta_of[i]), losses[i] = -y[i];
    assert_int_equal(ft_gp_points_init(&points, 3, choice, 5, &arena), FT_OK);
    for (int i = 0; i < 5; i++)
        ft_gp_points_add(&points, x[i]);
    assert_int_equal(ft_gp_pairs_of(&points, &arena, &pairs), FT_OK);
    assert_int_equal(ft_gp_scratch_init(&scratch, 5, &arena), FT_OK);
    near(ft_gp_log_likelihood(&pairs, y, theta, &scratch, gradient) + 2.5 * log(2 * 3.14159265358979323846),
         -1.5508566226748, 1e-12);
    assert_int_equal(ft_gp_model_of(&points, losses, theta, &arena, &model), FT_OK);
    double room[6];
    ft_gp_acquisition q = {.objective = model, .best = -1.1, .improves = true, .axes = 3, .scratch = room};
    for (int i = 0; i < 2; i++) {
        double mean, variance;
        ft_gp_ask(&model, asked[i], &mean, &variance, NULL, NULL);
        near(-mean, expected[i][0], 1e-12);
        near(variance, expected[i][1], 1e-12);
        near(ft_gp_acquire(&q, asked[i], NULL), expected[i][2], 1e-10);
    }
    ft_arena_free(&arena);
}

static void lacking(void **state) {
    const bool choice[2] = {false, true};
    const double x[3][2] = {{NAN, NAN}, {.1, 0}, {.9, 0}};
    ft_arena arena = {0};
    ft_gp_points points;
    ft_gp_pairs pairs;
    assert_int_equal(ft_gp_points_init(&points, 2, choice, 3, &arena), FT_OK);
    for (int i = 0; i < 3; i++)
        ft_gp_points_add(&points, x[i]);
    assert_int_equal(ft_gp_pairs_of(&points, &arena, &pairs), FT_OK);
    const double expected[6] = {.41, .41, .64, 1, 1, 0};
    for (int p = 0; p < 6; p++)
        near(pairs.squared[p], expected[p], 1e-15);
    ft_arena_free(&arena);
}

static void logarithms(void **state) {
    static const double h[][2] = {{3, 1.0987396653277078},    {0, -.9189385332046727},   {-1, -2.485121025712641},
                                  {-2, -4.768783523917114},   {-5, -16.74430116266099},  {-10, -55.55312203612236},
                                  {-25, -319.861463581496},   {-38, -730.1961834021137}, {-1000, -500014.7344520912},
                                  {-1e5, -5000000023.9447895}};
    double slope;
    for (size_t i = 0; i < sizeof h / sizeof *h; i++)
        near(ft_log_improvement(h[i][0], &slope), h[i][1], 1e-14);
    ft_log_improvement(-5, &slope);
    near(slope, 5.361816241288089, 1e-13);
    near(ft_log_improvement(-3 + 1e-9, &slope), ft_log_improvement(-3 - 1e-9, &slope), 2e-8);
    for (double z = -6; z < 4; z += 0.37) {
        double a, b, unused;
        const double up = ft_log_improvement(z + 1e-5, &unused), down = ft_log_improvement(z - 1e-5, &unused);
        ft_log_improvement(z, &a);
        near(a, (up - down) / 2e-5, 1e-7);
        const double more = ft_log_chance(z + 1e-5, &unused), less = ft_log_chance(z - 1e-5, &unused);
        ft_log_chance(z, &b);
        near(b, (more - less) / 2e-5, 1e-7);
    }
}

// Everything at once: an objective, a limit, and trials that failed.
static void acquisition_gradient(void **state) {
    FILE *in = vectors();
    sample s, c;
    ft_gp_model limit;
    double room[MOST], gradient[MOST], unused[MOST];
    assert_true(read_sample(in, &s)); // 5 points of one axis
    for (int k = 0; k < s.questions * 3 + 4; k++)
        number(in);
    ft_arena_free(&s.arena);
    assert_true(read_sample(in, &s)); // 20 of three
    for (int k = 0; k < s.questions * 5 + 6; k++)
        number(in);
    for (;;) {
        assert_true(read_sample(in, &c));
        if (c.classes && c.axes == 3) break;
        for (int k = 0; k < c.questions * (c.axes + 2) + c.axes + (c.classes ? 2 : 3); k++)
            number(in);
        ft_arena_free(&c.arena);
    }
    fclose(in);
    ft_gp_acquisition q = {.best = -0.5,
                           .improves = true,
                           .doubts = true,
                           .caution = 2.5,
                           .limit = &limit,
                           .limits = 1,
                           .axes = 3,
                           .scratch = room};
    assert_int_equal(ft_gp_model_of(&s.points, s.y, s.theta, &s.arena, &q.objective), FT_OK);
    s.theta[2 + s.axes] = log(0.3); // one smooth, one rough
    assert_int_equal(ft_gp_model_of(&s.points, s.y, s.theta, &s.arena, &limit), FT_OK);
    assert_int_equal(ft_gp_classifier_of(&c.points, c.good, 0.5, c.theta, &c.arena, &q.odds), FT_OK);
    const double at[2][3] = {{.31, .52, .77}, {.9, .1, .4}};
    for (int k = 0; k < 2; k++) {
        ft_gp_acquire(&q, at[k], gradient);
        for (int a = 0; a < 3; a++) {
            double up[3], down[3];
            memcpy(up, at[k], sizeof up);
            memcpy(down, at[k], sizeof down);
            up[a] += 1e-6;
            down[a] -= 1e-6;
            near(gradient[a], (ft_gp_acquire(&q, up, unused) - ft_gp_acquire(&q, down, unused)) / 2e-6, 1e-5);
        }
    }
    ft_arena_free(&s.arena);
    ft_arena_free(&c.arena);
}

static double valley(void *context, const double *x, double *gradient) {
    const double a = 1 - x[0], b = x[1] - x[0] * x[0];
    gradient[0] = -2 * a - 400 * x[0] * b;
    gradient[1] = 200 * b;
    return a * a + 100 * b * b;
}

static void minima(void **state) {
    const double low[2] = {-2, -2}, high[2] = {2, 2}, narrow[2] = {0.5, 2};
    double x[2] = {-1.2, 1}, value;
    ft_minimise m = {.function = valley, .low = low, .high = high, .n = 2, .steps = 200, .tolerance = 1e-9};
    assert_int_equal(ft_minimise_run(&m, x, &value), FT_OK);
    near(x[0], 1, 1e-6);
    near(x[1], 1, 1e-6);
    m.high = narrow; // the least value lies on the bound
    x[0] = -1.2, x[1] = 1;
    assert_int_equal(ft_minimise_run(&m, x, &value), FT_OK);
    near(x[0], 0.5, 1e-12);
    near(x[1], 0.25, 1e-6);
}

static void matrices(void **state) {
    enum { N = 7 };
    double a[N * N], r[N * N], inverse[N * N], scratch[N * N], x[N], product = 1;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            a[i * N + j] = exp(-abs(i - j) / 3.0) + (i == j);
    memcpy(r, a, sizeof a);
    assert_true(ft_cholesky(r, N));
    ft_cholesky_inverse(r, N, scratch, inverse);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += a[i * N + k] * inverse[k * N + j];
            near(sum, i == j, 1e-14);
        }
        x[i] = a[i * N + 2];
        product *= r[i * N + i];
    }
    near(ft_cholesky_half_log_det(r, N), log(product), 1e-14);
    ft_cholesky_solve(r, N, x);
    for (int i = 0; i < N; i++)
        near(x[i], i == 2, 1e-14);
    r[0] = -1;
    assert_false(ft_cholesky(r, N));
}

// Whatever the losses are, what is learned from them is finite, of mean 0 and variance 1, and in their order.
static void warps(void **state) {
    static const double cases[][6] = {
        {1, 2, 3, 4, 5, 6}, {1, 1, 1, 1, 1, 1}, {0, 1e300, 2, -1e300, 5, 6}, {3, 3, 3, 3, 1, 9}, {1, 1, 1, 1, 1, 5},
        // penalties beside values, values too small to be squared, and a range that no double holds
        {1, 2, 3, 1e300, 6, 1.7e308}, {1e-310, 3e-310, 2e-310, 5e-310, 4e-310, 6e-310}, {-1.7e308, 1.7e308, 0, 1e308, -1e308, 1}};
    static const double middle[] = {[5] = 4, [6] = 3.5e-310, [7] = 0.5};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int warp = FT_GP_PLAIN; warp <= FT_GP_CUT; warp++) {
            ft_arena arena = {0};
            double y[6], mean = 0, square = 0;
            assert_int_equal(ft_gp_warp_losses((ft_gp_warp)warp, cases[k], 6, &arena, y), FT_OK);
            for (int i = 0; i < 6; i++)
                mean += y[i] / 6, square += y[i] * y[i] / 6;
            near(mean, 0, 1e-12);
            near(square, k == 1 ? 0 : 1, 1e-12);
            for (int i = 0; i < 6; i++)
                for (int j = 0; j < 6; j++)
                    if (cases[k][i] < cases[k][j]) assert_true(y[i] < y[j] || (y[i] == y[j] && (k < 5 || warp == FT_GP_PLAIN || cases[k][j] > middle[k])));
            ft_arena_free(&arena);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_scikit_learn),
        cmocka_unit_test(likelihood_gradients),
        cmocka_unit_test(choices),
        cmocka_unit_test(lacking),
        cmocka_unit_test(logarithms),
        cmocka_unit_test(acquisition_gradient),
        cmocka_unit_test(minima),
        cmocka_unit_test(matrices),
        cmocka_unit_test(warps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
