#include "kernels/ops/check.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/geometry.h"
#include "kernels/half.h"

#include <stdint.h>

static bool dropout_fits(const ft_dropout *d, int64_t rows) {
    return d->probability == 0.0f || (d->step && ((d->slot && d->position) || rows == 0));
}

static bool score_dropout_fits(const ft_score_dropout *d) {
    return d->probability == 0.0f || (d->step && d->sequence_slot);
}

static bool is_flat(ft_tensor t, int64_t n) { return n == 0 || ft_is_vector(t, n); }

// Which types the rows of an op may have.
static bool is_type(ft_dtype dtype) { return dtype == FT_F32 || ft_is_half(dtype); }

// All but its scratch.
static ft_status product_fits(const ft_gemm_args *args) {
    const ft_tensor *a = &args->a, *b = &args->b, *c = &args->c;
    int64_t m = args->trans_a ? a->cols : a->rows, k = args->trans_a ? a->rows : a->cols;
    int64_t n = args->trans_b ? b->rows : b->cols, kb = args->trans_b ? b->cols : b->rows;
    if (m != c->rows || n != c->cols || k != kb)
        return ft_fail(FT_FAILED, "gemm", "shapes disagree: [%lld,%lld] x [%lld,%lld] -> [%lld,%lld]", (long long)m,
                       (long long)k, (long long)kb, (long long)n, (long long)c->rows, (long long)c->cols);
    bool types = (a->dtype == FT_F32 || ft_is_half(a->dtype)) && b->dtype == a->dtype;
    if (!types || (c->dtype != a->dtype && c->dtype != FT_F32))
        return ft_fail(FT_FAILED, "gemm", "no product of %s x %s -> %s", ft_dtype_name(a->dtype), ft_dtype_name(b->dtype),
                       ft_dtype_name(c->dtype));
    if (args->bias.data && (args->bias.cols != n || args->bias.dtype != c->dtype))
        return ft_fail(FT_FAILED, "gemm", "bias is %s[%lld], expected %s[%lld]", ft_dtype_name(args->bias.dtype),
                       (long long)args->bias.cols, ft_dtype_name(c->dtype), (long long)n);
    if (args->scale != 0 && (args->accumulate || args->bias.data || args->trans_a))
        return ft_fail(FT_FAILED, "gemm", "a scale is for C = A B alone");
    FT_REQUIRE("gemm", args->more_count == 0 || (!args->trans_a && args->scale == 0));
    for (int i = 0; i < args->more_count; i++) {
        const ft_tensor *x = &args->more[i].a, *y = &args->more[i].c;
        FT_REQUIRE("gemm", x->rows == y->rows && x->cols == k && y->cols == n && x->dtype == a->dtype && y->dtype == c->dtype);
    }
    return FT_OK;
}

ft_status ft_gemm_check(const ft_target *target, const ft_gemm_args *args) {
    FT_TRY(product_fits(args));
    FT_REQUIRE_WORKSPACE(gemm, target, args);
}

ft_status ft_segment_product_check(const ft_target *target, const ft_segment_product_args *args) {
    static const char op[] = "segment_product";
    for (int i = 0; i < args->count; i++) {
        const ft_gemm_args *first = args->product[0], *x = args->product[i];
        FT_TRY(product_fits(x));
        FT_REQUIRE(op, x->more_count == 0 && !(x->trans_a && x->trans_b));
        FT_REQUIRE(op, x->trans_a == first->trans_a && x->trans_b == first->trans_b && x->accumulate == first->accumulate);
        FT_REQUIRE(op, x->a.dtype == first->a.dtype && x->c.dtype == first->c.dtype);
    }
    FT_REQUIRE_WORKSPACE(segment_product, target, args);
}

ft_status ft_column_sum_check(const ft_target *target, const ft_column_sum_args *args) {
    static const char op[] = "column_sum";
    FT_REQUIRE(op, is_type(args->x.dtype) && ft_is_matrix_of(args->x.dtype, args->x, args->x.rows, args->x.cols));
    FT_REQUIRE(op, ft_is_vector(args->out, args->x.cols));
    FT_REQUIRE_WORKSPACE(column_sum, target, args);
}

