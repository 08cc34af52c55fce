// Metrics against scikit-learn (vectors/metrics.json), confidence intervals, probabilities, and what is refused.
#include "base/json/json.h"
#include "engine/tasks/tasks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void close_to(const char *what, double value, double expected) {
    bool same = isnan(expected) ? isnan(value) : fabs(value - expected) <= 1e-12 * fmax(1, fabs(expected));
    if (!same) fail_msg("%s is %.17g, not %.17g", what, value, expected);
}

// ---- vectors ------------------------------------------------------------------------------------------------------

static float *floats(const json_t *array) {
    size_t n = json_array_size(array);
    float *out = calloc(n + 1, sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < n; i++) out[i] = (float)json_number_value(json_array_get(array, i));
    return json_is_array(array) ? out : (free(out), NULL);
}

static const ft_scoring *scoring(ft_task task) { return &ft_task_spec_of(task)->scoring; }

static const ft_scoring *scoring_of(const json_t *item) {
    return scoring(ft_task_named(json_string_value(json_object_get(item, "task"))));
}

static void check_classes(const json_t *classes, const ft_scoring *by, const ft_metrics *m) {
    if (by == scoring(FT_TASK_REGRESSION)) {
        assert_null(m->support);
        return;
    }
    assert_int_equal(json_array_size(classes), m->classes);
    int64_t examples = 0;
    for (int c = 0; c < m->classes; c++) {
        const json_t *row = json_array_get(classes, (size_t)c);
        close_to("precision", m->precision[c], json_number_value(json_array_get(row, 0)));
        close_to("recall", m->recall[c], json_number_value(json_array_get(row, 1)));
        close_to("f1", m->f1[c], json_number_value(json_array_get(row, 2)));
        assert_int_equal(m->support[c], json_integer_value(json_array_get(row, 3)));
        for (int other = 0; m->confusion != NULL && other < m->classes; other++) examples += m->confusion[c * m->classes + other];
    }
    assert_int_equal(examples, by == scoring(FT_TASK_SINGLE_LABEL) ? m->examples : 0);
}

static int checked; // metrics compared

static void check_case(const json_t *item) {
    float *logits = floats(json_object_get(item, "logits")), *targets = floats(json_object_get(item, "targets")),
          *losses = floats(json_object_get(item, "losses")), *given = floats(json_object_get(item, "labels"));
    ft_scores s = {.scoring = scoring_of(item), .outputs = (int)json_integer_value(json_object_get(item, "outputs")), .logits = logits,
                   .targets = targets, .losses = losses, .confusion = true};
    s.n = (int64_t)json_array_size(json_object_get(item, "losses"));
    int32_t *labels = calloc((size_t)s.n, sizeof *labels);
    double threshold[8];
    for (int64_t i = 0; given != NULL && i < s.n; i++) labels[i] = (int32_t)given[i];
    s.labels = given != NULL ? labels : NULL;
    const json_t *thresholds = json_object_get(item, "threshold");
    for (size_t i = 0; i < json_array_size(thresholds); i++) threshold[i] = json_number_value(json_array_get(thresholds, i));
    s.threshold = thresholds != NULL ? threshold : NULL;
    print_message("  %s\n", json_string_value(json_object_get(item, "name")));
    ft_metrics m;
    assert_int_equal(ft_metrics_compute(&s, &m), FT_OK);
    const json_t *expect = json_object_get(item, "expect");
    for (int k = 0; k < FT_METRIC_COUNT; k++) {
        const char *name = ft_metric_name((ft_metric)k);
        const json_t *value = json_object_get(expect, name);
        // What a task does not have is absent there and NaN here.
        close_to(name, ft_metric_value(&m, (ft_metric)k), json_is_number(value) ? json_number_value(value) : NAN);
        ft_error_clear();
        assert_int_equal(ft_metric_check((ft_metric)k, s.scoring, s.outputs) == FT_OK, value != NULL);
        checked += value != NULL;
    }
    check_classes(json_object_get(item, "classes"), s.scoring, &m);
    ft_metrics_free(&m);
    free(labels), free(given), free(logits), free(targets), free(losses);
}

static void matches_scikit_learn(void **state) {
    json_t *root;
    assert_int_equal(ft_json_load(FT_TEST_VECTORS "/metrics.json", &root), FT_OK);
    const json_t *cases = json_object_get(root, "cases");
    for (size_t i = 0; i < json_array_size(cases); i++) check_case(json_array_get(cases, i));
    assert_int_equal(json_array_size(cases), 29);
    assert_true(checked > 400);
    json_decref(root);
}

