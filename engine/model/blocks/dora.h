// dora.h - adapters whose outputs have a magnitude of their own (DoRA): the rows of W + s B A have length 1 times `magnitude`. Internal to
// linear.c and adapter.c's callers.
//
//     h = x W^T + s x A^T B^T;  y = g h + b          g = m / n, n = |rows of W + s B A|, which has no gradient
//     dm = sum over rows of dy h / n;  dh = g dy, of which A, B and x have their gradients
// With dropout as PEFT has it: y = x W^T + b + g (x' W^T + s x' A^T B^T) - x' W^T, where x' = drop(x).
// W is what products read: it is open for as long as these take. Nothing of its size is made; h is made again on the way back.
#ifndef FT_DORA_H
#define FT_DORA_H

#include "engine/model/blocks/layers.h"

bool ft_dora_on(const ft_linear *l); // has any of the layer's parts one?
// y = x W^T + bias is there already. bias: as in it.
ft_status ft_dora_forward(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor w, ft_tensor x, ft_tensor bias, ft_tensor y);
// dx (=|+=) that of the whole layer.
ft_status ft_dora_input_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor w, ft_tensor dy, bool accumulate, ft_tensor dx);
ft_status ft_dora_weight_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor w, ft_tensor dy, ft_tensor x);
// As ft_adapter_split_gradient, of the whole layer's w.
ft_status ft_dora_split_gradient(ft_pass *pass, const ft_linear *l, ft_tensor w, ft_tensor dread, ft_tensor read_x, ft_tensor drest, ft_tensor x);

#endif
