// Gradients of attention, from the outputs and their log-sum-exp.
//
// A tile of probabilities is computed again from q, k and lse, keys down and queries across the lanes; then
//     dS = scale P (dropped(dP) - D),   dV += dropped(P) dO,   dK += dS Q,   dQ += dS^T K
// where the sums are chains over the rows in order and go on in the gradients' own memory. So the order in which tiles
// come changes no bit, as long as each chain sees its rows in order: one thread takes a whole head when there are
// enough of them, else queries and keys are cut into blocks, in two passes that each compute the tile.
// Heads that share keys (a group) are one item, one after the other: their sums are one chain.
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/attention_rows.h"
#include "kernels/cpu/isa/tiles/score_bias.h"
#include "kernels/cpu/isa/tiles/score_gradient.h"
#include "kernels/cpu/isa/tiles/score_window.h"
#include "kernels/ops/attention.h"

enum { QUERIES = FT_ATTENTION_QUERIES, KEYS = FT_ATTENTION_KEYS };

typedef struct backward_job {
    const ft_attention_backward_args *args;
    ft_attention_shape items; // the shape with a head for every group
    ft_score_stream stream;
    bias_lines bias;
    float *sums; // of dS by distance, where the bias has a gradient
    ft_attention_cut cut;
    bool query_gradient, key_gradients; // what this pass computes
    int64_t cost;
    int parts;
} backward_job;

// A block of queries of one head.
typedef struct query_block {
    int64_t first, rows, lanes; // lanes: rows rounded up to whole vectors
    tile_block q, dout;
    float *near_q, *near_dout;                     // room for copies of those
    float *q_columns, *dout_columns;               // [head_dim, QUERIES]; q times scale
    _Alignas(64) float lse[QUERIES], dot[QUERIES]; // dot: D
} query_block;

static void load_queries(query_block *b, const ft_attention_backward_args *a, int64_t row, int32_t head) {
    const int64_t d = a->shape.head_dim;
    b->lanes = (b->rows + FT_LANES - 1) / FT_LANES * FT_LANES;
    b->q = head_rows(a->q, row, head * d, b->rows, d, b->near_q);
    b->dout = head_rows(a->dout, row, head * d, b->rows, d, b->near_dout);
    tile_transpose(b->q.x, b->q.row, b->rows, d, a->shape.scale, b->q_columns, QUERIES);
    tile_transpose(b->dout.x, b->dout.row, b->rows, d, 1.0f, b->dout_columns, QUERIES);
    memset(b->lse, 0, sizeof b->lse); // lanes without a query compute something finite that nobody reads
    memset(b->dot, 0, sizeof b->dot);
    for (int64_t i = 0; i < b->rows; i++) {
        const float *dout = b->dout.x + i * b->dout.row;
        const lane_row out = lanes_of(a->out, row + i, true);
        v16 sum = v_zero();
        for (int64_t c = 0; c < d; c += FT_LANES)
            sum = v_fma(v_load_any(dout + c, d - c), v_load_row(out, head * d + c, d - c, true), sum);
        b->dot[i] = v_hsum(sum);
        b->lse[i] = ft_row(a->lse, row + i)[head];
    }
}

// Keys [first, last) of which no query sees any, where queries are fewer than keys.
static void clear_unseen(const ft_attention_backward_args *a, const ft_attention_item *item, head_sums dk, head_sums dv) {
    const int64_t d = a->shape.head_dim;
    for (int64_t key = item->first_key; key < item->last_key; key += KEYS) {
        const int64_t end = item->last_key - key < KEYS ? item->last_key : key + KEYS;
        const ft_attention_span seen = ft_attention_queries(ft_attention_band_of(&a->shape), key, end, item->queries);
        if (seen.first < seen.last) continue;
        head_sums_clear(dk, key - item->first_key, end - key, d);
        head_sums_clear(dv, key - item->first_key, end - key, d);
    }
}

// Where the sums of a head begin: those of distance 0.
static float *sums_of(const backward_job *job, int32_t sequence, int32_t head) {
    const ft_attention_shape *s = &job->args->shape;
    const int64_t first_query = s->cu_queries[sequence], first_key = s->cu_keys[sequence];
    const int64_t queries = s->cu_queries[sequence + 1] - first_query, keys = s->cu_keys[sequence + 1] - first_key;
    return job->sums + ft_bias_sums_before(s, first_query, first_key, sequence) + (queries + keys + FT_BIAS_SUM_PAD) * head + keys;
}

typedef struct head_scratch {
    query_block b;
    float *p, *ds, *near_keys, *near_dq;
    head_sums dk, dv; // of the item's keys
} head_scratch;

