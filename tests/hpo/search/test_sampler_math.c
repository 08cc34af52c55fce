// The pieces under the samplers: the normal distribution, random streams, non-dominated ranks and hypervolume against
// brute force.
#include "hpo/search/history/normal.h"
#include "hpo/search/history/pareto.h"
#include "hpo/search/history/random_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void near(double value, double expected, double tolerance) {
    if (!(fabs(value - expected) <= tolerance * fmax(1, fabs(expected)))) fail_msg("%.17g, not %.17g", value, expected);
}

// Values of scipy.special.log_ndtr.
static void log_cdf(void **state) {
    near(ft_log_normal_cdf(0), -0.69314718055994529, 1e-15);
    near(ft_log_normal_cdf(-1), -1.8410216450092636, 1e-14);
    near(ft_log_normal_cdf(-5), -15.064998393988726, 1e-14);
    near(ft_log_normal_cdf(-19.9), -201.91716770733265, 1e-14);
    near(ft_log_normal_cdf(-30), -454.32124395634446, 1e-14);
    near(ft_log_normal_cdf(-1e4), -50000010.12927892, 1e-14);
    assert_true(fabs(ft_log_normal_cdf(7) / -1.2798125438858352e-12 - 1) < 1e-10);
    assert_true(ft_log_normal_cdf(40) == 0);
    double below = ft_log_normal_cdf(-20 - 1e-9), above = ft_log_normal_cdf(-20 + 1e-9); // the formulas meet
    near(below, above, 1e-9);
}

static void mass(void **state) {
    near(ft_log_normal_mass(-1, 1), log(0.68268949213708585), 1e-14);
    near(ft_log_normal_mass(-8, -7), ft_log_normal_mass(7, 8), 1e-14);
    near(exp(ft_log_normal_mass(1, 2)), 0.13590512198327787, 1e-13);
    near(ft_log_normal_mass(40, 41), ft_log_normal_cdf(-40), 1e-14); // the rest lies beyond any double
    assert_true(ft_log_normal_mass(-1e-17, 1e-17) == -INFINITY);
}

static void quantile_inverts(void **state) {
    const double bounds[][2] = {{-1, 1},    {-3, 0.5},   {0.2, 0.3}, {-9, -8}, {5, 40},
                                {-40, -30}, {-100, 100}, {0, 1e-3},  {30, 31}};
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        double a = bounds[i][0], b = bounds[i][1], before = a;
        assert_true(ft_truncated_normal_quantile(0, a, b) >= a &&
                    ft_truncated_normal_quantile(0, a, b) <= a + 1e-3 * (b - a));
        for (double u = 0.001; u < 1; u += 0.0713) {
            double z = ft_truncated_normal_quantile(u, a, b);
            assert_true(z >= before && z <= b);
            near(exp(ft_log_normal_mass(a, z) - ft_log_normal_mass(a, b)), u, 1e-7);
            before = z;
        }
        double last = ft_truncated_normal_quantile(1 - 0x1p-53, a, b);
        assert_true(last >= before && last <= b);
    }
}

static void streams(void **state) {
    ft_random_stream a = ft_random_stream_of(1, 2, FT_DRAW_UNIFORM, "rate"), again = a;
    const ft_random_stream others[] = {
        ft_random_stream_of(2, 2, FT_DRAW_UNIFORM, "rate"),
        ft_random_stream_of(1, 3, FT_DRAW_UNIFORM, "rate"),
        ft_random_stream_of(1, 2, FT_DRAW_KERNEL, "rate"),
        ft_random_stream_of(1, 2, FT_DRAW_UNIFORM, "rates"),
    };
    enum { DRAWS = 20000 };
    double sum = 0, squares = 0, correlation[4] = {0}, lag = 0, last = 0.5;
    ft_random_stream other[4];
    memcpy(other, others, sizeof other);
    int bins[16] = {0};
    for (int i = 0; i < DRAWS; i++) {
        double u = ft_random_double(&a);
        assert_true(u >= 0 && u < 1 && u == ft_random_double(&again));
        sum += u - 0.5;
        squares += (u - 0.5) * (u - 0.5);
        lag += (u - 0.5) * (last - 0.5);
        last = u;
        bins[(int)(u * 16)]++;
        for (int k = 0; k < 4; k++)
            correlation[k] += (u - 0.5) * (ft_random_double(&other[k]) - 0.5);
    }
    // Five standard deviations: 1/sqrt(12 n) for the mean, 1/12 of 1/sqrt(n) for products.
    assert_true(fabs(sum / DRAWS) < 5 / sqrt(12.0 * DRAWS));
    assert_true(fabs(squares / DRAWS - 1.0 / 12) < 5 * sqrt(1.0 / 180 / DRAWS));
    assert_true(fabs(lag / DRAWS) < 5.0 / 12 / sqrt(DRAWS));
    for (int k = 0; k < 4; k++)
        assert_true(fabs(correlation[k] / DRAWS) < 5.0 / 12 / sqrt(DRAWS));
    for (int b = 0; b < 16; b++)
        assert_true(abs(bins[b] - DRAWS / 16) < 5 * sqrt(DRAWS / 16.0));
    int counts[7] = {0};
    for (int i = 0; i < 7000; i++)
        counts[ft_random_below(&a, 7)]++;
    for (int i = 0; i < 7; i++)
        assert_true(abs(counts[i] - 1000) < 160);
}

