// encoder_layer.c - one post-norm transformer layer, forward and backward.
//
//   qkv = x Wqkv^T + b;  a = attention(qkv);  s1 = x + drop(a Wo^T + bo);  y1 = LN(s1)
//   h = y1 W1^T + b1;  s2 = y1 + drop(act(h) W2^T + b2);  y = LN(s2)
// Kept for the backward pass: qkv, a, lse, s1, y1, h, s2 and the row statistics. act(h) is computed again, unless it is kept too;
// y1 and y are made again from the sums if so configured (recompute.c).
// In 16 bits the x and y1 of the sums are those of fp32, in `wide` (layers.h), and so are the gradients of x, y1 and y.
// In the last layer, whose output is read at some rows alone (ft_batch.read_row), queries and everything after the attention exist for
// those rows only; keys and values for all tokens.
#include "engine/model/blocks/linear.h"
#include "engine/model/blocks/relative.h"
#include "engine/model/state/gradients.h"

static bool is_last(const ft_pass *pass, int layer) { return layer == pass->model->layers - 1; }
static ft_rows_kind rows_of(const ft_pass *pass, int layer) { return is_last(pass, layer) ? FT_ROWS_READ : FT_ROWS_TOKENS; }

static ft_status activations(ft_pass *pass, ft_rows_kind kind, int64_t cols, int layer, const char *name, ft_tensor *out) {
    return ft_pass_tensor(pass, kind, cols, FT_MEM_ACTIVATIONS, layer, name, out);
}

typedef struct qkv_views {
    ft_tensor q, k, v;
} qkv_views;

// Q, K, V as views of what the layer keeps.
static qkv_views views_of(const ft_pass *pass, int layer, const ft_tensor qkv, ft_tensor read_q) {
    int64_t hidden = pass->model->hidden;
    if (is_last(pass, layer)) return (qkv_views){read_q, ft_columns(qkv, 0, hidden), ft_columns(qkv, hidden, hidden)};
    return (qkv_views){ft_columns(qkv, 0, hidden), ft_columns(qkv, hidden, hidden), ft_columns(qkv, 2 * hidden, hidden)};
}

static ft_status project_qkv(ft_pass *pass, int layer, ft_tensor x, ft_layer_saved *s) {
    const ft_linear *qkv = &pass->model->layer[layer].qkv;
    if (!is_last(pass, layer)) {
        FT_TRY(activations(pass, FT_ROWS_TOKENS, qkv->outputs, layer, "qkv", &s->qkv));
        return ft_linear_forward(pass, FT_ROWS_TOKENS, qkv, x, s->qkv);
    }
    const ft_linear query = ft_linear_parts(qkv, FT_QUERY, 1), rest = ft_linear_parts(qkv, FT_KEY, 2);
    FT_TRY(activations(pass, FT_ROWS_TOKENS, rest.outputs, layer, "keys and values", &s->qkv));
    FT_TRY(ft_linear_forward(pass, FT_ROWS_TOKENS, &rest, x, s->qkv));
    FT_TRY(activations(pass, FT_ROWS_READ, x.cols, layer, "pooled rows", &s->read_x));
    FT_TRY(ft_pass_gather(pass, pass->batch->read_row, x, s->read_x));
    FT_TRY(activations(pass, FT_ROWS_READ, query.outputs, layer, "pooled queries", &s->read_q));
    return ft_linear_forward(pass, FT_ROWS_READ, &query, s->read_x, s->read_q);
}

static ft_dropout sum_dropout(const ft_pass *pass, int layer, ft_dropout_site site) {
    const ft_model *m = pass->model;
    float p = site == FT_SITE_ATTENTION_OUTPUT ? m->attention_output_dropout : m->hidden_dropout;
    return ft_pass_dropout(pass, rows_of(pass, layer), p, (uint32_t)layer, site);
}

// The rows of `wide` that the last layer goes on with.
static ft_status pool_wide(ft_pass *pass, ft_tensor *wide) {
    ft_tensor read;
    FT_TRY(ft_pass_wide_tensor(pass, FT_ROWS_READ, pass->model->hidden, "pooled rows in fp32", &read));
    if (read.data != NULL) FT_TRY(ft_pass_gather(pass, pass->batch->read_row, *wide, read));
    ft_pass_free(pass, wide);
    *wide = read;
    return FT_OK;
}

