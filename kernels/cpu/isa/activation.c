// y = act(x + bias) and its gradient.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/bf16_lanes.h"
#include "kernels/cpu/isa/tiles/activation_function.h"
#include "kernels/ops/backend.h"

// ---- a stretch of one row -------------------------------------------------------------------------------------------

FT_VEC void forward_16(ft_activation kind, const float *x, const float *bias, float *h, float *y, int64_t n) {
    v16 a = v_load_any(x, n), slope;
    if (bias) a = v_add(a, v_load_any(bias, n));
    if (h) v_store_any(h, a, n);
    v_store_any(y, activation_value(kind, a, &slope), n);
}
FT_VEC void forward_row(ft_activation kind, const float *x, const float *bias, float *h, float *y, int64_t n) {
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES)
        forward_16(kind, x + i, bias ? bias + i : NULL, h ? h + i : NULL, y + i, FT_LANES);
    if (i < n) forward_16(kind, x + i, bias ? bias + i : NULL, h ? h + i : NULL, y + i, n - i);
}

FT_VEC void backward_16(ft_activation kind, const float *h, const float *dy, float *dx, float *y, float *dbias,
                        int64_t n) {
    v16 slope, value = activation_value(kind, v_load_any(h, n), &slope);
    v16 d = v_mul(v_load_any(dy, n), slope);
    v_store_any(dx, d, n);
    if (y) v_store_any(y, value, n);
    if (dbias) v_store_any(dbias, v_add(v_load_any(dbias, n), d), n);
}
FT_VEC void backward_row(ft_activation kind, const float *h, const float *dy, float *dx, float *y, float *dbias,
                         int64_t n) {
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES)
        backward_16(kind, h + i, dy + i, dx + i, y ? y + i : NULL, dbias ? dbias + i : NULL, FT_LANES);
    if (i < n) backward_16(kind, h + i, dy + i, dx + i, y ? y + i : NULL, dbias ? dbias + i : NULL, n - i);
}

// One compiled loop a kind.
typedef void forward_fn(const float *x, const float *bias, float *h, float *y, int64_t n);
typedef void backward_fn(const float *h, const float *dy, float *dx, float *y, float *dbias, int64_t n);
#define KIND(name, kind)                                                                                               \
    static void name##_forward(const float *x, const float *bias, float *h, float *y, int64_t n) {                     \
        forward_row(kind, x, bias, h, y, n);                                                                           \
    }                                                                                                                  \
    static void name##_backward(const float *h, const float *dy, float *dx, float *y, float *dbias, int64_t n) {       \
        backward_row(kind, h, dy, dx, y, dbias, n);                                                                    \
    }
KIND(identity, FT_ACT_IDENTITY)
KIND(gelu, FT_ACT_GELU)
KIND(gelu_tanh, FT_ACT_GELU_TANH)
KIND(relu, FT_ACT_RELU)
KIND(tanh, FT_ACT_TANH)
KIND(silu, FT_ACT_SILU)
KIND(quick_gelu, FT_ACT_QUICK_GELU)
KIND(mish, FT_ACT_MISH)
KIND(gelu_10, FT_ACT_GELU_10)
KIND(sigmoid, FT_ACT_SIGMOID)
KIND(leaky_relu, FT_ACT_LEAKY_RELU)
KIND(relu6, FT_ACT_RELU6)
KIND(hardswish, FT_ACT_HARDSWISH)
KIND(laplace, FT_ACT_LAPLACE)
KIND(sqrtsoftplus, FT_ACT_SQRTSOFTPLUS)
static forward_fn *const forward_of[FT_ACT_COUNT] = {
    [FT_ACT_IDENTITY] = identity_forward,
    [FT_ACT_GELU] = gelu_forward,
    [FT_ACT_GELU_TANH] = gelu_tanh_forward,
    [FT_ACT_RELU] = relu_forward,
    [FT_ACT_TANH] = tanh_forward,
    [FT_ACT_SILU] = silu_forward,
    [FT_ACT_QUICK_GELU] = quick_gelu_forward,
    [FT_ACT_MISH] = mish_forward,
    [FT_ACT_GELU_10] = gelu_10_forward,
    [FT_ACT_SIGMOID] = sigmoid_forward,
    [FT_ACT_LEAKY_RELU] = leaky_relu_forward,
    [FT_ACT_RELU6] = relu6_forward,
    [FT_ACT_HARDSWISH] = hardswish_forward,
    [FT_ACT_LAPLACE] = laplace_forward,
    [FT_ACT_SQRTSOFTPLUS] = sqrtsoftplus_forward,
};
static backward_fn *const backward_of[FT_ACT_COUNT] = {
    [FT_ACT_IDENTITY] = identity_backward,
    [FT_ACT_GELU] = gelu_backward,
    [FT_ACT_GELU_TANH] = gelu_tanh_backward,
    [FT_ACT_RELU] = relu_backward,
    [FT_ACT_TANH] = tanh_backward,
    [FT_ACT_SILU] = silu_backward,
    [FT_ACT_QUICK_GELU] = quick_gelu_backward,
    [FT_ACT_MISH] = mish_backward,
    [FT_ACT_GELU_10] = gelu_10_backward,
    [FT_ACT_SIGMOID] = sigmoid_backward,
    [FT_ACT_LEAKY_RELU] = leaky_relu_backward,
    [FT_ACT_RELU6] = relu6_backward,
    [FT_ACT_HARDSWISH] = hardswish_backward,
    [FT_ACT_LAPLACE] = laplace_backward,
    [FT_ACT_SQRTSOFTPLUS] = sqrtsoftplus_backward,
};

// ---- the ops --------------------------------------------------------------------------------------------------------

