// The Parzen estimator against itself: one by one equals all at once, the fast density equals the plain one, both to
// the bit; what is left out stays below 1e-13; draws follow the density.
#include "hpo/search/history/random_stream.h"
#include "hpo/search/tpe/parzen_fast.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIMENSIONS = 10, MOST = 1500 };

static ft_arena arena;
static ft_distribution all[DIMENSIONS];

static int make_distributions(void **state) {
    ft_choice choices[5];
    for (int i = 0; i < 5; i++)
        choices[i] = (ft_choice){.kind = FT_CHOICE_INT, .integer = i};
    bool ok = ft_distribution_float("a", -5, 10, false, 0, &all[0]) == FT_OK &&
              ft_distribution_float("b", 1e-6, 1e-2, true, 0, &all[1]) == FT_OK &&
              ft_distribution_float("c", 0, 1, false, 0.1, &all[2]) == FT_OK &&
              ft_distribution_int("d", 1, 64, false, 1, &all[3]) == FT_OK &&
              ft_distribution_int("e", 1, 100000, true, 1, &all[4]) == FT_OK &&
              ft_distribution_int("f", 128, 512, false, 32, &all[5]) == FT_OK &&
              ft_distribution_int("g", -1000000, 1000000, false, 1, &all[6]) == FT_OK &&
              ft_distribution_categorical("h", &arena, choices, 2, &all[7]) == FT_OK &&
              ft_distribution_categorical("i", &arena, choices, 5, &all[8]) == FT_OK &&
              ft_distribution_float("j", 1e9, 1e9 + 1e-3, false, 0, &all[9]) == FT_OK;
    return ok ? 0 : -1;
}

static int free_distributions(void **state) {
    ft_arena_free(&arena);
    return 0;
}

static double uniform(ft_random_stream *s) { return ft_random_double(s); }

// A legal value; with `wild` now and then one outside the range (of an earlier range of the parameter).
static double value_of(const ft_distribution *d, ft_random_stream *s, double centre, double spread, bool wild) {
    if (d->kind == FT_CATEGORICAL) return floor(uniform(s) * d->choice_count);
    double low = d->log ? log(d->low) : d->low, high = d->log ? log(d->high) : d->high;
    double u = centre + spread * (uniform(s) - 0.5);
    u = u < 0 ? 0 : u > 1 ? 1 : u;
    if (wild && uniform(s) < 0.02) u = (uniform(s) < 0.5 ? -1 : 1) * pow(10, uniform(s) * (d->log ? 1 : 4));
    double x = low + u * (high - low);
    if (d->log) x = exp(x);
    return d->step != 0 ? d->low + nearbyint((x - d->low) / d->step) * d->step : x;
}

static void same_bits(const ft_parzen *a, const ft_parzen *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->parts, b->parts);
    size_t n = (size_t)a->count + 1;
    assert_memory_equal(a->weight, b->weight, n * sizeof *a->weight);
    assert_memory_equal(a->log_weight, b->log_weight, n * sizeof *a->weight);
    for (int i = 0; i < a->dimensions; i++) {
        const ft_parzen_dimension *d = &a->dimension[i], *e = &b->dimension[i];
        assert_memory_equal(d->mu, e->mu, n * sizeof *d->mu);
        assert_true(d->log_hit == e->log_hit && d->log_miss == e->log_miss && d->log_prior == e->log_prior);
        if (d->distribution->kind == FT_CATEGORICAL) continue;
        assert_memory_equal(d->sigma, e->sigma, n * sizeof *d->sigma);
        assert_memory_equal(d->norm, e->norm, n * sizeof *d->norm);
        assert_memory_equal(d->slack, e->slack, n * sizeof *d->slack);
        assert_memory_equal(d->sorted, e->sorted, (n - 1) * sizeof *d->sorted);
    }
}

