// gpu_ops_cases.c - the ops: buffers in order, then one run. Attention's are in gpu_ops_attention_cases.c.
#include "benchmarks/gpu/gpu_ops_buffers.h"
#include "kernels/half.h"

#include <stdlib.h>

enum { CLASSES = 7 };

static void gemm_setup(test *t) { // y = x W' + b, dx = dy W, dW += dy' x, which is fp32
    gpu_ops_add_many(t, 5, (int64_t[]){t->rows * t->inner, t->cols * t->inner, t->cols, t->rows * t->cols, t->rows * t->inner});
    gpu_ops_add_floats(t, t->cols * t->inner, 0, 1);
    t->flops = 2.0 * (double)t->rows * (double)t->cols * (double)t->inner;
    t->moved = gpu_ops_bytes_of(t, (double)t->rows * (double)(t->cols + t->inner) + (double)t->cols * (double)t->inner);
}
static ft_status gemm_forward(test *t, int side) {
    RUN(gemm, .a = gpu_ops_matrix(t, 0, side, t->rows, t->inner), .b = gpu_ops_matrix(t, 1, side, t->cols, t->inner),
        .c = gpu_ops_matrix(t, 3, side, t->rows, t->cols), .trans_b = true, .bias = gpu_ops_vector(t, 2, side, t->cols));
}
static ft_status gemm_input(test *t, int side) {
    RUN(gemm, .a = gpu_ops_matrix(t, 3, side, t->rows, t->cols), .b = gpu_ops_matrix(t, 1, side, t->cols, t->inner),
        .c = gpu_ops_matrix(t, 4, side, t->rows, t->inner));
}
static ft_status gemm_weight(test *t, int side) {
    RUN(gemm, .a = gpu_ops_matrix(t, 3, side, t->rows, t->cols), .b = gpu_ops_matrix(t, 0, side, t->rows, t->inner),
        .c = gpu_ops_matrix(t, 5, side, t->cols, t->inner), .trans_a = true, .accumulate = true);
}

// h = x W' + b and y = gelu(h): by whom says FTENGINE_PRODUCTS.
static void product_activation_setup(test *t) {
    gpu_ops_add_many(t, 5, (int64_t[]){t->rows * t->inner, t->cols * t->inner, t->cols, t->rows * t->cols, t->rows * t->cols});
    t->flops = 2.0 * (double)t->rows * (double)t->cols * (double)t->inner;
    t->moved = gpu_ops_bytes_of(t, (double)t->rows * (double)(2 * t->cols + t->inner) + (double)t->cols * (double)t->inner);
}
static ft_status product_activation(test *t, int side) {
    RUN(product_activation, .kind = FT_ACT_GELU, .x = gpu_ops_matrix(t, 0, side, t->rows, t->inner), .w = gpu_ops_matrix(t, 1, side, t->cols, t->inner),
        .bias = gpu_ops_vector(t, 2, side, t->cols), .h = gpu_ops_matrix(t, 3, side, t->rows, t->cols), .y = gpu_ops_matrix(t, 4, side, t->rows, t->cols));
}

// dx = (dout W) gelu'(h), y = gelu(h) again and the sums of dx by columns: likewise.
static void product_slope_setup(test *t) {
    gpu_ops_add_many(t, 5, (int64_t[]){t->rows * t->inner, t->cols * t->inner, t->rows * t->cols, t->rows * t->cols, t->rows * t->cols});
    gpu_ops_add_floats(t, t->cols, 0, 1);
    t->flops = 2.0 * (double)t->rows * (double)t->cols * (double)t->inner;
    t->moved = gpu_ops_bytes_of(t, (double)t->rows * (double)(3 * t->cols + t->inner) + (double)t->cols * (double)t->inner);
}
static ft_status product_slope(test *t, int side) {
    RUN(product_slope, .kind = FT_ACT_GELU, .dout = gpu_ops_matrix(t, 0, side, t->rows, t->inner), .w = gpu_ops_matrix(t, 1, side, t->inner, t->cols),
        .h = gpu_ops_matrix(t, 2, side, t->rows, t->cols), .dx = gpu_ops_matrix(t, 3, side, t->rows, t->cols), .y = gpu_ops_matrix(t, 4, side, t->rows, t->cols),
        .dbias = gpu_ops_vector(t, 5, side, t->cols));
}

