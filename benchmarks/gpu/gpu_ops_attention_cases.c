// gpu_ops_attention_cases.c - attention and disentangled attention among the ops: buffers in order, then one run.
#include "benchmarks/gpu/gpu_ops_buffers.h"

#include <math.h>

static int heads_of(const test *t) { // of t->inner, else of 64, or one odd head
    const bool inner = t->inner <= 256 && t->cols % t->inner == 0;
    return (int)(inner ? t->cols / t->inner : t->cols % 64 == 0 ? t->cols / 64 : 1);
}
static int64_t queries_of(const test *t) { return t->layout == FIRST_TOKENS ? gpu_ops_sequences_of(t) : t->rows; }
void gpu_ops_attention_setup(test *t) {
    gpu_ops_add_step(t);
    gpu_ops_add_bounds(t);
    gpu_ops_add_integers(t, gpu_ops_sequences_of(t), 0);
    const int64_t n = t->rows * t->cols, queries = queries_of(t);
    gpu_ops_add_many(t, 2, (int64_t[]){3 * n, queries * t->cols}); // 3: qkv out
    gpu_ops_add_floats(t, queries * heads_of(t), 0, 1);            // 5: lse
    gpu_ops_add_many(t, 2, (int64_t[]){queries * t->cols, 3 * n}); // 6: dout, gradients of qkv
    double keys = t->rows < t->length ? (double)t->rows : t->length, band = 2.0 * t->window + 1;
    double pairs = (double)t->rows * (t->window > 0 && band < keys ? band : keys);
    t->flops = 4.0 * pairs * (double)t->cols;
    t->moved = gpu_ops_bytes_of(t, 4 * (double)n);
}
static ft_attention_shape shape_of(const test *t, int side) {
    const int heads = heads_of(t);
    return (ft_attention_shape){.heads = heads,
                                .head_dim = (int)(t->cols / heads),
                                .sequences = gpu_ops_sequences_of(t),
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
    return ft_columns(gpu_ops_matrix(t, i, side, t->rows, 3 * t->cols), which * t->cols, t->cols);
}
ft_status gpu_ops_attention_forward(test *t, int side) {
    ft_attention_shape shape = shape_of(t, side);
    RUN(attention_forward, .shape = shape, .q = third(t, 3, side, 0), .k = third(t, 3, side, 1),
        .v = third(t, 3, side, 2), .out = gpu_ops_matrix(t, 4, side, t->rows, t->cols),
        .lse = gpu_ops_matrix(t, 5, side, t->rows, shape.heads));
}
// out and lse are the forward's, of this very side.
ft_status gpu_ops_attention_backward(test *t, int side) {
    ft_attention_shape shape = shape_of(t, side);
    RUN(attention_backward, .shape = shape, .q = third(t, 3, side, 0), .k = third(t, 3, side, 1),
        .v = third(t, 3, side, 2), .out = gpu_ops_matrix(t, 4, side, t->rows, t->cols),
        .lse = gpu_ops_matrix(t, 5, side, t->rows, shape.heads), .dout = gpu_ops_matrix(t, 6, side, t->rows, t->cols),
        .dq = third(t, 7, side, 0), .dk = third(t, 7, side, 1), .dv = third(t, 7, side, 2));
}
void gpu_ops_attention_backward_setup(test *t) {
    gpu_ops_attention_setup(t);
    for (int side = 0; side < 2; side++)
        need(gpu_ops_attention_forward(t, side));
    t->flops *= 2.5;
}

// The same where tokens see 64 to each side, as ModernBERT's local layers do.
void gpu_ops_window_setup(test *t) {
    t->window = 64;
    gpu_ops_attention_setup(t);
}
void gpu_ops_window_backward_setup(test *t) {
    t->window = 64;
    gpu_ops_attention_backward_setup(t);
}

// The same with positions, also of ragged sequences and of their first tokens alone: 3: qkv, out, lse, dout and
// gradients as above. Both terms as in DeBERTa v3, but heads of 32 have those of keys alone, heads of 96 those of
// queries, and heads of 128 have v1's rule.
enum { BUCKETS = 256, FURTHEST = 512 };
static int head_size(const test *t) { return (int)t->cols / heads_of(t); }
static bool has_table(const test *t, bool of_queries) { return head_size(t) != (of_queries ? 32 : 96); }
static ft_relative_rule rule_of(const test *t) {
    return (ft_relative_rule){head_size(t) == 128 ? 0 : BUCKETS, FURTHEST};
}
void gpu_ops_disentangled_setup(test *t) {
    const ft_relative_rule rule = rule_of(t);
    int32_t slots[2 * LONG - 1]; // the first 2 t->length - 1
    gpu_ops_attention_setup(t);
    ft_relative_slots(rule, t->length - 1, slots);
    gpu_ops_add_bytes(t, (size_t)(2 * t->length - 1) * sizeof *slots, FT_I32, slots); // 8
    int64_t n = 2 * ft_relative_span(rule) * t->cols;
    gpu_ops_add_many(t, 2, (int64_t[]){n, n}); // 9: tables of keys and of queries
    gpu_ops_add_floats(t, n, 0, 1);            // 11: their gradients
    gpu_ops_add_floats(t, n, 0, 1);
    if (t->layout == FIRST_TOKENS) { // 13: q, its gradient, where the queries of a sequence begin
        const int64_t pooled = queries_of(t) * t->cols;
        gpu_ops_add_many(t, 2, (int64_t[]){pooled, pooled});
        gpu_ops_add_integers(t, queries_of(t) + 1, 0);
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
static ft_tensor query_rows(const test *t, int side, int pooled,
                            int all) { // in their own buffer, or a third of the one of all three
    return t->layout == FIRST_TOKENS ? gpu_ops_matrix(t, pooled, side, queries_of(t), t->cols) : third(t, all, side, 0);
}
static ft_tensor table_of(const test *t, int i, int side) { // of keys: 9, 11; of queries: 10, 12
    return has_table(t, i % 2 == 0) ? gpu_ops_matrix(t, i, side, 2 * ft_relative_span(rule_of(t)), t->cols)
                                    : ft_absent();
}
ft_status gpu_ops_disentangled_forward(test *t, int side) {
    ft_disentangled_shape shape = disentangled_shape_of(t, side);
    RUN(disentangled_attention_forward, .shape = shape, .q = query_rows(t, side, 13, 3), .k = third(t, 3, side, 1),
        .v = third(t, 3, side, 2), .pos_key = table_of(t, 9, side), .pos_query = table_of(t, 10, side),
        .out = gpu_ops_matrix(t, 4, side, queries_of(t), t->cols),
        .lse = gpu_ops_matrix(t, 5, side, queries_of(t), shape.attention.heads));
}
// out and lse are the forward's, of this very side.
ft_status gpu_ops_disentangled_backward(test *t, int side) {
    ft_disentangled_shape shape = disentangled_shape_of(t, side);
    RUN(disentangled_attention_backward, .shape = shape, .q = query_rows(t, side, 13, 3), .k = third(t, 3, side, 1),
        .v = third(t, 3, side, 2), .pos_key = table_of(t, 9, side), .pos_query = table_of(t, 10, side),
        .out = gpu_ops_matrix(t, 4, side, queries_of(t), t->cols),
        .lse = gpu_ops_matrix(t, 5, side, queries_of(t), shape.attention.heads),
        .dout = gpu_ops_matrix(t, 6, side, queries_of(t), t->cols), .dq = query_rows(t, side, 14, 7),
        .dk = third(t, 7, side, 1), .dv = third(t, 7, side, 2), .dpos_key = table_of(t, 11, side),
        .dpos_query = table_of(t, 12, side));
}
void gpu_ops_disentangled_backward_setup(test *t) {
    gpu_ops_disentangled_setup(t);
    for (int side = 0; side < 2; side++)
        need(gpu_ops_disentangled_forward(t, side));
    t->flops *= 3;
}
void gpu_ops_ragged_setup(test *t) {
    t->layout = RAGGED;
    gpu_ops_disentangled_setup(t);
}
void gpu_ops_ragged_backward_setup(test *t) {
    t->layout = RAGGED;
    gpu_ops_disentangled_backward_setup(t);
}
void gpu_ops_pooled_setup(test *t) {
    t->layout = FIRST_TOKENS;
    gpu_ops_disentangled_setup(t);
}
void gpu_ops_pooled_backward_setup(test *t) {
    t->layout = FIRST_TOKENS;
    gpu_ops_disentangled_backward_setup(t);
}
