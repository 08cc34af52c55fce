// Windows of neighbouring rows, and back. Copies and short sums beside a product that costs hundreds of times as much: plain
// loops, the same for every instruction set.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/ops/unfold.h"

typedef struct windows_job {
    ft_tensor x, y;
    const int32_t *cu_seqlens;
    int taps, shares;
} windows_job;

// One row t of a sequence that has rows [first, last).
typedef void (*row_function)(const windows_job *job, int64_t t, int64_t first, int64_t last);

static void rows_of_task(const windows_job *job, int task, row_function row) {
    int64_t first, last;
    int32_t sequence = 0;
    ft_share(job->x.rows, 1, job->shares, task, &first, &last);
    for (int64_t t = first; t < last; t++) {
        while (t >= job->cu_seqlens[sequence + 1]) sequence++;
        row(job, t, job->cu_seqlens[sequence], job->cu_seqlens[sequence + 1]);
    }
}

static void unfold_row(const windows_job *job, int64_t t, int64_t first, int64_t last) {
    const int taps = job->taps;
    float *y = ft_row(job->y, t);
    for (int k = 0; k < taps; k++) {
        int64_t from = t + k - (taps - 1) / 2;
        bool inside = from >= first && from < last;
        const float *x = ft_row(job->x, inside ? from : t);
        for (int64_t c = 0; c < job->x.cols; c++) y[c * taps + k] = inside ? x[c] : 0.0f;
    }
}

static void fold_row(const windows_job *job, int64_t t, int64_t first, int64_t last) {
    const int taps = job->taps;
    float *x = ft_row(job->x, t);
    for (int k = 0; k < taps; k++) {
        int64_t from = t - k + (taps - 1) / 2;
        if (from < first || from >= last) continue;
        const float *y = ft_row(job->y, from);
        for (int64_t c = 0; c < job->x.cols; c++) x[c] += y[c * taps + k];
    }
}

static void unfold_task(void *context, int task, int thread) { rows_of_task(context, task, unfold_row); }
static void fold_task(void *context, int task, int thread) { rows_of_task(context, task, fold_row); }

static void run(ft_device *device, windows_job *job, void (*task)(void *, int, int)) {
    const ft_cpu *cpu = ft_cpu_of(device);
    job->shares = ft_shares(cpu, job->x.rows, job->x.rows * job->y.cols);
    ft_pool_run(cpu->pool, job->shares, task, job);
}

FT_ISA_OP(unfold) {
    FT_TRY(ft_unfold_check(&ft_cpu_of(device)->target, args));
    if (args->x.rows == 0) return FT_OK;
    run(device, &(windows_job){.x = args->x, .y = args->y, .cu_seqlens = args->cu_seqlens, .taps = args->taps}, unfold_task);
    return FT_OK;
}

FT_ISA_OP(fold_add) {
    FT_TRY(ft_fold_add_check(&ft_cpu_of(device)->target, args));
    if (args->x.rows == 0) return FT_OK;
    run(device, &(windows_job){.x = args->x, .y = args->y, .cu_seqlens = args->cu_seqlens, .taps = args->taps}, fold_task);
    return FT_OK;
}
