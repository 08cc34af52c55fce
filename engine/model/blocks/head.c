// head.c - the rows that are read to logits:
//   [mean, or gather] -> [dropout] -> [activation(pooler) -> [norm]] -> dropout -> (hidden layer -> activation -> dropout)* -> classifier
#include "engine/model/blocks/linear.h"
#include "engine/model/blocks/norm.h"
#include "engine/model/blocks/run_op.h"

#include <stdio.h>

void ft_head_build(ft_builder *b, const ft_int_list *hidden) {
    ft_model *m = b->model;
    m->pooler.weight = m->pooler.bias = -1;
    m->head_norm = (ft_norm){.gamma = -1, .beta = -1};
    b->trainable = true;
    if (b->config->language_head) {
        ft_language_build(b);
        return;
    }
    b->head = true;
    for (int i = m->head_count - 1; i >= 0; i--) {
        int64_t inputs = i == 0 ? m->read_width : hidden->values[i - 1];
        bool last = i == m->head_count - 1;
        char name[48];
        snprintf(name, sizeof name, "head.hidden.%d", i);
        const char *linear = !last ? name : ft_model_config_classifier(b->config);
        const int64_t outputs = last ? m->labels : hidden->values[i];
        const bool unbiased = last && m->family->unbiased_classifier;
        m->head[i] = unbiased ? ft_build_linear_without_bias(b, linear, outputs, inputs) : ft_build_linear(b, linear, outputs, inputs);
    }
    if (m->family->pooler == NULL || b->config->mean_head || (b->config->token_head && !m->family->token_pooler)) {
        b->head = false;
        return;
    }
    if (m->family->head_norm != NULL) m->head_norm = ft_build_norm(b, m->family->head_norm, m->hidden);
    m->pooler = ft_build_layer_linear(b, FT_LINEAR_POOLER, m->family->pooler, m->hidden, m->hidden);
    b->head = false;
}

static ft_status pooled(ft_pass *pass, int64_t cols, const char *name, ft_tensor *out) {
    return ft_pass_tensor(pass, FT_ROWS_READ, cols, FT_MEM_ACTIVATIONS, -1, name, out);
}

// Dropout number `index` of the head: 0 behind the pooler, i + 1 behind hidden layer i.
static ft_dropout head_dropout(const ft_pass *pass, int index) {
    float p = index == 0 ? pass->model->classifier_dropout : pass->model->head_dropout;
    return ft_pass_dropout(pass, FT_ROWS_READ, p, (uint32_t)index, FT_SITE_HEAD);
}

static ft_dropout input_dropout(const ft_pass *pass) {
    enum { IN_FRONT = 0xFFFF }; // its number in the random stream: heads never have as many layers
    return ft_pass_dropout(pass, FT_ROWS_READ, pass->model->pooler_dropout, IN_FRONT, FT_SITE_HEAD);
}

// Linear layer `l` followed by an activation; h is kept for the backward pass.
static ft_status activated(ft_pass *pass, const ft_linear *l, ft_activation kind, ft_tensor x, const char *name, ft_tensor *h,
                           ft_tensor *y) {
    FT_TRY(pooled(pass, l->outputs, name, h));
    FT_TRY(ft_linear_product(pass, FT_ROWS_READ, l, x, ft_absent(), *h));
    FT_TRY(pooled(pass, l->outputs, "head value", y));
    return ft_pass_activation_forward(
        pass, FT_ROWS_READ,
        (ft_activation_forward_args){.kind = kind, .x = *h, .bias = ft_linear_bias(pass, l), .h = *h, .y = *y});
}

// Logits are fp32 in every precision, straight from the sums of the product; so must be the bias that is added to them.
static ft_status classify(ft_pass *pass, const ft_linear *l, ft_tensor x, ft_tensor logits) {
    ft_tensor bias = ft_linear_bias(pass, l);
    if (bias.data == NULL || bias.dtype == FT_F32) return ft_linear_product(pass, FT_ROWS_READ, l, x, bias, logits);
    void *data;
    FT_TRY(ft_memory_alloc(pass->model->memory, (size_t)l->outputs * sizeof(float), FT_MEM_ACTIVATIONS, "classifier bias", &data));
    ft_tensor wide = ft_vector(data, l->outputs, FT_F32);
    FT_TRY(ft_pass_cast(pass, bias, wide));
    FT_TRY(ft_linear_product(pass, FT_ROWS_READ, l, x, wide, logits));
    ft_pass_free(pass, &wide);
    return FT_OK;
}

