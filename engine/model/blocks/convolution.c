// convolution.c - the block behind encoder layer 0 of DeBERTa's v2-x models, forward and backward.
//
//   h = dropout(conv(e) + b);  s = y0 + act(h);  y = LN(s)        e: input of layer 0, y0: its output
// Kept for the backward pass: h, s and the row statistics. The windows of e, taps times as wide as e, are made again.
#include "engine/model/blocks/convolution.h"

#include "engine/model/blocks/linear.h"
#include "engine/model/blocks/norm.h"
#include "engine/model/blocks/run_op.h"

void ft_convolution_build(ft_builder *b) {
    const ft_convolution_config *config = &b->config->convolution;
    if (config->taps == 0) return;
    const int64_t h = b->model->hidden, part = h / config->groups;
    ft_convolution *c = ft_arena_alloc(&b->model->arena, sizeof *c);
    b->failed |= c == NULL;
    if (c == NULL) return;
    *c = (ft_convolution){.taps = config->taps, .activation = config->activation};
    ft_build_prefix(b, "encoder.conv.");
    c->norm = ft_build_norm(b, "LayerNorm", h);
    c->linear = (ft_linear){.inputs = part * c->taps, .outputs = h, .parts = config->groups, .lead = part, .width = part};
    c->linear.weight = ft_build_parameter(b, "conv", ".weight",
                                          (ft_parameter_spec){.rows = h, .cols = c->linear.inputs, .taps = c->taps, .decay = true});
    c->linear.bias = ft_build_bias(b, "conv", h);
    b->model->convolution = c;
}

static ft_status tokens(ft_pass *pass, int64_t cols, const char *name, ft_tensor *out) {
    return ft_pass_tensor(pass, FT_ROWS_TOKENS, cols, FT_MEM_ACTIVATIONS, -1, name, out);
}

static ft_dropout dropout_of(const ft_pass *pass) {
    return ft_pass_dropout(pass, FT_ROWS_TOKENS, pass->model->hidden_dropout, 0, FT_SITE_CONVOLUTION);
}

// x [T,C] and its windows y [T,C*taps] within every sequence.
static ft_status unfold(ft_pass *pass, int taps, ft_tensor x, ft_tensor y) {
    const ft_batch *b = pass->batch;
    ft_unfold_args args = {.sequences = b->sequences, .taps = taps, .cu_seqlens = b->cu_seqlens, .x = x, .y = y}, largest = args;
    largest.sequences = pass->capacity.sequences;
    largest.x.rows = largest.y.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, unfold, args, largest);
}

static ft_status fold_add(ft_pass *pass, int taps, ft_tensor y, ft_tensor x) {
    const ft_batch *b = pass->batch;
    ft_fold_add_args args = {.sequences = b->sequences, .taps = taps, .cu_seqlens = b->cu_seqlens, .y = y, .x = x}, largest = args;
    largest.sequences = pass->capacity.sequences;
    largest.x.rows = largest.y.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, fold_add, args, largest);
}

static ft_status windows(ft_pass *pass, ft_tensor e, ft_tensor *out) {
    const int taps = pass->model->convolution->taps;
    FT_TRY(tokens(pass, e.cols * taps, "convolution windows", out));
    return unfold(pass, taps, e, *out);
}

// Columns of the windows, or of the output, that belong to group g.
static ft_tensor of_group(const ft_convolution *c, ft_tensor t, int g) {
    int64_t count = t.cols / c->linear.parts;
    return ft_columns(t, g * count, count);
}

static ft_status convolve(ft_pass *pass, ft_tensor e, ft_tensor out) {
    const ft_convolution *c = pass->model->convolution;
    ft_tensor wide;
    FT_TRY(windows(pass, e, &wide));
    for (int g = 0; g < c->linear.parts; g++) {
        const ft_linear group = ft_linear_parts(&c->linear, g, 1);
        FT_TRY(ft_linear_forward(pass, FT_ROWS_TOKENS, &group, of_group(c, wide, g), of_group(c, out, g)));
    }
    ft_pass_free(pass, &wide);
    return FT_OK;
}

