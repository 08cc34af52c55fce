#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/bf16_lanes.h"
#include "kernels/ops/column_sum.h"

typedef struct sum_job {
    const ft_column_sum_args *args;
    int shares;
} sum_job;

// `blocks` vectors of columns at once: as many independent chains, kept in registers over all rows.
FT_VEC void sum_columns(ft_tensor x, int64_t col, float *out, int blocks, int64_t n, const bool halves) {
    v16 sum[4];
    for (int b = 0; b < blocks; b++)
        sum[b] = v_load_any(out + b * FT_LANES, n - b * FT_LANES);
    for (int64_t row = 0; row < x.rows; row++) {
        const lane_row from = lanes_of(x, row, halves);
        for (int b = 0; b < blocks; b++)
            sum[b] = v_add(sum[b], v_load_row(from, col + b * FT_LANES, n - b * FT_LANES, halves));
    }
    for (int b = 0; b < blocks; b++)
        v_store_any(out + b * FT_LANES, sum[b], n - b * FT_LANES);
}

FT_VEC void sum_share(const sum_job *job, int task, const bool halves) {
    ft_tensor x = job->args->x;
    float *out = job->args->out.data;
    int64_t col, last;
    ft_share(x.cols, FT_COLUMN_GRAIN, job->shares, task, &col, &last);
    for (; col + 4 * FT_LANES <= last; col += 4 * FT_LANES)
        sum_columns(x, col, out + col, 4, 4 * FT_LANES, halves);
    for (; col + FT_LANES <= last; col += FT_LANES)
        sum_columns(x, col, out + col, 1, FT_LANES, halves);
    if (col < last) sum_columns(x, col, out + col, 1, last - col, halves);
}
static void sum_task(void *context, int task, int thread) { sum_share(context, task, false); }
static void sum_half_task(void *context, int task, int thread) { sum_share(context, task, true); }

FT_ISA_OP(column_sum) {
    FT_TRY(ft_column_sum_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    int64_t blocks = (args->x.cols + FT_COLUMN_GRAIN - 1) / FT_COLUMN_GRAIN;
    sum_job job = {args, ft_shares(cpu, blocks, args->x.rows * args->x.cols)};
    ft_pool_run(cpu->pool, job.shares, args->x.dtype == FT_BF16 ? sum_half_task : sum_task, &job);
    return FT_OK;
}
