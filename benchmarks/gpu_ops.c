// gpu_ops.c - every op of the CUDA back end beside the CPU's on the same numbers, in fp32, bf16 and fp16, and how long
// it takes. It needs the kernels alone: no model, no file. (The CPU's ops are judged against float64 in tests/kernels.)
//
//   gpu_ops [--time] [--tokens N] [--type fp32|bf16|fp16] [--csv FILE] [--json FILE] [OP...]
//
// Exit 0: all agree. 1: one does not. 4: there is no CUDA device, or something of it is missing.
#include "kernels/cuda/kernels.h"
#include "kernels/half.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUFFERS = 14, CPU = 0, GPU = 1, LENGTH = 128, CLASSES = 7 }; // LENGTH: of the longest sequence

// Both copies of what an op reads and writes.
typedef struct test {
    int64_t rows, cols, inner; // inner: K of a product, width of the head's rows, ...
    ft_dtype type;             // of rows
    int count;
    size_t bytes[BUFFERS];
    ft_dtype dtype[BUFFERS]; // of their numbers; FT_U8: a state
    void *at[BUFFERS][2];    // on the CPU, on the GPU
    ft_device *device[2];
    double moved, flops; // by one run
} test;

typedef ft_status run_function(test *t, int side);
typedef void setup_function(test *t);

static _Noreturn void give_up(void) {
    fprintf(stderr, "gpu_ops: %s%s%s\n", ft_error_message(), ft_error_where()[0] ? " at " : "", ft_error_where());
    for (int i = 0; i < ft_error_hint_count(); i++)
        fprintf(stderr, "  hint: %s\n", ft_error_hint(i));
    exit(ft_error_code() == FT_NO_DEVICE ? 4 : 1);
}
static void need(ft_status status) {
    if (status != FT_OK) give_up();
}

// ---- buffers ----------------------------------------------------------------------------------------------------

static uint64_t seed = 1;
static double uniform(void) { return (double)(ft_splitmix64(++seed) >> 11) * 0x1p-53; }

static int add_bytes(test *t, size_t bytes, ft_dtype dtype, const void *from) {
    int i = t->count++;
    t->bytes[i] = bytes;
    t->dtype[i] = dtype;
    for (int side = 0; side < 2; side++) {
        ft_device *d = t->device[side];
        need(d->functions->buffer_alloc(d, bytes, &t->at[i][side]));
        need(d->functions->upload(d, t->at[i][side], from, bytes));
        need(d->functions->sync(d));
    }
    return i;
}

static int add_numbers(test *t, ft_dtype dtype, int64_t n, double mean, double spread) {
    float *host = malloc((size_t)n * sizeof *host + 1);
    uint16_t *half = malloc((size_t)n * sizeof *half + 1);
    if (host == NULL || half == NULL) need(ft_fail_memory((size_t)n * 6, "a test's numbers"));
    for (int64_t i = 0; i < n; i++)
        host[i] = (float)(mean + spread * (2 * uniform() - 1));
    if (ft_is_half(dtype)) ft_narrow(dtype, host, half, n);
    int added = add_bytes(t, (size_t)n * ft_dtype_size(dtype), dtype, ft_is_half(dtype) ? (void *)half : (void *)host);
    free(host);
    free(half);
    return added;
}
static int add_floats(test *t, int64_t n, double mean, double spread) {
    return add_numbers(t, FT_F32, n, mean, spread);
}
static int add_rows(test *t, int64_t n, double mean, double spread) { return add_numbers(t, t->type, n, mean, spread); }

// limit > 0: below it, at random; 0: the number of the place; < 0: the place within pieces of so many.
static int add_integers(test *t, int64_t n, int64_t limit) {
    int32_t *host = malloc((size_t)n * sizeof *host + 1);
    if (host == NULL) need(ft_fail_memory((size_t)n * sizeof *host, "a test's numbers"));
    for (int64_t i = 0; i < n; i++)
        host[i] = (int32_t)(limit > 0 ? (double)limit * uniform() : limit == 0 ? (double)i : (double)(i % -limit));
    int added = add_bytes(t, (size_t)n * sizeof *host, FT_I32, host);
    free(host);
    return added;
}

static int add_step(test *t) {
    ft_step_state step = {.seed = 7, .step = 3, .learning_rate = 1e-3f, .loss_factor = 0.125f, .loss_scale = 1};
    return add_bytes(t, sizeof step, FT_U8, &step);
}

// Where sequences begin: LENGTH tokens each, the last one what is left.
static int sequences_of(const test *t) { return (int)((t->rows + LENGTH - 1) / LENGTH); }
static int add_bounds(test *t) {
    int n = sequences_of(t);
    int32_t *host = malloc(((size_t)n + 1) * sizeof *host);
    if (host == NULL) need(ft_fail_memory(0, "bounds"));
    for (int i = 0; i <= n; i++)
        host[i] = (int32_t)(i * LENGTH < t->rows ? i * LENGTH : t->rows);
    int added = add_bytes(t, ((size_t)n + 1) * sizeof *host, FT_I32, host);
    free(host);
    return added;
}

