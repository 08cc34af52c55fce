#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/half_ops.h"
#include "kernels/cuda/attention/path.h"

// On the CPU every thread has its own blocks of scores and of transposed rows. On CUDA those are in shared memory; the
// backward pass keeps <dout, out> of every row and head, and an owner of sequences its slab (geometry.h). Rows of fp16 have copies of fp32 on the CPU.
size_t ft_attention_forward_workspace(const ft_target *target, const ft_attention_forward_args *args) {
    const ft_attention_shape *s = &args->shape;
    if (target->backend != FT_BACKEND_CPU) return args->bias.table.rows > 0 ? ft_cuda_bias_line_bytes(s->heads, s->max_queries, s->max_keys) : 0;
    size_t own = ft_attention_forward_thread_floats(args) * (size_t)target->threads;
    if (args->bias.table.rows > 0) own += ft_bias_line_floats(&args->shape);
    return own * sizeof(float) + ft_cpu_copies_attention_forward(args);
}

// Behind <dout, out>: the lines of a bias, and the slabs of its gradient.
static size_t cuda_bias_bytes(const ft_target *target, const ft_attention_backward_args *args) {
    const ft_attention_shape *s = &args->shape;
    const int64_t longest = s->max_queries > s->max_keys ? s->max_queries : s->max_keys;
    if (args->bias.table.rows == 0) return 0;
    const size_t lines = ft_cuda_bias_line_bytes(s->heads, s->max_queries, s->max_keys);
    return args->dbias.rows == 0 ? lines : lines + lines * (size_t)ft_cuda_slabs(target->sm_count, s->heads, s->sequences, longest);
}

size_t ft_attention_backward_workspace(const ft_target *target, const ft_attention_backward_args *args) {
    if (target->backend == FT_BACKEND_CUDA) {
        const size_t deltas = (size_t)args->q.rows * (size_t)args->shape.heads * sizeof(float);
        const size_t slabs = args->q.dtype == FT_F32 ? 0 : ft_attention_owner_bytes(target, &args->shape);
        const size_t bias = cuda_bias_bytes(target, args), more = slabs > bias ? slabs : bias; // one owner has no bias
        return more > 0 ? ft_cuda_aligned(deltas) + more : deltas;
    }
    size_t own = ft_attention_backward_thread_floats(args) * (size_t)target->threads;
    if (args->bias.table.rows > 0) own += ft_bias_line_floats(&args->shape);
    if (args->dbias.rows > 0) own += (size_t)ft_bias_sums_before(&args->shape, args->q.rows, args->k.rows, args->shape.sequences);
    return own * sizeof(float) + ft_cpu_copies_attention_backward(args);
}
