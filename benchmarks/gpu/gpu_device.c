// gpu_device.c - what of the CUDA back end is more than one op, on this machine's GPU: contexts that are closed and opened
// again, and graphs that are replayed. It needs the kernels alone: no model, no file.
//
//   gpu_device [context|graphs]...      both by default
//
// One line a check, "name,ok,what was seen" or "name,failed,what". Exit 0: all hold. 1: one does not. 4: there is no CUDA
// device, or something of it is missing.
// ctest: tsan=leave
#include "kernels/cuda/kernels.h"
#include "kernels/devices/devices.h"
#include "kernels/half.h"
#include "kernels/philox.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static _Noreturn void give_up(void) {
    fprintf(stderr, "gpu_device: %s%s%s\n", ft_error_message(), ft_error_where()[0] ? " at " : "", ft_error_where());
    exit(ft_error_code() == FT_NO_DEVICE ? 4 : 1);
}
static void need(ft_status status) {
    if (status != FT_OK) give_up();
}

static int failed;
__attribute__((format(printf, 3, 4))) static void verdict(const char *name, bool holds, const char *format, ...) {
    va_list arguments;
    printf("%s,%s,", name, holds ? "ok" : "failed");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    failed |= !holds;
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

// ---- a step in small: product, activation, dropout and LayerNorm, the product of a weight's gradient, norm and update -----

enum { ROWS = 256, COLS = 128, SCRATCH = 64 << 20, STEPS = 6 };

typedef struct chain {
    ft_device *device;
    void *block, *scratch;
    size_t bytes;
    ft_tensor x, y, out, bias, parameter; // bf16
    uint16_t *tail;                       // of the parameter
    ft_tensor gradient, m, v, residual, gamma, beta, mean, rstd; // fp32
    int32_t *slot, *position;
    ft_step_state *step;
    ft_update_state *update;
} chain;

static void *place(chain *c, size_t bytes) {
    void *at = c->block != NULL ? (char *)c->block + c->bytes : NULL;
    c->bytes += (bytes + 255) / 256 * 256;
    return at;
}

// Called twice: for the size, and for the places.
static void lay_out(chain *c) {
    const int64_t n = (int64_t)COLS * COLS;
    c->bytes = 0;
    c->x = ft_matrix(place(c, 2 * ROWS * COLS), ROWS, COLS, FT_BF16);
    c->y = ft_matrix(place(c, 2 * ROWS * COLS), ROWS, COLS, FT_BF16);
    c->out = ft_matrix(place(c, 2 * ROWS * COLS), ROWS, COLS, FT_BF16);
    c->bias = ft_vector(place(c, 2 * COLS), COLS, FT_BF16);
    c->parameter = ft_vector(place(c, 2 * (size_t)n), n, FT_BF16);
    c->tail = place(c, 2 * (size_t)n);
    ft_tensor *flat[] = {&c->gradient, &c->m, &c->v};
    for (int i = 0; i < 3; i++) *flat[i] = ft_vector(place(c, 4 * (size_t)n), n, FT_F32);
    c->residual = ft_matrix(place(c, 4 * ROWS * COLS), ROWS, COLS, FT_F32);
    c->gamma = ft_vector(place(c, 4 * COLS), COLS, FT_F32);
    c->beta = ft_vector(place(c, 4 * COLS), COLS, FT_F32);
    c->mean = ft_vector(place(c, 4 * ROWS), ROWS, FT_F32);
    c->rstd = ft_vector(place(c, 4 * ROWS), ROWS, FT_F32);
    c->slot = place(c, 4 * ROWS);
    c->position = place(c, 4 * ROWS);
    c->step = place(c, sizeof *c->step);
    c->update = place(c, sizeof *c->update);
}

static void put(chain *c, void *to, const void *from, size_t bytes) {
    need(c->device->functions->upload(c->device, to, from, bytes));
    need(c->device->functions->sync(c->device)); // `from` is not pinned
}

static void put_numbers(chain *c, ft_tensor t, uint64_t seed) {
    float numbers[ROWS * COLS];
    uint16_t narrow[ROWS * COLS];
    const int64_t n = t.rows * t.cols;
    for (int64_t i = 0; i < n; i++) numbers[i] = (float)((double)(ft_splitmix64(seed * 1000003 + (uint64_t)i) >> 11) * 0x1p-53 - 0.5);
    if (t.dtype == FT_BF16) ft_narrow(FT_BF16, numbers, narrow, n);
    put(c, t.data, t.dtype == FT_BF16 ? (void *)narrow : (void *)numbers, (size_t)n * ft_dtype_size(t.dtype));
}

static void open_chain(chain *c, ft_device *device) {
    *c = (chain){.device = device};
    lay_out(c);
    need(device->functions->buffer_alloc(device, c->bytes, &c->block));
    need(device->functions->buffer_alloc(device, SCRATCH, &c->scratch));
    lay_out(c);
    need(device->functions->fill(device, c->block, 0, c->bytes));
    put_numbers(c, c->bias, 1);
    put_numbers(c, c->gamma, 2);
    put_numbers(c, c->beta, 4);
    put_numbers(c, c->residual, 5);
    put_numbers(c, c->parameter, 3);
    int32_t rows[ROWS];
    for (int i = 0; i < ROWS; i++) rows[i] = i;
    put(c, c->slot, rows, sizeof rows);
    put(c, c->position, rows, sizeof rows);
}

static void close_chain(chain *c) {
    c->device->functions->buffer_free(c->device, c->block, c->bytes);
    c->device->functions->buffer_free(c->device, c->scratch, SCRATCH);
}

#define RUN(c, op, ...)                                                                                                \
    do {                                                                                                               \
        ft_##op##_args args = {__VA_ARGS__};                                                                           \
        size_t bytes = ft_##op##_workspace(&(c)->device->target, &args);                                               \
        if (bytes > SCRATCH) return ft_fail(FT_FAILED, #op, "more scratch than a check has");                          \
        args.workspace = (ft_workspace){(c)->scratch, bytes};                                                          \
        FT_TRY(FT_RUN((c)->device, op, &args));                                                                        \
    } while (0)

static ft_status step(chain *c) {
    static const ft_adamw_hyper hyper = {.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .max_gradient_norm = 1};
    const int64_t n = (int64_t)COLS * COLS;
    const ft_adamw_range all = {0, n, 0.01f, 1, NULL};
    const ft_tensor weight = ft_matrix(c->parameter.data, COLS, COLS, FT_BF16), gradient = ft_matrix(c->gradient.data, COLS, COLS, FT_F32);
    FT_TRY(c->device->functions->fill(c->device, c->gradient.data, 0, (size_t)n * sizeof(float)));
    RUN(c, gemm, .a = c->x, .b = weight, .c = c->y, .trans_b = true, .bias = c->bias);
    RUN(c, activation_forward, .kind = FT_ACT_GELU, .x = c->y, .y = c->y);
    RUN(c, layernorm_forward, .x = c->y, .residual = c->residual, .gamma = c->gamma, .beta = c->beta, .epsilon = 1e-12f,
        .dropout = {.probability = 0.1f, .layer = 1, .site = FT_SITE_FFN_OUTPUT, .step = c->step, .slot = c->slot, .position = c->position},
        .s = c->y, .y = c->out, .mean = c->mean, .rstd = c->rstd);
    RUN(c, gemm, .a = c->out, .b = c->x, .c = gradient, .trans_a = true, .accumulate = true);
    RUN(c, gradient_norm, .gradient = c->gradient, .hyper = hyper, .step = c->step, .stops = true, .update = c->update);
    RUN(c, adamw, .parameter = c->parameter, .tail = c->tail, .gradient = c->gradient, .m = c->m, .v = c->v, .ranges = &all,
        .range_count = 1, .hyper = hyper, .step = c->step, .update = c->update);
    return FT_OK;
}

// What changes from step to step is on the device before it begins.
static void prepare(chain *c, int number) {
    const ft_step_state state = {
        .seed = 7, .step = (uint32_t)number, .learning_rate = 1e-2f / (float)(number + 1), .loss_factor = 1, .loss_scale = 1};
    put(c, c->step, &state, sizeof state);
    put_numbers(c, c->x, (uint64_t)number + 10);
}

// Everything that steps left, as bits.
static void *look(chain *c) {
    void *bits = malloc(c->bytes);
    if (bits == NULL) need(ft_fail_memory(c->bytes, "what a check compares"));
    need(c->device->functions->download(c->device, bits, c->block, c->bytes));
    need(c->device->functions->sync(c->device));
    return bits;
}

static void *trained(ft_device *device) {
    chain c;
    open_chain(&c, device);
    for (int i = 0; i < STEPS; i++) {
        prepare(&c, i);
        need(step(&c));
    }
    void *bits = look(&c);
    close_chain(&c);
    return bits;
}

static size_t chain_bytes(void) {
    chain c = {.block = NULL};
    lay_out(&c);
    return c.bytes;
}

// ---- contexts ---------------------------------------------------------------------------------------------------

// The program retains the primary context through the driver, and the kernels' runtime is a library of its own within them,
// which stays: do kernels, copies and products go on working in a context that was given back and retained again?
static void check_context(void) {
    ft_device *device, *other;
    void *first = NULL;
    for (int round = 0; round < 3; round++) {
        need(ft_cuda_open_with_kernels(0, &device));
        void *bits = trained(device);
        ft_device_close(device);
        if (first == NULL) first = bits;
        verdict(round == 0 ? "context_opened" : round == 1 ? "context_opened_again" : "context_opened_a_third_time",
                memcmp(bits, first, chain_bytes()) == 0, "%d steps", STEPS);
        if (bits != first) free(bits);
    }
    need(ft_cuda_open_with_kernels(0, &device));
    need(ft_cuda_open_with_kernels(0, &other));
    ft_device_close(device);
    void *bits = trained(other);
    verdict("context_of_two_one_closed", memcmp(bits, first, chain_bytes()) == 0, "%d steps", STEPS);
    ft_device_close(other);
    free(bits);
    free(first);
}

// ---- graphs -----------------------------------------------------------------------------------------------------

static ft_graph *captured(chain *c) {
    ft_graph *graph;
    need(c->device->functions->graph_begin(c->device));
    ft_status recorded = step(c);
    need(c->device->functions->graph_end(c->device, &graph));
    need(recorded);
    return graph;
}

static void check_replays(ft_device *device) {
    chain c;
    void *queued = trained(device);
    open_chain(&c, device);
    prepare(&c, 0);
    need(step(&c)); // kernels are loaded when they are first launched, which a capture may forbid
    ft_graph *graph = captured(&c);
    for (int i = 1; i < STEPS; i++) {
        prepare(&c, i);
        need(device->functions->graph_run(device, graph));
    }
    void *replayed = look(&c);
    verdict("graph_replays_are_the_calls", memcmp(queued, replayed, c.bytes) == 0, "%d steps with other data in the same places", STEPS);
    device->functions->graph_destroy(device, graph);
    close_chain(&c);
    free(queued);
    free(replayed);
}

static ft_status replay(chain *c, ft_graph *graph) {
    return graph != NULL ? c->device->functions->graph_run(c->device, graph) : step(c);
}

// Seconds of one step: of the host until it is queued, and until it is done.
static void time_steps(chain *c, ft_graph *graph, double *queueing, double *done) {
    double begun = now();
    need(replay(c, graph));
    need(c->device->functions->sync(c->device));
    const int times = now() - begun > 1e-3 ? 3 : 200; // an emulated device has no time to tell
    begun = now();
    for (int i = 0; i < times; i++) need(replay(c, graph));
    *queueing = (now() - begun) / times;
    need(c->device->functions->sync(c->device));
    *done = (now() - begun) / times;
}

static void check_cost(ft_device *device) {
    enum { MANY = 32, NODES = 7 }; // at least: a product may be more than one kernel
    const long long most = 64 << 20; // what a run plans for its graphs (engine/train/step/graphs.h)
    chain c;
    ft_graph *graphs[MANY];
    double queueing[2], done[2];
    open_chain(&c, device);
    prepare(&c, 0);
    time_steps(&c, NULL, &queueing[0], &done[0]);
    const size_t before = ft_device_free_bytes(device);
    for (int i = 0; i < MANY; i++) graphs[i] = captured(&c);
    for (int i = 0; i < MANY; i++) need(device->functions->graph_run(device, graphs[i]));
    need(device->functions->sync(device));
    const size_t held = ft_device_free_bytes(device);
    time_steps(&c, graphs[0], &queueing[1], &done[1]);
    for (int i = 0; i < MANY; i++) device->functions->graph_destroy(device, graphs[i]);
    need(device->functions->sync(device));
    const size_t after = ft_device_free_bytes(device);
    // Noise may make a graph a little slower than its calls. Of a device whose small step takes so long, the emulated one, time says nothing.
    const bool tells = done[0] < 1e-3;
    verdict("graph_time", !tells || done[1] <= 1.25 * done[0] + 5e-6, "a step of %d nodes: queued in %.1f us and done in %.1f; its graph in %.1f and %.1f", NODES, queueing[0] * 1e6,
            done[0] * 1e6, queueing[1] * 1e6, done[1] * 1e6);
    verdict("graph_memory", (long long)before - (long long)held <= most, "%d graphs: the device has %lld KiB less; %lld KiB when they are destroyed", MANY,
            ((long long)before - (long long)held) / 1024, ((long long)before - (long long)after) / 1024);
    close_chain(&c);
}

// A capture that meets a wait ends without a graph, and the stream is as before.
static void check_refusal(ft_device *device) {
    ft_graph *graph;
    void *before = trained(device);
    need(device->functions->graph_begin(device));
    const bool waited = device->functions->sync(device) == FT_OK;
    const bool ended = device->functions->graph_end(device, &graph) == FT_OK;
    ft_error_clear();
    void *bits = trained(device);
    verdict("graph_refuses_a_wait", !waited && !ended && memcmp(before, bits, chain_bytes()) == 0, "%s and %s", waited ? "waited" : "no wait",
            ended ? "a graph" : "no graph");
    free(before);
    free(bits);
}

static void check_graphs(void) {
    ft_device *device;
    need(ft_cuda_open_with_kernels(0, &device));
    check_replays(device);
    check_cost(device);
    check_refusal(device);
    ft_device_close(device);
}

int main(int argc, char **argv) {
    static const char *const both[] = {"context", "graphs"};
    const int count = argc > 1 ? argc - 1 : 2;
    for (int i = 0; i < count; i++) {
        const char *name = argc > 1 ? argv[i + 1] : both[i];
        if (strcmp(name, "context") == 0) check_context();
        else if (strcmp(name, "graphs") == 0) check_graphs();
        else return fprintf(stderr, "usage: gpu_device [context|graphs]...\n"), 2;
    }
    return failed;
}