static ft_tensor matrix(const test *t, int i, int side, int64_t rows, int64_t cols) {
    return ft_matrix(t->at[i][side], rows, cols, t->dtype[i]);
}
static ft_tensor vector(const test *t, int i, int side, int64_t n) { return ft_vector(t->at[i][side], n, t->dtype[i]); }

#define RUN(op, ...)                                                                                                   \
    ft_##op##_args args = {__VA_ARGS__};                                                                               \
    ft_device *device = t->device[side];                                                                               \
    args.workspace = scratch(device, side, ft_##op##_workspace(&device->target, &args));                               \
    return FT_RUN(device, op, &args)

// One scratch a side, as large as the largest: timing must not measure how it is taken.
static ft_workspace kept[2];
static ft_workspace scratch(ft_device *device, int side, size_t bytes) {
    if (bytes > kept[side].bytes) {
        if (kept[side].data != NULL) device->functions->buffer_free(device, kept[side].data, kept[side].bytes);
        need(device->functions->buffer_alloc(device, bytes, &kept[side].data));
        kept[side].bytes = bytes;
    }
    return kept[side];
}

// ---- the ops: buffers in order, then one run ----------------------------------------------------------------------

static void many(test *t, int n, const int64_t *elements) {
    for (int i = 0; i < n; i++)
        add_rows(t, elements[i], 0, 1);
}
static double bytes_of(const test *t, double elements) { return (double)ft_dtype_size(t->type) * elements; }

static void gemm_setup(test *t) { // y = x W' + b, dx = dy W, dW += dy' x, which is fp32
    many(t, 5, (int64_t[]){t->rows * t->inner, t->cols * t->inner, t->cols, t->rows * t->cols, t->rows * t->inner});
    add_floats(t, t->cols * t->inner, 0, 1);
    t->flops = 2.0 * (double)t->rows * (double)t->cols * (double)t->inner;
    t->moved = bytes_of(t, (double)t->rows * (double)(t->cols + t->inner) + (double)t->cols * (double)t->inner);
}
static ft_status gemm_forward(test *t, int side) {
    RUN(gemm, .a = matrix(t, 0, side, t->rows, t->inner), .b = matrix(t, 1, side, t->cols, t->inner),
        .c = matrix(t, 3, side, t->rows, t->cols), .trans_b = true, .bias = vector(t, 2, side, t->cols));
}
static ft_status gemm_input(test *t, int side) {
    RUN(gemm, .a = matrix(t, 3, side, t->rows, t->cols), .b = matrix(t, 1, side, t->cols, t->inner),
        .c = matrix(t, 4, side, t->rows, t->inner));
}
static ft_status gemm_weight(test *t, int side) {
    RUN(gemm, .a = matrix(t, 3, side, t->rows, t->cols), .b = matrix(t, 0, side, t->rows, t->inner),
        .c = matrix(t, 5, side, t->cols, t->inner), .trans_a = true, .accumulate = true);
}

static void column_sum_setup(test *t) {
    add_rows(t, t->rows * t->cols, 0, 1);
    add_floats(t, t->cols, 0, 1);
    t->moved = bytes_of(t, (double)t->rows * (double)t->cols);
}
static ft_status column_sum(test *t, int side) {
    RUN(column_sum, .x = matrix(t, 0, side, t->rows, t->cols), .out = vector(t, 1, side, t->cols));
}

enum { WORDS = 1000, POSITIONS = 512 };
static void embedding_setup(test *t) {
    add_integers(t, t->rows, WORDS);
    add_integers(t, t->rows, -LENGTH);
    many(t, 3, (int64_t[]){WORDS * t->cols, POSITIONS * t->cols, t->rows * t->cols});
    add_floats(t, WORDS * t->cols, 0, 1);
    t->moved = bytes_of(t, 3 * (double)t->rows * (double)t->cols);
}
static ft_status embedding_forward(test *t, int side) {
    RUN(embedding_forward, .word_ids = t->at[0][side], .position_ids = t->at[1][side],
        .word = matrix(t, 2, side, WORDS, t->cols), .position = matrix(t, 3, side, POSITIONS, t->cols),
        .out = matrix(t, 4, side, t->rows, t->cols));
}
static ft_status embedding_backward(test *t, int side) {
    RUN(embedding_backward, .ids = t->at[0][side], .dout = matrix(t, 4, side, t->rows, t->cols),
        .table_gradient = matrix(t, 5, side, WORDS, t->cols), .padding_id = -1);
}

static ft_dropout dropout_of(const test *t, int side, int step, int slot, int position) {
    return (ft_dropout){.probability = 0.1f,
                        .layer = 2,
                        .site = FT_SITE_FFN_OUTPUT,
                        .step = t->at[step][side],
                        .slot = t->at[slot][side],
                        .position = t->at[position][side]};
}
static void layernorm_setup(test *t) {
    add_step(t);
    add_integers(t, t->rows, 0);
    add_integers(t, t->rows, -LENGTH);
    many(t, 2, (int64_t[]){t->rows * t->cols, t->cols});           // 3: x bias
    add_floats(t, t->rows * t->cols, 0, 1);                        // 5: residual
    add_floats(t, t->cols, 0, 1);                                  // 6: gamma
    add_floats(t, t->cols, 0, 1);                                  // 7: beta
    many(t, 2, (int64_t[]){t->rows * t->cols, t->rows * t->cols}); // 8: s y
    add_floats(t, t->rows, 0, 0.1);                                // 10: mean
    add_floats(t, t->rows, 1, 0.1);                                // 11: rstd
    add_floats(t, 3 * t->cols, 0, 1);                              // 12: dgamma dbeta dbias
    add_floats(t, t->rows * t->cols, 0, 1);                        // 13: wide
}
static void layernorm_forward_setup(test *t) {
    const double n = (double)t->rows * (double)t->cols, floats = ft_is_half(t->type) ? 2 : 1; // residual, and wide
    layernorm_setup(t);
    t->moved = bytes_of(t, 3 * n) + floats * n * sizeof(float);
}
static void layernorm_backward_setup(test *t) {
    const double n = (double)t->rows * (double)t->cols;
    layernorm_setup(t);
    t->moved = bytes_of(t, 2 * n) + 2 * n * sizeof(float);
}
static ft_status layernorm_forward(test *t, int side) {
    RUN(layernorm_forward, .x = matrix(t, 3, side, t->rows, t->cols), .bias = vector(t, 4, side, t->cols),
        .residual = matrix(t, 5, side, t->rows, t->cols), .gamma = vector(t, 6, side, t->cols),
        .beta = vector(t, 7, side, t->cols), .epsilon = 1e-12f, .dropout = dropout_of(t, side, 0, 1, 2),
        .s = matrix(t, 8, side, t->rows, t->cols), .y = matrix(t, 9, side, t->rows, t->cols),
        .wide = ft_is_half(t->type) ? matrix(t, 13, side, t->rows, t->cols) : ft_absent(), .mean = vector(t, 10, side, t->rows), .rstd = vector(t, 11, side, t->rows));
}
static ft_status layernorm_backward(test *t, int side) {
    float *sums = t->at[12][side];
    RUN(layernorm_backward, .dy = matrix(t, 5, side, t->rows, t->cols), .s = matrix(t, 3, side, t->rows, t->cols),
        .mean = vector(t, 10, side, t->rows), .rstd = vector(t, 11, side, t->rows),
        .gamma = vector(t, 6, side, t->cols), .dropout = dropout_of(t, side, 0, 1, 2),
        .ds = matrix(t, 13, side, t->rows, t->cols), .dx = matrix(t, 9, side, t->rows, t->cols),
        .dgamma = ft_vector(sums, t->cols, FT_F32), .dbeta = ft_vector(sums + t->cols, t->cols, FT_F32),
        .dbias = ft_vector(sums + 2 * t->cols, t->cols, FT_F32));
}

static void activation_setup(test *t) {
    add_rows(t, t->rows * t->cols, 0, 4);
    many(t, 3, (int64_t[]){t->cols, t->rows * t->cols, t->rows * t->cols});
    add_floats(t, t->cols, 0, 1);
    t->moved = bytes_of(t, 3 * (double)t->rows * (double)t->cols);
}
static ft_status activation_forward(test *t, int side) {
    RUN(activation_forward, .kind = FT_ACT_GELU, .x = matrix(t, 0, side, t->rows, t->cols),
        .bias = vector(t, 1, side, t->cols), .h = matrix(t, 2, side, t->rows, t->cols),
        .y = matrix(t, 3, side, t->rows, t->cols));
}
static ft_status activation_backward(test *t, int side) {
    RUN(activation_backward, .kind = FT_ACT_GELU, .h = matrix(t, 0, side, t->rows, t->cols),
        .dy = matrix(t, 2, side, t->rows, t->cols), .dx = matrix(t, 3, side, t->rows, t->cols),
        .dbias = vector(t, 4, side, t->cols));
}

static void attention_setup(test *t) { // cols = heads * 64, or one odd head
    add_step(t);
    add_bounds(t);
    add_integers(t, sequences_of(t), 0);
    int64_t n = t->rows * t->cols;
    many(t, 2, (int64_t[]){3 * n, n});                 // 3: qkv out
    add_floats(t, t->rows * (t->cols / 64 + 1), 0, 1); // 5: lse
    many(t, 2, (int64_t[]){n, 3 * n});                 // 6: dout, gradients of qkv
    double pairs = (double)t->rows * (t->rows < LENGTH ? (double)t->rows : LENGTH);
    t->flops = 4.0 * pairs * (double)t->cols;
    t->moved = bytes_of(t, 4 * (double)n);
}
static ft_attention_shape shape_of(const test *t, int side) {
    int heads = t->cols % 64 == 0 ? (int)(t->cols / 64) : 1;
    return (ft_attention_shape){.heads = heads,
                                .head_dim = (int)(t->cols / heads),
                                .sequences = sequences_of(t),
                                .max_queries = LENGTH,
                                .max_keys = LENGTH,
                                .cu_queries = t->at[1][side],
                                .cu_keys = t->at[1][side],
                                .scale = 1.0f / sqrtf((float)(t->cols / heads)),
                                .dropout = {.probability = 0.1f,
                                            .layer = 1,
                                            .site = FT_SITE_ATTENTION,
                                            .step = t->at[0][side],
                                            .sequence_slot = t->at[2][side]}};
}
static ft_tensor third(const test *t, int i, int side, int which) {
    return ft_columns(matrix(t, i, side, t->rows, 3 * t->cols), which * t->cols, t->cols);
}
static ft_status attention_forward(test *t, int side) {
    ft_attention_shape shape = shape_of(t, side);
    RUN(attention_forward, .shape = shape, .q = third(t, 3, side, 0), .k = third(t, 3, side, 1),
        .v = third(t, 3, side, 2), .out = matrix(t, 4, side, t->rows, t->cols),
        .lse = matrix(t, 5, side, t->rows, shape.heads));
}
// out and lse are the forward's, of this very side.
static ft_status attention_backward(test *t, int side) {
    ft_attention_shape shape = shape_of(t, side);
    RUN(attention_backward, .shape = shape, .q = third(t, 3, side, 0), .k = third(t, 3, side, 1),
        .v = third(t, 3, side, 2), .out = matrix(t, 4, side, t->rows, t->cols),
        .lse = matrix(t, 5, side, t->rows, shape.heads), .dout = matrix(t, 6, side, t->rows, t->cols),
        .dq = third(t, 7, side, 0), .dk = third(t, 7, side, 1), .dv = third(t, 7, side, 2));
}
static void attention_backward_setup(test *t) {
    attention_setup(t);
    for (int side = 0; side < 2; side++)
        need(attention_forward(t, side));
    t->flops *= 2.5;
}

// The same with positions as in DeBERTa v3: 3: qkv, out, lse, dout and gradients as above
enum { BUCKETS = 256, FURTHEST = 512 };
static void disentangled_setup(test *t) {
    const ft_relative_rule rule = {BUCKETS, FURTHEST};
    int32_t slots[2 * LENGTH - 1];
    attention_setup(t);
    ft_relative_slots(rule, LENGTH - 1, slots);
    add_bytes(t, sizeof slots, FT_I32, slots); // 8
    int64_t n = 2 * ft_relative_span(rule) * t->cols;
    many(t, 2, (int64_t[]){n, n}); // 9: tables of keys and of queries
    add_floats(t, n, 0, 1);        // 11: their gradients
    add_floats(t, n, 0, 1);
    t->flops *= 2; // each term of positions as much as a product of scores, at this length
}
static ft_disentangled_shape disentangled_shape_of(const test *t, int side) {
    ft_disentangled_shape shape = {.attention = shape_of(t, side), .reach = LENGTH - 1, .slots = t->at[8][side]};
    shape.attention.scale /= sqrtf(3.0f);
    return shape;
}
static ft_tensor table_of(const test *t, int i, int side) { return matrix(t, i, side, 2 * BUCKETS, t->cols); }
static ft_status disentangled_forward(test *t, int side) {
    ft_disentangled_shape shape = disentangled_shape_of(t, side);
    RUN(disentangled_attention_forward, .shape = shape, .q = third(t, 3, side, 0), .k = third(t, 3, side, 1),
        .v = third(t, 3, side, 2), .pos_key = table_of(t, 9, side), .pos_query = table_of(t, 10, side),
        .out = matrix(t, 4, side, t->rows, t->cols), .lse = matrix(t, 5, side, t->rows, shape.attention.heads));
}
// out and lse are the forward's, of this very side.
static ft_status disentangled_backward(test *t, int side) {
    ft_disentangled_shape shape = disentangled_shape_of(t, side);
    RUN(disentangled_attention_backward, .shape = shape, .q = third(t, 3, side, 0), .k = third(t, 3, side, 1),
        .v = third(t, 3, side, 2), .pos_key = table_of(t, 9, side), .pos_query = table_of(t, 10, side),
        .out = matrix(t, 4, side, t->rows, t->cols), .lse = matrix(t, 5, side, t->rows, shape.attention.heads),
        .dout = matrix(t, 6, side, t->rows, t->cols), .dq = third(t, 7, side, 0), .dk = third(t, 7, side, 1),
        .dv = third(t, 7, side, 2), .dpos_key = table_of(t, 11, side), .dpos_query = table_of(t, 12, side));
}
static void disentangled_backward_setup(test *t) {
    disentangled_setup(t);
    for (int side = 0; side < 2; side++)
        need(disentangled_forward(t, side));
    t->flops *= 3;
}

static void rows_setup(test *t) {
    add_step(t);
    add_integers(t, t->rows, 0);
    add_integers(t, t->rows, -LENGTH);
    many(t, 2, (int64_t[]){t->rows * t->cols, t->rows * t->cols});
    t->moved = bytes_of(t, 2 * (double)t->rows * (double)t->cols);
}
static ft_status dropout(test *t, int side) {
    RUN(dropout, .dropout = dropout_of(t, side, 0, 1, 2), .x = matrix(t, 3, side, t->rows, t->cols),
        .y = matrix(t, 4, side, t->rows, t->cols));
}
static ft_status gather_rows(test *t, int side) {
    RUN(gather_rows, .index = t->at[1][side], .x = matrix(t, 3, side, t->rows, t->cols),
        .y = matrix(t, 4, side, t->rows, t->cols));
}
static ft_status scatter_rows_add(test *t, int side) {
    RUN(scatter_rows_add, .index = t->at[1][side], .x = matrix(t, 3, side, t->rows, t->cols),
        .y = matrix(t, 4, side, t->rows, t->cols));
}

enum { TAPS = 3 };
static void unfold_setup(test *t) {
    add_bounds(t);
    many(t, 2, (int64_t[]){t->rows * t->cols, t->rows * t->cols * TAPS});
    add_floats(t, t->rows * t->cols, 0, 1); // 3: a gradient
    t->moved = bytes_of(t, (1 + TAPS) * (double)t->rows * (double)t->cols);
}
static ft_status unfold(test *t, int side) {
    RUN(unfold, .sequences = sequences_of(t), .taps = TAPS, .cu_seqlens = t->at[0][side],
        .x = matrix(t, 1, side, t->rows, t->cols), .y = matrix(t, 2, side, t->rows, t->cols * TAPS));
}
static ft_status fold_add(test *t, int side) {
    RUN(fold_add, .sequences = sequences_of(t), .taps = TAPS, .cu_seqlens = t->at[0][side],
        .x = matrix(t, 3, side, t->rows, t->cols), .y = matrix(t, 2, side, t->rows, t->cols * TAPS));
}

static void cast_setup(test *t) { // 16 bits to the first of fp32, the second to 16 bits
    many(t, 2, (int64_t[]){t->rows * t->cols, t->rows * t->cols});
    add_floats(t, t->rows * t->cols, 0, 1);
    add_floats(t, t->rows * t->cols, 0, 1);
    t->moved = 6 * (double)t->rows * (double)t->cols;
}
static ft_status cast_to_fp32(test *t, int side) {
    RUN(cast, .x = vector(t, 0, side, t->rows * t->cols), .y = vector(t, 2, side, t->rows * t->cols));
}
static ft_status cast_to_16_bits(test *t, int side) {
    RUN(cast, .x = vector(t, 3, side, t->rows * t->cols), .y = vector(t, 1, side, t->rows * t->cols));
}

static void losses_setup(test *t) { // fp32 in every precision
    add_step(t);
    add_integers(t, t->rows, CLASSES);
    const int64_t floats[] = {t->rows * CLASSES, t->rows, t->rows * CLASSES};
    for (int i = 0; i < 3; i++)
        add_floats(t, floats[i], 0, 1);
    add_floats(t, t->rows * CLASSES, 0.5, 0.5); // 5: targets
    t->moved = 4.0 * 2 * (double)t->rows * CLASSES;
}
#define LOGITS_AND_LOSSES                                                                                              \
    .logits = matrix(t, 2, side, t->rows, CLASSES), .step = t->at[0][side], .losses = vector(t, 3, side, t->rows),     \
    .dlogits = matrix(t, 4, side, t->rows, CLASSES)
static ft_status cross_entropy(test *t, int side) { RUN(cross_entropy, LOGITS_AND_LOSSES, .labels = t->at[1][side]); }
static ft_status weighted_cross_entropy(test *t, int side) {
    RUN(weighted_cross_entropy, LOGITS_AND_LOSSES, .labels = t->at[1][side], .smoothing = 0.1f);
}
static ft_status binary_cross_entropy(test *t, int side) {
    RUN(binary_cross_entropy, LOGITS_AND_LOSSES, .targets = matrix(t, 5, side, t->rows, CLASSES), .gamma = 2);
}
static ft_status squared_error(test *t, int side) {
    RUN(squared_error, LOGITS_AND_LOSSES, .targets = matrix(t, 5, side, t->rows, CLASSES));
}

static void update_setup(test *t) {
    ft_update_state update = {
        .count = 3, .norm = 1, .correction1 = 0.3, .correction2 = 0.004, .clip = 0.5f, .finite = 1};
    add_step(t);
    add_bytes(t, sizeof update, FT_U8, &update);
    int64_t n = t->rows * t->cols;
    for (int i = 0; i < 3; i++)
        add_floats(t, n, 0, 1);
    add_floats(t, n, 1, 0.5); // of squares
    add_rows(t, n, 0, 1);     // 6: the copy, in 16 bits
    t->moved = (4.0 * 7 + (t->type != FT_F32 ? 2 : 0)) * (double)n;
}
static const ft_adamw_hyper hyper = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .max_gradient_norm = 1};
static ft_status gradient_norm(test *t, int side) {
    RUN(gradient_norm, .gradient = vector(t, 3, side, t->rows * t->cols), .hyper = hyper, .step = t->at[0][side],
        .growth_interval = 2000, .update = t->at[1][side]);
}
static ft_status adamw(test *t, int side) {
    int64_t n = t->rows * t->cols;
    const ft_adamw_range ranges[] = {{0, n / 3 / 4 * 4, 0.01f, 1}, {n / 3 / 4 * 4, n - n / 3 / 4 * 4, 0, 0.5f}};
    RUN(adamw, .parameter = vector(t, 2, side, n), .gradient = vector(t, 3, side, n), .m = vector(t, 4, side, n),
        .v = vector(t, 5, side, n), .compute = t->type != FT_F32 ? vector(t, 6, side, n) : ft_absent(),
        .ranges = ranges, .range_count = 2, .hyper = hyper, .step = t->at[0][side], .update = t->at[1][side]);
}

