// normed_attention.c - the block of attention whose queries and keys have a norm over each of their heads, in front of their angles (Qwen3).
//
//   q = turn(RMS(x Wq^T)), k = turn(RMS(x Wk^T)), v = x Wv^T
//
// Each of the three is a matrix of its own, so that a head is a row of as many columns for the norm. What the products make, what the attention
// puts out and lse are kept; q and k are made again. It has all rows in the last layer too.
#include "engine/model/blocks/block.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/blocks/linear.h"
#include "engine/model/blocks/norm.h"
#include "engine/model/blocks/rotary.h"
#include "engine/model/blocks/run_op.h"

enum { Q, K, V, OUT, LSE, SAVED };

static void build(ft_builder *b, int layer) {
    ft_layer_parameters *l = &b->model->layer[layer];
    const ft_model *m = b->model;
    const ft_layer_names *n = &m->family->names;
    l->output = ft_build_layer_linear(b, FT_LINEAR_OUTPUT, n->output, m->hidden, ft_query_columns(&m->heads));
    l->query_norm = ft_build_norm(b, n->query_norm, m->heads.width);
    l->key_norm = ft_build_norm(b, n->key_norm, m->heads.width);
    ft_attention_build_qkv(b, &l->qkv);
}

static const ft_linear *first(const ft_layer_parameters *l) { return &l->qkv; }
static const ft_linear *last(const ft_layer_parameters *l) { return &l->output; }

static ft_linear part_of(const ft_pass *pass, int layer, int part) { return ft_linear_parts(&pass->model->layer[layer].qkv, part, 1); }
static const ft_norm *norm_of(const ft_pass *pass, int layer, int part) {
    const ft_layer_parameters *l = &pass->model->layer[layer];
    return part == Q ? &l->query_norm : &l->key_norm;
}
static int64_t heads_of(const ft_pass *pass, int part) { return part == Q ? pass->model->heads.count : pass->model->heads.key_values; }

// Heads as rows. Matrices whose rows lie back to back.
static ft_tensor by_head(const ft_pass *pass, int part, ft_tensor x) {
    return ft_matrix(x.data, x.rows * heads_of(pass, part), pass->model->heads.width, x.dtype);
}

static ft_status statistics(ft_pass *pass, int part, int layer, ft_norm_saved *s) {
    ft_tensor *const numbers[] = {&s->mean, &s->rstd};
    for (int i = 0; i < 2; i++) {
        FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_TOKENS, heads_of(pass, part), FT_MEM_ACTIVATIONS, layer, "norm of heads", numbers[i]));
        *numbers[i] = ft_vector(numbers[i]->data, numbers[i]->rows * numbers[i]->cols, FT_F32);
    }
    return FT_OK;
}

static ft_status run_norm(ft_pass *pass, int part, ft_layernorm_forward_args args) {
    ft_layernorm_forward_args largest = args;
    largest.x.rows = largest.y.rows = pass->capacity.tokens * heads_of(pass, part);
    if (args.mean.data != NULL) largest.mean.cols = largest.rstd.cols = largest.x.rows;
    RUN_WITH_WORKSPACE(pass, layernorm_forward, args, largest);
}

static ft_status run_norm_backward(ft_pass *pass, int part, ft_layernorm_backward_args args) {
    ft_layernorm_backward_args largest = args;
    largest.dy.rows = largest.s.rows = largest.ds.rows = largest.mean.cols = largest.rstd.cols = pass->capacity.tokens * heads_of(pass, part);
    if (args.dx.data != NULL) largest.dx.rows = largest.dy.rows;
    RUN_WITH_WORKSPACE(pass, layernorm_backward, args, largest);
}

// What the scores are made of, from what the product made. s: NULL, or what the way back of the norm wants, made here.
static ft_status norm_and_turn(ft_pass *pass, int layer, int part, ft_tensor raw, ft_norm_saved *s, ft_tensor *y) {
    const ft_norm *norm = norm_of(pass, layer, part);
    FT_TRY(ft_layer_tensor(pass, FT_ROWS_TOKENS, raw.cols, layer, part == Q ? "queries" : "keys", y));
    if (s != NULL) FT_TRY(statistics(pass, part, layer, s));
    FT_TRY(run_norm(pass, part, (ft_layernorm_forward_args){.x = by_head(pass, part, raw),
                                                            .gamma = ft_parameter_weight(&pass->model->parameters, norm->gamma),
                                                            .epsilon = pass->model->epsilon,
                                                            .rms = true,
                                                            .y = by_head(pass, part, *y),
                                                            .mean = s != NULL ? s->mean : ft_absent(),
                                                            .rstd = s != NULL ? s->rstd : ft_absent()}));
    return ft_rotary_turn(pass, FT_ROWS_TOKENS, layer, false, *y);
}

// dy, of what the scores were made of, becomes the gradient of what the product made. Frees s.
static ft_status norm_and_turn_backward(ft_pass *pass, int layer, int part, ft_tensor raw, ft_norm_saved *s, ft_tensor dy) {
    const ft_norm *norm = norm_of(pass, layer, part);
    const ft_parameters *p = &pass->model->parameters;
    FT_TRY(ft_rotary_turn(pass, FT_ROWS_TOKENS, layer, true, dy));
    FT_TRY(run_norm_backward(pass, part, (ft_layernorm_backward_args){.dy = by_head(pass, part, dy),
                                                                      .s = by_head(pass, part, raw),
                                                                      .mean = s->mean,
                                                                      .rstd = s->rstd,
                                                                      .gamma = ft_parameter_weight(p, norm->gamma),
                                                                      .rms = true,
                                                                      .ds = by_head(pass, part, dy),
                                                                      .dgamma = ft_parameter_gradient(p, norm->gamma)}));
    ft_norm_forget(pass, s);
    return FT_OK;
}

