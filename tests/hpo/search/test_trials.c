// The history: what is appended is found, finished trials never change, bad input is refused.
#include "hpo/search/history/trials.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>

static void start(ft_trials *t, int objectives) {
    assert_int_equal(ft_trials_init(t, objectives, (bool[]){false, true}), FT_OK);
}

static void names_and_distributions_are_interned(void **state) {
    ft_trials t;
    ft_distribution d, e;
    int a, b, c;
    start(&t, 1);
    assert_int_equal(ft_trials_find_name(&t, "rate"), -1);
    assert_int_equal(ft_trials_name(&t, "rate", &a), FT_OK);
    assert_int_equal(ft_trials_name(&t, "decay", &b), FT_OK);
    assert_int_equal(ft_trials_name(&t, "rate", &c), FT_OK);
    assert_true(a == 0 && b == 1 && c == 0 && ft_trials_find_name(&t, "decay") == 1);
    assert_int_equal(ft_distribution_float("x", 0, 1, false, 0, &d), FT_OK);
    assert_int_equal(ft_distribution_float("x", 0, 2, false, 0, &e), FT_OK);
    assert_int_equal(ft_trials_distribution(&t, &d, &a), FT_OK);
    assert_int_equal(ft_trials_distribution(&t, &e, &b), FT_OK);
    assert_int_equal(ft_trials_distribution(&t, &d, &c), FT_OK);
    assert_true(a == c && a != b && ft_distribution_equal(t.distributions[b], &e));
    char text[] = "text that goes away";
    ft_choice choice = {.kind = FT_CHOICE_TEXT, .text = text};
    ft_arena arena = {0};
    assert_int_equal(ft_distribution_categorical("x", &arena, &choice, 1, &d), FT_OK);
    assert_int_equal(ft_trials_distribution(&t, &d, &a), FT_OK);
    ft_arena_free(&arena);
    assert_string_equal(t.distributions[a]->choices[0].text, text);
    ft_trials_free(&t);
}

static void a_trial_grows_and_ends(void **state) {
    ft_trials t;
    int64_t number;
    start(&t, 1);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(ft_trials_append(&t, i % 2 ? FT_WAITING : FT_RUNNING, &number), FT_OK);
        assert_int_equal(number, i);
    }
    uint64_t states = t.states, revision = t.revision;
    for (int i = 0; i < 9; i++)
        assert_int_equal(ft_trials_set_param(&t, 5, i, 0, i), FT_OK);
    assert_int_equal(ft_trials_set_param(&t, 5, 3, 0, 33), FT_OK); // replaces
    assert_true(t.states == states && t.revision == revision + 10);
    assert_int_equal(ft_trials_set_relative(&t, 5, 20, 0, 4), FT_OK);
    const ft_trial *trial = &t.trial[5];
    assert_int_equal(trial->param_count, 9);
    assert_true(ft_trial_find_param(trial, 3)->value == 33 && ft_trial_find_param(trial, 20) == NULL);
    assert_true(ft_trial_find_relative(trial, 20)->value == 4 && ft_trial_find_relative(trial, 3) == NULL);
    const int64_t steps[] = {4, 0, 9, 4, 2, 0};
    for (int i = 0; i < 6; i++)
        assert_int_equal(ft_trials_report(&t, 5, steps[i], i), FT_OK);
    assert_int_equal(trial->report_count, 4);
    const int64_t sorted[] = {0, 2, 4, 9};
    const double values[] = {1, 4, 0, 2}; // the first report of a step stays
    for (int i = 0; i < 4; i++)
        assert_true(trial->reports[i].step == sorted[i] && trial->reports[i].value == values[i]);
    assert_int_equal(ft_trials_add_rung(&t, 5, 0.5), FT_OK);
    assert_int_equal(ft_trials_start(&t, 5), FT_OK);
    assert_int_equal(trial->state, FT_RUNNING);
    double value = 1.5;
    assert_int_equal(ft_trials_finish(&t, 5, FT_COMPLETE, &value, 1), FT_OK);
    assert_true(trial->values[0] == 1.5 && t.finished == 1 && t.states == states + 2);
    assert_int_equal(ft_trials_finish(&t, 0, FT_FAIL, NULL, 0), FT_OK);
    assert_int_equal(ft_trials_finish(&t, 2, FT_PRUNED, NULL, 0), FT_OK);
    assert_int_equal(t.finished, 2);
    ft_trials_free(&t);
}