static void decay_setup(test *t) {
    enum { STEPS = 1000 };
    int64_t n = t->rows * t->cols;
    add_floats(t, n, 0, 1);
    add_floats(t, STEPS, 1, 1e-6);
    t->flops = (double)STEPS * (double)n;
    t->moved = 4.0 * 2 * (double)n;
}
static ft_status decay(test *t, int side) {
    RUN(decay, .parameter = vector(t, 0, side, t->rows * t->cols), .factors = t->at[1][side], .count = 1000);
}

enum { ROWS, FLOATS, HALVES }; // which types an op has: all three, fp32 alone, 16 bits alone
static const struct op {
    const char *name;
    setup_function *setup;
    run_function *run;
    double tolerance; // of an element in fp32, relative to the largest of its buffer
    int types;
    int units; // of 16 bits: in the last place, that both may be apart beyond the tolerance, of the largest element
} ops[] = {
    {"gemm_forward", gemm_setup, gemm_forward, 5e-6, ROWS, 1},
    {"gemm_input_gradient", gemm_setup, gemm_input, 5e-6, ROWS, 1},
    {"gemm_weight_gradient", gemm_setup, gemm_weight, 5e-6, ROWS, 0},
    {"column_sum", column_sum_setup, column_sum, 5e-6, ROWS, 0},
    {"embedding_forward", embedding_setup, embedding_forward, 0, ROWS, 0},
    {"embedding_backward", embedding_setup, embedding_backward, 2e-6, ROWS, 0},
    {"layernorm_forward", layernorm_forward_setup, layernorm_forward, 2e-6, ROWS, 1},
    {"layernorm_backward", layernorm_backward_setup, layernorm_backward, 5e-6, ROWS, 1},
    {"activation_forward", activation_setup, activation_forward, 5e-7, ROWS, 1},
    {"activation_backward", activation_setup, activation_backward, 5e-6, ROWS, 1},
    {"attention_forward", attention_setup, attention_forward, 5e-6, ROWS, 4}, // tensor cores take rounded probabilities
    {"attention_backward", attention_backward_setup, attention_backward, 1e-5, ROWS, 8},
    {"disentangled_forward", disentangled_setup, disentangled_forward, 5e-6, ROWS, 4},
    {"disentangled_backward", disentangled_backward_setup, disentangled_backward, 1e-5, ROWS, 8},
    {"dropout", rows_setup, dropout, 0, ROWS, 0},
    {"gather_rows", rows_setup, gather_rows, 0, ROWS, 0},
    {"scatter_rows_add", rows_setup, scatter_rows_add, 0, ROWS, 0},
    {"unfold", unfold_setup, unfold, 0, ROWS, 0},
    {"fold_add", unfold_setup, fold_add, 0, ROWS, 0},
    {"cast_to_fp32", cast_setup, cast_to_fp32, 0, HALVES, 0},
    {"cast_to_16_bits", cast_setup, cast_to_16_bits, 0, HALVES, 0},
    {"cross_entropy", losses_setup, cross_entropy, 2e-6, FLOATS, 0},
    {"weighted_cross_entropy", losses_setup, weighted_cross_entropy, 2e-6, FLOATS, 0},
    {"binary_cross_entropy", losses_setup, binary_cross_entropy, 2e-6, FLOATS, 0},
    {"squared_error", losses_setup, squared_error, 2e-6, FLOATS, 0},
    {"gradient_norm", update_setup, gradient_norm, 2e-6, FLOATS, 0},
    {"adamw", update_setup, adamw, 2e-6, ROWS, 1},
    {"decay", decay_setup, decay, 0, FLOATS, 0},
};
enum { OPS = sizeof ops / sizeof *ops };

