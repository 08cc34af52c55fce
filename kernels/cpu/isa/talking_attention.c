// Attention of talking heads (kernels/ops/talking_attention.h), forward and backward.
//
// A query is one item of work: its scores of all heads lie in scratch, keys across the lanes, and columns beyond the last key are zeros.
// Backward it leaves dZ and a there, and its terms of the mixing matrices. When some blocks of queries are done, every task takes some
// columns of one head and adds what the blocks give them, block after block. So neither the threads nor the number of blocks decide about
// a bit.
#include "kernels/cpu/disentangled_plan.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/lanes/vmath.h"
#include "kernels/cpu/isa/tiles/score_dropout.h"
#include "kernels/cpu/talking_plan.h"

#include <math.h>

// What both directions read.
typedef struct talk {
    const ft_disentangled_shape *shape;
    ft_tensor q, k, v, pos_key, pos_query, mix_scores, mix_weights;
    ft_score_stream stream;
    int64_t heads, d, row; // row: from head to head in scratch
    float *threads;        // scratch of each
    size_t floats;         // of one
} talk;

typedef struct query {
    int32_t sequence;
    int64_t i, keys, row, first_key; // its number in the sequence; rows of q and k
} query;

static query query_of(const talk *t, int32_t sequence, int64_t i) {
    const ft_attention_shape *s = &t->shape->attention;
    const int64_t first = s->cu_keys[sequence];
    return (query){sequence, i, s->cu_keys[sequence + 1] - first, s->cu_queries[sequence] + i, first};
}

// ---- of one query --------------------------------------------------------------------------------------------------------

static const float *table_row(const talk *t, ft_tensor table, int64_t delta, int64_t column) {
    return table.data ? ft_row(table, ft_slot_of(t->shape, delta)) + column : NULL;
}

static float product(const float *a, const float *b, int64_t n) {
    v16 sum = v_zero();
    for (int64_t c = 0; c < n; c += FT_LANES) sum = v_fma(v_load_any(a + c, n - c), v_load_any(b + c, n - c), sum);
    return v_hsum(sum);
}

// Zeros from the last key to the end of its vector.
static void end_row(float *x, int64_t keys) {
    if (keys % FT_LANES == 0) return;
    float *last = x + keys / FT_LANES * FT_LANES;
    v_store(last, v_load_n(last, (int)(keys % FT_LANES)));
}

static void scores_of(const talk *t, const query *at, float *z) {
    for (int64_t h = 0; h < t->heads; h++, z += t->row) {
        const int64_t column = h * t->d;
        const float *q = ft_row(t->q, at->row) + column;
        for (int64_t j = 0; j < at->keys; j++) {
            const float *k = ft_row(t->k, at->first_key + j) + column;
            const float *pos_key = table_row(t, t->pos_key, at->i - j, column), *pos_query = table_row(t, t->pos_query, at->i - j, column);
            float sum = product(q, k, t->d);
            if (pos_key != NULL) sum += product(q, pos_key, t->d);
            if (pos_query != NULL) sum += product(k, pos_query, t->d);
            z[j] = sum * t->shape->attention.scale;
        }
        end_row(z, at->keys);
    }
}

// y_g = factor * sum_h mix[g,h] x_h; transposed: mix[h,g]
static void mix(const talk *t, const query *at, ft_tensor matrix, bool transposed, float factor, const float *x, float *y) {
    for (int64_t j = 0; j < at->keys; j += FT_LANES)
        for (int64_t g = 0; g < t->heads; g++) {
            v16 sum = v_zero();
            for (int64_t h = 0; h < t->heads; h++)
                sum = v_fma(v_set1(transposed ? ft_row(matrix, h)[g] : ft_row(matrix, g)[h]), v_load(x + h * t->row + j), sum);
            v_store(y + g * t->row + j, v_mul(sum, v_set1(factor)));
        }
}