ft_status ft_embedding_forward_check(const ft_target *target, const ft_embedding_forward_args *args) {
    static const char op[] = "embedding_forward";
    int64_t rows = args->out.rows, cols = args->out.cols;
    ft_dtype h = args->out.dtype;
    FT_REQUIRE(op, is_type(h) && ft_is_matrix_of(h, args->out, rows, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->word, args->word.rows, cols));
    FT_REQUIRE(op, ft_is_optional_matrix_of(h, args->position, args->position.rows, cols));
    FT_REQUIRE(op, ft_is_optional_matrix_of(h, args->type, args->type.rows, cols));
    FT_REQUIRE(op,
               args->word_ids && (args->position_ids || !args->position.data) && (args->type_ids || !args->type.data));
    FT_REQUIRE_WORKSPACE(embedding_forward, target, args);
}

ft_status ft_embedding_backward_check(const ft_target *target, const ft_embedding_backward_args *args) {
    static const char op[] = "embedding_backward";
    int64_t rows = args->dout.rows, cols = args->dout.cols;
    FT_REQUIRE(op, is_type(args->dout.dtype) && ft_is_matrix_of(args->dout.dtype, args->dout, rows, cols));
    FT_REQUIRE(op, ft_is_matrix(args->table_gradient, args->table_gradient.rows, cols));
    FT_REQUIRE(op, args->ids && (args->order || !ft_embedding_order_wanted(target)));
    FT_REQUIRE_WORKSPACE(embedding_backward, target, args);
}

// What adds up from layer to layer, in an op whose rows are of type h (layernorm.h).
static bool is_row_type(ft_dtype r, ft_dtype h) { return r == FT_F32 || r == h; }

ft_status ft_layernorm_forward_check(const ft_target *target, const ft_layernorm_forward_args *args) {
    static const char op[] = "layernorm_forward";
    int64_t rows = args->x.rows, cols = args->x.cols;
    ft_dtype h = args->y.dtype, r = args->residual.data ? args->residual.dtype : args->stream.data ? args->stream.dtype : FT_F32;
    FT_REQUIRE(op, is_type(h) && is_row_type(r, h) && ft_is_matrix_of(args->x.dtype, args->x, rows, cols) && cols > 0);
    FT_REQUIRE(op, args->x.dtype == h || (args->x.dtype == FT_F32 && r == FT_F32 && !args->bias.data && !args->residual.data && args->dropout.probability == 0.0f));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->y, rows, cols));
    FT_REQUIRE(op, ft_is_optional_vector_of(h, args->bias, cols));
    FT_REQUIRE(op, ft_is_optional_matrix_of(r, args->residual, rows, cols));
    FT_REQUIRE(op, ft_is_vector(args->gamma, cols));
    FT_REQUIRE(op, ft_is_optional_vector(args->beta, cols));
    FT_REQUIRE(op, ft_is_optional_matrix_of(r, args->stream, rows, cols));
    FT_REQUIRE(op, ft_is_optional_matrix_of(h, args->s, rows, cols));
    FT_REQUIRE(op, !args->wide.data || (ft_is_half(h) && r == FT_F32 && ft_is_matrix(args->wide, rows, cols)));
    FT_REQUIRE(op, ft_is_optional_vector(args->mean, rows));
    FT_REQUIRE(op, ft_is_optional_vector(args->rstd, rows));
    FT_REQUIRE(op, dropout_fits(&args->dropout, rows));
    FT_REQUIRE_WORKSPACE(layernorm_forward, target, args);
}

// A plan and a run alike end here, before anything is taken.
static ft_status refuse_wide_norm(const ft_target *target, int64_t cols) {
    if (target->backend != FT_BACKEND_CUDA || cols <= FT_CUDA_NORM_COLUMNS) return FT_OK;
    ft_fail(FT_INVALID, "device.name", "training on CUDA has norms of at most %d columns, not %lld", (int)FT_CUDA_NORM_COLUMNS,
            (long long)cols);
    ft_hint("device.name=cpu");
    return FT_INVALID;
}

