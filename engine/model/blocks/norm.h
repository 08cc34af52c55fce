// norm.h - LayerNorm with the weights of the model, with or without a bias: every norm there is. Internal to the blocks.
#ifndef FT_NORM_H
#define FT_NORM_H

#include "engine/model/blocks/layers.h"
#include "kernels/ops/layernorm.h"

// Room for what it keeps, "NAME mean" and "NAME rstd" of a layer, or of none (-1). Who computes a norm does not ask what that is.
ft_status ft_norm_keep(ft_pass *pass, ft_rows_kind kind, int layer, const char *name, ft_norm_saved *saved);
void ft_norm_forget(ft_pass *pass, ft_norm_saved *saved);
// gamma, beta, epsilon, their gradients and what is kept are filled in; what is fused with it (a sum, dropout, a bias) is the caller's.
// saved NULL: nothing is kept.
ft_status ft_norm_forward(ft_pass *pass, ft_rows_kind kind, const ft_norm *norm, const ft_norm_saved *saved,
                          ft_layernorm_forward_args args);
// The same arguments for whoever runs the norm as part of another op, and those of the largest micro-batch.
ft_layernorm_forward_args ft_norm_args(const ft_pass *pass, const ft_norm *norm, const ft_norm_saved *saved, ft_layernorm_forward_args args);
ft_layernorm_forward_args ft_norm_largest(const ft_pass *pass, ft_rows_kind kind, ft_layernorm_forward_args args);
ft_status ft_norm_backward(ft_pass *pass, ft_rows_kind kind, const ft_norm *norm, const ft_norm_saved *saved,
                           ft_layernorm_backward_args args);

#endif