// What the fast density must equal, and the sum of everything beside it.
static void same_density(const ft_parzen *p, ft_parzen_fast *fast, ft_parzen *for_fast, const double *points,
                         int count) {
    double out[32], scratch[MOST + 1], *terms = malloc((MOST + 1) * sizeof *terms);
    assert_non_null(terms);
    assert_int_equal(ft_parzen_fast_log_density(fast, for_fast, points, count, out), FT_OK);
    for (int c = 0; c < count; c++) {
        const double *x = points + c * p->dimensions;
        double plain = ft_parzen_log_density(p, x, scratch);
        assert_memory_equal(&plain, &out[c], sizeof plain);
        memcpy(terms, p->log_weight, (size_t)(p->count + 1) * sizeof *terms);
        for (int i = 0; i < p->dimensions; i++) {
            const ft_parzen_dimension *d = &p->dimension[i];
            ft_parzen_cell cell = ft_parzen_cell_of(d, x[i]);
            for (int k = 0; k <= p->count; k++)
                terms[k] += d->distribution->kind == FT_CATEGORICAL ? ft_parzen_choice(d, k, p->count, x[i])
                            : d->distribution->step == 0            ? ft_parzen_continuous(d, k, cell.left)
                                                                    : ft_parzen_discrete(d, k, cell);
        }
        double most = -INFINITY, sum = 0;
        for (int k = 0; k <= p->count; k++)
            most = fmax(most, terms[k]);
        for (int k = 0; k <= p->count; k++)
            sum += exp(terms[k] - most);
        assert_true(isfinite(plain));
        assert_true(fabs(log(sum) + most - plain) <= 1e-13 * fmax(1, fabs(plain)));
    }
    free(terms);
}

static void history(int dimensions, const ft_distribution *first, int steps, double spread, bool wild, uint64_t seed) {
    const ft_distribution *d[DIMENSIONS];
    for (int i = 0; i < dimensions; i++)
        d[i] = &first[i];
    ft_random_stream s = ft_random_stream_of(seed, dimensions, FT_DRAW_UNIFORM, "test");
    ft_parzen step_by_step, built;
    ft_parzen_fast fast = {0};
    double *observations = malloc((size_t)MOST * (size_t)dimensions * sizeof *observations);
    assert_non_null(observations);
    int n = 0;
    size_t width = (size_t)dimensions;
    assert_int_equal(ft_parzen_init(&step_by_step, d, dimensions, false), FT_OK);
    for (int step = 0; step < steps; step++) {
        if (n > 3 && uniform(&s) < 0.15) { // a trial changes sides
            int at = (int)(uniform(&s) * n);
            ft_parzen_remove(&step_by_step, at);
            memmove(observations + (size_t)at * width, observations + ((size_t)at + 1) * width,
                    (size_t)(n - at - 1) * width * sizeof *observations);
            n--;
        }
        int at = uniform(&s) < 0.8 ? n : (int)(uniform(&s) * (n + 1));
        memmove(observations + ((size_t)at + 1) * width, observations + (size_t)at * width,
                (size_t)(n - at) * width * sizeof *observations);
        for (int i = 0; i < dimensions; i++)
            observations[(size_t)at * width + (size_t)i] = value_of(d[i], &s, 0.3, spread, wild);
        assert_int_equal(ft_parzen_insert(&step_by_step, at, observations + (size_t)at * width), FT_OK);
        n++;
        if (uniform(&s) < 0.3) continue; // several changes between two looks
        ft_parzen_refresh(&step_by_step);
        if (n > 120 && step % 97 != 0) continue;
        assert_int_equal(ft_parzen_init(&built, d, dimensions, false), FT_OK);
        assert_int_equal(ft_parzen_build(&built, observations, n), FT_OK);
        same_bits(&step_by_step, &built);
        double points[24 * DIMENSIONS];
        for (int c = 0; c < 24; c++) {
            int kernel = ft_parzen_pick(&built, built.weight, uniform(&s));
            for (int i = 0; i < dimensions; i++) {
                double *x = &points[c * dimensions + i];
                *x = c % 3 != 0 ? ft_parzen_draw(&built, i, kernel, uniform(&s)) : value_of(d[i], &s, 0.5, 1, false);
                if (c == 7) *x = points[i]; // a point twice
                assert_true(ft_distribution_contains(d[i], *x));
            }
        }
        same_density(&built, &fast, &step_by_step, points, 24);
        ft_parzen_free(&built);
    }
    ft_parzen_free(&step_by_step);
    ft_parzen_fast_free(&fast);
    free(observations);
}

static void each_parameter(void **state) {
    for (int i = 0; i < DIMENSIONS; i++)
        history(1, &all[i], 400, 0.6, false, 1);
}
static void all_jointly(void **state) { history(DIMENSIONS - 1, all, 700, 1.4, false, 2); }
static void converged(void **state) { history(DIMENSIONS - 1, all, 700, 0.01, false, 3); }
static void many_equal(void **state) { history(4, all + 2, 1200, 0.05, false, 4); }
static void outside_the_range(void **state) {
    history(DIMENSIONS - 1, all, 500, 0.8, true, 5);
    for (int i = 0; i < DIMENSIONS - 1; i++)
        history(1, &all[i], 200, 0.6, true, 6);
}

