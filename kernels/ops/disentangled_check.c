// What disentangled attention, and that with talking heads, ask of their arguments, on every back end.
#include "kernels/half.h"
#include "kernels/ops/check.h"
#include "kernels/ops/disentangled_attention.h"
#include "kernels/ops/geometry.h"
#include "kernels/ops/talking_attention.h"

static bool fits_attention(const ft_attention_shape *a) {
    const ft_score_dropout *d = &a->dropout;
    return a->heads > 0 && a->head_dim > 0 && a->sequences > 0 && a->cu_queries && a->cu_keys && a->window == 0 && !a->causal && a->key_heads == 0 &&
           (d->probability == 0.0f || (d->step && d->sequence_slot));
}

static bool fits_slots(const ft_disentangled_shape *s) { return s->reach >= 0 && s->slots; }
static bool fits_shape(const ft_disentangled_shape *s) { return fits_attention(&s->attention) && fits_slots(s); }

// A plan and a run alike end here, before anything is taken.
static ft_status refuse(const ft_target *target, const ft_disentangled_shape *shape) {
    const int head_dim = shape->attention.head_dim, most = FT_CUDA_HEAD_DIM;
    if (target->backend != FT_BACKEND_CUDA || head_dim <= most) return FT_OK;
    ft_fail(FT_INVALID, "device.name", "attention on CUDA has heads of at most %d columns, not %d", most, head_dim);
    ft_hint("device.name=cpu");
    return FT_INVALID;
}

// Absent without a trace, or a table.
static bool fits_table(ft_dtype h, ft_tensor t, int64_t cols) {
    return t.data ? ft_is_matrix_of(h, t, t.rows, cols) && t.rows > 0 : !t.rows;
}

static bool fit_tables(ft_dtype h, ft_tensor pos_key, ft_tensor pos_query, int64_t cols) {
    return fits_table(h, pos_key, cols) && fits_table(h, pos_query, cols) && (pos_key.data || pos_query.data) &&
           (!pos_key.data || !pos_query.data || pos_key.rows == pos_query.rows);
}

static bool fits_table_gradient(ft_tensor gradient, ft_tensor table, int64_t cols) {
    return gradient.data ? table.data && ft_is_matrix(gradient, table.rows, cols) : !gradient.rows;
}

ft_status ft_disentangled_attention_forward_check(const ft_target *target,
                                                  const ft_disentangled_attention_forward_args *args) {
    static const char op[] = "disentangled_attention_forward";
    FT_TRY(refuse(target, &args->shape));
    const ft_attention_shape *s = &args->shape.attention;
    if (s->sequences == 0 || args->out.rows == 0) return FT_OK;
    int64_t cols = (int64_t)s->heads * s->head_dim;
    ft_dtype h = args->q.dtype;
    FT_REQUIRE(op, fits_shape(&args->shape) && (h == FT_F32 || ft_is_half(h)));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->q, args->out.rows, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->out, args->out.rows, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->k, args->k.rows, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->v, args->k.rows, cols));
    FT_REQUIRE(op, fit_tables(h, args->pos_key, args->pos_query, cols));
    FT_REQUIRE(op, ft_is_optional_matrix(args->lse, args->out.rows, s->heads));
    FT_REQUIRE_WORKSPACE(disentangled_attention_forward, target, args);
}

