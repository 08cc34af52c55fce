// Metrics against scikit-learn (vectors/metrics.txt), softmax, and what is refused.
#include "engine/train/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void close_to(double value, double expected) {
    if (isnan(expected))
        assert_true(isnan(value));
    else
        assert_true(fabs(value - expected) <= 1e-12);
}

static void check_metric(FILE *vectors, const ft_metrics *metrics, const char *name, ft_metric metric) {
    char found[32];
    double expected;
    assert_int_equal(fscanf(vectors, "%31s %lf", found, &expected), 2);
    assert_string_equal(found, name);
    close_to(ft_metric_value(metrics, metric), expected);
}

static void check_case(FILE *vectors, int64_t n, int classes) {
    float *logits = malloc((size_t)(n * classes) * sizeof *logits), *losses = malloc((size_t)n * sizeof *losses);
    int32_t *labels = malloc((size_t)n * sizeof *labels);
    assert_true(logits && losses && labels);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(fscanf(vectors, "%d %f", &labels[i], &losses[i]), 2);
        for (int c = 0; c < classes; c++)
            assert_int_equal(fscanf(vectors, "%f", &logits[i * classes + c]), 1);
    }
    ft_metrics metrics;
    assert_int_equal(ft_metrics_compute(logits, n, classes, labels, losses, &metrics), FT_OK);
    check_metric(vectors, &metrics, "accuracy", FT_METRIC_ACCURACY);
    check_metric(vectors, &metrics, "f1_macro", FT_METRIC_F1_MACRO);
    check_metric(vectors, &metrics, "f1_micro", FT_METRIC_F1_MICRO);
    check_metric(vectors, &metrics, "f1_binary", FT_METRIC_F1_BINARY);
    check_metric(vectors, &metrics, "matthews", FT_METRIC_MATTHEWS);
    check_metric(vectors, &metrics, "loss", FT_METRIC_LOSS);
    int64_t examples = 0;
    for (int c = 0; c < classes; c++) {
        double precision, recall, f1;
        long long support;
        assert_int_equal(fscanf(vectors, " class %lf %lf %lf %lld", &precision, &recall, &f1, &support), 4);
        close_to(metrics.precision[c], precision);
        close_to(metrics.recall[c], recall);
        close_to(metrics.f1[c], f1);
        assert_int_equal(metrics.support[c], support);
        int64_t as_label = 0, as_prediction = 0;
        for (int other = 0; other < classes; other++) {
            as_label += metrics.confusion[c * classes + other];
            as_prediction += metrics.confusion[other * classes + c];
        }
        assert_int_equal(as_label, metrics.support[c]);
        assert_int_equal(as_prediction, metrics.predicted[c]);
        examples += as_label;
    }
    assert_int_equal(examples, n);
    ft_metrics_free(&metrics);
    free(logits);
    free(losses);
    free(labels);
}

static void matches_scikit_learn(void **state) {
    FILE *vectors = fopen(FT_TEST_VECTORS "/metrics.txt", "r");
    assert_non_null(vectors);
    int cases = 0, classes;
    char name[64];
    long long n;
    for (; fscanf(vectors, " case %63s %lld %d", name, &n, &classes) == 3; cases++) {
        print_message("  %s\n", name);
        check_case(vectors, n, classes);
    }
    assert_true(feof(vectors));
    assert_int_equal(cases, 14);
    fclose(vectors);
}

// Row = label, column = prediction; the first of equal logits wins.
static void confusion_by_hand(void **state) {
    const float logits[] = {1, 2, 0, /**/ 3, 3, 1, /**/ -1, -2, -1, /**/ 0, 0, 5};
    const int32_t labels[] = {1, 1, 2, 0};
    const int64_t expected[] = {0, 0, 1, /**/ 1, 1, 0, /**/ 1, 0, 0};
    ft_metrics metrics;
    assert_int_equal(ft_metrics_compute(logits, 4, 3, labels, NULL, &metrics), FT_OK);
    assert_memory_equal(metrics.confusion, expected, sizeof expected);
    assert_true(metrics.accuracy == 0.25);
    assert_true(isnan(metrics.loss)); // none were given
    assert_int_equal(metrics.examples, 4);
    ft_metrics_free(&metrics);
    ft_metrics_free(&metrics);
}

static void refusals(void **state) {
    float logits[] = {0, 1, 1, 0};
    int32_t labels[] = {0, 1};
    ft_metrics metrics;
    assert_int_equal(ft_metrics_compute(logits, 0, 2, labels, NULL, &metrics), FT_INVALID);
    assert_int_equal(ft_metrics_compute(logits, 2, 0, labels, NULL, &metrics), FT_INVALID);
    labels[1] = 2;
    assert_int_equal(ft_metrics_compute(logits, 2, 2, labels, NULL, &metrics), FT_FAILED);
    labels[1] = -1;
    assert_int_equal(ft_metrics_compute(logits, 2, 2, labels, NULL, &metrics), FT_FAILED);
    labels[1] = 1;
    logits[3] = NAN;
    assert_int_equal(ft_metrics_compute(logits, 2, 2, labels, NULL, &metrics), FT_DIVERGED);
    assert_non_null(strstr(ft_error_message(), "example 1"));
    logits[3] = INFINITY;
    assert_int_equal(ft_metrics_compute(logits, 2, 2, labels, NULL, &metrics), FT_DIVERGED);
    assert_null(metrics.confusion);

    assert_int_equal(ft_metric_check(FT_METRIC_F1_BINARY, 2), FT_OK);
    assert_int_equal(ft_metric_check(FT_METRIC_F1_MACRO, 5), FT_OK);
    assert_int_equal(ft_metric_check(FT_METRIC_F1_BINARY, 3), FT_INVALID);
    assert_string_equal(ft_error_where(), "eval.metric");
    assert_int_equal(ft_error_hint_count(), 1);
}

// A loss that overflowed must be seen, not dropped.
static void loss_is_not_filtered(void **state) {
    const float logits[] = {0, 1, 1, 0}, losses[] = {1, INFINITY};
    const int32_t labels[] = {0, 1};
    ft_metrics metrics;
    assert_int_equal(ft_metrics_compute(logits, 2, 2, labels, losses, &metrics), FT_OK);
    assert_true(isinf(metrics.loss));
    ft_metrics_free(&metrics);
}

static void softmax(void **state) {
    double p[3];
    ft_softmax((const float[]){0, 0, 0}, 3, p);
    for (int c = 0; c < 3; c++)
        close_to(p[c], 1.0 / 3);
    ft_softmax((const float[]){1, 2, 3}, 3, p);
    const double total = exp(1) + exp(2) + exp(3);
    for (int c = 0; c < 3; c++)
        close_to(p[c], exp(c + 1) / total);
    ft_softmax((const float[]){3e38f, -3e38f, 3e38f}, 3, p); // far beyond exp's range
    close_to(p[0], 0.5);
    close_to(p[1], 0);
    close_to(p[2], 0.5);
    ft_softmax((const float[]){-1000}, 1, p);
    close_to(p[0], 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_scikit_learn), cmocka_unit_test(confusion_by_hand), cmocka_unit_test(refusals),
        cmocka_unit_test(loss_is_not_filtered), cmocka_unit_test(softmax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