// ---- judging ----------------------------------------------------------------------------------------------------

static double off_of_states(const void *got, const void *want) {
    ft_update_state a, b;
    memcpy(&a, got, sizeof a);
    memcpy(&b, want, sizeof b);
    return fabs(a.norm - b.norm) + fabs((double)a.clip - (double)b.clip) + (double)(a.finite != b.finite) +
           (double)(a.count != b.count) + (double)(a.loss_scale != b.loss_scale) +
           (double)(a.finite_steps != b.finite_steps) + (double)(a.skipped != b.skipped);
}

// Number k of a buffer. Integers must be equal, which they are as the floats of their bits too.
static float number_of(ft_dtype dtype, const void *data, size_t k) {
    uint16_t bits;
    float x;
    if (!ft_is_half(dtype)) return memcpy(&x, (const float *)data + k, sizeof x), x;
    memcpy(&bits, (const uint16_t *)data + k, sizeof bits);
    return dtype == FT_BF16 ? ft_from_bf16(bits) : ft_from_fp16(bits);
}

// What an element may be off by, relative to the largest of its buffer: the tolerance of fp32, and units in the last
// place where rows are 16 bits. (Sums in fp32 over rows that may be apart are, too.)
static double allowed_of(const struct op *op, ft_dtype type) {
    return op->tolerance + (ft_is_half(type) ? op->units * ldexp(1, type == FT_BF16 ? -7 : -10) : 0);
}

