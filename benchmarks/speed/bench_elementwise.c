// bench_elementwise.c - the memory-bound ops of a step, in GB/s of the bytes they must read and write, beside memcpy.
//
//     bench_elementwise [threads [isa [rounds]]]         0 threads: all; isa: auto, avx512, avx2, portable
//
// Sizes are MiniLM-L6's: hidden 384, feed-forward 1536, 22.7 million parameters. The best of the rounds: the machine is
// shared. memcpy is one thread's and all threads' figure over 64 MiB, bytes read plus bytes written.
#include "benchmarks/fma_peak.h"
#include "kernels/cpu/cpu.h"
#include "kernels/ops/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 384, INNER = 1536, PARAMETERS = 22700000, COPY = 64 << 20 };

static ft_device *device;
static int rounds = 7;

static void check(ft_status status) {
    if (status == FT_OK) return;
    fprintf(stderr, "%s: %s\n", ft_error_where(), ft_error_message());
    exit(1);
}

static float *floats(int64_t n, float spread) {
    void *data;
    check(device->functions->buffer_alloc(device, (size_t)n * sizeof(float), &data));
    float *x = data;
    for (int64_t i = 0; i < n; i++)
        x[i] = spread * ((float)((i * 2654435761u) % 65536) / 32768.0f - 1.0f);
    return x;
}
static void release(float *x, int64_t n) { device->functions->buffer_free(device, x, (size_t)n * sizeof(float)); }

// Repeats the statement until a round takes some milliseconds; keeps the best round.
#define MEASURE(name_, bytes_, statement)                                                                              \
    do {                                                                                                               \
        double best = INFINITY, bytes = (double)(bytes_);                                                              \
        int repeats = 1 + (int)(1e8 / bytes);                                                                          \
        for (int round = 0; round <= rounds; round++) { /* the first one warms up */                                   \
            double start = ft_bench_seconds();                                                                         \
            for (int i = 0; i < repeats; i++)                                                                          \
                statement;                                                                                             \
            double seconds = (ft_bench_seconds() - start) / repeats;                                                   \
            if (round && seconds < best) best = seconds;                                                               \
        }                                                                                                              \
        printf("%-34s %9.4f ms %7.1f GB/s\n", name_, best * 1e3, bytes / best * 1e-9);                                 \
    } while (0)

typedef struct copy_job {
    char *to;
    const char *from;
    int parts;
} copy_job;
static void copy_task(void *context, int task, int thread) {
    const copy_job *job = context;
    int64_t first, last;
    ft_share(COPY, 4096, job->parts, task, &first, &last);
    memcpy(job->to + first, job->from + first, (size_t)(last - first));
}

static void copies(ft_pool *pool) {
    char *to = (char *)floats(COPY / 4, 1), *from = (char *)floats(COPY / 4, 1);
    copy_job one = {to, from, 1}, all = {to, from, ft_pool_threads(pool)};
    MEASURE("memcpy, 1 thread", 2.0 * COPY, ft_pool_run(pool, 1, copy_task, &one));
    MEASURE("memcpy, all threads", 2.0 * COPY, ft_pool_run(pool, all.parts, copy_task, &all));
    release((float *)to, COPY / 4);
    release((float *)from, COPY / 4);
}