// s = residual + dropout(a W^T + bias), y = LN(s): the product lands in s, which the fused op then completes in place.
// wide: the residual in fp32, and then y.
static ft_status project_add_norm(ft_pass *pass, int layer, ft_tensor a, ft_tensor residual, ft_tensor wide, const ft_linear *linear,
                                  const ft_norm *norm, ft_dropout_site site, ft_tensor *s, ft_tensor *mean, ft_tensor *rstd, ft_tensor *y,
                                  const char *const names[4]) {
    ft_model *m = pass->model;
    ft_rows_kind kind = rows_of(pass, layer);
    FT_TRY(activations(pass, kind, m->hidden, layer, names[0], s));
    FT_TRY(ft_pass_statistics(pass, kind, layer, names[1], mean));
    FT_TRY(ft_pass_statistics(pass, kind, layer, names[2], rstd));
    FT_TRY(ft_linear_product(pass, kind, linear, a, ft_absent(), *s));
    FT_TRY(activations(pass, kind, m->hidden, layer, names[3], y));
    return ft_pass_layernorm_forward(
        pass, kind,
        (ft_layernorm_forward_args){.x = *s,
                                    .bias = ft_linear_bias(pass, linear),
                                    .residual = wide.data != NULL ? wide : residual,
                                    .gamma = ft_parameter_weight(&m->parameters, norm->gamma),
                                    .beta = ft_parameter_weight(&m->parameters, norm->beta),
                                    .epsilon = m->epsilon,
                                    .dropout = sum_dropout(pass, layer, site),
                                    .s = *s,
                                    .y = *y,
                                    .wide = wide,
                                    .mean = *mean,
                                    .rstd = *rstd});
}

ft_status ft_layer_forward(ft_pass *pass, int layer, ft_tensor x, ft_tensor *wide, bool keep, ft_layer_saved *saved, ft_tensor *y) {
    ft_model *m = pass->model;
    const ft_layer_parameters *l = &m->layer[layer];
    ft_rows_kind kind = rows_of(pass, layer);
    ft_layer_saved *s = saved;
    *s = (ft_layer_saved){.qkv = ft_absent()};

    FT_TRY(project_qkv(pass, layer, x, s));
    if (is_last(pass, layer)) FT_TRY(pool_wide(pass, wide));
    qkv_views views = views_of(pass, layer, s->qkv, s->read_q);
    FT_TRY(activations(pass, kind, m->hidden, layer, "attention", &s->attention));
    if (keep) FT_TRY(ft_pass_float_tensor(pass, kind, m->heads.count, FT_MEM_ACTIVATIONS, layer, "attention log-sum-exp", &s->lse));
    const ft_attention_forward_args args = {.q = views.q, .k = views.k, .v = views.v, .out = s->attention, .lse = s->lse};
    if (ft_relative_kinds(m) > 0) FT_TRY(ft_relative_attention_forward(pass, kind, layer, args));
    else FT_TRY(ft_pass_attention_forward(pass, kind, layer, args));
    if (!keep) {
        ft_pass_free(pass, &s->qkv);
        ft_pass_free(pass, &s->read_q);
    }

    static const char *const output_names[4] = {"attention sum", "norm 1 mean", "norm 1 rstd", "norm 1"};
    FT_TRY(project_add_norm(pass, layer, s->attention, is_last(pass, layer) ? s->read_x : x, *wide, &l->output, &l->norm1,
                            FT_SITE_ATTENTION_OUTPUT, &s->s1, &s->mean1, &s->rstd1, &s->y1, output_names));
    if (!keep) {
        ft_pass_free(pass, &s->attention);
        ft_pass_free(pass, &s->read_x);
        ft_pass_free(pass, &s->s1);
    }

    FT_TRY(activations(pass, kind, m->intermediate, layer, "feed-forward", &s->h));
    // The bias goes with the product: the activation need not write h again.
    FT_TRY(ft_linear_forward(pass, kind, &l->up, s->y1, s->h));
    ft_tensor value = s->h; // when nothing is kept the activation happens in place
    if (keep) FT_TRY(activations(pass, kind, m->intermediate, layer, "activation", &value));
    FT_TRY(ft_pass_activation_forward(pass, kind, (ft_activation_forward_args){.kind = m->activation, .x = s->h, .y = value}));
    static const char *const down_names[4] = {"feed-forward sum", "norm 2 mean", "norm 2 rstd", "output"};
    FT_TRY(project_add_norm(pass, layer, value, s->y1, *wide, &l->down, &l->norm2, FT_SITE_FFN_OUTPUT, &s->s2, &s->mean2, &s->rstd2, y,
                            down_names));
    if (is_last(pass, layer)) ft_pass_free(pass, wide);
    if (!keep) {
        ft_layer_saved_free(pass, s);
        return FT_OK;
    }
    if (m->keeps_activation) s->activation = value;
    else ft_pass_free(pass, &value);
    if (m->rebuilds_norms) ft_pass_free(pass, &s->y1);
    return FT_OK;
}

