// norm.h - LayerNorm with the weights of the model: every norm there is. Internal to the blocks.
#ifndef FT_NORM_H
#define FT_NORM_H

#include "engine/model/blocks/layers.h"

// gamma, beta, epsilon and their gradients are filled in; what is fused with it (a sum, dropout, a bias) is the caller's.
ft_status ft_norm_forward(ft_pass *pass, ft_rows_kind kind, const ft_norm *norm, ft_layernorm_forward_args args);
ft_status ft_norm_backward(ft_pass *pass, ft_rows_kind kind, const ft_norm *norm, ft_layernorm_backward_args args);

#endif