// ---- by hand ------------------------------------------------------------------------------------------------------

static ft_status compute(const float *logits, int64_t n, int classes, const int32_t *labels, const float *losses, ft_metrics *m) {
    const ft_scores s = {
        .scoring = scoring(FT_TASK_SINGLE_LABEL), .n = n, .outputs = classes, .logits = logits, .labels = labels, .losses = losses,
        .confusion = true};
    return ft_metrics_compute(&s, m);
}

// Row = label, column = prediction; the first of equal logits wins.
static void confusion_by_hand(void **state) {
    const float logits[] = {1, 2, 0, /**/ 3, 3, 1, /**/ -1, -2, -1, /**/ 0, 0, 5};
    const int32_t labels[] = {1, 1, 2, 0};
    const int64_t expected[] = {0, 0, 1, /**/ 1, 1, 0, /**/ 1, 0, 0};
    ft_metrics metrics;
    assert_int_equal(compute(logits, 4, 3, labels, NULL, &metrics), FT_OK);
    assert_memory_equal(metrics.confusion, expected, sizeof expected);
    assert_true(metrics.value[FT_METRIC_ACCURACY] == 0.25);
    assert_true(isnan(metrics.value[FT_METRIC_LOSS])); // none were given
    assert_int_equal(metrics.examples, 4);
    ft_metrics_free(&metrics);
    ft_metrics_free(&metrics);
}

static void refusals(void **state) {
    float logits[] = {0, 1, 1, 0};
    int32_t labels[] = {0, 1};
    ft_metrics metrics;
    assert_int_equal(compute(logits, 0, 2, labels, NULL, &metrics), FT_INVALID);
    assert_int_equal(compute(logits, 2, 0, labels, NULL, &metrics), FT_INVALID);
    labels[1] = 2;
    assert_int_equal(compute(logits, 2, 2, labels, NULL, &metrics), FT_FAILED);
    labels[1] = -1;
    assert_int_equal(compute(logits, 2, 2, labels, NULL, &metrics), FT_FAILED);
    labels[1] = 1;
    logits[3] = NAN;
    assert_int_equal(compute(logits, 2, 2, labels, NULL, &metrics), FT_DIVERGED);
    assert_non_null(strstr(ft_error_message(), "example 1"));
    logits[3] = INFINITY;
    assert_int_equal(compute(logits, 2, 2, labels, NULL, &metrics), FT_DIVERGED);
    assert_null(metrics.confusion);

    assert_int_equal(ft_metric_check(FT_METRIC_F1_BINARY, scoring(FT_TASK_SINGLE_LABEL), 2), FT_OK);
    assert_int_equal(ft_metric_check(FT_METRIC_RECALL_BINARY, scoring(FT_TASK_SINGLE_LABEL), 3), FT_INVALID);
    assert_string_equal(ft_error_where(), "eval.metric");
    assert_string_equal(ft_error_hint(0), "recall_macro or recall_micro work for any number of classes");
    assert_int_equal(ft_metric_check(FT_METRIC_ACCURACY, scoring(FT_TASK_REGRESSION), 1), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "accuracy does not exist for regression tasks"));
    assert_non_null(strstr(ft_error_hint(0), "pearson"));
    assert_int_equal(ft_metric_check(FT_METRIC_PEARSON, scoring(FT_TASK_MULTI_LABEL), 2), FT_INVALID);
    assert_int_equal(ft_metric_check(FT_METRIC_F1_BINARY, scoring(FT_TASK_MULTI_LABEL), 2), FT_INVALID);
}

// A loss that overflowed must be seen, not dropped.
static void loss_is_not_filtered(void **state) {
    const float logits[] = {0, 1, 1, 0}, losses[] = {1, INFINITY};
    const int32_t labels[] = {0, 1};
    ft_metrics metrics;
    assert_int_equal(compute(logits, 2, 2, labels, losses, &metrics), FT_OK);
    assert_true(isinf(metrics.value[FT_METRIC_LOSS]));
    ft_metrics_free(&metrics);
}

// ---- confidence intervals -----------------------------------------------------------------------------------------