static void column_sum_setup(test *t) {
    gpu_ops_add_rows(t, t->rows * t->cols, 0, 1);
    gpu_ops_add_floats(t, t->cols, 0, 1);
    t->moved = gpu_ops_bytes_of(t, (double)t->rows * (double)t->cols);
}
static ft_status column_sum(test *t, int side) {
    RUN(column_sum, .x = gpu_ops_matrix(t, 0, side, t->rows, t->cols), .out = gpu_ops_vector(t, 1, side, t->cols));
}

enum { WORDS = 1000, POSITIONS = 512 };
static void embedding_setup(test *t) {
    gpu_ops_add_integers(t, t->rows, WORDS);
    gpu_ops_add_integers(t, t->rows, -t->length);
    gpu_ops_add_many(t, 3, (int64_t[]){WORDS * t->cols, POSITIONS * t->cols, t->rows * t->cols});
    gpu_ops_add_floats(t, WORDS * t->cols, 0, 1);
    int32_t *order = malloc(2 * (size_t)t->rows * sizeof *order + 1);
    if (order == NULL) need(ft_fail_memory((size_t)t->rows * sizeof *order, "an order"));
    ft_embedding_order(t->at[0][CPU], (int32_t)t->rows, order, order + t->rows);
    gpu_ops_add_bytes(t, (size_t)t->rows * sizeof *order, FT_I32, order); // 6
    free(order);
    t->moved = gpu_ops_bytes_of(t, 3 * (double)t->rows * (double)t->cols);
}
static ft_status embedding_forward(test *t, int side) {
    RUN(embedding_forward, .word_ids = t->at[0][side], .position_ids = t->at[1][side],
        .word = gpu_ops_matrix(t, 2, side, WORDS, t->cols), .position = gpu_ops_matrix(t, 3, side, POSITIONS, t->cols),
        .out = gpu_ops_matrix(t, 4, side, t->rows, t->cols));
}
static ft_status embedding_backward(test *t, int side) {
    RUN(embedding_backward, .ids = t->at[0][side], .order = t->at[6][side], .dout = gpu_ops_matrix(t, 4, side, t->rows, t->cols),
        .table_gradient = gpu_ops_matrix(t, 5, side, WORDS, t->cols), .padding_id = -1);
}

