#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/half_ops.h"
#include "kernels/cuda/attention/path.h"

// On the CPU every thread has its own blocks of scores and of transposed rows. On CUDA those are in shared memory; the
// backward pass keeps <dout, out> of every row and head, and an owner of sequences its slab (geometry.h). Rows of 16 bits have copies of fp32 on the CPU.
size_t ft_attention_forward_workspace(const ft_target *target, const ft_attention_forward_args *args) {
    if (target->backend != FT_BACKEND_CPU) return 0;
    size_t own = ft_attention_forward_floats(args->shape.head_dim) * sizeof(float) * (size_t)target->threads;
    return own + ft_cpu_copies_attention_forward(args);
}

size_t ft_attention_backward_workspace(const ft_target *target, const ft_attention_backward_args *args) {
    if (target->backend == FT_BACKEND_CUDA) {
        const size_t deltas = (size_t)args->q.rows * (size_t)args->shape.heads * sizeof(float);
        const size_t slabs = args->q.dtype == FT_F32 ? 0 : ft_attention_owner_bytes(target, &args->shape);
        return slabs > 0 ? ft_cuda_aligned(deltas) + slabs : deltas;
    }
    size_t own = ft_attention_backward_floats(args->shape.head_dim) * sizeof(float) * (size_t)target->threads;
    return own + ft_cpu_copies_attention_backward(args);
}
