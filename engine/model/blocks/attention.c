// attention.c - the block attention(x Wqkv^T + b), whose last linear layer is Wo. With a table of relative positions (relative.h) the
// scores have their terms too; heads may talk to each other (talking.h). qkv, what it puts out and lse are kept.
//
// In the last layer, whose output is read at some rows alone (ft_batch.read_row), queries, and with them all that follows, exist for those
// rows only; keys and values for all tokens.
#include "engine/model/blocks/block.h"
#include "engine/model/blocks/cache.h"
#include "engine/model/blocks/linear.h"
#include "engine/model/blocks/position_bias.h"
#include "engine/model/blocks/relative.h"
#include "engine/model/blocks/rotary.h"
#include "engine/model/blocks/run_op.h"
#include "engine/model/blocks/talking.h"

// Queries, keys and values, in the last layer keys and values; of the last layer only, queries and [B,H]; as wide as queries; [.,heads]
enum { QKV, READ_Q, READ_X, OUT, LSE, SAVED };

// The parts of qkv: their weights in one block and their biases in another.
void ft_attention_build_qkv(ft_builder *b, ft_linear *qkv) {
    const ft_model *m = b->model;
    const ft_layer_names *n = &m->family->names;
    const int64_t h = m->hidden, lead = ft_query_columns(&m->heads), width = ft_key_columns(&m->heads);
    *qkv = (ft_linear){.bias = -1, .inputs = h, .outputs = lead + 2 * width, .parts = FT_QKV_PARTS, .lead = lead, .width = width};
    if (n->qkv != NULL) {
        const ft_parameter_spec all = {.rows = qkv->outputs, .cols = h, .heads = n->query != NULL ? m->heads.count : 0};
        qkv->weight = ft_build_factor(b, n->qkv, all);
        ft_build_adapters(b, qkv, 1, &n->qkv);
        if (b->config->unbiased & FT_LINEAR_QKV) return;
        if (n->query == NULL) {
            qkv->bias = ft_build_bias(b, n->qkv, qkv->outputs);
            return;
        }
        qkv->bias = ft_build_parameter(b, n->query, "", (ft_parameter_spec){.cols = lead});
        const int value = ft_build_parameter(b, n->value, "", (ft_parameter_spec){.cols = width, .gap = width, .joins_group = true});
        if (!b->failed && m->parameters.list[value].trainable != m->parameters.list[qkv->bias].trainable) {
            ft_fail(FT_INVALID, "train.parameters", "%s and %s are one vector here: both are trained, or neither", n->query, n->value);
            b->failed = true;
        }
        qkv->unbiased = 1u << FT_KEY;
        return;
    }
    const ft_parameter_spec weight = {.rows = width, .cols = h, .joins_group = true};
    const ft_parameter_spec bias = {.cols = width, .joins_group = true};
    qkv->each = true;
    qkv->weight = ft_build_factor(b, n->query, (ft_parameter_spec){.rows = lead, .cols = h});
    ft_build_factor(b, n->key, weight);
    ft_build_factor(b, n->value, weight);
    ft_build_adapters(b, qkv, FT_QKV_PARTS, (const char *const[]){n->query, n->key, n->value});
    if ((b->config->unbiased & FT_LINEAR_QKV) == 0) {
        qkv->bias = ft_build_bias(b, n->query, lead);
        ft_build_parameter(b, n->key, ".bias", bias);
        ft_build_parameter(b, n->value, ".bias", bias);
    }
    ft_build_apart(b, qkv);
}

static void build(ft_builder *b, int layer) {
    ft_layer_parameters *l = &b->model->layer[layer];
    const ft_model *m = b->model;
    l->output = ft_build_layer_linear(b, FT_LINEAR_OUTPUT, m->family->names.output, m->hidden, ft_query_columns(&m->heads));
    ft_talking_build_layer(b, layer);
    ft_attention_build_qkv(b, &l->qkv);
    ft_relative_build_layer(b, layer);
}

static const ft_linear *first(const ft_layer_parameters *l) { return &l->qkv; }
static const ft_linear *last(const ft_layer_parameters *l) { return &l->output; }

typedef struct qkv_views {
    ft_tensor q, k, v;
} qkv_views;

