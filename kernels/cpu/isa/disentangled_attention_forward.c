// Disentangled attention forward: attention_forward.c with slanted scores.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/disentangled_tile.h"
#include "kernels/cpu/isa/tiles/streaming_softmax.h"
#include "kernels/ops/disentangled_attention.h"

#include <math.h>

enum { QUERIES = FT_ATTENTION_QUERIES, KEYS = FT_ATTENTION_KEYS };

typedef struct forward_job {
    const ft_disentangled_attention_forward_args *args;
    position_panels panels;
    ft_disentangled_scratch scratch;
    float *threads; // scratch of the threads
    size_t near;    // where a thread has the results of bf16, until they are complete; before them the queries
    ft_score_stream stream;
    int64_t cost;
    int parts;
} forward_job;

// Out = what is summed / its sum, and the log-sum-exp.
static void finish(const ft_disentangled_attention_forward_args *a, softmax_state *state, const ft_attention_item *item,
                   head_sums out) {
    const ft_attention_shape *shape = &a->shape.attention;
    const int64_t row = shape->cu_queries[item->sequence] + item->first_query;
    int64_t rows = item->last_query - item->first_query;
    float lse[QUERIES];
    for (int64_t i = 0; i < rows; i += FT_LANES) {
        v16 sum = v_load(state->sum + i);
        v_store(lse + i, v_add(v_load(state->max + i), log_above_one(sum)));
        v_store(state->sum + i, v_div(v_set1(1.0f), sum));
    }
    scale_rows(out.x, out.row, rows, shape->head_dim, state->sum);
    head_sums_end(out, a->out, row, item->head * shape->head_dim, rows, shape->head_dim);
    if (!a->lse.data) return;
    for (int64_t i = 0; i < rows; i++)
        ft_row(a->lse, row + i)[item->head] = lse[i];
}

// A query without keys attends to nothing.
static void attend_to_nothing(const ft_disentangled_attention_forward_args *a, const ft_attention_item *item) {
    const ft_attention_shape *shape = &a->shape.attention;
    const int64_t d = shape->head_dim, row = shape->cu_queries[item->sequence];
    clear_head_rows(a->out, row + item->first_query, item->last_query - item->first_query, item->head * d, d);
    for (int64_t i = item->first_query; a->lse.data && i < item->last_query; i++)
        ft_row(a->lse, row + i)[item->head] = -INFINITY;
}

static void forward_item(void *context, const ft_attention_item *item, int thread) {
    const forward_job *job = context;
    const ft_disentangled_attention_forward_args *a = job->args;
    const ft_attention_shape *shape = &a->shape.attention;
    const ft_disentangled_scratch *at = &job->scratch;
    const int64_t d = shape->head_dim, rows = item->last_query - item->first_query;
    const int64_t lanes = ft_round_up(rows, FT_LANES);
    if (item->keys == 0 || rows == 0) {
        attend_to_nothing(a, item);
        return;
    }
    float *own = job->threads + (size_t)thread * at->floats;
    float *queries = own + at->queries, *scores = own + at->scores, *block = scores + FT_SCORE_PAD;
    const int64_t query_row = shape->cu_queries[item->sequence] + item->first_query;
    const int64_t key_row = shape->cu_keys[item->sequence], column = item->head * d;
    const head_sums out = head_sums_of(a->out, query_row, column, d, own + job->near);
    ft_score_stream stream = job->stream;
    if (stream.threshold)
        stream = ft_score_stream_of(&job->stream, shape->dropout.sequence_slot[item->sequence], item->head);
    softmax_state state;
    tile_block q = {NULL, 0};
    if (a->q.dtype == FT_BF16)
        q = head_rows(a->q, query_row, column, rows, d, own + job->near);
    else
        q = (tile_block){ft_row(a->q, query_row) + column, a->q.stride};
    tile_transpose(q.x, q.row, rows, d, shape->scale, queries + FT_SCORE_PAD, FT_SCORE_ROW);
    for (int64_t key = 0; key < item->keys; key += KEYS) {
        int64_t keys = item->keys - key < KEYS ? item->keys - key : KEYS;
        copy_rows(a->k, key_row + key, column, keys, d, own + at->keys, at->width);
        tile_block v = head_rows(a->v, key_row + key, column, keys, d, own + at->values);
        slanted_scores(&job->panels, item->head, item->first_query, rows, key, keys, queries, own + at->keys, at->width,
                       scores);
        for (int64_t i = 0; i < lanes; i += FT_LANES) {
            softmax_step(&state, block + i, FT_SCORE_ROW, i, keys, key == 0);
            if (stream.threshold) drop_scores(&stream, block + i, FT_SCORE_ROW, item->first_query + i, key, keys);
        }
        if (key) scale_rows(out.x, out.row, rows, d, state.shrink);
        tile_product(rows, d, keys, block, FT_SCORE_ROW, A_COLUMNS, v.x, v.row, out.x, out.row, key > 0);
    }
    finish(a, &state, item, out);
}

static void forward_task(void *context, int task, int thread) {
    forward_job *job = context;
    ft_attention_part(&job->args->shape.attention, FT_CUT_QUERIES, job->cost, task, job->parts, forward_item, job,
                      thread);
}

FT_ISA_OP(disentangled_attention_forward) {
    const ft_attention_shape *s = &args->shape.attention;
    if (s->sequences == 0 || args->out.rows == 0) return FT_OK;
    FT_TRY(ft_disentangled_attention_forward_check(&ft_cpu_of(device)->target, args));
    FT_TRY(ft_check_lengths("disentangled_attention_forward", s, args->out.rows, args->k.rows));
    const ft_cpu *cpu = ft_cpu_of(device);
    forward_job job = {.args = args,
                       .scratch = ft_disentangled_forward_scratch(s->head_dim),
                       .threads = args->workspace.data,
                       .stream = ft_score_stream_begin(&s->dropout),
                       .cost = ft_attention_cost(s, FT_CUT_QUERIES, NULL),
                       .parts = ft_pieces(cpu->threads)};
    job.near = job.scratch.floats;
    if (args->q.dtype == FT_BF16) job.scratch.floats += ft_attention_forward_half_floats(s->head_dim);
    float *behind = job.threads + job.scratch.floats * (size_t)cpu->threads;
    job.panels = panels_at(&args->shape, args->pos_key, args->pos_query, &behind, job.threads + job.scratch.keys,
                           job.scratch.floats);
    make_panels(cpu, &job.panels);
    ft_pool_run(cpu->pool, job.parts, forward_task, &job);
    return FT_OK;
}
