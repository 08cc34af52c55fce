#include "kernels/cpu/half_ops.h"
#include "kernels/cpu/device.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/gemm_bf16_plan.h"
#include "kernels/half.h"

// A view is read, written, or both. One of rows is taken block by block, so that its copy stays small; WHOLE: it is
// not, as weights and what is summed over rows are not.
// KEYS: one of attention, of rows of keys, not of queries.
enum { READ = 1, WRITE = 2, WHOLE = 4, KEYS = 8, ALIGNMENT = 256 };
// Of a block: enough that the threads have something to share. Products want more, since what is no row is packed anew for each.
enum { FEW_ROWS = 128, BLOCK_ROWS = 512 };

// ---- views and their copies ---------------------------------------------------------------------------------------

typedef struct view {
    size_t offset; // of an ft_tensor in an op's arguments
    int use;
} view;

typedef struct views {
    const view *list;
    size_t count;
    int64_t rows; // of a block at most
} views;

// Rows [first, first + count) of an op.
typedef struct block {
    int64_t first, count;
    bool last;
} block;

static ft_tensor *view_in(void *args, view v) { return (ft_tensor *)((char *)args + v.offset); }
static ft_tensor view_of(const void *args, view v) { return *(const ft_tensor *)((const char *)args + v.offset); }

