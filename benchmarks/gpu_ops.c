// gpu_ops.c - every op of the CUDA back end beside the CPU's on the same numbers, and how long it takes. It needs the
// kernels alone: no model, no file. (The CPU's ops are judged against float64 in tests/kernels.)
//
//   gpu_ops [--time] [--tokens N] [--csv FILE] [--json FILE] [OP...]
//
// Exit 0: all agree. 1: one does not. 4: there is no CUDA device, or something of it is missing.
#include "kernels/cuda/kernels.h"
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
    int count;
    size_t bytes[BUFFERS];
    void *at[BUFFERS][2]; // on the CPU, on the GPU
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

static int add_bytes(test *t, size_t bytes, const void *from) {
    int i = t->count++;
    t->bytes[i] = bytes;
    for (int side = 0; side < 2; side++) {
        ft_device *d = t->device[side];
        need(d->functions->buffer_alloc(d, bytes, &t->at[i][side]));
        need(d->functions->upload(d, t->at[i][side], from, bytes));
        need(d->functions->sync(d));
    }
    return i;
}

static int add_floats(test *t, int64_t n, double mean, double spread) {
    float *host = malloc((size_t)n * sizeof *host + 1);
    if (host == NULL) need(ft_fail_memory((size_t)n * sizeof *host, "a test's numbers"));
    for (int64_t i = 0; i < n; i++)
        host[i] = (float)(mean + spread * (2 * uniform() - 1));
    int added = add_bytes(t, (size_t)n * sizeof *host, host);
    free(host);
    return added;
}

// limit > 0: below it, at random; 0: the number of the place; < 0: the place within pieces of so many.
static int add_integers(test *t, int64_t n, int64_t limit) {
    int32_t *host = malloc((size_t)n * sizeof *host + 1);
    if (host == NULL) need(ft_fail_memory((size_t)n * sizeof *host, "a test's numbers"));
    for (int64_t i = 0; i < n; i++)
        host[i] = (int32_t)(limit > 0 ? (double)limit * uniform() : limit == 0 ? (double)i : (double)(i % -limit));
    int added = add_bytes(t, (size_t)n * sizeof *host, host);
    free(host);
    return added;
}

static int add_step(test *t) {
    ft_step_state step = {.seed = 7, .step = 3, .learning_rate = 1e-3f, .loss_factor = 0.125f, .loss_scale = 1};
    return add_bytes(t, sizeof step, &step);
}

// Where sequences begin: LENGTH tokens each, the last one what is left.
static int sequences_of(const test *t) { return (int)((t->rows + LENGTH - 1) / LENGTH); }
static int add_bounds(test *t) {
    int n = sequences_of(t);
    int32_t *host = malloc(((size_t)n + 1) * sizeof *host);
    if (host == NULL) need(ft_fail_memory(0, "bounds"));
    for (int i = 0; i <= n; i++)
        host[i] = (int32_t)(i * LENGTH < t->rows ? i * LENGTH : t->rows);
    int added = add_bytes(t, ((size_t)n + 1) * sizeof *host, host);
    free(host);
    return added;
}

static ft_tensor matrix(const test *t, int i, int side, int64_t rows, int64_t cols) {
    return ft_matrix(t->at[i][side], rows, cols, FT_F32);
}
static ft_tensor vector(const test *t, int i, int side, int64_t n) { return ft_vector(t->at[i][side], n, FT_F32); }

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

static void many(test *t, int n, const int64_t *floats) {
    for (int i = 0; i < n; i++)
        add_floats(t, floats[i], 0, 1);
}

static void gemm_setup(test *t) { // y = x W' + b, dx += dy W, dW += dy' x
    many(t, 5, (int64_t[]){t->rows * t->inner, t->cols * t->inner, t->cols, t->rows * t->cols, t->rows * t->inner});
    add_floats(t, t->cols * t->inner, 0, 1);
    t->flops = 2.0 * (double)t->rows * (double)t->cols * (double)t->inner;
    t->moved = 4.0 * ((double)t->rows * (double)(t->cols + t->inner) + (double)t->cols * (double)t->inner);
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
    many(t, 2, (int64_t[]){t->rows * t->cols, t->cols});
    t->moved = 4.0 * (double)t->rows * (double)t->cols;
}
static ft_status column_sum(test *t, int side) {
    RUN(column_sum, .x = matrix(t, 0, side, t->rows, t->cols), .out = vector(t, 1, side, t->cols));
}

