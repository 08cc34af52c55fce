#include "kernels/cpu/attention_plan.h"

// Every thread has its own blocks of scores and of transposed rows.
size_t ft_attention_forward_workspace(const ft_target *target, const ft_attention_forward_args *args) {
    if (target->backend != FT_BACKEND_CPU) return 0;
    return ft_attention_forward_floats(args->shape.head_dim) * sizeof(float) * (size_t)target->threads;
}

size_t ft_attention_backward_workspace(const ft_target *target, const ft_attention_backward_args *args) {
    if (target->backend != FT_BACKEND_CPU) return 0;
    return ft_attention_backward_floats(args->shape.head_dim) * sizeof(float) * (size_t)target->threads;
}