ft_status ft_layernorm_backward_check(const ft_target *target, const ft_layernorm_backward_args *args) {
    static const char op[] = "layernorm_backward";
    int64_t rows = args->dy.rows, cols = args->dy.cols;
    FT_TRY(refuse_wide_norm(target, cols));
    ft_dtype h = args->s.dtype, r = args->dy.dtype;
    FT_REQUIRE(op, is_type(h) && is_row_type(r, h) && ft_is_matrix_of(r, args->dy, rows, cols) && cols > 0);
    FT_REQUIRE(op, ft_is_matrix_of(h, args->s, rows, cols));
    FT_REQUIRE(op, ft_is_optional_matrix_of(r, args->past, rows, cols));
    FT_REQUIRE(op, rows == 0 || (ft_is_vector(args->mean, rows) && ft_is_vector(args->rstd, rows)));
    FT_REQUIRE(op, ft_is_vector(args->gamma, cols));
    FT_REQUIRE(op, ft_is_optional_matrix_of(r, args->ds, rows, cols));
    FT_REQUIRE(op, ft_is_optional_matrix_of(h, args->dx, rows, cols));
    FT_REQUIRE(op, ft_is_optional_vector(args->dgamma, cols));
    FT_REQUIRE(op, ft_is_optional_vector(args->dbeta, cols));
    FT_REQUIRE(op, ft_is_optional_vector(args->dbias, cols));
    FT_REQUIRE(op, dropout_fits(&args->dropout, rows));
    FT_REQUIRE_WORKSPACE(layernorm_backward, target, args);
}

ft_status ft_activation_forward_check(const ft_target *target, const ft_activation_forward_args *args) {
    static const char op[] = "activation_forward";
    int64_t rows = args->x.rows, cols = args->x.cols;
    FT_REQUIRE(op, (unsigned)args->kind < FT_ACT_COUNT);
    ft_dtype h = args->x.dtype;
    FT_REQUIRE(op, is_type(h) && ft_is_matrix_of(h, args->x, rows, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->y, rows, cols));
    FT_REQUIRE(op, ft_is_optional_matrix_of(h, args->h, rows, cols));
    FT_REQUIRE(op, ft_is_optional_vector_of(h, args->bias, cols));
    FT_REQUIRE_WORKSPACE(activation_forward, target, args);
}

ft_status ft_activation_backward_check(const ft_target *target, const ft_activation_backward_args *args) {
    static const char op[] = "activation_backward";
    int64_t rows = args->h.rows, cols = args->h.cols;
    FT_REQUIRE(op, (unsigned)args->kind < FT_ACT_COUNT);
    ft_dtype h = args->h.dtype;
    FT_REQUIRE(op, is_type(h) && ft_is_matrix_of(h, args->h, rows, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->dy, rows, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->dx, rows, cols));
    FT_REQUIRE(op, ft_is_optional_matrix_of(h, args->y, rows, cols));
    FT_REQUIRE(op, ft_is_optional_vector(args->dbias, cols));
    FT_REQUIRE_WORKSPACE(activation_backward, target, args);
}

ft_status ft_product_activation_check(const ft_target *target, const ft_product_activation_args *args) {
    static const char op[] = "product_activation";
    const ft_gemm_args product = ft_product_activation_product(args);
    const ft_activation_forward_args rest = ft_product_activation_rest(args);
    FT_REQUIRE(op, args->h.data == NULL || args->h.data != args->y.data);
    FT_REQUIRE(op, args->y.dtype == args->x.dtype && ft_is_matrix_of(args->x.dtype, args->y, args->x.rows, args->w.rows));
    FT_REQUIRE(op, args->h.data == NULL || args->h.dtype == args->x.dtype);
    FT_TRY(ft_gemm_check(target, &product));
    FT_TRY(ft_activation_forward_check(target, &rest));
    FT_REQUIRE_WORKSPACE(product_activation, target, args);
}

ft_status ft_product_slope_check(const ft_target *target, const ft_product_slope_args *args) {
    static const char op[] = "product_slope";
    const ft_gemm_args product = ft_product_slope_product(args);
    const ft_activation_backward_args rest = ft_product_slope_rest(args);
    FT_REQUIRE(op, args->dx.data == NULL || (args->dx.data != args->dout.data && args->dx.data != args->h.data && args->dx.data != args->y.data));
    FT_REQUIRE(op, args->dx.dtype == args->dout.dtype && ft_is_matrix_of(args->dout.dtype, args->dx, args->dout.rows, args->w.cols));
    FT_TRY(ft_gemm_check(target, &product));
    FT_TRY(ft_activation_backward_check(target, &rest));
    FT_REQUIRE_WORKSPACE(product_slope, target, args);
}

