// attention_forward.c - out = dropout(softmax(scale * Q K^T)) V and the log-sum-exp of every row.
//
// A run of queries of one (sequence, head): the keys are transposed once, then four query rows at a time get their scores
// (vectors over keys), the softmax, and their weighted sum of values (vectors over channels).
#include "kernels/cpu/isa/attention.h"

#include <math.h>

enum { FT_QUERY_RUN = 128 }; // a multiple of FT_ATT_CHUNK; long sequences make several pieces of work

typedef struct forward_job {
    const ft_attention_forward_args *args;
    score_dropout dropout;
    int64_t runs; // pieces of a (sequence, head)
    atomic_llong next;
} forward_job;

// Scores to probabilities (not yet divided by their sum) in place; returns the sum and the row's log-sum-exp.
static float soften(float *p, int64_t keys, float *lse) {
    int tail = (int)(keys % FT_LANES);
    int64_t whole = keys - tail;
    v16 largest = v_set1(-INFINITY);
    for (int64_t j = 0; j < whole; j += FT_LANES) largest = v_max(v_load(p + j), largest);
    if (tail) largest = v_max(v_select(m_first(tail), v_load(p + whole), v_set1(-INFINITY)), largest);
    float top = v_hmax(largest);
    v16 sum = v_zero(), shift = v_set1(top);
    for (int64_t j = 0; j < whole; j += FT_LANES) {
        v16 e = v_exp(v_sub(v_load(p + j), shift));
        v_store(p + j, e);
        sum = v_add(sum, e);
    }
    if (tail) {
        v16 e = v_keep(m_first(tail), v_exp(v_sub(v_load(p + whole), shift)));
        v_store(p + whole, e);
        sum = v_add(sum, e);
    }
    float total = v_hsum(sum);
    *lse = (float)(top + log((double)total));
    return total;
}

static void run_piece(const forward_job *job, const ft_attention_scratch *s, int sequence, int head, int64_t run) {
    const ft_attention_forward_args *a = job->args;
    const ft_attention_shape *shape = &a->shape;
    int64_t d = shape->head_dim, column = head * d;
    int64_t first_key = shape->cu_keys[sequence], keys = shape->cu_keys[sequence + 1] - first_key;
    int64_t first_query = shape->cu_queries[sequence], queries = shape->cu_queries[sequence + 1] - first_query;
    int64_t from = run * FT_QUERY_RUN, to = from + FT_QUERY_RUN < queries ? from + FT_QUERY_RUN : queries;
    if (from >= to) return;
    bool drops = shape->dropout.probability > 0;
    transpose(block_of(a->k, first_key, column), keys, d, s->kt, s->k);
    for (int64_t i = from; i < to; i += FT_ATT_ROWS) {
        int rows = to - i < FT_ATT_ROWS ? (int)(to - i) : FT_ATT_ROWS;
        if (drops && i % FT_ATT_CHUNK == 0)
            score_bits(&job->dropout, (uint32_t)shape->dropout.sequence_slot[sequence], (uint32_t)head, i, to - i, keys, s->k, s->bits);
        product(rows, block_of(a->q, first_query + i, column), s->kt, s->k, keys, d, shape->scale, s->p);
        float factor[FT_ATT_ROWS];
        for (int r = 0; r < rows; r++) {
            float lse;
            factor[r] = 1.0f / soften(s->p + r * s->k, keys, &lse);
            if (a->lse.data != NULL) ((float *)a->lse.data)[(first_query + i + r) * a->lse.stride + head] = lse;
            const uint16_t *bits = s->bits + (i % FT_ATT_CHUNK + r) * s->k;
            for (int64_t j = 0; drops && j < keys; j += FT_LANES)
                v_store(s->p + r * s->k + j, v_mul(v_load(s->p + r * s->k + j), score_factor(&job->dropout, bits + j)));
        }
        float *out = (float *)a->out.data + (first_query + i) * a->out.stride + column;
        weighted(rows, s->p, s->k, block_of(a->v, first_key, column), keys, d, factor, out, a->out.stride);
    }
}

static void work(void *context, int task, int thread) {
    forward_job *job = context;
    const ft_attention_shape *shape = &job->args->shape;
    ft_attention_scratch scratch;
    ft_attention_layout(shape, false, job->args->workspace.data, thread, &scratch);
    long long pieces = (long long)shape->sequences * shape->heads * job->runs;
    for (long long p; (p = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < pieces;) {
        long long head = p / job->runs;
        run_piece(job, &scratch, (int)(head / shape->heads), (int)(head % shape->heads), p % job->runs);
    }
}

ft_status FT_ISA_NAME(attention_forward)(ft_device *device, const ft_attention_forward_args *args) {
    ft_cpu *cpu = ft_cpu_of(device);
    const ft_attention_shape *shape = &args->shape;
    int64_t width = (int64_t)shape->heads * shape->head_dim;
    if (args->q.cols != width || args->k.cols != width || args->v.cols != width || args->out.cols != width || args->q.rows != args->out.rows ||
        args->k.rows != args->v.rows || args->workspace.bytes < ft_attention_forward_workspace(&device->target, args))
        return ft_fail(FT_FAILED, "attention_forward", "shapes disagree");
    forward_job job = {.args = args, .dropout = score_dropout_of(&shape->dropout), .runs = (shape->max_queries + FT_QUERY_RUN - 1) / FT_QUERY_RUN};
    ft_pool_run(cpu->pool, cpu->threads, work, &job);
    return FT_OK;
}