static ft_dropout dropout_of(const test *t, int side, int step, int slot, int position) {
    return (ft_dropout){.probability = 0.1f,
                        .layer = 2,
                        .site = FT_SITE_FFN_OUTPUT,
                        .step = t->at[step][side],
                        .slot = t->at[slot][side],
                        .position = t->at[position][side]};
}
// narrow: what adds up from layer to layer is of the rows' type (train.residual=16bit); it is the type of its buffers that tells the ops.
static void add_added(test *t, bool narrow) {
    if (narrow) gpu_ops_add_rows(t, t->rows * t->cols, 0, 1);
    else gpu_ops_add_floats(t, t->rows * t->cols, 0, 1);
}
static void norm_setup(test *t, bool narrow) {
    gpu_ops_add_step(t);
    gpu_ops_add_integers(t, t->rows, 0);
    gpu_ops_add_integers(t, t->rows, -t->length);
    gpu_ops_add_many(t, 2, (int64_t[]){t->rows * t->cols, t->cols});           // 3: x bias
    add_added(t, narrow);                                                  // 5: residual, dy
    gpu_ops_add_floats(t, t->cols, 0, 1);                                  // 6: gamma
    gpu_ops_add_floats(t, t->cols, 0, 1);                                  // 7: beta
    gpu_ops_add_many(t, 2, (int64_t[]){t->rows * t->cols, t->rows * t->cols}); // 8: s y
    gpu_ops_add_floats(t, t->rows, 0, 0.1);                                // 10: mean
    gpu_ops_add_floats(t, t->rows, 1, 0.1);                                // 11: rstd
    gpu_ops_add_floats(t, 3 * t->cols, 0, 1);                              // 12: dgamma dbeta dbias
    add_added(t, narrow);                                                  // 13: wide, ds
}
static bool adds_narrow(const test *t) { return ft_is_half(t->dtype[5]); }
static bool writes_wide(const test *t) { return ft_is_half(t->type) && !adds_narrow(t); }
static void layernorm_forward_setup(test *t) {
    const double n = (double)t->rows * (double)t->cols;
    norm_setup(t, false);
    t->moved = gpu_ops_bytes_of(t, 3 * n) + (writes_wide(t) ? 2 : 1) * n * sizeof(float);
}
static void layernorm_backward_setup(test *t) {
    const double n = (double)t->rows * (double)t->cols;
    norm_setup(t, false);
    t->moved = gpu_ops_bytes_of(t, 2 * n) + 2 * n * sizeof(float);
}
static void layernorm_16bit_setup(test *t) { // both ways: four rows
    norm_setup(t, true);
    t->moved = gpu_ops_bytes_of(t, 4 * (double)t->rows * (double)t->cols);
}
static ft_status layernorm_forward(test *t, int side) {
    RUN(layernorm_forward, .x = gpu_ops_matrix(t, 3, side, t->rows, t->cols), .bias = gpu_ops_vector(t, 4, side, t->cols),
        .residual = gpu_ops_matrix(t, 5, side, t->rows, t->cols), .gamma = gpu_ops_vector(t, 6, side, t->cols),
        .beta = gpu_ops_vector(t, 7, side, t->cols), .epsilon = 1e-12f, .dropout = dropout_of(t, side, 0, 1, 2),
        .s = gpu_ops_matrix(t, 8, side, t->rows, t->cols), .y = gpu_ops_matrix(t, 9, side, t->rows, t->cols),
        .wide = writes_wide(t) ? gpu_ops_matrix(t, 13, side, t->rows, t->cols) : ft_absent(), .mean = gpu_ops_vector(t, 10, side, t->rows), .rstd = gpu_ops_vector(t, 11, side, t->rows));
}
static ft_status layernorm_backward(test *t, int side) {
    float *sums = t->at[12][side];
    RUN(layernorm_backward, .dy = gpu_ops_matrix(t, 5, side, t->rows, t->cols), .s = gpu_ops_matrix(t, 3, side, t->rows, t->cols),
        .mean = gpu_ops_vector(t, 10, side, t->rows), .rstd = gpu_ops_vector(t, 11, side, t->rows),
        .gamma = gpu_ops_vector(t, 6, side, t->cols), .dropout = dropout_of(t, side, 0, 1, 2),
        .ds = gpu_ops_matrix(t, 13, side, t->rows, t->cols), .dx = gpu_ops_matrix(t, 9, side, t->rows, t->cols),
        .dgamma = ft_vector(sums, t->cols, FT_F32), .dbeta = ft_vector(sums + t->cols, t->cols, FT_F32),
        .dbias = ft_vector(sums + 2 * t->cols, t->cols, FT_F32));
}

