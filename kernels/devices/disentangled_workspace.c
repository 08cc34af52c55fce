// What of disentangled attention concerns every back end: which distance has which slot, the check of arguments,
// scratch.
#include "kernels/ops/disentangled_attention.h"
#include "kernels/ops/check.h"
#include "kernels/cpu/disentangled_plan.h"
#include "kernels/cpu/half_ops.h"
#include "kernels/ops/geometry.h"
#include "kernels/half.h"

#include <math.h>
#include <stdlib.h>

// ---- slots ----------------------------------------------------------------------------------------------------------

int32_t ft_relative_span(ft_relative_rule rule) { return rule.buckets > 0 ? rule.buckets : rule.furthest; }

ft_status ft_relative_rule_check(ft_relative_rule rule) {
    if (rule.furthest < 1)
        return ft_fail(FT_INVALID, "max_relative_positions", "relative attention needs at least 1 position, got %d",
                       rule.furthest);
    if (rule.buckets == 1)
        return ft_fail(FT_INVALID, "position_buckets", "1 bucket cannot hold a distance: at least 2, or none (-1)");
    if (rule.buckets > 0 && rule.furthest - 1 <= rule.buckets / 2)
        return ft_fail(
            FT_INVALID, "position_buckets",
            "%d buckets give a distance each up to %d and need max_relative_positions of at least %d, got %d",
            rule.buckets, rule.buckets / 2, rule.buckets / 2 + 2, rule.furthest);
    return FT_OK;
}

int32_t ft_relative_slot(ft_relative_rule rule, int32_t delta) {
    int64_t span = ft_relative_span(rule), bucket = delta;
    int32_t mid = rule.buckets / 2, distance = abs(delta);
    if (rule.buckets > 0 && distance > mid) {
        // Single precision, like the library the weights were trained with: where the quotient of the logarithms is a
        // whole number, precisions disagree about what comes next. Both logarithms alike, so that it is 1 at the end.
        float most = logf((float)((double)(rule.furthest - 1) / mid));
        bucket = (int64_t)ceilf(logf((float)distance / (float)mid) / most * (float)(mid - 1)) + mid;
        if (delta < 0) bucket = -bucket;
    }
    int64_t slot = bucket + span;
    return (int32_t)(slot < 0 ? 0 : slot > 2 * span - 1 ? 2 * span - 1 : slot);
}

int32_t ft_relative_reach(ft_relative_rule rule, int32_t longest) {
    int32_t reach = longest > 1 ? longest - 1 : 0;
    while (reach > 0 && ft_relative_slot(rule, reach) == ft_relative_slot(rule, reach - 1) &&
           ft_relative_slot(rule, -reach) == ft_relative_slot(rule, 1 - reach))
        reach--;
    return reach;
}

void ft_relative_slots(ft_relative_rule rule, int32_t reach, int32_t *slots) {
    for (int32_t delta = -reach; delta <= reach; delta++)
        slots[delta + reach] = ft_relative_slot(rule, delta);
}

// ---- scratch --------------------------------------------------------------------------------------------------------

// By their shapes: the planner has no data.
static int count_of(ft_tensor a, ft_tensor b) { return (a.rows > 0) + (b.rows > 0); }

static size_t scratch_floats(const ft_target *target, const ft_disentangled_shape *shape, int tables,
                             ft_disentangled_scratch of_thread) {
    return (size_t)(ft_panels_of(shape).floats * shape->attention.heads * tables) +
           of_thread.floats * (size_t)target->threads;
}

// On CUDA, backward: <dout, out> of every row and head, and the slabs of one table: they serve both, one after the other.
static size_t cuda_backward_bytes(const ft_target *target, const ft_disentangled_attention_backward_args *args) {
    const ft_attention_shape *a = &args->shape.attention;
    const size_t deltas = (size_t)args->q.rows * (size_t)a->heads * sizeof(float);
    const int64_t longest = a->max_queries > a->max_keys ? a->max_queries : a->max_keys;
    if (count_of(args->dpos_key, args->dpos_query) == 0) return deltas;
    const int64_t slabs = a->heads * ft_cuda_slabs(target->sm_count, a->heads, a->sequences, longest);
    const int64_t floats = slabs * ft_cuda_distances(a->max_queries, a->max_keys) * a->head_dim;
    return ft_cuda_aligned(deltas) + (size_t)floats * sizeof(float);
}

// The panels of the tables that are there, what every thread needs, and copies of rows of 16 bits.
size_t ft_disentangled_attention_forward_workspace(const ft_target *target,
                                                   const ft_disentangled_attention_forward_args *args) {
    if (target->backend != FT_BACKEND_CPU) return 0;
    size_t own = scratch_floats(target, &args->shape, count_of(args->pos_key, args->pos_query),
                                ft_disentangled_forward_scratch(args->shape.attention.head_dim));
    return sizeof(float) * own + ft_cpu_copies_disentangled_attention_forward(args);
}

size_t ft_disentangled_attention_backward_workspace(const ft_target *target,
                                                    const ft_disentangled_attention_backward_args *args) {
    if (target->backend == FT_BACKEND_CUDA) return cuda_backward_bytes(target, args);
    size_t deltas = ft_delta_floats(&args->shape, count_of(args->dpos_key, args->dpos_query), target->threads);
    size_t own = scratch_floats(target, &args->shape, count_of(args->pos_key, args->pos_query),
                                ft_disentangled_backward_scratch(args->shape.attention.head_dim));
    return sizeof(float) * (deltas + own) + ft_cpu_copies_disentangled_attention_backward(args);
}

// ---- checks ---------------------------------------------------------------------------------------------------------

#define REQUIRE_WORKSPACE(op, target, args)                                                                            \
    do {                                                                                                               \
        size_t need_ = ft_##op##_workspace(target, args);                                                              \
        if ((args)->workspace.bytes < need_)                                                                           \
            return ft_fail(FT_FAILED, #op, "workspace has %zu bytes, needs %zu", (args)->workspace.bytes, need_);      \
        return FT_OK;                                                                                                  \
    } while (0)

static bool fits_shape(const ft_disentangled_shape *s) {
    const ft_attention_shape *a = &s->attention;
    const ft_score_dropout *d = &a->dropout;
    return a->heads > 0 && a->head_dim > 0 && a->sequences > 0 && a->cu_queries && a->cu_keys && s->reach >= 0 &&
           s->slots && (d->probability == 0.0f || (d->step && d->sequence_slot));
}

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
    REQUIRE_WORKSPACE(disentangled_attention_forward, target, args);
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
    REQUIRE_WORKSPACE(disentangled_attention_backward, target, args);
}
