// residual.c - around every block: s = rows + dropout(a W^T + b), y = LN(s), and back. y may be made again from s (recompute.c).
// Where a layer has scales (DINOv2) s = rows + dropout(scale * (a W^T + b)).
// Where norms stand in front of blocks, what goes from sum to sum is `wide`, in every precision (layers.h).
#include "engine/model/blocks/block.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/blocks/linear.h"
#include "engine/model/blocks/norm.h"

// Names of tensors: a block's norm and its output.
static const char *const names[FT_LAYER_BLOCKS][2] = {{"norm 1", "norm 1"}, {"norm 2", "output"}};
static const char *const scaled_names[FT_LAYER_BLOCKS] = {"product 1", "product 2"};

static ft_dropout dropout_of(const ft_pass *pass, int layer, const ft_block *kind) {
    const ft_model *m = pass->model;
    float p = kind->site == FT_SITE_ATTENTION_OUTPUT ? m->attention_output_dropout : m->feed_forward_dropout;
    return ft_pass_dropout(pass, ft_layer_rows(pass, layer), p, (uint32_t)layer, kind->site);
}

static bool trains_scale(const ft_pass *pass, int scale) { return pass->model->parameters.list[scale].trainable; }

// s, before the sum. What is scaled is kept for the gradient of the scale alone.
static ft_status scaled_product(ft_pass *pass, int layer, int block, ft_rows_kind of, ft_tensor a, ft_block_saved *saved) {
    const ft_model *m = pass->model;
    const ft_linear *last = ft_block_at(m, block)->last(&m->layer[layer]);
    const int scale = m->layer[layer].scale[block];
    FT_TRY(ft_layer_tensor(pass, of, last->outputs, layer, scaled_names[block], &saved->product));
    FT_TRY(ft_linear_forward(pass, of, last, a, saved->product));
    FT_TRY(ft_pass_column_scale(pass, of, (ft_column_scale_args){.x = saved->product, .magnitude = ft_parameter_weight(&m->parameters, scale), .y = saved->sum}));
    if (!trains_scale(pass, scale)) ft_pass_free(pass, &saved->product);
    return FT_OK;
}

// dy, of s, becomes the gradient of the product.
static ft_status scaled_backward(ft_pass *pass, int layer, int block, ft_rows_kind of, ft_block_saved *saved, ft_tensor dy) {
    const ft_model *m = pass->model;
    const int scale = m->layer[layer].scale[block];
    if (trains_scale(pass, scale)) {
        ft_tensor each;
        FT_TRY(ft_pass_float_tensor(pass, of, dy.cols, FT_MEM_ACTIVATIONS, layer, "gradient of a scale", &each));
        FT_TRY(ft_pass_column_scale(pass, of, (ft_column_scale_args){.x = saved->product, .times = dy, .y = each}));
        FT_TRY(ft_pass_column_sum(pass, of, each, ft_parameter_gradient(&m->parameters, scale)));
        ft_pass_free(pass, &each);
        ft_pass_free(pass, &saved->product);
    }
    FT_TRY(ft_pass_column_scale(pass, of, (ft_column_scale_args){.x = dy, .magnitude = ft_parameter_weight(&m->parameters, scale), .y = dy}));
    return ft_linear_bias_gradient(pass, of, ft_block_at(m, block)->last(&m->layer[layer]), dy);
}

