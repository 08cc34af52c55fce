// In blocks of columns, widened on the way: every sum has one order, whatever the instruction set.
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/half.h"
#include "kernels/ops/magnitude.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 64 };

// n numbers of a row from `col` on, in fp32; what is behind them becomes 0.
static void take(ft_tensor t, int64_t row, int64_t col, int64_t n, float to[BLOCK]) {
    const int64_t at = row * t.stride + col;
    if (t.dtype == FT_F32) memcpy(to, (const float *)t.data + at, (size_t)n * sizeof *to);
    else ft_widen(t.dtype, (const uint16_t *)t.data + at, to, n);
    for (int64_t i = n; i < BLOCK; i++) to[i] = 0;
}
static void put(ft_tensor t, int64_t row, int64_t col, int64_t n, const float from[BLOCK]) {
    const int64_t at = row * t.stride + col;
    if (t.dtype == FT_F32) memcpy((float *)t.data + at, from, (size_t)n * sizeof *from);
    else ft_narrow(t.dtype, from, (uint16_t *)t.data + at, n);
}
static float one(ft_tensor t, int64_t row, int64_t col) {
    float value;
    if (t.dtype == FT_F32) return ((const float *)t.data)[row * t.stride + col];
    ft_widen(t.dtype, (const uint16_t *)t.data + row * t.stride + col, &value, 1);
    return value;
}

// ---- row_norm -----------------------------------------------------------------------------------------------------------

typedef struct norm_job {
    const ft_row_norm_args *args;
    int shares;
} norm_job;

static float norm_of(const ft_row_norm_args *a, int64_t row) {
    float squares[BLOCK] = {0}, sum = 0;
    for (int64_t col = 0; col < a->w.cols; col += BLOCK) {
        const int64_t n = a->w.cols - col < BLOCK ? a->w.cols - col : BLOCK;
        float w[BLOCK], low[BLOCK], delta[BLOCK] = {0};
        take(a->w, row, col, n, w);
        for (int64_t k = 0; k < a->a.rows; k++) {
            const float high = one(a->b, row, k);
            take(a->a, k, col, n, low);
            for (int i = 0; i < BLOCK; i++) delta[i] += high * low[i];
        }
        for (int i = 0; i < BLOCK; i++) {
            const float v = w[i] + a->scale * delta[i];
            squares[i] += v * v;
        }
    }
    for (int i = 0; i < BLOCK; i++) sum += squares[i];
    return sqrtf(sum);
}

static void norm_task(void *context, int task, int thread) {
    const norm_job *job = context;
    int64_t first, last;
    ft_share(job->args->w.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++) ((float *)job->args->out.data)[row] = norm_of(job->args, row);
}

FT_ISA_OP(row_norm) {
    FT_TRY(ft_row_norm_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    norm_job job = {args, ft_shares(cpu, args->w.rows, args->w.rows * args->w.cols * (1 + args->a.rows))};
    if (args->w.rows > 0) ft_pool_run(cpu->pool, job.shares, norm_task, &job);
    return FT_OK;
}

// ---- column_scale -------------------------------------------------------------------------------------------------------

typedef struct scale_job {
    const ft_column_scale_args *args;
    int shares;
} scale_job;

// The factors of a block of columns, and what the bias adds.
static void factors_of(const ft_column_scale_args *a, int64_t col, int64_t n, float factor[BLOCK], float more[BLOCK]) {
    float norm[BLOCK], magnitude[BLOCK], bias[BLOCK];
    if (a->norm.data != NULL) take(a->norm, 0, col, n, norm);
    if (a->magnitude.data != NULL) take(a->magnitude, 0, col, n, magnitude);
    if (a->bias.data != NULL) take(a->bias, 0, col, n, bias);
    for (int64_t i = 0; i < n; i++) {
        float g = a->magnitude.data != NULL ? magnitude[i] : 1;
        if (a->norm.data != NULL) g = norm[i] > 0 ? g / norm[i] : 0;
        factor[i] = g + a->shift;
        more[i] = a->bias.data != NULL ? (1 - g) * bias[i] : 0;
    }
    for (int64_t i = n; i < BLOCK; i++) factor[i] = more[i] = 0;
}

static void scale_task(void *context, int task, int thread) {
    const scale_job *job = context;
    const ft_column_scale_args *a = job->args;
    int64_t first, last;
    ft_share(a->x.rows, 1, job->shares, task, &first, &last);
    for (int64_t col = 0; col < a->x.cols; col += BLOCK) {
        const int64_t n = a->x.cols - col < BLOCK ? a->x.cols - col : BLOCK;
        float factor[BLOCK], more[BLOCK];
        factors_of(a, col, n, factor, more);
        for (int64_t row = first; row < last; row++) {
            float x[BLOCK], other[BLOCK];
            take(a->x, row, col, n, x);
            if (a->times.data != NULL) {
                take(a->times, row, col, n, other);
                for (int i = 0; i < BLOCK; i++) x[i] = x[i] * other[i];
            }
            for (int i = 0; i < BLOCK; i++) x[i] = x[i] * factor[i] + more[i];
            if (a->accumulate) {
                take(a->y, row, col, n, other);
                for (int i = 0; i < BLOCK; i++) x[i] = other[i] + x[i];
            }
            put(a->y, row, col, n, x);
        }
    }
}

FT_ISA_OP(column_scale) {
    FT_TRY(ft_column_scale_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    scale_job job = {args, ft_shares(cpu, args->x.rows, args->x.rows * args->x.cols)};
    if (args->x.rows > 0) ft_pool_run(cpu->pool, job.shares, scale_task, &job);
    return FT_OK;
}
