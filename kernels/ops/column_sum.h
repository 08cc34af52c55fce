// column_sum.h - out[N] += sum over rows of x[T,N]: the gradient of a bias.
//
// One chain of additions per column in row order, starting from out: splitting the rows over calls changes no bit.
#ifndef FT_COLUMN_SUM_H
#define FT_COLUMN_SUM_H
#include "kernels/ops/op.h"

typedef struct ft_column_sum_args {
    ft_tensor x;   // [T,N] H
    ft_tensor out; // [N] fp32, accumulated
    ft_workspace workspace;
} ft_column_sum_args;
size_t ft_column_sum_workspace(const ft_target *target, const ft_column_sum_args *args);
ft_status ft_column_sum_check(const ft_target *target, const ft_column_sum_args *args);
#endif