// m becomes probabilities; gives their log-sum-exp.
static float softmax(float *m, int64_t keys) {
    v16 most = v_set1(-INFINITY), sum = v_zero();
    for (int64_t j = 0; j < keys; j += FT_LANES) {
        const m16 there = m_first(keys - j < FT_LANES ? (int)(keys - j) : FT_LANES);
        most = v_max(v_select(there, v_load(m + j), v_set1(-INFINITY)), most);
    }
    const float largest = v_hmax(most);
    for (int64_t j = 0; j < keys; j += FT_LANES) v_store(m + j, v_exp(v_sub(v_load(m + j), v_set1(largest))));
    end_row(m, keys);
    for (int64_t j = 0; j < keys; j += FT_LANES) sum = v_add(sum, v_load(m + j));
    const float total = v_hsum(sum);
    for (int64_t j = 0; j < keys; j += FT_LANES) v_store(m + j, v_div(v_load(m + j), v_set1(total)));
    return largest + (float)log((double)total); // libm's logf differs between machines in the last bit
}

// 0 or the scale for every key.
static void factors_of(const talk *t, const query *at, int64_t head, float *factor) {
    const ft_score_dropout *dropout = &t->shape->attention.dropout;
    for (int64_t j = 0; j < at->keys; j++) {
        factor[j] = t->stream.scale;
        if (t->stream.threshold == 0) continue;
        const uint32_t slot = (uint32_t)dropout->sequence_slot[at->sequence];
        if (ft_dropout_bits_score(t->stream.key, slot, (uint32_t)head, (uint32_t)at->i, (uint32_t)j) < t->stream.threshold) factor[j] = 0;
    }
    end_row(factor, at->keys);
}

static void multiply(const float *a, const float *b, float *y, int64_t keys) {
    for (int64_t j = 0; j < keys; j += FT_LANES) v_store(y + j, v_mul(v_load(a + j), v_load(b + j)));
}

// y = sum_j weight[j] (x_j + the table's row for its distance), of one head's columns
static void weighted_rows(const talk *t, const query *at, const float *weight, ft_tensor x, ft_tensor table, int64_t column, float *y) {
    for (int64_t c = 0; c < t->d; c += FT_LANES) {
        v16 sum = v_zero();
        for (int64_t j = 0; j < at->keys; j++) {
            v16 row = v_load_any(ft_row(x, at->first_key + j) + column + c, t->d - c);
            if (table.data) row = v_add(row, v_load_any(table_row(t, table, at->i - j, column) + c, t->d - c));
            sum = v_fma(v_set1(weight[j]), row, sum);
        }
        v_store_any(y + c, sum, t->d - c);
    }
}

// Is there a query of this number, counted over all sequences? Then which.
static bool find_query(const talk *t, int64_t row, query *at) {
    const ft_attention_shape *s = &t->shape->attention;
    int32_t low = 0, high = s->sequences - 1; // the last sequence that begins at or before the row, and has rows
    while (low < high) {
        const int32_t middle = (low + high + 1) / 2;
        if (s->cu_queries[middle] <= row) low = middle;
        else high = middle - 1;
    }
    *at = query_of(t, low, row - s->cu_queries[low]);
    return row < s->cu_queries[low + 1];
}

static ft_status begin(talk *t, const ft_cpu *cpu, const char *op, int buffers, float *scratch) {
    const ft_attention_shape *s = &t->shape->attention;
    FT_TRY(ft_check_lengths(op, s, t->q.rows, t->k.rows));
    t->stream = ft_score_stream_begin(&s->dropout);
    t->heads = s->heads;
    t->d = s->head_dim;
    t->row = ft_talking_row(s);
    t->threads = scratch;
    t->floats = (size_t)(buffers * ft_talking_scores(s));
    return FT_OK;
}

// ---- forward -------------------------------------------------------------------------------------------------------------

typedef struct forward_job {
    talk talk;
    ft_tensor out, lse;
} forward_job;

