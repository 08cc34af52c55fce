// Gradients of disentangled attention, from the outputs and their log-sum-exp.
//
// As in attention_backward.c a tile of probabilities is computed again, with slanted scores, and every sum is a chain
// in the gradients' own memory. A head of a sequence is one item of work. What it adds to the tables it sums by
// distance, in scratch; when a wave of sequences is done, their sums go to the slots' rows, sequence after sequence. So
// neither the threads nor the waves decide about a bit, and the scratch is a few sequences' however long the batch.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/tiles/disentangled_tile.h"
#include "kernels/cpu/isa/tiles/score_gradient.h"
#include "kernels/cpu/isa/tiles/skewed_product.h"
#include "kernels/ops/disentangled_attention.h"

#include <math.h>

enum { QUERIES = FT_ATTENTION_QUERIES, KEYS = FT_ATTENTION_KEYS, ADD_COLUMNS = 32 };

typedef struct backward_job {
    const ft_disentangled_attention_backward_args *args;
    position_panels panels;
    ft_disentangled_scratch scratch;
    float *threads; // scratch of the threads
    size_t near;    // where a thread has gradients of bf16 until they are complete: of a block of queries, of all keys, of all values
    ft_score_stream stream;
    ft_attention_shape wave; // its sequences
    int64_t cost;
    int parts;
    ft_tensor gradient[2]; // of PK, of PQ
    int tables;            // how many are wanted
    float *deltas;         // their sums by distance: sequence after sequence, head after head, table after table
} backward_job;

// A block of queries of one head, and the scratch of a thread.
typedef struct query_block {
    int64_t first, rows, lanes;                    // lanes: rows rounded up to whole vectors
    float *near_q, *near_dout;                     // [rows, width]
    float *q_columns, *dout_columns;               // [head_dim, FT_SCORE_ROW], times scale; [head_dim, QUERIES]
    _Alignas(64) float lse[QUERIES], dot[QUERIES]; // dot: D
} query_block;

static void load_queries(query_block *b, const ft_disentangled_attention_backward_args *a, int64_t row, int32_t head,
                         int64_t width) {
    const ft_attention_shape *shape = &a->shape.attention;
    const int64_t d = shape->head_dim, column = head * d;
    b->lanes = ft_round_up(b->rows, FT_LANES);
    copy_rows(a->q, row, column, b->rows, d, b->near_q, width);
    copy_rows(a->dout, row, column, b->rows, d, b->near_dout, width);
    tile_transpose(b->near_q, width, b->rows, d, shape->scale, b->q_columns + FT_SCORE_PAD, FT_SCORE_ROW);
    tile_transpose(b->near_dout, width, b->rows, d, 1.0f, b->dout_columns, QUERIES);
    for (int64_t i = 0; i < b->rows; i++) {
        const float *dout = b->near_dout + i * width;
        const lane_row out = lanes_of(a->out, row + i, true);
        v16 sum = v_zero();
        for (int64_t c = 0; c < d; c += FT_LANES)
            sum = v_fma(v_load(dout + c), v_load_row(out, column + c, d - c, true), sum);
        b->dot[i] = v_hsum(sum);
        b->lse[i] = ft_row(a->lse, row + i)[head];
    }
    for (int64_t i = b->rows; i < b->lanes; i++) { // the bands read lanes without a query: their dS must be zero
        b->dot[i] = 0;
        b->lse[i] = INFINITY;
    }
}

// ---- a tile ---------------------------------------------------------------------------------------------------------

typedef struct tile {
    const query_block *b;
    int64_t d, width, key, keys;
    const float *near_k, *rows[2]; // rows: of PK and PQ, row FT_WINDOW / 2 is for delta = b->first - key
    float *p, *ds;                 // row 0, lane 0: [keys, FT_SCORE_ROW]
    ft_delta_rows deltas;
    float *delta_rows[2]; // NULL where no gradient is wanted
} tile;

// Zeros around dS, as far as the bands look beyond it.
static void fence_scores(const tile *t) {
    for (int64_t j = 0; j < t->keys; j++) {
        v_store(t->ds + j * FT_SCORE_ROW - FT_LANES, v_zero());
        v_store(t->ds + j * FT_SCORE_ROW + t->b->lanes, v_zero());
    }
    for (int64_t j = 1; j < FT_BAND; j++)
        for (int64_t i = 0; i < t->b->lanes; i += FT_LANES) {
            v_store(t->ds - j * FT_SCORE_ROW + i, v_zero());
            v_store(t->ds + (t->keys + j - 1) * FT_SCORE_ROW + i, v_zero());
        }
}

