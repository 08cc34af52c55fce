#include "engine/train/metrics.h"

#include "kernels/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ft_status ft_metric_check(ft_metric metric, int classes) {
    if (metric != FT_METRIC_F1_BINARY || classes == 2) return FT_OK;
    ft_status status = ft_fail(FT_INVALID, "eval.metric", "f1_binary is for two classes, this task has %d", classes);
    ft_hint("f1_macro or f1_micro work for any number of classes");
    return status;
}

int ft_argmax(const float *logits, int classes) {
    int best = 0;
    for (int c = 1; c < classes; c++)
        if (logits[c] > logits[best]) best = c;
    return best;
}

void ft_softmax(const float *logits, int classes, double *probabilities) {
    double largest = logits[ft_argmax(logits, classes)], sum = 0;
    for (int c = 0; c < classes; c++)
        sum += probabilities[c] = exp(logits[c] - largest);
    for (int c = 0; c < classes; c++)
        probabilities[c] /= sum;
}

static ft_status allocate(ft_metrics *metrics, int classes) {
    size_t count = (size_t)classes;
    if (count > SIZE_MAX / count / sizeof(int64_t)) return ft_fail_memory(SIZE_MAX, "a confusion matrix");
    metrics->confusion = ft_calloc(count * count, sizeof *metrics->confusion, "a confusion matrix");
    metrics->support = ft_calloc(count, sizeof *metrics->support, "metrics");
    metrics->predicted = ft_calloc(count, sizeof *metrics->predicted, "metrics");
    metrics->precision = ft_calloc(count, sizeof *metrics->precision, "metrics");
    metrics->recall = ft_calloc(count, sizeof *metrics->recall, "metrics");
    metrics->f1 = ft_calloc(count, sizeof *metrics->f1, "metrics");
    return metrics->confusion && metrics->support && metrics->predicted && metrics->precision && metrics->recall &&
                   metrics->f1
               ? FT_OK
               : FT_NO_MEMORY;
}

static ft_status count_predictions(const float *logits, int64_t n, int classes, const int32_t *labels,
                                   ft_metrics *metrics) {
    for (int64_t i = 0; i < n; i++) {
        const float *row = logits + i * classes;
        for (int c = 0; c < classes; c++)
            if (!isfinite(row[c]))
                return ft_fail(FT_DIVERGED, NULL, "the logits of example %lld are not finite", (long long)i);
        if (labels[i] < 0 || labels[i] >= classes)
            return ft_fail(FT_FAILED, NULL, "label %d of example %lld is none of %d classes", labels[i], (long long)i,
                           classes);
        int prediction = ft_argmax(row, classes);
        metrics->confusion[(int64_t)labels[i] * classes + prediction]++;
        metrics->support[labels[i]]++;
        metrics->predicted[prediction]++;
    }
    return FT_OK;
}

static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

static void derive(ft_metrics *metrics) {
    int classes = metrics->classes, occurring = 0;
    double n = (double)metrics->examples, correct = 0, f1_sum = 0;
    // Matthews for any number of classes: the correlation of label and prediction, from counts. The products of the two
    // margins, the squares of the labels' and of the predictions' margin.
    double crossed = 0, labels_squared = 0, predictions_squared = 0;
    for (int c = 0; c < classes; c++) {
        double hit = (double)metrics->confusion[(int64_t)c * classes + c];
        double support = (double)metrics->support[c], predicted = (double)metrics->predicted[c];
        metrics->precision[c] = ratio(hit, predicted);
        metrics->recall[c] = ratio(hit, support);
        metrics->f1[c] = ratio(2 * hit, support + predicted);
        if (support + predicted > 0) {
            occurring++;
            f1_sum += metrics->f1[c];
        }
        correct += hit;
        crossed += support * predicted;
        labels_squared += support * support;
        predictions_squared += predicted * predicted;
    }
    metrics->accuracy = correct / n;
    metrics->f1_micro =
        metrics->accuracy; // one label an example: each false positive is another class's false negative
    metrics->f1_macro = f1_sum / occurring;
    metrics->f1_binary = classes == 2 ? metrics->f1[1] : NAN;
    double spread = (n * n - labels_squared) * (n * n - predictions_squared);
    metrics->matthews = spread > 0 ? (correct * n - crossed) / sqrt(spread) : 0;
}

ft_status ft_metrics_compute(const float *logits, int64_t n, int classes, const int32_t *labels, const float *losses,
                             ft_metrics *metrics) {
    memset(metrics, 0, sizeof *metrics);
    if (n < 1 || classes < 1)
        return ft_fail(FT_INVALID, NULL, "no metrics of %lld examples in %d classes", (long long)n, classes);
    metrics->examples = n;
    metrics->classes = classes;
    ft_status status = allocate(metrics, classes);
    if (status == FT_OK) status = count_predictions(logits, n, classes, labels, metrics);
    if (status != FT_OK) {
        ft_metrics_free(metrics);
        return status;
    }
    derive(metrics);
    double sum = losses != NULL ? 0 : NAN;
    for (int64_t i = 0; losses != NULL && i < n; i++)
        sum += losses[i];
    metrics->loss = sum / (double)n;
    return FT_OK;
}

void ft_metrics_free(ft_metrics *metrics) {
    free(metrics->confusion);
    free(metrics->support);
    free(metrics->predicted);
    free(metrics->precision);
    free(metrics->recall);
    free(metrics->f1);
    memset(metrics, 0, sizeof *metrics);
}

double ft_metric_value(const ft_metrics *metrics, ft_metric metric) {
    switch (metric) {
    case FT_METRIC_LOSS: return metrics->loss;
    case FT_METRIC_ACCURACY: return metrics->accuracy;
    case FT_METRIC_F1_MACRO: return metrics->f1_macro;
    case FT_METRIC_F1_MICRO: return metrics->f1_micro;
    case FT_METRIC_F1_BINARY: return metrics->f1_binary;
    case FT_METRIC_MATTHEWS: return metrics->matthews;
    case FT_METRIC_COUNT: break;
    }
    return NAN;
}
