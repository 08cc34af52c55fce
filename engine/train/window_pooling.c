#include "engine/train/window_pooling.h"

#include <math.h>
#include <string.h>

// log(exp(a) + exp(b)) of finite numbers; NaN stays NaN.
static double log_add(double a, double b) { return (a > b ? a : b) + log1p(exp(-fabs(a - b))); }

// log(1 + exp(x)), which is minus the logarithm of sigmoid(-x)
static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

static double log_of_sum(const float *row, int outputs) {
    double sum = row[0];
    for (int k = 1; k < outputs; k++) sum = log_add(sum, row[k]);
    return sum;
}

// Windows [first, last) of one text, output k, each as `logarithm` has it: the logarithm of their mean, or the largest.
typedef double (*reading)(const float *row, int outputs, int k);
static double log_softmax(const float *row, int outputs, int k) { return (double)row[k] - log_of_sum(row, outputs); }
static double log_sigmoid(const float *row, int outputs, int k) { return -softplus(-(double)row[k]); }
static double log_not_sigmoid(const float *row, int outputs, int k) { return -softplus(row[k]); }

static double log_mean(const float *windows, int64_t first, int64_t last, int outputs, int k, reading logarithm) {
    double sum = logarithm(windows + first * outputs, outputs, k);
    for (int64_t w = first + 1; w < last; w++) sum = log_add(sum, logarithm(windows + w * outputs, outputs, k));
    return sum - log((double)(last - first));
}

static double largest(const float *windows, int64_t first, int64_t last, int outputs, int k, bool of_softmax) {
    double most = -INFINITY;
    for (int64_t w = first; w < last; w++) {
        const float *row = windows + w * outputs;
        double value = of_softmax ? log_softmax(row, outputs, k) : (double)row[k];
        if (value > most || isnan(value)) most = value; // NaN stays: a diverged model is to be seen
    }
    return most;
}

static double pooled(ft_task task, int outputs, ft_window_pooling pooling, const float *windows, int64_t first, int64_t last, int k) {
    if (pooling == FT_POOLING_MAX) return largest(windows, first, last, outputs, k, task == FT_TASK_SINGLE_LABEL);
    if (task == FT_TASK_SINGLE_LABEL) return log_mean(windows, first, last, outputs, k, log_softmax);
    if (task == FT_TASK_MULTI_LABEL)
        return log_mean(windows, first, last, outputs, k, log_sigmoid) - log_mean(windows, first, last, outputs, k, log_not_sigmoid);
    double sum = 0;
    for (int64_t w = first; w < last; w++) sum += (double)windows[w * outputs + k];
    return sum / (double)(last - first);
}

void ft_pool_windows(const ft_dataset *data, ft_task task, int outputs, ft_window_pooling pooling, const float *windows,
                     float *logits) {
    for (int64_t first = 0, last; first < data->sequences; first = last) {
        const int64_t example = ft_dataset_example(data, first);
        for (last = first + 1; last < data->sequences && ft_dataset_example(data, last) == example;) last++;
        float *row = logits + example * outputs;
        if (last == first + 1) memcpy(row, windows + first * outputs, (size_t)outputs * sizeof *row);
        else
            for (int k = 0; k < outputs; k++) row[k] = (float)pooled(task, outputs, pooling, windows, first, last, k);
    }
}
