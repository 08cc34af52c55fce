#include "engine/model/blocks/layers.h"

#include "engine/model/blocks/relative.h"
#include "engine/model/blocks/rotary.h"
#include "engine/model/blocks/run_op.h"

#include <stdio.h>

int64_t ft_pass_rows(const ft_pass *pass, ft_rows_kind kind) {
    if (kind == FT_ROWS_RELATIVE) return pass->relative.rows;
    return kind == FT_ROWS_TOKENS ? pass->batch->tokens : pass->batch->reads;
}

int64_t ft_pass_capacity(const ft_pass *pass, ft_rows_kind kind) {
    if (kind == FT_ROWS_RELATIVE) return pass->relative.rows;
    return kind == FT_ROWS_TOKENS ? pass->capacity.tokens : pass->capacity.reads;
}

static ft_status new_tensor(ft_pass *pass, ft_dtype dtype, ft_rows_kind kind, int64_t cols, ft_memory_category category, int layer,
                            const char *name, ft_tensor *out) {
    char site[64];
    if (layer >= 0) snprintf(site, sizeof site, "layer %d %s", layer, name);
    void *data;
    size_t bytes = (size_t)ft_pass_capacity(pass, kind) * (size_t)cols * ft_dtype_size(dtype);
    FT_TRY(ft_memory_alloc(pass->model->memory, bytes, category, layer >= 0 ? site : name, &data));
    *out = ft_matrix(data, ft_pass_rows(pass, kind), cols, dtype);
    return FT_OK;
}

ft_status ft_pass_tensor(ft_pass *pass, ft_rows_kind kind, int64_t cols, ft_memory_category category, int layer, const char *name,
                         ft_tensor *out) {
    return new_tensor(pass, pass->model->dtype, kind, cols, category, layer, name, out);
}

ft_status ft_pass_float_tensor(ft_pass *pass, ft_rows_kind kind, int64_t cols, ft_memory_category category, int layer,
                               const char *name, ft_tensor *out) {
    return new_tensor(pass, FT_F32, kind, cols, category, layer, name, out);
}

bool ft_pass_is_half(const ft_pass *pass) { return pass->model->dtype != FT_F32; }
bool ft_pass_wide_is_wider(const ft_pass *pass) { return pass->model->row_dtype != pass->model->dtype; }
bool ft_pass_has_wide(const ft_pass *pass) { return ft_pass_wide_is_wider(pass) || pass->model->family->norms_in_front; }

ft_status ft_pass_row_tensor(ft_pass *pass, ft_rows_kind kind, int64_t cols, int layer, const char *name, ft_tensor *out) {
    return new_tensor(pass, pass->model->row_dtype, kind, cols, FT_MEM_ACTIVATIONS, layer, name, out);
}

ft_status ft_pass_wide_tensor(ft_pass *pass, ft_rows_kind kind, int64_t cols, const char *name, ft_tensor *out) {
    *out = ft_absent();
    return ft_pass_has_wide(pass) ? ft_pass_row_tensor(pass, kind, cols, -1, name, out) : FT_OK;
}

ft_status ft_pass_rounded(ft_pass *pass, ft_rows_kind kind, ft_tensor x, const char *name, ft_tensor *own, ft_tensor *out) {
    *own = ft_absent();
    *out = x;
    if (x.data == NULL || x.dtype == pass->model->dtype) return FT_OK;
    FT_TRY(ft_pass_tensor(pass, kind, x.cols, FT_MEM_ACTIVATIONS, -1, name, own));
    *out = *own;
    return ft_pass_cast(pass, x, *own);
}

ft_status ft_pass_statistics(ft_pass *pass, ft_rows_kind kind, int layer, const char *name, ft_tensor *out) {
    FT_TRY(ft_pass_float_tensor(pass, kind, 1, FT_MEM_ACTIVATIONS, layer, name, out));
    *out = ft_vector(out->data, out->rows, FT_F32);
    return FT_OK;
}

void ft_pass_free(ft_pass *pass, ft_tensor *tensor) {
    ft_memory_free(pass->model->memory, tensor->data);
    *tensor = ft_absent();
}

// Of the frozen parts that drop nothing? The convolution's site counts its layer as 0, whose block it is.
static bool is_quiet(const ft_model *m, uint32_t layer, ft_dropout_site site) {
    if (m->quiet == NULL || site == FT_SITE_HEAD || site == FT_SITE_ADAPTER || site == FT_SITE_ADAPTER_TABLE) return false;
    return m->quiet[site == FT_SITE_EMBEDDING ? 0 : layer + 1];
}

ft_dropout ft_pass_dropout(const ft_pass *pass, ft_rows_kind kind, float probability, uint32_t layer, ft_dropout_site site) {
    if (pass->step == NULL || probability <= 0 || is_quiet(pass->model, layer, site)) return (ft_dropout){.probability = 0};
    const ft_batch *b = pass->batch; // none around a step, where the rows are those of the table
    const ft_relative *relative = pass->model->relative;
    ft_dropout dropout = {.probability = probability, .layer = layer, .site = (uint32_t)site, .step = pass->step};
    switch (kind) {
    case FT_ROWS_TOKENS: dropout.slot = b->token_slot, dropout.position = b->token_position; break;
    case FT_ROWS_READ: dropout.slot = b->read_slot, dropout.position = b->read_position; break;
    case FT_ROWS_RELATIVE: dropout.slot = relative->zero, dropout.position = relative->row_number + pass->relative.first; break;
    }
    return dropout;
}

