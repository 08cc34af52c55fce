// magnitude.h - what adapters do that have a length of their own for every output (DoRA): norms of the rows of a sum that is never made, and
// columns of rows times numbers of their own.
//
// row_norm:     out[i] = |row i of w + scale b a|
// column_scale: y (=|+=) (g + shift) x times + (1 - g) bias,  g = magnitude / norm column by column (0 where the norm is 0).
//               Without `magnitude` that is 1 / norm, without `norm` the magnitude, without both g = 1; without `times` 1, without a bias
//               nothing. y may be x.
#ifndef FT_MAGNITUDE_H
#define FT_MAGNITUDE_H
#include "kernels/ops/op.h"

typedef struct ft_row_norm_args {
    ft_tensor w;    // [N,K] H
    ft_tensor b, a; // [N,r], [r,K] H
    float scale;
    ft_tensor out; // [N] fp32, written
    ft_workspace workspace;
} ft_row_norm_args;
size_t ft_row_norm_workspace(const ft_target *target, const ft_row_norm_args *args);
ft_status ft_row_norm_check(const ft_target *target, const ft_row_norm_args *args);

typedef struct ft_column_scale_args {
    ft_tensor x, times;        // [T,N] H; times optional
    ft_tensor magnitude, norm; // [N] fp32, optional
    ft_tensor bias;            // [N] H, optional
    float shift;
    bool accumulate;
    ft_tensor y; // [T,N] H or fp32
    ft_workspace workspace;
} ft_column_scale_args;
size_t ft_column_scale_workspace(const ft_target *target, const ft_column_scale_args *args);
ft_status ft_column_scale_check(const ft_target *target, const ft_column_scale_args *args);
#endif