// What one head of a group has of an item; `first`: it is the first of them.
static void backward_head(const backward_job *job, const ft_attention_item *item, int32_t head, bool first, head_scratch *scratch) {
    const ft_attention_backward_args *a = job->args;
    const int64_t d = a->shape.head_dim, column = head * d, key_column = item->head * d;
    const int64_t query_row = a->shape.cu_queries[item->sequence], key_row = a->shape.cu_keys[item->sequence];
    query_block *b = &scratch->b;
    float *p = scratch->p, *ds = scratch->ds, *near_keys = scratch->near_keys;
    float *sums = job->sums ? sums_of(job, item->sequence, head) : NULL;
    if (sums) memset(sums - item->keys, 0, (size_t)(item->queries + item->keys) * sizeof *sums);
    ft_score_stream stream = job->stream;
    if (stream.threshold) stream = ft_score_stream_of(&job->stream, a->shape.dropout.sequence_slot[item->sequence], head);
    const ft_attention_band band = ft_attention_band_of(&a->shape);
    // Of a cut in keys the queries that see them, of a cut in queries the keys that they see.
    ft_attention_span queries = {item->first_query, item->last_query};
    if (job->cut == FT_CUT_KEYS) queries = ft_attention_queries(band, item->first_key, item->last_key, item->queries);
    for (b->first = queries.first; b->first < queries.last; b->first += QUERIES) {
        b->rows = queries.last - b->first < QUERIES ? queries.last - b->first : QUERIES;
        load_queries(b, a, query_row + b->first, head);
        ft_attention_span seen = {item->first_key, item->last_key};
        if (job->cut != FT_CUT_KEYS) seen = ft_attention_keys(band, b->first, b->first + b->rows, item->keys);
        const head_sums dq = head_sums_of(a->dq, query_row + b->first, column, d, scratch->near_dq);
        for (int64_t key = seen.first; key < seen.last; key += KEYS) {
            int64_t keys = seen.last - key < KEYS ? seen.last - key : KEYS, row = key_row + key;
            // The block that sees these keys first sets their gradients, and so does the first one that is seen those of the queries.
            const bool more = !first || b->first > ft_attention_queries(band, key, key + keys, item->queries).first;
            tile_block k = head_rows(a->k, row, key_column, keys, d, near_keys);
            tile_block v = head_rows(a->v, row, key_column, keys, d, near_keys + KEYS * d);
            tile_product(keys, b->lanes, d, k.x, k.row, A_ROWS, b->q_columns, QUERIES, p, QUERIES, false);
            tile_product(keys, b->lanes, d, v.x, v.row, A_ROWS, b->dout_columns, QUERIES, ds, QUERIES, false);
            if (job->bias.line) add_bias(&job->bias, head, p, QUERIES, b->first, b->lanes, key, keys);
            if (!sees_all(b->first, b->rows, key, keys, band)) mask_scores(p, QUERIES, b->first, b->lanes, key, keys, band);
            gradient_scores(b->lse, b->dot, b->first, b->lanes, key, keys, &stream, a->shape.scale, p, ds, QUERIES);
            if (sums) add_by_distance(sums, ds, QUERIES, b->first, b->rows, key, keys);
            if (job->key_gradients) {
                const int64_t at = key - item->first_key;
                tile_product(keys, d, b->rows, p, QUERIES, A_ROWS, b->dout.x, b->dout.row,
                             scratch->dv.x + at * scratch->dv.row, scratch->dv.row, more);
                tile_product(keys, d, b->rows, ds, QUERIES, A_ROWS, b->q.x, b->q.row,
                             scratch->dk.x + at * scratch->dk.row, scratch->dk.row, more);
            }
            if (job->query_gradient)
                tile_product(b->rows, d, keys, ds, QUERIES, A_COLUMNS, k.x, k.row, dq.x, dq.row, key > seen.first);
        }
        if (job->query_gradient && seen.first < seen.last) head_sums_end(dq, a->dq, query_row + b->first, column, b->rows, d);
    }
}

