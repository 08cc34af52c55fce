// bench_disentangled.c - disentangled attention beside plain attention of the same shape, forward and backward.
//
//     bench_disentangled [threads [isa [rounds]]]         0 threads: all; isa: auto, avx512, avx2, portable
//
// GFLOP/s count the products that the formulas name, 2 d FLOPs a score each: forward Q K, Q PK, K PQ and P V = 4 (plain
// attention 2); backward the first three again, dP, dV, two each for dQ and dK, and one for either table = 11 (plain
// 5). Exponentials and dropout come on top.
//
// The floor of a time, S keys and d channels a query and head: 8 S d FLOPs forward, 22 S d backward, over the FMA peak.
// Where additions have units of their own it is lower, since Q (K + PK) is one product then: 3 forward, 8 backward.
// Computed beyond the floor: slanted blocks of 64 x 64 have a quarter more lanes than scores, in the first three
// products. Bytes do not bind: q, k, v, out are 16 d bytes a token and head, S / 2 FLOPs a byte; the panels of the
// tables, 8 d bytes a distance and head, are made once a call and stay in the second-level cache.
#include "benchmarks/fma_peak.h"
#include "kernels/cpu/cpu.h"
#include "kernels/ops/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 12, HEAD_DIM = 64, HIDDEN = HEADS * HEAD_DIM, MOST_SEQUENCES = 1024 };

typedef struct load {
    const char *name;
    int tokens, length, vary; // lengths from length - vary to length + vary
    bool pooled;
    float dropout;
} load;
static const load loads[] = {
    {"S 11", 352, 11, 7, false, 0.1f},           {"S 32", 2048, 32, 0, false, 0.1f},
    {"S 128", 2048, 128, 0, false, 0},           {"S 128", 2048, 128, 0, false, 0.1f},
    {"S 128, pooled", 2048, 128, 0, true, 0.1f}, {"S 256", 2048, 256, 0, false, 0},
    {"S 256", 2048, 256, 0, false, 0.1f},        {"S 512", 2048, 512, 0, false, 0},
    {"S 512", 2048, 512, 0, false, 0.1f},
};

static ft_device *device;
static int rounds = 5;

static void check(ft_status status) {
    if (status == FT_OK) return;
    fprintf(stderr, "%s: %s\n", ft_error_where(), ft_error_message());
    exit(1);
}
static void *memory(size_t bytes) {
    void *data = NULL;
    if (bytes) check(device->functions->buffer_alloc(device, bytes, &data));
    return data;
}
static ft_tensor matrix(int64_t rows, int64_t cols) {
    float *x = memory((size_t)(rows * cols) * sizeof(float));
    for (int64_t i = 0; i < rows * cols; i++)
        x[i] = (float)((i * 2654435761u) % 65536) / 32768.0f - 1.0f;
    return ft_matrix(x, rows, cols, FT_F32);
}
static void release(ft_tensor t) {
    device->functions->buffer_free(device, t.data, (size_t)(t.rows * t.cols) * sizeof(float));
}

// Best seconds of a call; short calls are repeated until a round takes some milliseconds.
#define MEASURE(best, op, args)                                                                                        \
    do {                                                                                                               \
        int repeats = 1;                                                                                               \
        best = INFINITY;                                                                                               \
        for (int round = 0; round <= rounds; round++) { /* the first one warms up */                                   \
            double start = ft_bench_seconds();                                                                         \
            for (int i = 0; i < repeats; i++)                                                                          \
                check(FT_RUN(device, op, args));                                                                       \
            double seconds = (ft_bench_seconds() - start) / repeats;                                                   \
            if (!round) repeats = 1 + (int)(5e-3 / seconds);                                                           \
            if (round && seconds < best) best = seconds;                                                               \
        }                                                                                                              \
    } while (0)
#define SCRATCH(op, args)                                                                                              \
    do {                                                                                                               \
        (args)->workspace.bytes = ft_##op##_workspace(&device->target, args);                                          \
        (args)->workspace.data = memory((args)->workspace.bytes);                                                      \
    } while (0)
#define RELEASE_SCRATCH(args) device->functions->buffer_free(device, (args)->workspace.data, (args)->workspace.bytes)

static void print_pair(const char *what, double seconds, double flops, double plain_seconds, double plain_flops) {
    printf("   %s %8.3f ms %6.1f GFLOP/s (plain %8.3f ms %6.1f)", what, seconds * 1e3, flops / seconds * 1e-9,
           plain_seconds * 1e3, plain_flops / plain_seconds * 1e-9);
}