// What means are taken of: sequences, or of each its first row and the others, whose means stand side by side then.
typedef struct pieces_of_rows {
    int32_t each;
    const int32_t *bounds;
} pieces_of_rows;
static pieces_of_rows pieces(const ft_pass *pass) {
    const ft_batch *b = pass->batch;
    return pass->model->first_and_mean ? (pieces_of_rows){FT_BATCH_PIECES, b->cu_pieces} : (pieces_of_rows){1, b->cu_seqlens};
}
static ft_tensor by_piece(pieces_of_rows p, ft_tensor y) { return ft_matrix(y.data, p.each * y.rows, y.cols / p.each, y.dtype); }

static ft_status mean_forward(ft_pass *pass, ft_tensor x, ft_tensor y) {
    const pieces_of_rows p = pieces(pass);
    ft_sequence_mean_forward_args args = {.sequences = p.each * pass->batch->sequences, .cu_seqlens = p.bounds, .x = x, .y = by_piece(p, y)};
    ft_sequence_mean_forward_args largest = args;
    largest.sequences = p.each * pass->capacity.sequences;
    largest.x.rows = pass->capacity.tokens;
    largest.y.rows = p.each * pass->capacity.reads;
    RUN_WITH_WORKSPACE(pass, sequence_mean_forward, args, largest);
}

static ft_status mean_backward(ft_pass *pass, ft_tensor dy, ft_tensor dx) {
    const pieces_of_rows p = pieces(pass);
    ft_sequence_mean_backward_args args = {.sequences = p.each * pass->batch->sequences, .cu_seqlens = p.bounds, .dy = by_piece(p, dy), .dx = dx};
    ft_sequence_mean_backward_args largest = args;
    largest.sequences = p.each * pass->capacity.sequences;
    largest.dy.rows = p.each * pass->capacity.reads;
    largest.dx.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, sequence_mean_backward, args, largest);
}

// ---- what the head reads of x: the mean of a sequence, rows that it picks, or x itself --------------------------------------

// Features are what is read already.
static bool picks_rows(const ft_model *m) { return m->ends_whole && !m->reads_features && !m->late_pooling; }

static ft_status pick_rows(ft_pass *pass, ft_tensor x, ft_tensor y) {
    return pass->model->mean_pooling ? mean_forward(pass, x, y) : ft_pass_gather(pass, pass->batch->read_row, x, y);
}

static ft_status read_rows(ft_pass *pass, ft_tensor *x, ft_head_saved *s) {
    const ft_model *m = pass->model;
    if (!picks_rows(m)) return FT_OK;
    FT_TRY(pooled(pass, m->read_width, m->mean_pooling ? "mean of rows" : "pooled rows", &s->read));
    FT_TRY(pick_rows(pass, *x, s->read));
    *x = s->read;
    return FT_OK;
}

ft_status ft_head_rows(ft_pass *pass, ft_tensor x, ft_tensor rows) {
    ft_device *device = pass->model->device;
    if (picks_rows(pass->model)) return pick_rows(pass, x, rows);
    return device->functions->copy(device, rows.data, x.data, (size_t)(rows.rows * rows.cols) * ft_dtype_size(rows.dtype));
}

// ---- all of it -----------------------------------------------------------------------------------------------------------

// And back: dx of what was read becomes that of all rows.
static ft_status give_to_rows(ft_pass *pass, ft_tensor *dx) {
    ft_device *device = pass->model->device;
    ft_tensor read = *dx;
    FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_TOKENS, pass->model->hidden, FT_MEM_ACTIVATIONS, -1, "gradient of rows", dx));
    if (pass->model->mean_pooling) FT_TRY(mean_backward(pass, read, *dx));
    else {
        FT_TRY(device->functions->fill(device, dx->data, 0, (size_t)(dx->rows * dx->cols) * sizeof(float)));
        FT_TRY(ft_pass_scatter_add(pass, pass->batch->read_row, read, *dx));
    }
    ft_pass_free(pass, &read);
    return FT_OK;
}

static bool has_pooler(const ft_pass *pass) { return pass->model->pooler.weight >= 0; }

static ft_status pool(ft_pass *pass, ft_tensor x, ft_head_saved *s) {
    const ft_model *m = pass->model;
    const bool normed = m->head_norm.gamma >= 0;
    FT_TRY(activated(pass, &m->pooler, m->pooler_activation, x, "pooler", &s->pooler_h, normed ? &s->pooled : &s->input[0]));
    if (!normed) return FT_OK;
    FT_TRY(ft_norm_keep(pass, FT_ROWS_READ, -1, "head norm", &s->norm));
    FT_TRY(pooled(pass, m->hidden, "head value", &s->input[0]));
    return ft_norm_forward(pass, FT_ROWS_READ, &m->head_norm, &s->norm, (ft_layernorm_forward_args){.x = s->pooled, .y = s->input[0]});
}