static bool agrees(test *t, const struct op *op, double *worst) {
    bool good = true;
    *worst = 0;
    for (int i = 0; i < t->count; i++) {
        void *got = malloc(t->bytes[i] + 1);
        if (got == NULL) need(ft_fail_memory(t->bytes[i], "a result"));
        need(t->device[GPU]->functions->download(t->device[GPU], got, t->at[i][GPU], t->bytes[i]));
        need(t->device[GPU]->functions->sync(t->device[GPU]));
        const void *want = t->at[i][CPU];
        double most = 1e-30, off = 0;
        if (t->dtype[i] == FT_U8) {
            if (t->bytes[i] == sizeof(ft_update_state)) off = off_of_states(got, want);
            most = 1;
        } else {
            for (size_t k = 0; k < t->bytes[i] / ft_dtype_size(t->dtype[i]); k++) {
                const float x = number_of(t->dtype[i], got, k), y = number_of(t->dtype[i], want, k);
                double b = (double)y, d = memcmp(&x, &y, sizeof x) == 0 ? 0 : fabs((double)x - b);
                if (!(d <= off)) off = isnan(d) ? INFINITY : d;
                if (fabs(b) > most && isfinite(b)) most = fabs(b);
            }
        }
        // Only what is 16 bits, or comes from attention's rounded probabilities, may be apart by their units.
        const ft_dtype unit = op->units > 1 ? t->type : t->dtype[i];
        good = good && off / most <= allowed_of(op, unit);
        if (off / most > *worst) *worst = off / most;
        free(got);
    }
    return good;
}

