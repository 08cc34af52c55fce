#include "kernels/cpu/attention_plan.h"

// On the CPU every thread has its own blocks of scores and of transposed rows. On CUDA those are in shared memory; the
// backward pass keeps <dout, out> of every row and head.
size_t ft_attention_forward_workspace(const ft_target *target, const ft_attention_forward_args *args) {
    if (target->backend != FT_BACKEND_CPU) return 0;
    return ft_attention_forward_floats(args->shape.head_dim) * sizeof(float) * (size_t)target->threads;
}

size_t ft_attention_backward_workspace(const ft_target *target, const ft_attention_backward_args *args) {
    if (target->backend == FT_BACKEND_CUDA) return (size_t)args->q.rows * (size_t)args->shape.heads * sizeof(float);
    return ft_attention_backward_floats(args->shape.head_dim) * sizeof(float) * (size_t)target->threads;
}