// Q, K, V as views of what the layer keeps.
static qkv_views views_of(const ft_pass *pass, int layer, const ft_tensor qkv, ft_tensor read_q) {
    const int64_t lead = ft_query_columns(&pass->model->heads), width = ft_key_columns(&pass->model->heads);
    if (ft_layer_is_read(pass, layer)) return (qkv_views){read_q, ft_columns(qkv, 0, width), ft_columns(qkv, width, width)};
    return (qkv_views){ft_columns(qkv, 0, lead), ft_columns(qkv, lead, width), ft_columns(qkv, lead + width, width)};
}

// Queries and keys at their positions, or their gradients from there.
static ft_status turn(ft_pass *pass, int layer, bool back, ft_tensor qkv, ft_tensor read_q) {
    const int64_t lead = ft_query_columns(&pass->model->heads), width = ft_key_columns(&pass->model->heads);
    if (!ft_layer_is_read(pass, layer)) return ft_rotary_turn(pass, FT_ROWS_TOKENS, layer, back, ft_columns(qkv, 0, lead + width));
    FT_TRY(ft_rotary_turn(pass, FT_ROWS_TOKENS, layer, back, ft_columns(qkv, 0, width)));
    return ft_rotary_turn(pass, FT_ROWS_READ, layer, back, read_q);
}

static ft_status project(ft_pass *pass, int layer, ft_tensor x, ft_tensor *saved) {
    const ft_linear *qkv = &pass->model->layer[layer].qkv;
    if (!ft_layer_is_read(pass, layer)) {
        FT_TRY(ft_layer_tensor(pass, FT_ROWS_TOKENS, qkv->outputs, layer, "qkv", &saved[QKV]));
        return ft_linear_forward(pass, FT_ROWS_TOKENS, qkv, x, saved[QKV]);
    }
    const ft_linear query = ft_linear_parts(qkv, FT_QUERY, 1), rest = ft_linear_parts(qkv, FT_KEY, 2);
    FT_TRY(ft_layer_tensor(pass, FT_ROWS_TOKENS, rest.outputs, layer, "keys and values", &saved[QKV]));
    FT_TRY(ft_linear_forward(pass, FT_ROWS_TOKENS, &rest, x, saved[QKV]));
    FT_TRY(ft_layer_tensor(pass, FT_ROWS_READ, x.cols, layer, "pooled rows", &saved[READ_X]));
    FT_TRY(ft_pass_gather(pass, pass->batch->read_row, x, saved[READ_X]));
    FT_TRY(ft_layer_tensor(pass, FT_ROWS_READ, query.outputs, layer, "pooled queries", &saved[READ_Q]));
    return ft_linear_forward(pass, FT_ROWS_READ, &query, saved[READ_X], saved[READ_Q]);
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

// Of the scores of queries and keys alone. Where keys and values stay for the tokens to come, they are kept here, behind their angles.
ft_status ft_attention_plain_forward(ft_pass *pass, ft_rows_kind queries, int layer, ft_attention_forward_args args) {
    if (pass->cache != NULL) FT_TRY(ft_cache_keep(pass, layer, args.k, args.v));
    if (pass->cache != NULL && pass->cache->steps) return ft_cache_attend(pass, layer, args.q, args.out);
    args.shape = ft_pass_attention_shape(pass, queries, layer);
    args.bias = ft_position_bias_of(pass->model);
    ft_attention_forward_args largest = args;
    largest.shape = ft_pass_largest_shape(pass, queries, args.shape);
    largest.q.rows = largest.out.rows = ft_pass_capacity(pass, queries);
    largest.k.rows = largest.v.rows = pass->capacity.tokens;
    if (args.lse.data != NULL) largest.lse.rows = largest.q.rows;
    RUN_WITH_WORKSPACE(pass, attention_forward, args, largest);
}

ft_status ft_attention_plain_backward(ft_pass *pass, ft_rows_kind queries, int layer, ft_attention_backward_args args) {
    args.shape = ft_pass_attention_shape(pass, queries, layer);
    args.bias = ft_position_bias_of(pass->model);
    args.dbias = ft_position_bias_gradient(pass, layer);
    ft_attention_backward_args largest = args;
    largest.shape = ft_pass_largest_shape(pass, queries, args.shape);
    largest.q.rows = largest.out.rows = largest.dout.rows = largest.dq.rows = largest.lse.rows = ft_pass_capacity(pass, queries);
    largest.k.rows = largest.v.rows = largest.dk.rows = largest.dv.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, attention_backward, args, largest);
}