static void run_load(const load *l) {
    static int32_t cu_keys[MOST_SEQUENCES + 1], cu_queries[MOST_SEQUENCES + 1], slot[MOST_SEQUENCES],
        slots[2 * 512 + 1];
    static const ft_step_state step = {.seed = 1};
    const ft_relative_rule rule = {256, 512}; // DeBERTa v3
    int sequences = 0, longest = 0;
    double scores = 0;
    while (cu_keys[sequences] < l->tokens) {
        int left = l->tokens - cu_keys[sequences],
            n = l->length + (l->vary ? sequences * 5 % (2 * l->vary + 1) - l->vary : 0);
        if (n > left) n = left;
        if (n > longest) longest = n;
        slot[sequences] = sequences;
        scores += l->pooled ? n : (double)n * n;
        sequences++;
        cu_keys[sequences] = cu_keys[sequences - 1] + n;
        cu_queries[sequences] = l->pooled ? sequences : cu_keys[sequences];
    }
    int64_t queries = cu_queries[sequences];
    ft_tensor qkv = matrix(l->tokens, 3 * HIDDEN), gradients = matrix(l->tokens, 3 * HIDDEN);
    ft_tensor pooled_q = matrix(queries, HIDDEN), pooled_dq = matrix(queries, HIDDEN), out = matrix(queries, HIDDEN);
    ft_tensor dout = matrix(queries, HIDDEN), lse = matrix(queries, HEADS);
    ft_tensor tables = matrix(512, 2 * HIDDEN), table_gradients = matrix(512, 2 * HIDDEN);
    ft_tensor all[] = {qkv, gradients, pooled_q, pooled_dq, out, dout, lse, tables, table_gradients};
    ft_attention_shape shape = {.heads = HEADS,
                                .head_dim = HEAD_DIM,
                                .sequences = sequences,
                                .max_queries = l->pooled ? 1 : longest,
                                .max_keys = longest,
                                .cu_queries = cu_queries,
                                .cu_keys = cu_keys,
                                .scale = 1.0f / sqrtf(3 * HEAD_DIM)};
    if (l->dropout > 0) shape.dropout = (ft_score_dropout){l->dropout, 0, 1, &step, slot};
    ft_attention_forward_args plain_forward = {.shape = shape,
                                               .q = l->pooled ? pooled_q : ft_columns(qkv, 0, HIDDEN),
                                               .k = ft_columns(qkv, HIDDEN, HIDDEN),
                                               .v = ft_columns(qkv, 2 * HIDDEN, HIDDEN),
                                               .out = out,
                                               .lse = lse};
    ft_attention_backward_args plain_backward = {.shape = shape,
                                                 .q = plain_forward.q,
                                                 .k = plain_forward.k,
                                                 .v = plain_forward.v,
                                                 .out = out,
                                                 .lse = lse,
                                                 .dout = dout,
                                                 .dq = l->pooled ? pooled_dq : ft_columns(gradients, 0, HIDDEN),
                                                 .dk = ft_columns(gradients, HIDDEN, HIDDEN),
                                                 .dv = ft_columns(gradients, 2 * HIDDEN, HIDDEN)};
    ft_disentangled_attention_forward_args forward = {
        .shape = {.attention = shape, .reach = ft_relative_reach(rule, longest), .slots = slots},
        .q = plain_forward.q,
        .k = plain_forward.k,
        .v = plain_forward.v,
        .pos_key = ft_columns(tables, 0, HIDDEN),
        .pos_query = ft_columns(tables, HIDDEN, HIDDEN),
        .out = out,
        .lse = lse};
    ft_relative_slots(rule, forward.shape.reach, slots);
    ft_disentangled_attention_backward_args backward = {.shape = forward.shape,
                                                        .q = forward.q,
                                                        .k = forward.k,
                                                        .v = forward.v,
                                                        .pos_key = forward.pos_key,
                                                        .pos_query = forward.pos_query,
                                                        .out = out,
                                                        .lse = lse,
                                                        .dout = dout,
                                                        .dq = plain_backward.dq,
                                                        .dk = plain_backward.dk,
                                                        .dv = plain_backward.dv,
                                                        .dpos_key = ft_columns(table_gradients, 0, HIDDEN),
                                                        .dpos_query = ft_columns(table_gradients, HIDDEN, HIDDEN)};
    SCRATCH(attention_forward, &plain_forward);
    SCRATCH(attention_backward, &plain_backward);
    SCRATCH(disentangled_attention_forward, &forward);
    SCRATCH(disentangled_attention_backward, &backward);
    double best[4], product = 2 * scores * HIDDEN, peak = ft_fma_peak(ft_cpu_of(device)->pool, 0.02);
    MEASURE(best[0], attention_forward, &plain_forward);
    MEASURE(best[1], attention_backward, &plain_backward);
    MEASURE(best[2], disentangled_attention_forward, &forward);
    MEASURE(best[3], disentangled_attention_backward, &backward);
    printf("T %4d %-13s dropout %.1f", l->tokens, l->name, (double)l->dropout);
    print_pair("forward", best[2], 4 * product, best[0], 2 * product);
    print_pair("backward", best[3], 11 * product, best[1], 5 * product);
    printf("   (peak %.0f, scratch %.1f and %.1f MiB)\n", peak, (double)forward.workspace.bytes / (1 << 20),
           (double)backward.workspace.bytes / (1 << 20));
    RELEASE_SCRATCH(&plain_forward);
    RELEASE_SCRATCH(&plain_backward);
    RELEASE_SCRATCH(&forward);
    RELEASE_SCRATCH(&backward);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        release(all[i]);
}

int main(int argc, char **argv) {
    check(ft_cpu_open(argc > 1 ? atoi(argv[1]) : 0, argc > 2 ? argv[2] : NULL, &device));
    if (argc > 3) rounds = atoi(argv[3]);
    printf("%s\n", device->description);
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++)
        run_load(&loads[i]);
    ft_device_close(device);
    return 0;
}