// The mean behind the activation: of all rows the value of the first layer, and then one of each sequence.
static ft_status pool_late(ft_pass *pass, ft_tensor x, ft_head_saved *s) {
    const ft_model *m = pass->model;
    ft_tensor y;
    FT_TRY(ft_pass_tensor(pass, FT_ROWS_TOKENS, m->hidden, FT_MEM_ACTIVATIONS, -1, "pooler", &s->pooler_h));
    FT_TRY(ft_linear_product(pass, FT_ROWS_TOKENS, &m->pooler, x, ft_absent(), s->pooler_h));
    FT_TRY(ft_pass_tensor(pass, FT_ROWS_TOKENS, m->hidden, FT_MEM_ACTIVATIONS, -1, "pooler value", &y));
    FT_TRY(ft_pass_activation_forward(
        pass, FT_ROWS_TOKENS,
        (ft_activation_forward_args){
            .kind = m->pooler_activation, .x = s->pooler_h, .bias = ft_linear_bias(pass, &m->pooler), .h = s->pooler_h, .y = y}));
    FT_TRY(pooled(pass, m->hidden, "mean of rows", &s->input[0]));
    FT_TRY(mean_forward(pass, y, s->input[0]));
    ft_pass_free(pass, &y);
    return FT_OK;
}

// dy (fp32): of that mean, behind its dropout; dx (fp32) of x, where it is wanted. Frees dy.
static ft_status pool_late_backward(ft_pass *pass, ft_tensor x, const ft_head_saved *s, ft_tensor *dy, bool want_dx, ft_tensor *dx) {
    const ft_model *m = pass->model;
    ft_tensor all, own, value;
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_READ, head_dropout(pass, 0), *dy, *dy));
    FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_TOKENS, m->hidden, FT_MEM_ACTIVATIONS, -1, "gradient of rows", &all));
    FT_TRY(mean_backward(pass, *dy, all));
    ft_pass_free(pass, dy);
    FT_TRY(ft_pass_rounded(pass, FT_ROWS_TOKENS, all, "head gradient", &own, &value));
    if (own.data != NULL) ft_pass_free(pass, &all);
    FT_TRY(ft_pass_activation_backward(
        pass, FT_ROWS_TOKENS,
        (ft_activation_backward_args){
            .kind = m->pooler_activation, .h = s->pooler_h, .dy = value, .dx = value, .dbias = ft_linear_dbias(pass, &m->pooler)}));
    FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_TOKENS, &m->pooler, value, x));
    if (want_dx) {
        FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_TOKENS, m->hidden, FT_MEM_ACTIVATIONS, -1, "pooled gradient", dx));
        FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_TOKENS, &m->pooler, value, false, *dx));
    }
    ft_pass_free(pass, own.data != NULL ? &own : &all);
    return FT_OK;
}

ft_status ft_head_forward(ft_pass *pass, ft_tensor x, bool keep, ft_head_saved *s, ft_tensor logits) {
    ft_model *m = pass->model;
    int last = m->head_count - 1;
    FT_TRY(read_rows(pass, &x, s));
    if (!m->late_pooling) FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_READ, input_dropout(pass), x, x)); // no family has both
    if (m->late_pooling) FT_TRY(pool_late(pass, x, s));
    else if (has_pooler(pass)) FT_TRY(pool(pass, x, s));
    else s->borrowed = s->read.data == NULL, s->input[0] = x, s->read = ft_absent(); // it is its own, or the caller's
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_READ, head_dropout(pass, 0), s->input[0], s->input[0]));
    for (int i = 0; i < last; i++) {
        FT_TRY(activated(pass, &m->head[i], m->head_activation, s->input[i], "head hidden", &s->h[i], &s->input[i + 1]));
        FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_READ, head_dropout(pass, i + 1), s->input[i + 1], s->input[i + 1]));
    }
    FT_TRY(classify(pass, &m->head[last], s->input[last], logits));
    if (!keep) ft_head_saved_free(pass, s);
    return FT_OK;
}

void ft_head_saved_free(ft_pass *pass, ft_head_saved *s) {
    ft_pass_free(pass, &s->read);
    ft_pass_free(pass, &s->pooler_h);
    ft_pass_free(pass, &s->pooled);
    ft_norm_forget(pass, &s->norm);
    for (int i = 0; i < pass->model->head_count; i++) {
        if (i == 0 && s->borrowed) s->input[0] = ft_absent();
        ft_pass_free(pass, &s->input[i]);
        if (i + 1 < pass->model->head_count) ft_pass_free(pass, &s->h[i]);
    }
}

// Back through dropout `index` and the activation in front of it: dy becomes the gradient of h, in place.
static ft_status activated_backward(ft_pass *pass, int index, ft_activation kind, const ft_linear *l, ft_tensor h, ft_tensor dy) {
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_READ, head_dropout(pass, index), dy, dy));
    const ft_tensor dbias = ft_linear_dbias(pass, l);
    return ft_pass_activation_backward(pass, FT_ROWS_READ,
                                       (ft_activation_backward_args){.kind = kind, .h = h, .dy = dy, .dx = dy, .dbias = dbias});
}

