// Gradients of attention, from the outputs and their log-sum-exp.
//
// A tile of probabilities is computed again from q, k and lse, keys down and queries across the lanes; then
//     dS = scale P (dropped(dP) - D),   dV += dropped(P) dO,   dK += dS Q,   dQ += dS^T K
// where the sums are chains over the rows in order and go on in the gradients' own memory. So the order in which tiles
// come changes no bit, as long as each chain sees its rows in order: one thread takes a whole head when there are
// enough of them, else queries and keys are cut into blocks, in two passes that each compute the tile.
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/score_gradient.h"
#include "kernels/cpu/isa/tiles/score_window.h"
#include "kernels/cpu/isa/tiles/tile_product.h"
#include "kernels/ops/attention.h"

enum { QUERIES = FT_ATTENTION_QUERIES, KEYS = FT_ATTENTION_KEYS };

typedef struct backward_job {
    const ft_attention_backward_args *args;
    ft_score_stream stream;
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
    b->q = tile_gather(ft_row(a->q, row) + head * d, a->q.stride, b->rows, d, b->near_q);
    b->dout = tile_gather(ft_row(a->dout, row) + head * d, a->dout.stride, b->rows, d, b->near_dout);
    tile_transpose(b->q.x, b->q.row, b->rows, d, a->shape.scale, b->q_columns, QUERIES);
    tile_transpose(b->dout.x, b->dout.row, b->rows, d, 1.0f, b->dout_columns, QUERIES);
    memset(b->lse, 0, sizeof b->lse); // lanes without a query compute something finite that nobody reads
    memset(b->dot, 0, sizeof b->dot);
    for (int64_t i = 0; i < b->rows; i++) {
        const float *dout = b->dout.x + i * b->dout.row, *out = ft_row(a->out, row + i) + head * d;
        v16 sum = v_zero();
        for (int64_t c = 0; c < d; c += FT_LANES)
            sum = v_fma(v_load_any(dout + c, d - c), v_load_any(out + c, d - c), sum);
        b->dot[i] = v_hsum(sum);
        b->lse[i] = ft_row(a->lse, row + i)[head];
    }
}

static void clear_rows(ft_tensor t, int64_t first, int64_t rows, int64_t col, int64_t cols) {
    for (int64_t i = first; i < first + rows; i++)
        memset(ft_row(t, i) + col, 0, (size_t)cols * sizeof(float));
}

// Keys [first, last) of which no query sees any, where queries are fewer than keys.
static void clear_unseen(const ft_attention_backward_args *a, const ft_attention_item *item) {
    const int64_t d = a->shape.head_dim, row = a->shape.cu_keys[item->sequence];
    for (int64_t key = item->first_key; key < item->last_key; key += KEYS) {
        const int64_t end = item->last_key - key < KEYS ? item->last_key : key + KEYS;
        const ft_attention_span seen = ft_attention_reach(a->shape.window, key, end, item->queries, QUERIES);
        if (seen.first < seen.last) continue;
        clear_rows(a->dk, row + key, end - key, item->head * d, d);
        clear_rows(a->dv, row + key, end - key, item->head * d, d);
    }
}