static void forward_task(void *context, int task, int thread) {
    const forward_job *job = context;
    const talk *t = &job->talk;
    float *z = t->threads + (size_t)thread * t->floats, *m = z + t->heads * t->row, *lse = ft_row_if(job->lse, task);
    query at;
    if (!find_query(t, task, &at)) return;
    scores_of(t, &at, z);
    mix(t, &at, t->mix_scores, false, 1.0f, z, m);
    for (int64_t g = 0; g < t->heads; g++) {
        const float own = at.keys > 0 ? softmax(m + g * t->row, at.keys) : -INFINITY;
        if (lse != NULL) lse[g] = own;
        if (t->stream.threshold == 0) continue;
        factors_of(t, &at, g, z);
        multiply(m + g * t->row, z, m + g * t->row, at.keys);
    }
    mix(t, &at, t->mix_weights, false, 1.0f, m, z);
    for (int64_t g = 0; g < t->heads; g++)
        weighted_rows(t, &at, z + g * t->row, t->v, ft_absent(), g * t->d, ft_row(job->out, task) + g * t->d);
}

FT_ISA_OP(talking_attention_forward) {
    const ft_cpu *cpu = ft_cpu_of(device);
    if (args->shape.attention.sequences == 0 || args->out.rows == 0) return FT_OK;
    FT_TRY(ft_talking_attention_forward_check(&cpu->target, args));
    forward_job job = {.talk = {.shape = &args->shape, .q = args->q, .k = args->k, .v = args->v, .pos_key = args->pos_key,
                                .pos_query = args->pos_query, .mix_scores = args->mix_scores, .mix_weights = args->mix_weights},
                       .out = args->out,
                       .lse = args->lse};
    FT_TRY(begin(&job.talk, cpu, "talking_attention_forward", FT_TALKING_FORWARD, args->workspace.data));
    ft_pool_run(cpu->pool, (int)args->out.rows, forward_task, &job);
    return FT_OK;
}

// ---- backward: a query ---------------------------------------------------------------------------------------------------

enum { MOST_BLOCKS = (2 * FT_POOL_MAX_THREADS + FT_TALKING_ROWS - 1) / FT_TALKING_ROWS };

// Queries [first, first + rows) of a sequence.
typedef struct query_block {
    int32_t sequence;
    int64_t first, rows;
} query_block;

typedef struct backward_job {
    talk talk;
    const ft_talking_attention_backward_args *args;
    float *records;
    int64_t record, mixing; // floats of one, and of its terms of one matrix
    query_block blocks[MOST_BLOCKS];
    int count;
} backward_job;

typedef struct query_record {
    float *dz, *a, *terms[2]; // the latter of mix_scores, mix_weights
} query_record;

static query_record record_of(const backward_job *job, int64_t number) {
    const int64_t scores = job->talk.heads * job->talk.row;
    float *at = job->records + number * job->record;
    return (query_record){at, at + scores, {at + 2 * scores, at + 2 * scores + job->mixing}};
}

// terms[g,h] = sum_j x_g y_h
static void mixing_terms(const talk *t, const query *at, const float *x, const float *y, float *terms) {
    for (int64_t g = 0; g < t->heads; g++)
        for (int64_t h = 0; h < t->heads; h++) terms[g * t->heads + h] = product(x + g * t->row, y + h * t->row, at->keys);
}

// dM = P * (dP - sum P dP), with dP = factor * x; in the place of x
static void softmax_gradient(const float *p, const float *factor, float *x, int64_t keys) {
    multiply(factor, x, x, keys);
    const v16 mean = v_set1(product(p, x, keys));
    for (int64_t j = 0; j < keys; j += FT_LANES) v_store(x + j, v_mul(v_load(p + j), v_sub(v_load(x + j), mean)));
}