// Rows of a table for the distances of a tile.
static void load_window(const ft_disentangled_shape *shape, ft_tensor table, int64_t column, int64_t delta,
                        const tile *t, float *rows) {
    for (int64_t e = 1 - t->keys; e < t->b->rows; e++)
        copy_rows(table, ft_slot_of(shape, delta + e), column, 1, t->d, rows + (e + FT_WINDOW / 2) * t->width, t->width);
}

static void add_query_gradient(const tile *t, float *dq, int64_t stride) {
    skewed_product((skewed){.rows = t->b->rows,
                            .columns = t->d,
                            .steps = t->keys,
                            .a = t->ds,
                            .a_row = 1,
                            .a_step = FT_SCORE_ROW,
                            .x = t->near_k,
                            .x_step = t->width,
                            .t = t->rows[0] ? t->rows[0] + FT_WINDOW / 2 * t->width : NULL,
                            .t_row = t->width,
                            .t_step = -t->width,
                            .c = dq,
                            .c_row = stride,
                            .accumulate = t->key > 0});
}

static void add_key_gradient(const tile *t, float *dk, int64_t stride) {
    skewed_product((skewed){.rows = t->keys,
                            .columns = t->d,
                            .steps = t->b->rows,
                            .a = t->ds,
                            .a_row = FT_SCORE_ROW,
                            .a_step = 1,
                            .x = t->b->near_q,
                            .x_step = t->width,
                            .t = t->rows[1] ? t->rows[1] + FT_WINDOW / 2 * t->width : NULL,
                            .t_row = -t->width,
                            .t_step = t->width,
                            .c = dk,
                            .c_row = stride,
                            .accumulate = t->b->first > 0});
}

// dPK by distance sums dS_ij Q_i along the diagonals, over i; dPQ sums dS_ij K_j, over j. Distances go in bands of
// FT_BAND, whose chains all have the steps that one of them needs; what lies beyond dS is a zero. A band's size is the
// same for all instruction sets, so that a NaN in Q or K times such a zero is found in the same places.
static void add_table_gradients(const tile *t) {
    const int64_t rows = t->b->rows, width = t->width, origin = t->b->first - t->key - t->deltas.first;
    for (int64_t e = ft_round_down(1 - t->keys, FT_BAND); e < rows; e += FT_BAND) {
        int64_t last = e + FT_BAND - 1; // of the band
        skewed s = {.rows = FT_BAND, .columns = width, .x_step = width, .c_row = width, .accumulate = true};
        s.a_step = FT_SCORE_ROW + 1;
        if (t->delta_rows[0]) {
            int64_t i = e > 0 ? e : 0, end = t->keys + last < rows ? t->keys + last : rows;
            s.steps = end - i;
            s.a = t->ds + (i - e) * FT_SCORE_ROW + i;
            s.a_row = -FT_SCORE_ROW;
            s.x = t->b->near_q + i * width;
            s.c = t->delta_rows[0] + (origin + e) * width;
            skewed_product(s);
        }
        if (t->delta_rows[1]) {
            int64_t j = last < 0 ? -last : 0, end = rows - e < t->keys ? rows - e : t->keys;
            s.steps = end - j;
            s.a = t->ds + j * FT_SCORE_ROW + j + e;
            s.a_row = 1;
            s.x = t->near_k + j * width;
            s.c = t->delta_rows[1] + (origin + e) * width;
            skewed_product(s);
        }
    }
}

// ---- an item --------------------------------------------------------------------------------------------------------

// Where the sums of a head begin.
static float *deltas_of(const backward_job *job, int32_t sequence, int32_t head, ft_delta_rows *rows) {
    const ft_attention_shape *wave = &job->wave;
    int64_t before = 0;
    for (int32_t s = 0; s < sequence; s++)
        before +=
            ft_delta_rows_of(wave->cu_queries[s + 1] - wave->cu_queries[s], wave->cu_keys[s + 1] - wave->cu_keys[s])
                .rows;
    *rows = ft_delta_rows_of(wave->cu_queries[sequence + 1] - wave->cu_queries[sequence],
                             wave->cu_keys[sequence + 1] - wave->cu_keys[sequence]);
    return job->deltas + (before * wave->heads + rows->rows * head) * job->scratch.width * job->tables;
}