ft_status ft_convolution_forward(ft_pass *pass, ft_tensor e, ft_tensor wide, bool keep, ft_convolution_saved *s, ft_tensor *y) {
    const ft_model *m = pass->model;
    const ft_convolution *c = m->convolution;
    ft_tensor residual = *y;
    *s = (ft_convolution_saved){.h = ft_absent()};
    FT_TRY(tokens(pass, m->hidden, "convolution", &s->h));
    FT_TRY(convolve(pass, e, s->h));
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_TOKENS, dropout_of(pass), s->h, s->h));
    s->sum = s->h; // when nothing is kept all happens in place
    if (keep) FT_TRY(tokens(pass, m->hidden, "convolution sum", &s->sum));
    FT_TRY(ft_pass_activation_forward(pass, FT_ROWS_TOKENS,
                                      (ft_activation_forward_args){.kind = c->activation, .x = s->h, .y = s->sum}));
    FT_TRY(ft_norm_keep(pass, FT_ROWS_TOKENS, -1, "convolution norm", &s->norm));
    FT_TRY(tokens(pass, m->hidden, "convolution output", y));
    FT_TRY(ft_norm_forward(pass, FT_ROWS_TOKENS, &c->norm, &s->norm,
                           (ft_layernorm_forward_args){.x = s->sum,
                                                       .residual = wide.data != NULL ? wide : residual,
                                                       .s = s->sum,
                                                       .y = *y,
                                                       .wide = wide}));
    ft_pass_free(pass, &residual);
    if (keep) return FT_OK;
    s->sum = ft_absent();
    ft_convolution_saved_free(pass, s);
    return FT_OK;
}

void ft_convolution_saved_free(ft_pass *pass, ft_convolution_saved *s) {
    ft_pass_free(pass, &s->h);
    ft_pass_free(pass, &s->sum);
    ft_norm_forget(pass, &s->norm);
    ft_pass_free(pass, &s->gradient);
}

ft_status ft_convolution_backward(ft_pass *pass, ft_tensor e, ft_convolution_saved *s, ft_tensor dy) {
    const ft_convolution *c = pass->model->convolution;
    const bool apart = dy.dtype != pass->model->dtype; // then ds is there in both types, else dy is all of it
    if (apart) FT_TRY(tokens(pass, pass->model->hidden, "convolution gradient", &s->gradient));
    FT_TRY(ft_norm_backward(pass, FT_ROWS_TOKENS, &c->norm, &s->norm,
                            (ft_layernorm_backward_args){.dy = dy,
                                                         .s = s->sum,
                                                         .ds = dy,
                                                         .dx = apart ? s->gradient : ft_absent()}));
    ft_pass_free(pass, &s->sum);
    if (!apart) FT_TRY(tokens(pass, pass->model->hidden, "convolution gradient", &s->gradient));
    FT_TRY(ft_pass_activation_backward(
        pass, FT_ROWS_TOKENS,
        (ft_activation_backward_args){.kind = c->activation, .h = s->h, .dy = apart ? s->gradient : dy, .dx = s->gradient}));
    ft_pass_free(pass, &s->h);
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_TOKENS, dropout_of(pass), s->gradient, s->gradient));
    FT_TRY(ft_linear_bias_gradient(pass, FT_ROWS_TOKENS, &c->linear, s->gradient));
    ft_tensor wide;
    FT_TRY(windows(pass, e, &wide));
    for (int g = 0; g < c->linear.parts; g++) {
        const ft_linear group = ft_linear_parts(&c->linear, g, 1);
        FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_TOKENS, &group, of_group(c, s->gradient, g), of_group(c, wide, g)));
    }
    ft_pass_free(pass, &wide);
    return FT_OK;
}

// The op adds up in fp32.
static ft_status add_windows(ft_pass *pass, ft_tensor y, ft_tensor dx) {
    const int taps = pass->model->convolution->taps;
    ft_tensor sum;
    if (dx.dtype == FT_F32) return fold_add(pass, taps, y, dx);
    FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_TOKENS, dx.cols, FT_MEM_ACTIVATIONS, -1, "convolution input gradient", &sum));
    FT_TRY(ft_pass_cast(pass, dx, sum));
    FT_TRY(fold_add(pass, taps, y, sum));
    FT_TRY(ft_pass_cast(pass, sum, dx));
    ft_pass_free(pass, &sum);
    return FT_OK;
}

ft_status ft_convolution_input_gradient(ft_pass *pass, ft_convolution_saved *s, ft_tensor dx) {
    const ft_convolution *c = pass->model->convolution;
    ft_tensor wide;
    if (dx.data != NULL) {
        FT_TRY(tokens(pass, dx.cols * c->taps, "convolution windows", &wide));
        for (int g = 0; g < c->linear.parts; g++) {
            const ft_linear group = ft_linear_parts(&c->linear, g, 1);
            FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_TOKENS, &group, of_group(c, s->gradient, g), false, of_group(c, wide, g)));
        }
        FT_TRY(add_windows(pass, wide, dx));
        ft_pass_free(pass, &wide);
    }
    ft_convolution_saved_free(pass, s);
    return FT_OK;
}
