#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/half.h"
#include "kernels/ops/cast.h"

typedef struct cast_job {
    const ft_cast_args *args;
    int64_t count;
    int shares;
} cast_job;

static void cast_task(void *context, int task, int thread) {
    const cast_job *job = context;
    const ft_tensor *x = &job->args->x, *y = &job->args->y;
    int64_t first, last;
    ft_share(job->count, FT_COLUMN_GRAIN, job->shares, task, &first, &last);
    if (x->dtype == FT_F32)
        ft_narrow(y->dtype, (const float *)x->data + first, (uint16_t *)y->data + first, last - first);
    else
        ft_widen(x->dtype, (const uint16_t *)x->data + first, (float *)y->data + first, last - first);
}

FT_ISA_OP(cast) {
    FT_TRY(ft_cast_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    int64_t count = args->x.rows * args->x.cols;
    cast_job job = {args, count, ft_shares(cpu, (count + FT_COLUMN_GRAIN - 1) / FT_COLUMN_GRAIN, count)};
    if (count > 0) ft_pool_run(cpu->pool, job.shares, cast_task, &job);
    return FT_OK;
}