ft_status ft_product_norm_check(const ft_target *target, const ft_product_norm_args *args) {
    static const char op[] = "product_norm";
    const ft_gemm_args product = ft_product_norm_product(args);
    const ft_layernorm_forward_args rest = ft_product_norm_rest(args);
    const ft_tensor written[] = {args->norm.x, args->norm.s, args->norm.y, args->norm.wide, args->norm.stream};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        FT_REQUIRE(op, written[i].data == NULL || written[i].data != args->x.data);
    FT_REQUIRE(op, args->norm.x.data == NULL || args->norm.residual.data != args->norm.x.data); // which the product would take the place of
    FT_REQUIRE(op, args->norm.x.dtype == args->x.dtype && ft_is_matrix_of(args->x.dtype, args->norm.x, args->x.rows, args->w.rows));
    FT_TRY(ft_gemm_check(target, &product));
    FT_TRY(ft_layernorm_forward_check(target, &rest));
    FT_REQUIRE_WORKSPACE(product_norm, target, args);
}

ft_status ft_gated_forward_check(const ft_target *target, const ft_gated_forward_args *args) {
    static const char op[] = "gated_forward";
    int64_t rows = args->y.rows, cols = args->y.cols;
    ft_dtype h = args->x.dtype;
    FT_REQUIRE(op, (unsigned)args->kind < FT_ACT_COUNT);
    FT_REQUIRE(op, is_type(h) && ft_is_matrix_of(h, args->x, rows, 2 * cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->y, rows, cols));
    FT_REQUIRE_WORKSPACE(gated_forward, target, args);
}

ft_status ft_gated_backward_check(const ft_target *target, const ft_gated_backward_args *args) {
    static const char op[] = "gated_backward";
    int64_t rows = args->dy.rows, cols = args->dy.cols;
    ft_dtype h = args->h.dtype;
    FT_REQUIRE(op, (unsigned)args->kind < FT_ACT_COUNT);
    FT_REQUIRE(op, is_type(h) && ft_is_matrix_of(h, args->h, rows, 2 * cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->dx, rows, 2 * cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->dy, rows, cols));
    FT_REQUIRE(op, ft_is_optional_matrix_of(h, args->y, rows, cols));
    FT_REQUIRE_WORKSPACE(gated_backward, target, args);
}

ft_status ft_rope_check(const ft_target *target, const ft_rope_args *args) {
    static const char op[] = "rope";
    FT_REQUIRE(op, args->head_dim > 0 && args->head_dim % 2 == 0 && args->x.cols % args->head_dim == 0);
    FT_REQUIRE(op, is_type(args->x.dtype) && ft_is_matrix_of(args->x.dtype, args->x, args->x.rows, args->x.cols));
    FT_REQUIRE(op, ft_is_matrix(args->table, args->table.rows, args->head_dim) && args->table.rows > 0);
    FT_REQUIRE(op, args->position || args->x.rows == 0);
    FT_REQUIRE_WORKSPACE(rope, target, args);
}

static bool fits_attention(const ft_attention_shape *s) {
    return s->heads > 0 && s->head_dim > 0 && s->sequences > 0 && s->cu_queries && s->cu_keys && s->window >= 0 &&
           s->key_heads >= 0 && s->heads % ft_attention_key_heads(s) == 0 && score_dropout_fits(&s->dropout);
}

static bool fits_bias(const ft_attention_shape *s, const ft_attention_bias *b) {
    if (!b->table.data) return !b->table.rows;
    return b->table.rows > 0 && ft_is_matrix(b->table, b->table.rows, s->heads) && b->slots && b->reach >= 0;
}

ft_status ft_attention_forward_check(const ft_target *target, const ft_attention_forward_args *args) {
    static const char op[] = "attention_forward";
    const ft_attention_shape *s = &args->shape;
    if (s->sequences == 0 || args->out.rows == 0) return FT_OK;
    int64_t cols = (int64_t)s->heads * s->head_dim;
    ft_dtype dtype = args->q.dtype;
    FT_REQUIRE(op, fits_attention(s) && is_type(dtype));
    FT_REQUIRE(op, ft_is_matrix_of(dtype, args->q, args->out.rows, cols));
    FT_REQUIRE(op, ft_is_matrix_of(dtype, args->out, args->out.rows, cols));
    const int64_t width = (int64_t)ft_attention_key_heads(s) * s->head_dim;
    FT_REQUIRE(op, ft_is_matrix_of(dtype, args->k, args->k.rows, width));
    FT_REQUIRE(op, ft_is_matrix_of(dtype, args->v, args->k.rows, width));
    FT_REQUIRE(op, fits_bias(s, &args->bias));
    FT_REQUIRE(op, ft_is_optional_matrix(args->lse, args->out.rows, s->heads));
    FT_REQUIRE_WORKSPACE(attention_forward, target, args);
}

