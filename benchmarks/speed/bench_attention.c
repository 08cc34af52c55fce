// bench_attention.c - attention forward and backward in milliseconds, at MiniLM's heads (12 of 32) and BERT-base's (of
// 64).
//
//     bench_attention [threads [isa [rounds]]]         0 threads: all; isa: auto, avx512, avx2, portable
//
// The best of the rounds: the machine is shared. GFLOP/s count the products that are needed, two a score forward and
// five backward, over the scores there are; the exponentials and the dropout come on top. `S 11` has lengths 4 to 18,
// as questions have; `pooled` is one query a sequence, as in the last layer.
#include "benchmarks/fma_peak.h"
#include "kernels/cpu/cpu.h"
#include "kernels/ops/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 12, MOST_SEQUENCES = 1024 };

typedef struct load {
    const char *name;
    int tokens, length, vary; // lengths from length - vary to length + vary
    int head_dim;
    bool pooled;
    float dropout;
} load;
static const load loads[] = {
    {"S 11", 352, 11, 7, 32, false, 0},           {"S 11", 352, 11, 7, 32, false, 0.1f},
    {"S 11, pooled", 352, 11, 7, 32, true, 0.1f}, {"S 32", 4096, 32, 0, 32, false, 0},
    {"S 32", 4096, 32, 0, 32, false, 0.1f},       {"S 128", 4096, 128, 0, 32, false, 0},
    {"S 128", 4096, 128, 0, 32, false, 0.1f},     {"S 512", 4096, 512, 0, 32, false, 0},
    {"S 512", 4096, 512, 0, 32, false, 0.1f},     {"S 512, one", 512, 512, 0, 32, false, 0.1f},
    {"S 128", 4096, 128, 0, 64, false, 0.1f},
};

static ft_device *device;
static int rounds = 7;

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

static void run_load(const load *l) {
    static int32_t cu_keys[MOST_SEQUENCES + 1], cu_queries[MOST_SEQUENCES + 1], slot[MOST_SEQUENCES];
    static const ft_step_state step = {.seed = 1};
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
    int64_t hidden = (int64_t)HEADS * l->head_dim, queries = cu_queries[sequences];
    ft_tensor qkv = matrix(l->tokens, 3 * hidden), gradients = matrix(l->tokens, 3 * hidden),
              pooled_q = matrix(queries, hidden);
    ft_tensor pooled_dq = matrix(queries, hidden), out = matrix(queries, hidden), dout = matrix(queries, hidden);
    ft_tensor lse = matrix(queries, HEADS), all[] = {qkv, gradients, pooled_q, pooled_dq, out, dout, lse};
    ft_attention_forward_args forward = {.shape = {.heads = HEADS,
                                                   .head_dim = l->head_dim,
                                                   .sequences = sequences,
                                                   .max_queries = l->pooled ? 1 : longest,
                                                   .max_keys = longest,
                                                   .cu_queries = cu_queries,
                                                   .cu_keys = cu_keys,
                                                   .scale = 1.0f / sqrtf((float)l->head_dim)},
                                         .q = l->pooled ? pooled_q : ft_columns(qkv, 0, hidden),
                                         .k = ft_columns(qkv, hidden, hidden),
                                         .v = ft_columns(qkv, 2 * hidden, hidden),
                                         .out = out,
                                         .lse = lse};
    if (l->dropout > 0) forward.shape.dropout = (ft_score_dropout){l->dropout, 0, 1, &step, slot};
    ft_attention_backward_args backward = {.shape = forward.shape,
                                           .q = forward.q,
                                           .k = forward.k,
                                           .v = forward.v,
                                           .out = out,
                                           .lse = lse,
                                           .dout = dout,
                                           .dq = l->pooled ? pooled_dq : ft_columns(gradients, 0, hidden),
                                           .dk = ft_columns(gradients, hidden, hidden),
                                           .dv = ft_columns(gradients, 2 * hidden, hidden)};
    forward.workspace.bytes = ft_attention_forward_workspace(&device->target, &forward);
    backward.workspace.bytes = ft_attention_backward_workspace(&device->target, &backward);
    forward.workspace.data = memory(forward.workspace.bytes);
    backward.workspace.data = memory(backward.workspace.bytes);
    double forward_best, backward_best, flops = 2 * scores * (double)hidden;
    double peak = ft_fma_peak(ft_cpu_of(device)->pool, 0.02);
    MEASURE(forward_best, attention_forward, &forward);
    MEASURE(backward_best, attention_backward, &backward);
    printf("T %4d %-12s d %2d dropout %.1f   forward %8.3f ms %6.1f GFLOP/s   backward %8.3f ms %6.1f GFLOP/s   (peak "
           "%.0f)\n",
           l->tokens, l->name, l->head_dim, (double)l->dropout, forward_best * 1e3, 2 * flops / forward_best * 1e-9,
           backward_best * 1e3, 5 * flops / backward_best * 1e-9, peak);
    device->functions->buffer_free(device, forward.workspace.data, forward.workspace.bytes);
    device->functions->buffer_free(device, backward.workspace.data, backward.workspace.bytes);
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
