#include "kernels/cpu/half_ops.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/half.h"

enum { READ = 1, WRITE = 2, ALIGNMENT = 256 };

// ---- views and their copies ---------------------------------------------------------------------------------------

typedef struct view {
    size_t offset; // of an ft_tensor in an op's arguments
    int use;
} view;

static ft_tensor *view_in(void *args, view v) { return (ft_tensor *)((char *)args + v.offset); }
static ft_tensor view_of(const void *args, view v) { return *(const ft_tensor *)((const char *)args + v.offset); }

// By shape alone: the planner has no data. An absent view has no rows.
static size_t copy_bytes(ft_tensor t) {
    if (!ft_is_half(t.dtype)) return 0;
    return ((size_t)(t.rows * t.cols) * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t copies_of(const void *args, const view *views, size_t count) {
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += copy_bytes(view_of(args, views[i]));
    return bytes;
}

typedef struct convert_job {
    ft_tensor narrow, wide;
    bool widen;
    int shares;
} convert_job;

static uint16_t *half_row(ft_tensor t, int64_t row) { return (uint16_t *)t.data + row * t.stride; }

static void convert_task(void *context, int task, int thread) {
    const convert_job *job = context;
    int64_t first, last;
    ft_share(job->narrow.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++) {
        uint16_t *narrow = half_row(job->narrow, row);
        float *wide = ft_row(job->wide, row);
        if (job->widen)
            ft_widen(job->narrow.dtype, narrow, wide, job->narrow.cols);
        else
            ft_narrow(job->narrow.dtype, wide, narrow, job->narrow.cols);
    }
}

static void convert(ft_device *device, ft_tensor narrow, ft_tensor wide, bool widen) {
    ft_cpu *cpu = ft_cpu_of(device);
    convert_job job = {narrow, wide, widen, ft_shares(cpu, narrow.rows, narrow.rows * narrow.cols)};
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

// Puts fp32 copies in the place of the 16-bit views of `wide`, a copy of `args`. What one op reads and writes at one
// address are two copies: no op reads what it has written.
static void widen_views(ft_device *device, const void *args, void *wide, ft_workspace *scratch, const view *views,
                        size_t count) {
    for (size_t i = 0; i < count; i++) {
        ft_tensor t = view_of(args, views[i]);
        if (t.data == NULL || !ft_is_half(t.dtype)) continue;
        ft_tensor copy = take_copy(t, scratch);
        if (views[i].use & READ) convert(device, t, copy, true);
        *view_in(wide, views[i]) = copy;
    }
}

static void round_views(ft_device *device, const void *args, const void *wide, const view *views, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ft_tensor t = view_of(args, views[i]);
        if (t.data != NULL && ft_is_half(t.dtype) && views[i].use & WRITE)
            convert(device, t, view_of(wide, views[i]), false);
    }
}

// ---- ops that are widened -------------------------------------------------------------------------------------------

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define IN(op, member)                                                                                                 \
    { offsetof(ft_##op##_args, member), READ }
#define OUT(op, member)                                                                                                \
    { offsetof(ft_##op##_args, member), WRITE }
#define BOTH(op, member)                                                                                               \
    { offsetof(ft_##op##_args, member), READ | WRITE }

// `empty`: there is nothing to compute, and then no scratch.
#define RUN_WIDENED(op, views, empty)                                                                                  \
    do {                                                                                                               \
        FT_TRY(ft_##op##_check(&device->target, args));                                                                \
        if (empty) return FT_OK;                                                                                       \
        ft_##op##_args wide_ = *args;                                                                                  \
        widen_views(device, args, &wide_, &wide_.workspace, views, COUNT(views));                                      \
        FT_TRY(ft_cpu_of(device)->fp32->op(device, &wide_));                                                           \
        round_views(device, args, &wide_, views, COUNT(views));                                                        \
        return FT_OK;                                                                                                  \
    } while (0)

// `member` is a view whose type is H.
#define WIDENED(op, member, empty, ...)                                                                                \
    static const view op##_views[] = {__VA_ARGS__};                                                                    \
    size_t ft_cpu_copies_##op(const ft_##op##_args *args) { return copies_of(args, op##_views, COUNT(op##_views)); }   \
    static ft_status run_##op(ft_device *device, const ft_##op##_args *args) {                                         \
        if (!ft_is_half(args->member.dtype)) return ft_cpu_of(device)->fp32->op(device, args);                         \
        RUN_WIDENED(op, op##_views, empty);                                                                            \
    }

static const view gemm_views[] = {IN(gemm, a), IN(gemm, b), IN(gemm, bias), OUT(gemm, c)};
static const view gemm_accumulating[] = {IN(gemm, a), IN(gemm, b), IN(gemm, bias), BOTH(gemm, c)};
size_t ft_cpu_copies_gemm(const ft_gemm_args *args) { return copies_of(args, gemm_views, COUNT(gemm_views)); }
static ft_status run_gemm(ft_device *device, const ft_gemm_args *args) {
    if (!ft_is_half(args->a.dtype)) return ft_cpu_of(device)->fp32->gemm(device, args);
    if (args->accumulate) RUN_WIDENED(gemm, gemm_accumulating, false);
    RUN_WIDENED(gemm, gemm_views, false);
}

WIDENED(column_sum, x, false, IN(column_sum, x))
WIDENED(embedding_backward, dout, false, IN(embedding_backward, dout))
WIDENED(layernorm_forward, x, false, IN(layernorm_forward, x), IN(layernorm_forward, bias),
        IN(layernorm_forward, residual), IN(layernorm_forward, gamma), IN(layernorm_forward, beta),
        OUT(layernorm_forward, s), OUT(layernorm_forward, y))
WIDENED(layernorm_backward, dy, false, IN(layernorm_backward, dy), IN(layernorm_backward, s),
        IN(layernorm_backward, gamma), OUT(layernorm_backward, ds), OUT(layernorm_backward, dx))
WIDENED(activation_forward, x, false, IN(activation_forward, x), IN(activation_forward, bias),
        OUT(activation_forward, h), OUT(activation_forward, y))
WIDENED(activation_backward, h, false, IN(activation_backward, h), IN(activation_backward, dy),
        OUT(activation_backward, dx), OUT(activation_backward, y))
WIDENED(attention_forward, q, args->shape.sequences == 0 || args->out.rows == 0, IN(attention_forward, q),
        IN(attention_forward, k), IN(attention_forward, v), OUT(attention_forward, out))
WIDENED(attention_backward, q, args->shape.sequences == 0, IN(attention_backward, q), IN(attention_backward, k),
        IN(attention_backward, v), IN(attention_backward, out), IN(attention_backward, dout),
        OUT(attention_backward, dq), OUT(attention_backward, dk), OUT(attention_backward, dv))
WIDENED(dropout, x, false, IN(dropout, x), OUT(dropout, y))
WIDENED(unfold, x, false, IN(unfold, x), OUT(unfold, y))
WIDENED(fold_add, x, false, IN(fold_add, y), BOTH(fold_add, x))

// ---- disentangled attention
// -------------------------------------------------------------------------------------------

// Of the tables only the rows that a slot names are there (the engine projects no others): the copy is of those.
static ft_tensor widen_table(ft_device *device, ft_tensor table, const ft_disentangled_shape *shape,
                             ft_workspace *scratch) {
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

static const view disentangled_attention_forward_views[] = {
    IN(disentangled_attention_forward, q), IN(disentangled_attention_forward, k), IN(disentangled_attention_forward, v),
    OUT(disentangled_attention_forward, out)};
static const view disentangled_attention_backward_views[] = {
    IN(disentangled_attention_backward, q),    IN(disentangled_attention_backward, k),
    IN(disentangled_attention_backward, v),    IN(disentangled_attention_backward, out),
    IN(disentangled_attention_backward, dout), OUT(disentangled_attention_backward, dq),
    OUT(disentangled_attention_backward, dk),  OUT(disentangled_attention_backward, dv)};

#define DISENTANGLED(op, empty)                                                                                        \
    size_t ft_cpu_copies_##op(const ft_##op##_args *args) {                                                            \
        return copies_of(args, op##_views, COUNT(op##_views)) + copy_bytes(args->pos_key) +                            \
               copy_bytes(args->pos_query);                                                                            \
    }                                                                                                                  \
    static ft_status run_##op(ft_device *device, const ft_##op##_args *args) {                                         \
        const ft_op_table *fp32 = ft_cpu_of(device)->fp32;                                                             \
        if (!ft_is_half(args->q.dtype)) return fp32->op(device, args);                                                 \
        FT_TRY(ft_##op##_check(&device->target, args));                                                                \
        if (empty) return FT_OK;                                                                                       \
        ft_##op##_args wide = *args;                                                                                   \
        wide.pos_key = widen_table(device, args->pos_key, &args->shape, &wide.workspace);                              \
        wide.pos_query = widen_table(device, args->pos_query, &args->shape, &wide.workspace);                          \
        widen_views(device, args, &wide, &wide.workspace, op##_views, COUNT(op##_views));                              \
        FT_TRY(fp32->op(device, &wide));                                                                               \
        round_views(device, args, &wide, op##_views, COUNT(op##_views));                                               \
        return FT_OK;                                                                                                  \
    }
DISENTANGLED(disentangled_attention_forward, args->shape.attention.sequences == 0 || args->out.rows == 0)
DISENTANGLED(disentangled_attention_backward, args->shape.attention.sequences == 0)

// ---- ops on rows where they lie
// -----------------------------------------------------------------------------------------

typedef struct rows_job {
    const void *args;
    int64_t rows;
    int shares;
} rows_job;

static void run_rows(ft_device *device, const void *args, int64_t rows, int64_t cols, void (*task)(void *, int, int)) {
    ft_cpu *cpu = ft_cpu_of(device);
    rows_job job = {args, rows, ft_shares(cpu, rows, rows * cols)};
    if (rows > 0) ft_pool_run(cpu->pool, job.shares, task, &job);
}

static float number(ft_tensor t, int64_t row, int64_t col) {
    uint16_t bits = half_row(t, row)[col];
    return t.dtype == FT_BF16 ? ft_from_bf16(bits) : ft_from_fp16(bits);
}
static void put_number(ft_tensor t, int64_t row, int64_t col, float x) {
    half_row(t, row)[col] = t.dtype == FT_BF16 ? ft_to_bf16(x) : ft_to_fp16(x);
}

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
    if (!ft_is_half(args->out.dtype)) return ft_cpu_of(device)->fp32->embedding_forward(device, args);
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
    if (!ft_is_half(args->y.dtype)) return ft_cpu_of(device)->fp32->gather_rows(device, args);
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
    if (!ft_is_half(args->x.dtype)) return ft_cpu_of(device)->fp32->scatter_rows_add(device, args);
    FT_TRY(ft_scatter_rows_add_check(&device->target, args));
    run_rows(device, args, args->x.rows, args->x.cols, scatter_task);
    return FT_OK;
}

// ---- ops that are fp32 in every precision, or know 16 bits themselves
// ---------------------------------------------------

#define PLAIN(op)                                                                                                      \
    size_t ft_cpu_copies_##op(const ft_##op##_args *args) { return 0; }                                                \
    static ft_status run_##op(ft_device *device, const ft_##op##_args *args) {                                         \
        return ft_cpu_of(device)->fp32->op(device, args);                                                              \
    }
PLAIN(cross_entropy)
PLAIN(weighted_cross_entropy)
PLAIN(binary_cross_entropy)
PLAIN(squared_error)
PLAIN(cast)
PLAIN(gradient_norm)
PLAIN(adamw)
PLAIN(decay)

const ft_op_table ft_cpu_ops = {
#define FT_OP(name, what) .name = run_##name,
#include "kernels/ops.def"
#undef FT_OP
};
