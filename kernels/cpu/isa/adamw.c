#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/lanes/vec.h"
#include "kernels/half.h"
#include "kernels/ops/adamw.h"

#include <math.h>

static int64_t elements(ft_tensor t) { return t.rows * t.cols; }

// ---- the norm -------------------------------------------------------------------------------------------------------

typedef struct norm_job {
    const float *gradient;
    int64_t n;
    double *partial;
    const ft_gradient_norm_args *args;
    double *of_block; // partial sums of the table
    int first_chunk, first_block; // of this rank
} norm_job;

static double lane_sum(double *sum) {
    for (int width = FT_LANES / 2; width > 0; width /= 2)
        for (int lane = 0; lane < width; lane++)
            sum[lane] += sum[lane + width];
    return sum[0];
}

static void add_squares(double *sum, const float *g, int64_t n) {
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES)
        for (int lane = 0; lane < FT_LANES; lane++)
            sum[lane] += (double)g[i + lane] * (double)g[i + lane];
    for (int lane = 0; i < n; i++, lane++)
        sum[lane] += (double)g[i] * (double)g[i];
}

// Products of floats are exact in double, so whether the compiler fuses them changes nothing.
static void norm_task(void *context, int task, int thread) {
    const norm_job *job = context;
    task += job->first_chunk;
    int64_t i = (int64_t)task * FT_NORM_CHUNK, last = i + FT_NORM_CHUNK < job->n ? i + FT_NORM_CHUNK : job->n;
    double sum[FT_LANES] = {0};
    add_squares(sum, job->gradient + i, last - i);
    job->partial[task] = lane_sum(sum);
}

// A lane adds up columns of its own, row after row: a row of zeros changes no sum.
static void table_task(void *context, int task, int thread) {
    const norm_job *job = context;
    const ft_gradient_norm_args *a = job->args;
    task += job->first_block;
    int64_t row = (int64_t)task * FT_NORM_ROWS, last = row + FT_NORM_ROWS < a->table_rows ? row + FT_NORM_ROWS : a->table_rows;
    if (a->table_blocks != NULL) row = a->table_blocks[task], last = a->table_blocks[task + 1];
    double sum[FT_LANES] = {0};
    for (; row < last; row++)
        add_squares(sum, (const float *)a->table.data + row * a->table.cols, a->table.cols);
    job->of_block[task] = lane_sum(sum);
}

static bool all_finite(const ft_tensor *losses) {
    for (int64_t row = 0; row < losses->rows; row++)
        for (int64_t col = 0; col < losses->cols; col++)
            if (!isfinite(ft_row(*losses, row)[col])) return false;
    return true;
}

// What torch.amp.GradScaler does with its growth factor of 2 and backoff factor of 1/2.
static void grow_or_halve(ft_update_state *update, uint32_t growth_interval) {
    if (!update->finite) {
        update->loss_scale *= 0.5f;
        update->finite_steps = 0;
    } else if (++update->finite_steps >= growth_interval) {
        if (isfinite(update->loss_scale * 2.0f)) update->loss_scale *= 2.0f;
        update->finite_steps = 0;
    }
}

