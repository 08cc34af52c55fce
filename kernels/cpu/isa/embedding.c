#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/bf16_lanes.h"
#include "kernels/ops/embedding.h"

// ---- forward --------------------------------------------------------------------------------------------------------

typedef struct forward_job {
    const ft_embedding_forward_args *args;
    int shares;
} forward_job;

FT_VEC void sum_16(const float *word, const float *position, const float *type, float *out, int64_t n) {
    v16 sum = v_load_any(word, n);
    if (position) sum = v_add(sum, v_load_any(position, n));
    if (type) sum = v_add(sum, v_load_any(type, n));
    v_store_any(out, sum, n);
}

static void forward_task(void *context, int task, int thread) {
    const forward_job *job = context;
    const ft_embedding_forward_args *a = job->args;
    int64_t first, last, cols = a->out.cols;
    ft_share(a->out.rows, 1, job->shares, task, &first, &last);
    for (int64_t t = first; t < last; t++) {
        const float *word = ft_row(a->word, a->word_ids[t]);
        const float *position = a->position.data ? ft_row(a->position, a->position_ids[t]) : NULL;
        const float *type = a->type.data ? ft_row(a->type, a->type_ids[t]) : NULL;
        float *out = ft_row(a->out, t);
        int64_t i = 0;
        for (; i + FT_LANES <= cols; i += FT_LANES)
            sum_16(word + i, position ? position + i : NULL, type ? type + i : NULL, out + i, FT_LANES);
        if (i < cols) sum_16(word + i, position ? position + i : NULL, type ? type + i : NULL, out + i, cols - i);
    }
}

static void forward_half_task(void *context, int task, int thread) {
    const forward_job *job = context;
    const ft_embedding_forward_args *a = job->args;
    int64_t first, last, cols = a->out.cols;
    ft_share(a->out.rows, 1, job->shares, task, &first, &last);
    for (int64_t t = first; t < last; t++) {
        const lane_row word = lanes_of(a->word, a->word_ids[t], true), out = lanes_of(a->out, t, true);
        const lane_row position = lanes_of(a->position, a->position.data ? a->position_ids[t] : 0, true);
        const lane_row type = lanes_of(a->type, a->type.data ? a->type_ids[t] : 0, true);
        for (int64_t c = 0; c < cols; c += FT_LANES) {
            v16 sum = v_load_row(word, c, cols - c, true);
            if (position.x) sum = v_add(sum, v_load_row(position, c, cols - c, true));
            if (type.x) sum = v_add(sum, v_load_row(type, c, cols - c, true));
            v_store_row(out, c, sum, cols - c, true);
        }
    }
}

FT_ISA_OP(embedding_forward) {
    int64_t rows = args->out.rows, cols = args->out.cols;
    FT_TRY(ft_embedding_forward_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    forward_job job = {args, ft_shares(cpu, rows, rows * cols)};
    ft_pool_run(cpu->pool, job.shares, args->out.dtype == FT_BF16 ? forward_half_task : forward_task, &job);
    return FT_OK;
}

// ---- backward -------------------------------------------------------------------------------------------------------

typedef struct backward_job {
    const ft_embedding_backward_args *args;
    int shares;
} backward_job;

// A share is a range of columns, for all tokens in order. Sharing out the ids instead would keep whole rows together,
// but a few ids ([CLS], token type 0) can make up most of the tokens.
FT_VEC void backward(const backward_job *job, int task, const bool halves) {
    const ft_embedding_backward_args *a = job->args;
    int64_t first, last;
    ft_share(a->dout.cols, FT_COLUMN_GRAIN, job->shares, task, &first, &last);
    for (int64_t t = 0; t < a->dout.rows; t++) {
        if (a->ids[t] == a->padding_id) continue; // no id is -1
        const lane_row from = lanes_of(a->dout, t, halves);
        float *to = ft_row(a->table_gradient, a->ids[t]);
        int64_t i = first;
        for (; i + FT_LANES <= last; i += FT_LANES)
            v_store(to + i, v_add(v_load(to + i), v_load_row(from, i, FT_LANES, halves)));
        if (i < last)
            v_store_any(to + i, v_add(v_load_any(to + i, last - i), v_load_row(from, i, last - i, halves)), last - i);
    }
}
static void backward_task(void *context, int task, int thread) { backward(context, task, false); }
static void backward_half_task(void *context, int task, int thread) { backward(context, task, true); }

FT_ISA_OP(embedding_backward) {
    int64_t rows = args->dout.rows, cols = args->dout.cols;
    FT_TRY(ft_embedding_backward_check(&ft_cpu_of(device)->target, args));
    const ft_cpu *cpu = ft_cpu_of(device);
    backward_job job = {args, ft_shares(cpu, (cols + FT_COLUMN_GRAIN - 1) / FT_COLUMN_GRAIN, rows * cols)};
    ft_pool_run(cpu->pool, job.shares, args->dout.dtype == FT_BF16 ? backward_half_task : backward_task, &job);
    return FT_OK;
}