ft_status ft_pass_activation_forward(ft_pass *pass, ft_rows_kind kind, ft_activation_forward_args args) {
    ft_activation_forward_args largest = args;
    int64_t rows = ft_pass_capacity(pass, kind);
    largest.x.rows = largest.y.rows = rows;
    if (args.h.data != NULL) largest.h.rows = rows;
    RUN_WITH_WORKSPACE(pass, activation_forward, args, largest);
}

ft_status ft_pass_activation_backward(ft_pass *pass, ft_rows_kind kind, ft_activation_backward_args args) {
    ft_activation_backward_args largest = args;
    int64_t rows = ft_pass_capacity(pass, kind);
    largest.h.rows = largest.dy.rows = largest.dx.rows = rows;
    if (args.y.data != NULL) largest.y.rows = rows;
    RUN_WITH_WORKSPACE(pass, activation_backward, args, largest);
}

ft_status ft_pass_dropout_rows(ft_pass *pass, ft_rows_kind kind, ft_dropout dropout, ft_tensor x, ft_tensor y) {
    if (dropout.probability <= 0 && x.data == y.data) return FT_OK;
    ft_dropout_args args = {.dropout = dropout, .x = x, .y = y}, largest = args;
    largest.x.rows = largest.y.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, dropout, args, largest);
}

ft_status ft_pass_cast(ft_pass *pass, ft_tensor x, ft_tensor y) {
    int64_t n = x.rows * x.cols;
    // Its scratch does not depend on the rows.
    ft_cast_args args = {.x = ft_vector(x.data, n, x.dtype), .y = ft_vector(y.data, n, y.dtype)}, largest = args;
    RUN_WITH_WORKSPACE(pass, cast, args, largest);
}

ft_status ft_pass_copy_rows(ft_pass *pass, ft_tensor x, ft_tensor y) {
    if (x.dtype != y.dtype) return ft_pass_cast(pass, x, y);
    ft_device *device = pass->model->device;
    return device->functions->copy(device, y.data, x.data, (size_t)(x.rows * x.cols) * ft_dtype_size(x.dtype));
}

ft_status ft_pass_retype(ft_pass *pass, ft_rows_kind kind, ft_dtype dtype, const char *name, ft_tensor *x) {
    ft_tensor y;
    if (x->data == NULL || x->dtype == dtype) return FT_OK;
    FT_TRY(new_tensor(pass, dtype, kind, x->cols, FT_MEM_ACTIVATIONS, -1, name, &y));
    FT_TRY(ft_pass_cast(pass, *x, y));
    ft_pass_free(pass, x);
    *x = y;
    return FT_OK;
}

ft_status ft_pass_column_scale(ft_pass *pass, ft_rows_kind kind, ft_column_scale_args args) {
    ft_column_scale_args largest = args;
    largest.x.rows = largest.y.rows = ft_pass_capacity(pass, kind);
    if (args.times.data != NULL) largest.times.rows = largest.x.rows;
    RUN_WITH_WORKSPACE(pass, column_scale, args, largest);
}

ft_status ft_pass_column_sum(ft_pass *pass, ft_rows_kind kind, ft_tensor x, ft_tensor out) {
    ft_column_sum_args args = {.x = x, .out = out}, largest = args;
    largest.x.rows = ft_pass_capacity(pass, kind);
    RUN_WITH_WORKSPACE(pass, column_sum, args, largest);
}

ft_status ft_pass_gather(ft_pass *pass, const int32_t *index, ft_tensor x, ft_tensor y) {
    ft_gather_rows_args args = {.index = index, .x = x, .y = y}, largest = args;
    largest.x.rows = pass->capacity.tokens;
    largest.y.rows = pass->capacity.reads;
    RUN_WITH_WORKSPACE(pass, gather_rows, args, largest);
}

ft_status ft_pass_scatter_add(ft_pass *pass, const int32_t *index, ft_tensor x, ft_tensor y) {
    ft_scatter_rows_add_args args = {.index = index, .x = x, .y = y}, largest = args;
    largest.x.rows = pass->capacity.reads;
    largest.y.rows = pass->capacity.tokens;
    RUN_WITH_WORKSPACE(pass, scatter_rows_add, args, largest);
}

ft_attention_shape ft_pass_attention_shape(const ft_pass *pass, ft_rows_kind queries, int layer) {
    const ft_model *m = pass->model;
    const ft_batch *b = pass->batch;
    ft_attention_shape shape = {.heads = m->heads.count,
                                .head_dim = m->heads.width,
                                .sequences = b->sequences,
                                .max_queries = queries == FT_ROWS_TOKENS ? b->longest : b->most_reads,
                                .max_keys = b->longest,
                                .cu_queries = queries == FT_ROWS_TOKENS ? b->cu_seqlens : b->cu_reads,
                                .cu_keys = b->cu_seqlens,
                                .scale = m->heads.scale,
                                .window = ft_rotary_window(m, layer),
                                .causal = m->causal && queries == FT_ROWS_TOKENS, // of a last token alone nothing is hidden
                                .key_heads = m->heads.key_values < m->heads.count ? m->heads.key_values : 0};
    if (pass->step != NULL && m->attention_dropout > 0 && !is_quiet(m, (uint32_t)layer, FT_SITE_ATTENTION))
        shape.dropout = (ft_score_dropout){.probability = m->attention_dropout,
                                           .layer = (uint32_t)layer,
                                           .site = FT_SITE_ATTENTION,
                                           .step = pass->step,
                                           .sequence_slot = b->slot};
    return shape;
}

ft_attention_shape ft_pass_largest_shape(const ft_pass *pass, ft_rows_kind queries, ft_attention_shape shape) {
    shape.sequences = pass->capacity.sequences;
    shape.max_keys = pass->capacity.longest;
    shape.max_queries = queries == FT_ROWS_TOKENS ? pass->capacity.longest : pass->capacity.most_reads;
    return shape;
}