void ft_layer_saved_free(ft_pass *pass, ft_layer_saved *s) {
    ft_tensor *all[] = {&s->qkv,   &s->read_q, &s->read_x, &s->attention, &s->lse,   &s->s1,  &s->mean1,
                        &s->rstd1, &s->y1,       &s->h,        &s->activation, &s->s2,   &s->mean2, &s->rstd2};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) ft_pass_free(pass, all[i]);
}

// Back through y = LN(s), s = residual + dropout(a W^T + bias): dy becomes ds (the residual's gradient) in place;
// `dx`, the gradient of the product, is a tensor of its own when there is dropout or it has another type, else ds itself.
static ft_status norm_backward(ft_pass *pass, int layer, ft_tensor dy, ft_tensor s, ft_tensor mean, ft_tensor rstd,
                               const ft_linear *linear, const ft_norm *norm, ft_dropout_site site, const char *name, ft_tensor *dx) {
    ft_model *m = pass->model;
    ft_rows_kind kind = rows_of(pass, layer);
    ft_dropout dropout = sum_dropout(pass, layer, site);
    *dx = ft_absent();
    if (dropout.probability > 0 || ft_pass_is_half(pass)) FT_TRY(activations(pass, kind, m->hidden, layer, name, dx));
    return ft_pass_layernorm_backward(pass, kind,
                                      (ft_layernorm_backward_args){.dy = dy,
                                                                   .s = s,
                                                                   .mean = mean,
                                                                   .rstd = rstd,
                                                                   .gamma = ft_parameter_weight(&m->parameters, norm->gamma),
                                                                   .dropout = dropout,
                                                                   .ds = dy,
                                                                   .dx = *dx,
                                                                   .dgamma = ft_parameter_gradient(&m->parameters, norm->gamma),
                                                                   .dbeta = ft_parameter_gradient(&m->parameters, norm->beta),
                                                                   .dbias = ft_linear_dbias(pass, linear)});
}

// From ds2's product back to y1: dy becomes the gradient of y1, in place.
static ft_status feed_forward_backward(ft_pass *pass, int layer, ft_layer_saved *s, ft_tensor dy) {
    ft_model *m = pass->model;
    const ft_layer_parameters *l = &m->layer[layer];
    ft_rows_kind kind = rows_of(pass, layer);
    ft_tensor dproduct, dh, value = m->keeps_activation ? s->activation : s->h; // made again, it takes h's place
    FT_TRY(norm_backward(pass, layer, dy, s->s2, s->mean2, s->rstd2, &l->down, &l->norm2, FT_SITE_FFN_OUTPUT, "feed-forward gradient",
                         &dproduct));
    ft_pass_free(pass, &s->s2);
    ft_tensor dsum = dproduct.data != NULL ? dproduct : dy;
    FT_TRY(activations(pass, kind, m->intermediate, layer, "activation gradient", &dh));
    FT_TRY(ft_linear_input_gradient(pass, kind, &l->down, dsum, false, dh));
    s->activation = ft_absent();
    FT_TRY(ft_pass_activation_backward(pass, kind,
                                       (ft_activation_backward_args){.kind = m->activation,
                                                                     .h = s->h,
                                                                     .dy = dh,
                                                                     .dx = dh,
                                                                     .y = m->keeps_activation ? ft_absent() : value,
                                                                     .dbias = ft_linear_dbias(pass, &l->up)}));
    if (m->keeps_activation) ft_pass_free(pass, &s->h);
    s->h = ft_absent();
    FT_TRY(ft_linear_weight_gradient(pass, kind, &l->down, dsum, value));
    ft_pass_free(pass, &value);
    ft_pass_free(pass, &dproduct);
    if (m->rebuilds_norms) FT_TRY(ft_norm1_again(pass, kind, layer, s));
    FT_TRY(ft_linear_weight_gradient(pass, kind, &l->up, dh, s->y1));
    FT_TRY(ft_linear_input_gradient(pass, kind, &l->up, dh, true, dy));
    ft_pass_free(pass, &dh);
    ft_pass_free(pass, &s->y1);
    return FT_OK;
}