ft_status ft_attention_backward_check(const ft_target *target, const ft_attention_backward_args *args) {
    static const char op[] = "attention_backward";
    const ft_attention_shape *s = &args->shape;
    if (s->sequences == 0) return FT_OK;
    int64_t cols = (int64_t)s->heads * s->head_dim, queries = args->q.rows, keys = args->k.rows;
    ft_dtype dtype = args->q.dtype;
    FT_REQUIRE(op, fits_attention(s) && is_type(dtype));
    FT_REQUIRE(op, ft_is_matrix_of(dtype, args->q, queries, cols) && ft_is_matrix_of(dtype, args->dq, queries, cols));
    FT_REQUIRE(op, ft_is_matrix_of(dtype, args->out, queries, cols) && ft_is_matrix_of(dtype, args->dout, queries, cols));
    const int64_t width = (int64_t)ft_attention_key_heads(s) * s->head_dim;
    FT_REQUIRE(op, ft_is_matrix_of(dtype, args->k, keys, width) && ft_is_matrix_of(dtype, args->dk, keys, width));
    FT_REQUIRE(op, ft_is_matrix_of(dtype, args->v, keys, width) && ft_is_matrix_of(dtype, args->dv, keys, width));
    FT_REQUIRE(op, fits_bias(s, &args->bias));
    FT_REQUIRE(op, args->dbias.data ? args->bias.table.data && ft_is_matrix(args->dbias, args->bias.table.rows, s->heads) : !args->dbias.rows);
    FT_REQUIRE(op, ft_is_matrix(args->lse, queries, s->heads));
    FT_REQUIRE_WORKSPACE(attention_backward, target, args);
}

ft_status ft_dropout_check(const ft_target *target, const ft_dropout_args *args) {
    static const char op[] = "dropout";
    const ft_dropout *d = &args->dropout;
    ft_dtype h = args->x.dtype;
    FT_REQUIRE(op, is_type(h));
    FT_REQUIRE(op, args->x.rows == 0 || ft_is_matrix_of(h, args->x, args->x.rows, args->x.cols));
    FT_REQUIRE(op, args->x.rows == 0 || ft_is_matrix_of(h, args->y, args->x.rows, args->x.cols));
    FT_REQUIRE(op, d->probability >= 0.0f && d->probability < 1.0f);
    FT_REQUIRE(op, !args->accumulate || d->probability > 0.0f);
    FT_REQUIRE(op, dropout_fits(d, args->x.rows));
    FT_REQUIRE_WORKSPACE(dropout, target, args);
}

ft_status ft_gather_rows_check(const ft_target *target, const ft_gather_rows_args *args) {
    static const char op[] = "gather_rows";
    if (args->y.rows == 0) return FT_OK;
    FT_REQUIRE(op, args->index != NULL);
    FT_REQUIRE(op, is_type(args->x.dtype));
    FT_REQUIRE(op, ft_is_matrix_of(args->x.dtype, args->x, args->x.rows, args->y.cols));
    FT_REQUIRE(op, ft_is_matrix_of(args->x.dtype, args->y, args->y.rows, args->y.cols));
    FT_REQUIRE_WORKSPACE(gather_rows, target, args);
}

ft_status ft_scatter_rows_add_check(const ft_target *target, const ft_scatter_rows_add_args *args) {
    static const char op[] = "scatter_rows_add";
    if (args->x.rows == 0) return FT_OK;
    FT_REQUIRE(op, args->index != NULL);
    FT_REQUIRE(op, is_type(args->x.dtype) && (args->y.dtype == args->x.dtype || args->y.dtype == FT_F32));
    FT_REQUIRE(op, ft_is_matrix_of(args->x.dtype, args->x, args->x.rows, args->x.cols));
    FT_REQUIRE(op, ft_is_matrix_of(args->y.dtype, args->y, args->y.rows, args->x.cols));
    FT_REQUIRE_WORKSPACE(scatter_rows_add, target, args);
}

ft_status ft_sequence_mean_forward_check(const ft_target *target, const ft_sequence_mean_forward_args *args) {
    static const char op[] = "sequence_mean_forward";
    ft_dtype h = args->x.dtype;
    FT_REQUIRE(op, args->sequences >= 0 && (args->cu_seqlens || args->sequences == 0));
    FT_REQUIRE(op, is_type(h) && ft_is_matrix_of(h, args->x, args->x.rows, args->x.cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->y, args->sequences, args->x.cols));
    FT_REQUIRE_WORKSPACE(sequence_mean_forward, target, args);
}

