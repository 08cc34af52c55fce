// unfold.h - windows of neighbouring rows within packed sequences, and back; with a product, a convolution along the tokens.
//
// unfold:   y[t, c*taps + k] = x[t + k - (taps-1)/2, c], 0 where that row is not one of the sequence of row t: zero padding
//           at both ends of every sequence, never its neighbour. So y W^T with W [outputs, C*taps], the weight
//           [outputs, C, taps] of a convolution as it lies in memory, is that convolution (a cross-correlation, as PyTorch
//           has it: torch.nn.Conv1d with padding (taps-1)/2). With groups: a product a group, over its columns of y and W.
// fold_add: x[t, c] += sum over k of y[t - k + (taps-1)/2, c*taps + k], over rows of the sequence of row t: the transpose,
//           for gradients. One chain per element, k = 0, 1, ..., starting from x.
// x [T,C], y [T,C*taps], H both, but the x of fold_add, a gradient, is fp32 in every precision; any strides; taps odd. Sequence b has rows [cu_seqlens[b], cu_seqlens[b+1]), all T of them
// together; rows depend on their own sequence only. Exact, but for the rounding of fold_add's sums.
#ifndef FT_UNFOLD_H
#define FT_UNFOLD_H
#include "kernels/ops/op.h"

typedef struct ft_unfold_args {
    int32_t sequences, taps;
    const int32_t *cu_seqlens; // [sequences + 1], device
    ft_tensor x, y;            // y is written
    ft_workspace workspace;
} ft_unfold_args;
size_t ft_unfold_workspace(const ft_target *target, const ft_unfold_args *args);
ft_status ft_unfold_check(const ft_target *target, const ft_unfold_args *args);

typedef struct ft_fold_add_args {
    int32_t sequences, taps;
    const int32_t *cu_seqlens;
    ft_tensor y, x; // x is accumulated
    ft_workspace workspace;
} ft_fold_add_args;
size_t ft_fold_add_workspace(const ft_target *target, const ft_fold_add_args *args);
ft_status ft_fold_add_check(const ft_target *target, const ft_fold_add_args *args);
#endif