// From the gradient of the pooler's value behind dropout 0, and behind its norm, to that of its linear layer: `dy` is fp32 where a norm
// follows, else of the model's type; then it is made anew.
static ft_status pool_backward(ft_pass *pass, const ft_head_saved *s, ft_tensor *dy) {
    const ft_model *m = pass->model;
    if (m->head_norm.gamma < 0) return activated_backward(pass, 0, m->pooler_activation, &m->pooler, s->pooler_h, *dy);
    ft_tensor dvalue = *dy;
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_READ, head_dropout(pass, 0), *dy, *dy));
    if (ft_pass_is_half(pass)) FT_TRY(pooled(pass, m->hidden, "head gradient", &dvalue));
    FT_TRY(ft_norm_backward(pass, FT_ROWS_READ, &m->head_norm, &s->norm,
                            (ft_layernorm_backward_args){
                                .dy = *dy, .s = s->pooled, .ds = *dy, .dx = ft_pass_is_half(pass) ? dvalue : ft_absent()}));
    if (ft_pass_is_half(pass)) ft_pass_free(pass, dy);
    *dy = dvalue;
    return ft_pass_activation_backward(
        pass, FT_ROWS_READ,
        (ft_activation_backward_args){
            .kind = m->pooler_activation, .h = s->pooler_h, .dy = *dy, .dx = *dy, .dbias = ft_linear_dbias(pass, &m->pooler)});
}

// The rest of the way where nothing stands in front of the first linear layer: dy is the gradient of what that puts out.
static ft_status from_classifier(ft_pass *pass, ft_head_saved *s, ft_tensor dy, bool want_dx, ft_tensor *rounded, ft_tensor *dx) {
    const ft_model *m = pass->model;
    *dx = ft_absent();
    if (want_dx) {
        FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_READ, m->read_width, FT_MEM_ACTIVATIONS, -1, "gradient of rows that are read", dx));
        FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_READ, &m->head[0], dy, false, *dx));
        FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_READ, head_dropout(pass, 0), *dx, *dx));
    }
    ft_pass_free(pass, m->head_count > 1 ? &dy : rounded);
    if (want_dx && m->ends_whole) FT_TRY(give_to_rows(pass, dx));
    ft_head_saved_free(pass, s);
    return FT_OK;
}

ft_status ft_head_backward(ft_pass *pass, ft_tensor x, ft_head_saved *s, ft_tensor dlogits, bool want_dx, ft_tensor *dx) {
    ft_model *m = pass->model;
    ft_tensor dy = dlogits, rounded = ft_absent(); // dy: gradient of the output of linear layer i
    FT_TRY(ft_linear_bias_gradient(pass, FT_ROWS_READ, &m->head[m->head_count - 1], dlogits));
    if (m->dtype != FT_F32) {
        FT_TRY(pooled(pass, m->labels, "logit gradient", &rounded));
        FT_TRY(ft_pass_cast(pass, dlogits, rounded));
        dy = rounded;
    }
    for (int i = m->head_count - 1; i >= 0; i--) {
        const ft_linear *l = &m->head[i];
        FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_READ, l, dy, s->input[i]));
        ft_tensor dinput;
        if (i == 0 && !has_pooler(pass)) return from_classifier(pass, s, dy, want_dx, &rounded, dx);
        if (i == 0 && (m->head_norm.gamma >= 0 || m->late_pooling))
            FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_READ, l->inputs, FT_MEM_ACTIVATIONS, -1, "head norm gradient", &dinput));
        else FT_TRY(pooled(pass, l->inputs, "head gradient", &dinput));
        FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_READ, l, dy, false, dinput));
        ft_pass_free(pass, i < m->head_count - 1 ? &dy : &rounded);
        dy = dinput;
        if (i == 0 && m->late_pooling) {
            *dx = ft_absent();
            FT_TRY(pool_late_backward(pass, x, s, &dy, want_dx, dx));
            ft_head_saved_free(pass, s);
            return FT_OK;
        }
        if (i > 0) FT_TRY(activated_backward(pass, i, m->head_activation, &m->head[i - 1], s->h[i - 1], dy));
        else FT_TRY(pool_backward(pass, s, &dy));
    }
    FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_READ, &m->pooler, dy, picks_rows(m) ? s->read : x));
    *dx = ft_absent();
    if (want_dx) {
        FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_READ, m->hidden, FT_MEM_ACTIVATIONS, -1, "pooled gradient", dx));
        FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_READ, &m->pooler, dy, false, *dx));
        FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_READ, input_dropout(pass), *dx, *dx));
    }
    ft_pass_free(pass, &dy);
    if (want_dx && picks_rows(m)) FT_TRY(give_to_rows(pass, dx));
    ft_head_saved_free(pass, s);
    return FT_OK;
}
