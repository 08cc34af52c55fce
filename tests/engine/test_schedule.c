// The learning-rate schedules beside numbers of transformers 5.23.0: transformers.get_scheduler(kind, SGD with lr 1.0,
// num_warmup_steps, num_training_steps), get_last_lr() before each step, printed with repr(). The counts of warm-up
// steps are TrainingArguments(warmup_steps=ratio).get_warmup_steps(total) of the same version.
#include "engine/train/schedule.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const struct {
    ft_scheduler kind;
    int64_t warmup, total;
    double factors[10];
} runs[] = {
    {FT_SCHED_LINEAR,
     0,
     7,
     {1.0, 0.8571428571428571, 0.7142857142857143, 0.5714285714285714, 0.42857142857142855, 0.2857142857142857,
      0.14285714285714285}},
    {FT_SCHED_LINEAR,
     3,
     10,
     {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 0.8571428571428571, 0.7142857142857143, 0.5714285714285714,
      0.42857142857142855, 0.2857142857142857, 0.14285714285714285}},
    {FT_SCHED_LINEAR, 10, 10, {0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}},
    {FT_SCHED_LINEAR,
     12,
     10,
     {0.0, 0.08333333333333333, 0.16666666666666666, 0.25, 0.3333333333333333, 0.4166666666666667, 0.5,
      0.5833333333333334, 0.6666666666666666, 0.75}},
    {FT_SCHED_COSINE,
     0,
     7,
     {1.0, 0.9504844339512095, 0.8117449009293668, 0.6112604669781572, 0.38873953302184283, 0.18825509907063326,
      0.04951556604879048}},
    {FT_SCHED_COSINE,
     3,
     10,
     {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 0.9504844339512095, 0.8117449009293668, 0.6112604669781572,
      0.38873953302184283, 0.18825509907063326, 0.04951556604879048}},
    {FT_SCHED_COSINE,
     9,
     10,
     {0.0, 0.1111111111111111, 0.2222222222222222, 0.3333333333333333, 0.4444444444444444, 0.5555555555555556,
      0.6666666666666666, 0.7777777777777778, 0.8888888888888888, 1.0}},
    {FT_SCHED_CONSTANT, 3, 6, {1.0, 1.0, 1.0, 1.0, 1.0, 1.0}},
    {FT_SCHED_CONSTANT_WITH_WARMUP, 3, 6, {0.0, 0.3333333333333333, 0.6666666666666666, 1.0, 1.0, 1.0}},
    {FT_SCHED_LINEAR, 1, 1, {0.0}},
    {FT_SCHED_COSINE, 0, 1, {1.0}},
};

static void test_factors_are_those_of_transformers(void **state) {
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++)
        for (int64_t step = 0; step < runs[i].total; step++) {
            double got = ft_schedule_factor(runs[i].kind, step, runs[i].warmup, runs[i].total);
            if (!(fabs(got - runs[i].factors[step]) <= 1e-15))
                fail_msg("run %zu, step %lld: %.17g, not %.17g", i, (long long)step, got, runs[i].factors[step]);
        }
}

static void test_nothing_is_negative_behind_the_end(void **state) {
    for (int kind = FT_SCHED_LINEAR; kind <= FT_SCHED_CONSTANT_WITH_WARMUP; kind++)
        for (int64_t step = 10; step < 30; step++)
            assert_true(ft_schedule_factor((ft_scheduler)kind, step, 2, 10) >= 0);
    assert_true(ft_schedule_factor(FT_SCHED_LINEAR, 11, 2, 10) == 0);
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
