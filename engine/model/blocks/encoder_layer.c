// encoder_layer.c - one transformer layer, forward and backward: the blocks of the family one after the other (block.h),
//
//   qkv = x Wqkv^T + b;  a = attention(qkv);  s1 = x + drop(a Wo^T + bo);  y1 = LN(s1)
//   h = y1 W1^T + b1;  s2 = y1 + drop(act(h) W2^T + b2);  y = LN(s2)
// Kept for the backward pass are what blocks keep, the sums, what norms put out and the row statistics; what norms put out is made again
// from the sums if so configured (recompute.c).
// Where norms stand in front of blocks (block.h) s1 = s + drop(a Wo^T + bo), with s the sum in front of x, and s2 = s1 + ...
// In 16 bits the x and y1 of the sums are those of fp32, in `wide` (layers.h), and so are the gradients of x, y1 and y; unless
// train.residual is 16bit.
#include "engine/model/blocks/block.h"
#include "engine/model/blocks/linear.h"
#include "engine/model/blocks/norm.h"
#include "engine/model/gradients/gradients.h"

const ft_block *ft_block_at(const ft_model *model, int block) {
    static const ft_block *const blocks[] = {[FT_BLOCK_ATTENTION] = &ft_attention_block, [FT_BLOCK_NORMED_ATTENTION] = &ft_normed_attention_block,
                                            [FT_BLOCK_FEED_FORWARD] = &ft_feed_forward_block,
                                            [FT_BLOCK_GATED_FEED_FORWARD] = &ft_gated_feed_forward_block};
    return blocks[model->family->blocks[block]];
}

bool ft_block_reads_input(const ft_model *m, int layer, int block) {
    return ft_block_goes_back(m, layer, block) && ft_linear_reads_input(m, ft_block_at(m, block)->first(&m->layer[layer]));
}

// When the backward pass comes to a block, among those of its layer (gradients.h).
static int half_of(int block) { return FT_LAYER_BLOCKS - 1 - block; }

// Names of layer n, or of those weights that it shares.
static void prefix_of(ft_builder *b, int layer) {
    const ft_family *f = b->model->family;
    const int weights = (int)ft_model_config_weights(b->config, layer), inner = (int)b->config->inner_layers;
    if (f->inner_layer == NULL) ft_build_prefix(b, "%s.%d.", f->layer, layer);
    else ft_build_prefix(b, "%s.%d.%s.%d.", f->layer, weights / inner, f->inner_layer, weights % inner);
}

// Behind a block; where norms stand in front of blocks that behind the last one has the name of the next layer's, or of the one behind all.
static ft_norm build_norm(ft_builder *b, int layer, int block) {
    const ft_model *m = b->model;
    const ft_family *f = m->family;
    const bool next = f->norms_in_front && block == FT_LAYER_BLOCKS - 1, last = layer == m->layers - 1;
    if (next && last) ft_build_prefix(b, "%s", "");
    else prefix_of(b, layer + next);
    const ft_norm norm = ft_build_norm(b, next && last ? f->names.last_norm : f->names.norm[block], m->hidden);
    prefix_of(b, layer);
    return norm;
}

static int build_scale(ft_builder *b, const char *name) {
    return ft_build_parameter(b, name, "", (ft_parameter_spec){.cols = b->model->hidden, .decay = true, .wide = true,
                                                               .drawn = {.kind = FT_DRAWN_CONSTANT, .size = b->config->picture.scale}});
}

// An adapter drops its own numbers in every layer that it is part of.
static void number_adapters(ft_builder *b, ft_linear *l) {
    if (l->adapter_count == 0) return;
    ft_adapter *own = ft_arena_alloc(&b->model->arena, (size_t)l->adapter_count * sizeof *own);
    b->failed |= own == NULL;
    if (own == NULL) return;
    for (int i = 0; i < l->adapter_count; i++) {
        own[i] = l->adapters[i];
        own[i].number = ft_build_adapter_number(b, i > 0 ? own : NULL);
    }
    l->adapters = own;
}

// The weights of a layer above: one gradient, to which this layer adds its part.
static void share_weights(ft_builder *b, const ft_layer_weights *w, int layer) {
    ft_model *m = b->model;
    ft_layer_parameters *l = &m->layer[layer];
    if (w->trainable != b->trainable) {
        ft_fail(FT_INVALID, "model.freeze_layers", "layers %d and %d have the same weights in this model: both are frozen, or neither", layer, w->layer);
        b->failed = true;
    }
    if (b->failed) return;
    *l = m->layer[w->layer];
    ft_linear *const linear[] = {&l->qkv, &l->output, &l->up, &l->down};
    for (size_t i = 0; i < sizeof linear / sizeof linear[0]; i++) number_adapters(b, linear[i]);
    for (int i = w->first; i < w->end; i++)
        ft_parameters_share_block(&m->parameters, i, ft_backward_point(b->depth, ft_backward_half(m->parameters.list[i].arrives)));
}

void ft_layer_build(ft_builder *b, int layer) {
    ft_model *m = b->model;
    ft_layer_weights *w = &b->weights[ft_model_config_weights(b->config, layer)];
    if (w->built) {
        share_weights(b, w, layer);
        return;
    }
    *w = (ft_layer_weights){.built = true, .trainable = b->trainable, .layer = layer, .first = m->parameters.count};
    prefix_of(b, layer);
    for (int i = FT_LAYER_BLOCKS - 1; i >= 0; i--) {
        b->half = half_of(i);
        const char *scale = m->family->names.scale[i];
        m->layer[layer].norm[i] = build_norm(b, layer, i);
        m->layer[layer].scale[i] = scale != NULL ? build_scale(b, scale) : -1;
        ft_block_at(m, i)->build(b, layer);
    }
    b->half = 0;
    w->end = m->parameters.count;
}

