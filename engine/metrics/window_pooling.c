#include "engine/metrics/window_pooling.h"

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

// The logarithm of what output k of a row says.
typedef double (*reading)(const float *row, int outputs, int k);
static double log_softmax(const float *row, int outputs, int k) { return (double)row[k] - log_of_sum(row, outputs); }
static double log_sigmoid(const float *row, int outputs, int k) { return -softplus(-(double)row[k]); }
static double log_not_sigmoid(const float *row, int outputs, int k) { return -softplus(row[k]); }
static double logit(const float *row, int outputs, int k) { return (double)row[k]; }

static double log_mean(const ft_windows *w, int k, reading logarithm) {
    double sum = logarithm(w->logits, w->outputs, k);
    for (int64_t i = 1; i < w->count; i++) sum = log_add(sum, logarithm(w->logits + i * w->outputs, w->outputs, k));
    return sum - log((double)w->count);
}

static double largest(const ft_windows *w, int k, reading value_of) {
    double most = -INFINITY;
    for (int64_t i = 0; i < w->count; i++) {
        double value = value_of(w->logits + i * w->outputs, w->outputs, k);
        if (value > most || isnan(value)) most = value; // NaN stays: a diverged model is to be seen
    }
    return most;
}

double ft_pool_softmax(const ft_windows *w, ft_window_pooling pooling, int k) {
    return pooling == FT_POOLING_MAX ? largest(w, k, log_softmax) : log_mean(w, k, log_softmax);
}

double ft_pool_sigmoids(const ft_windows *w, ft_window_pooling pooling, int k) {
    return pooling == FT_POOLING_MAX ? largest(w, k, logit) : log_mean(w, k, log_sigmoid) - log_mean(w, k, log_not_sigmoid);
}

double ft_pool_numbers(const ft_windows *w, ft_window_pooling pooling, int k) {
    if (pooling == FT_POOLING_MAX) return largest(w, k, logit);
    double sum = 0;
    for (int64_t i = 0; i < w->count; i++) sum += (double)w->logits[i * w->outputs + k];
    return sum / (double)w->count;
}

void ft_pool_example(const ft_windows *w, ft_pool *pool, ft_window_pooling pooling, float *logits) {
    if (w->count == 1) memcpy(logits, w->logits, (size_t)w->outputs * sizeof *logits);
    else
        for (int k = 0; k < w->outputs; k++) logits[k] = (float)pool(w, pooling, k);
}