ft_status ft_sequence_mean_backward_check(const ft_target *target, const ft_sequence_mean_backward_args *args) {
    static const char op[] = "sequence_mean_backward";
    FT_REQUIRE(op, args->sequences >= 0 && (args->cu_seqlens || args->sequences == 0));
    FT_REQUIRE(op, ft_is_matrix(args->dy, args->sequences, args->dy.cols));
    FT_REQUIRE(op, ft_is_matrix(args->dx, args->dx.rows, args->dy.cols));
    FT_REQUIRE_WORKSPACE(sequence_mean_backward, target, args);
}

static bool fit_windows(ft_tensor x, ft_tensor y, int32_t sequences, int32_t taps, const int32_t *cu_seqlens) {
    return x.rows == 0 || (sequences > 0 && taps > 0 && taps % 2 == 1 && cu_seqlens &&
                           ft_is_matrix_of(x.dtype, x, x.rows, x.cols) &&
                           ft_is_matrix_of(y.dtype, y, x.rows, x.cols * taps));
}

ft_status ft_unfold_check(const ft_target *target, const ft_unfold_args *args) {
    static const char op[] = "unfold";
    FT_REQUIRE(op, args->x.rows == 0 || (is_type(args->x.dtype) && args->y.dtype == args->x.dtype));
    FT_REQUIRE(op, fit_windows(args->x, args->y, args->sequences, args->taps, args->cu_seqlens));
    FT_REQUIRE_WORKSPACE(unfold, target, args);
}

ft_status ft_fold_add_check(const ft_target *target, const ft_fold_add_args *args) {
    static const char op[] = "fold_add";
    FT_REQUIRE(op, args->x.rows == 0 || (is_type(args->y.dtype) && args->x.dtype == FT_F32));
    FT_REQUIRE(op, fit_windows(args->x, args->y, args->sequences, args->taps, args->cu_seqlens));
    FT_REQUIRE_WORKSPACE(fold_add, target, args);
}

ft_status ft_cross_entropy_check(const ft_target *target, const ft_cross_entropy_args *args) {
    static const char op[] = "cross_entropy";
    int64_t rows = args->logits.rows, cols = args->logits.cols;
    FT_REQUIRE(op, ft_is_matrix(args->logits, rows, cols) && cols > 0);
    FT_REQUIRE(op, ft_is_vector(args->losses, rows));
    FT_REQUIRE(op, ft_is_optional_matrix(args->dlogits, rows, cols));
    FT_REQUIRE(op, args->labels && (args->step || !args->dlogits.data));
    FT_REQUIRE_WORKSPACE(cross_entropy, target, args);
}

ft_status ft_weighted_cross_entropy_check(const ft_target *target, const ft_weighted_cross_entropy_args *args) {
    static const char op[] = "weighted_cross_entropy";
    int64_t rows = args->logits.rows, cols = args->logits.cols;
    FT_REQUIRE(op, ft_is_matrix(args->logits, rows, cols) && cols > 0);
    FT_REQUIRE(op, ft_is_vector(args->losses, rows));
    FT_REQUIRE(op, ft_is_optional_matrix(args->dlogits, rows, cols));
    FT_REQUIRE(op, ft_is_optional_vector(args->class_weight, cols));
    FT_REQUIRE(op, args->smoothing >= 0 && args->smoothing < 1 && args->gamma >= 0 && (args->smoothing == 0 || args->gamma == 0));
    FT_REQUIRE(op, args->labels && (args->step || !args->dlogits.data));
    FT_REQUIRE(op, args->other ? args->share && args->gamma == 0 : !args->share);
    FT_REQUIRE_WORKSPACE(weighted_cross_entropy, target, args);
}

ft_status ft_binary_cross_entropy_check(const ft_target *target, const ft_binary_cross_entropy_args *args) {
    static const char op[] = "binary_cross_entropy";
    int64_t rows = args->logits.rows, cols = args->logits.cols;
    FT_REQUIRE(op, ft_is_matrix(args->logits, rows, cols) && cols > 0);
    FT_REQUIRE(op, ft_is_matrix(args->targets, rows, cols));
    FT_REQUIRE(op, ft_is_vector(args->losses, rows));
    FT_REQUIRE(op, ft_is_optional_matrix(args->dlogits, rows, cols));
    FT_REQUIRE(op, ft_is_optional_vector(args->positive_weight, cols) && args->gamma >= 0);
    FT_REQUIRE(op, args->step || !args->dlogits.data);
    FT_REQUIRE_WORKSPACE(binary_cross_entropy, target, args);
}

