// Scratch of the attention ops: one set of rows a thread, linear in the longest sequence.
#include "kernels/cpu/attention_scratch.h"

size_t ft_attention_forward_workspace(const ft_target *target, const ft_attention_forward_args *args) {
    return ft_attention_layout(&args->shape, false, NULL, 0, NULL) * (size_t)target->threads;
}

size_t ft_attention_backward_workspace(const ft_target *target, const ft_attention_backward_args *args) {
    return ft_attention_layout(&args->shape, true, NULL, 0, NULL) * (size_t)target->threads;
}