// From the gradient of qkv (and of the queries of rows that are read) to that of x. residual: gradient that reaches x (or its read
// rows) past the attention; consumed.
static ft_status qkv_backward(ft_pass *pass, int layer, ft_tensor x, ft_layer_saved *s, ft_tensor dqkv, ft_tensor dread_q,
                              ft_tensor *residual, bool want_dx, ft_tensor *dx) {
    const ft_linear *qkv = &pass->model->layer[layer].qkv;
    if (!is_last(pass, layer)) {
        FT_TRY(ft_linear_bias_gradient(pass, FT_ROWS_TOKENS, qkv, dqkv));
        FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_TOKENS, qkv, dqkv, x));
        if (!want_dx) {
            ft_pass_free(pass, residual);
            return FT_OK;
        }
        FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_TOKENS, qkv, dqkv, true, *residual));
        *dx = *residual;
        *residual = ft_absent();
        return FT_OK;
    }
    const ft_linear query = ft_linear_parts(qkv, FT_QUERY, 1), rest = ft_linear_parts(qkv, FT_KEY, 2);
    FT_TRY(ft_linear_bias_gradient(pass, FT_ROWS_READ, &query, dread_q));
    FT_TRY(ft_linear_bias_gradient(pass, FT_ROWS_TOKENS, &rest, dqkv));
    FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_READ, &query, dread_q, s->read_x));
    FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_TOKENS, &rest, dqkv, x));
    if (want_dx) {
        FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_READ, &query, dread_q, true, *residual));
        FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_TOKENS, qkv->inputs, FT_MEM_ACTIVATIONS, layer, "input gradient", dx));
        FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_TOKENS, &rest, dqkv, false, *dx));
        FT_TRY(ft_pass_scatter_add(pass, pass->batch->read_row, *residual, *dx));
    }
    ft_pass_free(pass, residual);
    return FT_OK;
}

ft_status ft_layer_backward(ft_pass *pass, int layer, ft_tensor *x, ft_layer_saved *s, ft_tensor *dy, bool want_dx, ft_tensor *dx) {
    ft_model *m = pass->model;
    const ft_layer_parameters *l = &m->layer[layer];
    ft_rows_kind kind = rows_of(pass, layer);
    *dx = ft_absent();
    FT_TRY(feed_forward_backward(pass, layer, s, *dy));
    FT_TRY(ft_gradients_reach(&m->parameters, ft_backward_point(m->layers - layer, 1)));

    ft_tensor dproduct, dattention;
    FT_TRY(norm_backward(pass, layer, *dy, s->s1, s->mean1, s->rstd1, &l->output, &l->norm1, FT_SITE_ATTENTION_OUTPUT,
                         "attention sum gradient", &dproduct));
    ft_pass_free(pass, &s->s1);
    ft_tensor dsum = dproduct.data != NULL ? dproduct : *dy;
    FT_TRY(ft_linear_weight_gradient(pass, kind, &l->output, dsum, s->attention));
    FT_TRY(activations(pass, kind, m->hidden, layer, "attention gradient", &dattention));
    FT_TRY(ft_linear_input_gradient(pass, kind, &l->output, dsum, false, dattention));
    ft_pass_free(pass, &dproduct);

    ft_tensor dqkv, dread_q = ft_absent();
    FT_TRY(activations(pass, FT_ROWS_TOKENS, s->qkv.cols, layer, "qkv gradient", &dqkv));
    if (is_last(pass, layer)) FT_TRY(activations(pass, FT_ROWS_READ, m->hidden, layer, "pooled query gradient", &dread_q));
    qkv_views value = views_of(pass, layer, s->qkv, s->read_q), gradient = views_of(pass, layer, dqkv, dread_q);
    const ft_attention_backward_args args = {.q = value.q,
                                             .k = value.k,
                                             .v = value.v,
                                             .out = s->attention,
                                             .lse = s->lse,
                                             .dout = dattention,
                                             .dq = gradient.q,
                                             .dk = gradient.k,
                                             .dv = gradient.v};
    if (ft_relative_kinds(m) > 0) FT_TRY(ft_relative_attention_backward(pass, kind, layer, args));
    else FT_TRY(ft_pass_attention_backward(pass, kind, layer, args));
    ft_pass_free(pass, &dattention);
    ft_pass_free(pass, &s->qkv);
    ft_pass_free(pass, &s->attention);
    if (x->data == NULL) FT_TRY(ft_norm2_again(pass, layer - 1, s - 1, x));
    FT_TRY(qkv_backward(pass, layer, *x, s, dqkv, dread_q, dy, want_dx, dx));
    ft_pass_free(pass, &dqkv);
    ft_pass_free(pass, &dread_q);
    ft_layer_saved_free(pass, s);
    return FT_OK;
}
