// What scratch disentangled attention has on each back end.
#include "kernels/cpu/disentangled_plan.h"
#include "kernels/cpu/half_ops.h"
#include "kernels/ops/disentangled_attention.h"
#include "kernels/ops/geometry.h"

// By their shapes: the planner has no data.
static int count_of(ft_tensor a, ft_tensor b) { return (a.rows > 0) + (b.rows > 0); }

static size_t scratch_floats(const ft_target *target, const ft_disentangled_shape *shape, int tables, size_t of_thread) {
    return (size_t)(ft_panels_of(shape).floats * shape->attention.heads * tables) + of_thread * (size_t)target->threads;
}

// On CUDA, backward: <dout, out> of every row and head, and the slabs of one table: they serve both, one after the other.
static size_t cuda_backward_bytes(const ft_target *target, const ft_disentangled_attention_backward_args *args) {
    const ft_attention_shape *a = &args->shape.attention;
    const size_t deltas = (size_t)args->q.rows * (size_t)a->heads * sizeof(float);
    const int64_t longest = a->max_queries > a->max_keys ? a->max_queries : a->max_keys;
    if (count_of(args->dpos_key, args->dpos_query) == 0) return deltas;
    const int64_t slabs = a->heads * ft_cuda_slabs(target->sm_count, a->heads, a->sequences, longest);
    const int64_t floats = slabs * ft_cuda_distances(a->max_queries, a->max_keys) * a->head_dim;
    return ft_cuda_aligned(deltas) + (size_t)floats * sizeof(float);
}

// The panels of the tables that are there, what every thread needs, and copies of rows of fp16.
size_t ft_disentangled_attention_forward_workspace(const ft_target *target,
                                                   const ft_disentangled_attention_forward_args *args) {
    if (target->backend != FT_BACKEND_CPU) return 0;
    const ft_attention_shape *a = &args->shape.attention;
    size_t of_thread = ft_disentangled_forward_scratch(a->head_dim).floats;
    if (args->q.dtype == FT_BF16) of_thread += ft_attention_forward_half_floats(a->head_dim);
    size_t own = scratch_floats(target, &args->shape, count_of(args->pos_key, args->pos_query), of_thread);
    return sizeof(float) * own + ft_cpu_copies_disentangled_attention_forward(args);
}

size_t ft_disentangled_attention_backward_workspace(const ft_target *target,
                                                    const ft_disentangled_attention_backward_args *args) {
    if (target->backend == FT_BACKEND_CUDA) return cuda_backward_bytes(target, args);
    size_t deltas = ft_delta_floats(&args->shape, count_of(args->dpos_key, args->dpos_query), target->threads);
    const ft_attention_shape *a = &args->shape.attention;
    size_t of_thread = ft_disentangled_backward_scratch(a->head_dim).floats;
    if (args->q.dtype == FT_BF16) of_thread += ft_attention_backward_half_floats(a->head_dim, a->max_keys);
    size_t own = scratch_floats(target, &args->shape, count_of(args->pos_key, args->pos_query), of_thread);
    return sizeof(float) * (deltas + own) + ft_cpu_copies_disentangled_attention_backward(args);
}
