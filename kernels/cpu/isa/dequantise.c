// Block by block: the values of the codes first, from a table, then the scale, in loops that the compiler makes vectors of.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/half.h"
#include "kernels/ops/dequantise.h"

#include <string.h>

enum { BLOCK = FT_NF4_BLOCK };

typedef struct dequantise_job {
    const ft_dequantise_args *args;
    ft_quantised_layout layout;
    int64_t count, blocks;
    int shares;
} dequantise_job;

static void put(ft_tensor y, int64_t at, const float *values, int64_t n) {
    if (y.dtype == FT_F32)
        memcpy((float *)y.data + at, values, (size_t)n * sizeof(float));
    else
        ft_narrow(y.dtype, values, (uint16_t *)y.data + at, n);
}

static void nf4_task(void *context, int task, int thread) {
    const dequantise_job *job = context;
    const unsigned char *x = job->args->x.data;
    int64_t first, last;
    ft_share(job->blocks, 1, job->shares, task, &first, &last);
    for (int64_t block = first; block < last; block++) {
        const int64_t at = block * BLOCK, n = job->count - at < BLOCK ? job->count - at : BLOCK;
        const unsigned char *codes = x + job->layout.codes + at / 2;
        float values[BLOCK];
        for (int64_t i = 0; i < (n + 1) / 2; i++) {
            values[2 * i] = ft_nf4_values[codes[i] >> 4];
            values[2 * i + 1] = ft_nf4_values[codes[i] & 15];
        }
        const float scale = ft_quantised_scale(job->args->format, &job->layout, x + job->layout.scales, block);
        for (int i = 0; i < BLOCK; i++) values[i] = i < n ? values[i] * scale : 0;
        put(job->args->y, at, values, n);
    }
}

static void int8_task(void *context, int task, int thread) {
    const dequantise_job *job = context;
    const unsigned char *x = job->args->x.data;
    const int64_t cols = job->args->y.cols;
    int64_t first, last;
    ft_share(job->args->y.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const int8_t *codes = (const int8_t *)x + job->layout.codes + row * cols;
        const float scale = ft_quantised_scale(FT_INT8, &job->layout, x + job->layout.scales, row);
        for (int64_t at = 0; at < cols; at += BLOCK) {
            const int64_t n = cols - at < BLOCK ? cols - at : BLOCK;
            float values[BLOCK];
            for (int64_t i = 0; i < n; i++) values[i] = (float)codes[at + i] * scale * (1.0f / 127.0f);
            put(job->args->y, row * cols + at, values, n);
        }
    }
}

FT_ISA_OP(dequantise) {
    FT_TRY(ft_dequantise_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    const int64_t rows = args->y.rows, cols = args->y.cols;
    dequantise_job job = {args, ft_quantised_layout_of(args->format, rows, cols), rows * cols, (rows * cols + BLOCK - 1) / BLOCK, 0};
    if (job.count == 0) return FT_OK;
    const bool by_rows = args->format == FT_INT8;
    job.shares = ft_shares(cpu, by_rows ? rows : job.blocks, job.count);
    ft_pool_run(cpu->pool, job.shares, by_rows ? int8_task : nf4_task, &job);
    return FT_OK;
}
