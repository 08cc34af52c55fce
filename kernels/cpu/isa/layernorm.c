// y = LayerNorm(residual + dropout(x + bias)) and its gradients.
//
// The backward pass is two sweeps: rows in parallel for the two means of a row, then columns in parallel for everything
// else, so that the sums over rows (dgamma, dbeta, dbias) are chains in row order that one thread owns.
//
// Of bf16 rows everything is computed from the sum before it is rounded, which stays in a thread's scratch for a row. `narrow`, a constant
// where these are inlined: what adds up from layer to layer is bf16 too (R of layernorm.h).
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/bf16_lanes.h"
#include "kernels/cpu/isa/tiles/row_dropout.h"
#include "kernels/ops/backend.h"

#include <math.h>

enum {
    PIECE = FT_DROPOUT_PIECE, // columns whose dropout bits are made at once
    CHAINS = 4,               // partial sums of a row: its vector k goes to sum k % 4, whatever the machine
};

FT_VEC float sum_of_chains(const v16 sum[CHAINS]) {
    return v_hsum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
}

// ---- forward --------------------------------------------------------------------------------------------------------

typedef struct forward_job {
    const ft_layernorm_forward_args *args;
    ft_row_dropout dropout;
    int shares;
} forward_job;

// s = residual + dropout(x + bias) for one row; returns its sum.
FT_VEC float join_row(const forward_job *job, int64_t row, float *s, const bool halves, const bool narrow) {
    const ft_layernorm_forward_args *a = job->args;
    const lane_row x = lanes_of(a->x, row, halves), bias = lanes_of(a->bias, 0, halves);
    const lane_row residual = lanes_of(a->residual, row, narrow);
    bool drops = a->dropout.probability != 0.0f;
    _Alignas(64) uint16_t bits[PIECE];
    v16 sum[CHAINS] = {v_zero(), v_zero(), v_zero(), v_zero()};
    int64_t cols = a->x.cols;
    for (int64_t c = 0; c < cols; c += FT_LANES) {
        if (drops && c % PIECE == 0) ft_row_dropout_bits(&job->dropout, row, c, bits);
        int64_t n = cols - c;
        v16 t = v_load_row(x, c, n, halves);
        if (bias.x) t = v_add(t, v_load_row(bias, c, n, halves));
        if (drops) t = v_mul(t, ft_row_dropout_factor(&job->dropout, bits + c % PIECE));
        if (residual.x) t = v_add(t, v_load_row(residual, c, n, narrow));
        v_store_any(s + c, t, n);
        sum[c / FT_LANES % CHAINS] = v_add(sum[c / FT_LANES % CHAINS], t);
    }
    return sum_of_chains(sum);
}

static float squares_around(const float *s, float mean, int64_t cols) {
    v16 sum[CHAINS] = {v_zero(), v_zero(), v_zero(), v_zero()}, center = v_set1(mean);
    for (int64_t c = 0; c < cols; c += FT_LANES) {
        v16 d = v_sub(v_load_any(s + c, cols - c), center);
        if (cols - c < FT_LANES) d = v_keep(m_first((int)(cols - c)), d);
        sum[c / FT_LANES % CHAINS] = v_fma(d, d, sum[c / FT_LANES % CHAINS]);
    }
    return sum_of_chains(sum);
}

static void forward_task(void *context, int task, int thread) {
    const forward_job *job = context;
    const ft_layernorm_forward_args *a = job->args;
    const float *gamma = a->gamma.data, *beta = a->beta.data;
    int64_t first, last, cols = a->x.cols;
    ft_share(a->x.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++) {
        float *y = ft_row(a->y, row), *stream = ft_row_if(a->stream, row);
        float *s = a->s.data ? ft_row(a->s, row) : stream ? stream : y; // y holds s until it is overwritten
        float mean = join_row(job, row, s, false, false) / (float)cols;
        if (a->rms) mean = 0;
        if (stream && stream != s) memcpy(stream, s, (size_t)cols * sizeof *s);
        float rstd = 1.0f / sqrtf(squares_around(s, mean, cols) / (float)cols + a->epsilon);
        v16 center = v_set1(mean), scale = v_set1(rstd);
        for (int64_t c = 0; c < cols; c += FT_LANES) {
            int64_t n = cols - c;
            v16 hat = v_mul(v_sub(v_load_any(s + c, n), center), scale);
            v_store_any(y + c, v_fma(hat, v_load_any(gamma + c, n), beta ? v_load_any(beta + c, n) : v_zero()), n);
        }
        if (a->mean.data) ((float *)a->mean.data)[row] = mean;
        if (a->rstd.data) ((float *)a->rstd.data)[row] = rstd;
    }
}