static void query_task(void *context, int task, int thread) {
    const backward_job *job = context;
    const ft_talking_attention_backward_args *a = job->args;
    const talk *t = &job->talk;
    const query_block *block = &job->blocks[task / FT_TALKING_ROWS];
    const int64_t scores = t->heads * t->row;
    if (task % FT_TALKING_ROWS >= block->rows) return;
    const query at = query_of(t, block->sequence, block->first + task % FT_TALKING_ROWS);
    const query_record r = record_of(job, task);
    float *p = t->threads + (size_t)thread * t->floats, *factor = p + scores, *da = factor + scores, *x = da + scores, *z = r.dz;
    const float *dout = ft_row(a->dout, at.row), *lse = ft_row(a->lse, at.row);
    scores_of(t, &at, z);
    mix(t, &at, t->mix_scores, false, 1.0f, z, p);
    for (int64_t g = 0, row = 0; g < t->heads; g++, row += t->row) {
        for (int64_t j = 0; j < at.keys; j += FT_LANES) v_store(p + row + j, v_exp(v_sub(v_load(p + row + j), v_set1(lse[g]))));
        end_row(p + row, at.keys);
        factors_of(t, &at, g, factor + row);
        multiply(p + row, factor + row, x + row, at.keys);
        for (int64_t j = 0; j < at.keys; j++) da[row + j] = product(dout + g * t->d, ft_row(t->v, at.first_key + j) + g * t->d, t->d);
        end_row(da + row, at.keys);
    }
    mix(t, &at, t->mix_weights, false, 1.0f, x, r.a);
    mixing_terms(t, &at, da, x, r.terms[1]);
    mix(t, &at, t->mix_weights, true, 1.0f, da, x);
    for (int64_t g = 0, row = 0; g < t->heads; g++, row += t->row) softmax_gradient(p + row, factor + row, x + row, at.keys);
    mixing_terms(t, &at, x, z, r.terms[0]);
    mix(t, &at, t->mix_scores, true, t->shape->attention.scale, x, r.dz);
    for (int64_t h = 0; h < t->heads; h++)
        weighted_rows(t, &at, r.dz + h * t->row, t->k, t->pos_key, h * t->d, ft_row(a->dq, at.row) + h * t->d);
}

// ---- backward: sums over queries -----------------------------------------------------------------------------------------

static void add_to(float *to, v16 sum, int64_t n) { v_store_any(to, v_add(v_load_any(to, n), sum), n); }

// Some columns of one head, and what a block gives them.
typedef struct head_columns {
    int64_t head, column, n; // the column of all heads
} head_columns;

static void add_keys(const backward_job *job, const query_block *block, int64_t number, head_columns of) {
    const talk *t = &job->talk;
    const ft_talking_attention_backward_args *a = job->args;
    const query first = query_of(t, block->sequence, block->first);
    for (int64_t j = 0; j < first.keys; j++) {
        v16 dk = v_zero(), dv = v_zero();
        for (int64_t i = 0; i < block->rows; i++) {
            const query_record r = record_of(job, number + i);
            v16 q = v_load_any(ft_row(t->q, first.row + i) + of.column, of.n);
            const float *pos_query = table_row(t, t->pos_query, first.i + i - j, of.column);
            if (pos_query != NULL) q = v_add(q, v_load_any(pos_query, of.n));
            dk = v_fma(v_set1(r.dz[of.head * t->row + j]), q, dk);
            dv = v_fma(v_set1(r.a[of.head * t->row + j]), v_load_any(ft_row(a->dout, first.row + i) + of.column, of.n), dv);
        }
        add_to(ft_row(a->dk, first.first_key + j) + of.column, dk, of.n);
        add_to(ft_row(a->dv, first.first_key + j) + of.column, dv, of.n);
    }
}

static void add_tables(const backward_job *job, const query_block *block, int64_t number, head_columns of) {
    const talk *t = &job->talk;
    const ft_talking_attention_backward_args *a = job->args;
    const query first = query_of(t, block->sequence, block->first);
    if (first.keys == 0) return;
    for (int64_t delta = first.i - first.keys + 1; delta < first.i + block->rows; delta++) {
        v16 of_key = v_zero(), of_query = v_zero();
        for (int64_t i = 0; i < block->rows; i++) {
            const int64_t j = first.i + i - delta;
            if (j < 0 || j >= first.keys) continue;
            const v16 dz = v_set1(record_of(job, number + i).dz[of.head * t->row + j]);
            of_key = v_fma(dz, v_load_any(ft_row(t->q, first.row + i) + of.column, of.n), of_key);
            of_query = v_fma(dz, v_load_any(ft_row(t->k, first.first_key + j) + of.column, of.n), of_query);
        }
        const int64_t slot = ft_slot_of(t->shape, delta);
        if (a->dpos_key.data) add_to(ft_row(a->dpos_key, slot) + of.column, of_key, of.n);
        if (a->dpos_query.data) add_to(ft_row(a->dpos_query, slot) + of.column, of_query, of.n);
    }
}