static void release(test *t) {
    for (int i = 0; i < t->count; i++)
        for (int side = 0; side < 2; side++)
            t->device[side]->functions->buffer_free(t->device[side], t->at[i][side], t->bytes[i]);
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

// Seconds of one run: of as many as take a tenth of a second, queued together.
static double time_of(const struct op *op, test *t) {
    ft_device *gpu = t->device[GPU];
    for (int64_t times = 3;; times *= 4) {
        need(gpu->functions->sync(gpu));
        double begun = now();
        for (int64_t i = 0; i < times; i++)
            need(op->run(t, GPU));
        need(gpu->functions->sync(gpu));
        double took = now() - begun;
        if (took > 0.1 || times > 100000) return took / (double)times;
    }
}

static const ft_dtype types[] = {FT_F32, FT_BF16, FT_F16};
enum { TYPES = sizeof types / sizeof *types };
static int type_from_name(const char *name) { // -1: none of them
    for (int i = 0; i < TYPES; i++)
        if (strcmp(name, ft_dtype_name(types[i])) == 0) return i;
    return -1;
}
static bool has_type(const struct op *op, ft_dtype type) {
    return op->types == ROWS || (op->types == FLOATS) == (type == FT_F32);
}

typedef struct report {
    FILE *csv, *json;
    int cases, wrong;
} report;

static void one(report *r, const struct op *op, ft_dtype type, ft_device *cpu, ft_device *gpu, const int64_t shape[3],
                bool timed) {
    test t = {.rows = shape[0], .cols = shape[1], .inner = shape[2], .type = type, .device = {cpu, gpu}};
    op->setup(&t);
    need(op->run(&t, GPU));
    need(op->run(&t, CPU));
    double worst;
    const bool good = agrees(&t, op, &worst);
    double seconds = timed ? time_of(op, &t) : 0;
    double gb = timed ? t.moved / seconds * 1e-9 : 0, tf = timed ? t.flops / seconds * 1e-12 : 0;
    printf("%-22s %s %6lld x %-5lld %-5s %9.2e", op->name, ft_dtype_name(type), (long long)shape[0],
           (long long)shape[1], good ? "ok" : "WRONG", worst);
    if (timed) printf("  %9.1f us  %7.0f GB/s  %7.1f TFLOP/s", seconds * 1e6, gb, tf);
    printf("\n");
    if (r->csv != NULL)
        fprintf(r->csv, "%s,%s,%lld,%lld,%lld,%d,%.3e,%.1e,%.3f,%.1f,%.2f\n", op->name, ft_dtype_name(type),
                (long long)shape[0], (long long)shape[1], (long long)shape[2], good, worst, allowed_of(op, type),
                seconds * 1e6, gb, tf);
    if (r->json != NULL)
        fprintf(r->json,
                "%s\n  {\"op\": \"%s\", \"type\": \"%s\", \"rows\": %lld, \"cols\": %lld, \"inner\": %lld, \"right\": "
                "%s, \"error\": "
                "%.3e, \"tolerance\": %.1e, "
                "\"microseconds\": %.3f, \"gb_per_second\": %.1f, \"tflop_per_second\": %.2f}",
                r->cases > 0 ? "," : "", op->name, ft_dtype_name(type), (long long)shape[0], (long long)shape[1],
                (long long)shape[2], good ? "true" : "false", isfinite(worst) ? worst : 1e30, allowed_of(op, type),
                seconds * 1e6, gb, tf);
    r->cases++;
    r->wrong += !good;
    release(&t);
}

static FILE *open_file(const char *path) {
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (path != NULL && file == NULL) need(ft_fail(FT_FAILED, path, "cannot be written"));
    return file;
}

int main(int argc, char **argv) {
    const char *csv = NULL, *json = NULL, *names[OPS];
    int64_t tokens = 16384;
    int named = 0, only = -1;
    bool timed = false;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--time") == 0)
            timed = true;
        else if (strcmp(argv[i], "--csv") == 0 && more)
            csv = argv[++i];
        else if (strcmp(argv[i], "--json") == 0 && more)
            json = argv[++i];
        else if (strcmp(argv[i], "--tokens") == 0 && more)
            tokens = strtoll(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--type") == 0 && more && type_from_name(argv[i + 1]) >= 0)
            only = type_from_name(argv[++i]);
        else if (argv[i][0] != '-' && named < OPS)
            names[named++] = argv[i];
        else
            return fprintf(stderr,
                           "usage: gpu_ops [--time] [--tokens N] [--type fp32|bf16|fp16] [--csv FILE] [--json FILE] "
                           "[OP...]\n"),
                   2;
    }
    ft_device *cpu, *gpu;
    need(ft_cuda_open_with_kernels(0, &gpu));
    need(ft_cpu_open(0, NULL, &cpu));
    report r = {.csv = open_file(csv), .json = open_file(json)};
    printf("%s beside %s\n", gpu->description, cpu->description);
    if (r.csv != NULL)
        fprintf(r.csv, "op,type,rows,cols,inner,right,error,tolerance,microseconds,gb_per_second,tflop_per_second\n");
    if (r.json != NULL) fprintf(r.json, "{\"device\": \"%s\", \"cases\": [", gpu->description);
    // Odd sizes, one token, whole units; then BERT-base's.
    const int64_t small[][3] = {{1, 8, 5}, {33, 40, 17}, {130, 63, 33}, {257, 128, 64}}, large[3] = {tokens, 768, 768};
    for (int i = 0; i < OPS; i++) {
        bool wanted = named == 0;
        for (int k = 0; k < named; k++)
            wanted = wanted || strcmp(names[k], ops[i].name) == 0;
        for (int type = 0; wanted && type < TYPES; type++) {
            if (!has_type(&ops[i], types[type]) || (only >= 0 && only != type)) continue;
            for (size_t s = 0; s < sizeof small / sizeof *small; s++)
                one(&r, &ops[i], types[type], cpu, gpu, small[s], false);
            if (timed) one(&r, &ops[i], types[type], cpu, gpu, large, true);
        }
    }
    if (r.json != NULL) fprintf(r.json, "\n]}\n");
    if ((r.csv != NULL && fclose(r.csv) != 0) || (r.json != NULL && fclose(r.json) != 0))
        need(ft_fail(FT_FAILED, NULL, "the results cannot be written"));
    for (int side = 0; side < 2; side++)
        if (kept[side].data != NULL)
            (side == CPU ? cpu : gpu)
                ->functions->buffer_free(side == CPU ? cpu : gpu, kept[side].data, kept[side].bytes);
    ft_device_close(gpu);
    ft_device_close(cpu);
    printf("%d cases, %d wrong\n", r.cases, r.wrong);
    if (r.cases == 0) return fprintf(stderr, "gpu_ops: no op has that name\n"), 2;
    return r.wrong > 0;
}