// The layer whose weights these are.
static int home_of(const ft_model *m, int layer) {
    return layer < 0 ? -1 : m->layers - ft_backward_block(m->parameters.list[m->layer[layer].qkv.weight].arrives);
}

ft_status ft_layer_enter(ft_pass *pass, int layer, int next) {
    ft_model *m = pass->model;
    if (!m->parameters.window.on) return FT_OK;
    return ft_window_enter(&m->parameters.window, home_of(m, layer), home_of(m, next));
}

// What of block i, of a layer that goes back, is of no use to the block above it.
static void leave_input(ft_pass *pass, int layer, int i, ft_layer_saved *saved) {
    const ft_model *m = pass->model;
    const bool reads = ft_block_reads_input(m, layer, i + 1), goes_back = ft_block_goes_back(m, layer, i);
    if (!reads || (m->rebuilds_norms && goes_back)) ft_pass_free(pass, &saved->block[i].y); // else it is made again from the sum
    if (!goes_back) ft_norm_forget(pass, &saved->block[i].norm);
}

ft_status ft_layer_forward(ft_pass *pass, int layer, ft_tensor x, ft_tensor *wide, bool keep, ft_layer_saved *saved, ft_tensor *y) {
    *saved = (ft_layer_saved){.block = {{.sum = ft_absent()}}};
    FT_TRY(ft_layer_enter(pass, layer, -1));
    for (int i = 0; i < FT_LAYER_BLOCKS; i++) {
        const ft_block *block = ft_block_at(pass->model, i);
        const bool top = i == FT_LAYER_BLOCKS - 1;
        const bool stays = keep && ft_block_goes_back(pass->model, layer, i);
        ft_block_saved *s = &saved->block[i];
        ft_tensor rows = x, out;
        FT_TRY(block->forward(pass, layer, &rows, wide, stays, s->own, &out));
        FT_TRY(ft_residual_forward(pass, layer, i, out, rows, *wide, s, top ? y : &s->y));
        block->recede(pass, layer, stays, s->own, &out);
        if (!stays && !top) ft_pass_free(pass, &s->sum);
        if (!stays) ft_pass_free(pass, &s->product);
        x = s->y;
    }
    if (!keep) ft_layer_saved_free(pass, saved);
    for (int i = 0; keep && i < FT_LAYER_BLOCKS - 1; i++) leave_input(pass, layer, i, saved);
    return FT_OK;
}

ft_status ft_layer_input_of_stream(ft_pass *pass, int layer, ft_tensor wide, ft_tensor *x) {
    const ft_model *m = pass->model;
    FT_TRY(ft_pass_tensor(pass, FT_ROWS_TOKENS, wide.cols, FT_MEM_ACTIVATIONS, layer, "input", x));
    const bool first = layer == 0 && m->family->first_norm_in_front;
    if (first || (m->family->norms_in_front && layer > 0))
        return ft_norm_forward(pass, FT_ROWS_TOKENS, first ? &m->embedding_norm : &m->layer[layer - 1].norm[FT_LAYER_BLOCKS - 1], NULL,
                               (ft_layernorm_forward_args){.x = wide, .y = *x});
    return ft_pass_copy_rows(pass, wide, *x);
}

void ft_layer_saved_free(ft_pass *pass, ft_layer_saved *saved) {
    for (int i = 0; i < FT_LAYER_BLOCKS; i++) {
        ft_block_saved *s = &saved->block[i];
        for (int k = 0; k < ft_block_at(pass->model, i)->saved; k++) ft_pass_free(pass, &s->own[k]);
        ft_pass_free(pass, &s->sum);
        ft_pass_free(pass, &s->product);
        ft_norm_forget(pass, &s->norm);
        ft_pass_free(pass, &s->y);
    }
}

ft_status ft_layer_backward(ft_pass *pass, int layer, ft_tensor *x, ft_layer_saved *saved, ft_tensor *dy, ft_tensor *stream, bool want_dx,
                            ft_tensor *dx) {
    ft_model *m = pass->model;
    ft_block_gradients g = {.past = *dy, .stream = *stream};
    *dy = *stream = ft_absent();
    for (int i = FT_LAYER_BLOCKS - 1; i >= 0 && ft_block_goes_back(m, layer, i); i--) {
        const bool wanted = ft_block_reads_input(m, layer, i), lowest = i == 0 || !ft_block_goes_back(m, layer, i - 1);
        ft_block_saved *below = i > 0 ? &saved->block[i - 1] : NULL;
        ft_block_input input = {.x = x, .wanted = wanted, .layer = layer - 1, .block = FT_LAYER_BLOCKS - 1};
        if (i > 0) input = (ft_block_input){.x = &below->y, .wanted = wanted, .layer = layer, .block = i - 1, .below = below};
        else if (wanted && x->data == NULL) input.below = &(saved - 1)->block[FT_LAYER_BLOCKS - 1];
        if (half_of(i) > 0) FT_TRY(ft_gradients_reach(&m->parameters, ft_backward_point(m->layers - layer, half_of(i))));
        g.want_dx = !lowest || want_dx;
        g.dx = ft_absent();
        FT_TRY(ft_residual_backward(pass, layer, i, &saved->block[i], &g));
        FT_TRY(ft_block_at(m, i)->backward(pass, layer, saved->block[i].own, &input, &g));
        if (i > 0) ft_pass_free(pass, &below->y);
        g.past = g.dx;
    }
    *dx = g.dx;
    *stream = g.stream;
    ft_layer_saved_free(pass, saved);
    return FT_OK;
}