static void layernorm(int64_t rows, float probability) {
    int64_t n = rows * HIDDEN;
    float *x = floats(n, 1), *residual = floats(n, 1), *s = floats(n, 1), *y = floats(n, 1), *ds = floats(n, 1);
    float *small = floats(6 * HIDDEN, 1), *statistics = floats(2 * rows, 1);
    int32_t *places = calloc((size_t)rows, sizeof *places);
    ft_step_state step = {.seed = 1};
    if (!places) check(FT_NO_MEMORY);
    for (int64_t i = 0; i < rows; i++)
        places[i] = (int32_t)i;
    ft_dropout dropout = {.probability = probability, .step = &step, .slot = places, .position = places};
    ft_tensor tx = ft_matrix(x, rows, HIDDEN, FT_F32), vector[6];
    for (int i = 0; i < 6; i++)
        vector[i] = ft_vector(small + i * HIDDEN, HIDDEN, FT_F32);
    ft_tensor ts = tx, ty = tx, tr = tx, td = tx;
    ts.data = s;
    ty.data = y;
    tr.data = residual;
    td.data = ds;
    ft_layernorm_forward_args forward = {.x = tx,
                                         .bias = vector[0],
                                         .residual = tr,
                                         .gamma = vector[1],
                                         .beta = vector[2],
                                         .epsilon = 1e-12f,
                                         .dropout = dropout,
                                         .s = ts,
                                         .y = ty,
                                         .mean = ft_vector(statistics, rows, FT_F32),
                                         .rstd = ft_vector(statistics + rows, rows, FT_F32)};
    char name[64];
    snprintf(name, sizeof name, "layernorm forward %lld%s", (long long)rows, probability > 0 ? " dropout" : "");
    MEASURE(name, 16.0 * (double)n, check(FT_RUN(device, layernorm_forward, &forward)));
    ft_layernorm_backward_args backward = {.dy = ty,
                                           .s = ts,
                                           .mean = forward.mean,
                                           .rstd = forward.rstd,
                                           .gamma = vector[1],
                                           .dropout = dropout,
                                           .ds = td,
                                           .dx = probability > 0 ? tx : ft_absent(),
                                           .dgamma = vector[3],
                                           .dbeta = vector[4],
                                           .dbias = vector[5]};
    backward.workspace.bytes = ft_layernorm_backward_workspace(&device->target, &backward);
    backward.workspace.data = floats((int64_t)backward.workspace.bytes / 4, 1);
    snprintf(name, sizeof name, "layernorm backward %lld%s", (long long)rows, probability > 0 ? " dropout" : "");
    MEASURE(name, (probability > 0 ? 16.0 : 12.0) * (double)n, check(FT_RUN(device, layernorm_backward, &backward)));
    release(backward.workspace.data, 2 * rows);
    float *all[] = {x, residual, s, y, ds};
    for (int i = 0; i < 5; i++)
        release(all[i], n);
    release(small, 6 * HIDDEN);
    release(statistics, 2 * rows);
    free(places);
}

static void activation(int64_t rows, ft_activation kind) {
    int64_t n = rows * INNER;
    float *x = floats(n, 4), *y = floats(n, 1), *d = floats(n, 1), *bias = floats(INNER, 1);
    ft_tensor tx = ft_matrix(x, rows, INNER, FT_F32), ty = tx, td = tx, tb = ft_vector(bias, INNER, FT_F32);
    ty.data = y;
    td.data = d;
    char name[64];
    snprintf(name, sizeof name, "%s forward %lld", ft_activation_name(kind), (long long)rows);
    ft_activation_forward_args forward = {.kind = kind, .x = tx, .bias = tb, .y = ty};
    MEASURE(name, 8.0 * (double)n, check(FT_RUN(device, activation_forward, &forward)));
    snprintf(name, sizeof name, "%s backward %lld (dx, y, dbias)", ft_activation_name(kind), (long long)rows);
    ft_activation_backward_args backward = {.kind = kind, .h = tx, .dy = td, .dx = td, .y = ty, .dbias = tb};
    MEASURE(name, 16.0 * (double)n, check(FT_RUN(device, activation_backward, &backward)));
    release(x, n);
    release(y, n);
    release(d, n);
    release(bias, INNER);
}