// An observation so far away that its kernel has no mass in the range counts for nothing instead of making NaN.
static void lost_observation(void **state) {
    const ft_distribution *d = &all[9];
    ft_parzen p;
    double observations[3] = {1e9 + 1e-4, 1e300, 1e9 + 5e-4}, scratch[4], x = 1e9 + 2e-4;
    assert_int_equal(ft_parzen_init(&p, &d, 1, false), FT_OK);
    assert_int_equal(ft_parzen_build(&p, observations, 3), FT_OK);
    assert_true(isfinite(ft_parzen_log_density(&p, &x, scratch)));
    ft_parzen_fast fast = {0};
    double out;
    assert_int_equal(ft_parzen_fast_log_density(&fast, &p, &x, 1, &out), FT_OK);
    assert_true(out == ft_parzen_log_density(&p, &x, scratch));
    ft_parzen_fast_free(&fast);
    ft_parzen_free(&p);
}

// Discrete densities sum to 1; continuous ones integrate to 1.
static void is_a_density(void **state) {
    ft_random_stream s = ft_random_stream_of(9, 0, FT_DRAW_UNIFORM, "density");
    for (int i = 0; i < DIMENSIONS - 1; i++) {
        const ft_distribution *d = &all[i];
        if (i == 4 || i == 6) continue; // too many values to sum
        ft_parzen p;
        double observations[30], scratch[31], sum = 0;
        for (int k = 0; k < 30; k++)
            observations[k] = value_of(d, &s, 0.4, 0.5, false);
        assert_int_equal(ft_parzen_init(&p, &d, 1, false), FT_OK);
        assert_int_equal(ft_parzen_build(&p, observations, 30), FT_OK);
        double size = ft_distribution_size(d), low = p.dimension[0].low, high = p.dimension[0].high;
        int cells = isinf(size) ? 20000 : (int)size;
        for (int c = 0; c < cells; c++) {
            double t = low + (c + 0.5) / cells * (high - low);
            double x = d->kind == FT_CATEGORICAL ? c : d->step != 0 ? d->low + c * d->step : d->log ? exp(t) : t;
            sum += exp(ft_parzen_log_density(&p, &x, scratch)) * (isinf(size) ? (high - low) / cells : 1);
        }
        assert_true(fabs(sum - 1) < 1e-5);
        ft_parzen_free(&p);
    }
}

// Draws fall below a bound as often as the density says.
static void draws_follow(void **state) {
    ft_random_stream s = ft_random_stream_of(11, 0, FT_DRAW_UNIFORM, "draws");
    enum { DRAWS = 40000, BINS = 8 };
    for (int i = 0; i < 4; i++) {
        const ft_distribution *d = &all[i];
        ft_parzen p;
        double observations[12], scratch[13], expected[BINS] = {0}, low, high;
        int found[BINS] = {0};
        for (int k = 0; k < 12; k++)
            observations[k] = value_of(d, &s, 0.35, 0.6, false);
        assert_int_equal(ft_parzen_init(&p, &d, 1, false), FT_OK);
        assert_int_equal(ft_parzen_build(&p, observations, 12), FT_OK);
        low = p.dimension[0].low;
        high = p.dimension[0].high;
        double size = ft_distribution_size(d);
        int cells = isinf(size) ? 4000 : (int)size;
        for (int c = 0; c < cells; c++) {
            double t = low + (c + 0.5) / cells * (high - low);
            double x = d->step != 0 ? d->low + c * d->step : d->log ? exp(t) : t;
            double mass = exp(ft_parzen_log_density(&p, &x, scratch)) * (isinf(size) ? (high - low) / cells : 1);
            expected[c * BINS / cells] += mass * DRAWS;
        }
        for (int n = 0; n < DRAWS; n++) {
            double x = ft_parzen_draw(&p, 0, ft_parzen_pick(&p, p.weight, uniform(&s)), uniform(&s));
            double part =
                d->step != 0 ? nearbyint((x - d->low) / d->step) / cells : ((d->log ? log(x) : x) - low) / (high - low);
            int bin = (int)(part * BINS);
            found[bin < BINS ? bin : BINS - 1]++;
        }
        double chi2 = 0;
        for (int b = 0; b < BINS; b++)
            chi2 += (found[b] - expected[b]) * (found[b] - expected[b]) / expected[b];
        assert_true(chi2 < 35); // 7 degrees of freedom: 1e-5
        ft_parzen_free(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_parameter), cmocka_unit_test(all_jointly),       cmocka_unit_test(converged),
        cmocka_unit_test(many_equal),     cmocka_unit_test(outside_the_range), cmocka_unit_test(lost_observation),
        cmocka_unit_test(is_a_density),   cmocka_unit_test(draws_follow),
    };
    return cmocka_run_group_tests(tests, make_distributions, free_distributions);
}
