// embeddings.c - from token ids to the rows that the first layer reads, and back:
//
//   x = dropout(LN(word + position + type)), widened by a linear layer in front of the norm or behind the dropout where
//   the tables are narrower than x.
// (Which of the two is a matter of the family.) Of pictures it is patches.h that makes the sum. Or, where sums begin with the embeddings: x = LN(s), s = dropout(word + position + type).
#include "engine/model/blocks/linear.h"
#include "engine/model/gradients/gradients.h"
#include "engine/model/blocks/norm.h"
#include "engine/model/blocks/patches.h"
#include "engine/model/blocks/run_op.h"

void ft_embeddings_build(ft_builder *b) {
    ft_model *m = b->model;
    const ft_embedding_names *n = &m->family->embeddings;
    const int64_t width = m->embedding_width;
    const bool widens = width != m->hidden || m->family->widens_always, behind = m->family->widening == FT_WIDEN_AFTER_NORM;
    m->widening.weight = m->widening.bias = m->token_type = m->position = -1;
    ft_build_prefix(b, "%s", "");
    if (widens && behind) m->widening = ft_build_linear(b, m->family->widening_name, m->hidden, width);
    m->embedding_norm = ft_build_norm(b, n->norm, behind ? width : m->hidden);
    if (widens && !behind) m->widening = ft_build_linear_without_bias(b, m->family->widening_name, m->hidden, width);
    if (m->family->patches != NULL) {
        b->failed |= ft_patches_build(b) != FT_OK;
        return;
    }
    if (b->config->type_vocab_size > 0) m->token_type = ft_build_matrix(b, n->type, b->config->type_vocab_size, width);
    if (b->config->positions & FT_POSITIONS_TABLE) m->position = ft_build_matrix(b, n->position, b->config->position_rows, width);
    m->word = ft_build_matrix(b, n->word, b->config->vocab_size, width);
}

static ft_status tokens(ft_pass *pass, int64_t cols, const char *name, ft_tensor *out) {
    return ft_pass_tensor(pass, FT_ROWS_TOKENS, cols, FT_MEM_ACTIVATIONS, -1, name, out);
}

static ft_status rows_of_ids(ft_pass *pass, ft_embedding_forward_args args) {
    ft_embedding_forward_args largest = args;
    largest.out.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, embedding_forward, args, largest);
}

static ft_status rows_of_ids_backward(ft_pass *pass, ft_embedding_backward_args args) {
    if (args.table_gradient.data == NULL) return FT_OK;
    ft_embedding_backward_args largest = args;
    largest.dout.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, embedding_backward, args, largest);
}

// A table that the family does not have is absent.
static ft_tensor weight(const ft_model *m, int index) {
    return index < 0 ? ft_absent() : ft_parameter_weight(&m->parameters, index);
}
static ft_tensor gradient(const ft_model *m, int index) {
    return index < 0 ? ft_absent() : ft_parameter_gradient(&m->parameters, index);
}

static ft_dropout dropout_of(const ft_pass *pass) {
    return ft_pass_dropout(pass, FT_ROWS_TOKENS, pass->model->embedding_dropout, 0, FT_SITE_EMBEDDING);
}

static bool widens(const ft_model *m, ft_widening where) { return m->widening.weight >= 0 && m->family->widening == where; }

static ft_status new_wide(ft_pass *pass, ft_tensor *wide) {
    return ft_pass_wide_tensor(pass, FT_ROWS_TOKENS, pass->model->hidden, "rows of the stream", wide);
}

// Of x, or, where there is one, of its wider form, from which x is then rounded anew.
static ft_status drop(ft_pass *pass, ft_tensor x, ft_tensor wide) {
    const ft_dropout dropout = dropout_of(pass);
    if (wide.data == NULL) return ft_pass_dropout_rows(pass, FT_ROWS_TOKENS, dropout, x, x);
    if (dropout.probability <= 0) return FT_OK;
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_TOKENS, dropout, wide, wide));
    return ft_pass_cast(pass, wide, x);
}

