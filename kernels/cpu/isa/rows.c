// Dropout of rows, and rows by index.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/bf16_lanes.h"
#include "kernels/cpu/isa/tiles/row_dropout.h"
#include "kernels/ops/rows.h"

typedef struct rows_job {
    ft_row_dropout dropout;
    ft_tensor x, y;
    const int32_t *index;
    bool accumulate;
    int shares;
} rows_job;

static void run_rows(ft_device *device, rows_job *job, int64_t rows, void (*task)(void *, int, int)) {
    const ft_cpu *cpu = ft_cpu_of(device);
    job->shares = ft_shares(cpu, rows, rows * job->x.cols);
    ft_pool_run(cpu->pool, job->shares, task, job);
}

// ---- dropout --------------------------------------------------------------------------------------------------------

FT_VEC void drop(const rows_job *job, int task, const bool halves) {
    _Alignas(64) uint16_t bits[FT_DROPOUT_PIECE];
    int64_t first, last, cols = job->x.cols;
    ft_share(job->x.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const lane_row x = lanes_of(job->x, row, halves), y = lanes_of(job->y, row, halves);
        for (int64_t c = 0; c < cols; c += FT_LANES) {
            if (c % FT_DROPOUT_PIECE == 0) ft_row_dropout_bits(&job->dropout, row, c, bits);
            v16 factor = ft_row_dropout_factor(&job->dropout, bits + c % FT_DROPOUT_PIECE);
            v16 dropped = v_mul(v_load_row(x, c, cols - c, halves), factor);
            if (job->accumulate) dropped = v_add(v_load_row(y, c, cols - c, halves), dropped);
            v_store_row(y, c, dropped, cols - c, halves);
        }
    }
}
static void dropout_task(void *context, int task, int thread) { drop(context, task, false); }
static void dropout_half_task(void *context, int task, int thread) { drop(context, task, true); }

static bool has_halves(const rows_job *job) { return job->x.dtype == FT_BF16 || job->y.dtype == FT_BF16; }
static size_t row_bytes(ft_tensor t) { return (size_t)t.cols * (t.dtype == FT_F32 ? sizeof(float) : sizeof(uint16_t)); }

static void copy_task(void *context, int task, int thread) {
    const rows_job *job = context;
    int64_t first, last;
    ft_share(job->x.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++)
        memcpy(lanes_of(job->y, row, true).x, lanes_of(job->x, row, true).x, row_bytes(job->x));
}

FT_ISA_OP(dropout) {
    const ft_dropout *d = &args->dropout;
    FT_TRY(ft_dropout_check(&ft_cpu_of(device)->target, args));
    rows_job job = {.x = args->x, .y = args->y, .accumulate = args->accumulate};
    if (args->x.rows == 0) return FT_OK;
    if (d->probability == 0.0f) {
        if (args->x.data != args->y.data) run_rows(device, &job, args->x.rows, copy_task);
        return FT_OK;
    }
    job.dropout = ft_row_dropout_begin(d);
    run_rows(device, &job, args->x.rows, has_halves(&job) ? dropout_half_task : dropout_task);
    return FT_OK;
}

// ---- rows by index --------------------------------------------------------------------------------------------------

static void gather_task(void *context, int task, int thread) {
    const rows_job *job = context;
    int64_t first, last;
    ft_share(job->y.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++)
        memcpy(ft_row(job->y, row), ft_row(job->x, job->index[row]), (size_t)job->y.cols * sizeof(float));
}

FT_ISA_OP(gather_rows) {
    if (args->y.rows == 0) return FT_OK;
    FT_TRY(ft_gather_rows_check(&ft_cpu_of(device)->target, args));
    rows_job job = {.x = args->x, .y = args->y, .index = args->index};
    run_rows(device, &job, args->y.rows, gather_task);
    return FT_OK;
}

FT_VEC void scatter(const rows_job *job, int task, const bool halves) {
    int64_t first, last, cols = job->x.cols;
    ft_share(job->x.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const lane_row x = lanes_of(job->x, row, halves), y = lanes_of(job->y, job->index[row], halves);
        for (int64_t c = 0; c < cols; c += FT_LANES)
            v_store_row(y, c, v_add(v_load_row(y, c, cols - c, halves), v_load_row(x, c, cols - c, halves)), cols - c, halves);
    }
}
static void scatter_task(void *context, int task, int thread) { scatter(context, task, false); }
static void scatter_half_task(void *context, int task, int thread) { scatter(context, task, true); }

FT_ISA_OP(scatter_rows_add) {
    if (args->x.rows == 0) return FT_OK;
    FT_TRY(ft_scatter_rows_add_check(&ft_cpu_of(device)->target, args));
    rows_job job = {.x = args->x, .y = args->y, .index = args->index};
    run_rows(device, &job, args->x.rows, has_halves(&job) ? scatter_half_task : scatter_task);
    return FT_OK;
}
