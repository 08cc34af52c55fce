// Temperatures and thresholds: the best there are, by trying others.
#include "engine/metrics/decision.h"
#include "engine/tasks/tasks.h"
#include "kernels/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

enum { N = 400, OUTPUTS = 3 };
static float logits[N * OUTPUTS], doubled[N * OUTPUTS], targets[N * OUTPUTS];
static int32_t labels[N];

static double uniform(uint64_t i) { return (double)(ft_splitmix64(i) >> 11) * 0x1p-53; }

static const ft_scoring *scoring(ft_task task) { return &ft_task_spec_of(task)->scoring; }

// Labels drawn from the probabilities of the logits: calibrated as they are, in the mean.
static ft_scores make(ft_task task, int outputs) {
    for (int i = 0; i < N; i++) {
        double p[OUTPUTS], sum = 0, u = uniform(7000 + (uint64_t)i);
        for (int c = 0; c < outputs; c++) {
            logits[i * outputs + c] = (float)(4 * uniform((uint64_t)(i * outputs + c)) - 2);
            doubled[i * outputs + c] = 2 * logits[i * outputs + c];
        }
        scoring(task)->probabilities(logits + i * outputs, outputs, p);
        labels[i] = outputs - 1;
        for (int c = outputs - 1; c >= 0; c--) {
            sum += p[c];
            if (u < sum && labels[i] == outputs - 1 && u >= sum - p[c]) labels[i] = c;
            targets[i * outputs + c] = uniform(9000 + (uint64_t)(i * outputs + c)) < p[c];
        }
    }
    return (ft_scores){.scoring = scoring(task), .n = N, .outputs = outputs, .logits = logits, .labels = labels, .targets = targets};
}

static double loss_at(ft_scores s, double temperature) {
    float scaled[N * OUTPUTS];
    for (int i = 0; i < N * s.outputs; i++) scaled[i] = (float)((double)s.logits[i] / temperature);
    double sum = 0, p[OUTPUTS];
    for (int i = 0; i < N; i++) {
        s.scoring->probabilities(scaled + i * s.outputs, s.outputs, p);
        if (s.scoring == scoring(FT_TASK_SINGLE_LABEL)) sum -= log(p[s.labels[i]]);
        for (int c = 0; c < s.outputs && s.scoring == scoring(FT_TASK_MULTI_LABEL); c++)
            sum -= log(s.targets[i * s.outputs + c] > 0.5f ? p[c] : 1 - p[c]);
    }
    return sum / N;
}

static void temperatures(void **state) {
    for (int several = 0; several < 2; several++) {
        ft_scores s = make(several ? FT_TASK_MULTI_LABEL : FT_TASK_SINGLE_LABEL, OUTPUTS);
        double t = ft_fit_temperature(&s), least = loss_at(s, t);
        assert_true(t > 0.8 && t < 1.25);
        for (double other = 0.5; other < 2; other *= 1.02) assert_true(loss_at(s, other) >= least - 1e-9);
        s.logits = doubled;
        assert_true(fabs(ft_fit_temperature(&s) / t - 2) < 1e-4);
    }
    // Never wrong: as sharp as it gets, not infinite.
    const float sure[] = {1, 0, 0, 1};
    const int32_t right[] = {0, 1};
    const ft_scores never = {.scoring = scoring(FT_TASK_SINGLE_LABEL), .n = 2, .outputs = 2, .logits = sure, .labels = right};
    double t = ft_fit_temperature(&never);
    assert_true(t > 0.049 && t < 0.051);
}

static double value_at(ft_scores s, const double *threshold, ft_metric metric, int label) {
    ft_metrics m;
    s.threshold = threshold;
    assert_int_equal(ft_metrics_compute(&s, &m), FT_OK);
    double value = label >= 0 ? m.f1[label] : ft_metric_value(&m, metric);
    ft_metrics_free(&m);
    return value;
}

static void thresholds_of_two_classes(void **state) {
    ft_scores s = make(FT_TASK_SINGLE_LABEL, 2);
    static const ft_metric metrics[] = {FT_METRIC_ACCURACY, FT_METRIC_BALANCED_ACCURACY, FT_METRIC_F1_MACRO,
                                        FT_METRIC_MATTHEWS, FT_METRIC_COHEN_KAPPA,       FT_METRIC_F1_BINARY};
    for (size_t k = 0; k < sizeof metrics / sizeof *metrics; k++) {
        double threshold;
        assert_int_equal(ft_fit_thresholds(&s, metrics[k], &threshold), FT_OK);
        double best = value_at(s, &threshold, metrics[k], -1);
        for (double other = 0.002; other < 1; other += 0.002) assert_true(value_at(s, &other, metrics[k], -1) <= best + 1e-12);
    }
    double by_loss, by_f1; // what a threshold does not change is not what it is tuned for
    assert_int_equal(ft_fit_thresholds(&s, FT_METRIC_LOSS, &by_loss), FT_OK);
    assert_int_equal(ft_fit_thresholds(&s, FT_METRIC_F1_BINARY, &by_f1), FT_OK);
    assert_true(by_loss == by_f1);
}

static void thresholds_of_labels(void **state) {
    ft_scores s = make(FT_TASK_MULTI_LABEL, OUTPUTS);
    for (int i = 0; i < N; i++) targets[i * OUTPUTS + 2] = 0;
    double threshold[OUTPUTS];
    assert_int_equal(ft_fit_thresholds(&s, FT_METRIC_ACCURACY, threshold), FT_OK);
    assert_true(threshold[2] == 0.5); // never positive
    for (int c = 0; c < 2; c++) {
        double best = value_at(s, threshold, FT_METRIC_LOSS, c);
        for (double other = 0.005; other < 1; other += 0.005) {
            double tried[OUTPUTS] = {0.5, 0.5, 0.5};
            tried[c] = other;
            assert_true(value_at(s, tried, FT_METRIC_LOSS, c) <= best + 1e-12);
        }
    }
    assert_int_equal(ft_threshold_count(scoring(FT_TASK_SINGLE_LABEL), 3), 0);
    assert_int_equal(ft_threshold_count(scoring(FT_TASK_REGRESSION), 2), 0);
    assert_int_equal(ft_decide_class((const double[]){0.7, 0.3}, 2, (const double[]){0.3}), 1);
    assert_int_equal(ft_decide_class((const double[]){0.5, 0.5}, 2, NULL), 0);
    assert_true(ft_decide_label((const double[]){0.5}, 0, NULL) && !ft_decide_label((const double[]){0.5}, 0, (const double[]){0.6}));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(temperatures), cmocka_unit_test(thresholds_of_two_classes),
                                       cmocka_unit_test(thresholds_of_labels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
