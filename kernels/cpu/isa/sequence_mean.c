// The mean of the rows of every sequence. A share is a range of columns, of all sequences: there may be few of these, and long ones.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/lanes/vec.h"
#include "kernels/ops/sequence_mean.h"

typedef struct mean_job {
    const int32_t *cu_seqlens;
    int32_t sequences;
    ft_tensor rows, means;
    int shares;
} mean_job;

static void forward_task(void *context, int task, int thread) {
    const mean_job *job = context;
    int64_t first, last;
    ft_share(job->means.cols, FT_COLUMN_GRAIN, job->shares, task, &first, &last);
    for (int32_t s = 0; s < job->sequences; s++) {
        const int64_t begin = job->cu_seqlens[s], end = job->cu_seqlens[s + 1];
        const v16 number = v_set1(end > begin ? (float)(end - begin) : 1.0f);
        for (int64_t c = first; c < last; c += FT_LANES) {
            v16 sum = v_zero();
            for (int64_t row = begin; row < end; row++) sum = v_add(sum, v_load_any(ft_row(job->rows, row) + c, last - c));
            v_store_any(ft_row(job->means, s) + c, v_div(sum, number), last - c);
        }
    }
}

static void backward_task(void *context, int task, int thread) {
    const mean_job *job = context;
    int64_t first, last;
    ft_share(job->means.cols, FT_COLUMN_GRAIN, job->shares, task, &first, &last);
    for (int32_t s = 0; s < job->sequences; s++) {
        const v16 number = v_set1((float)(job->cu_seqlens[s + 1] - job->cu_seqlens[s]));
        for (int64_t row = job->cu_seqlens[s]; row < job->cu_seqlens[s + 1]; row++)
            for (int64_t c = first; c < last; c += FT_LANES)
                v_store_any(ft_row(job->rows, row) + c, v_div(v_load_any(ft_row(job->means, s) + c, last - c), number), last - c);
    }
}

static void run(const ft_cpu *cpu, mean_job job, void (*task)(void *, int, int)) {
    const int64_t cols = job.means.cols;
    job.shares = ft_shares(cpu, (cols + FT_COLUMN_GRAIN - 1) / FT_COLUMN_GRAIN, job.rows.rows * cols);
    if (job.sequences > 0) ft_pool_run(cpu->pool, job.shares, task, &job);
}

FT_ISA_OP(sequence_mean_forward) {
    FT_TRY(ft_sequence_mean_forward_check(&ft_cpu_of(device)->target, args));
    run(ft_cpu_of(device), (mean_job){args->cu_seqlens, args->sequences, args->x, args->y, 0}, forward_task);
    return FT_OK;
}

FT_ISA_OP(sequence_mean_backward) {
    FT_TRY(ft_sequence_mean_backward_check(&ft_cpu_of(device)->target, args));
    run(ft_cpu_of(device), (mean_job){args->cu_seqlens, args->sequences, args->dx, args->dy, 0}, backward_task);
    return FT_OK;
}