static void finished_trials_never_change(void **state) {
    ft_trials t;
    int64_t number;
    double value = 1;
    start(&t, 1);
    assert_int_equal(ft_trials_append(&t, FT_RUNNING, &number), FT_OK);
    assert_int_equal(ft_trials_finish(&t, number, FT_COMPLETE, &value, 1), FT_OK);
    uint64_t revision = t.revision;
    assert_int_equal(ft_trials_set_param(&t, number, 0, 0, 1), FT_FAILED);
    assert_int_equal(ft_trials_set_relative(&t, number, 0, 0, 1), FT_FAILED);
    assert_int_equal(ft_trials_set_constraint(&t, number, 0, 1), FT_FAILED);
    assert_int_equal(ft_trials_report(&t, number, 0, 1), FT_FAILED);
    assert_int_equal(ft_trials_add_rung(&t, number, 1), FT_FAILED);
    assert_int_equal(ft_trials_start(&t, number), FT_FAILED);
    assert_int_equal(ft_trials_finish(&t, number, FT_FAIL, NULL, 0), FT_FAILED);
    assert_int_equal(ft_trials_report(&t, 1, 0, 1), FT_FAILED); // there is none
    assert_int_equal(ft_trials_report(&t, -1, 0, 1), FT_FAILED);
    assert_true(t.revision == revision);
    ft_error_clear();
    ft_trials_free(&t);
}

static void refused(void **state) {
    ft_trials t;
    int64_t number;
    int id;
    double values[2] = {1, NAN};
    assert_int_equal(ft_trials_init(&t, 0, NULL), FT_INVALID);
    start(&t, 2);
    assert_int_equal(ft_trials_append(&t, FT_COMPLETE, &number), FT_FAILED);
    assert_int_equal(ft_trials_append(&t, FT_RUNNING, &number), FT_OK);
    assert_int_equal(ft_trials_constraint_name(&t, "memory", &id), FT_OK);
    assert_int_equal(ft_trials_set_constraint(&t, number, id, NAN), FT_INVALID);
    assert_string_equal(ft_error_where(), "memory");
    assert_int_equal(ft_trials_report(&t, number, -1, 0), FT_INVALID);
    assert_int_equal(ft_trials_finish(&t, number, FT_COMPLETE, values, 1), FT_FAILED);
    assert_int_equal(ft_trials_finish(&t, number, FT_COMPLETE, values, 2), FT_INVALID);
    assert_int_equal(ft_trials_finish(&t, number, FT_PRUNED, values, 1), FT_FAILED);
    assert_int_equal(ft_trials_finish(&t, number, FT_FAIL, values, 1), FT_FAILED);
    assert_int_equal(ft_trials_finish(&t, number, FT_RUNNING, NULL, 0), FT_FAILED);
    values[1] = -INFINITY;
    assert_int_equal(ft_trials_finish(&t, number, FT_COMPLETE, values, 2), FT_OK);
    ft_error_clear();
    ft_trials_free(&t);
}

static void violation_sums_what_is_positive(void **state) {
    ft_trials t;
    int64_t number;
    start(&t, 1);
    assert_int_equal(ft_trials_append(&t, FT_RUNNING, &number), FT_OK);
    assert_true(ft_trial_violation(&t.trial[0]) == 0);
    const double values[] = {-3, 0.25, 0, 2};
    for (int i = 0; i < 4; i++)
        assert_int_equal(ft_trials_set_constraint(&t, number, i, values[i]), FT_OK);
    assert_true(ft_trial_violation(&t.trial[0]) == 2.25);
    assert_int_equal(ft_trials_set_constraint(&t, number, 3, -1), FT_OK);
    assert_true(ft_trial_violation(&t.trial[0]) == 0.25);
    ft_trials_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_distributions_are_interned), cmocka_unit_test(a_trial_grows_and_ends),
        cmocka_unit_test(finished_trials_never_change),         cmocka_unit_test(refused),
        cmocka_unit_test(violation_sums_what_is_positive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