static void backward_item(void *context, const ft_attention_item *item, int thread) {
    const backward_job *job = context;
    const ft_attention_backward_args *a = job->args;
    const int64_t d = a->shape.head_dim, column = item->head * d;
    const int64_t query_row = a->shape.cu_queries[item->sequence], key_row = a->shape.cu_keys[item->sequence];
    if (item->queries == 0 || item->keys == 0) { // nobody looks at these keys, or these queries at nothing
        if (job->query_gradient) clear_rows(a->dq, query_row, item->queries, column, d);
        if (job->key_gradients) clear_rows(a->dk, key_row, item->keys, column, d);
        if (job->key_gradients) clear_rows(a->dv, key_row, item->keys, column, d);
        return;
    }
    query_block b;
    b.q_columns = (float *)a->workspace.data + (size_t)thread * ft_attention_backward_floats(d);
    b.dout_columns = b.q_columns + d * QUERIES;
    b.near_q = b.dout_columns + d * QUERIES;
    b.near_dout = b.near_q + d * QUERIES;
    float *p = b.near_dout + d * QUERIES, *ds = p + KEYS * QUERIES, *near_keys = ds + KEYS * QUERIES;
    ft_score_stream stream = job->stream;
    if (stream.threshold)
        stream = ft_score_stream_of(&job->stream, a->shape.dropout.sequence_slot[item->sequence], item->head);
    const int32_t window = a->shape.window;
    if (window > 0 && job->key_gradients) clear_unseen(a, item);
    // Of a cut in keys the queries that see them, of a cut in queries the keys that they see.
    ft_attention_span queries = {item->first_query, item->last_query};
    if (job->cut == FT_CUT_KEYS) queries = ft_attention_reach(window, item->first_key, item->last_key, item->queries, QUERIES);
    for (b.first = queries.first; b.first < queries.last; b.first += QUERIES) {
        b.rows = queries.last - b.first < QUERIES ? queries.last - b.first : QUERIES;
        load_queries(&b, a, query_row + b.first, item->head);
        ft_attention_span seen = {item->first_key, item->last_key};
        if (job->cut != FT_CUT_KEYS) seen = ft_attention_reach(window, b.first, b.first + b.rows, item->keys, KEYS);
        for (int64_t key = seen.first; key < seen.last; key += KEYS) {
            int64_t keys = seen.last - key < KEYS ? seen.last - key : KEYS, row = key_row + key;
            // The block that sees these keys first sets their gradients, and so does the first one that is seen those of the queries.
            const bool more = b.first > ft_attention_reach(window, key, key + keys, item->queries, QUERIES).first;
            tile_block k = tile_gather(ft_row(a->k, row) + column, a->k.stride, keys, d, near_keys);
            tile_block v = tile_gather(ft_row(a->v, row) + column, a->v.stride, keys, d, near_keys + KEYS * d);
            tile_product(keys, b.lanes, d, k.x, k.row, A_ROWS, b.q_columns, QUERIES, p, QUERIES, false);
            tile_product(keys, b.lanes, d, v.x, v.row, A_ROWS, b.dout_columns, QUERIES, ds, QUERIES, false);
            if (!sees_all(b.first, b.rows, key, keys, window)) mask_scores(p, QUERIES, b.first, b.lanes, key, keys, window);
            gradient_scores(b.lse, b.dot, b.first, b.lanes, key, keys, &stream, a->shape.scale, p, ds, QUERIES);
            if (job->key_gradients) {
                tile_product(keys, d, b.rows, p, QUERIES, A_ROWS, b.dout.x, b.dout.row, ft_row(a->dv, row) + column,
                             a->dv.stride, more);
                tile_product(keys, d, b.rows, ds, QUERIES, A_ROWS, b.q.x, b.q.row, ft_row(a->dk, row) + column,
                             a->dk.stride, more);
            }
            if (job->query_gradient)
                tile_product(b.rows, d, keys, ds, QUERIES, A_COLUMNS, k.x, k.row,
                             ft_row(a->dq, query_row + b.first) + column, a->dq.stride, key > seen.first);
        }
    }
}

static void backward_task(void *context, int task, int thread) {
    backward_job *job = context;
    ft_attention_part(&job->args->shape, job->cut, job->cost, task, job->parts, backward_item, job, thread);
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
                        .stream = ft_score_stream_begin(&s->dropout),
                        .cut = FT_CUT_NOTHING,
                        .query_gradient = true,
                        .key_gradients = true,
                        .parts = cpu->threads};
    job.cost = ft_attention_cost(s, FT_CUT_NOTHING, &largest);
    // Whole heads take five products a tile, the two passes seven. With whole heads the last thread to finish works for
    // up to one largest item longer than the mean.
    if (cpu->threads == 1 || largest < job.cost / cpu->threads * 4 / 5) {
        ft_pool_run(cpu->pool, job.parts, backward_task, &job);
        return FT_OK;
    }
    job.cut = FT_CUT_QUERIES;
    job.key_gradients = false;
    job.cost = ft_attention_cost(s, job.cut, NULL);
    ft_pool_run(cpu->pool, job.parts, backward_task, &job);
    job.cut = FT_CUT_KEYS;
    job.key_gradients = true;
    job.query_gradient = false;
    job.cost = ft_attention_cost(s, job.cut, NULL);
    ft_pool_run(cpu->pool, job.parts, backward_task, &job);
    return FT_OK;
}
