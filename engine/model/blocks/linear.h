// linear.h - the products of a linear layer (ft_linear), forward and back: of every trained weight there is. Internal to the blocks.
//
// kind: which rows x and y have. Some ops add a bias, or sum its gradient, with what they do in any case: who calls such an op
// leaves the bias out here. What an adapter adds is part of every product (adapter.h).
#ifndef FT_LINEAR_H
#define FT_LINEAR_H

#include "engine/model/blocks/layers.h"
#include "kernels/ops/layernorm.h"

// Parts [first, first + count) of all that `l` has, as a layer.
ft_linear ft_linear_parts(const ft_linear *l, int first, int count);

// The columns of those parts in the layer's product.
ft_tensor ft_linear_columns(const ft_linear *l, int first, int count, ft_tensor y);

// y = x W^T + b
ft_status ft_linear_forward(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, ft_tensor y);
// h = x W^T + b and y = act(h) as one op; y may be h, which then is not kept. Of a layer that is one product of one matrix, to which nothing is
// added, on a device that may have a kernel for it (product_activation.h): else it is two, the first of which needs no y yet.
bool ft_linear_may_activate(const ft_pass *pass, ft_rows_kind kind, const ft_linear *l);
ft_status ft_linear_activated(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, ft_activation act, ft_tensor h, ft_tensor y);
// dy W, and behind it the activation's way back, whose dy it is (dx is where it goes): as one op, of a layer that may activate.
ft_status ft_linear_slope(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, ft_activation_backward_args behind);
// x W^T, and behind it the norm of what it is added to (`behind`, whose x is where the product goes; norm.h): as one op, of a layer that may activate.
ft_status ft_linear_normed(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, const ft_norm *norm, const ft_norm_saved *saved,
                           ft_layernorm_forward_args behind);
// y = x W^T + bias, of a layer of one part; bias: [outputs] of y's type, which may be another than the layer's; absent: whoever reads y adds it.
ft_status ft_linear_product(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, ft_tensor bias, ft_tensor y);
// dx (=|+=) dy W
ft_status ft_linear_input_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, bool accumulate, ft_tensor dx);
// dW += dy^T x; nothing for a frozen layer
ft_status ft_linear_weight_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, ft_tensor x);
// Of a layer with one adapter for all parts, of which the first was computed for the rows that are read and the others for every token.
bool ft_linear_shares_adapter(const ft_linear *l);
ft_status ft_linear_split_gradient(ft_pass *pass, const ft_linear *l, ft_tensor dread, ft_tensor read_x, ft_tensor drest, ft_tensor x);
// db += sum of rows; nothing for a frozen layer, or where there is no bias
ft_status ft_linear_bias_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy);

// Does the weight's gradient need x?
bool ft_linear_reads_input(const ft_model *model, const ft_linear *l);

// b and db, [outputs], for the ops that do it; absent where there is none.
ft_tensor ft_linear_bias(const ft_pass *pass, const ft_linear *l);
ft_tensor ft_linear_dbias(const ft_pass *pass, const ft_linear *l);

#endif