static void embedding_and_sums(int64_t rows) {
    enum { VOCABULARY = 30522 };
    int64_t n = rows * HIDDEN;
    float *table = floats((int64_t)VOCABULARY * HIDDEN, 1), *small = floats(512 * HIDDEN, 1), *out = floats(n, 1);
    int32_t *ids = calloc((size_t)rows, sizeof *ids), *position = calloc((size_t)rows, sizeof *position);
    if (!ids || !position) check(FT_NO_MEMORY);
    for (int64_t t = 0; t < rows; t++) {
        ids[t] = (int32_t)((uint64_t)t * 2654435761u % VOCABULARY);
        position[t] = (int32_t)(t % 512);
    }
    ft_embedding_forward_args forward = {.word_ids = ids,
                                         .position_ids = position,
                                         .word = ft_matrix(table, VOCABULARY, HIDDEN, FT_F32),
                                         .position = ft_matrix(small, 512, HIDDEN, FT_F32),
                                         .out = ft_matrix(out, rows, HIDDEN, FT_F32)};
    char name[64];
    snprintf(name, sizeof name, "embedding forward %lld", (long long)rows);
    MEASURE(name, 12.0 * (double)n, check(FT_RUN(device, embedding_forward, &forward)));
    ft_embedding_backward_args backward = {
        .ids = ids, .dout = forward.out, .table_gradient = forward.word, .padding_id = 0};
    snprintf(name, sizeof name, "embedding backward %lld", (long long)rows);
    MEASURE(name, 12.0 * (double)n, check(FT_RUN(device, embedding_backward, &backward)));
    ft_column_sum_args sum = {.x = forward.out, .out = ft_vector(small, HIDDEN, FT_F32)};
    snprintf(name, sizeof name, "column sum %lld", (long long)rows);
    MEASURE(name, 4.0 * (double)n, check(FT_RUN(device, column_sum, &sum)));
    release(table, (int64_t)VOCABULARY * HIDDEN);
    release(small, 512 * HIDDEN);
    release(out, n);
    free(ids);
    free(position);
}

static void optimizer(void) {
    float *buffer[4];
    ft_tensor t[4];
    for (int i = 0; i < 4; i++) {
        buffer[i] = floats(PARAMETERS, 1e-3f);
        t[i] = ft_vector(buffer[i], PARAMETERS, FT_F32);
    }
    for (int64_t i = 0; i < PARAMETERS; i++)
        buffer[3][i] = fabsf(buffer[3][i]);
    ft_adamw_hyper hyper = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .max_gradient_norm = 1};
    ft_update_state update = {0};
    ft_step_state step = {.learning_rate = 1e-9f, .loss_scale = 1};
    ft_adamw_range all = {0, PARAMETERS, 0.01f, 1, NULL};
    ft_gradient_norm_args norm = {.gradient = t[1], .hyper = hyper, .update = &update};
    norm.workspace.bytes = ft_gradient_norm_workspace(&device->target, &norm);
    norm.workspace.data = floats((int64_t)norm.workspace.bytes / 4, 0);
    MEASURE("gradient norm 22.7M", 4.0 * PARAMETERS, check(FT_RUN(device, gradient_norm, &norm)));
    ft_adamw_args adamw = {.parameter = t[0],
                           .gradient = t[1],
                           .m = t[2],
                           .v = t[3],
                           .ranges = &all,
                           .range_count = 1,
                           .hyper = hyper,
                           .step = &step,
                           .update = &update};
    MEASURE("AdamW 22.7M", 28.0 * PARAMETERS, check(FT_RUN(device, adamw, &adamw)));
    enum { STEPS = 1000 };
    float *factors = floats(STEPS, 0);
    for (int i = 0; i < STEPS; i++)
        factors[i] = 1 - 2e-7f;
    ft_decay_args decay = {.parameter = t[0], .factors = factors, .count = STEPS};
    MEASURE("decay of 1,000 steps 22.7M", 8.0 * PARAMETERS, check(FT_RUN(device, decay, &decay)));
    release(factors, STEPS);
    release(norm.workspace.data, (int64_t)norm.workspace.bytes / 4);
    for (int i = 0; i < 4; i++)
        release(buffer[i], PARAMETERS);
}

int main(int argc, char **argv) {
    check(ft_cpu_open(argc > 1 ? atoi(argv[1]) : 0, argc > 2 ? argv[2] : NULL, &device));
    if (argc > 3) rounds = atoi(argv[3]);
    printf("%s; FMA peak %.0f GFLOP/s\n", device->description, ft_fma_peak(ft_cpu_of(device)->pool, 0.04));
    copies(ft_cpu_of(device)->pool);
    static const int64_t token_counts[] = {64, 352, 4096};
    for (int i = 0; i < 3; i++) {
        layernorm(token_counts[i], 0);
        layernorm(token_counts[i], 0.1f);
        activation(token_counts[i], FT_ACT_GELU);
        activation(token_counts[i], FT_ACT_GELU_TANH);
        embedding_and_sums(token_counts[i]);
    }
    optimizer();
    ft_device_close(device);
    return 0;
}
