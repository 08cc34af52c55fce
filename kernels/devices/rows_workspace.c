#include "kernels/cpu/half_ops.h"

// Rows of 16 bits have copies of fp32 on the CPU, where they are computed with.
static bool on_cuda(const ft_target *target) { return target->backend == FT_BACKEND_CUDA; }

size_t ft_dropout_workspace(const ft_target *target, const ft_dropout_args *args) {
    return on_cuda(target) ? 0 : ft_cpu_copies_dropout(args);
}
size_t ft_gather_rows_workspace(const ft_target *target, const ft_gather_rows_args *args) { return 0; }
size_t ft_scatter_rows_add_workspace(const ft_target *target, const ft_scatter_rows_add_args *args) { return 0; }
size_t ft_rope_workspace(const ft_target *target, const ft_rope_args *args) { return on_cuda(target) ? 0 : ft_cpu_copies_rope(args); }
size_t ft_sequence_mean_forward_workspace(const ft_target *target, const ft_sequence_mean_forward_args *args) {
    return on_cuda(target) ? 0 : ft_cpu_copies_sequence_mean_forward(args);
}
size_t ft_sequence_mean_backward_workspace(const ft_target *target, const ft_sequence_mean_backward_args *args) { return 0; }
size_t ft_unfold_workspace(const ft_target *target, const ft_unfold_args *args) {
    return on_cuda(target) ? 0 : ft_cpu_copies_unfold(args);
}
size_t ft_fold_add_workspace(const ft_target *target, const ft_fold_add_args *args) {
    return on_cuda(target) ? 0 : ft_cpu_copies_fold_add(args);
}