// The product lands in s, which the fused op then completes in place. wide: the rows as they are summed up, and then y, or the stream.
ft_status ft_residual_forward(ft_pass *pass, int layer, int block, ft_tensor a, ft_tensor rows, ft_tensor wide, ft_block_saved *saved,
                              ft_tensor *y) {
    const ft_block *kind = ft_block_at(pass->model, block);
    const ft_layer_parameters *l = &pass->model->layer[layer];
    const ft_linear *last = kind->last(l);
    const ft_rows_kind of = ft_layer_rows(pass, layer);
    FT_TRY(ft_layer_tensor(pass, of, last->outputs, layer, kind->sum, &saved->sum));
    FT_TRY(ft_norm_keep(pass, of, layer, names[block][0], &saved->norm));
    const bool scales = l->scale[block] >= 0, stream = pass->model->family->norms_in_front;
    // With fp32 rows behind norms there is no kernel of our own (product_norm.h).
    const bool in_one = !scales && (stream || wide.data == NULL) && ft_linear_may_activate(pass, of, last);
    if (scales) FT_TRY(scaled_product(pass, layer, block, of, a, saved));
    else if (!in_one) FT_TRY(ft_linear_product(pass, of, last, a, ft_absent(), saved->sum));
    FT_TRY(ft_layer_tensor(pass, of, last->outputs, layer, names[block][1], y));
    const ft_layernorm_forward_args args = {.x = saved->sum,
                                            .bias = scales ? ft_absent() : ft_linear_bias(pass, last),
                                            .residual = wide.data != NULL ? wide : rows,
                                            .dropout = dropout_of(pass, layer, kind),
                                            .s = saved->sum,
                                            .y = *y,
                                            .wide = stream ? ft_absent() : wide,
                                            .stream = stream ? wide : ft_absent()};
    if (in_one) return ft_linear_normed(pass, of, last, a, &l->norm[block], &saved->norm, args);
    return ft_norm_forward(pass, of, &l->norm[block], &saved->norm, args);
}

// The gradient of the product is a tensor of its own when there is dropout or it has another type, else that of the rows.
ft_status ft_residual_backward(ft_pass *pass, int layer, int block, ft_block_saved *saved, ft_block_gradients *g) {
    const ft_block *kind = ft_block_at(pass->model, block);
    const ft_layer_parameters *l = &pass->model->layer[layer];
    const ft_rows_kind of = ft_layer_rows(pass, layer);
    const ft_dropout dropout = dropout_of(pass, layer, kind);
    const ft_tensor ds = g->stream.data != NULL ? g->stream : g->past; // the stream's grows by it
    g->product = ft_absent();
    const bool scales = l->scale[block] >= 0;
    if (dropout.probability > 0 || g->past.dtype != pass->model->dtype || scales)
        FT_TRY(ft_layer_tensor(pass, of, g->past.cols, layer, kind->sum_gradient, &g->product));
    FT_TRY(ft_norm_backward(pass, of, &l->norm[block], &saved->norm,
                            (ft_layernorm_backward_args){.dy = g->past,
                                                         .s = saved->sum,
                                                         .past = g->stream,
                                                         .dropout = dropout,
                                                         .ds = ds,
                                                         .dx = g->product,
                                                         .dbias = scales ? ft_absent() : ft_linear_dbias(pass, kind->last(l))}));
    ft_pass_free(pass, &saved->sum);
    if (scales) FT_TRY(scaled_backward(pass, layer, block, of, saved, g->product));
    if (g->stream.data == NULL) return FT_OK;
    ft_pass_free(pass, &g->past);
    g->past = ds;
    g->stream = ft_absent();
    return FT_OK;
}

ft_status ft_block_input_gradient(ft_pass *pass, ft_rows_kind kind, int layer, const ft_linear *first, ft_tensor dy, const ft_block_input *input,
                                  ft_block_gradients *g) {
    if (!g->want_dx) {
        ft_pass_free(pass, &g->past);
        return FT_OK;
    }
    const bool adds = !ft_block_has_stream(pass, input);
    if (adds) g->dx = g->past;
    else {
        g->stream = g->past;
        FT_TRY(ft_pass_row_tensor(pass, kind, pass->model->hidden, layer, "input gradient", &g->dx));
    }
    return ft_linear_input_gradient(pass, kind, first, dy, adds, g->dx);
}

ft_status ft_block_input_again(ft_pass *pass, const ft_block_input *input) {
    if (input->x->data != NULL || !input->wanted) return FT_OK;
    const ft_tensor sum = input->below->sum;
    const ft_rows_kind of = ft_layer_rows(pass, input->layer);
    FT_TRY(ft_layer_tensor(pass, of, sum.cols, input->layer, names[input->block][1], input->x));
    return ft_norm_forward(pass, of, &pass->model->layer[input->layer].norm[input->block], NULL,
                           (ft_layernorm_forward_args){.x = sum, .y = *input->x});
}
