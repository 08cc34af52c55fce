// gated_feed_forward.c - the block dropout(act(a) * g), where x Wi^T gives a and g side by side, and whose last linear layer is Wo. a and g
// are kept; their product is made again, unless it is kept too (recompute.c). Whether anything is dropped here, or behind the last layer as
// elsewhere, is said by the family. Wi is one linear layer, or two whose rows stand together.
#include "engine/model/blocks/block.h"
#include "engine/model/blocks/linear.h"
#include "engine/model/blocks/run_op.h"

enum { H, PRODUCT, SAVED }; // the latter where it is kept

static void build_up(ft_builder *b, ft_linear *up) {
    const ft_layer_names *n = &b->model->family->names;
    const int64_t width = b->model->intermediate, inputs = b->model->hidden;
    const bool biased = (b->config->unbiased & FT_LINEAR_UP) == 0;
    const ft_parameter_spec all = {.rows = 2 * width, .cols = inputs, .swapped = n->gate_below}, half = {.rows = width, .cols = inputs};
    *up = (ft_linear){.bias = -1, .inputs = inputs, .outputs = 2 * width, .parts = 1, .lead = 2 * width};
    if (n->gate == NULL) {
        up->weight = ft_build_factor(b, n->up, all);
        ft_build_adapters(b, up, 1, &n->up);
        if (biased) up->bias = ft_build_bias(b, n->up, 2 * width);
        return;
    }
    up->parts = 2;
    up->lead = up->width = width;
    up->each = true;
    ft_parameter_spec behind = half;
    behind.joins_group = true;
    up->weight = ft_build_factor(b, n->gate, half);
    ft_build_factor(b, n->up, behind);
    ft_build_adapters(b, up, 2, (const char *const[]){n->gate, n->up});
    if (biased) {
        up->bias = ft_build_bias(b, n->gate, width);
        ft_build_parameter(b, n->up, ".bias", (ft_parameter_spec){.cols = width, .joins_group = true});
    }
    ft_build_apart(b, up);
}

static void build(ft_builder *b, int layer) {
    const ft_model *m = b->model;
    const ft_layer_names *n = &m->family->names;
    ft_layer_parameters *l = &m->layer[layer];
    l->down = ft_build_layer_linear(b, FT_LINEAR_DOWN, n->down, m->hidden, m->intermediate);
    build_up(b, &l->up);
}

static const ft_linear *first(const ft_layer_parameters *l) { return &l->up; }
static const ft_linear *last(const ft_layer_parameters *l) { return &l->down; }

static ft_status gate(ft_pass *pass, ft_rows_kind kind, ft_gated_forward_args args) {
    ft_gated_forward_args largest = args;
    largest.x.rows = largest.y.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, gated_forward, args, largest);
}

static ft_status gate_backward(ft_pass *pass, ft_rows_kind kind, ft_gated_backward_args args) {
    ft_gated_backward_args largest = args;
    largest.h.rows = largest.dy.rows = largest.dx.rows = ft_pass_capacity(pass, kind);
    if (args.y.data != NULL) largest.y.rows = largest.h.rows;
    RUN_WITH_WORKSPACE(pass, gated_backward, args, largest);
}

static ft_status drop(ft_pass *pass, ft_rows_kind kind, int layer, ft_tensor x) {
    const ft_model *m = pass->model;
    const ft_dropout_site site = m->family->feed_forward_drops == FT_DROPS_BOTH ? FT_SITE_GATE : FT_SITE_FFN_OUTPUT;
    const ft_dropout dropout = ft_pass_dropout(pass, kind, m->gate_dropout, (uint32_t)layer, site);
    return ft_pass_dropout_rows(pass, kind, dropout, x, x);
}

static ft_status forward(ft_pass *pass, int layer, ft_tensor *rows, ft_tensor *wide, bool keep, ft_tensor *saved, ft_tensor *out) {
    const ft_linear *up = &pass->model->layer[layer].up;
    const ft_rows_kind kind = ft_layer_rows(pass, layer);
    FT_TRY(ft_layer_tensor(pass, kind, up->outputs, layer, "feed-forward", &saved[H]));
    FT_TRY(ft_linear_forward(pass, kind, up, *rows, saved[H]));
    FT_TRY(ft_layer_tensor(pass, kind, pass->model->intermediate, layer, "gated", out));
    FT_TRY(gate(pass, kind, (ft_gated_forward_args){.kind = pass->model->activation, .x = saved[H], .y = *out}));
    if (!keep) ft_pass_free(pass, &saved[H]);
    return drop(pass, kind, layer, *out);
}

// Is the product kept, which only the gradient of Wo reads?
static bool keeps_product(const ft_model *m, int layer) { return m->keeps_activation && ft_linear_reads_input(m, &m->layer[layer].down); }

static void recede(ft_pass *pass, int layer, bool keep, ft_tensor *saved, ft_tensor *out) {
    if (keep && keeps_product(pass->model, layer)) saved[PRODUCT] = *out;
    else ft_pass_free(pass, out);
}

static ft_status backward(ft_pass *pass, int layer, ft_tensor *saved, const ft_block_input *input, ft_block_gradients *g) {
    const ft_model *m = pass->model;
    const ft_layer_parameters *l = &m->layer[layer];
    const ft_rows_kind kind = ft_layer_rows(pass, layer);
    const ft_tensor dsum = ft_product_gradient(g);
    ft_tensor dproduct;
    const bool again = ft_linear_reads_input(m, &l->down) && !keeps_product(m, layer);
    FT_TRY(ft_layer_tensor(pass, kind, m->intermediate, layer, "gated gradient", &dproduct));
    FT_TRY(ft_linear_input_gradient(pass, kind, &l->down, dsum, false, dproduct));
    FT_TRY(drop(pass, kind, layer, dproduct));
    if (again) FT_TRY(ft_layer_tensor(pass, kind, m->intermediate, layer, "gated", &saved[PRODUCT]));
    // The gradient of a and g takes their place.
    FT_TRY(gate_backward(pass, kind, (ft_gated_backward_args){.kind = m->activation, .h = saved[H], .dy = dproduct, .dx = saved[H], .y = again ? saved[PRODUCT] : ft_absent()}));
    ft_pass_free(pass, &dproduct);
    if (again) FT_TRY(drop(pass, kind, layer, saved[PRODUCT]));
    FT_TRY(ft_linear_weight_gradient(pass, kind, &l->down, dsum, saved[PRODUCT]));
    ft_pass_free(pass, &saved[PRODUCT]);
    ft_pass_free(pass, &g->product);
    FT_TRY(ft_linear_bias_gradient(pass, kind, &l->up, saved[H]));
    FT_TRY(ft_block_input_again(pass, input));
    FT_TRY(ft_linear_weight_gradient(pass, kind, &l->up, saved[H], *input->x));
    FT_TRY(ft_block_input_gradient(pass, kind, layer, &l->up, saved[H], input, g));
    ft_pass_free(pass, &saved[H]);
    return FT_OK;
}

const ft_block ft_gated_feed_forward_block = {.sum = "feed-forward sum",
                                              .sum_gradient = "feed-forward sum gradient",
                                              .site = FT_SITE_FFN_OUTPUT,
                                              .saved = SAVED,
                                              .build = build,
                                              .first = first,
                                              .last = last,
                                              .forward = forward,
                                              .recede = recede,
                                              .backward = backward};