static ft_status forward(ft_pass *pass, int layer, ft_tensor *rows, ft_tensor *wide, bool keep, ft_tensor *saved, ft_tensor *out) {
    const ft_model *m = pass->model;
    const ft_rows_kind kind = ft_layer_rows(pass, layer);
    FT_TRY(project(pass, layer, *rows, saved));
    FT_TRY(turn(pass, layer, false, saved[QKV], saved[READ_Q]));
    if (ft_layer_is_read(pass, layer)) {
        FT_TRY(pool_wide(pass, wide));
        *rows = saved[READ_X];
    }
    const qkv_views views = views_of(pass, layer, saved[QKV], saved[READ_Q]);
    FT_TRY(ft_layer_tensor(pass, kind, views.q.cols, layer, "attention", &saved[OUT]));
    if (keep) FT_TRY(ft_pass_float_tensor(pass, kind, m->heads.count, FT_MEM_ACTIVATIONS, layer, "attention log-sum-exp", &saved[LSE]));
    const ft_attention_forward_args args = {.q = views.q, .k = views.k, .v = views.v, .out = saved[OUT], .lse = saved[LSE]};
    if (ft_heads_talk(m, layer)) FT_TRY(ft_talking_attention_forward(pass, kind, layer, args));
    else if (ft_relative_kinds(m) > 0) FT_TRY(ft_relative_attention_forward(pass, kind, layer, args));
    else FT_TRY(ft_attention_plain_forward(pass, kind, layer, args));
    *out = saved[OUT];
    if (keep) return FT_OK;
    ft_pass_free(pass, &saved[QKV]);
    ft_pass_free(pass, &saved[READ_Q]);
    return FT_OK;
}

static void recede(ft_pass *pass, int layer, bool keep, ft_tensor *saved, ft_tensor *out) {
    if (keep) return;
    ft_pass_free(pass, &saved[OUT]);
    ft_pass_free(pass, &saved[READ_X]);
}

// Of rows that are read, to dx, of all tokens: added there where `x` has them, and then freed; absent: nothing.
static ft_status give_rows(ft_pass *pass, ft_tensor *x, ft_tensor dx) {
    FT_TRY(ft_pass_scatter_add(pass, pass->batch->read_row, *x, dx));
    ft_pass_free(pass, x);
    return FT_OK;
}

// The last layer's stream, of the rows that are read, among those of all tokens.
static ft_status widen_stream(ft_pass *pass, int layer, ft_block_gradients *g) {
    ft_device *device = pass->model->device;
    FT_TRY(ft_pass_row_tensor(pass, FT_ROWS_TOKENS, g->past.cols, layer, "stream gradient", &g->stream));
    FT_TRY(device->functions->fill(device, g->stream.data, 0, (size_t)(g->stream.rows * g->stream.cols) * ft_dtype_size(g->stream.dtype)));
    return give_rows(pass, &g->past, g->stream);
}

static ft_status read_rows_backward(ft_pass *pass, int layer, const ft_block_input *input, ft_tensor dkv, ft_tensor dread_q, ft_block_gradients *g) {
    const ft_linear *qkv = &pass->model->layer[layer].qkv;
    const ft_linear query = ft_linear_parts(qkv, FT_QUERY, 1), rest = ft_linear_parts(qkv, FT_KEY, 2);
    const bool stream = ft_block_has_stream(pass, input);
    ft_tensor dread = g->past;
    if (stream) FT_TRY(ft_pass_row_tensor(pass, FT_ROWS_READ, qkv->inputs, layer, "pooled row gradient", &dread));
    FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_READ, &query, dread_q, !stream, dread));
    FT_TRY(ft_pass_row_tensor(pass, FT_ROWS_TOKENS, qkv->inputs, layer, "input gradient", &g->dx));
    FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_TOKENS, &rest, dkv, false, g->dx));
    if (stream) FT_TRY(widen_stream(pass, layer, g));
    else g->past = ft_absent();
    return give_rows(pass, &dread, g->dx);
}

