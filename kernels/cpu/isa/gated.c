// y = act(a) * g and its gradient, where a and g are the halves of a row.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/bf16_lanes.h"
#include "kernels/cpu/isa/tiles/activation_function.h"
#include "kernels/ops/gated.h"

FT_VEC void forward_16(ft_activation kind, const float *a, const float *g, float *y, int64_t n) {
    v16 slope;
    v_store_any(y, v_mul(activation_value(kind, v_load_any(a, n), &slope), v_load_any(g, n)), n);
}
FT_VEC void forward_row(ft_activation kind, const float *a, const float *g, float *y, int64_t n) {
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) forward_16(kind, a + i, g + i, y + i, FT_LANES);
    if (i < n) forward_16(kind, a + i, g + i, y + i, n - i);
}

FT_VEC void backward_16(ft_activation kind, const float *a, const float *g, const float *dy, float *da, float *dg, float *y, int64_t n) {
    v16 slope, value = activation_value(kind, v_load_any(a, n), &slope), gate = v_load_any(g, n), d = v_load_any(dy, n);
    v_store_any(da, v_mul(v_mul(d, gate), slope), n);
    v_store_any(dg, v_mul(d, value), n);
    if (y) v_store_any(y, v_mul(value, gate), n);
}
FT_VEC void backward_row(ft_activation kind, const float *a, const float *g, const float *dy, float *da, float *dg, float *y, int64_t n) {
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES) backward_16(kind, a + i, g + i, dy + i, da + i, dg + i, y ? y + i : NULL, FT_LANES);
    if (i < n) backward_16(kind, a + i, g + i, dy + i, da + i, dg + i, y ? y + i : NULL, n - i);
}

// One compiled loop a kind.
typedef void forward_fn(const float *a, const float *g, float *y, int64_t n);
typedef void backward_fn(const float *a, const float *g, const float *dy, float *da, float *dg, float *y, int64_t n);
#define KIND(name, kind)                                                                                               \
    static void name##_forward(const float *a, const float *g, float *y, int64_t n) { forward_row(kind, a, g, y, n); } \
    static void name##_backward(const float *a, const float *g, const float *dy, float *da, float *dg, float *y,       \
                                int64_t n) {                                                                           \
        backward_row(kind, a, g, dy, da, dg, y, n);                                                                    \
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
static const struct {
    forward_fn *forward;
    backward_fn *backward;
} loops[FT_ACT_COUNT] = {
    [FT_ACT_IDENTITY] = {identity_forward, identity_backward},
    [FT_ACT_GELU] = {gelu_forward, gelu_backward},
    [FT_ACT_GELU_TANH] = {gelu_tanh_forward, gelu_tanh_backward},
    [FT_ACT_RELU] = {relu_forward, relu_backward},
    [FT_ACT_TANH] = {tanh_forward, tanh_backward},
    [FT_ACT_SILU] = {silu_forward, silu_backward},
    [FT_ACT_QUICK_GELU] = {quick_gelu_forward, quick_gelu_backward},
    [FT_ACT_MISH] = {mish_forward, mish_backward},
    [FT_ACT_GELU_10] = {gelu_10_forward, gelu_10_backward},
    [FT_ACT_SIGMOID] = {sigmoid_forward, sigmoid_backward},
    [FT_ACT_LEAKY_RELU] = {leaky_relu_forward, leaky_relu_backward},
    [FT_ACT_RELU6] = {relu6_forward, relu6_backward},
    [FT_ACT_HARDSWISH] = {hardswish_forward, hardswish_backward},
    [FT_ACT_LAPLACE] = {laplace_forward, laplace_backward},
    [FT_ACT_SQRTSOFTPLUS] = {sqrtsoftplus_forward, sqrtsoftplus_backward},
};

typedef struct gated_job {
    const ft_gated_forward_args *forward;
    const ft_gated_backward_args *backward;
    int shares;
} gated_job;

static void forward_task(void *context, int task, int thread) {
    const gated_job *job = context;
    const ft_gated_forward_args *a = job->forward;
    int64_t first, last, n = a->y.cols;
    ft_share(a->y.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++) loops[a->kind].forward(ft_row(a->x, row), ft_row(a->x, row) + n, ft_row(a->y, row), n);
}

static void backward_task(void *context, int task, int thread) {
    const gated_job *job = context;
    const ft_gated_backward_args *a = job->backward;
    int64_t first, last, n = a->dy.cols;
    ft_share(a->dy.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const float *h = ft_row(a->h, row);
        float *dx = ft_row(a->dx, row);
        loops[a->kind].backward(h, h + n, ft_row(a->dy, row), dx, dx + n, ft_row_if(a->y, row), n);
    }
}

// Rows of bf16 are widened and rounded a stretch at a time, which stays in the first-level cache.
enum { STRETCH = 512 };
static int64_t stretch_of(int64_t left) { return left < STRETCH ? left : STRETCH; }

static void forward_half_task(void *context, int task, int thread) {
    const gated_job *job = context;
    const ft_gated_forward_args *a = job->forward;
    _Alignas(64) float one[STRETCH], gate[STRETCH], product[STRETCH];
    int64_t first, last, cols = a->y.cols;
    ft_share(a->y.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++)
        for (int64_t c = 0, n; c < cols; c += n) {
            const lane_row x = lanes_of(a->x, row, true);
            n = stretch_of(cols - c);
            loops[a->kind].forward(v_widened(x, c, n, one), v_widened(x, cols + c, n, gate), product, n);
            v_rounded(lanes_of(a->y, row, true), c, n, product);
        }
}

static void backward_half_task(void *context, int task, int thread) {
    const gated_job *job = context;
    const ft_gated_backward_args *a = job->backward;
    _Alignas(64) float one[STRETCH], gate[STRETCH], dy[STRETCH], da[STRETCH], dg[STRETCH], product[STRETCH];
    int64_t first, last, cols = a->dy.cols;
    ft_share(a->dy.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++)
        for (int64_t c = 0, n; c < cols; c += n) {
            const lane_row h = lanes_of(a->h, row, true), dx = lanes_of(a->dx, row, true), y = lanes_of(a->y, row, true);
            n = stretch_of(cols - c);
            loops[a->kind].backward(v_widened(h, c, n, one), v_widened(h, cols + c, n, gate),
                                    v_widened(lanes_of(a->dy, row, true), c, n, dy), da, dg, y.x ? product : NULL, n);
            v_rounded(dx, c, n, da);
            v_rounded(dx, cols + c, n, dg);
            v_rounded(y, c, n, product);
        }
}

FT_ISA_OP(gated_forward) {
    FT_TRY(ft_gated_forward_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    gated_job job = {.forward = args, .shares = ft_shares(cpu, args->y.rows, args->x.rows * args->x.cols)};
    ft_pool_run(cpu->pool, job.shares, args->x.dtype == FT_BF16 ? forward_half_task : forward_task, &job);
    return FT_OK;
}

FT_ISA_OP(gated_backward) {
    FT_TRY(ft_gated_backward_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    gated_job job = {.backward = args, .shares = ft_shares(cpu, args->dy.rows, args->h.rows * args->h.cols)};
    ft_pool_run(cpu->pool, job.shares, args->h.dtype == FT_BF16 ? backward_half_task : backward_task, &job);
    return FT_OK;
}