// y = Norm(residual + dropout(x w' + b)): likewise; the sum goes to a stream of the residual's type, and to s.
static void product_norm_rows(test *t, bool narrow) {
    gpu_ops_add_step(t);
    gpu_ops_add_integers(t, t->rows, 0);
    gpu_ops_add_integers(t, t->rows, -t->length);
    gpu_ops_add_many(t, 3, (int64_t[]){t->rows * t->inner, t->cols * t->inner, t->cols}); // 3: x w bias
    add_added(t, narrow);                                                                 // 6: residual
    gpu_ops_add_floats(t, t->cols, 0, 1);                                                 // 7: gamma
    gpu_ops_add_many(t, 2, (int64_t[]){t->rows * t->cols, t->rows * t->cols});            // 8: s y
    add_added(t, narrow);                                                                 // 10: stream
    t->flops = 2.0 * (double)t->rows * (double)t->cols * (double)t->inner;
    t->moved = gpu_ops_bytes_of(t, (double)t->rows * (double)(2 * t->cols + t->inner) + (double)t->cols * (double)t->inner) +
               3 * (double)t->rows * (double)t->cols * (double)ft_dtype_size(t->dtype[10]); // the residual read, the stream written and read
}
static void product_norm_setup(test *t) { product_norm_rows(t, false); }
static void product_norm_16bit_setup(test *t) { product_norm_rows(t, true); }
static ft_status product_norm(test *t, int side) {
    RUN(product_norm, .x = gpu_ops_matrix(t, 3, side, t->rows, t->inner), .w = gpu_ops_matrix(t, 4, side, t->cols, t->inner),
        .norm = {.x = gpu_ops_matrix(t, 8, side, t->rows, t->cols), .bias = gpu_ops_vector(t, 5, side, t->cols), .residual = gpu_ops_matrix(t, 6, side, t->rows, t->cols),
                 .gamma = gpu_ops_vector(t, 7, side, t->cols), .epsilon = 1e-12f, .dropout = dropout_of(t, side, 0, 1, 2), .s = gpu_ops_matrix(t, 8, side, t->rows, t->cols),
                 .y = gpu_ops_matrix(t, 9, side, t->rows, t->cols), .stream = gpu_ops_matrix(t, 10, side, t->rows, t->cols)});
}

static void activation_setup(test *t) {
    gpu_ops_add_rows(t, t->rows * t->cols, 0, 4);
    gpu_ops_add_many(t, 3, (int64_t[]){t->cols, t->rows * t->cols, t->rows * t->cols});
    gpu_ops_add_floats(t, t->cols, 0, 1);
    t->moved = gpu_ops_bytes_of(t, 3 * (double)t->rows * (double)t->cols);
}
static ft_status activation_forward(test *t, int side) {
    RUN(activation_forward, .kind = FT_ACT_GELU, .x = gpu_ops_matrix(t, 0, side, t->rows, t->cols),
        .bias = gpu_ops_vector(t, 1, side, t->cols), .h = gpu_ops_matrix(t, 2, side, t->rows, t->cols),
        .y = gpu_ops_matrix(t, 3, side, t->rows, t->cols));
}
static ft_status activation_backward(test *t, int side) {
    RUN(activation_backward, .kind = FT_ACT_GELU, .h = gpu_ops_matrix(t, 0, side, t->rows, t->cols),
        .dy = gpu_ops_matrix(t, 2, side, t->rows, t->cols), .dx = gpu_ops_matrix(t, 3, side, t->rows, t->cols),
        .dbias = gpu_ops_vector(t, 4, side, t->cols));
}

// The product of two halves that are side by side.
static void gated_setup(test *t) {
    const int64_t n = t->rows * t->cols;
    gpu_ops_add_many(t, 4, (int64_t[]){2 * n, n, 2 * n, n}); // h y dx dy
}
static void gated_forward_setup(test *t) {
    gated_setup(t);
    t->moved = gpu_ops_bytes_of(t, 3 * (double)t->rows * (double)t->cols);
}
static void gated_backward_setup(test *t) {
    gated_setup(t);
    t->moved = gpu_ops_bytes_of(t, 6 * (double)t->rows * (double)t->cols);
}
static ft_status gated_forward(test *t, int side) {
    RUN(gated_forward, .kind = FT_ACT_GELU, .x = gpu_ops_matrix(t, 0, side, t->rows, 2 * t->cols), .y = gpu_ops_matrix(t, 1, side, t->rows, t->cols));
}
static ft_status gated_backward(test *t, int side) {
    RUN(gated_backward, .kind = FT_ACT_GELU, .h = gpu_ops_matrix(t, 0, side, t->rows, 2 * t->cols), .dy = gpu_ops_matrix(t, 3, side, t->rows, t->cols),
        .dx = gpu_ops_matrix(t, 2, side, t->rows, 2 * t->cols), .y = gpu_ops_matrix(t, 1, side, t->rows, t->cols));
}

