#include "engine/model/blocks/talking.h"

#include "engine/model/gradients/gradients.h"
#include "engine/model/blocks/relative.h"
#include "engine/model/blocks/run_op.h"

void ft_talking_build_layer(ft_builder *b, int layer) {
    ft_layer_parameters *l = &b->model->layer[layer];
    const ft_layer_names *n = &b->model->family->names;
    l->mix_scores = l->mix_weights = -1;
    if (!b->config->relative.talking_heads) return;
    l->mix_weights = ft_build_mixing(b, n->mix_weights, b->model->heads.count);
    l->mix_scores = ft_build_mixing(b, n->mix_scores, b->model->heads.count);
}

static ft_tensor weight(const ft_pass *pass, int index) { return ft_parameter_weight(&pass->model->parameters, index); }
static ft_tensor gradient(const ft_pass *pass, int index) { return ft_parameter_gradient(&pass->model->parameters, index); }

ft_status ft_talking_attention_forward(ft_pass *pass, ft_rows_kind queries, int layer, ft_attention_forward_args plain) {
    const ft_layer_parameters *l = &pass->model->layer[layer];
    const ft_layer_positions positions = ft_relative_whole_tables(pass, layer);
    ft_talking_attention_forward_args args = {.shape = ft_relative_shape(pass, queries, layer),
                                              .q = plain.q,
                                              .k = plain.k,
                                              .v = plain.v,
                                              .pos_key = positions.key,
                                              .pos_query = positions.query,
                                              .mix_scores = weight(pass, l->mix_scores),
                                              .mix_weights = weight(pass, l->mix_weights),
                                              .out = plain.out,
                                              .lse = plain.lse};
    ft_talking_attention_forward_args largest = args;
    largest.shape.attention = ft_pass_largest_shape(pass, queries, args.shape.attention);
    largest.q.rows = largest.out.rows = ft_pass_capacity(pass, queries);
    largest.k.rows = largest.v.rows = pass->capacity.tokens;
    if (args.lse.data != NULL) largest.lse.rows = largest.q.rows;
    RUN_WITH_WORKSPACE(pass, talking_attention_forward, args, largest);
}

ft_status ft_talking_attention_backward(ft_pass *pass, ft_rows_kind queries, int layer, ft_attention_backward_args plain) {
    const ft_layer_parameters *l = &pass->model->layer[layer];
    const ft_layer_positions positions = ft_relative_whole_tables(pass, layer);
    ft_talking_attention_backward_args args = {.shape = ft_relative_shape(pass, queries, layer),
                                               .q = plain.q,
                                               .k = plain.k,
                                               .v = plain.v,
                                               .pos_key = positions.key,
                                               .pos_query = positions.query,
                                               .mix_scores = weight(pass, l->mix_scores),
                                               .mix_weights = weight(pass, l->mix_weights),
                                               .lse = plain.lse,
                                               .dout = plain.dout,
                                               .dq = plain.dq,
                                               .dk = plain.dk,
                                               .dv = plain.dv,
                                               .dpos_key = positions.dkey,
                                               .dpos_query = positions.dquery,
                                               .dmix_scores = gradient(pass, l->mix_scores),
                                               .dmix_weights = gradient(pass, l->mix_weights)};
    ft_talking_attention_backward_args largest = args;
    largest.shape.attention = ft_pass_largest_shape(pass, queries, args.shape.attention);
    largest.q.rows = largest.dout.rows = largest.dq.rows = largest.lse.rows = ft_pass_capacity(pass, queries);
    largest.k.rows = largest.v.rows = largest.dk.rows = largest.dv.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, talking_attention_backward, args, largest);
}
