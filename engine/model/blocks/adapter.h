// adapter.h - low-rank adapters of linear layers: y += s drop(x) A^T B^T beside a product whose own weight is frozen. Internal to linear.c
// and to who splits a layer's rows.
//
//     z = s x' A^T [T,r];  y += z B^T          x' = drop(x); every adapter has a mask of its own,
//                                                                      or those of one x have one (adapter.dropout_mask)
//     dB += dy^T z;  dz = s dy B;  dA += dz^T x';  dx += drop(dz A)
// Nothing of the size of the layer's weight is made. Adapters of parts of a layer (Q, K and V) read one x: without dropout, or with one mask, their A stand one
// below the other and are one product. z is made again on the way back.
#ifndef FT_ADAPTER_H
#define FT_ADAPTER_H

#include "engine/model/blocks/layers.h"

bool ft_adapter_on(const ft_linear *l); // has any of the layer's parts one?
ft_dropout ft_adapter_dropout(const ft_pass *pass, ft_rows_kind kind, const ft_adapter *adapter); // of what it reads
ft_status ft_adapter_dropped(ft_pass *pass, ft_rows_kind kind, ft_dropout dropout, ft_tensor x, ft_tensor *out); // out = drop(x) is made here
ft_status ft_adapter_add_dropped(ft_pass *pass, ft_rows_kind kind, ft_dropout dropout, ft_tensor x, ft_tensor y); // y += drop(x)
ft_status ft_adapter_forward(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor x, ft_tensor y);
ft_status ft_adapter_input_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, ft_tensor dx); // adds
ft_status ft_adapter_weight_gradient(ft_pass *pass, ft_rows_kind kind, const ft_linear *l, ft_tensor dy, ft_tensor x);

// Of a layer with one adapter for all parts, of which the first was computed for the rows that are read and the others for every token:
// dA is a sum over the tokens alone, in their order, whatever the micro-batches.
bool ft_adapter_is_shared(const ft_linear *l);
ft_status ft_adapter_split_gradient(ft_pass *pass, const ft_linear *l, ft_tensor dread, ft_tensor read_x, ft_tensor drest, ft_tensor x);

#endif
