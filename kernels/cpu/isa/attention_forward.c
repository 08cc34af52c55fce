// Multi-head attention forward: streaming softmax over blocks of keys.
//
// Scores are kept transposed, keys down and queries across the lanes: maximum, exponential and sum of a softmax are
// then plain vector loops, and only the block of queries is ever transposed. The blocks of keys stand at fixed places
// of the sequence, so a query's result depends on its own sequence alone, and not on how it was computed.
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/score_dropout.h"
#include "kernels/cpu/isa/tile_product.h"
#include "kernels/cpu/isa/vmath.h"

#include <math.h>

enum { QUERIES = FT_ATTENTION_QUERIES, KEYS = FT_ATTENTION_KEYS };

typedef struct forward_job {
    const ft_attention_forward_args *args;
    ft_score_stream stream;
    int64_t cost;
    int parts;
} forward_job;

// Running maximum and sum of the exponentials of a block's queries, and by how much the last block of keys shrank what
// was summed before.
typedef struct softmax_state {
    _Alignas(64) float max[QUERIES], sum[QUERIES], shrink[QUERIES];
} softmax_state;

// log x for finite x >= 1 (NaN gives NaN), to about 1 ulp: x = 2^e m with m in [sqrt(1/2), sqrt(2)), log m = 2
// artanh((m - 1) / (m + 1)).
FT_VMATH v16 log_above_one(v16 x) {
    u16x shifted = u_add(u_bits(x), u_set1(0x3F800000u - 0x3F3504F3u));
    v16 e = v_sub(v_from_i(u_shr(shifted, 23)), v_set1(127.0f));
    v16 m = v_bits(u_add(u_and(shifted, u_set1(0x007FFFFFu)), u_set1(0x3F3504F3u)));
    v16 s = v_div(v_sub(m, v_set1(1.0f)), v_add(m, v_set1(1.0f))), z = v_mul(s, s);
    v16 q = v_set1(1.0f / 9);
    q = v_fma(q, z, v_set1(1.0f / 7));
    q = v_fma(q, z, v_set1(1.0f / 5));
    q = v_fma(q, z, v_set1(1.0f / 3));
    v16 log_m = v_fma(v_mul(v_add(s, s), z), q, v_add(s, s));
    v16 log = v_fma(e, v_set1(0x1.62e430p-1f), v_fma(e, v_set1(-0x1.05c610p-29f), log_m));
    return v_select(v_is_nan(x), x, log);
}

// Turns the scores of `keys` keys and 16 queries into exponentials.
static void softmax_step(softmax_state *state, float *scores, int64_t lane, int64_t keys, bool first) {
    v16 before = v_load(state->max + lane), max = first ? v_load(scores) : before;
    for (int64_t j = first; j < keys; j++)
        max = v_max(max, v_load(scores + j * QUERIES));
    v16 shrink = first ? v_zero() : v_exp(v_sub(before, max));
    v16 sum = first ? v_zero() : v_mul(v_load(state->sum + lane), shrink);
    for (int64_t j = 0; j < keys; j++) {
        v16 p = v_exp(v_sub(v_load(scores + j * QUERIES), max));
        sum = v_add(sum, p);
        v_store(scores + j * QUERIES, p);
    }
    v_store(state->max + lane, max);
    v_store(state->sum + lane, sum);
    v_store(state->shrink + lane, shrink);
}

static void drop_scores(const ft_score_stream *stream, float *scores, int64_t query, int64_t key, int64_t keys) {
    for (int64_t j = 0; j < keys; j += 16) {
        u16x words[8];
        ft_score_dropout_words(stream, (uint32_t)query, (uint32_t)(key + j), words);
        for (int64_t r = 0; r < 16 && j + r < keys; r++) {
            float *p = scores + (j + r) * QUERIES;
            v_store(p, v_mul(v_load(p), ft_score_dropout_factor(stream, words[r & 7], r >> 3)));
        }
    }
}

// Row i times factor[i].
static void scale_rows(float *x, int64_t stride, int64_t rows, int64_t cols, const float *factor) {
    for (int64_t i = 0; i < rows; i++, x += stride) {
        v16 f = v_set1(factor[i]);
        for (int64_t c = 0; c < cols; c += FT_LANES)
            v_store_any(x + c, v_mul(v_load_any(x + c, cols - c), f), cols - c);
    }
}