// In place; of heads of 64, or of one of all columns but an odd one.
static int64_t turned_of(const test *t) { return t->cols % 64 == 0 ? 64 : t->cols / 2 * 2; }
static void rope_setup(test *t) {
    gpu_ops_add_integers(t, t->rows, -t->length);
    gpu_ops_add_rows(t, t->rows * t->cols, 0, 1);
    gpu_ops_add_floats(t, t->length * turned_of(t), 0, 1);
    t->moved = gpu_ops_bytes_of(t, 2 * (double)t->rows * (double)t->cols);
}
static ft_status rope(test *t, int side) {
    const int64_t d = turned_of(t);
    RUN(rope, .head_dim = (int32_t)d, .position = t->at[0][side], .table = gpu_ops_matrix(t, 2, side, t->length, d),
        .x = ft_columns(gpu_ops_matrix(t, 1, side, t->rows, t->cols), 0, t->cols / d * d));
}

static void rows_setup(test *t) {
    gpu_ops_add_step(t);
    gpu_ops_add_integers(t, t->rows, 0);
    gpu_ops_add_integers(t, t->rows, -t->length);
    gpu_ops_add_many(t, 2, (int64_t[]){t->rows * t->cols, t->rows * t->cols});
    t->moved = gpu_ops_bytes_of(t, 2 * (double)t->rows * (double)t->cols);
}
static ft_status dropout(test *t, int side) {
    RUN(dropout, .dropout = dropout_of(t, side, 0, 1, 2), .x = gpu_ops_matrix(t, 3, side, t->rows, t->cols),
        .y = gpu_ops_matrix(t, 4, side, t->rows, t->cols));
}
static ft_status gather_rows(test *t, int side) {
    RUN(gather_rows, .index = t->at[1][side], .x = gpu_ops_matrix(t, 3, side, t->rows, t->cols),
        .y = gpu_ops_matrix(t, 4, side, t->rows, t->cols));
}
static ft_status scatter_rows_add(test *t, int side) {
    RUN(scatter_rows_add, .index = t->at[1][side], .x = gpu_ops_matrix(t, 3, side, t->rows, t->cols),
        .y = gpu_ops_matrix(t, 4, side, t->rows, t->cols));
}

static void mean_setup(test *t) {
    const int64_t sequences = gpu_ops_sequences_of(t);
    gpu_ops_add_bounds(t);
    gpu_ops_add_many(t, 2, (int64_t[]){t->rows * t->cols, sequences * t->cols});
    gpu_ops_add_floats(t, sequences * t->cols, 0, 1); // 3: gradients of means, of rows
    gpu_ops_add_floats(t, t->rows * t->cols, 0, 1);
    t->moved = gpu_ops_bytes_of(t, (double)t->rows * (double)t->cols);
}
static void mean_backward_setup(test *t) {
    mean_setup(t);
    t->moved = 4.0 * (double)t->rows * (double)t->cols;
}
static ft_status sequence_mean_forward(test *t, int side) {
    RUN(sequence_mean_forward, .sequences = gpu_ops_sequences_of(t), .cu_seqlens = t->at[0][side], .x = gpu_ops_matrix(t, 1, side, t->rows, t->cols),
        .y = gpu_ops_matrix(t, 2, side, gpu_ops_sequences_of(t), t->cols));
}
static ft_status sequence_mean_backward(test *t, int side) {
    RUN(sequence_mean_backward, .sequences = gpu_ops_sequences_of(t), .cu_seqlens = t->at[0][side], .dy = gpu_ops_matrix(t, 3, side, gpu_ops_sequences_of(t), t->cols),
        .dx = gpu_ops_matrix(t, 4, side, t->rows, t->cols));
}

