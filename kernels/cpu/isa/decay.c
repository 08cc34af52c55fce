#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/vec.h"

typedef struct decay_job {
    const ft_decay_args *args;
    int shares;
} decay_job;

// `vectors` independent chains, kept in registers over all factors.
FT_VEC void decay_vectors(const ft_decay_args *a, float *x, int vectors, int64_t n) {
    v16 value[4];
    for (int k = 0; k < vectors; k++) value[k] = v_load_any(x + k * FT_LANES, n - k * FT_LANES);
    for (int64_t f = 0; f < a->count; f++) {
        const v16 factor = v_set1(a->factors[f]);
        for (int k = 0; k < vectors; k++) value[k] = v_mul(value[k], factor);
    }
    for (int k = 0; k < vectors; k++) v_store_any(x + k * FT_LANES, value[k], n - k * FT_LANES);
}

static void decay_task(void *context, int task, int thread) {
    const decay_job *job = context;
    float *x = job->args->parameter.data;
    int64_t i, last;
    ft_share(job->args->parameter.rows * job->args->parameter.cols, FT_COLUMN_GRAIN, job->shares, task, &i, &last);
    for (; i + 4 * FT_LANES <= last; i += 4 * FT_LANES)
        decay_vectors(job->args, x + i, 4, 4 * FT_LANES);
    for (; i + FT_LANES <= last; i += FT_LANES)
        decay_vectors(job->args, x + i, 1, FT_LANES);
    if (i < last) decay_vectors(job->args, x + i, 1, last - i);
}

ft_status FT_ISA_NAME(decay)(ft_device *device, const ft_decay_args *args) {
    int64_t n = args->parameter.rows * args->parameter.cols;
    FT_TRY(ft_decay_check(&device->target, args));
    if (n == 0 || args->count == 0) return FT_OK;
    ft_cpu *cpu = ft_cpu_of(device);
    // An element is as much work as there are factors.
    decay_job job = {args, ft_shares(cpu, (n + FT_COLUMN_GRAIN - 1) / FT_COLUMN_GRAIN, n * (1 + args->count / 8))};
    ft_pool_run(cpu->pool, job.shares, decay_task, &job);
    return FT_OK;
}