enum { WORDS = 1000, POSITIONS = 512 };
static void embedding_setup(test *t) {
    add_integers(t, t->rows, WORDS);
    add_integers(t, t->rows, -LENGTH);
    many(t, 3, (int64_t[]){WORDS * t->cols, POSITIONS * t->cols, t->rows * t->cols});
    t->moved = 4.0 * 3 * (double)t->rows * (double)t->cols;
}
static ft_status embedding_forward(test *t, int side) {
    RUN(embedding_forward, .word_ids = t->at[0][side], .position_ids = t->at[1][side],
        .word = matrix(t, 2, side, WORDS, t->cols), .position = matrix(t, 3, side, POSITIONS, t->cols),
        .out = matrix(t, 4, side, t->rows, t->cols));
}
static ft_status embedding_backward(test *t, int side) {
    RUN(embedding_backward, .ids = t->at[0][side], .dout = matrix(t, 4, side, t->rows, t->cols),
        .table_gradient = matrix(t, 2, side, WORDS, t->cols), .padding_id = -1);
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
    many(t, 5,
         (int64_t[]){t->rows * t->cols, t->cols, t->rows * t->cols, t->cols, t->cols}); // 3: x bias residual gamma beta
    many(t, 2, (int64_t[]){t->rows * t->cols, t->rows * t->cols});                      // 8: s y
    add_floats(t, t->rows, 0, 0.1);                                                     // 10: mean
    add_floats(t, t->rows, 1, 0.1);                                                     // 11: rstd
    add_floats(t, 3 * t->cols, 0, 1);                                                   // 12: dgamma dbeta dbias
    t->moved = 4.0 * 4 * (double)t->rows * (double)t->cols;
}
static ft_status layernorm_forward(test *t, int side) {
    RUN(layernorm_forward, .x = matrix(t, 3, side, t->rows, t->cols), .bias = vector(t, 4, side, t->cols),
        .residual = matrix(t, 5, side, t->rows, t->cols), .gamma = vector(t, 6, side, t->cols),
        .beta = vector(t, 7, side, t->cols), .epsilon = 1e-12f, .dropout = dropout_of(t, side, 0, 1, 2),
        .s = matrix(t, 8, side, t->rows, t->cols), .y = matrix(t, 9, side, t->rows, t->cols),
        .mean = vector(t, 10, side, t->rows), .rstd = vector(t, 11, side, t->rows));
}
static ft_status layernorm_backward(test *t, int side) {
    float *sums = t->at[12][side];
    RUN(layernorm_backward, .dy = matrix(t, 3, side, t->rows, t->cols), .s = matrix(t, 5, side, t->rows, t->cols),
        .mean = vector(t, 10, side, t->rows), .rstd = vector(t, 11, side, t->rows),
        .gamma = vector(t, 6, side, t->cols), .dropout = dropout_of(t, side, 0, 1, 2),
        .ds = matrix(t, 8, side, t->rows, t->cols), .dx = matrix(t, 9, side, t->rows, t->cols),
        .dgamma = ft_vector(sums, t->cols, FT_F32), .dbeta = ft_vector(sums + t->cols, t->cols, FT_F32),
        .dbias = ft_vector(sums + 2 * t->cols, t->cols, FT_F32));
}