// x becomes narrow W^T + b, as the model's type has it, in both forms.
static ft_status widen_behind(ft_pass *pass, ft_embeddings_saved *s, ft_tensor *x, ft_tensor *wide) {
    const ft_model *m = pass->model;
    s->narrow = *x;
    FT_TRY(tokens(pass, m->hidden, "widened embeddings", x));
    FT_TRY(ft_linear_forward(pass, FT_ROWS_TOKENS, &m->widening, s->narrow, *x));
    FT_TRY(new_wide(pass, wide));
    return wide->data != NULL && ft_pass_is_half(pass) ? ft_pass_copy_rows(pass, *x, *wide) : FT_OK;
}

// The norm in front of the first block; what it reads is the stream.
static ft_status begin_sums(ft_pass *pass, ft_embeddings_saved *s, ft_tensor *x, ft_tensor *wide) {
    FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_TOKENS, dropout_of(pass), s->sum, s->sum));
    FT_TRY(tokens(pass, s->sum.cols, "embedding output", x));
    FT_TRY(new_wide(pass, wide));
    return ft_norm_forward(pass, FT_ROWS_TOKENS, &pass->model->embedding_norm, &s->norm,
                           (ft_layernorm_forward_args){.x = s->sum, .s = s->sum, .y = *x, .stream = *wide});
}

ft_status ft_embeddings_forward(ft_pass *pass, bool keep, ft_embeddings_saved *s, ft_tensor *x, ft_tensor *wide) {
    const ft_model *m = pass->model;
    *s = (ft_embeddings_saved){.sum = ft_absent()};
    *wide = ft_absent();
    FT_TRY(tokens(pass, m->embedding_width, "embedding sum", &s->sum));
    FT_TRY(ft_norm_keep(pass, FT_ROWS_TOKENS, -1, "embedding norm", &s->norm));
    if (m->patches != NULL) FT_TRY(ft_patches_forward(pass, s->sum));
    else
        FT_TRY(rows_of_ids(pass, (ft_embedding_forward_args){.word_ids = pass->batch->ids,
                                                         .position_ids = pass->batch->position_row,
                                                         .type_ids = pass->batch->token_type,
                                                         .word = weight(m, m->word),
                                                         .position = weight(m, m->position),
                                                         .type = weight(m, m->token_type),
                                                         .out = s->sum}));
    if (m->family->first_norm_in_front) {
        FT_TRY(begin_sums(pass, s, x, wide));
        if (!keep) ft_embeddings_saved_free(pass, s);
        return FT_OK;
    }
    if (widens(m, FT_WIDEN_BEFORE_NORM)) {
        s->narrow = s->sum;
        FT_TRY(tokens(pass, m->hidden, "widened embeddings", &s->sum));
        FT_TRY(ft_linear_forward(pass, FT_ROWS_TOKENS, &m->widening, s->narrow, s->sum));
    }
    FT_TRY(tokens(pass, s->sum.cols, "embedding output", x));
    const bool rounds = ft_pass_wide_is_wider(pass); // else x is all there is to have of it
    if (rounds && !widens(m, FT_WIDEN_AFTER_NORM)) FT_TRY(new_wide(pass, wide));
    FT_TRY(ft_norm_forward(pass, FT_ROWS_TOKENS, &m->embedding_norm, &s->norm,
                           (ft_layernorm_forward_args){.x = s->sum,
                                                       .s = s->sum,
                                                       .y = *x,
                                                       .wide = *wide}));
    FT_TRY(drop(pass, *x, *wide));
    if (widens(m, FT_WIDEN_AFTER_NORM)) FT_TRY(widen_behind(pass, s, x, wide));
    if (!rounds && ft_pass_has_wide(pass)) { // the stream begins as the rows do
        FT_TRY(new_wide(pass, wide));
        FT_TRY(ft_pass_copy_rows(pass, *x, *wide));
    }
    if (!keep) ft_embeddings_saved_free(pass, s);
    return FT_OK;
}

void ft_embeddings_saved_free(ft_pass *pass, ft_embeddings_saved *s) {
    ft_pass_free(pass, &s->sum);
    ft_norm_forget(pass, &s->norm);
    ft_pass_free(pass, &s->narrow);
}