static void backward_item(void *context, const ft_attention_item *item, int thread) {
    const backward_job *job = context;
    const ft_disentangled_attention_backward_args *a = job->args;
    const ft_disentangled_scratch *at = &job->scratch;
    const ft_tensor tables[2] = {a->pos_key, a->pos_query};
    const int64_t d = job->wave.head_dim, column = item->head * d;
    const int64_t query_row = job->wave.cu_queries[item->sequence], key_row = job->wave.cu_keys[item->sequence];
    if (item->queries == 0 || item->keys == 0) { // nobody looks at these keys, or these queries at nothing
        clear_head_rows(a->dq, query_row, item->queries, column, d);
        clear_head_rows(a->dk, key_row, item->keys, column, d);
        clear_head_rows(a->dv, key_row, item->keys, column, d);
        return;
    }
    tile t = {.d = d, .width = at->width};
    if (job->tables) {
        float *sums = deltas_of(job, item->sequence, item->head, &t.deltas);
        size_t floats = (size_t)(t.deltas.rows * t.width);
        memset(sums, 0, floats * (size_t)job->tables * sizeof *sums);
        for (int n = 0; n < 2; n++)
            if (job->gradient[n].data) {
                t.delta_rows[n] = sums;
                sums += floats;
            }
    }
    float *own = job->threads + (size_t)thread * at->floats;
    query_block b = {.near_q = own + at->near_queries,
                     .near_dout = own + at->near_douts,
                     .q_columns = own + at->queries,
                     .dout_columns = own + at->douts};
    float *scores = own + at->scores;
    t.b = &b;
    t.near_k = own + at->keys;
    t.p = scores + FT_SCORE_PAD;
    t.ds = own + at->dscores + FT_BAND * FT_SCORE_ROW + FT_SCORE_PAD;
    ft_score_stream stream = job->stream;
    if (stream.threshold)
        stream = ft_score_stream_of(&job->stream, job->wave.dropout.sequence_slot[item->sequence], item->head);
    float *near = own + job->near;
    const head_sums dk = head_sums_of(a->dk, key_row, column, d, near + QUERIES * d);
    const head_sums dv = head_sums_of(a->dv, key_row, column, d, near + (QUERIES + job->wave.max_keys) * d);
    for (b.first = 0; b.first < item->queries; b.first += QUERIES) {
        const head_sums dq = head_sums_of(a->dq, query_row + b.first, column, d, near);
        b.rows = item->queries - b.first < QUERIES ? item->queries - b.first : QUERIES;
        load_queries(&b, a, query_row + b.first, item->head, t.width);
        for (t.key = 0; t.key < item->keys; t.key += KEYS) {
            int64_t row = key_row + t.key;
            t.keys = item->keys - t.key < KEYS ? item->keys - t.key : KEYS;
            copy_rows(a->k, row, column, t.keys, d, own + at->keys, t.width);
            tile_block v = head_rows(a->v, row, column, t.keys, d, own + at->values);
            for (int n = 0; n < 2; n++) {
                if (!tables[n].data) continue;
                load_window(&a->shape, tables[n], column, b.first - t.key, &t, own + at->rows[n]);
                t.rows[n] = own + at->rows[n];
            }
            slanted_scores(&job->panels, item->head, b.first, b.rows, t.key, t.keys, b.q_columns, t.near_k, t.width,
                           scores);
            tile_product(t.keys, b.lanes, d, v.x, v.row, A_ROWS, b.dout_columns, QUERIES, t.ds, FT_SCORE_ROW, false);
            gradient_scores(b.lse, b.dot, b.first, b.lanes, t.key, t.keys, &stream, job->wave.scale, t.p, t.ds,
                            FT_SCORE_ROW);
            tile_product(t.keys, d, b.rows, t.p, FT_SCORE_ROW, A_ROWS, b.near_dout, t.width,
                         dv.x + t.key * dv.row, dv.row, b.first > 0);
            add_key_gradient(&t, dk.x + t.key * dk.row, dk.row);
            add_query_gradient(&t, dq.x, dq.row);
            if (!job->tables) continue;
            fence_scores(&t);
            add_table_gradients(&t);
        }
        head_sums_end(dq, a->dq, query_row + b.first, column, b.rows, d);
    }
    head_sums_end(dk, a->dk, key_row, column, item->keys, d);
    head_sums_end(dv, a->dv, key_row, column, item->keys, d);
}