// Stays as it is: studies of today must repeat tomorrow.
static void streams_are_fixed(void **state) {
    ft_random_stream s = ft_random_stream_of(42, 7, FT_DRAW_CANDIDATE, "train.learning_rate");
    assert_true(ft_random_bits(&s) == 0x10587095BE61AAE6u);
    assert_true(ft_random_bits(&s) == 0xF359D4EFA3ED8C6Au);
}

static double grid_volume(const double *points, int n, int objectives, const double *reference) {
    // Coordinates are whole numbers: count the unit cells that some point covers.
    int cells = 1, covered = 0, side = (int)reference[0];
    for (int o = 0; o < objectives; o++)
        cells *= side;
    for (int c = 0; c < cells; c++) {
        bool inside = false;
        for (int i = 0; i < n && !inside; i++) {
            int rest = c;
            inside = true;
            for (int o = 0; o < objectives; o++, rest /= side)
                inside = inside && points[i * objectives + o] <= rest % side;
        }
        covered += inside;
    }
    return covered;
}

static void hypervolume(void **state) {
    ft_random_stream s = ft_random_stream_of(3, 0, FT_DRAW_UNIFORM, "volume");
    for (int round = 0; round < 200; round++) {
        int objectives = 1 + round % 4, n = (int)ft_random_below(&s, 9), side = 7;
        double points[9 * 4], reference[4] = {side, side, side, side}, volume;
        for (int i = 0; i < n * objectives; i++)
            points[i] = (double)ft_random_below(&s, 9); // some beyond the reference
        assert_int_equal(ft_hypervolume(points, n, objectives, reference, &volume), FT_OK);
        assert_true(volume == grid_volume(points, n, objectives, reference));
    }
}

static bool dominates(const double *a, const double *b, int objectives) {
    bool better = false;
    for (int o = 0; o < objectives; o++) {
        if (a[o] > b[o]) return false;
        better = better || a[o] < b[o];
    }
    return better;
}

static void ranks(void **state) {
    ft_random_stream s = ft_random_stream_of(4, 0, FT_DRAW_UNIFORM, "ranks");
    enum { MOST = 60 };
    for (int round = 0; round < 300; round++) {
        int objectives = 2 + round % 3, n = 1 + (int)ft_random_below(&s, MOST),
            k = (int)ft_random_below(&s, (uint64_t)n + 1);
        double points[MOST * 4];
        int rank[MOST];
        bool chosen[MOST];
        for (int i = 0; i < n * objectives; i++)
            points[i] = round % 2 ? ft_random_double(&s) : (double)ft_random_below(&s, 5);
        for (int i = 0; i < n; i++)
            rank[i] = -1;
        for (int r = 0, left = n; left > 0; r++)
            for (int i = 0; i < n; i++) {
                bool beaten = rank[i] >= 0;
                for (int j = 0; j < n && !beaten; j++)
                    beaten = (rank[j] < 0 || rank[j] == r) &&
                             dominates(points + j * objectives, points + i * objectives, objectives);
                if (beaten) continue;
                rank[i] = r;
                left--;
            }
        assert_int_equal(ft_pareto_front(points, n, objectives, chosen), FT_OK);
        for (int i = 0; i < n; i++)
            assert_int_equal(chosen[i], rank[i] == 0);
        assert_int_equal(ft_pareto_best(points, n, objectives, k, chosen), FT_OK);
        int count = 0;
        for (int i = 0; i < n; i++) {
            count += chosen[i];
            for (int j = 0; j < n; j++)
                assert_false(chosen[i] && !chosen[j] && rank[j] < rank[i]);
        }
        assert_int_equal(count, k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(log_cdf),
        cmocka_unit_test(mass),
        cmocka_unit_test(quantile_inverts),
        cmocka_unit_test(streams),
        cmocka_unit_test(streams_are_fixed),
        cmocka_unit_test(hypervolume),
        cmocka_unit_test(ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
