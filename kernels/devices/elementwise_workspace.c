// Scratch of the row-wise, column-wise and flat ops. Shapes only: data pointers may be NULL here, so optional arguments
// count as present. Rows of fp16 have copies of fp32 on the CPU.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/half_ops.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/cast.h"
#include "kernels/ops/column_sum.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/decay.h"
#include "kernels/ops/dequantise.h"
#include "kernels/ops/magnitude.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/gated.h"
#include "kernels/ops/geometry.h"
#include "kernels/ops/layernorm.h"
#include "kernels/ops/span_cross_entropy.h"

#include <assert.h>

static bool on_cuda(const ft_target *target) { return target->backend == FT_BACKEND_CUDA; }

size_t ft_layernorm_forward_workspace(const ft_target *target, const ft_layernorm_forward_args *args) {
    if (on_cuda(target)) return 0;
    const size_t row = args->y.dtype == FT_BF16 ? (size_t)ft_layernorm_row_floats(args->x.cols) * sizeof(float) : 0;
    return row * (size_t)target->threads + ft_cpu_copies_layernorm_forward(args);
}

// On the CPU two means a row, which the pass over columns needs; on CUDA the partial sums of dgamma, dbeta and dbias.
size_t ft_layernorm_backward_workspace(const ft_target *target, const ft_layernorm_backward_args *args) {
    if (on_cuda(target)) return ft_cuda_tile_sum_bytes(args->dy.rows, args->dy.cols, 3);
    return (size_t)args->dy.rows * 2 * sizeof(float) + ft_cpu_copies_layernorm_backward(args);
}

size_t ft_activation_forward_workspace(const ft_target *target, const ft_activation_forward_args *args) {
    return on_cuda(target) ? 0 : ft_cpu_copies_activation_forward(args);
}
size_t ft_activation_backward_workspace(const ft_target *target, const ft_activation_backward_args *args) {
    return on_cuda(target) ? ft_cuda_tile_sum_bytes(args->dy.rows, args->dy.cols, 1) : ft_cpu_copies_activation_backward(args);
}
size_t ft_gated_forward_workspace(const ft_target *target, const ft_gated_forward_args *args) {
    return on_cuda(target) ? 0 : ft_cpu_copies_gated_forward(args);
}
size_t ft_gated_backward_workspace(const ft_target *target, const ft_gated_backward_args *args) {
    return on_cuda(target) ? 0 : ft_cpu_copies_gated_backward(args);
}
size_t ft_column_sum_workspace(const ft_target *target, const ft_column_sum_args *args) {
    return on_cuda(target) ? ft_cuda_tile_sum_bytes(args->x.rows, args->x.cols, 1) : ft_cpu_copies_column_sum(args);
}
size_t ft_embedding_forward_workspace(const ft_target *target, const ft_embedding_forward_args *args) { return 0; }
size_t ft_embedding_backward_workspace(const ft_target *target, const ft_embedding_backward_args *args) {
    return on_cuda(target) ? ft_cuda_run_bytes(args->dout.rows, args->dout.cols) : ft_cpu_copies_embedding_backward(args);
}
size_t ft_cross_entropy_workspace(const ft_target *target, const ft_cross_entropy_args *args) { return 0; }
size_t ft_weighted_cross_entropy_workspace(const ft_target *target, const ft_weighted_cross_entropy_args *args) { return 0; }
size_t ft_binary_cross_entropy_workspace(const ft_target *target, const ft_binary_cross_entropy_args *args) { return 0; }
size_t ft_span_cross_entropy_workspace(const ft_target *target, const ft_span_cross_entropy_args *args) { return 0; }
size_t ft_squared_error_workspace(const ft_target *target, const ft_squared_error_args *args) { return 0; }

static_assert((int)FT_CUDA_NORM_CHUNK == (int)FT_NORM_CHUNK, "one size for both back ends");

// One partial sum a chunk and a block of the table.
size_t ft_gradient_norm_workspace(const ft_target *target, const ft_gradient_norm_args *args) {
    if (args->pieces.sums != NULL) return 0;
    int64_t chunks = (args->gradient.rows * args->gradient.cols + FT_NORM_CHUNK - 1) / FT_NORM_CHUNK;
    return (size_t)(chunks + ft_norm_blocks(args->table_rows)) * sizeof(double);
}

size_t ft_cast_workspace(const ft_target *target, const ft_cast_args *args) { return 0; }
size_t ft_dequantise_workspace(const ft_target *target, const ft_dequantise_args *args) { return 0; }
size_t ft_row_norm_workspace(const ft_target *target, const ft_row_norm_args *args) { return 0; }
size_t ft_column_scale_workspace(const ft_target *target, const ft_column_scale_args *args) { return 0; }
size_t ft_decay_workspace(const ft_target *target, const ft_decay_args *args) { return 0; }
size_t ft_adamw_workspace(const ft_target *target, const ft_adamw_args *args) { return 0; }
