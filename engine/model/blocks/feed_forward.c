// feed_forward.c - the block act(x W1^T + b1), whose last linear layer is W2. h, in front of the activation, is kept; act(h) is made
// again, unless it is kept too (recompute.c).
#include "engine/model/blocks/block.h"
#include "engine/model/blocks/linear.h"

enum { H, ACTIVATION, SAVED }; // the latter where it is kept

static void build(ft_builder *b, int layer) {
    const ft_model *m = b->model;
    const ft_layer_names *n = &m->family->names;
    ft_layer_parameters *l = &m->layer[layer];
    l->down = ft_build_layer_linear(b, FT_LINEAR_DOWN, n->down, m->hidden, m->intermediate);
    l->up = ft_build_layer_linear(b, FT_LINEAR_UP, n->up, m->intermediate, m->hidden);
}

static const ft_linear *first(const ft_layer_parameters *l) { return &l->up; }
static const ft_linear *last(const ft_layer_parameters *l) { return &l->down; }

static ft_status forward(ft_pass *pass, int layer, ft_tensor *rows, ft_tensor *wide, bool keep, ft_tensor *saved, ft_tensor *out) {
    const ft_linear *up = &pass->model->layer[layer].up;
    const ft_rows_kind kind = ft_layer_rows(pass, layer);
    FT_TRY(ft_layer_tensor(pass, kind, up->outputs, layer, "feed-forward", &saved[H]));
    // The bias goes with the product: the activation need not write h again.
    const bool in_one = ft_linear_may_activate(pass, kind, up);
    if (!in_one) FT_TRY(ft_linear_forward(pass, kind, up, *rows, saved[H]));
    *out = saved[H]; // when nothing is kept the activation happens in place
    if (keep) FT_TRY(ft_layer_tensor(pass, kind, up->outputs, layer, "activation", out));
    if (in_one) return ft_linear_activated(pass, kind, up, *rows, pass->model->activation, saved[H], *out);
    return ft_pass_activation_forward(
        pass, kind, (ft_activation_forward_args){.kind = pass->model->activation, .x = saved[H], .y = *out});
}

// Is act(h) kept, which only the gradient of W2 reads?
static bool keeps_activation(const ft_model *m, int layer) {
    return m->keeps_activation && ft_linear_reads_input(m, &m->layer[layer].down);
}

static void recede(ft_pass *pass, int layer, bool keep, ft_tensor *saved, ft_tensor *out) {
    if (!keep) return; // it is h, which goes with the layer
    if (keeps_activation(pass->model, layer)) saved[ACTIVATION] = *out;
    else ft_pass_free(pass, out);
}

static ft_status backward(ft_pass *pass, int layer, ft_tensor *saved, const ft_block_input *input, ft_block_gradients *g) {
    const ft_model *m = pass->model;
    const ft_layer_parameters *l = &m->layer[layer];
    const ft_rows_kind kind = ft_layer_rows(pass, layer);
    const ft_tensor dsum = ft_product_gradient(g);
    const bool reads = ft_linear_reads_input(m, &l->down), keeps = keeps_activation(m, layer);
    ft_tensor dh, value = keeps ? saved[ACTIVATION] : saved[H]; // made again, it takes h's place
    FT_TRY(ft_layer_tensor(pass, kind, l->up.outputs, layer, "activation gradient", &dh));
    saved[ACTIVATION] = ft_absent();
    const ft_activation_backward_args back = {.kind = m->activation,
                                              .h = saved[H],
                                              .dy = dh,
                                              .dx = dh,
                                              .y = reads && !keeps ? value : ft_absent(),
                                              .dbias = ft_linear_dbias(pass, &l->up)};
    if (ft_linear_may_activate(pass, kind, &l->down)) {
        FT_TRY(ft_linear_slope(pass, kind, &l->down, dsum, back));
    } else {
        FT_TRY(ft_linear_input_gradient(pass, kind, &l->down, dsum, false, dh));
        FT_TRY(ft_pass_activation_backward(pass, kind, back));
    }
    if (keeps) ft_pass_free(pass, &saved[H]);
    saved[H] = ft_absent();
    FT_TRY(ft_linear_weight_gradient(pass, kind, &l->down, dsum, value));
    ft_pass_free(pass, &value);
    ft_pass_free(pass, &g->product);
    FT_TRY(ft_block_input_again(pass, input));
    FT_TRY(ft_linear_weight_gradient(pass, kind, &l->up, dh, *input->x));
    FT_TRY(ft_block_input_gradient(pass, kind, layer, &l->up, dh, input, g));
    ft_pass_free(pass, &dh);
    return FT_OK;
}

const ft_block ft_feed_forward_block = {.sum = "feed-forward sum",
                                        .sum_gradient = "feed-forward gradient",
                                        .site = FT_SITE_FFN_OUTPUT,
                                        .saved = SAVED,
                                        .build = build,
                                        .first = first,
                                        .last = last,
                                        .forward = forward,
                                        .recede = recede,
                                        .backward = backward};
