// Every row of the table of tasks is whole, under the names that transformers and train.task have for it.
#include "engine/metrics/decision.h"
#include "engine/tasks/tasks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

static void rows_are_whole(void **state) {
    for (int k = FT_TASK_AUTO + 1; k < FT_TASK_COUNT; k++) {
        const ft_task_spec *task = ft_task_spec_of((ft_task)k);
        const bool classes = ft_task_has_classes(task);
        assert_int_equal(task->id, k);
        assert_true(task->outputs && task->loss && task->pool && task->put_truth && task->decided_heads);
        assert_true(task->scoring.kind && task->scoring.known && task->scoring.measure);
        assert_int_equal(classes, task->labels != FT_LABELS_NUMBERS);
        assert_true(classes == (task->decided != NULL) && classes == (task->decided_key != NULL) && (classes || task->balance == NULL));
        assert_true(classes == (task->write_decided != NULL) && classes == (task->scoring.positive != NULL));
        assert_true(classes == (task->scoring.cross_entropy != NULL) && (classes || task->scoring.thresholds == NULL));
        for (int m = 0; m < 4; m++) assert_int_equal(ft_metric_check(task->shown[m], &task->scoring, 2), FT_OK);
        for (int outputs = 1; outputs < 4; outputs++)
            assert_true(task->scoring.first_threshold + ft_threshold_count(&task->scoring, outputs) <= (outputs > 1 ? outputs : 1));
        // What the file of labels says and what the loss reads are one.
        assert_int_equal(task->labels == FT_LABELS_CLASS, !ft_loss_reads_targets(ft_task_loss(task->id)));
    }
}

static void names(void **state) {
    for (int k = FT_TASK_AUTO + 1; k < FT_TASK_COUNT; k++) {
        assert_int_equal(ft_task_named(ft_task_name((ft_task)k)), k);
        // The first of those that transformers calls so.
        const char *type = ft_task_problem_type((ft_task)k);
        const ft_task first = ft_task_of_problem_type(type);
        assert_true(first != FT_TASK_AUTO && first <= (ft_task)k);
        assert_string_equal(ft_task_problem_type(first), type);
        assert_true(ft_task_has_loss((ft_task)k, FT_LOSS_AUTO) && ft_task_has_loss((ft_task)k, ft_task_loss((ft_task)k)));
    }
    assert_int_equal(ft_task_named("auto"), FT_TASK_AUTO);
    assert_int_equal(ft_task_named(NULL), FT_TASK_AUTO);
    assert_int_equal(ft_task_of_problem_type("anything"), FT_TASK_AUTO);
    assert_int_equal(ft_task_of_problem_type(NULL), FT_TASK_AUTO);
    assert_string_equal(ft_task_problem_type(FT_TASK_AUTO), "single_label_classification");
    assert_ptr_equal(ft_task_spec_of(FT_TASK_AUTO), ft_task_spec_of(FT_TASK_SINGLE_LABEL));
    assert_true(ft_task_has_loss(FT_TASK_MULTI_LABEL, FT_LOSS_FOCAL) && !ft_task_has_loss(FT_TASK_REGRESSION, FT_LOSS_FOCAL));
    assert_true(!ft_task_has_loss(FT_TASK_SINGLE_LABEL, FT_LOSS_BCE) && ft_task_has_loss(FT_TASK_AUTO, FT_LOSS_BCE));
    assert_true(ft_task_smooths(FT_TASK_SINGLE_LABEL) && ft_task_smooths(FT_TASK_AUTO) && !ft_task_smooths(FT_TASK_MULTI_LABEL));
}

static void tables_suit(void **state) {
    assert_ptr_equal(ft_task_suiting(&(ft_table){.label_lists = true}), ft_task_spec_of(FT_TASK_MULTI_LABEL));
    assert_ptr_equal(ft_task_suiting(&(ft_table){.label_lists = false}), ft_task_spec_of(FT_TASK_SINGLE_LABEL));
}

// The plain loss of each: that of logits which are right, and of some that are not.
static void plain_losses(void **state) {
    const float sure[] = {50, -50}, zero[] = {0, 0}, both[] = {1, 0};
    assert_true(ft_task_spec_of(FT_TASK_SINGLE_LABEL)->loss(sure, 2, 0, NULL) == 0);
    assert_true(ft_task_spec_of(FT_TASK_SINGLE_LABEL)->loss(zero, 2, 1, NULL) == (float)log(2));
    assert_true(ft_task_spec_of(FT_TASK_MULTI_LABEL)->loss(sure, 2, 0, both) < 1e-20f);
    assert_true(ft_task_spec_of(FT_TASK_MULTI_LABEL)->loss(zero, 2, 0, both) == (float)log(2));
    assert_true(ft_task_spec_of(FT_TASK_REGRESSION)->loss(zero, 2, 0, both) == 0.5f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_whole), cmocka_unit_test(names), cmocka_unit_test(tables_suit),
                                       cmocka_unit_test(plain_losses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