ft_status ft_span_cross_entropy_check(const ft_target *target, const ft_span_cross_entropy_args *args) {
    static const char op[] = "span_cross_entropy";
    int64_t rows = args->logits.rows, cols = args->logits.cols;
    FT_REQUIRE(op, ft_is_matrix(args->logits, rows, cols) && cols > 0 && cols <= 31);
    FT_REQUIRE(op, ft_is_vector(args->losses, rows));
    FT_REQUIRE(op, ft_is_optional_matrix(args->dlogits, rows, cols));
    FT_REQUIRE(op, args->sequences >= 0 && args->cu_rows && args->marks && (args->step || !args->dlogits.data));
    FT_REQUIRE_WORKSPACE(span_cross_entropy, target, args);
}

ft_status ft_squared_error_check(const ft_target *target, const ft_squared_error_args *args) {
    static const char op[] = "squared_error";
    int64_t rows = args->logits.rows, cols = args->logits.cols;
    FT_REQUIRE(op, ft_is_matrix(args->logits, rows, cols) && cols > 0);
    FT_REQUIRE(op, ft_is_matrix(args->targets, rows, cols));
    FT_REQUIRE(op, ft_is_vector(args->losses, rows));
    FT_REQUIRE(op, ft_is_optional_matrix(args->dlogits, rows, cols));
    FT_REQUIRE(op, args->step || !args->dlogits.data);
    FT_REQUIRE_WORKSPACE(squared_error, target, args);
}

ft_status ft_cast_check(const ft_target *target, const ft_cast_args *args) {
    static const char op[] = "cast";
    int64_t n = args->x.rows * args->x.cols;
    ft_dtype from = args->x.dtype, to = args->y.dtype;
    FT_REQUIRE(op, (from == FT_F32 && ft_is_half(to)) || (ft_is_half(from) && to == FT_F32));
    FT_REQUIRE(op, n == args->y.rows * args->y.cols);
    FT_REQUIRE(op, n == 0 || (ft_is_vector_of(from, args->x, n) && ft_is_vector_of(to, args->y, n)));
    FT_REQUIRE_WORKSPACE(cast, target, args);
}

ft_status ft_dequantise_check(const ft_target *target, const ft_dequantise_args *args) {
    static const char op[] = "dequantise";
    const int64_t rows = args->y.rows, cols = args->y.cols;
    FT_REQUIRE(op, (unsigned)args->format < FT_QUANTISATIONS);
    FT_REQUIRE(op, args->y.dtype == FT_F32 || ft_is_half(args->y.dtype));
    FT_REQUIRE(op, rows >= 0 && cols >= 0 && args->y.stride == cols && (rows * cols == 0 || args->y.data));
    FT_REQUIRE(op, ft_is_vector_of(FT_U8, args->x, (int64_t)ft_quantised_layout_of(args->format, rows, cols).bytes));
    FT_REQUIRE(op, (uintptr_t)args->x.data % 16 == 0);
    FT_REQUIRE_WORKSPACE(dequantise, target, args);
}

// A plan and a run alike end here, before anything is taken.
static ft_status refuse_int8(const ft_target *target) {
    if (target->backend != FT_BACKEND_CUDA) return FT_OK;
    ft_fail(FT_INVALID, "device.name", "products of int8 are computed on CPUs, not on CUDA devices");
    ft_hint("device.name=cpu, or --precision bf16");
    return FT_INVALID;
}

ft_status ft_int8_product_check(const ft_target *target, const ft_int8_product_args *args) {
    static const char op[] = "int8_product";
    FT_TRY(refuse_int8(target));
    const int64_t rows = args->x.rows, k = args->x.cols;
    int64_t outputs = 0;
    FT_REQUIRE(op, ft_is_matrix(args->x, rows, k) && k > 0 && k <= FT_INT8_MOST_COLUMNS);
    FT_REQUIRE(op, args->parts > 0 && args->parts <= FT_INT8_MOST_PARTS);
    for (int i = 0; i < args->parts; i++) {
        const ft_int8_part *p = &args->part[i];
        FT_REQUIRE(op, p->outputs > 0 && p->first >= 0 && p->first <= p->rows - p->outputs);
        FT_REQUIRE(op, ft_is_vector_of(FT_U8, p->w, (int64_t)ft_quantised_layout_of(FT_INT8, p->rows, k).bytes));
        FT_REQUIRE(op, (uintptr_t)p->w.data % 16 == 0);
        outputs += p->outputs;
    }
    FT_REQUIRE(op, ft_is_matrix(args->y, rows, outputs) && ft_is_optional_vector(args->bias, outputs));
    FT_REQUIRE_WORKSPACE(int8_product, target, args);
}