enum { TAPS = 3 };
static void unfold_setup(test *t) {
    gpu_ops_add_bounds(t);
    gpu_ops_add_many(t, 2, (int64_t[]){t->rows * t->cols, t->rows * t->cols * TAPS});
    gpu_ops_add_floats(t, t->rows * t->cols, 0, 1); // 3: a gradient
    t->moved = gpu_ops_bytes_of(t, (1 + TAPS) * (double)t->rows * (double)t->cols);
}
static ft_status unfold(test *t, int side) {
    RUN(unfold, .sequences = gpu_ops_sequences_of(t), .taps = TAPS, .cu_seqlens = t->at[0][side],
        .x = gpu_ops_matrix(t, 1, side, t->rows, t->cols), .y = gpu_ops_matrix(t, 2, side, t->rows, t->cols * TAPS));
}
static ft_status fold_add(test *t, int side) {
    RUN(fold_add, .sequences = gpu_ops_sequences_of(t), .taps = TAPS, .cu_seqlens = t->at[0][side],
        .x = gpu_ops_matrix(t, 3, side, t->rows, t->cols), .y = gpu_ops_matrix(t, 2, side, t->rows, t->cols * TAPS));
}

static void cast_setup(test *t) { // 16 bits to the first of fp32, the second to 16 bits
    gpu_ops_add_many(t, 2, (int64_t[]){t->rows * t->cols, t->rows * t->cols});
    gpu_ops_add_floats(t, t->rows * t->cols, 0, 1);
    gpu_ops_add_floats(t, t->rows * t->cols, 0, 1);
    t->moved = 6 * (double)t->rows * (double)t->cols;
}
static ft_status cast_to_fp32(test *t, int side) {
    RUN(cast, .x = gpu_ops_vector(t, 0, side, t->rows * t->cols), .y = gpu_ops_vector(t, 2, side, t->rows * t->cols));
}
static ft_status cast_to_16_bits(test *t, int side) {
    RUN(cast, .x = gpu_ops_vector(t, 3, side, t->rows * t->cols), .y = gpu_ops_vector(t, 1, side, t->rows * t->cols));
}

static void dequantise_setup(test *t) {
    const ft_quantised_layout l = ft_quantised_layout_of(FT_NF4_DOUBLE, t->rows, t->cols);
    const int64_t n = t->rows * t->cols;
    float *numbers = malloc((size_t)n * sizeof *numbers + 1);
    void *buffer = malloc(l.bytes);
    if (numbers == NULL || buffer == NULL) need(ft_fail_memory(l.bytes, "a test's matrix"));
    for (int64_t i = 0; i < n; i++) numbers[i] = (float)(2 * gpu_ops_uniform() - 1);
    need(ft_quantise(FT_NF4_DOUBLE, t->rows, t->cols, numbers, buffer));
    gpu_ops_add_bytes(t, l.bytes, FT_U8, buffer);
    gpu_ops_add_rows(t, n, 0, 1);
    t->moved = (double)l.bytes + (double)n * (double)ft_dtype_size(t->type);
    free(numbers);
    free(buffer);
}
static ft_status dequantise(test *t, int side) {
    const int64_t bytes = (int64_t)ft_quantised_layout_of(FT_NF4_DOUBLE, t->rows, t->cols).bytes;
    RUN(dequantise, .format = FT_NF4_DOUBLE, .x = ft_vector(t->at[0][side], bytes, FT_U8), .y = gpu_ops_matrix(t, 1, side, t->rows, t->cols));
}

static void losses_setup(test *t) { // fp32 in every precision
    gpu_ops_add_step(t);
    gpu_ops_add_integers(t, t->rows, CLASSES);
    const int64_t floats[] = {t->rows * CLASSES, t->rows, t->rows * CLASSES};
    for (int i = 0; i < 3; i++)
        gpu_ops_add_floats(t, floats[i], 0, 1);
    gpu_ops_add_floats(t, t->rows * CLASSES, 0.5, 0.5); // 5: targets
    t->moved = 4.0 * 2 * (double)t->rows * CLASSES;
}
#define LOGITS_AND_LOSSES                                                                                              \
    .logits = gpu_ops_matrix(t, 2, side, t->rows, CLASSES), .step = t->at[0][side], .losses = gpu_ops_vector(t, 3, side, t->rows),     \
    .dlogits = gpu_ops_matrix(t, 4, side, t->rows, CLASSES)
