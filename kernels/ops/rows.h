// rows.h - dropout of rows, gathering and scattering of rows.
#ifndef FT_ROWS_H
#define FT_ROWS_H
#include "kernels/ops/op.h"

// y = dropout(x); y may alias x. The backward is the same call on the gradient. accumulate: y += dropout(x), of another y and with a
// probability above 0.
typedef struct ft_dropout_args {
    ft_dropout dropout;
    ft_tensor x, y; // [T,N]
    bool accumulate;
    ft_workspace workspace;
} ft_dropout_args;
size_t ft_dropout_workspace(const ft_target *target, const ft_dropout_args *args);
ft_status ft_dropout_check(const ft_target *target, const ft_dropout_args *args);

// y[i] = x[index[i]] for i in [0, y.rows).
typedef struct ft_gather_rows_args {
    const int32_t *index; // device
    ft_tensor x, y;
    ft_workspace workspace;
} ft_gather_rows_args;
size_t ft_gather_rows_workspace(const ft_target *target, const ft_gather_rows_args *args);
ft_status ft_gather_rows_check(const ft_target *target, const ft_gather_rows_args *args);

// y[index[i]] += x[i] for i in [0, x.rows); the indices are distinct. y has x's type or is fp32.
typedef struct ft_scatter_rows_add_args {
    const int32_t *index; // device
    ft_tensor x, y;
    ft_workspace workspace;
} ft_scatter_rows_add_args;
size_t ft_scatter_rows_add_workspace(const ft_target *target, const ft_scatter_rows_add_args *args);
ft_status ft_scatter_rows_add_check(const ft_target *target, const ft_scatter_rows_add_args *args);
#endif
