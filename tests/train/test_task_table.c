// Every row of the table of tasks is whole, under the names that transformers and train.task have for it.
#include "engine/metrics/decision.h"
#include "engine/tasks/tasks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void rows_are_whole(void **state) {
    for (int k = FT_TASK_AUTO + 1; k < FT_TASK_COUNT; k++) {
        const ft_task_spec *task = ft_task_spec_of((ft_task)k);
        const bool classes = ft_task_has_classes(task);
        assert_int_equal(task->id, k);
        assert_true(task->outputs && (task->loss || ft_task_has_spans(task)) && task->decided_heads && task->scoring.kind && task->scoring.known && task->scoring.measure);
        for (int m = 0; m < 4; m++) assert_int_equal(ft_metric_check(task->shown[m], &task->scoring, 2), FT_OK);
        if (ft_task_reads_rows(task)) continue; // its answers are those of words or questions: token_answer.h, span_answer.h
        assert_true(task->pool && task->put_truth);
        assert_int_equal(classes, task->labels != FT_LABELS_NUMBERS);
        assert_true(classes == (task->decided != NULL) && classes == (task->decided_key != NULL) && (classes || task->balance == NULL));
        assert_true(classes == (task->write_decided != NULL) && classes == (task->scoring.positive != NULL));
        assert_true(classes == (task->scoring.cross_entropy != NULL) && (classes || task->scoring.thresholds == NULL));
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

// The line as a tree of JSON values makes it. Catches: names that are not escaped, two outputs of one name (an object has it once, with
// the last value), numbers that are not rounded to 9 digits, a comma or brace too many, logits of a task that has none.
static void line_of_tree(const ft_task_spec *task, const ft_answer *a, bool logits, char *line, size_t size) {
    const bool classes = ft_task_has_classes(task);
    bool failed = false;
    json_t *tree = json_pack("{s:i, s:i}", "format_version", 1, "id", 7), *numbers[2] = {json_object(), json_object()};
    for (int k = 0; k < a->outputs; k++) {
        ft_json_put(numbers[0], a->names[k], ft_json_rounded(classes ? a->probability[k] : a->value[k], 9), &failed);
        ft_json_put(numbers[1], a->names[k], ft_json_rounded(a->value[k], 9), &failed);
    }
    if (classes) ft_json_put(tree, "predicted", task->decided(a, &failed), &failed);
    ft_json_put(tree, classes ? "probabilities" : "values", numbers[0], &failed);
    if (logits && classes) ft_json_put(tree, "logits", json_incref(numbers[1]), &failed);
    char *text = ft_json_line(tree);
    assert_true(!failed && text != NULL);
    snprintf(line, size, "%s\n", text);
    free(text);
    json_decref(numbers[1]);
    json_decref(tree);
}

static void lines_are_those_of_a_tree(void **state) {
    static const char *const plain[] = {"no", "yes", "may\"be\n"}, *const twins[] = {"no", "yes", "no"};
    static const char *const *const all[] = {plain, twins};
    static const double p[] = {1.0 / 3, 1e-12, 1}, values[] = {-0.0, 123456789.123, -2e-7};
    for (int k = FT_TASK_AUTO + 1; k < FT_TASK_COUNT; k++)
        for (int n = 0; n < 2; n++)
            for (int logits = 0; logits < 2; logits++) {
                if (ft_task_reads_rows(ft_task_spec_of((ft_task)k))) continue;
                ft_arena arena = {0};
                ft_answer a = {.outputs = 3, .names = all[n], .separator = ",", .probability = p, .value = values};
                assert_int_equal(ft_answer_keys(a.names, 3, &arena, &a.keys), FT_OK);
                assert_int_equal(a.keys == NULL, n == 1);
                char want[1000], got[1000] = "";
                line_of_tree(ft_task_spec_of((ft_task)k), &a, logits, want, sizeof want);
                FILE *out = fmemopen(got, sizeof got, "w");
                json_t *head = json_pack("{s:i, s:i}", "format_version", 1, "id", 7);
                assert_int_equal(ft_task_write_line(ft_task_spec_of((ft_task)k), &a, "predicted", logits, head, out), FT_OK);
                fclose(out);
                assert_string_equal(got, want);
                ft_arena_free(&arena);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_whole), cmocka_unit_test(names), cmocka_unit_test(tables_suit),
                                       cmocka_unit_test(plain_losses), cmocka_unit_test(lines_are_those_of_a_tree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