FT_VEC void forward_halves(const forward_job *job, int task, int thread, const bool narrow) {
    const ft_layernorm_forward_args *a = job->args;
    const float *gamma = a->gamma.data, *beta = a->beta.data;
    int64_t first, last, cols = a->x.cols;
    float *s = (float *)a->workspace.data + ft_layernorm_row_floats(cols) * thread;
    ft_share(a->x.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const lane_row y = lanes_of(a->y, row, true), kept = lanes_of(a->s, row, true), stream = lanes_of(a->stream, row, narrow);
        float *wide = ft_row_if(a->wide, row);
        float mean = join_row(job, row, s, true, narrow) / (float)cols;
        if (a->rms) mean = 0;
        float rstd = 1.0f / sqrtf(squares_around(s, mean, cols) / (float)cols + a->epsilon);
        v16 center = v_set1(mean), scale = v_set1(rstd);
        for (int64_t c = 0; c < cols; c += FT_LANES) {
            int64_t n = cols - c;
            v16 sum = v_load_any(s + c, n), hat = v_mul(v_sub(sum, center), scale);
            v16 out = v_fma(hat, v_load_any(gamma + c, n), beta ? v_load_any(beta + c, n) : v_zero());
            if (kept.x) v_store_row(kept, c, sum, n, true);
            if (stream.x) v_store_row(stream, c, sum, n, narrow);
            if (wide) v_store_any(wide + c, out, n);
            v_store_row(y, c, out, n, true);
        }
        if (a->mean.data) ((float *)a->mean.data)[row] = mean;
        if (a->rstd.data) ((float *)a->rstd.data)[row] = rstd;
    }
}

static void forward_half_task(void *context, int task, int thread) { forward_halves(context, task, thread, false); }
static void forward_narrow_task(void *context, int task, int thread) { forward_halves(context, task, thread, true); }

