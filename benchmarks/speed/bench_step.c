// bench_step.c - where the time of a training step goes: a run of `ftengine train` whose ops are timed one by one.
//
//     bench_step SKIP [CONFIG.ini ...] [section.key=value ...]         the first SKIP steps are not counted
//
// The device's table of ops is replaced by one that looks at the clock before and behind each of them, and ft_update_run ends
// a step; both by the linker (--wrap), so that the run itself is the program's. CPU only: its ops are done when they return.
// Prints one JSON document: wall seconds from the end of step SKIP to that of the last, the FMA peak probed before and after
// the run (of the vectors of device.isa, so that device.isa=avx2 is held against what AVX2 can do), and of every op calls, seconds and operations by kernels/devices/cost.h; of matrix products dX and dW apart from the forward ones. What
// is in no op (batches, losses, bookkeeping) is the difference.
#include "base/log.h"
#include "benchmarks/config_arguments.h"
#include "benchmarks/fma_peak.h"
#include "engine/train/step/update.h"
#include "engine/train/train.h"
#include "kernels/cpu/limits.h"
#include "kernels/devices/cost.h"
#include "kernels/devices/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
#define FT_OP(name, what) OP_##name,
#include "kernels/ops/ops.def"
#undef FT_OP
    OP_PRODUCT_DX,
    OP_PRODUCT_DW,
    OP_FILL,
    OPS
};
static const char *const names[OPS] = {
#define FT_OP(name, what) [OP_##name] = #name,
#include "kernels/ops/ops.def"
#undef FT_OP
    [OP_PRODUCT_DX] = "gemm dX", [OP_PRODUCT_DW] = "gemm dW", [OP_FILL] = "fill"};

static struct {
    long calls;
    double seconds, flops;
} spent[OPS];
static const ft_op_table *ops;
static const ft_device_functions *functions;
static int inside; // of ops that are made of ops the outer one counts
static long steps, skip;
static double began, ended;

static void note(int op, double start, double flops) {
    if (inside > 0) return;
    spent[op].calls++;
    spent[op].seconds += ft_bench_seconds() - start;
    spent[op].flops += flops;
}

// Which of the three products of a linear layer, by how its operands lie.
static int product(const ft_gemm_args *a) { return a->trans_a ? OP_PRODUCT_DW : a->trans_b ? OP_gemm : OP_PRODUCT_DX; }
#define OP_INDEX(name, a) (OP_##name == OP_gemm ? product((const ft_gemm_args *)(const void *)(a)) : OP_##name)

#define FT_OP(name, what)                                                                                                          \
    static ft_status timed_##name(ft_device *device, const ft_##name##_args *a) {                                                  \
        double start = ft_bench_seconds();                                                                                         \
        inside++;                                                                                                                  \
        ft_status status = ops->name(device, a);                                                                                   \
        inside--;                                                                                                                  \
        note(OP_INDEX(name, a), start, ft_##name##_cost(a).flops);                                                                 \
        return status;                                                                                                             \
    }
#include "kernels/ops/ops.def"
#undef FT_OP

static ft_status timed_fill(ft_device *device, void *data, int byte, size_t bytes) {
    double start = ft_bench_seconds();
    ft_status status = functions->fill(device, data, byte, bytes);
    note(OP_FILL, start, 0);
    return status;
}

static const ft_op_table timed = {
#define FT_OP(name, what) .name = timed_##name,
#include "kernels/ops/ops.def"
#undef FT_OP
};

// The linker's names for what is wrapped and for what stands in its place.
ft_status __real_ft_device_open(const char *name, int threads, const char *isa, ft_device **device, char *why);
ft_status __wrap_ft_device_open(const char *name, int threads, const char *isa, ft_device **device, char *why);
ft_status __wrap_ft_device_open(const char *name, int threads, const char *isa, ft_device **device, char *why) {
    static ft_device_functions with_clock;
    FT_TRY(__real_ft_device_open(name, threads, isa, device, why));
    ops = (*device)->ops, functions = (*device)->functions;
    with_clock = *functions;
    with_clock.fill = timed_fill;
    (*device)->ops = &timed, (*device)->functions = &with_clock;
    return FT_OK;
}

ft_status __real_ft_update_run(const ft_parameters *p, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                               ft_update_state *state);
ft_status __wrap_ft_update_run(const ft_parameters *p, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                               ft_update_state *state);
ft_status __wrap_ft_update_run(const ft_parameters *p, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                               ft_update_state *state) {
    ft_status status = __real_ft_update_run(p, config, losses, step, state);
    if (step == NULL || ft_memory_device(p->memory)->ops != &timed) return status; // the run is planned first, on no device
    ended = ft_bench_seconds();
    if (++steps == skip) {
        began = ended;
        memset(spent, 0, sizeof spent);
    }
    return status;
}

static double probe(const char *isa) {
    ft_pool *pool;
    if (ft_pool_create(ft_usable_threads(), &pool) != FT_OK) return 0;
    ft_fma_peak_of(pool, 0.05, isa); // wakes the cores
    double peak = ft_fma_peak_of(pool, 0.2, isa);
    ft_pool_destroy(pool);
    return peak;
}

static void print(double peak_before, double peak_after) {
    printf("{\"steps\": %ld, \"seconds\": %.6f, \"peak_before\": %.1f, \"peak_after\": %.1f, \"ops\": [", steps - skip, ended - began,
           peak_before, peak_after);
    const char *between = "";
    for (int i = 0; i < OPS; i++) {
        if (spent[i].calls == 0) continue;
        printf("%s\n  {\"op\": \"%s\", \"calls\": %ld, \"seconds\": %.6f, \"flops\": %.6g}", between, names[i], spent[i].calls,
               spent[i].seconds, spent[i].flops);
        between = ",";
    }
    printf("\n]}\n");
}

int main(int argc, char **argv) {
    skip = argc > 1 ? atol(argv[1]) : 0;
    if (skip < 1) {
        fprintf(stderr, "usage: bench_step SKIP [CONFIG.ini ...] [section.key=value ...]\n");
        return 2;
    }
    ft_config config = {0};
    ft_log_set_level(FT_LOG_QUIET);
    ft_status status = bench_load_config(&config, argc - 2, argv + 2);
    double peak = probe(config.device.isa);
    if (status == FT_OK) status = ft_train(&config, NULL);
    if (status != FT_OK) ft_log_error();
    else if (steps <= skip) fprintf(stderr, "%ld steps are too few to leave out %ld\n", steps, skip);
    else print(peak, probe(config.device.isa));
    ft_config_free(&config);
    return status != FT_OK || steps <= skip;
}