// From the gradient of qkv (and of the queries of rows that are read) to that of x.
static ft_status project_backward(ft_pass *pass, int layer, const ft_block_input *input, ft_tensor read_x, ft_tensor dqkv,
                                  ft_tensor dread_q, ft_block_gradients *g) {
    const ft_linear *qkv = &pass->model->layer[layer].qkv;
    const bool is_read = ft_layer_is_read(pass, layer);
    if (!is_read) {
        FT_TRY(ft_linear_bias_gradient(pass, FT_ROWS_TOKENS, qkv, dqkv));
        FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_TOKENS, qkv, dqkv, *input->x));
    } else {
        const ft_linear query = ft_linear_parts(qkv, FT_QUERY, 1), rest = ft_linear_parts(qkv, FT_KEY, 2);
        FT_TRY(ft_linear_bias_gradient(pass, FT_ROWS_READ, &query, dread_q));
        FT_TRY(ft_linear_bias_gradient(pass, FT_ROWS_TOKENS, &rest, dqkv));
        if (ft_linear_shares_adapter(qkv)) FT_TRY(ft_linear_split_gradient(pass, qkv, dread_q, read_x, dqkv, *input->x));
        else {
            FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_READ, &query, dread_q, read_x));
            FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_TOKENS, &rest, dqkv, *input->x));
        }
    }
    if (is_read && g->want_dx) return read_rows_backward(pass, layer, input, dqkv, dread_q, g);
    return ft_block_input_gradient(pass, FT_ROWS_TOKENS, layer, qkv, dqkv, input, g);
}

static ft_status attention_backward(ft_pass *pass, int layer, ft_tensor *saved, ft_tensor dout, ft_tensor dqkv, ft_tensor dread_q) {
    const ft_rows_kind kind = ft_layer_rows(pass, layer);
    const qkv_views value = views_of(pass, layer, saved[QKV], saved[READ_Q]), gradient = views_of(pass, layer, dqkv, dread_q);
    const ft_attention_backward_args args = {.q = value.q,
                                             .k = value.k,
                                             .v = value.v,
                                             .out = saved[OUT],
                                             .lse = saved[LSE],
                                             .dout = dout,
                                             .dq = gradient.q,
                                             .dk = gradient.k,
                                             .dv = gradient.v};
    if (ft_heads_talk(pass->model, layer)) return ft_talking_attention_backward(pass, kind, layer, args);
    if (ft_relative_kinds(pass->model) > 0) return ft_relative_attention_backward(pass, kind, layer, args);
    return ft_attention_plain_backward(pass, kind, layer, args);
}

static ft_status backward(ft_pass *pass, int layer, ft_tensor *saved, const ft_block_input *input, ft_block_gradients *g) {
    const ft_linear *output = &pass->model->layer[layer].output;
    const ft_rows_kind kind = ft_layer_rows(pass, layer);
    const ft_tensor dsum = ft_product_gradient(g);
    ft_tensor dattention, dqkv, dread_q = ft_absent();
    FT_TRY(ft_linear_weight_gradient(pass, kind, output, dsum, saved[OUT]));
    FT_TRY(ft_layer_tensor(pass, kind, output->inputs, layer, "attention gradient", &dattention));
    FT_TRY(ft_linear_input_gradient(pass, kind, output, dsum, false, dattention));
    ft_pass_free(pass, &g->product);

    FT_TRY(ft_layer_tensor(pass, FT_ROWS_TOKENS, saved[QKV].cols, layer, "qkv gradient", &dqkv));
    if (ft_layer_is_read(pass, layer))
        FT_TRY(ft_layer_tensor(pass, FT_ROWS_READ, saved[READ_Q].cols, layer, "pooled query gradient", &dread_q));
    FT_TRY(attention_backward(pass, layer, saved, dattention, dqkv, dread_q));
    ft_pass_free(pass, &dattention);
    ft_pass_free(pass, &saved[QKV]);
    ft_pass_free(pass, &saved[OUT]);
    FT_TRY(turn(pass, layer, true, dqkv, dread_q));
    FT_TRY(ft_block_input_again(pass, input));
    FT_TRY(project_backward(pass, layer, input, saved[READ_X], dqkv, dread_q, g));
    ft_pass_free(pass, &dqkv);
    ft_pass_free(pass, &dread_q);
    return FT_OK;
}

const ft_block ft_attention_block = {.sum = "attention sum",
                                     .sum_gradient = "attention sum gradient",
                                     .site = FT_SITE_ATTENTION_OUTPUT,
                                     .saved = SAVED,
                                     .build = build,
                                     .first = first,
                                     .last = last,
                                     .forward = forward,
                                     .recede = recede,
                                     .backward = backward};
