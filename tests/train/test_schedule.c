// The learning-rate schedules beside numbers of transformers 5.23.0: transformers.get_scheduler(kind, SGD with lr 1.0,
// num_warmup_steps, num_training_steps), get_last_lr() before each step, printed with repr(). The counts of warm-up
// steps are TrainingArguments(warmup_steps=ratio).get_warmup_steps(total) of the same version.
#include "engine/train/job/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const struct {
    ft_schedule schedule;
    double factors[10];
} runs[] = {
    {{.kind = FT_SCHED_LINEAR, .warmup_steps = 0, .total_steps = 7},
     {1.0, 0.8571428571428571, 0.7142857142857143, 0.5714285714285714, 0.42857142857142855, 0.2857142857142857,
      0.14285714285714285}},
    {{.kind = FT_SCHED_LINEAR, .warmup_steps = 3, .total_steps = 10},
     {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 0.8571428571428571, 0.7142857142857143, 0.5714285714285714,
      0.42857142857142855, 0.2857142857142857, 0.14285714285714285}},
    {{.kind = FT_SCHED_LINEAR, .warmup_steps = 10, .total_steps = 10}, {0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}},
    {{.kind = FT_SCHED_LINEAR, .warmup_steps = 12, .total_steps = 10},
     {0.0, 0.08333333333333333, 0.16666666666666666, 0.25, 0.3333333333333333, 0.4166666666666667, 0.5,
      0.5833333333333334, 0.6666666666666666, 0.75}},
    {{.kind = FT_SCHED_COSINE, .warmup_steps = 0, .total_steps = 7},
     {1.0, 0.9504844339512095, 0.8117449009293668, 0.6112604669781572, 0.38873953302184283, 0.18825509907063326,
      0.04951556604879048}},
    {{.kind = FT_SCHED_COSINE, .warmup_steps = 3, .total_steps = 10},
     {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 0.9504844339512095, 0.8117449009293668, 0.6112604669781572,
      0.38873953302184283, 0.18825509907063326, 0.04951556604879048}},
    {{.kind = FT_SCHED_COSINE, .warmup_steps = 9, .total_steps = 10},
     {0.0, 0.1111111111111111, 0.2222222222222222, 0.3333333333333333, 0.4444444444444444, 0.5555555555555556,
      0.6666666666666666, 0.7777777777777778, 0.8888888888888888, 1.0}},
    {{.kind = FT_SCHED_CONSTANT, .warmup_steps = 3, .total_steps = 6}, {1.0, 1.0, 1.0, 1.0, 1.0, 1.0}},
    {{.kind = FT_SCHED_CONSTANT_WITH_WARMUP, .warmup_steps = 3, .total_steps = 6}, {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 1.0, 1.0}},
    {{.kind = FT_SCHED_LINEAR, .warmup_steps = 1, .total_steps = 1}, {0.0}},
    {{.kind = FT_SCHED_COSINE, .warmup_steps = 0, .total_steps = 1}, {1.0}},
    {{FT_SCHED_POLYNOMIAL, 0, 7, .end = 1e-07, .power = 1.0},
     {1.0, 0.8571428714285715, 0.7142857428571429, 0.5714286142857142, 0.42857148571428577, 0.28571435714285714, 0.14285722857142863}},
    {{FT_SCHED_POLYNOMIAL, 3, 10, .end = 0.125, .power = 2.0},
     {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 0.767857142857143, 0.5714285714285714, 0.4107142857142857, 0.28571428571428575, 0.19642857142857142, 0.14285714285714288}},
    {{FT_SCHED_POLYNOMIAL, 2, 9, .end = 0.01, .power = 0.5},
     {0.0, 0.5, 1.0, 0.926561898774826, 0.8467027121812314, 0.7583696565582698, 0.6581071340008974, 0.5391772589866003, 0.384184828279135}},
    {{FT_SCHED_COSINE_WITH_RESTARTS, 0, 7, .cycles = 1},
     {1.0, 0.9504844339512095, 0.8117449009293668, 0.6112604669781572, 0.38873953302184283, 0.18825509907063326, 0.04951556604879048}},
    {{FT_SCHED_COSINE_WITH_RESTARTS, 2, 10, .cycles = 3},
     {0.0, 0.5, 1.0, 0.6913417161825449, 0.14644660940672627, 0.9619397662556434, 0.5, 0.03806023374435663, 0.8535533905932737, 0.30865828381745514}},
    {{FT_SCHED_COSINE_WITH_RESTARTS, 1, 9, .cycles = 2},
     {0.0, 1.0, 0.8535533905932737, 0.5, 0.14644660940672627, 1.0, 0.8535533905932737, 0.5, 0.14644660940672627}},
    {{.kind = FT_SCHED_POLYNOMIAL, .warmup_steps = 0, .total_steps = 7, .end = 1e-07, .power = 1.0},
     {1.0, 0.8571428714285715, 0.7142857428571429, 0.5714286142857142, 0.42857148571428577,
      0.28571435714285714, 0.14285722857142863}},
    {{.kind = FT_SCHED_POLYNOMIAL, .warmup_steps = 3, .total_steps = 10, .end = 0.125, .power = 2.0},
     {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 0.767857142857143,
      0.5714285714285714, 0.4107142857142857, 0.28571428571428575, 0.19642857142857142, 0.14285714285714288}},
    {{.kind = FT_SCHED_POLYNOMIAL, .warmup_steps = 2, .total_steps = 9, .end = 0.01, .power = 0.5},
     {0.0, 0.5, 1.0, 0.926561898774826, 0.8467027121812314,
      0.7583696565582698, 0.6581071340008974, 0.5391772589866003, 0.384184828279135}},
    {{.kind = FT_SCHED_COSINE_WITH_RESTARTS, .warmup_steps = 0, .total_steps = 7, .cycles = 1},
     {1.0, 0.9504844339512095, 0.8117449009293668, 0.6112604669781572, 0.38873953302184283,
      0.18825509907063326, 0.04951556604879048}},
    {{.kind = FT_SCHED_COSINE_WITH_RESTARTS, .warmup_steps = 2, .total_steps = 10, .cycles = 3},
     {0.0, 0.5, 1.0, 0.6913417161825449, 0.14644660940672627,
      0.9619397662556434, 0.5, 0.03806023374435663, 0.8535533905932737, 0.30865828381745514}},
    {{.kind = FT_SCHED_COSINE_WITH_RESTARTS, .warmup_steps = 1, .total_steps = 9, .cycles = 2},
     {0.0, 1.0, 0.8535533905932737, 0.5, 0.14644660940672627,
      1.0, 0.8535533905932737, 0.5, 0.14644660940672627}},
};