static void backward_item(void *context, const ft_attention_item *item, int thread) {
    const backward_job *job = context;
    const ft_attention_backward_args *a = job->args;
    const int64_t d = a->shape.head_dim, group = ft_attention_group(&a->shape), column = item->head * d;
    if (item->queries == 0 || item->keys == 0) { // nobody looks at these keys, or these queries at nothing
        const int64_t query_row = a->shape.cu_queries[item->sequence], key_row = a->shape.cu_keys[item->sequence];
        if (job->query_gradient) clear_head_rows(a->dq, query_row, item->queries, column * group, d * group);
        if (job->key_gradients) clear_head_rows(a->dk, key_row, item->keys, column, d);
        if (job->key_gradients) clear_head_rows(a->dv, key_row, item->keys, column, d);
        return;
    }
    head_scratch scratch;
    query_block *b = &scratch.b;
    b->q_columns = (float *)a->workspace.data + (size_t)thread * ft_attention_backward_thread_floats(a);
    b->dout_columns = b->q_columns + d * QUERIES;
    b->near_q = b->dout_columns + d * QUERIES;
    b->near_dout = b->near_q + d * QUERIES;
    scratch.p = b->near_dout + d * QUERIES;
    scratch.ds = scratch.p + KEYS * QUERIES;
    scratch.near_keys = scratch.ds + KEYS * QUERIES;
    const int64_t first_key = a->shape.cu_keys[item->sequence] + item->first_key, keys = item->last_key - item->first_key;
    scratch.near_dq = scratch.near_keys + 2 * KEYS * d; // the last three are there of bf16 alone
    scratch.dk = head_sums_of(a->dk, first_key, column, d, scratch.near_dq + QUERIES * d);
    scratch.dv = head_sums_of(a->dv, first_key, column, d, scratch.near_dq + (QUERIES + a->shape.max_keys) * d);
    if (ft_attention_is_banded(&a->shape) && job->key_gradients) clear_unseen(a, item, scratch.dk, scratch.dv);
    for (int64_t i = 0; i < group; i++) backward_head(job, item, (int32_t)(item->head * group + i), i == 0, &scratch);
    if (!job->key_gradients) return;
    head_sums_end(scratch.dk, a->dk, first_key, column, keys, d);
    head_sums_end(scratch.dv, a->dv, first_key, column, keys, d);
}

static void backward_task(void *context, int task, int thread) {
    backward_job *job = context;
    ft_attention_part(&job->items, job->cut, job->cost, task, job->parts, backward_item, job, thread);
}

// Adds what the sequences of a head summed by distance to the rows of the table: one term for each run of distances of a slot.
static void bias_task(void *context, int head, int thread) {
    const backward_job *job = context;
    const ft_attention_backward_args *a = job->args;
    const float inverse = 1.0f / a->shape.scale; // dS has it
    for (int32_t s = 0; s < a->shape.sequences; s++) {
        const int64_t queries = a->shape.cu_queries[s + 1] - a->shape.cu_queries[s], keys = a->shape.cu_keys[s + 1] - a->shape.cu_keys[s];
        const float *sums = sums_of(job, s, head);
        for (int64_t e = 1 - keys; queries > 0 && e < queries;) {
            const int32_t slot = bias_slot(&a->bias, e);
            float sum = 0;
            for (; e < queries && bias_slot(&a->bias, e) == slot; e++) sum += sums[e];
            ft_row(a->dbias, slot)[head] += sum * inverse;
        }
    }
}

FT_ISA_OP(attention_backward) {
    const ft_attention_shape *s = &args->shape;
    if (s->sequences == 0) return FT_OK;
    FT_TRY(ft_attention_backward_check(&ft_cpu_of(device)->target, args));
    FT_REQUIRE("attention_backward",
               s->cu_queries[s->sequences] == args->q.rows && s->cu_keys[s->sequences] == args->k.rows);
    const ft_cpu *cpu = ft_cpu_of(device);
    int64_t largest;
    backward_job job = {.args = args,
                        .items = *s,
                        .stream = ft_score_stream_begin(&s->dropout),
                        .cut = FT_CUT_NOTHING,
                        .query_gradient = true,
                        .key_gradients = true,
                        .parts = ft_pieces(cpu->threads)};
    job.items.heads = ft_attention_key_heads(s);
    float *behind = (float *)args->workspace.data + ft_attention_backward_thread_floats(args) * (size_t)cpu->threads;
    job.bias = bias_lines_make(s, &args->bias, behind);
    if (args->dbias.data) job.sums = behind + ft_bias_line_floats(s);
    job.cost = ft_attention_cost(&job.items, FT_CUT_NOTHING, &largest);
    // Whole heads take five products a tile, the two passes seven. With whole heads the last thread to finish works for
    // up to one largest item longer than the mean. Sums by distance are those of whole heads.
    if (cpu->threads == 1 || job.sums || largest < job.cost / cpu->threads * 4 / 5) {
        ft_pool_run(cpu->pool, job.parts, backward_task, &job);
        if (job.sums) ft_pool_run(cpu->pool, s->heads, bias_task, &job);
        return FT_OK;
    }
    job.cut = FT_CUT_QUERIES;
    job.key_gradients = false;
    job.cost = ft_attention_cost(&job.items, job.cut, NULL);
    ft_pool_run(cpu->pool, job.parts, backward_task, &job);
    job.cut = FT_CUT_KEYS;
    job.key_gradients = true;
    job.query_gradient = false;
    job.cost = ft_attention_cost(&job.items, job.cut, NULL);
    ft_pool_run(cpu->pool, job.parts, backward_task, &job);
    return FT_OK;
}
