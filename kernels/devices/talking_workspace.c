// What scratch attention with talking heads has on each back end.
#include "kernels/cpu/half_ops.h"
#include "kernels/cpu/talking_plan.h"
#include "kernels/ops/talking_attention.h"
#include "kernels/ops/talking_geometry.h"

static size_t cuda_bytes(const ft_attention_shape *s, bool backward) {
    const ft_cuda_talking_wave wave = ft_cuda_talking_wave_of(s->sequences, s->max_queries, s->max_keys, s->heads, backward);
    const int64_t width = (int64_t)s->heads * s->head_dim, sums = backward && wave.rows < s->max_queries ? 2 * (int64_t)s->max_keys * width : 0;
    return (size_t)(wave.sequences * wave.rows * ft_cuda_talking_row(s->max_keys, s->heads, backward) + sums) * sizeof(float);
}

size_t ft_talking_attention_forward_workspace(const ft_target *target, const ft_talking_attention_forward_args *args) {
    const ft_attention_shape *s = &args->shape.attention;
    if (target->backend == FT_BACKEND_CUDA) return cuda_bytes(s, false);
    return sizeof(float) * (size_t)(target->threads * FT_TALKING_FORWARD * ft_talking_scores(s)) + ft_cpu_copies_talking_attention_forward(args);
}

size_t ft_talking_attention_backward_workspace(const ft_target *target, const ft_talking_attention_backward_args *args) {
    const ft_attention_shape *s = &args->shape.attention;
    if (target->backend == FT_BACKEND_CUDA) return cuda_bytes(s, true);
    const int64_t threads = target->threads * FT_TALKING_BACKWARD * ft_talking_scores(s);
    const int64_t records = ft_talking_blocks(target->threads) * FT_TALKING_ROWS * ft_talking_record(s);
    return sizeof(float) * (size_t)(threads + records) + ft_cpu_copies_talking_attention_backward(args);
}