static ft_status cross_entropy(test *t, int side) { RUN(cross_entropy, LOGITS_AND_LOSSES, .labels = t->at[1][side]); }
static ft_status weighted_cross_entropy(test *t, int side) {
    RUN(weighted_cross_entropy, LOGITS_AND_LOSSES, .labels = t->at[1][side], .smoothing = 0.1f);
}
static ft_status binary_cross_entropy(test *t, int side) {
    RUN(binary_cross_entropy, LOGITS_AND_LOSSES, .targets = gpu_ops_matrix(t, 5, side, t->rows, CLASSES), .gamma = 2);
}
static void spans_setup(test *t) {
    losses_setup(t);
    gpu_ops_add_bounds(t); // 6
}
static ft_status span_cross_entropy(test *t, int side) {
    RUN(span_cross_entropy, LOGITS_AND_LOSSES, .sequences = gpu_ops_sequences_of(t), .cu_rows = t->at[6][side], .marks = t->at[1][side]);
}
static ft_status squared_error(test *t, int side) {
    RUN(squared_error, LOGITS_AND_LOSSES, .targets = gpu_ops_matrix(t, 5, side, t->rows, CLASSES));
}

static void update_setup(test *t) {
    ft_update_state update = {
        .count = 3, .norm = 1, .correction1 = 0.3, .correction2 = 0.004, .clip = 0.5f, .finite = 1};
    gpu_ops_add_step(t);
    gpu_ops_add_bytes(t, sizeof update, FT_U8, &update);
    int64_t n = t->rows * t->cols;
    for (int i = 0; i < 3; i++)
        gpu_ops_add_floats(t, n, 0, 1);
    gpu_ops_add_floats(t, n, 1, 0.5); // of squares
    gpu_ops_add_rows(t, n, 0, 1);     // 6: the copy in fp16, or first halves of pairs
    uint16_t *tails = malloc((size_t)n * sizeof *tails + 1);
    if (tails == NULL) need(ft_fail_memory((size_t)n * sizeof *tails, "a test's numbers"));
    for (int64_t i = 0; i < n; i++)
        tails[i] = (uint16_t)(65536 * gpu_ops_uniform());
    const int added = gpu_ops_add_bytes(t, (size_t)n * sizeof *tails, FT_U8, tails); // 7
    if (t->type == FT_BF16) t->tails = added;
    free(tails);
    t->moved = (4.0 * 7 + (t->type == FT_F16 ? 2 : 0)) * (double)n;
}
static const ft_adamw_hyper hyper = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .max_gradient_norm = 1};
static ft_status gradient_norm(test *t, int side) {
    RUN(gradient_norm, .gradient = gpu_ops_vector(t, 3, side, t->rows * t->cols), .hyper = hyper, .step = t->at[0][side],
        .growth_interval = 2000, .update = t->at[1][side]);
}
static ft_status adamw(test *t, int side) {
    int64_t n = t->rows * t->cols;
    const ft_adamw_range ranges[] = {{0, n / 3 / 4 * 4, 0.01f, 1, NULL}, {n / 3 / 4 * 4, n - n / 3 / 4 * 4, 0, 0.5f, NULL}};
    RUN(adamw, .parameter = gpu_ops_vector(t, t->type == FT_BF16 ? 6 : 2, side, n), .tail = t->type == FT_BF16 ? t->at[7][side] : NULL,
        .compute = t->type == FT_F16 ? gpu_ops_vector(t, 6, side, n) : ft_absent(), .gradient = gpu_ops_vector(t, 3, side, n),
        .m = gpu_ops_vector(t, 4, side, n), .v = gpu_ops_vector(t, 5, side, n), .ranges = ranges, .range_count = 2, .hyper = hyper, .step = t->at[0][side], .update = t->at[1][side]);
}