static void backward_task(void *context, int task, int thread) {
    backward_job *job = context;
    ft_attention_part(&job->wave, FT_CUT_NOTHING, job->cost, task, job->parts, backward_item, job, thread);
}

// ---- the tables -----------------------------------------------------------------------------------------------------

static int64_t column_blocks(int64_t d) { return (d + ADD_COLUMNS - 1) / ADD_COLUMNS; }

// Task: some columns of one head. Adds what the wave's sequences summed to the rows of the slots.
static void add_task(void *context, int task, int thread) {
    const backward_job *job = context;
    const int64_t d = job->wave.head_dim, width = job->scratch.width, blocks = column_blocks(d);
    const int32_t head = (int32_t)(task / blocks);
    const int64_t column = task % blocks * ADD_COLUMNS, columns = d - column < ADD_COLUMNS ? d - column : ADD_COLUMNS;
    for (int32_t s = 0; s < job->wave.sequences; s++) {
        ft_delta_rows rows;
        const float *sums = deltas_of(job, s, head, &rows);
        int64_t queries = job->wave.cu_queries[s + 1] - job->wave.cu_queries[s];
        int64_t keys = job->wave.cu_keys[s + 1] - job->wave.cu_keys[s];
        if (queries == 0 || keys == 0) continue;
        for (int n = 0; n < 2; n++) {
            if (!job->gradient[n].data) continue;
            for (int64_t e = 1 - keys; e < queries; e++) {
                const float *from = sums + (e - rows.first) * width + column;
                float *to = ft_row(job->gradient[n], ft_slot_of(&job->args->shape, e)) + head * d + column;
                for (int64_t c = 0; c < columns; c += FT_LANES)
                    v_store_any(to + c, v_add(v_load_any(to + c, columns - c), v_load(from + c)), columns - c);
            }
            sums += rows.rows * width;
        }
    }
}

FT_ISA_OP(disentangled_attention_backward) {
    const ft_attention_shape *s = &args->shape.attention;
    if (s->sequences == 0) return FT_OK;
    FT_TRY(ft_disentangled_attention_backward_check(&ft_cpu_of(device)->target, args));
    FT_TRY(ft_check_lengths("disentangled_attention_backward", s, args->q.rows, args->k.rows));
    const ft_cpu *cpu = ft_cpu_of(device);
    backward_job job = {.args = args,
                        .scratch = ft_disentangled_backward_scratch(s->head_dim),
                        .threads = args->workspace.data,
                        .stream = ft_score_stream_begin(&s->dropout),
                        .parts = ft_pieces(cpu->threads),
                        .gradient = {args->dpos_key, args->dpos_query},
                        .tables = (args->dpos_key.data != NULL) + (args->dpos_query.data != NULL)};
    job.near = job.scratch.floats;
    if (args->q.dtype == FT_BF16) job.scratch.floats += ft_attention_backward_half_floats(s->head_dim, s->max_keys);
    float *behind = job.threads + job.scratch.floats * (size_t)cpu->threads;
    job.panels = panels_at(&args->shape, args->pos_key, args->pos_query, &behind, job.threads + job.scratch.keys,
                           job.scratch.floats);
    job.deltas = behind;
    make_panels(cpu, &job.panels);
    const size_t room = ft_delta_floats(&args->shape, job.tables, cpu->threads);
    for (int32_t first = 0, last; first < s->sequences; first = last) {
        last = ft_delta_wave(&args->shape, job.tables, room, first);
        job.wave = *s;
        job.wave.sequences = last - first;
        job.wave.cu_queries += first;
        job.wave.cu_keys += first;
        if (job.stream.threshold) job.wave.dropout.sequence_slot += first;
        job.cost = ft_attention_cost(&job.wave, FT_CUT_NOTHING, NULL);
        ft_pool_run(cpu->pool, job.parts, backward_task, &job);
        if (job.tables) ft_pool_run(cpu->pool, (int)(s->heads * column_blocks(s->head_dim)), add_task, &job);
    }
    return FT_OK;
}
