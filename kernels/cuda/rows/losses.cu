// losses.cu - the losses of a few numbers a row: a thread a row, plain loops in double, as on the CPU (kernels/cpu/isa/
// losses.c). A row's gradient may take its logits' place: a thread reads a logit for the last time before it writes
// there.
#include "kernels/cuda/unit.h"

extern "C" {
#include "kernels/ops/losses.h"
}

#include <math.h>

enum { LOSS_ROWS = 64 }; // of a block: few rows, many multiprocessors

namespace {
struct loss_rows {
    ft_view<const float> logits;
    const ft_step_state *step;
    float *losses;
    ft_view<float> dlogits;
    int64_t rows;
    int cols;
};
} // namespace

static loss_rows loss_rows_of(ft_tensor logits, const ft_step_state *step, ft_tensor losses, ft_tensor dlogits) {
    return loss_rows{ft_view_of<const float>(logits), step,        (float *)losses.data,
                     ft_view_of<float>(dlogits),      logits.rows, (int)logits.cols};
}

template <class Body> FT_KERNEL void __launch_bounds__(LOSS_ROWS) losses_kernel(Body body, loss_rows of) {
    const int64_t row = (int64_t)blockIdx.x * LOSS_ROWS + threadIdx.x;
    if (row >= of.rows) return;
    float *d = of.dlogits.data != nullptr ? of.dlogits.at(row, 0) : nullptr;
    const double factor = d != nullptr ? (double)of.step->loss_factor * (double)of.step->loss_scale : 0.0;
    of.losses[row] = (float)body(row, of.logits.at(row, 0), of.cols, factor, d);
}

template <class Body> static ft_status run(const char *op, ft_device *device, Body body, const loss_rows &of) {
    if (of.rows == 0) return FT_OK;
    return ft_launch(op, losses_kernel<Body>, dim3((unsigned)((of.rows + LOSS_ROWS - 1) / LOSS_ROWS)), dim3(LOSS_ROWS),
                     0, ft_stream(device), body, of);
}

// ---- softmax ------------------------------------------------------------------------------------------------------

struct weighted_cross_entropy_body {
    const int32_t *labels, *other;
    const float *shares, *weights;
    float smoothing, gamma;

    FT_METHOD double weight(int c) const { return weights != nullptr ? (double)weights[c] : 1.0; }
    FT_METHOD double operator()(int64_t row, const float *x, int classes, double factor, float *d) const {
        const int y = labels[row];
        double most = (double)x[0], others = 0;
        for (int c = 1; c < classes; c++)
            most = fmax(most, (double)x[c]); // a NaN is lost here but not in the sum
        for (int c = 0; c < classes; c++)
            if (c != y) others += exp((double)x[c] - most);
        const double of_label = exp((double)x[y] - most), sum = others + of_label;
        const double log_sum = log(sum) + most, log_p = (double)x[y] - log_sum;
        const double p = of_label / sum, q = others / sum; // q = 1 - p without cancellation
        if (gamma > 0) {
            const double g = (double)gamma, damped = pow(q, g);
            const double slope = q > 0 ? weight(y) * (damped - g * pow(q, g - 1) * p * log_p) : 0; // -dloss/dp * p
            for (int c = 0; d != nullptr && c < classes; c++)
                d[c] = (float)(slope * (c == y ? -q : exp((double)x[c] - most) / sum) * factor);
            return weight(y) * damped * -log_p;
        }
        const double share = (double)smoothing / (double)classes;
        const int o = other != nullptr ? other[row] : y;
        const double of_y = other != nullptr ? (1 - (double)smoothing) * (double)shares[row] * weight(y) : (1 - (double)smoothing) * weight(y);
        const double of_o = other != nullptr ? (1 - (double)smoothing) * (1 - (double)shares[row]) * weight(o) : 0;
        const double loss_of_o = of_o > 0 ? of_o * (log_sum - (double)x[o]) : 0; // d may be x
        double all = 0, spread = 0;
        for (int c = 0; smoothing > 0 && c < classes; c++) {
            all += weight(c);
            spread += weight(c) * (log_sum - (double)x[c]);
        }
        for (int c = 0; d != nullptr && c < classes; c++) {
            const double p_c = exp((double)x[c] - most) / sum;
            double towards = of_y * (c == y ? -q : p_c);
            if (of_o > 0) towards += of_o * (c == o ? (c == y ? -q : p_c - 1) : p_c);
            d[c] = (float)((towards + share * (all * p_c - weight(c))) * factor);
        }
        return of_y * -log_p + share * spread + loss_of_o;
    }
};

ft_status ft_cuda_weighted_cross_entropy(ft_device *device, const ft_weighted_cross_entropy_args *a) {
    weighted_cross_entropy_body body = {a->labels, a->other, a->share, (const float *)a->class_weight.data, a->smoothing, a->gamma};
    return run("weighted_cross_entropy", device, body, loss_rows_of(a->logits, a->step, a->losses, a->dlogits));
}

// ---- sigmoids -----------------------------------------------------------------------------------------------------

struct binary_cross_entropy_body {
    ft_view<const float> targets;
    const float *weights;
    float gamma;

    // The loss of a target 1 at logit x, and its derivative; of a target 0 that of -x, with the sign turned.
    FT_METHOD double of_one(double x, double *derivative) const {
        const double e = exp(-fabs(x)), p = x >= 0 ? 1 / (1 + e) : e / (1 + e), q = x >= 0 ? e / (1 + e) : 1 / (1 + e);
        const double minus_log_p = log1p(e) + (x < 0 ? -x : 0), g = (double)gamma;
        const double damped = g > 0 ? pow(q, g) : 1;
        *derivative = -damped * (g * p * minus_log_p + q);
        return damped * minus_log_p;
    }
    FT_METHOD double operator()(int64_t row, const float *x, int labels, double factor, float *d) const {
        const float *t = targets.at(row, 0);
        double sum = 0;
        for (int c = 0; c < labels; c++) {
            const double target = (double)t[c], weight = weights != nullptr ? (double)weights[c] * target : target;
            double up, down;
            const double positive = of_one((double)x[c], &up), negative = of_one(-(double)x[c], &down);
            sum += weight * positive + (1 - target) * negative;
            if (d != nullptr) d[c] = (float)((weight * up - (1 - target) * down) / (double)labels * factor);
        }
        return sum / (double)labels;
    }
};

ft_status ft_cuda_binary_cross_entropy(ft_device *device, const ft_binary_cross_entropy_args *a) {
    binary_cross_entropy_body body = {ft_view_of<const float>(a->targets), (const float *)a->positive_weight.data,
                                      a->gamma};
    return run("binary_cross_entropy", device, body, loss_rows_of(a->logits, a->step, a->losses, a->dlogits));
}

// ---- squares ------------------------------------------------------------------------------------------------------

struct squared_error_body {
    ft_view<const float> targets;
    FT_METHOD double operator()(int64_t row, const float *x, int count, double factor, float *d) const {
        const float *t = targets.at(row, 0);
        double sum = 0;
        for (int c = 0; c < count; c++) {
            const double off = (double)x[c] - (double)t[c];
            sum += off * off;
            if (d != nullptr) d[c] = (float)(2 * off / (double)count * factor);
        }
        return sum / (double)count;
    }
};

ft_status ft_cuda_squared_error(ft_device *device, const ft_squared_error_args *a) {
    squared_error_body body = {ft_view_of<const float>(a->targets)};
    return run("squared_error", device, body, loss_rows_of(a->logits, a->step, a->losses, a->dlogits));
}
