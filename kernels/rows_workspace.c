#include "kernels/rows.h"
#include "kernels/unfold.h"

size_t ft_dropout_workspace(const ft_target *target, const ft_dropout_args *args) { return 0; }
size_t ft_gather_rows_workspace(const ft_target *target, const ft_gather_rows_args *args) { return 0; }
size_t ft_scatter_rows_add_workspace(const ft_target *target, const ft_scatter_rows_add_args *args) { return 0; }
size_t ft_unfold_workspace(const ft_target *target, const ft_unfold_args *args) { return 0; }
size_t ft_fold_add_workspace(const ft_target *target, const ft_fold_add_args *args) { return 0; }
