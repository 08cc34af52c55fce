#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/bf16_lanes.h"
#include "kernels/half.h"
#include "kernels/ops/cast.h"

// What half_ops.c converts with.
void FT_ISA_NAME(convert_rows)(ft_tensor narrow, ft_tensor wide, bool widen, int64_t first, int64_t last);

static void widen_lanes(ft_dtype type, const uint16_t *narrow, float *wide, int64_t n) {
    if (type == FT_BF16) (void)v_widened((lane_row){(void *)narrow, true}, 0, n, wide);
    else ft_widen(type, narrow, wide, n);
}
static void round_lanes(ft_dtype type, const float *wide, uint16_t *narrow, int64_t n) {
    if (type == FT_BF16) v_rounded((lane_row){narrow, true}, 0, n, wide);
    else ft_narrow(type, wide, narrow, n);
}

void FT_ISA_NAME(convert_rows)(ft_tensor narrow, ft_tensor wide, bool widen, int64_t first, int64_t last) {
    for (int64_t row = first; row < last; row++) {
        uint16_t *x = (uint16_t *)narrow.data + row * narrow.stride;
        if (widen) widen_lanes(narrow.dtype, x, ft_row(wide, row), narrow.cols);
        else round_lanes(narrow.dtype, ft_row(wide, row), x, narrow.cols);
    }
}

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
        round_lanes(y->dtype, (const float *)x->data + first, (uint16_t *)y->data + first, last - first);
    else
        widen_lanes(x->dtype, (const uint16_t *)x->data + first, (float *)y->data + first, last - first);
}

FT_ISA_OP(cast) {
    FT_TRY(ft_cast_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    int64_t count = args->x.rows * args->x.cols;
    cast_job job = {args, count, ft_shares(cpu, (count + FT_COLUMN_GRAIN - 1) / FT_COLUMN_GRAIN, count)};
    if (count > 0) ft_pool_run(cpu->pool, job.shares, cast_task, &job);
    return FT_OK;
}
