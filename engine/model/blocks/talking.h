// talking.h - attention of heads that talk to each other, with relative positions or without (kernels/ops/talking_attention.h).
#ifndef FT_TALKING_H
#define FT_TALKING_H

#include "engine/model/blocks/layers.h"

void ft_talking_build_layer(ft_builder *b, int layer); // where config.json asks for it
static inline bool ft_heads_talk(const ft_model *m, int layer) { return m->layer[layer].mix_scores >= 0; }
// The shape is filled in.
ft_status ft_talking_attention_forward(ft_pass *pass, ft_rows_kind queries, int layer, ft_attention_forward_args args);
ft_status ft_talking_attention_backward(ft_pass *pass, ft_rows_kind queries, int layer, ft_attention_backward_args args);

#endif