// Batches bring rows of the table that is there.
static int32_t padding_row(const ft_model *m) {
    const ft_word_rows *v = m->absent.word_rows;
    bool in_table = m->padding_id >= 0 && v != NULL && m->padding_id < v->rows;
    return in_table ? v->row_of[m->padding_id] : m->padding_id;
}

static ft_status widening_backward(ft_pass *pass, ft_embeddings_saved *s, ft_tensor *dx) {
    const ft_model *m = pass->model;
    ft_tensor own, dy, dnarrow;
    FT_TRY(ft_linear_bias_gradient(pass, FT_ROWS_TOKENS, &m->widening, *dx));
    FT_TRY(ft_pass_rounded(pass, FT_ROWS_TOKENS, *dx, "rounded embedding gradient", &own, &dy));
    if (own.data != NULL) ft_pass_free(pass, dx);
    FT_TRY(ft_linear_weight_gradient(pass, FT_ROWS_TOKENS, &m->widening, dy, s->narrow));
    ft_pass_free(pass, &s->narrow);
    FT_TRY(ft_pass_float_tensor(pass, FT_ROWS_TOKENS, m->embedding_width, FT_MEM_ACTIVATIONS, -1, "embedding gradient", &dnarrow));
    FT_TRY(ft_linear_input_gradient(pass, FT_ROWS_TOKENS, &m->widening, dy, false, dnarrow));
    ft_pass_free(pass, own.data != NULL ? &own : dx);
    *dx = dnarrow;
    return FT_OK;
}

ft_status ft_embeddings_backward(ft_pass *pass, ft_embeddings_saved *s, ft_tensor *dx, ft_tensor *stream) {
    const ft_model *m = pass->model;
    const bool behind = !m->family->first_norm_in_front; // the dropout
    if (widens(m, FT_WIDEN_AFTER_NORM)) FT_TRY(widening_backward(pass, s, dx));
    if (behind) FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_TOKENS, dropout_of(pass), *dx, *dx));
    FT_TRY(ft_pass_retype(pass, FT_ROWS_TOKENS, dx->dtype, "embedding stream gradient", stream));
    FT_TRY(ft_norm_backward(pass, FT_ROWS_TOKENS, &m->embedding_norm, &s->norm,
                            (ft_layernorm_backward_args){.dy = *dx,
                                                         .s = s->sum,
                                                         .past = *stream,
                                                         .ds = *dx}));
    ft_pass_free(pass, stream);
    if (!behind) FT_TRY(ft_pass_dropout_rows(pass, FT_ROWS_TOKENS, dropout_of(pass), *dx, *dx));
    if (widens(m, FT_WIDEN_BEFORE_NORM)) FT_TRY(widening_backward(pass, s, dx));
    ft_embeddings_saved_free(pass, s);
    FT_TRY(ft_pass_retype(pass, FT_ROWS_TOKENS, FT_F32, "embedding sum gradient", dx)); // from here on it adds up over rows
    if (m->patches != NULL) {
        FT_TRY(ft_patches_backward(pass, *dx));
        ft_pass_free(pass, dx);
        return FT_OK;
    }
    const struct {
        const int32_t *ids, *order;
        ft_tensor table;
        int32_t padding;
    } tables[3] = {{pass->batch->token_type, pass->batch->type_order, gradient(m, m->token_type), -1},
                   {pass->batch->position_row, pass->batch->position_order, gradient(m, m->position), m->position_padding},
                   {pass->batch->ids, pass->batch->word_order, gradient(m, m->word), padding_row(m)}};
    for (int i = 0; i < 3; i++)
        FT_TRY(rows_of_ids_backward(pass, (ft_embedding_backward_args){.ids = tables[i].ids,
                                                                       .order = tables[i].order,
                                                                       .dout = *dx,
                                                                       .table_gradient = tables[i].table,
                                                                       .padding_id = tables[i].padding}));
    ft_pass_free(pass, dx);
    return FT_OK;
}