FT_ISA_OP(layernorm_forward) {
    int64_t rows = args->x.rows, cols = args->x.cols;
    FT_TRY(ft_layernorm_forward_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    forward_job job = {args, ft_row_dropout_begin(&args->dropout), ft_shares(cpu, rows, rows * cols)};
    const bool halves = args->y.dtype == FT_BF16, narrow = args->residual.dtype == FT_BF16 || args->stream.dtype == FT_BF16;
    ft_pool_run(cpu->pool, job.shares, !halves ? forward_task : narrow ? forward_narrow_task : forward_half_task, &job);
    return FT_OK;
}

FT_ISA_OP(product_norm) {
    FT_TRY(ft_product_norm_check(&ft_cpu_of(device)->target, args));
    const ft_gemm_args product = ft_product_norm_product(args);
    const ft_layernorm_forward_args rest = ft_product_norm_rest(args);
    FT_TRY(FT_RUN(device, gemm, &product));
    return FT_RUN(device, layernorm_forward, &rest);
}

// ---- backward -------------------------------------------------------------------------------------------------------

typedef struct backward_job {
    const ft_layernorm_backward_args *args;
    ft_row_dropout dropout;
    float *means; // per row: of g and of g * xhat; NULL when only dgamma and dbeta are wanted
    int shares;
} backward_job;

FT_VEC void means(const backward_job *job, int task, const bool halves, const bool narrow) {
    const ft_layernorm_backward_args *a = job->args;
    const float *gamma = a->gamma.data;
    int64_t first, last, cols = a->dy.cols;
    ft_share(a->dy.rows, 1, job->shares, task, &first, &last);
    for (int64_t row = first; row < last; row++) {
        const lane_row dy = lanes_of(a->dy, row, narrow), s = lanes_of(a->s, row, halves);
        v16 center = v_set1(((float *)a->mean.data)[row]), scale = v_set1(((float *)a->rstd.data)[row]);
        v16 sum[CHAINS] = {v_zero(), v_zero(), v_zero(), v_zero()},
            dot[CHAINS] = {v_zero(), v_zero(), v_zero(), v_zero()};
        for (int64_t c = 0; c < cols; c += FT_LANES) { // lanes past the end have dy = gamma = 0
            int64_t n = cols - c, chain = c / FT_LANES % CHAINS;
            v16 hat = v_mul(v_sub(v_load_row(s, c, n, halves), center), scale);
            v16 g = v_mul(v_load_row(dy, c, n, narrow), v_load_any(gamma + c, n));
            sum[chain] = v_add(sum[chain], g);
            dot[chain] = v_fma(g, hat, dot[chain]);
        }
        job->means[2 * row] = a->rms ? 0 : sum_of_chains(sum) / (float)cols;
        job->means[2 * row + 1] = sum_of_chains(dot) / (float)cols;
    }
}

static void means_task(void *context, int task, int thread) { means(context, task, false, false); }
static void means_half_task(void *context, int task, int thread) { means(context, task, true, false); }
static void means_narrow_task(void *context, int task, int thread) { means(context, task, true, true); }

// Columns [col, last) of a row, at most PIECE of them.
FT_VEC void columns_piece(const backward_job *job, int64_t row, int64_t col, int64_t last, const bool halves, const bool narrow) {
    const ft_layernorm_backward_args *a = job->args;
    bool drops = a->dropout.probability != 0.0f;
    const float *gamma = a->gamma.data;
    const lane_row dy = lanes_of(a->dy, row, narrow), past = lanes_of(a->past, row, narrow), ds = lanes_of(a->ds, row, narrow);
    const lane_row s = lanes_of(a->s, row, halves), dx = lanes_of(a->dx, row, halves);
    float *dgamma = a->dgamma.data, *dbeta = a->dbeta.data, *dbias = a->dbias.data;
    v16 center = v_set1(((float *)a->mean.data)[row]), scale = v_set1(((float *)a->rstd.data)[row]);
    v16 mean = v_zero(), slope = v_zero();
    _Alignas(64) uint16_t bits[PIECE];
    if (job->means) {
        mean = v_set1(job->means[2 * row]);
        slope = v_set1(job->means[2 * row + 1]);
        if (drops && (dx.x || dbias)) ft_row_dropout_bits(&job->dropout, row, col, bits);
    }
    for (int64_t c = col; c < last; c += FT_LANES) {
        int64_t n = last - c;
        v16 d = v_load_row(dy, c, n, narrow), hat = v_mul(v_sub(v_load_row(s, c, n, halves), center), scale);
        if (dgamma) v_store_any(dgamma + c, v_fma(d, hat, v_load_any(dgamma + c, n)), n);
        if (dbeta) v_store_any(dbeta + c, v_add(v_load_any(dbeta + c, n), d), n);
        if (!job->means) continue;
        v16 g = v_mul(d, v_load_any(gamma + c, n));
        d = v_mul(scale, v_fnma(hat, slope, v_sub(g, mean)));
        if (past.x) d = v_add(d, v_load_row(past, c, n, narrow));
        if (ds.x) v_store_row(ds, c, d, n, narrow);
        if (drops) d = v_mul(d, ft_row_dropout_factor(&job->dropout, bits + (c - col)));
        if (dx.x) v_store_row(dx, c, d, n, halves);
        if (dbias) v_store_any(dbias + c, v_add(v_load_any(dbias + c, n), d), n);
    }
}

FT_VEC void columns(const backward_job *job, int task, const bool halves, const bool narrow) {
    int64_t first, last;
    ft_share(job->args->dy.cols, FT_COLUMN_GRAIN, job->shares, task, &first, &last);
    for (int64_t row = 0; row < job->args->dy.rows; row++)
        for (int64_t col = first; col < last; col += PIECE)
            columns_piece(job, row, col, last - col < PIECE ? last : col + PIECE, halves, narrow);
}
static void columns_task(void *context, int task, int thread) { columns(context, task, false, false); }
static void columns_half_task(void *context, int task, int thread) { columns(context, task, true, false); }
static void columns_narrow_task(void *context, int task, int thread) { columns(context, task, true, true); }

FT_ISA_OP(layernorm_backward) {
    int64_t rows = args->dy.rows, cols = args->dy.cols;
    FT_TRY(ft_layernorm_backward_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    const bool inputs = args->ds.data || args->dx.data || args->dbias.data, halves = args->s.dtype == FT_BF16, narrow = args->dy.dtype == FT_BF16;
    backward_job job = {args, ft_row_dropout_begin(&args->dropout), inputs ? args->workspace.data : NULL, 0};
    if (inputs) {
        job.shares = ft_shares(cpu, rows, rows * cols);
        ft_pool_run(cpu->pool, job.shares, !halves ? means_task : narrow ? means_narrow_task : means_half_task, &job);
    }
    job.shares = ft_shares(cpu, (cols + FT_COLUMN_GRAIN - 1) / FT_COLUMN_GRAIN, rows * cols);
    ft_pool_run(cpu->pool, job.shares, !halves ? columns_task : narrow ? columns_narrow_task : columns_half_task, &job);
    return FT_OK;
}