static void test_factors_are_those_of_transformers(void **state) {
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        for (int64_t step = 0; step < runs[i].schedule.total_steps; step++) {
            double got = ft_schedule_factor(&runs[i].schedule, step);
            if (!(fabs(got - runs[i].factors[step]) <= 1e-15))
                fail_msg("run %zu, step %lld: %.17g, not %.17g", i, (long long)step, got, runs[i].factors[step]);
        }
}

static void test_nothing_is_negative_behind_the_end(void **state) {
    for (int kind = FT_SCHED_LINEAR; kind <= FT_SCHED_COSINE_WITH_RESTARTS; kind++)
        for (int64_t step = 10; step < 30; step++)
            assert_true(ft_schedule_factor(&(ft_schedule){.kind = (ft_scheduler)kind, .warmup_steps = 2, .total_steps = 10, .power = 0.5, .cycles = 2}, step) >= 0);
    assert_true(ft_schedule_factor(&(ft_schedule){.kind = FT_SCHED_LINEAR, .warmup_steps = 2, .total_steps = 10}, 11) == 0);
    assert_true(ft_schedule_factor(&(ft_schedule){.kind = FT_SCHED_POLYNOMIAL, .warmup_steps = 2, .total_steps = 10, .end = 0.25, .power = 3}, 20) == 0.25);
}

static void test_warmup_steps_are_those_of_the_trainer(void **state) {
    static const struct {
        double ratio;
        int64_t total, steps;
    } rows[] = {{0.1, 100, 10}, {0.1, 945, 95}, {0.06, 945, 57}, {0.07, 1000, 70}, {0, 7, 0},
                {0.01, 3, 1},   {0.1, 30, 3},   {0.07, 100, 8}}; // 100 * 0.07 is a little above 7 in double
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(ft_warmup_steps(rows[i].ratio, 0, rows[i].total), rows[i].steps);
    assert_int_equal(ft_warmup_steps(1, 0, 10), 10);
    assert_int_equal(ft_warmup_steps(0.5, 3, 100), 3); // a number of steps has the last word
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factors_are_those_of_transformers),
        cmocka_unit_test(test_nothing_is_negative_behind_the_end),
        cmocka_unit_test(test_warmup_steps_are_those_of_the_trainer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