static void activation_setup(test *t) {
    add_floats(t, t->rows * t->cols, 0, 4);
    many(t, 4, (int64_t[]){t->cols, t->rows * t->cols, t->rows * t->cols, t->cols});
    t->moved = 4.0 * 3 * (double)t->rows * (double)t->cols;
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
    many(t, 4, (int64_t[]){3 * n, n, t->rows * (t->cols / 64 + 1), n}); // 3: qkv out lse dout
    add_floats(t, 3 * n, 0, 1);                                         // 7: gradients of qkv
    double pairs = (double)t->rows * (t->rows < LENGTH ? (double)t->rows : LENGTH);
    t->flops = 4.0 * pairs * (double)t->cols;
    t->moved = 4.0 * 4 * (double)n;
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

static void rows_setup(test *t) {
    add_step(t);
    add_integers(t, t->rows, 0);
    add_integers(t, t->rows, -LENGTH);
    many(t, 2, (int64_t[]){t->rows * t->cols, t->rows * t->cols});
    t->moved = 4.0 * 2 * (double)t->rows * (double)t->cols;
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

static void cross_entropy_setup(test *t) {
    add_step(t);
    add_integers(t, t->rows, CLASSES);
    many(t, 3, (int64_t[]){t->rows * CLASSES, t->rows, t->rows * CLASSES});
    t->moved = 4.0 * 2 * (double)t->rows * CLASSES;
}
static ft_status cross_entropy(test *t, int side) {
    RUN(cross_entropy, .logits = matrix(t, 2, side, t->rows, CLASSES), .labels = t->at[1][side], .step = t->at[0][side],
        .losses = vector(t, 3, side, t->rows), .dlogits = matrix(t, 4, side, t->rows, CLASSES));
}

static void update_setup(test *t) {
    ft_update_state update = {
        .count = 3, .norm = 1, .correction1 = 0.3, .correction2 = 0.004, .clip = 0.5f, .finite = 1};
    add_step(t);
    add_bytes(t, sizeof update, &update);
    int64_t n = t->rows * t->cols;
    many(t, 3, (int64_t[]){n, n, n});
    add_floats(t, n, 1, 0.5); // of squares
    t->moved = 4.0 * 7 * (double)n;
}
static const ft_adamw_hyper hyper = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .max_gradient_norm = 1};
static ft_status gradient_norm(test *t, int side) {
    RUN(gradient_norm, .gradient = vector(t, 3, side, t->rows * t->cols), .hyper = hyper, .update = t->at[1][side]);
}
static ft_status adamw(test *t, int side) {
    int64_t n = t->rows * t->cols;
    const ft_adamw_range ranges[] = {{0, n / 3 / 4 * 4, 0.01f, 1}, {n / 3 / 4 * 4, n - n / 3 / 4 * 4, 0, 0.5f}};
    RUN(adamw, .parameter = vector(t, 2, side, n), .gradient = vector(t, 3, side, n), .m = vector(t, 4, side, n),
        .v = vector(t, 5, side, n), .ranges = ranges, .range_count = 2, .hyper = hyper, .step = t->at[0][side],
        .update = t->at[1][side]);
}

static const struct op {
    const char *name;
    setup_function *setup;
    run_function *run;
    double tolerance; // of an element, relative to the largest of its buffer
} ops[] = {
    {"gemm_forward", gemm_setup, gemm_forward, 5e-6},
    {"gemm_input_gradient", gemm_setup, gemm_input, 5e-6},
    {"gemm_weight_gradient", gemm_setup, gemm_weight, 5e-6},
    {"column_sum", column_sum_setup, column_sum, 5e-6},
    {"embedding_forward", embedding_setup, embedding_forward, 0},
    {"embedding_backward", embedding_setup, embedding_backward, 2e-6},
    {"layernorm_forward", layernorm_setup, layernorm_forward, 2e-6},
    {"layernorm_backward", layernorm_setup, layernorm_backward, 5e-6},
    {"activation_forward", activation_setup, activation_forward, 5e-7},
    {"activation_backward", activation_setup, activation_backward, 5e-6},
    {"attention_forward", attention_setup, attention_forward, 5e-6},
    {"attention_backward", attention_backward_setup, attention_backward, 1e-5},
    {"dropout", rows_setup, dropout, 0},
    {"gather_rows", rows_setup, gather_rows, 0},
    {"scatter_rows_add", rows_setup, scatter_rows_add, 0},
    {"cross_entropy", cross_entropy_setup, cross_entropy, 2e-6},
    {"gradient_norm", update_setup, gradient_norm, 2e-6},
    {"adamw", update_setup, adamw, 2e-6},
};
enum { OPS = sizeof ops / sizeof *ops };

// ---- judging ----------------------------------------------------------------------------------------------------

// The worst element of all buffers, relative to the largest of its buffer. Integers and counters must be equal, which
// they are as floats too.
static double worst_of(test *t) {
    double worst = 0;
    for (int i = 0; i < t->count; i++) {
        float *got = malloc(t->bytes[i] + 1);
        if (got == NULL) need(ft_fail_memory(t->bytes[i], "a result"));
        need(t->device[GPU]->functions->download(t->device[GPU], got, t->at[i][GPU], t->bytes[i]));
        need(t->device[GPU]->functions->sync(t->device[GPU]));
        const float *want = t->at[i][CPU];
        double most = 1e-30, off = 0;
        if (t->bytes[i] == sizeof(ft_update_state) || t->bytes[i] == sizeof(ft_step_state)) { // doubles among them
            ft_update_state a, b;
            memcpy(&a, got, sizeof a < t->bytes[i] ? sizeof a : t->bytes[i]);
            memcpy(&b, want, sizeof b < t->bytes[i] ? sizeof b : t->bytes[i]);
            if (t->bytes[i] == sizeof a)
                off = fabs(a.norm - b.norm) + fabs((double)a.clip - (double)b.clip) + (double)(a.finite != b.finite) +
                      (double)(a.count != b.count);
            most = 1;
        } else {
            for (size_t k = 0; k < t->bytes[i] / sizeof(float); k++) {
                double a = (double)got[k], b = (double)want[k], d = fabs(a - b);
                if (memcmp(&got[k], &want[k], sizeof(float)) == 0) d = 0;
                if (!(d <= off)) off = isnan(d) ? INFINITY : d;
                if (fabs(b) > most && isfinite(b)) most = fabs(b);
            }
        }
        if (off / most > worst) worst = off / most;
        free(got);
    }
    return worst;
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

typedef struct report {
    FILE *csv, *json;
    int cases, wrong;
} report;

static void one(report *r, const struct op *op, ft_device *cpu, ft_device *gpu, const int64_t shape[3], bool timed) {
    test t = {.rows = shape[0], .cols = shape[1], .inner = shape[2], .device = {cpu, gpu}};
    op->setup(&t);
    need(op->run(&t, GPU));
    need(op->run(&t, CPU));
    double worst = worst_of(&t), seconds = timed ? time_of(op, &t) : 0;
    bool good = worst <= op->tolerance;
    double gb = timed ? t.moved / seconds * 1e-9 : 0, tf = timed ? t.flops / seconds * 1e-12 : 0;
    printf("%-22s %6lld x %-5lld %-5s %9.2e", op->name, (long long)shape[0], (long long)shape[1], good ? "ok" : "WRONG",
           worst);
    if (timed) printf("  %9.1f us  %7.0f GB/s  %7.1f TFLOP/s", seconds * 1e6, gb, tf);
    printf("\n");
    if (r->csv != NULL)
        fprintf(r->csv, "%s,%lld,%lld,%lld,%d,%.3e,%.1e,%.3f,%.1f,%.2f\n", op->name, (long long)shape[0],
                (long long)shape[1], (long long)shape[2], good, worst, op->tolerance, seconds * 1e6, gb, tf);
    if (r->json != NULL)
        fprintf(r->json,
                "%s\n  {\"op\": \"%s\", \"rows\": %lld, \"cols\": %lld, \"inner\": %lld, \"right\": %s, \"error\": "
                "%.3e, \"tolerance\": %.1e, "
                "\"microseconds\": %.3f, \"gb_per_second\": %.1f, \"tflop_per_second\": %.2f}",
                r->cases > 0 ? "," : "", op->name, (long long)shape[0], (long long)shape[1], (long long)shape[2],
                good ? "true" : "false", isfinite(worst) ? worst : 1e30, op->tolerance, seconds * 1e6, gb, tf);
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
    int named = 0;
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
        else if (argv[i][0] != '-' && named < OPS)
            names[named++] = argv[i];
        else
            return fprintf(stderr, "usage: gpu_ops [--time] [--tokens N] [--csv FILE] [--json FILE] [OP...]\n"), 2;
    }
    ft_device *cpu, *gpu;
    need(ft_cuda_open_with_kernels(0, &gpu));
    need(ft_cpu_open(0, NULL, &cpu));
    report r = {.csv = open_file(csv), .json = open_file(json)};
    printf("%s beside %s\n", gpu->description, cpu->description);
    if (r.csv != NULL)
        fprintf(r.csv, "op,rows,cols,inner,right,error,tolerance,microseconds,gb_per_second,tflop_per_second\n");
    if (r.json != NULL) fprintf(r.json, "{\"device\": \"%s\", \"cases\": [", gpu->description);
    // Odd sizes, one token, whole units; then BERT-base's.
    const int64_t small[][3] = {{1, 8, 5}, {33, 40, 17}, {130, 63, 33}, {257, 128, 64}}, large[3] = {tokens, 768, 768};
    for (int i = 0; i < OPS; i++) {
        bool wanted = named == 0;
        for (int k = 0; k < named; k++)
            wanted = wanted || strcmp(names[k], ops[i].name) == 0;
        for (size_t s = 0; wanted && s < sizeof small / sizeof *small; s++)
            one(&r, &ops[i], cpu, gpu, small[s], false);
        if (wanted && timed) one(&r, &ops[i], cpu, gpu, large, true);
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
