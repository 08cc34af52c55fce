// head.c - the rows that are read to logits:
//   [dropout] -> activation(pooler) -> dropout -> (hidden layer -> activation -> dropout)* -> classifier
#include "engine/model/blocks/linear.h"

#include <stdio.h>

void ft_head_build(ft_builder *b, const ft_int_list *hidden) {
    ft_model *m = b->model;
    b->trainable = b->head = true;
    for (int i = m->head_count - 1; i >= 0; i--) {
        int64_t inputs = i == 0 ? m->hidden : hidden->values[i - 1];
        bool last = i == m->head_count - 1;
        char name[48];
        snprintf(name, sizeof name, "head.hidden.%d", i);
        m->head[i] = ft_build_linear(b, last ? m->family->classifier : name, last ? m->labels : hidden->values[i], inputs);
    }
    m->pooler = ft_build_linear(b, m->family->pooler, m->hidden, m->hidden);
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
    if (bias.dtype == FT_F32) return ft_linear_product(pass, FT_ROWS_READ, l, x, bias, logits);
    void *data;
    FT_TRY(ft_memory_alloc(pass->model->memory, (size_t)l->outputs * sizeof(float), FT_MEM_ACTIVATIONS, "classifier bias", &data));
    ft_tensor wide = ft_vector(data, l->outputs, FT_F32);
    FT_TRY(ft_pass_cast(pass, bias, wide));
    FT_TRY(ft_linear_product(pass, FT_ROWS_READ, l, x, wide, logits));
    ft_pass_free(pass, &wide);
    return FT_OK;
}

ft_status ft_head_forward(ft_pass *pass, ft_tensor x, bool keep, ft_head_saved *s, ft_tensor logits) {
    ft_model *m = pass->model;
    int last = m->head_count - 1;
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_READ, input_dropout(pass), x, x));
    FT_TRY(activated(pass, &m->pooler, m->pooler_activation, x, "pooler", &s->pooler_h, &s->input[0]));
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
    ft_pass_free(pass, &s->pooler_h);
    for (int i = 0; i < pass->model->head_count; i++) {
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
        FT_TRY(pooled(pass, l->inputs, "head gradient", &dinput));
        FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_READ, l, dy, false, dinput));
        ft_pass_free(pass, i < m->head_count - 1 ? &dy : &rounded);
        dy = dinput;
        if (i > 0) FT_TRY(activated_backward(pass, i, m->head_activation, &m->head[i - 1], s->h[i - 1], dy));
        else FT_TRY(activated_backward(pass, 0, m->pooler_activation, &m->pooler, s->pooler_h, dy));
    }
    FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_READ, &m->pooler, dy, x));
    *dx = ft_absent();
    if (want_dx) {
        FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_READ, m->hidden, FT_MEM_ACTIVATIONS, -1, "pooled gradient", dx));
        FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_READ, &m->pooler, dy, false, *dx));
        FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_READ, input_dropout(pass), *dx, *dx));
    }
    ft_pass_free(pass, &dy);
    ft_head_saved_free(pass, s);
    return FT_OK;
}
