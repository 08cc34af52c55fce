// How long steps of a trial were seen to take, alone and beside others, and what that is held against.
#include "hpo/sharing/tempo.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

typedef struct sign {
    double now;
    int64_t step;
    uint64_t company;
    int others;
    double slowdown;
} sign;

static ft_tempo after(int count, const sign *signs) {
    ft_tempo tempo = {.known = false};
    for (int i = 0; i < count; i++)
        ft_tempo_note(&tempo, signs[i].now, signs[i].step, signs[i].company, signs[i].others, signs[i].slowdown);
    return tempo;
}
#define AFTER(...) after((int)(sizeof((sign[]){__VA_ARGS__}) / sizeof(sign)), (sign[]){__VA_ARGS__})

static void test_alone_and_shared(void **state) {
    // Steps of 1 s; somebody comes between 6 and 7: the time until 7 is nobody's. Then steps of 2 s.
    const ft_tempo p = AFTER({1, 1, 1, 0, 1}, {2, 2, 1, 0, 1}, {6, 6, 1, 0, 1}, {7.5, 7, 2, 1, 1.5},
                             {9.5, 8, 2, 1, 1.5}, {15.5, 11, 2, 1, 1.5}, {17.5, 12, 2, 1, 1.5});
    assert_true(p.alone == 5 && p.alone_steps == 5 && p.shared == 10 && p.shared_steps == 5);
    assert_true(ft_tempo_alone(&p) == 1 && ft_tempo_shared(&p) == 2 && ft_tempo_predicted(&p) == 1.5);
}

static void test_what_is_left_out(void **state) {
    // An evaluation between two steps.
    ft_tempo p = AFTER({1, 1, 1, 0, 1}, {2, 2, 1, 0, 1}, {30, -1, 1, 0, 1}, {60, 3, 1, 0, 1}, {61, 4, 1, 0, 1});
    assert_true(p.alone == 2 && p.alone_steps == 2);
    // Signs in the middle of a step: it is as long as it is.
    p = AFTER({1, 1, 1, 0, 1}, {1.4, 1, 1, 0, 1}, {1.9, 1, 1, 0, 1}, {2, 2, 1, 0, 1});
    assert_true(p.alone == 1 && p.alone_steps == 1);
    // Somebody comes in the middle of a step, and is gone before it ends: neither.
    p = AFTER({1, 1, 1, 0, 1}, {1.5, 1, 2, 1, 2}, {3, 2, 3, 0, 1}, {4, 3, 3, 0, 1});
    assert_true(p.alone == 1 && p.alone_steps == 1 && p.shared_steps == 0);
    // The next run of a trial with folds begins at step 1 again.
    p = AFTER({1, 5, 1, 0, 1}, {2, 6, 1, 0, 1}, {9, 1, 1, 0, 1}, {10, 2, 1, 0, 1});
    assert_true(p.alone == 2 && p.alone_steps == 2);
}

static void test_mean_of_predictions(void **state) {
    const ft_tempo p = AFTER({1, 1, 1, 1, 1.25}, {5, 5, 1, 1, 1.25}, {6, 6, 2, 2, 1.6}, {8, 7, 2, 2, 1.6});
    assert_true(p.shared_steps == 5 && fabs(ft_tempo_predicted(&p) - (4 * 1.25 + 1.6) / 5) < 1e-12);
    const ft_tempo unknown = AFTER({1, 1, 1, 1, NAN}, {7, 7, 1, 1, NAN}), none = {.known = false};
    assert_true(isnan(ft_tempo_predicted(&unknown)) && isnan(ft_tempo_predicted(&none)) &&
                ft_tempo_shared(&unknown) == 1);
}

static void test_what_it_is_held_against(void **state) {
    const struct {
        ft_tempo tempo;
        double predicted, scale, seen;
        const char *against;
    } cases[] = {
        {{.alone = 5, .alone_steps = 5, .shared = 15, .shared_steps = 10}, 0.1, 100, 1.5, "itself"},
        {{.alone = 4, .alone_steps = 4, .shared = 15, .shared_steps = 10},
         0.1,
         12,
         1.25,
         "prediction"},                                                                            // too few alone
        {{.shared = 15, .shared_steps = 10}, 0.1, 0, NAN, "unknown"},                              // nobody was alone
        {{.alone = 5, .alone_steps = 5, .shared = 4, .shared_steps = 4}, 0.1, 10, NAN, "unknown"}, // too few shared
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double seen;
        const ft_tempo_against against = ft_tempo_seen(&cases[i].tempo, cases[i].predicted, cases[i].scale, &seen);
        assert_string_equal(ft_tempo_against_name(against), cases[i].against);
        assert_true(isnan(cases[i].seen) ? isnan(seen) : fabs(seen - cases[i].seen) < 1e-12);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_and_shared),
        cmocka_unit_test(test_what_is_left_out),
        cmocka_unit_test(test_mean_of_predictions),
        cmocka_unit_test(test_what_it_is_held_against),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