// Out = what is summed / its sum, and the log-sum-exp.
static void finish(const ft_attention_forward_args *a, softmax_state *state, const ft_attention_item *item,
                   float *out) {
    int64_t rows = item->last_query - item->first_query, d = a->shape.head_dim;
    float lse[QUERIES];
    for (int64_t i = 0; i < rows; i += FT_LANES) {
        v16 sum = v_load(state->sum + i);
        v_store(lse + i, v_add(v_load(state->max + i), log_above_one(sum)));
        v_store(state->sum + i, v_div(v_set1(1.0f), sum));
    }
    scale_rows(out, a->out.stride, rows, d, state->sum);
    if (!a->lse.data) return;
    int64_t row = a->shape.cu_queries[item->sequence] + item->first_query;
    for (int64_t i = 0; i < rows; i++)
        ft_row(a->lse, row + i)[item->head] = lse[i];
}

// A query without keys attends to nothing.
static void attend_to_nothing(const ft_attention_forward_args *a, const ft_attention_item *item) {
    for (int64_t i = item->first_query; i < item->last_query; i++) {
        int64_t row = a->shape.cu_queries[item->sequence] + i;
        memset(ft_row(a->out, row) + item->head * a->shape.head_dim, 0, (size_t)a->shape.head_dim * sizeof(float));
        if (a->lse.data) ft_row(a->lse, row)[item->head] = -INFINITY;
    }
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
    float *queries = (float *)a->workspace.data + (size_t)thread * ft_attention_forward_floats(d);
    float *scores = queries + d * QUERIES, *near_keys = scores + KEYS * QUERIES, *near_values = near_keys + KEYS * d;
    const int64_t query_row = a->shape.cu_queries[item->sequence] + item->first_query;
    const int64_t key_row = a->shape.cu_keys[item->sequence];
    float *out = ft_row(a->out, query_row) + item->head * d;
    ft_score_stream stream = job->stream;
    if (stream.threshold)
        stream = ft_score_stream_of(&job->stream, a->shape.dropout.sequence_slot[item->sequence], item->head);
    softmax_state state;
    tile_transpose(ft_row(a->q, query_row) + item->head * d, a->q.stride, rows, d, a->shape.scale, queries, QUERIES);
    for (int64_t key = 0; key < item->keys; key += KEYS) {
        int64_t keys = item->keys - key < KEYS ? item->keys - key : KEYS;
        tile_block k = tile_gather(ft_row(a->k, key_row + key) + item->head * d, a->k.stride, keys, d, near_keys);
        tile_block v = tile_gather(ft_row(a->v, key_row + key) + item->head * d, a->v.stride, keys, d, near_values);
        tile_product(keys, lanes, d, k.x, k.row, A_ROWS, queries, QUERIES, scores, QUERIES, false);
        for (int64_t i = 0; i < lanes; i += FT_LANES) {
            softmax_step(&state, scores + i, i, keys, key == 0);
            if (stream.threshold) drop_scores(&stream, scores + i, item->first_query + i, key, keys);
        }
        if (key) scale_rows(out, a->out.stride, rows, d, state.shrink);
        tile_product(rows, d, keys, scores, QUERIES, A_COLUMNS, v.x, v.row, out, a->out.stride, key > 0);
    }
    finish(a, &state, item, out);
}

static void forward_task(void *context, int task, int thread) {
    forward_job *job = context;
    ft_attention_part(&job->args->shape, FT_CUT_QUERIES, job->cost, task, job->parts, forward_item, job, thread);
}

ft_status FT_ISA_NAME(attention_forward)(ft_device *device, const ft_attention_forward_args *args) {
    const ft_attention_shape *s = &args->shape;
    if (s->sequences == 0 || args->out.rows == 0) return FT_OK;
    FT_TRY(ft_attention_forward_check(&device->target, args));
    FT_REQUIRE("attention_forward",
               s->cu_queries[s->sequences] == args->out.rows && s->cu_keys[s->sequences] == args->k.rows);
    ft_cpu *cpu = ft_cpu_of(device);
    forward_job job = {.args = args, .stream = ft_score_stream_begin(&s->dropout), .parts = cpu->threads};
    job.cost = ft_attention_cost(s, FT_CUT_QUERIES, NULL);
    ft_pool_run(cpu->pool, job.parts, forward_task, &job);
    return FT_OK;
}