static ft_status forward(ft_pass *pass, int layer, ft_tensor *rows, ft_tensor *wide, bool keep, ft_tensor *saved, ft_tensor *out) {
    static const char *const names[] = {"products of queries", "products of keys", "values"};
    ft_tensor turned[2];
    for (int part = Q; part <= V; part++) {
        const ft_linear l = part_of(pass, layer, part);
        FT_TRY(ft_layer_tensor(pass, FT_ROWS_TOKENS, l.outputs, layer, names[part], &saved[part]));
        FT_TRY(ft_linear_forward(pass, FT_ROWS_TOKENS, &l, *rows, saved[part]));
    }
    for (int part = Q; part <= K; part++) {
        FT_TRY(norm_and_turn(pass, layer, part, saved[part], NULL, &turned[part]));
        if (!keep) ft_pass_free(pass, &saved[part]);
    }
    FT_TRY(ft_layer_tensor(pass, FT_ROWS_TOKENS, turned[Q].cols, layer, "attention", &saved[OUT]));
    if (keep) FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_TOKENS, pass->model->heads.count, FT_MEM_ACTIVATIONS, layer, "attention log-sum-exp", &saved[LSE]));
    FT_TRY(ft_attention_plain_forward(pass, FT_ROWS_TOKENS, layer,
                                      (ft_attention_forward_args){.q = turned[Q], .k = turned[K], .v = saved[V], .out = saved[OUT], .lse = saved[LSE]}));
    for (int part = Q; part <= K; part++) ft_pass_free(pass, &turned[part]);
    if (!keep) ft_pass_free(pass, &saved[V]);
    *out = saved[OUT];
    return FT_OK;
}

static void recede(ft_pass *pass, int layer, bool keep, ft_tensor *saved, ft_tensor *out) {
    if (!keep) ft_pass_free(pass, &saved[OUT]);
}

static ft_status project_backward(ft_pass *pass, int layer, const ft_block_input *input, const ft_tensor *d, ft_block_gradients *g) {
    for (int part = Q; part <= V; part++) {
        const ft_linear l = part_of(pass, layer, part);
        FT_TRY(ft_linear_bias_gradient(pass, FT_ROWS_TOKENS, &l, d[part]));
        FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_TOKENS, &l, d[part], *input->x));
    }
    const ft_linear query = part_of(pass, layer, Q);
    FT_TRY(ft_block_input_gradient(pass, FT_ROWS_TOKENS, layer, &query, d[Q], input, g));
    for (int part = K; part <= V && g->want_dx; part++) {
        const ft_linear l = part_of(pass, layer, part);
        FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_TOKENS, &l, d[part], true, g->dx));
    }
    return FT_OK;
}

static ft_status backward(ft_pass *pass, int layer, ft_tensor *saved, const ft_block_input *input, ft_block_gradients *g) {
    static const char *const names[] = {"query gradient", "key gradient", "value gradient"};
    const ft_linear *output = &pass->model->layer[layer].output;
    const ft_tensor dsum = ft_product_gradient(g);
    ft_tensor dattention, turned[2], d[3];
    ft_norm_saved norm[2];
    FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_TOKENS, output, dsum, saved[OUT]));
    FT_TRY(ft_layer_tensor(pass, FT_ROWS_TOKENS, output->inputs, layer, "attention gradient", &dattention));
    FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_TOKENS, output, dsum, false, dattention));
    ft_pass_free(pass, &g->product);

    for (int part = Q; part <= K; part++) FT_TRY(norm_and_turn(pass, layer, part, saved[part], &norm[part], &turned[part]));
    for (int part = Q; part <= V; part++) FT_TRY(ft_layer_tensor(pass, FT_ROWS_TOKENS, saved[part].cols, layer, names[part], &d[part]));
    FT_TRY(ft_attention_plain_backward(pass, FT_ROWS_TOKENS, layer,
                                       (ft_attention_backward_args){.q = turned[Q], .k = turned[K], .v = saved[V], .out = saved[OUT], .lse = saved[LSE],
                                                                    .dout = dattention, .dq = d[Q], .dk = d[K], .dv = d[V]}));
    ft_pass_free(pass, &dattention);
    ft_pass_free(pass, &saved[OUT]);
    for (int part = Q; part <= K; part++) {
        ft_pass_free(pass, &turned[part]);
        FT_TRY(norm_and_turn_backward(pass, layer, part, saved[part], &norm[part], d[part]));
    }
    for (int part = Q; part <= V; part++) ft_pass_free(pass, &saved[part]);
    FT_TRY(ft_block_input_again(pass, input));
    FT_TRY(project_backward(pass, layer, input, d, g));
    for (int part = Q; part <= V; part++) ft_pass_free(pass, &d[part]);
    return FT_OK;
}

const ft_block ft_normed_attention_block = {.sum = "attention sum",
                                            .sum_gradient = "attention sum gradient",
                                            .site = FT_SITE_ATTENTION_OUTPUT,
                                            .saved = SAVED,
                                            .build = build,
                                            .first = first,
                                            .last = last,
                                            .forward = forward,
                                            .recede = recede,
                                            .backward = backward};