typedef struct forward_job {
    const ft_activation_forward_args *args;
    int shares;
} forward_job;

static void forward_task(void *context, int task, int thread) {
    const forward_job *job = context;
    const ft_activation_forward_args *a = job->args;
    int64_t first, last;
    ft_share(a->x.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++)
        forward_of[a->kind](ft_row(a->x, row), a->bias.data, ft_row_if(a->h, row), ft_row(a->y, row), a->x.cols);
}

// Rows of bf16 are widened and rounded a stretch at a time, which stays in the first-level cache.
enum { STRETCH = 512 };
static int64_t stretch_of(int64_t left) { return left < STRETCH ? left : STRETCH; }

static void forward_half_task(void *context, int task, int thread) {
    const forward_job *job = context;
    const ft_activation_forward_args *a = job->args;
    _Alignas(64) float wide[STRETCH], wide_bias[STRETCH], wide_h[STRETCH], wide_y[STRETCH];
    int64_t first, last;
    ft_share(a->x.rows, 1, job->shares, task, &first, &last);
    for (int64_t c = 0, n; c < a->x.cols; c += n) {
        n = stretch_of(a->x.cols - c);
        const float *bias = v_widened(lanes_of(a->bias, 0, true), c, n, wide_bias);
        for (int64_t row = first; row < last; row++) {
            const lane_row h = lanes_of(a->h, row, true);
            forward_of[a->kind](v_widened(lanes_of(a->x, row, true), c, n, wide), bias, h.x ? wide_h : NULL, wide_y, n);
            v_rounded(h, c, n, wide_h);
            v_rounded(lanes_of(a->y, row, true), c, n, wide_y);
        }
    }
}

FT_ISA_OP(activation_forward) {
    int64_t rows = args->x.rows, cols = args->x.cols;
    FT_TRY(ft_activation_forward_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    forward_job job = {args, ft_shares(cpu, rows, rows * cols)};
    ft_pool_run(cpu->pool, job.shares, args->x.dtype == FT_BF16 ? forward_half_task : forward_task, &job);
    return FT_OK;
}

typedef struct backward_job {
    const ft_activation_backward_args *args;
    int shares;
} backward_job;

// With dbias a share is a range of columns, whose chains it then owns; else one of rows, which is kinder to the caches.
typedef struct part {
    int64_t row, last_row, col, last_col;
} part;
static part part_of(const backward_job *job, int task) {
    const ft_activation_backward_args *a = job->args;
    part p = {0, a->h.rows, 0, a->h.cols};
    if (a->dbias.data)
        ft_share(a->h.cols, FT_COLUMN_GRAIN, job->shares, task, &p.col, &p.last_col);
    else
        ft_share(a->h.rows, 1, job->shares, task, &p.row, &p.last_row);
    return p;
}

static void backward_task(void *context, int task, int thread) {
    const backward_job *job = context;
    const ft_activation_backward_args *a = job->args;
    const part p = part_of(job, task);
    float *dbias = a->dbias.data ? (float *)a->dbias.data + p.col : NULL;
    for (int64_t row = p.row; row < p.last_row; row++)
        backward_of[a->kind](ft_row(a->h, row) + p.col, ft_row(a->dy, row) + p.col, ft_row(a->dx, row) + p.col,
                             a->y.data ? ft_row(a->y, row) + p.col : NULL, dbias, p.last_col - p.col);
}

static void backward_half_task(void *context, int task, int thread) {
    const backward_job *job = context;
    const ft_activation_backward_args *a = job->args;
    const part p = part_of(job, task);
    _Alignas(64) float wide_h[STRETCH], wide_dy[STRETCH], wide_dx[STRETCH], wide_y[STRETCH];
    for (int64_t c = p.col, n; c < p.last_col; c += n) {
        n = stretch_of(p.last_col - c);
        float *dbias = a->dbias.data ? (float *)a->dbias.data + c : NULL;
        for (int64_t row = p.row; row < p.last_row; row++) {
            const lane_row y = lanes_of(a->y, row, true);
            backward_of[a->kind](v_widened(lanes_of(a->h, row, true), c, n, wide_h),
                                 v_widened(lanes_of(a->dy, row, true), c, n, wide_dy), wide_dx, y.x ? wide_y : NULL, dbias, n);
            v_rounded(lanes_of(a->dx, row, true), c, n, wide_dx);
            v_rounded(y, c, n, wide_y);
        }
    }
}

FT_ISA_OP(activation_backward) {
    int64_t rows = args->h.rows, cols = args->h.cols;
    FT_TRY(ft_activation_backward_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    int64_t units = args->dbias.data ? (cols + FT_COLUMN_GRAIN - 1) / FT_COLUMN_GRAIN : rows;
    backward_job job = {args, ft_shares(cpu, units, rows * cols)};
    ft_pool_run(cpu->pool, job.shares, args->h.dtype == FT_BF16 ? backward_half_task : backward_task, &job);
    return FT_OK;
}

// Two ops, each as the device has it in that type.
FT_ISA_OP(product_activation) {
    FT_TRY(ft_product_activation_check(&ft_cpu_of(device)->target, args));
    const ft_gemm_args product = ft_product_activation_product(args);
    const ft_activation_forward_args rest = ft_product_activation_rest(args);
    FT_TRY(FT_RUN(device, gemm, &product));
    return FT_RUN(device, activation_forward, &rest);
}

FT_ISA_OP(product_slope) {
    FT_TRY(ft_product_slope_check(&ft_cpu_of(device)->target, args));
    const ft_gemm_args product = ft_product_slope_product(args);
    const ft_activation_backward_args rest = ft_product_slope_rest(args);
    FT_TRY(FT_RUN(device, gemm, &product));
    return FT_RUN(device, activation_backward, &rest);
}
