// sequence_mean.h - the mean of the rows of every sequence, and its gradient.
//
// forward:  y_s = (sum over the rows of sequence s) / their number. On the CPU one chain a column in row order; on CUDA eight chains of
//           every eighth row, then their sum in order. y_s = 0 without rows.
// backward: dx_t = dy_s / number, for every row t of sequence s; written.
// x and y are H, the gradients fp32 in every precision, as gradients of rows are.
#ifndef FT_SEQUENCE_MEAN_H
#define FT_SEQUENCE_MEAN_H
#include "kernels/ops/op.h"

typedef struct ft_sequence_mean_forward_args {
    int32_t sequences;
    const int32_t *cu_seqlens; // [sequences + 1] device
    ft_tensor x, y;            // [T,N], [sequences,N]
    ft_workspace workspace;
} ft_sequence_mean_forward_args;
size_t ft_sequence_mean_forward_workspace(const ft_target *target, const ft_sequence_mean_forward_args *args);
ft_status ft_sequence_mean_forward_check(const ft_target *target, const ft_sequence_mean_forward_args *args);

typedef struct ft_sequence_mean_backward_args {
    int32_t sequences;
    const int32_t *cu_seqlens;
    ft_tensor dy, dx; // [sequences,N], [T,N] fp32
    ft_workspace workspace;
} ft_sequence_mean_backward_args;
size_t ft_sequence_mean_backward_workspace(const ft_target *target, const ft_sequence_mean_backward_args *args);
ft_status ft_sequence_mean_backward_check(const ft_target *target, const ft_sequence_mean_backward_args *args);
#endif
