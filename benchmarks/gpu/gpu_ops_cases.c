// gpu_ops_cases.c - the ops: buffers in order, then one run.
#include "benchmarks/gpu/gpu_ops.h"
#include "kernels/half.h"
#include "kernels/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 7 };

// ---- buffers ----------------------------------------------------------------------------------------------------

static uint64_t seed = 1;
static double uniform(void) { return (double)(ft_splitmix64(++seed) >> 11) * 0x1p-53; }

int gpu_ops_add_bytes(test *t, size_t bytes, ft_dtype dtype, const void *from) {
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

int gpu_ops_add_numbers(test *t, ft_dtype dtype, int64_t n, double mean, double spread) {
    float *host = malloc((size_t)n * sizeof *host + 1);
    uint16_t *half = malloc((size_t)n * sizeof *half + 1);
    if (host == NULL || half == NULL) need(ft_fail_memory((size_t)n * 6, "a test's numbers"));
    for (int64_t i = 0; i < n; i++)
        host[i] = (float)(mean + spread * (2 * uniform() - 1));
    if (ft_is_half(dtype)) ft_narrow(dtype, host, half, n);
    int added = gpu_ops_add_bytes(t, (size_t)n * ft_dtype_size(dtype), dtype, ft_is_half(dtype) ? (void *)half : (void *)host);
    free(host);
    free(half);
    return added;
}
static int add_floats(test *t, int64_t n, double mean, double spread) {
    return gpu_ops_add_numbers(t, FT_F32, n, mean, spread);
}
static int add_rows(test *t, int64_t n, double mean, double spread) { return gpu_ops_add_numbers(t, t->type, n, mean, spread); }

// limit > 0: below it, at random; 0: the number of the place; < 0: the place within pieces of so many.
static int add_integers(test *t, int64_t n, int64_t limit) {
    int32_t *host = malloc((size_t)n * sizeof *host + 1);
    if (host == NULL) need(ft_fail_memory((size_t)n * sizeof *host, "a test's numbers"));
    for (int64_t i = 0; i < n; i++)
        host[i] = (int32_t)(limit > 0 ? (double)limit * uniform() : limit == 0 ? (double)i : (double)(i % -limit));
    int added = gpu_ops_add_bytes(t, (size_t)n * sizeof *host, FT_I32, host);
    free(host);
    return added;
}

static int add_step(test *t) {
    ft_step_state step = {.seed = 7, .step = 3, .learning_rate = 1e-3f, .loss_factor = 0.125f, .loss_scale = 1};
    return gpu_ops_add_bytes(t, sizeof step, FT_U8, &step);
}

// Where sequences begin: t->length tokens each or ragged, the last one what is left.
static int length_of(const test *t, int sequence) {
    const int ragged[] = {t->length * 3 / 5, 1, t->length, 20};
    return t->layout == EVEN ? t->length : ragged[sequence % 4];
}
static int sequences_of(const test *t) {
    int n = 0;
    for (int64_t begins = 0; begins < t->rows; n++)
        begins += length_of(t, n);
    return n;
}
static int add_bounds(test *t) {
    int n = sequences_of(t);
    int32_t *host = malloc(((size_t)n + 1) * sizeof *host);
    if (host == NULL) need(ft_fail_memory(0, "bounds"));
    for (int64_t i = 0, begins = 0; i <= n; begins += length_of(t, (int)i++))
        host[i] = (int32_t)(begins < t->rows ? begins : t->rows);
    int added = gpu_ops_add_bytes(t, ((size_t)n + 1) * sizeof *host, FT_I32, host);
    free(host);
    return added;
}

static ft_tensor matrix(const test *t, int i, int side, int64_t rows, int64_t cols) {
    return ft_matrix(t->at[i][side], rows, cols, t->dtype[i]);
}
static ft_tensor vector(const test *t, int i, int side, int64_t n) { return ft_vector(t->at[i][side], n, t->dtype[i]); }

// One scratch a side.
static ft_workspace kept[2];
ft_workspace gpu_ops_scratch(ft_device *device, int side, size_t bytes) {
    if (bytes > kept[side].bytes) {
        if (kept[side].data != NULL) device->functions->buffer_free(device, kept[side].data, kept[side].bytes);
        need(device->functions->buffer_alloc(device, bytes, &kept[side].data));
        kept[side].bytes = bytes;
    }
    return kept[side];
}

#define RUN(op, ...)                                                                                                   \
    ft_##op##_args args = {__VA_ARGS__};                                                                               \
    ft_device *device = t->device[side];                                                                               \
    args.workspace = gpu_ops_scratch(device, side, ft_##op##_workspace(&device->target, &args));                               \
    return FT_RUN(device, op, &args)

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
    add_integers(t, t->rows, -t->length);
    many(t, 3, (int64_t[]){WORDS * t->cols, POSITIONS * t->cols, t->rows * t->cols});
    add_floats(t, WORDS * t->cols, 0, 1);
    int32_t *order = malloc(2 * (size_t)t->rows * sizeof *order + 1);
    if (order == NULL) need(ft_fail_memory((size_t)t->rows * sizeof *order, "an order"));
    ft_embedding_order(t->at[0][CPU], (int32_t)t->rows, order, order + t->rows);
    gpu_ops_add_bytes(t, (size_t)t->rows * sizeof *order, FT_I32, order); // 6
    free(order);
    t->moved = bytes_of(t, 3 * (double)t->rows * (double)t->cols);
}
static ft_status embedding_forward(test *t, int side) {
    RUN(embedding_forward, .word_ids = t->at[0][side], .position_ids = t->at[1][side],
        .word = matrix(t, 2, side, WORDS, t->cols), .position = matrix(t, 3, side, POSITIONS, t->cols),
        .out = matrix(t, 4, side, t->rows, t->cols));
}
static ft_status embedding_backward(test *t, int side) {
    RUN(embedding_backward, .ids = t->at[0][side], .order = t->at[6][side], .dout = matrix(t, 4, side, t->rows, t->cols),
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
    add_integers(t, t->rows, -t->length);
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

// The product of two halves that are side by side.
static void gated_setup(test *t) {
    const int64_t n = t->rows * t->cols;
    many(t, 4, (int64_t[]){2 * n, n, 2 * n, n}); // h y dx dy
}
static void gated_forward_setup(test *t) {
    gated_setup(t);
    t->moved = bytes_of(t, 3 * (double)t->rows * (double)t->cols);
}
static void gated_backward_setup(test *t) {
    gated_setup(t);
    t->moved = bytes_of(t, 6 * (double)t->rows * (double)t->cols);
}
static ft_status gated_forward(test *t, int side) {
    RUN(gated_forward, .kind = FT_ACT_GELU, .x = matrix(t, 0, side, t->rows, 2 * t->cols), .y = matrix(t, 1, side, t->rows, t->cols));
}
static ft_status gated_backward(test *t, int side) {
    RUN(gated_backward, .kind = FT_ACT_GELU, .h = matrix(t, 0, side, t->rows, 2 * t->cols), .dy = matrix(t, 3, side, t->rows, t->cols),
        .dx = matrix(t, 2, side, t->rows, 2 * t->cols), .y = matrix(t, 1, side, t->rows, t->cols));
}

// In place; of heads of 64, or of one of all columns but an odd one.
static int64_t turned_of(const test *t) { return t->cols % 64 == 0 ? 64 : t->cols / 2 * 2; }
static void rope_setup(test *t) {
    add_integers(t, t->rows, -t->length);
    add_rows(t, t->rows * t->cols, 0, 1);
    add_floats(t, t->length * turned_of(t), 0, 1);
    t->moved = bytes_of(t, 2 * (double)t->rows * (double)t->cols);
}
static ft_status rope(test *t, int side) {
    const int64_t d = turned_of(t);
    RUN(rope, .head_dim = (int32_t)d, .position = t->at[0][side], .table = matrix(t, 2, side, t->length, d),
        .x = ft_columns(matrix(t, 1, side, t->rows, t->cols), 0, t->cols / d * d));
}

static int heads_of(const test *t) { // of t->inner, else of 64, or one odd head
    const bool inner = t->inner <= 256 && t->cols % t->inner == 0;
    return (int)(inner ? t->cols / t->inner : t->cols % 64 == 0 ? t->cols / 64 : 1);
}
static int64_t queries_of(const test *t) { return t->layout == FIRST_TOKENS ? sequences_of(t) : t->rows; }
static void attention_setup(test *t) {
    add_step(t);
    add_bounds(t);
    add_integers(t, sequences_of(t), 0);
    const int64_t n = t->rows * t->cols, queries = queries_of(t);
    many(t, 2, (int64_t[]){3 * n, queries * t->cols}); // 3: qkv out
    add_floats(t, queries * heads_of(t), 0, 1);        // 5: lse
    many(t, 2, (int64_t[]){queries * t->cols, 3 * n}); // 6: dout, gradients of qkv
    double keys = t->rows < t->length ? (double)t->rows : t->length, band = 2.0 * t->window + 1;
    double pairs = (double)t->rows * (t->window > 0 && band < keys ? band : keys);
    t->flops = 4.0 * pairs * (double)t->cols;
    t->moved = bytes_of(t, 4 * (double)n);
}
static ft_attention_shape shape_of(const test *t, int side) {
    const int heads = heads_of(t);
    return (ft_attention_shape){.heads = heads,
                                .head_dim = (int)(t->cols / heads),
                                .sequences = sequences_of(t),
                                .max_queries = t->length,
                                .max_keys = t->length,
                                .cu_queries = t->at[1][side],
                                .cu_keys = t->at[1][side],
                                .scale = 1.0f / sqrtf((float)(t->cols / heads)),
                                .window = t->window,
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

// The same where tokens see 64 to each side, as ModernBERT's local layers do.
static void window_setup(test *t) {
    t->window = 64;
    attention_setup(t);
}
static void window_backward_setup(test *t) {
    t->window = 64;
    attention_backward_setup(t);
}

// The same with positions, also of ragged sequences and of their first tokens alone: 3: qkv, out, lse, dout and gradients as above. Both terms as in DeBERTa v3, but heads of 32 have those
// of keys alone, heads of 96 those of queries, and heads of 128 have v1's rule.
enum { BUCKETS = 256, FURTHEST = 512 };
static int head_size(const test *t) { return (int)t->cols / heads_of(t); }
static bool has_table(const test *t, bool of_queries) { return head_size(t) != (of_queries ? 32 : 96); }
static ft_relative_rule rule_of(const test *t) { return (ft_relative_rule){head_size(t) == 128 ? 0 : BUCKETS, FURTHEST}; }
static void disentangled_setup(test *t) {
    const ft_relative_rule rule = rule_of(t);
    int32_t slots[2 * LONG - 1]; // the first 2 t->length - 1
    attention_setup(t);
    ft_relative_slots(rule, t->length - 1, slots);
    gpu_ops_add_bytes(t, (size_t)(2 * t->length - 1) * sizeof *slots, FT_I32, slots); // 8
    int64_t n = 2 * ft_relative_span(rule) * t->cols;
    many(t, 2, (int64_t[]){n, n}); // 9: tables of keys and of queries
    add_floats(t, n, 0, 1);        // 11: their gradients
    add_floats(t, n, 0, 1);
    if (t->layout == FIRST_TOKENS) { // 13: q, its gradient, where the queries of a sequence begin
        const int64_t pooled = queries_of(t) * t->cols;
        many(t, 2, (int64_t[]){pooled, pooled});
        add_integers(t, queries_of(t) + 1, 0);
    }
    t->flops *= 2; // each term of positions as much as a product of scores, at this length
}
static ft_disentangled_shape disentangled_shape_of(const test *t, int side) {
    ft_disentangled_shape shape = {.attention = shape_of(t, side), .reach = t->length - 1, .slots = t->at[8][side]};
    shape.attention.scale /= sqrtf((float)(1 + has_table(t, false) + has_table(t, true)));
    if (t->layout != FIRST_TOKENS) return shape;
    shape.attention.max_queries = 1;
    shape.attention.cu_queries = t->at[15][side];
    return shape;
}
static ft_tensor query_rows(const test *t, int side, int pooled, int all) { // in their own buffer, or a third of the one of all three
    return t->layout == FIRST_TOKENS ? matrix(t, pooled, side, queries_of(t), t->cols) : third(t, all, side, 0);
}
static ft_tensor table_of(const test *t, int i, int side) { // of keys: 9, 11; of queries: 10, 12
    return has_table(t, i % 2 == 0) ? matrix(t, i, side, 2 * ft_relative_span(rule_of(t)), t->cols) : ft_absent();
}
static ft_status disentangled_forward(test *t, int side) {
    ft_disentangled_shape shape = disentangled_shape_of(t, side);
    RUN(disentangled_attention_forward, .shape = shape, .q = query_rows(t, side, 13, 3), .k = third(t, 3, side, 1),
        .v = third(t, 3, side, 2), .pos_key = table_of(t, 9, side), .pos_query = table_of(t, 10, side),
        .out = matrix(t, 4, side, queries_of(t), t->cols), .lse = matrix(t, 5, side, queries_of(t), shape.attention.heads));
}
// out and lse are the forward's, of this very side.
static ft_status disentangled_backward(test *t, int side) {
    ft_disentangled_shape shape = disentangled_shape_of(t, side);
    RUN(disentangled_attention_backward, .shape = shape, .q = query_rows(t, side, 13, 3), .k = third(t, 3, side, 1),
        .v = third(t, 3, side, 2), .pos_key = table_of(t, 9, side), .pos_query = table_of(t, 10, side),
        .out = matrix(t, 4, side, queries_of(t), t->cols), .lse = matrix(t, 5, side, queries_of(t), shape.attention.heads),
        .dout = matrix(t, 6, side, queries_of(t), t->cols), .dq = query_rows(t, side, 14, 7), .dk = third(t, 7, side, 1),
        .dv = third(t, 7, side, 2), .dpos_key = table_of(t, 11, side), .dpos_query = table_of(t, 12, side));
}
static void disentangled_backward_setup(test *t) {
    disentangled_setup(t);
    for (int side = 0; side < 2; side++)
        need(disentangled_forward(t, side));
    t->flops *= 3;
}
static void ragged_setup(test *t) {
    t->layout = RAGGED;
    disentangled_setup(t);
}
static void ragged_backward_setup(test *t) {
    t->layout = RAGGED;
    disentangled_backward_setup(t);
}
static void pooled_setup(test *t) {
    t->layout = FIRST_TOKENS;
    disentangled_setup(t);
}
static void pooled_backward_setup(test *t) {
    t->layout = FIRST_TOKENS;
    disentangled_backward_setup(t);
}

static void rows_setup(test *t) {
    add_step(t);
    add_integers(t, t->rows, 0);
    add_integers(t, t->rows, -t->length);
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

static void mean_setup(test *t) {
    const int64_t sequences = sequences_of(t);
    add_bounds(t);
    many(t, 2, (int64_t[]){t->rows * t->cols, sequences * t->cols});
    add_floats(t, sequences * t->cols, 0, 1); // 3: gradients of means, of rows
    add_floats(t, t->rows * t->cols, 0, 1);
    t->moved = bytes_of(t, (double)t->rows * (double)t->cols);
}
static void mean_backward_setup(test *t) {
    mean_setup(t);
    t->moved = 4.0 * (double)t->rows * (double)t->cols;
}
static ft_status sequence_mean_forward(test *t, int side) {
    RUN(sequence_mean_forward, .sequences = sequences_of(t), .cu_seqlens = t->at[0][side], .x = matrix(t, 1, side, t->rows, t->cols),
        .y = matrix(t, 2, side, sequences_of(t), t->cols));
}
static ft_status sequence_mean_backward(test *t, int side) {
    RUN(sequence_mean_backward, .sequences = sequences_of(t), .cu_seqlens = t->at[0][side], .dy = matrix(t, 3, side, sequences_of(t), t->cols),
        .dx = matrix(t, 4, side, t->rows, t->cols));
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

static void dequantise_setup(test *t) {
    const ft_quantised_layout l = ft_quantised_layout_of(FT_NF4_DOUBLE, t->rows, t->cols);
    const int64_t n = t->rows * t->cols;
    float *numbers = malloc((size_t)n * sizeof *numbers + 1);
    void *buffer = malloc(l.bytes);
    if (numbers == NULL || buffer == NULL) need(ft_fail_memory(l.bytes, "a test's matrix"));
    for (int64_t i = 0; i < n; i++) numbers[i] = (float)(2 * uniform() - 1);
    need(ft_quantise(FT_NF4_DOUBLE, t->rows, t->cols, numbers, buffer));
    gpu_ops_add_bytes(t, l.bytes, FT_U8, buffer);
    add_rows(t, n, 0, 1);
    t->moved = (double)l.bytes + (double)n * (double)ft_dtype_size(t->type);
    free(numbers);
    free(buffer);
}
static ft_status dequantise(test *t, int side) {
    const int64_t bytes = (int64_t)ft_quantised_layout_of(FT_NF4_DOUBLE, t->rows, t->cols).bytes;
    RUN(dequantise, .format = FT_NF4_DOUBLE, .x = ft_vector(t->at[0][side], bytes, FT_U8), .y = matrix(t, 1, side, t->rows, t->cols));
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
static void spans_setup(test *t) {
    losses_setup(t);
    add_bounds(t); // 6
}
static ft_status span_cross_entropy(test *t, int side) {
    RUN(span_cross_entropy, LOGITS_AND_LOSSES, .sequences = sequences_of(t), .cu_rows = t->at[6][side], .marks = t->at[1][side]);
}
static ft_status squared_error(test *t, int side) {
    RUN(squared_error, LOGITS_AND_LOSSES, .targets = matrix(t, 5, side, t->rows, CLASSES));
}

static void update_setup(test *t) {
    ft_update_state update = {
        .count = 3, .norm = 1, .correction1 = 0.3, .correction2 = 0.004, .clip = 0.5f, .finite = 1};
    add_step(t);
    gpu_ops_add_bytes(t, sizeof update, FT_U8, &update);
    int64_t n = t->rows * t->cols;
    for (int i = 0; i < 3; i++)
        add_floats(t, n, 0, 1);
    add_floats(t, n, 1, 0.5); // of squares
    add_rows(t, n, 0, 1);     // 6: the copy in fp16, or first halves of pairs
    uint16_t *tails = malloc((size_t)n * sizeof *tails + 1);
    if (tails == NULL) need(ft_fail_memory((size_t)n * sizeof *tails, "a test's numbers"));
    for (int64_t i = 0; i < n; i++)
        tails[i] = (uint16_t)(65536 * uniform());
    const int added = gpu_ops_add_bytes(t, (size_t)n * sizeof *tails, FT_U8, tails); // 7
    if (t->type == FT_BF16) t->tails = added;
    free(tails);
    t->moved = (4.0 * 7 + (t->type == FT_F16 ? 2 : 0)) * (double)n;
}
static const ft_adamw_hyper hyper = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .max_gradient_norm = 1};
static ft_status gradient_norm(test *t, int side) {
    RUN(gradient_norm, .gradient = vector(t, 3, side, t->rows * t->cols), .hyper = hyper, .step = t->at[0][side],
        .growth_interval = 2000, .update = t->at[1][side]);
}
static ft_status adamw(test *t, int side) {
    int64_t n = t->rows * t->cols;
    const ft_adamw_range ranges[] = {{0, n / 3 / 4 * 4, 0.01f, 1, NULL}, {n / 3 / 4 * 4, n - n / 3 / 4 * 4, 0, 0.5f, NULL}};
    RUN(adamw, .parameter = vector(t, t->type == FT_BF16 ? 6 : 2, side, n), .tail = t->type == FT_BF16 ? t->at[7][side] : NULL,
        .compute = t->type == FT_F16 ? vector(t, 6, side, n) : ft_absent(), .gradient = vector(t, 3, side, n),
        .m = vector(t, 4, side, n), .v = vector(t, 5, side, n), .ranges = ranges, .range_count = 2, .hyper = hyper, .step = t->at[0][side], .update = t->at[1][side]);
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

const gpu_op gpu_ops[] = {
    {"gemm_forward", gemm_setup, gemm_forward, 5e-6, ROWS, 1},
    {"gemm_input_gradient", gemm_setup, gemm_input, 5e-6, ROWS, 1},
    {"gemm_weight_gradient", gemm_setup, gemm_weight, 5e-6, ROWS, 0},
    {"segment_forward", gpu_ops_segment_product_setup, gpu_ops_segment_forward, 5e-6, ROWS, 1},
    {"segment_weight_gradient", gpu_ops_segment_product_setup, gpu_ops_segment_weight, 5e-6, ROWS, 0},
    {"column_sum", column_sum_setup, column_sum, 5e-6, ROWS, 0},
    {"embedding_forward", embedding_setup, embedding_forward, 0, ROWS, 0},
    {"embedding_backward", embedding_setup, embedding_backward, 2e-6, ROWS, 0},
    {"layernorm_forward", layernorm_forward_setup, layernorm_forward, 2e-6, ROWS, 1},
    {"layernorm_backward", layernorm_backward_setup, layernorm_backward, 5e-6, ROWS, 1},
    {"activation_forward", activation_setup, activation_forward, 5e-7, ROWS, 1},
    {"activation_backward", activation_setup, activation_backward, 5e-6, ROWS, 1},
    {"gated_forward", gated_forward_setup, gated_forward, 5e-7, ROWS, 1},
    {"gated_backward", gated_backward_setup, gated_backward, 5e-6, ROWS, 1},
    {"rope", rope_setup, rope, 5e-7, ROWS, 1},
    {"attention_forward", attention_setup, attention_forward, 5e-6, ROWS, 4}, // tensor cores take rounded probabilities
    {"attention_backward", attention_backward_setup, attention_backward, 1e-5, ROWS, 8},
    {"attention_window_forward", window_setup, attention_forward, 5e-6, ROWS, 4},
    {"attention_window_backward", window_backward_setup, attention_backward, 1e-5, ROWS, 8},
    {"disentangled_forward", disentangled_setup, disentangled_forward, 5e-6, ROWS, 4},
    {"disentangled_backward", disentangled_backward_setup, disentangled_backward, 1e-5, ROWS, 8},
    {"disentangled_forward_ragged", ragged_setup, disentangled_forward, 5e-6, ROWS_UNTIMED, 4},
    {"disentangled_backward_ragged", ragged_backward_setup, disentangled_backward, 1e-5, ROWS_UNTIMED, 8},
    {"disentangled_forward_pooled", pooled_setup, disentangled_forward, 5e-6, ROWS_UNTIMED, 4},
    {"disentangled_backward_pooled", pooled_backward_setup, disentangled_backward, 1e-5, ROWS_UNTIMED, 8},
    {"dropout", rows_setup, dropout, 0, ROWS, 0},
    {"gather_rows", rows_setup, gather_rows, 0, ROWS, 0},
    {"scatter_rows_add", rows_setup, scatter_rows_add, 0, ROWS, 0},
    {"sequence_mean_forward", mean_setup, sequence_mean_forward, 2e-6, ROWS, 1},
    {"sequence_mean_backward", mean_backward_setup, sequence_mean_backward, 5e-7, FLOATS, 0},
    {"unfold", unfold_setup, unfold, 0, ROWS, 0},
    {"fold_add", unfold_setup, fold_add, 0, ROWS, 0},
    {"cast_to_fp32", cast_setup, cast_to_fp32, 0, HALVES, 0},
    {"cast_to_16_bits", cast_setup, cast_to_16_bits, 0, HALVES, 0},
    {"dequantise", dequantise_setup, dequantise, 0, ROWS, 0},
    {"row_norm", gpu_ops_row_norm_setup, gpu_ops_row_norm, 2e-6, ROWS, 0},
    {"column_scale", gpu_ops_column_scale_setup, gpu_ops_column_scale, 2e-6, ROWS, 1},
    {"column_scale_times", gpu_ops_column_scale_setup, gpu_ops_column_scale_times, 2e-6, ROWS, 1},
    {"cross_entropy", losses_setup, cross_entropy, 2e-6, FLOATS, 0},
    {"weighted_cross_entropy", losses_setup, weighted_cross_entropy, 2e-6, FLOATS, 0},
    {"binary_cross_entropy", losses_setup, binary_cross_entropy, 2e-6, FLOATS, 0},
    {"span_cross_entropy", spans_setup, span_cross_entropy, 2e-6, FLOATS, 0},
    {"squared_error", losses_setup, squared_error, 2e-6, FLOATS, 0},
    {"gradient_norm", update_setup, gradient_norm, 2e-6, FLOATS, 0},
    {"adamw", update_setup, adamw, 2e-6, ROWS, 1},
    {"decay", decay_setup, decay, 0, FLOATS, 0},
};
const int gpu_op_count = sizeof gpu_ops / sizeof *gpu_ops;

void gpu_ops_free_scratch(ft_device *const device[2]) {
    for (int side = 0; side < 2; side++)
        if (kept[side].data != NULL) device[side]->functions->buffer_free(device[side], kept[side].data, kept[side].bytes);
}
