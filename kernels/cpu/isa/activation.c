// y = act(x + bias) and its gradient. One function gives value and slope of an activation, so that a value recomputed
// in the backward pass has the bits of the forward's.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/lanes/vmath.h"
#include "kernels/ops/activation.h"

// ---- the functions --------------------------------------------------------------------------------------------------

// x * sigmoid(z) and its derivative, where z = z(x) has the derivative dz. x and z must be bounded below so that e^-z
// is finite; steep is x bounded above too, because infinity times 0 is no slope.
FT_VMATH v16 gated(v16 x, v16 steep, v16 z, v16 dz, v16 *slope) {
    v16 one = v_set1(1.0f), e = v_exp(v_neg(z));
    v16 s = v_div(one, v_add(one, e));
    v16 s_times_rest = v_mul(v_mul(e, s), s); // s (1 - s) without cancellation
    *slope = v_fma(v_mul(steep, dz), s_times_rest, s);
    return v_mul(x, s);
}

FT_VMATH v16 evaluate(ft_activation kind, v16 x, v16 *slope) {
    v16 zero = v_zero(), one = v_set1(1.0f);
    switch (kind) {
    case FT_ACT_GELU: { // x Phi(x) = max(x, 0) - |x| Phi(-|x|): no cancellation, and one rounding near the end
        v16 a = v_min(v_set1(20.0f), v_abs(x)), bell;
        v16 tail = v_normal_tail(a, &bell);
        v16 phi = v_select(v_lt(x, zero), tail, v_sub(one, tail));
        *slope = v_fma(v_mul(v_copysign(a, x), v_set1(0.39894228f)), bell, phi);
        return v_fnma(a, tail, v_max(zero, x));
    }
    case FT_ACT_GELU_TANH: { // (1 + tanh u) / 2 = sigmoid(2 u)
        v16 low = v_max(v_set1(-9.9f), x), both = v_min(v_set1(20.0f), low), square = v_mul(both, both);
        v16 z = v_mul(both, v_fma(square, v_set1(0.071354816f), v_set1(1.5957691f)));
        v16 dz = v_fma(square, v_set1(0.21406445f), v_set1(1.5957691f));
        return gated(low, both, z, dz, slope);
    }
    case FT_ACT_QUICK_GELU: {
        v16 low = v_max(v_set1(-50.0f), x), factor = v_set1(1.702f);
        return gated(low, v_min(v_set1(100.0f), low), v_mul(low, factor), factor, slope);
    }
    case FT_ACT_SILU: {
        v16 low = v_max(v_set1(-86.0f), x);
        return gated(low, v_min(v_set1(100.0f), low), low, one, slope);
    }
    case FT_ACT_MISH: { // with e = e^x, tanh(log(1 + e)) = n / (n + 2) where n = e (e + 2)
        v16 low = v_max(v_set1(-86.0f), x), both = v_min(v_set1(20.0f), low), two = v_set1(2.0f);
        v16 e = v_exp(both), n = v_mul(e, v_add(e, two)), inverse = v_div(one, v_add(n, two));
        v16 w = v_mul(n, inverse);
        v16 rest = v_mul(v_mul(v_mul(e, v_add(e, one)), inverse), v_mul(inverse, v_set1(4.0f)));
        *slope = v_fma(both, rest, w);
        return v_mul(low, w);
    }
    case FT_ACT_TANH: {
        v16 y = v_tanh(x);
        *slope = v_fnma(y, y, one);
        return y;
    }
    case FT_ACT_RELU: *slope = v_select(v_gt(x, zero), one, zero); return v_max(zero, x);
    default: *slope = one; return x;
    }
}

// ---- a stretch of one row -------------------------------------------------------------------------------------------

FT_VEC void forward_16(ft_activation kind, const float *x, const float *bias, float *h, float *y, int64_t n) {
    v16 a = v_load_any(x, n), slope;
    if (bias) a = v_add(a, v_load_any(bias, n));
    if (h) v_store_any(h, a, n);
    v_store_any(y, evaluate(kind, a, &slope), n);
}
FT_VEC void forward_row(ft_activation kind, const float *x, const float *bias, float *h, float *y, int64_t n) {
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES)
        forward_16(kind, x + i, bias ? bias + i : NULL, h ? h + i : NULL, y + i, FT_LANES);
    if (i < n) forward_16(kind, x + i, bias ? bias + i : NULL, h ? h + i : NULL, y + i, n - i);
}

FT_VEC void backward_16(ft_activation kind, const float *h, const float *dy, float *dx, float *y, float *dbias,
                        int64_t n) {
    v16 slope, value = evaluate(kind, v_load_any(h, n), &slope);
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
static forward_fn *const forward_of[FT_ACT_COUNT] = {
    [FT_ACT_IDENTITY] = identity_forward,
    [FT_ACT_GELU] = gelu_forward,
    [FT_ACT_GELU_TANH] = gelu_tanh_forward,
    [FT_ACT_RELU] = relu_forward,
    [FT_ACT_TANH] = tanh_forward,
    [FT_ACT_SILU] = silu_forward,
    [FT_ACT_QUICK_GELU] = quick_gelu_forward,
    [FT_ACT_MISH] = mish_forward,
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

FT_ISA_OP(activation_forward) {
    int64_t rows = args->x.rows, cols = args->x.cols;
    FT_TRY(ft_activation_forward_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    forward_job job = {args, ft_shares(cpu, rows, rows * cols)};
    ft_pool_run(cpu->pool, job.shares, forward_task, &job);
    return FT_OK;
}

typedef struct backward_job {
    const ft_activation_backward_args *args;
    int shares;
} backward_job;

// With dbias a share is a range of columns, whose chains it then owns; else one of rows, which is kinder to the caches.
static void backward_task(void *context, int task, int thread) {
    const backward_job *job = context;
    const ft_activation_backward_args *a = job->args;
    int64_t row = 0, last_row = a->h.rows, col = 0, last_col = a->h.cols;
    if (a->dbias.data)
        ft_share(last_col, FT_COLUMN_GRAIN, job->shares, task, &col, &last_col);
    else
        ft_share(last_row, 1, job->shares, task, &row, &last_row);
    float *dbias = a->dbias.data ? (float *)a->dbias.data + col : NULL;
    for (; row < last_row; row++)
        backward_of[a->kind](ft_row(a->h, row) + col, ft_row(a->dy, row) + col, ft_row(a->dx, row) + col,
                             a->y.data ? ft_row(a->y, row) + col : NULL, dbias, last_col - col);
}

FT_ISA_OP(activation_backward) {
    int64_t rows = args->h.rows, cols = args->h.cols;
    FT_TRY(ft_activation_backward_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    int64_t units = args->dbias.data ? (cols + FT_COLUMN_GRAIN - 1) / FT_COLUMN_GRAIN : rows;
    backward_job job = {args, ft_shares(cpu, units, rows * cols)};
    ft_pool_run(cpu->pool, job.shares, backward_task, &job);
    return FT_OK;
}
