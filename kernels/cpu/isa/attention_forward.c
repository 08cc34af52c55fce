// Multi-head attention forward: streaming softmax over blocks of keys.
//
// Scores are kept transposed, keys down and queries across the lanes: maximum, exponential and sum of a softmax are
// then plain vector loops, and only the block of queries is ever transposed. The blocks of keys stand at fixed places
// of the sequence, so a query's result depends on its own sequence alone, and not on how it was computed.
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/attention_rows.h"
#include "kernels/cpu/isa/tiles/score_bias.h"
#include "kernels/cpu/isa/tiles/score_window.h"
#include "kernels/cpu/isa/tiles/streaming_softmax.h"
#include "kernels/ops/attention.h"

#include <math.h>

enum { QUERIES = FT_ATTENTION_QUERIES, KEYS = FT_ATTENTION_KEYS };

typedef struct forward_job {
    const ft_attention_forward_args *args;
    ft_score_stream stream;
    bias_lines bias;
    int64_t cost;
    int parts;
} forward_job;

// Out = what is summed / its sum, and the log-sum-exp.
static void finish(const ft_attention_forward_args *a, softmax_state *state, const ft_attention_item *item,
                   head_sums out) {
    const int64_t row = a->shape.cu_queries[item->sequence] + item->first_query;
    int64_t rows = item->last_query - item->first_query, d = a->shape.head_dim;
    float lse[QUERIES];
    for (int64_t i = 0; i < rows; i += FT_LANES) {
        v16 sum = v_load(state->sum + i);
        v_store(lse + i, v_add(v_load(state->max + i), log_above_one(sum)));
        v_store(state->sum + i, v_div(v_set1(1.0f), sum));
    }
    scale_rows(out.x, out.row, rows, d, state->sum);
    head_sums_end(out, a->out, row, item->head * d, rows, d);
    if (!a->lse.data) return;
    for (int64_t i = 0; i < rows; i++)
        ft_row(a->lse, row + i)[item->head] = lse[i];
}

// A query without keys attends to nothing.
static void attend_to_nothing(const ft_attention_forward_args *a, const ft_attention_item *item) {
    const int64_t d = a->shape.head_dim, row = a->shape.cu_queries[item->sequence];
    clear_head_rows(a->out, row + item->first_query, item->last_query - item->first_query, item->head * d, d);
    for (int64_t i = item->first_query; a->lse.data && i < item->last_query; i++)
        ft_row(a->lse, row + i)[item->head] = -INFINITY;
}

static void forward_item(void *context, const ft_attention_item *item, int thread) {
    const forward_job *job = context;
    const ft_attention_forward_args *a = job->args;
    const int64_t d = a->shape.head_dim, rows = item->last_query - item->first_query;
    const int64_t lanes = (rows + FT_LANES - 1) / FT_LANES * FT_LANES;
    if (item->keys == 0 || rows == 0) {
        attend_to_nothing(a, item);
        return;
    }
    float *queries = (float *)a->workspace.data + (size_t)thread * ft_attention_forward_thread_floats(a);
    float *scores = queries + d * QUERIES, *near_keys = scores + KEYS * QUERIES, *near_values = near_keys + KEYS * d;
    float *near_out = near_values + KEYS * d; // of bf16: the queries, until the first sums are there
    const int64_t query_row = a->shape.cu_queries[item->sequence] + item->first_query;
    const int64_t key_row = a->shape.cu_keys[item->sequence], key_column = item->head / ft_attention_group(&a->shape) * d;
    const head_sums out = head_sums_of(a->out, query_row, item->head * d, d, near_out);
    ft_score_stream stream = job->stream;
    if (stream.threshold)
        stream = ft_score_stream_of(&job->stream, a->shape.dropout.sequence_slot[item->sequence], item->head);
    softmax_state state;
    if (a->q.dtype == FT_BF16) {
        const tile_block q = head_rows(a->q, query_row, item->head * d, rows, d, near_out);
        tile_transpose(q.x, q.row, rows, d, a->shape.scale, queries, QUERIES);
    } else
        tile_transpose(ft_row(a->q, query_row) + item->head * d, a->q.stride, rows, d, a->shape.scale, queries, QUERIES);
    const ft_attention_band band = ft_attention_band_of(&a->shape);
    const ft_attention_span span = ft_attention_keys(band, item->first_query, item->last_query, item->keys);
    for (int64_t key = span.first; key < span.last; key += KEYS) {
        const bool first = key == span.first;
        int64_t keys = span.last - key < KEYS ? span.last - key : KEYS;
        tile_block k = head_rows(a->k, key_row + key, key_column, keys, d, near_keys);
        tile_block v = head_rows(a->v, key_row + key, key_column, keys, d, near_values);
        tile_product(keys, lanes, d, k.x, k.row, A_ROWS, queries, QUERIES, scores, QUERIES, false);
        if (job->bias.line) add_bias(&job->bias, item->head, scores, QUERIES, item->first_query, lanes, key, keys);
        if (!sees_all(item->first_query, rows, key, keys, band)) mask_scores(scores, QUERIES, item->first_query, lanes, key, keys, band);
        for (int64_t i = 0; i < lanes; i += FT_LANES) {
            softmax_step(&state, scores + i, QUERIES, i, keys, first);
            if (stream.threshold) drop_scores(&stream, scores + i, QUERIES, item->first_query + i, key, keys);
        }
        if (!first) scale_rows(out.x, out.row, rows, d, state.shrink);
        tile_product(rows, d, keys, scores, QUERIES, A_COLUMNS, v.x, v.row, out.x, out.row, !first);
    }
    finish(a, &state, item, out);
}

static void forward_task(void *context, int task, int thread) {
    forward_job *job = context;
    ft_attention_part(&job->args->shape, FT_CUT_QUERIES, job->cost, task, job->parts, forward_item, job, thread);
}

FT_ISA_OP(attention_forward) {
    const ft_attention_shape *s = &args->shape;
    if (s->sequences == 0 || args->out.rows == 0) return FT_OK;
    FT_TRY(ft_attention_forward_check(&ft_cpu_of(device)->target, args));
    FT_REQUIRE("attention_forward",
               s->cu_queries[s->sequences] == args->out.rows && s->cu_keys[s->sequences] == args->k.rows);
    const ft_cpu *cpu = ft_cpu_of(device);
    forward_job job = {.args = args, .stream = ft_score_stream_begin(&s->dropout), .parts = ft_pieces(cpu->threads)};
    job.bias = bias_lines_make(s, &args->bias, (float *)args->workspace.data + ft_attention_forward_thread_floats(args) * (size_t)cpu->threads);
    job.cost = ft_attention_cost(s, FT_CUT_QUERIES, NULL);
    ft_pool_run(cpu->pool, job.parts, forward_task, &job);
    return FT_OK;
}