static void decay_setup(test *t) {
    enum { STEPS = 1000 };
    int64_t n = t->rows * t->cols;
    gpu_ops_add_floats(t, n, 0, 1);
    gpu_ops_add_floats(t, STEPS, 1, 1e-6);
    t->flops = (double)STEPS * (double)n;
    t->moved = 4.0 * 2 * (double)n;
}
static ft_status decay(test *t, int side) {
    RUN(decay, .parameter = gpu_ops_vector(t, 0, side, t->rows * t->cols), .factors = t->at[1][side], .count = 1000);
}

const gpu_op gpu_ops[] = {
    {"gemm_forward", gemm_setup, gemm_forward, 5e-6, ROWS, 1},
    {"gemm_input_gradient", gemm_setup, gemm_input, 5e-6, ROWS, 1},
    {"gemm_weight_gradient", gemm_setup, gemm_weight, 5e-6, ROWS, 0},
    {"product_activation", product_activation_setup, product_activation, 5e-6, ROWS, 2},
    {"product_slope", product_slope_setup, product_slope, 5e-6, ROWS, 3},
    {"product_norm", product_norm_setup, product_norm, 5e-6, ROWS, 2},
    {"product_norm_16bit", product_norm_16bit_setup, product_norm, 5e-6, HALVES, 3},
    {"segment_forward", gpu_ops_segment_product_setup, gpu_ops_segment_forward, 5e-6, ROWS, 1},
    {"segment_weight_gradient", gpu_ops_segment_product_setup, gpu_ops_segment_weight, 5e-6, ROWS, 0},
    {"column_sum", column_sum_setup, column_sum, 5e-6, ROWS, 0},
    {"embedding_forward", embedding_setup, embedding_forward, 0, ROWS, 0},
    {"embedding_backward", embedding_setup, embedding_backward, 2e-6, ROWS, 0},
    {"layernorm_forward", layernorm_forward_setup, layernorm_forward, 2e-6, ROWS, 1},
    {"layernorm_backward", layernorm_backward_setup, layernorm_backward, 5e-6, ROWS, 1},
    {"layernorm_forward_16bit", layernorm_16bit_setup, layernorm_forward, 2e-6, HALVES, 1},
    {"layernorm_backward_16bit", layernorm_16bit_setup, layernorm_backward, 5e-6, HALVES, 1},
    {"activation_forward", activation_setup, activation_forward, 5e-7, ROWS, 1},
    {"activation_backward", activation_setup, activation_backward, 5e-6, ROWS, 1},
    {"gated_forward", gated_forward_setup, gated_forward, 5e-7, ROWS, 1},
    {"gated_backward", gated_backward_setup, gated_backward, 5e-6, ROWS, 1},
    {"rope", rope_setup, rope, 5e-7, ROWS, 1},
    {"attention_forward", gpu_ops_attention_setup, gpu_ops_attention_forward, 5e-6, ROWS, 4}, // tensor cores take rounded probabilities
    {"attention_backward", gpu_ops_attention_backward_setup, gpu_ops_attention_backward, 1e-5, ROWS, 8},
    {"attention_window_forward", gpu_ops_window_setup, gpu_ops_attention_forward, 5e-6, ROWS, 4},
    {"attention_window_backward", gpu_ops_window_backward_setup, gpu_ops_attention_backward, 1e-5, ROWS, 8},
    {"disentangled_forward", gpu_ops_disentangled_setup, gpu_ops_disentangled_forward, 5e-6, ROWS, 4},
    {"disentangled_backward", gpu_ops_disentangled_backward_setup, gpu_ops_disentangled_backward, 1e-5, ROWS, 8},
    {"disentangled_forward_ragged", gpu_ops_ragged_setup, gpu_ops_disentangled_forward, 5e-6, ROWS_UNTIMED, 4},
    {"disentangled_backward_ragged", gpu_ops_ragged_backward_setup, gpu_ops_disentangled_backward, 1e-5, ROWS_UNTIMED, 8},
    {"disentangled_forward_pooled", gpu_ops_pooled_setup, gpu_ops_disentangled_forward, 5e-6, ROWS_UNTIMED, 4},
    {"disentangled_backward_pooled", gpu_ops_pooled_backward_setup, gpu_ops_disentangled_backward, 1e-5, ROWS_UNTIMED, 8},
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