ft_status ft_disentangled_attention_backward_check(const ft_target *target,
                                                   const ft_disentangled_attention_backward_args *args) {
    static const char op[] = "disentangled_attention_backward";
    FT_TRY(refuse(target, &args->shape));
    const ft_attention_shape *s = &args->shape.attention;
    if (s->sequences == 0) return FT_OK;
    int64_t cols = (int64_t)s->heads * s->head_dim, queries = args->q.rows, keys = args->k.rows;
    ft_dtype h = args->q.dtype;
    FT_REQUIRE(op, fits_shape(&args->shape) && (h == FT_F32 || ft_is_half(h)));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->q, queries, cols) && ft_is_matrix_of(h, args->dq, queries, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->out, queries, cols) && ft_is_matrix_of(h, args->dout, queries, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->k, keys, cols) && ft_is_matrix_of(h, args->dk, keys, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->v, keys, cols) && ft_is_matrix_of(h, args->dv, keys, cols));
    FT_REQUIRE(op, ft_is_matrix(args->lse, queries, s->heads));
    FT_REQUIRE(op, fit_tables(h, args->pos_key, args->pos_query, cols));
    FT_REQUIRE(op, fits_table_gradient(args->dpos_key, args->pos_key, cols));
    FT_REQUIRE(op, fits_table_gradient(args->dpos_query, args->pos_query, cols));
    FT_REQUIRE_WORKSPACE(disentangled_attention_backward, target, args);
}

// The slots only where a table has rows for them.
static bool fits_talking(const ft_disentangled_shape *s, ft_tensor pos_key, ft_tensor pos_query, ft_dtype h, ft_tensor mix_scores, ft_tensor mix_weights) {
    const int64_t heads = s->attention.heads, cols = heads * s->attention.head_dim;
    if (!pos_key.data && !pos_query.data && (pos_key.rows || pos_query.rows)) return false;
    return fits_attention(&s->attention) && (h == FT_F32 || ft_is_half(h)) && ft_is_matrix_of(h, mix_scores, heads, heads) &&
           ft_is_matrix_of(h, mix_weights, heads, heads) &&
           ((!pos_key.data && !pos_query.data) || (fits_slots(s) && fit_tables(h, pos_key, pos_query, cols)));
}

ft_status ft_talking_attention_forward_check(const ft_target *target, const ft_talking_attention_forward_args *args) {
    static const char op[] = "talking_attention_forward";
    const ft_attention_shape *s = &args->shape.attention;
    if (s->sequences == 0 || args->out.rows == 0) return FT_OK;
    int64_t cols = (int64_t)s->heads * s->head_dim;
    ft_dtype h = args->q.dtype;
    FT_REQUIRE(op, fits_talking(&args->shape, args->pos_key, args->pos_query, h, args->mix_scores, args->mix_weights));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->q, args->out.rows, cols) && ft_is_matrix_of(h, args->out, args->out.rows, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->k, args->k.rows, cols) && ft_is_matrix_of(h, args->v, args->k.rows, cols));
    FT_REQUIRE(op, ft_is_optional_matrix(args->lse, args->out.rows, s->heads));
    FT_REQUIRE_WORKSPACE(talking_attention_forward, target, args);
}

ft_status ft_talking_attention_backward_check(const ft_target *target, const ft_talking_attention_backward_args *args) {
    static const char op[] = "talking_attention_backward";
    const ft_attention_shape *s = &args->shape.attention;
    if (s->sequences == 0) return FT_OK;
    int64_t cols = (int64_t)s->heads * s->head_dim, queries = args->q.rows, keys = args->k.rows;
    ft_dtype h = args->q.dtype;
    FT_REQUIRE(op, fits_talking(&args->shape, args->pos_key, args->pos_query, h, args->mix_scores, args->mix_weights));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->q, queries, cols) && ft_is_matrix_of(h, args->dq, queries, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->k, keys, cols) && ft_is_matrix_of(h, args->dk, keys, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->v, keys, cols) && ft_is_matrix_of(h, args->dv, keys, cols));
    FT_REQUIRE(op, ft_is_matrix_of(h, args->dout, queries, cols) && ft_is_matrix(args->lse, queries, s->heads));
    FT_REQUIRE(op, fits_table_gradient(args->dpos_key, args->pos_key, cols));
    FT_REQUIRE(op, fits_table_gradient(args->dpos_query, args->pos_query, cols));
    FT_REQUIRE(op, ft_is_optional_matrix(args->dmix_scores, s->heads, s->heads));
    FT_REQUIRE(op, ft_is_optional_matrix(args->dmix_weights, s->heads, s->heads));
    FT_REQUIRE_WORKSPACE(talking_attention_backward, target, args);
}