// Of a share p of n right answers the interval is that of the binomial distribution, about 1.96 sqrt(p (1 - p) / n) wide to
// each side; its seed decides alone.
static void intervals(void **state) {
    enum { N = 400, ROUNDS = 2000 };
    static float logits[2 * N];
    static int32_t labels[N];
    for (int i = 0; i < N; i++) {
        labels[i] = i % 2;
        logits[2 * i + (i % 5 == 0 ? 1 - labels[i] : labels[i])] = 1; // four in five are right
    }
    const ft_scores s = {.scoring = scoring(FT_TASK_SINGLE_LABEL), .n = N, .outputs = 2, .logits = logits, .labels = labels};
    double low[FT_METRIC_COUNT], high[FT_METRIC_COUNT], low2[FT_METRIC_COUNT], high2[FT_METRIC_COUNT];
    assert_int_equal(ft_metrics_bootstrap(&s, ROUNDS, 1, 0.95, low, high), FT_OK);
    double half = 1.96 * sqrt(0.8 * 0.2 / N);
    assert_true(fabs(low[FT_METRIC_ACCURACY] - (0.8 - half)) < 0.006);
    assert_true(fabs(high[FT_METRIC_ACCURACY] - (0.8 + half)) < 0.006);
    assert_true(isnan(low[FT_METRIC_LOSS]) && isnan(high[FT_METRIC_PEARSON]));
    assert_true(low[FT_METRIC_AUROC] < 0.8 && high[FT_METRIC_AUROC] > 0.8);
    assert_int_equal(ft_metrics_bootstrap(&s, ROUNDS, 1, 0.95, low2, high2), FT_OK);
    assert_true(low[FT_METRIC_F1_MACRO] == low2[FT_METRIC_F1_MACRO] && high[FT_METRIC_F1_MACRO] == high2[FT_METRIC_F1_MACRO]);
    assert_int_equal(ft_metrics_bootstrap(&s, ROUNDS, 2, 0.95, low2, high2), FT_OK);
    assert_true(low[FT_METRIC_LOG_LOSS] != low2[FT_METRIC_LOG_LOSS]);
    assert_int_equal(ft_metrics_bootstrap(&s, ROUNDS, 1, 0.5, low2, high2), FT_OK);
    assert_true(low2[FT_METRIC_ACCURACY] > low[FT_METRIC_ACCURACY] && high2[FT_METRIC_ACCURACY] < high[FT_METRIC_ACCURACY]);

    // One example is always itself; losses and targets travel with their example.
    const float x[] = {2, 5}, y[] = {1, 7}, losses[] = {1, 4};
    const ft_scores numbers = {.scoring = scoring(FT_TASK_REGRESSION), .n = 2, .outputs = 1, .logits = x, .targets = y, .losses = losses};
    assert_int_equal(ft_metrics_bootstrap(&numbers, 200, 3, 1, low, high), FT_OK);
    assert_true(low[FT_METRIC_MSE] == 1 && high[FT_METRIC_MSE] == 4 && low[FT_METRIC_LOSS] == 1 && high[FT_METRIC_LOSS] == 4);
}

static void probabilities(void **state) {
    double p[3];
    ft_softmax((const float[]){0, 0, 0}, 3, p);
    for (int c = 0; c < 3; c++) close_to("p", p[c], 1.0 / 3);
    ft_softmax((const float[]){1, 2, 3}, 3, p);
    const double total = exp(1) + exp(2) + exp(3);
    for (int c = 0; c < 3; c++) close_to("p", p[c], exp(c + 1) / total);
    ft_softmax((const float[]){3e38f, -3e38f, 3e38f}, 3, p); // far beyond exp's range
    close_to("p", p[0], 0.5);
    close_to("p", p[1], 0);
    close_to("p", p[2], 0.5);
    ft_softmax((const float[]){-1000}, 1, p);
    close_to("p", p[0], 1);
    ft_sigmoids((const float[]){0, 2, -1000}, 3, p);
    close_to("p", p[0], 0.5);
    close_to("p", p[1], 1 / (1 + exp(-2)));
    assert_true(p[2] == 0 && ft_sigmoid(1000) == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_scikit_learn), cmocka_unit_test(confusion_by_hand), cmocka_unit_test(refusals),
        cmocka_unit_test(loss_is_not_filtered), cmocka_unit_test(intervals),         cmocka_unit_test(probabilities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