ft_status ft_row_norm_check(const ft_target *target, const ft_row_norm_args *args) {
    static const char op[] = "row_norm";
    const int64_t rows = args->w.rows, cols = args->w.cols, rank = args->a.rows;
    const ft_dtype h = args->w.dtype;
    FT_REQUIRE(op, is_type(h) && ft_is_matrix_of(h, args->w, rows, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->a, rank, cols) && ft_is_matrix_of(h, args->b, rows, rank));
    FT_REQUIRE(op, ft_is_vector(args->out, rows));
    FT_REQUIRE_WORKSPACE(row_norm, target, args);
}

ft_status ft_column_scale_check(const ft_target *target, const ft_column_scale_args *args) {
    static const char op[] = "column_scale";
    const int64_t rows = args->x.rows, cols = args->x.cols;
    const ft_dtype h = args->x.dtype;
    FT_REQUIRE(op, is_type(h) && ft_is_matrix_of(h, args->x, rows, cols));
    FT_REQUIRE(op, args->y.dtype == h || args->y.dtype == FT_F32);
    FT_REQUIRE(op, ft_is_matrix_of(args->y.dtype, args->y, rows, cols));
    FT_REQUIRE(op, ft_is_optional_matrix_of(h, args->times, rows, cols) && ft_is_optional_vector_of(h, args->bias, cols));
    FT_REQUIRE(op, ft_is_optional_vector(args->magnitude, cols) && ft_is_optional_vector(args->norm, cols));
    FT_REQUIRE_WORKSPACE(column_scale, target, args);
}

ft_status ft_gradient_norm_check(const ft_target *target, const ft_gradient_norm_args *args) {
    static const char op[] = "gradient_norm";
    int64_t n = args->gradient.rows * args->gradient.cols;
    FT_REQUIRE(op, is_flat(args->gradient, n));
    FT_REQUIRE(op, !args->losses || (args->losses->data && args->losses->dtype == FT_F32));
    const ft_norm_pieces *pieces = &args->pieces;
    FT_REQUIRE(op, (args->update || (pieces->sums && !pieces->last)) && args->growth_interval >= 0);
    FT_REQUIRE(op, !pieces->sums || (!args->shares.sums && pieces->first >= 0));
    int64_t rows = args->table.rows, cols = args->table.cols;
    FT_REQUIRE(op, args->table_rows == 0 || (rows >= 0 && rows <= args->table_rows && is_flat(args->table, rows * cols)));
    FT_REQUIRE(op, args->table_rows == 0 || args->table_blocks || rows == args->table_rows);
    FT_REQUIRE_WORKSPACE(gradient_norm, target, args);
}

ft_status ft_decay_check(const ft_target *target, const ft_decay_args *args) {
    static const char op[] = "decay";
    FT_REQUIRE(op, is_flat(args->parameter, args->parameter.rows * args->parameter.cols));
    FT_REQUIRE(op, args->count >= 0 && (args->factors || args->count == 0));
    FT_REQUIRE_WORKSPACE(decay, target, args);
}

ft_status ft_adamw_check(const ft_target *target, const ft_adamw_args *args) {
    static const char op[] = "adamw";
    int64_t n = args->parameter.rows * args->parameter.cols;
    FT_REQUIRE(op, args->tail ? ft_is_vector_of(FT_BF16, args->parameter, n) : is_flat(args->parameter, n));
    FT_REQUIRE(op, is_flat(args->gradient, n));
    FT_REQUIRE(op, is_flat(args->m, n));
    FT_REQUIRE(op, is_flat(args->v, n));
    FT_REQUIRE(op, !args->compute.data || (!args->tail && ft_is_vector_of(FT_F16, args->compute, n)));
    FT_REQUIRE(op, args->update && args->step);
    for (int32_t r = 0; r < args->range_count; r++) {
        const ft_adamw_range *range = &args->ranges[r];
        FT_REQUIRE(op, range->first >= 0 && range->count >= 0 && range->first <= n - range->count);
    }
    FT_REQUIRE_WORKSPACE(adamw, target, args);
}
