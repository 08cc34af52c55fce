// rows.c - dropout, gathering and scattering of rows.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/row_dropout.h"

#include <string.h>

typedef struct dropout_job {
    const ft_dropout_args *args;
    ft_row_dropout dropout;
    int parts;
} dropout_job;

static void dropout_rows(void *context, int task, int thread) {
    const dropout_job *job = context;
    const ft_dropout_args *a = job->args;
    int64_t first, last;
    ft_share(a->x.rows, 1, job->parts, task, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const float *x = (const float *)a->x.data + row * a->x.stride;
        float *y = (float *)a->y.data + row * a->y.stride;
        for (int64_t c = 0; c < a->x.cols; c += FT_DROPOUT_PIECE) {
            _Alignas(64) uint16_t bits[FT_DROPOUT_PIECE];
            ft_row_dropout_bits(&job->dropout, row, c, bits);
            for (int64_t i = c; i < a->x.cols && i < c + FT_DROPOUT_PIECE; i += FT_LANES) {
                v16 factor = ft_row_dropout_factor(&job->dropout, bits + (i - c));
                v_store_any(y + i, v_mul(v_load_any(x + i, a->x.cols - i), factor), a->x.cols - i);
            }
        }
    }
}

ft_status FT_ISA_NAME(dropout)(ft_device *device, const ft_dropout_args *args) {
    ft_cpu *cpu = ft_cpu_of(device);
    if (args->x.rows != args->y.rows || args->x.cols != args->y.cols) return ft_fail(FT_FAILED, "dropout", "shapes disagree");
    if (args->dropout.probability <= 0) {
        for (int64_t row = 0; row < args->x.rows && args->x.data != args->y.data; row++)
            memcpy((float *)args->y.data + row * args->y.stride, (const float *)args->x.data + row * args->x.stride,
                   (size_t)args->x.cols * sizeof(float));
        return FT_OK;
    }
    dropout_job job = {args, ft_row_dropout_begin(&args->dropout), cpu->threads};
    ft_pool_run(cpu->pool, job.parts, dropout_rows, &job);
    return FT_OK;
}

ft_status FT_ISA_NAME(gather_rows)(ft_device *device, const ft_gather_rows_args *args) {
    if (args->x.cols != args->y.cols) return ft_fail(FT_FAILED, "gather_rows", "shapes disagree");
    for (int64_t i = 0; i < args->y.rows; i++)
        memcpy((float *)args->y.data + i * args->y.stride, (const float *)args->x.data + args->index[i] * args->x.stride,
               (size_t)args->x.cols * sizeof(float));
    return FT_OK;
}

ft_status FT_ISA_NAME(scatter_rows_add)(ft_device *device, const ft_scatter_rows_add_args *args) {
    if (args->x.cols != args->y.cols) return ft_fail(FT_FAILED, "scatter_rows_add", "shapes disagree");
    for (int64_t i = 0; i < args->x.rows; i++) {
        const float *x = (const float *)args->x.data + i * args->x.stride;
        float *y = (float *)args->y.data + args->index[i] * args->y.stride;
        for (int64_t c = 0; c < args->x.cols; c += FT_LANES) {
            int64_t n = args->x.cols - c;
            v_store_any(y + c, v_add(v_load_any(y + c, n), v_load_any(x + c, n)), n);
        }
    }
    return FT_OK;
}
