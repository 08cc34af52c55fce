// Losses of a few numbers a row, beside products that cost thousands of times as much: plain loops in double, the same for
// every instruction set.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/ops/losses.h"

#include <math.h>

typedef void (*row_function)(const void *args, int64_t row, double factor);

typedef struct losses_job {
    const void *args;
    row_function row;
    const ft_step_state *step;
    int64_t rows;
    int shares;
} losses_job;

static void losses_task(void *context, int task, int thread) {
    const losses_job *job = context;
    int64_t first, last;
    ft_share(job->rows, 1, job->shares, task, &first, &last);
    double factor = job->step ? (double)job->step->loss_factor * (double)job->step->loss_scale : 0;
    for (int64_t row = first; row < last; row++) job->row(job->args, row, factor);
}

static ft_status run(ft_device *device, const void *args, row_function row, ft_tensor logits, const ft_step_state *step) {
    const ft_cpu *cpu = ft_cpu_of(device);
    losses_job job = {args, row, step, logits.rows, ft_shares(cpu, logits.rows, logits.rows * logits.cols * 40)};
    ft_pool_run(cpu->pool, job.shares, losses_task, &job);
    return FT_OK;
}

// ---- softmax ------------------------------------------------------------------------------------------------------

// d may be x: the gradient of a class is written when its logit was read for the last time.
static void cross_entropy_row(const void *context, int64_t row, double factor) {
    const ft_weighted_cross_entropy_args *a = context;
    const float *x = ft_row(a->logits, row), *w = a->class_weight.data;
    float *d = ft_row_if(a->dlogits, row);
    const int64_t classes = a->logits.cols, y = a->labels[row];
    double most = (double)x[0], others = 0, of_label;
    for (int64_t c = 1; c < classes; c++) most = fmax(most, (double)x[c]); // a NaN is lost here but not in the sum
    for (int64_t c = 0; c < classes; c++)
        if (c != y) others += exp((double)x[c] - most);
    of_label = exp((double)x[y] - most);
    const double sum = others + of_label, log_sum = log(sum) + most, log_p = (double)x[y] - log_sum;
    const double p = of_label / sum, q = others / sum, weight = w ? (double)w[y] : 1; // q = 1 - p without cancellation
    double loss;
    if (a->gamma > 0) {
        const double gamma = (double)a->gamma, damped = pow(q, gamma);
        loss = weight * damped * -log_p;
        // -dloss/dp * p; of q = 0 nothing is left of either term
        const double slope = q > 0 ? weight * (damped - gamma * pow(q, gamma - 1) * p * log_p) : 0;
        for (int64_t c = 0; d && c < classes; c++)
            d[c] = (float)(slope * (c == y ? -q : exp((double)x[c] - most) / sum) * factor);
    } else {
        const double s = (double)a->smoothing, share = s / (double)classes;
        double all = 0, spread = 0;
        for (int64_t c = 0; s > 0 && c < classes; c++) {
            double of_class = w ? (double)w[c] : 1;
            all += of_class;
            spread += of_class * (log_sum - (double)x[c]);
        }
        const int64_t o = a->other ? a->other[row] : y;
        const double own = a->other ? (1 - s) * (double)a->share[row] * weight : (1 - s) * weight;
        const double rest = a->other ? (1 - s) * (1 - (double)a->share[row]) * (w ? (double)w[o] : 1) : 0;
        loss = own * -log_p + share * spread;
        if (rest > 0) loss += rest * (log_sum - (double)x[o]);
        for (int64_t c = 0; d && c < classes; c++) {
            double of_class = w ? (double)w[c] : 1, p_c = exp((double)x[c] - most) / sum;
            double towards = own * (c == y ? -q : p_c);
            if (rest > 0) towards += rest * (c == o ? (c == y ? -q : p_c - 1) : p_c);
            d[c] = (float)((towards + share * (all * p_c - of_class)) * factor);
        }
    }
    ((float *)a->losses.data)[row] = (float)loss;
}

FT_ISA_OP(weighted_cross_entropy) {
    FT_TRY(ft_weighted_cross_entropy_check(&ft_cpu_of(device)->target, args));
    return run(device, args, cross_entropy_row, args->logits, args->step);
}

// ---- sigmoids -----------------------------------------------------------------------------------------------------

// The loss of a target 1 at logit x, and its derivative; of a target 0 that of -x, with the sign turned.
static double binary_loss(double x, double gamma, double *derivative) {
    const double e = exp(-fabs(x)), p = x >= 0 ? 1 / (1 + e) : e / (1 + e), q = x >= 0 ? e / (1 + e) : 1 / (1 + e);
    const double minus_log_p = log1p(e) + (x < 0 ? -x : 0);
    const double damped = gamma > 0 ? pow(q, gamma) : 1;
    *derivative = -damped * (gamma * p * minus_log_p + q);
    return damped * minus_log_p;
}

static void binary_row(const void *context, int64_t row, double factor) {
    const ft_binary_cross_entropy_args *a = context;
    const float *x = ft_row(a->logits, row), *t = ft_row(a->targets, row), *v = a->positive_weight.data;
    float *d = ft_row_if(a->dlogits, row);
    const int64_t labels = a->logits.cols;
    double sum = 0;
    for (int64_t c = 0; c < labels; c++) {
        double up, down, target = (double)t[c], weight = v ? (double)v[c] * target : target;
        double positive = binary_loss((double)x[c], (double)a->gamma, &up), negative = binary_loss(-(double)x[c], (double)a->gamma, &down);
        sum += weight * positive + (1 - target) * negative;
        if (d) d[c] = (float)((weight * up - (1 - target) * down) / (double)labels * factor);
    }
    ((float *)a->losses.data)[row] = (float)(sum / (double)labels);
}

FT_ISA_OP(binary_cross_entropy) {
    FT_TRY(ft_binary_cross_entropy_check(&ft_cpu_of(device)->target, args));
    return run(device, args, binary_row, args->logits, args->step);
}

// ---- squares ------------------------------------------------------------------------------------------------------

static void squares_row(const void *context, int64_t row, double factor) {
    const ft_squared_error_args *a = context;
    const float *x = ft_row(a->logits, row), *t = ft_row(a->targets, row);
    float *d = ft_row_if(a->dlogits, row);
    const int64_t targets = a->logits.cols;
    double sum = 0;
    for (int64_t c = 0; c < targets; c++) {
        double off = (double)x[c] - (double)t[c];
        sum += off * off;
        if (d) d[c] = (float)(2 * off / (double)targets * factor);
    }
    ((float *)a->losses.data)[row] = (float)(sum / (double)targets);
}

FT_ISA_OP(squared_error) {
    FT_TRY(ft_squared_error_check(&ft_cpu_of(device)->target, args));
    return run(device, args, squares_row, args->logits, args->step);
}