FT_ISA_OP(gradient_norm) {
    int64_t n = elements(args->gradient), chunks = (n + FT_NORM_CHUNK - 1) / FT_NORM_CHUNK;
    FT_TRY(ft_gradient_norm_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    int64_t blocks = ft_norm_blocks(args->table_rows);
    const ft_norm_shares *s = &args->shares;
    const int64_t rank = s->sums != NULL ? s->rank : 0, ranks = s->sums != NULL ? s->ranks : 1;
    const ft_norm_pieces *pieces = &args->pieces;
    const int64_t before = pieces->sums != NULL ? pieces->first : 0;
    double *all = s->sums != NULL ? s->sums : pieces->sums != NULL ? pieces->sums : args->workspace.data, *partial = all + before;
    norm_job job = {args->gradient.data, n, partial, args, partial + chunks, (int)(chunks * rank / ranks), (int)(blocks * rank / ranks)};
    ft_pool_run(cpu->pool, (int)(chunks * (rank + 1) / ranks) - job.first_chunk, norm_task, &job);
    ft_pool_run(cpu->pool, (int)(blocks * (rank + 1) / ranks) - job.first_block, table_task, &job);
    if (s->sums != NULL) FT_TRY(s->meet(s->context));
    if (pieces->sums != NULL && !pieces->last) return FT_OK;
    double sum = 0;
    for (int64_t c = 0; c < before + chunks + blocks; c++)
        sum += all[c];

    ft_update_state *update = args->update;
    const ft_adamw_hyper *hyper = &args->hyper;
    double scale = args->step ? (double)args->step->loss_scale : 1.0;
    update->norm = sqrt(sum) / scale;
    double clip = hyper->max_gradient_norm > 0 ? hyper->max_gradient_norm / (update->norm + 1e-6) : 1.0;
    update->clip = clip < 1.0 ? (float)clip : 1.0f;
    if (update->stopped) {
        update->finite = 0;
        return FT_OK;
    }
    update->finite = isfinite(update->norm) && (!args->losses || all_finite(args->losses));
    if (args->stops && !update->finite) update->stopped = 1;
    if (update->finite) {
        update->count++;
        update->correction1 = 1.0 - pow(hyper->beta1, (double)update->count);
        update->correction2 = 1.0 - pow(hyper->beta2, (double)update->count);
    } else {
        update->skipped++;
    }
    if (args->growth_interval > 0) grow_or_halve(update, (uint32_t)args->growth_interval);
    return FT_OK;
}

// ---- the step -------------------------------------------------------------------------------------------------------

typedef struct factors {
    v16 clip, keep, toward1, beta2, toward2, step, root2, epsilon;
} factors;

FT_VEC void adamw_16(const factors *f, float *p, const float *g, float *m, float *v, int64_t n) {
    v16 gradient = v_mul(v_load_any(g, n), f->clip);
    v16 first = v_load_any(m, n), second = v_load_any(v, n);
    first = v_fma(v_sub(gradient, first), f->toward1, first);
    second = v_fma(v_mul(gradient, f->toward2), gradient, v_mul(second, f->beta2));
    v16 divisor = v_add(v_div(v_sqrt(second), f->root2), f->epsilon);
    v16 parameter = v_mul(v_load_any(p, n), f->keep);
    v_store_any(p, v_sub(parameter, v_div(v_mul(first, f->step), divisor)), n);
    v_store_any(m, first, n);
    v_store_any(v, second, n);
}

// Kept out of line: one copy serves whole ranges and pieces of them, so the bits of an element cannot depend on the
// cut.
__attribute__((noinline)) static void adamw_elements(const factors *f, float *p, const float *g, float *m, float *v,
                                                     int64_t n) {
    int64_t i = 0;
    for (; i + FT_LANES <= n; i += FT_LANES)
        adamw_16(f, p + i, g + i, m + i, v + i, FT_LANES);
    if (i < n) adamw_16(f, p + i, g + i, m + i, v + i, n - i);
}

// Joined, updated and split again while they are in the first cache.
static void adamw_pairs(const factors *f, uint16_t *high, uint16_t *tail, const float *g, float *m, float *v, int64_t n) {
    enum { PIECE = 32 * FT_LANES };
    float p[PIECE];
    for (int64_t i = 0; i < n; i += PIECE) {
        const int64_t piece = n - i < PIECE ? n - i : PIECE;
        ft_join_all(high + i, tail + i, p, piece);
        adamw_elements(f, p, g + i, m + i, v + i, piece);
        ft_split_all(p, high + i, tail + i, piece);
    }
}

static void adamw_range(const ft_adamw_args *a, const ft_adamw_range *range, int64_t first, int64_t last) {
    const ft_update_state *update = a->update;
    const int64_t n = last - first;
    double lr = (double)a->step->learning_rate * (double)range->lr_scale;
    factors f = {
        .clip = v_set1(update->clip / a->step->loss_scale),
        .keep = v_set1(ft_adamw_keep(a->step->learning_rate, range->lr_scale, range->weight_decay)),
        .toward1 = v_set1((float)(1.0 - a->hyper.beta1)),
        .beta2 = v_set1((float)a->hyper.beta2),
        .toward2 = v_set1((float)(1.0 - a->hyper.beta2)),
        .step = v_set1((float)(lr / update->correction1)),
        .root2 = v_set1((float)sqrt(update->correction2)),
        .epsilon = v_set1((float)a->hyper.epsilon),
    };
    const float *g = (const float *)a->gradient.data + first;
    float *m = (float *)a->m.data + first, *v = (float *)a->v.data + first;
    if (range->wide) {
        adamw_elements(&f, range->wide + (first - range->first), g, m, v, n);
    } else if (a->tail) {
        adamw_pairs(&f, (uint16_t *)a->parameter.data + first, a->tail + first, g, m, v, n);
    } else {
        float *p = (float *)a->parameter.data + first;
        adamw_elements(&f, p, g, m, v, n);
        if (a->compute.data) ft_narrow(a->compute.dtype, p, (uint16_t *)a->compute.data + first, n);
    }
}

typedef struct adamw_job {
    const ft_adamw_args *args;
    int64_t total;
    int shares;
} adamw_job;

// A share is a stretch of the ranges laid end to end: there are many small ranges (biases, norms) and a few huge ones.
static void adamw_task(void *context, int task, int thread) {
    const adamw_job *job = context;
    const ft_adamw_args *a = job->args;
    int64_t first, last, before = 0;
    ft_share(job->total, FT_COLUMN_GRAIN, job->shares, task, &first, &last);
    for (int32_t r = 0; r < a->range_count && before < last; before += a->ranges[r].count, r++) {
        const ft_adamw_range *range = &a->ranges[r];
        int64_t from = first > before ? first - before : 0;
        int64_t to = last - before < range->count ? last - before : range->count;
        if (from < to) adamw_range(a, range, range->first + from, range->first + to);
    }
}

FT_ISA_OP(adamw) {
    int64_t total = 0;
    FT_TRY(ft_adamw_check(&ft_cpu_of(device)->target, args));
    for (int32_t r = 0; r < args->range_count; r++) total += args->ranges[r].count;
    if (!args->update->finite) return FT_OK;
    const ft_cpu *cpu = ft_cpu_of(device);
    adamw_job job = {args, total, ft_shares(cpu, total, total)};
    ft_pool_run(cpu->pool, job.shares, adamw_task, &job);
    return FT_OK;
}