static size_t copy_bytes(ft_tensor t) {
    if (!ft_is_half(t.dtype)) return 0;
    return ((size_t)(t.rows * t.cols) * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// By shape alone: the planner has no data. An absent view has no rows.
static size_t copies_of(const void *args, views all) {
    size_t bytes = 0;
    for (size_t i = 0; i < all.count; i++) {
        ft_tensor t = view_of(args, all.list[i]);
        if (!(all.list[i].use & WHOLE) && t.rows > all.rows) t.rows = all.rows;
        bytes += copy_bytes(t);
    }
    return bytes;
}

typedef struct convert_job {
    ft_tensor narrow, wide;
    bool widen;
    int shares;
    ft_convert_rows *rows;
} convert_job;

static const ft_op_table *own_ops(const ft_device *device) { return ((const ft_cpu_device *)device)->own; }

static uint16_t *half_row(ft_tensor t, int64_t row) { return (uint16_t *)t.data + row * t.stride; }

static void convert_task(void *context, int task, int thread) {
    const convert_job *job = context;
    int64_t first, last;
    ft_share(job->narrow.rows, 1, job->shares, task, &first, &last);
    job->rows(job->narrow, job->wide, job->widen, first, last);
}

static void convert(ft_device *device, ft_tensor narrow, ft_tensor wide, bool widen) {
    const ft_cpu *cpu = ft_cpu_of(device);
    convert_job job = {narrow, wide, widen, ft_shares(cpu, narrow.rows, narrow.rows * narrow.cols), ((const ft_cpu_device *)device)->convert};
    if (narrow.rows > 0) ft_pool_run(cpu->pool, job.shares, convert_task, &job);
}

// Takes the copy's place from the front of *scratch.
static ft_tensor take_copy(ft_tensor t, ft_workspace *scratch) {
    size_t bytes = copy_bytes(t);
    ft_tensor copy = ft_matrix(scratch->data, t.rows, t.cols, FT_F32);
    scratch->data = (char *)scratch->data + bytes;
    scratch->bytes -= bytes;
    return copy;
}

// A block has the views of rows, and no block the whole ones.
static bool takes(const block *b, view v) { return (b == NULL) == ((v.use & WHOLE) != 0); }
static ft_tensor rows_of(ft_tensor t, const block *b) { return b != NULL ? ft_rows(t, b->first, b->count) : t; }

// Puts fp32 copies in the place of the 16-bit views of `wide`, a copy of `args`. What one op reads and writes at one
// address are two copies: no op reads what it has written.
static void widen_views(ft_device *device, const void *args, void *wide, ft_workspace *scratch, views all,
                        const block *b) {
    for (size_t i = 0; i < all.count; i++) {
        const view v = all.list[i];
        ft_tensor t = view_of(args, v);
        if (t.data == NULL || !takes(b, v)) continue;
        t = rows_of(t, b);
        *view_in(wide, v) = t;
        if (!ft_is_half(t.dtype)) continue;
        ft_tensor copy = take_copy(t, scratch);
        if (v.use & READ) convert(device, t, copy, true);
        *view_in(wide, v) = copy;
    }
}

static void round_views(ft_device *device, const void *args, const void *wide, views all, const block *b) {
    for (size_t i = 0; i < all.count; i++) {
        const view v = all.list[i];
        ft_tensor t = view_of(args, v);
        if (t.data != NULL && ft_is_half(t.dtype) && v.use & WRITE && takes(b, v))
            convert(device, rows_of(t, b), view_of(wide, v), false);
    }
}

// ---- ops that are widened -------------------------------------------------------------------------------------------

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define VIEW(op, member, use)                                                                                          \
    { offsetof(ft_##op##_args, member), use }
#define IN(op, member) VIEW(op, member, READ)
#define OUT(op, member) VIEW(op, member, WRITE)

// `empty`: there is nothing to compute, and then no scratch. `advance` moves what else belongs to rows to those of a
// block.
#define RUN_WIDENED(op, all, total, advance, empty)                                                                    \
    do {                                                                                                               \
        FT_TRY(ft_##op##_check(&device->target, args));                                                                \
        if (empty) return FT_OK;                                                                                       \
        const int64_t rows_ = (total);                                                                                 \
        ft_##op##_args whole_ = *args;                                                                                 \
        widen_views(device, args, &whole_, &whole_.workspace, all, NULL);                                              \
        for (block b_ = {0, 0, false}; !b_.last; b_.first += b_.count) {                                               \
            b_.count = rows_ - b_.first < (all).rows ? rows_ - b_.first : (all).rows;                                  \
            b_.last = b_.first + b_.count == rows_;                                                                    \
            ft_##op##_args wide_ = whole_;                                                                             \
            widen_views(device, args, &wide_, &wide_.workspace, all, &b_);                                             \
            advance(&wide_, b_);                                                                                       \
            FT_TRY(own_ops(device)->op(device, &wide_));                                                              \
            round_views(device, args, &wide_, all, &b_);                                                               \
        }                                                                                                              \
        round_views(device, args, &whole_, all, NULL);                                                                 \
        return FT_OK;                                                                                                  \
    } while (0)

#define NOTHING_ELSE(args, b) ((void)(b))

// `member` is a view whose type is H, `total` the rows to go over in blocks. WIDENED_IF: rows of H that `here` says yes to; the instruction
// sets have the others.
#define WIDENED_IF(here, op, member, total, advance, empty, ...)                                                       \
    static const view op##_list[] = {__VA_ARGS__};                                                                     \
    static const views op##_views = {op##_list, COUNT(op##_list), FEW_ROWS};                                           \
    size_t ft_cpu_copies_##op(const ft_##op##_args *args) {                                                            \
        return here(args->member.dtype) ? copies_of(args, op##_views) : 0;                                             \
    }                                                                                                                  \
    static ft_status run_##op(ft_device *device, const ft_##op##_args *args) {                                         \
        if (!here(args->member.dtype)) return own_ops(device)->op(device, args);                                       \
        RUN_WIDENED(op, op##_views, total, advance, empty);                                                            \
    }
#define WIDENED(...) WIDENED_IF(ft_is_half, __VA_ARGS__)
#define WIDENED_FP16(...) WIDENED_IF(is_fp16, __VA_ARGS__)
static bool is_fp16(ft_dtype type) { return type == FT_F16; }

static void advance_dropout(ft_dropout *d, block b) {
    if (d->slot != NULL) d->slot += b.first;
    if (d->position != NULL) d->position += b.first;
}
// A number a row.
static void advance_vector(ft_tensor *v, block b) {
    if (v->data != NULL) *v = ft_vector((float *)v->data + b.first, b.count, FT_F32);
}

static void advance_embedding(ft_embedding_backward_args *args, block b) { args->ids += b.first; }
// The op of fp32 writes y once: where it stays as it is, and from there it is rounded.
static void advance_layernorm(ft_layernorm_forward_args *args, block b) {
    if (args->wide.data != NULL) args->y = args->wide;
    args->wide = ft_absent();
    if (args->stream.data != NULL) args->s = args->stream; // and so with s
    advance_vector(&args->mean, b);
    advance_vector(&args->rstd, b);
    advance_dropout(&args->dropout, b);
}
static void advance_layernorm_back(ft_layernorm_backward_args *args, block b) {
    advance_vector(&args->mean, b);
    advance_vector(&args->rstd, b);
    advance_dropout(&args->dropout, b);
}
static void advance_rope(ft_rope_args *args, block b) { args->position += b.first; }
static void advance_rows(ft_dropout_args *args, block b) { advance_dropout(&args->dropout, b); }

// Sums over rows are one chain a column, whatever calls it is cut into.
WIDENED_FP16(column_sum, x, args->x.rows, NOTHING_ELSE, false, IN(column_sum, x))
WIDENED_FP16(embedding_backward, dout, args->dout.rows, advance_embedding, false, IN(embedding_backward, dout))
WIDENED_FP16(layernorm_forward, y, args->x.rows, advance_layernorm, false, IN(layernorm_forward, x),
        VIEW(layernorm_forward, bias, READ | WHOLE), IN(layernorm_forward, residual), OUT(layernorm_forward, s),
        OUT(layernorm_forward, y), OUT(layernorm_forward, wide), OUT(layernorm_forward, stream))
WIDENED_FP16(layernorm_backward, s, args->dy.rows, advance_layernorm_back, false, IN(layernorm_backward, dy),
        IN(layernorm_backward, s), IN(layernorm_backward, past), OUT(layernorm_backward, ds), OUT(layernorm_backward, dx))
WIDENED_FP16(activation_forward, x, args->x.rows, NOTHING_ELSE, false, IN(activation_forward, x),
        VIEW(activation_forward, bias, READ | WHOLE), OUT(activation_forward, h), OUT(activation_forward, y))
WIDENED_FP16(activation_backward, h, args->h.rows, NOTHING_ELSE, false, IN(activation_backward, h),
        IN(activation_backward, dy), OUT(activation_backward, dx), OUT(activation_backward, y))
WIDENED_FP16(gated_forward, x, args->x.rows, NOTHING_ELSE, false, IN(gated_forward, x), OUT(gated_forward, y))
WIDENED_FP16(gated_backward, h, args->h.rows, NOTHING_ELSE, false, IN(gated_backward, h), IN(gated_backward, dy),
        OUT(gated_backward, dx), OUT(gated_backward, y))
WIDENED_FP16(rope, x, args->x.rows, advance_rope, args->x.rows == 0, VIEW(rope, x, READ | WRITE))
WIDENED_FP16(dropout, x, args->x.rows, advance_rows, false, IN(dropout, x), VIEW(dropout, y, READ | WRITE))

// Windows reach over rows: all of them at once.
#define ALL(op, member) VIEW(op, member, READ | WHOLE)
#define ALL_OUT(op, member) VIEW(op, member, WRITE | WHOLE)
WIDENED(sequence_mean_forward, x, 0, NOTHING_ELSE, false, ALL(sequence_mean_forward, x), ALL_OUT(sequence_mean_forward, y))
WIDENED(unfold, x, 0, NOTHING_ELSE, false, ALL(unfold, x), ALL_OUT(unfold, y))
WIDENED(fold_add, y, 0, NOTHING_ELSE, false, ALL(fold_add, y), VIEW(fold_add, x, READ | WRITE | WHOLE))
// ---- products -----------------------------------------------------------------------------------------------------

// Blocks of the rows of C; or, with A transposed, of the sums' terms, which C collects in fp32; or, with both
// transposed, none.
#define GEMM_VIEWS(name, of_a, of_b, of_c)                                                                             \
    static const view name##_list[] = {VIEW(gemm, a, READ | (of_a)), VIEW(gemm, b, READ | (of_b)),                     \
                                       VIEW(gemm, bias, READ | WHOLE), VIEW(gemm, c, of_c)};                           \
    static const views name = {name##_list, COUNT(name##_list), BLOCK_ROWS}
GEMM_VIEWS(by_rows, 0, WHOLE, WRITE);
GEMM_VIEWS(by_rows_added, 0, WHOLE, READ | WRITE);
GEMM_VIEWS(by_terms, 0, 0, WRITE | WHOLE);
GEMM_VIEWS(by_terms_added, 0, 0, READ | WRITE | WHOLE);
GEMM_VIEWS(at_once, WHOLE, WHOLE, WRITE | WHOLE);
GEMM_VIEWS(at_once_added, WHOLE, WHOLE, READ | WRITE | WHOLE);

static views gemm_views(const ft_gemm_args *args) {
    if (!args->trans_a) return args->accumulate ? by_rows_added : by_rows;
    if (!args->trans_b) return args->accumulate ? by_terms_added : by_terms;
    return args->accumulate ? at_once_added : at_once;
}

static void advance_terms(ft_gemm_args *args, block b) {
    if (!args->trans_a || args->trans_b) return;
    if (b.first > 0) args->accumulate = true;
    if (!b.last) args->bias = ft_absent(); // it is added behind the sum
}

size_t ft_cpu_copies_gemm(const ft_gemm_args *args) { return ft_gemm_takes(args) ? 0 : copies_of(args, gemm_views(args)); }
static ft_status run_gemm(ft_device *device, const ft_gemm_args *args) {
    if (ft_gemm_takes(args)) return own_ops(device)->gemm(device, args);
    FT_TRY(ft_gemm_check(&device->target, args));
    if (args->more_count > 0) { // each by itself
        for (int i = -1; i < args->more_count; i++) {
            const ft_gemm_args one = ft_gemm_part(args, i);
            FT_TRY(run_gemm(device, &one));
        }
        return FT_OK;
    }
    RUN_WIDENED(gemm, gemm_views(args), args->trans_a && args->trans_b ? 0 : args->a.rows, advance_terms, false);
}

size_t ft_cpu_copies_segment_product(const ft_segment_product_args *args) { return 0; } // gemm's, of the largest
static ft_status run_segment_product(ft_device *device, const ft_segment_product_args *args) {
    FT_TRY(ft_segment_product_check(&device->target, args));
    for (int i = 0; i < args->count; i++) {
        ft_gemm_args one = *args->product[i];
        one.workspace = args->workspace;
        if (one.c.rows > 0 && one.c.cols > 0) FT_TRY(run_gemm(device, &one));
    }
    return FT_OK;
}

// ---- attention ----------------------------------------------------------------------------------------------------

// It reaches over the rows of a sequence and no further: copies are of some sequences at a time, as many as have BLOCK_ROWS rows
// together, or of one that is longer. Sums over sequences (of the tables of positions) are one chain, whatever calls it is cut into.
typedef struct group {
    int32_t first, count; // sequences
    block queries, keys;
} group;

static int64_t most_rows(int64_t rows, int32_t longest) {
    const int64_t most = longest > BLOCK_ROWS ? longest : BLOCK_ROWS;
    return rows < most ? rows : most;
}

static size_t bounds_bytes(const ft_attention_shape *s) {
    return (2 * ((size_t)s->sequences + 1) * sizeof(int32_t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t group_copies(const void *args, const ft_attention_shape *s, views all) {
    size_t bytes = 0;
    bool half = false;
    for (size_t i = 0; i < all.count; i++) {
        const view v = all.list[i];
        ft_tensor t = view_of(args, v);
        t.rows = most_rows(t.rows, v.use & KEYS ? s->max_keys : s->max_queries);
        bytes += copy_bytes(t);
        half = half || ft_is_half(t.dtype);
    }
    return half ? bytes + bounds_bytes(s) : 0;
}

static group group_from(const ft_attention_shape *s, int32_t first) {
    const int32_t *q = s->cu_queries, *k = s->cu_keys;
    int32_t end = first + 1;
    while (end < s->sequences && q[end + 1] - q[first] <= BLOCK_ROWS && k[end + 1] - k[first] <= BLOCK_ROWS) end++;
    return (group){first, end - first, {q[first], q[end] - q[first], false}, {k[first], k[end] - k[first], false}};
}

// Its sequences begin at row 0 of the copies. The bounds are taken from the front of *scratch.
static ft_attention_shape shape_of_group(const ft_attention_shape *s, group g, ft_workspace *scratch) {
    int32_t *queries = scratch->data, *keys = queries + g.count + 1;
    ft_attention_shape own = *s;
    for (int32_t i = 0; i <= g.count; i++) {
        queries[i] = s->cu_queries[g.first + i] - s->cu_queries[g.first];
        keys[i] = s->cu_keys[g.first + i] - s->cu_keys[g.first];
    }
    scratch->data = (char *)scratch->data + bounds_bytes(s);
    scratch->bytes -= bounds_bytes(s);
    own.sequences = g.count;
    own.cu_queries = queries;
    own.cu_keys = keys;
    if (own.dropout.sequence_slot != NULL) own.dropout.sequence_slot += g.first;
    return own;
}

static void widen_group(ft_device *device, const void *args, void *wide, ft_workspace *scratch, views all, group g) {
    for (size_t i = 0; i < all.count; i++) {
        const view v = all.list[i];
        ft_tensor t = view_of(args, v);
        if (t.data == NULL) continue;
        t = rows_of(t, v.use & KEYS ? &g.keys : &g.queries);
        ft_tensor copy = take_copy(t, scratch);
        if (v.use & READ) convert(device, t, copy, true);
        *view_in(wide, v) = copy;
    }
}

static void round_group(ft_device *device, const void *args, const void *wide, views all, group g) {
    for (size_t i = 0; i < all.count; i++) {
        const view v = all.list[i];
        ft_tensor t = view_of(args, v);
        if (t.data != NULL && v.use & WRITE) convert(device, rows_of(t, v.use & KEYS ? &g.keys : &g.queries), view_of(wide, v), false);
    }
}

static ft_tensor widen_whole(ft_device *device, ft_tensor t, ft_workspace *scratch) {
    ft_tensor copy = take_copy(t, scratch);
    convert(device, t, copy, true);
    return copy;
}

// Of the tables only the rows that a slot names are there (the engine projects no others): the copy is of those.
static ft_tensor widen_table(ft_device *device, ft_tensor table, const ft_disentangled_shape *shape, ft_workspace *scratch) {
    if (table.data == NULL) return table;
    int64_t first = table.rows, last = -1;
    for (int64_t i = 0; i < 2 * (int64_t)shape->reach + 1; i++) {
        if (shape->slots[i] < first) first = shape->slots[i];
        if (shape->slots[i] > last) last = shape->slots[i];
    }
    ft_tensor copy = take_copy(table, scratch);
    convert(device, ft_rows(table, first, last + 1 - first), ft_rows(copy, first, last + 1 - first), true);
    return copy;
}

#define WIDEN_TABLES(whole)                                                                                            \
    (whole)->pos_key = widen_table(device, args->pos_key, &args->shape, &(whole)->workspace);                          \
    (whole)->pos_query = widen_table(device, args->pos_query, &args->shape, &(whole)->workspace)
#define NO_TABLES(whole) ((void)(whole))
// The matrices that mix heads, too.
#define WIDEN_MIXING(whole)                                                                                            \
    WIDEN_TABLES(whole);                                                                                               \
    (whole)->mix_scores = widen_whole(device, args->mix_scores, &(whole)->workspace);                                  \
    (whole)->mix_weights = widen_whole(device, args->mix_weights, &(whole)->workspace)

// `member` is the shape of attention in the op's arguments; `tables`: what all groups read; table_bytes: of the copies of that.
#define ATTENTION_IF(here, op, member, tables, table_bytes, empty, ...)                                                         \
    static const view op##_list[] = {__VA_ARGS__};                                                                     \
    static const views op##_views = {op##_list, COUNT(op##_list), BLOCK_ROWS};                                                     \
    size_t ft_cpu_copies_##op(const ft_##op##_args *args) {                                                            \
        return here(args->q.dtype) ? group_copies(args, &args->member, op##_views) + (table_bytes) : 0;                \
    }                                                                                                                  \
    static ft_status run_##op(ft_device *device, const ft_##op##_args *args) {                                         \
        const ft_op_table *own = own_ops(device);                                                                    \
        if (!here(args->q.dtype)) return own->op(device, args);                                                        \
        FT_TRY(ft_##op##_check(&device->target, args));                                                                \
        if (args->member.sequences == 0 || (empty)) return FT_OK;                                                      \
        ft_##op##_args whole = *args;                                                                                  \
        tables(&whole);                                                                                                \
        for (int32_t first = 0; first < args->member.sequences;) {                                                     \
            const group g = group_from(&args->member, first);                                                          \
            ft_##op##_args wide = whole;                                                                               \
            wide.member = shape_of_group(&args->member, g, &wide.workspace);                                           \
            widen_group(device, args, &wide, &wide.workspace, op##_views, g);                                          \
            if (args->lse.data != NULL) wide.lse = ft_rows(args->lse, g.queries.first, g.queries.count);               \
            FT_TRY(own->op(device, &wide));                                                                           \
            round_group(device, args, &wide, op##_views, g);                                                           \
            first += g.count;                                                                                          \
        }                                                                                                              \
        return FT_OK;                                                                                                  \
    }

#define ATTENTION(...) ATTENTION_IF(ft_is_half, __VA_ARGS__)
#define FORWARD(op)                                                                                                    \
    IN(op, q), VIEW(op, k, READ | KEYS), VIEW(op, v, READ | KEYS), OUT(op, out)
#define BACKWARD(op)                                                                                                   \
    IN(op, q), VIEW(op, k, READ | KEYS), VIEW(op, v, READ | KEYS), IN(op, out), IN(op, dout), OUT(op, dq),             \
        VIEW(op, dk, WRITE | KEYS), VIEW(op, dv, WRITE | KEYS)
#define TABLE_BYTES (copy_bytes(args->pos_key) + copy_bytes(args->pos_query))

ATTENTION_IF(is_fp16, attention_forward, shape, NO_TABLES, 0, args->out.rows == 0, FORWARD(attention_forward))
ATTENTION_IF(is_fp16, attention_backward, shape, NO_TABLES, 0, false, BACKWARD(attention_backward))
ATTENTION_IF(is_fp16, disentangled_attention_forward, shape.attention, WIDEN_TABLES, TABLE_BYTES, args->out.rows == 0,
          FORWARD(disentangled_attention_forward))
ATTENTION_IF(is_fp16, disentangled_attention_backward, shape.attention, WIDEN_TABLES, TABLE_BYTES, false,
          BACKWARD(disentangled_attention_backward))
#define MIXING_BYTES (TABLE_BYTES + copy_bytes(args->mix_scores) + copy_bytes(args->mix_weights))
ATTENTION(talking_attention_forward, shape.attention, WIDEN_MIXING, MIXING_BYTES, args->out.rows == 0, FORWARD(talking_attention_forward))
ATTENTION(talking_attention_backward, shape.attention, WIDEN_MIXING, MIXING_BYTES, false, IN(talking_attention_backward, q),
          VIEW(talking_attention_backward, k, READ | KEYS), VIEW(talking_attention_backward, v, READ | KEYS),
          IN(talking_attention_backward, dout), OUT(talking_attention_backward, dq), VIEW(talking_attention_backward, dk, WRITE | KEYS),
          VIEW(talking_attention_backward, dv, WRITE | KEYS))

// ---- ops on rows where they lie -----------------------------------------------------------------------------------

typedef struct rows_job {
    const void *args;
    int64_t rows;
    int shares;
} rows_job;

static void run_rows(ft_device *device, const void *args, int64_t rows, int64_t cols, void (*task)(void *, int, int)) {
    const ft_cpu *cpu = ft_cpu_of(device);
    rows_job job = {args, rows, ft_shares(cpu, rows, rows * cols)};
    if (rows > 0) ft_pool_run(cpu->pool, job.shares, task, &job);
}

static float number(ft_tensor t, int64_t row, int64_t col) { return ft_from_fp16(half_row(t, row)[col]); }
static void put_number(ft_tensor t, int64_t row, int64_t col, float x) { half_row(t, row)[col] = ft_to_fp16(x); }

// A copy of whole tables would be larger than all the rest: only the rows of the tokens are looked at.
static void embedding_task(void *context, int task, int thread) {
    const rows_job *job = context;
    const ft_embedding_forward_args *a = job->args;
    int64_t first, last;
    ft_share(job->rows, 1, job->shares, task, &first, &last);
    for (int64_t t = first; t < last; t++)
        for (int64_t c = 0; c < a->out.cols; c++) {
            float sum = number(a->word, a->word_ids[t], c);
            if (a->position.data) sum += number(a->position, a->position_ids[t], c);
            if (a->type.data) sum += number(a->type, a->type_ids[t], c);
            put_number(a->out, t, c, sum);
        }
}
size_t ft_cpu_copies_embedding_forward(const ft_embedding_forward_args *args) { return 0; }
static ft_status run_embedding_forward(ft_device *device, const ft_embedding_forward_args *args) {
    if (!is_fp16(args->out.dtype)) return own_ops(device)->embedding_forward(device, args);
    FT_TRY(ft_embedding_forward_check(&device->target, args));
    run_rows(device, args, args->out.rows, args->out.cols, embedding_task);
    return FT_OK;
}

static void gather_task(void *context, int task, int thread) {
    const rows_job *job = context;
    const ft_gather_rows_args *a = job->args;
    int64_t first, last;
    ft_share(job->rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++)
        memcpy(half_row(a->y, row), half_row(a->x, a->index[row]), (size_t)a->y.cols * sizeof(uint16_t));
}
size_t ft_cpu_copies_gather_rows(const ft_gather_rows_args *args) { return 0; }
static ft_status run_gather_rows(ft_device *device, const ft_gather_rows_args *args) {
    if (!ft_is_half(args->y.dtype)) return own_ops(device)->gather_rows(device, args);
    FT_TRY(ft_gather_rows_check(&device->target, args));
    run_rows(device, args, args->y.rows, args->y.cols, gather_task);
    return FT_OK;
}

static void scatter_task(void *context, int task, int thread) {
    const rows_job *job = context;
    const ft_scatter_rows_add_args *a = job->args;
    int64_t first, last;
    ft_share(job->rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++)
        for (int64_t c = 0, to = a->index[row]; c < a->x.cols; c++) {
            float x = number(a->x, row, c);
            if (a->y.dtype == FT_F32)
                ft_row(a->y, to)[c] += x;
            else
                put_number(a->y, to, c, number(a->y, to, c) + x);
        }
}
size_t ft_cpu_copies_scatter_rows_add(const ft_scatter_rows_add_args *args) { return 0; }
static ft_status run_scatter_rows_add(ft_device *device, const ft_scatter_rows_add_args *args) {
    if (!is_fp16(args->x.dtype)) return own_ops(device)->scatter_rows_add(device, args);
    FT_TRY(ft_scatter_rows_add_check(&device->target, args));
    run_rows(device, args, args->x.rows, args->x.cols, scatter_task);
    return FT_OK;
}

// ---- ops that are fp32 in every precision, or know 16 bits themselves ---------------------------------------------

#define PLAIN(op)                                                                                                      \
    size_t ft_cpu_copies_##op(const ft_##op##_args *args) { return 0; }                                                \
    static ft_status run_##op(ft_device *device, const ft_##op##_args *args) {                                         \
        return own_ops(device)->op(device, args);                                                                     \
    }
PLAIN(product_activation)
PLAIN(product_slope)
PLAIN(product_norm)
PLAIN(sequence_mean_backward)
PLAIN(cross_entropy)
PLAIN(weighted_cross_entropy)
PLAIN(binary_cross_entropy)
PLAIN(span_cross_entropy)
PLAIN(squared_error)
PLAIN(cast)
PLAIN(dequantise)
PLAIN(int8_product)
PLAIN(row_norm)
PLAIN(column_scale)
PLAIN(gradient_norm)
PLAIN(adamw)
PLAIN(decay)

const ft_op_table ft_cpu_ops = {
#define FT_OP(name, what) .name = run_##name,
#include "kernels/ops/ops.def"
#undef FT_OP
};