// Row g of the gradient of a mixing matrix.
static void add_mixing(const backward_job *job, const query_block *block, int64_t number, int which, int64_t g) {
    const ft_tensor gradient = which == 0 ? job->args->dmix_scores : job->args->dmix_weights;
    const int64_t heads = job->talk.heads;
    if (!gradient.data) return;
    for (int64_t h = 0; h < heads; h += FT_LANES) {
        v16 sum = v_zero();
        for (int64_t i = 0; i < block->rows; i++)
            sum = v_add(sum, v_load_any(record_of(job, number + i).terms[which] + g * heads + h, heads - h));
        add_to(ft_row(gradient, g) + h, sum, heads - h);
    }
}

static int64_t column_blocks(const talk *t) { return (t->d + FT_LANES - 1) / FT_LANES; }

static void sum_task(void *context, int task, int thread) {
    const backward_job *job = context;
    const talk *t = &job->talk;
    const int64_t of_heads = t->heads * column_blocks(t);
    for (int b = 0; b < job->count; b++) {
        const query_block *block = &job->blocks[b];
        const int64_t number = (int64_t)b * FT_TALKING_ROWS;
        if (task >= of_heads) {
            add_mixing(job, block, number, (int)((task - of_heads) / t->heads), (task - of_heads) % t->heads);
            continue;
        }
        const int64_t head = task / column_blocks(t), column = task % column_blocks(t) * FT_LANES;
        const head_columns of = {head, head * t->d + column, t->d - column < FT_LANES ? t->d - column : FT_LANES};
        add_keys(job, block, number, of);
        if (job->args->dpos_key.data || job->args->dpos_query.data) add_tables(job, block, number, of);
    }
}

static void clear_task(void *context, int task, int thread) {
    const backward_job *job = context;
    const size_t bytes = (size_t)job->args->dk.cols * sizeof(float);
    memset(ft_row(job->args->dk, task), 0, bytes);
    memset(ft_row(job->args->dv, task), 0, bytes);
}

FT_ISA_OP(talking_attention_backward) {
    const ft_cpu *cpu = ft_cpu_of(device);
    const ft_attention_shape *s = &args->shape.attention;
    if (s->sequences == 0) return FT_OK;
    FT_TRY(ft_talking_attention_backward_check(&cpu->target, args));
    backward_job job = {.talk = {.shape = &args->shape, .q = args->q, .k = args->k, .v = args->v, .pos_key = args->pos_key,
                                 .pos_query = args->pos_query, .mix_scores = args->mix_scores, .mix_weights = args->mix_weights},
                        .args = args,
                        .record = ft_talking_record(s),
                        .mixing = ft_talking_mixing(s)};
    FT_TRY(begin(&job.talk, cpu, "talking_attention_backward", FT_TALKING_BACKWARD, args->workspace.data));
    job.records = job.talk.threads + job.talk.floats * (size_t)cpu->threads;
    ft_pool_run(cpu->pool, (int)args->dk.rows, clear_task, &job);
    const int64_t most = ft_talking_blocks(cpu->threads);
    const int sums = (int)(job.talk.heads * (column_blocks(&job.talk) + 2));
    for (int32_t n = 0; n < s->sequences; n++) {
        const int64_t queries = s->cu_queries[n + 1] - s->cu_queries[n];
        for (int64_t first = 0; first < queries; first += FT_TALKING_ROWS) {
            const int64_t rows = queries - first < FT_TALKING_ROWS ? queries - first : FT_TALKING_ROWS;
            job.blocks[job.count++] = (query_block){n, first, rows};
            if (job.count < most) continue;
            ft_pool_run(cpu->pool, job.count * FT_TALKING_ROWS, query_task, &job);
            ft_pool_run(cpu->pool, sums, sum_task, &job);
            job.count = 0;
        }
    }
    if (job.count == 0) return FT_OK;
    ft_pool_run(cpu->pool, job.count * FT_TALKING_ROWS, query_task, &job);
    ft_pool_run(cpu->pool, sums, sum_task, &job);
    return FT_OK;
}
