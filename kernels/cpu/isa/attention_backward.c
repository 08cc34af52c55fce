// attention_backward.c - gradients of Q, K and V from the saved output and log-sum-exp.
//
// A piece of work is one (sequence, head). Keys and values are transposed once; then, four query rows at a time, the
// probabilities are computed again, dS follows, and dQ (a sum over keys), dK and dV (sums over queries, in query order,
// kept in scratch) receive their part. One owner for every output: no atomics, one order.
#include "kernels/cpu/isa/attention.h"

#include <string.h>

typedef struct backward_job {
    const ft_attention_backward_args *args;
    score_dropout dropout;
    atomic_llong next;
} backward_job;

// P and dP of one row become dropout(P) (for dV) and scale * dS (for dQ and dK), in place; entries behind `keys` become 0.
static void row_gradients(const backward_job *job, float *p, float *dp, const uint16_t *bits, int64_t keys, float lse, float delta) {
    v16 shift = v_set1(lse), mean = v_set1(delta), scale = v_set1(job->args->shape.scale);
    bool drops = job->dropout.threshold > 0;
    for (int64_t j = 0; j < keys; j += FT_LANES) {
        v16 probability = v_exp(v_sub(v_load(p + j), shift)), gradient = v_load(dp + j), kept = probability;
        if (drops) {
            v16 factor = score_factor(&job->dropout, bits + j);
            kept = v_mul(probability, factor);
            gradient = v_mul(gradient, factor);
        }
        gradient = v_mul(v_mul(probability, v_sub(gradient, mean)), scale);
        if (keys - j < FT_LANES) {
            m16 valid = m_first((int)(keys - j));
            kept = v_keep(valid, kept);
            gradient = v_keep(valid, gradient);
        }
        v_store(p + j, kept);
        v_store(dp + j, gradient);
    }
}

// dk[j] += sum over r of ds[r][j] q[r], dv[j] += sum over r of p[r][j] dout[r]; rows beyond the last are zero in p and ds.
static void add_key_gradients(const ft_attention_scratch *s, int64_t keys, int64_t d, int rows, block q, block dout) {
    for (int64_t c = 0; c < d; c += FT_LANES) {
        v16 q4[FT_ATT_ROWS], o4[FT_ATT_ROWS];
        for (int r = 0; r < FT_ATT_ROWS; r++) {
            q4[r] = r < rows ? v_load_any(q.data + r * q.stride + c, d - c) : v_zero();
            o4[r] = r < rows ? v_load_any(dout.data + r * dout.stride + c, d - c) : v_zero();
        }
        for (int64_t j = 0; j < keys; j++) {
            float *dk = s->dk + j * s->d + c, *dv = s->dv + j * s->d + c;
            v16 k = v_load(dk), v = v_load(dv);
            for (int r = 0; r < FT_ATT_ROWS; r++) {
                k = v_fma(v_set1(s->dp[r * s->k + j]), q4[r], k);
                v = v_fma(v_set1(s->p[r * s->k + j]), o4[r], v);
            }
            v_store(dk, k);
            v_store(dv, v);
        }
    }
}

// <dout, out> of one row: one chain of multiply-adds a lane, then the fixed tree.
static float row_delta(const float *dout, const float *out, int64_t d) {
    v16 sum = v_zero();
    for (int64_t c = 0; c < d; c += FT_LANES) sum = v_fma(v_load_any(dout + c, d - c), v_load_any(out + c, d - c), sum);
    return v_hsum(sum);
}

static void copy_out(const float *from, int64_t from_stride, ft_tensor to, int64_t row, int64_t column, int64_t rows, int64_t d) {
    for (int64_t j = 0; j < rows; j++)
        memcpy((float *)to.data + (row + j) * to.stride + column, from + j * from_stride, (size_t)d * sizeof(float));
}

static void run_piece(const backward_job *job, const ft_attention_scratch *s, int sequence, int head) {
    const ft_attention_backward_args *a = job->args;
    const ft_attention_shape *shape = &a->shape;
    int64_t d = shape->head_dim, column = head * d;
    int64_t first_key = shape->cu_keys[sequence], keys = shape->cu_keys[sequence + 1] - first_key;
    int64_t first_query = shape->cu_queries[sequence], queries = shape->cu_queries[sequence + 1] - first_query;
    block k = block_of(a->k, first_key, column);
    transpose(k, keys, d, s->kt, s->k);
    transpose(block_of(a->v, first_key, column), keys, d, s->vt, s->k);
    memset(s->dk, 0, (size_t)(keys * s->d) * sizeof(float));
    memset(s->dv, 0, (size_t)(keys * s->d) * sizeof(float));
    static const float ones[FT_ATT_ROWS] = {1, 1, 1, 1};
    for (int64_t i = 0; i < queries; i += FT_ATT_ROWS) {
        int rows = queries - i < FT_ATT_ROWS ? (int)(queries - i) : FT_ATT_ROWS;
        if (job->dropout.threshold > 0 && i % FT_ATT_CHUNK == 0)
            score_bits(&job->dropout, (uint32_t)shape->dropout.sequence_slot[sequence], (uint32_t)head, i, queries - i, keys, s->k, s->bits);
        block q = block_of(a->q, first_query + i, column), dout = block_of(a->dout, first_query + i, column);
        product(rows, q, s->kt, s->k, keys, d, shape->scale, s->p);
        product(rows, dout, s->vt, s->k, keys, d, 1.0f, s->dp);
        for (int r = 0; r < FT_ATT_ROWS; r++) {
            float *p = s->p + r * s->k, *dp = s->dp + r * s->k;
            if (r >= rows) { // their products with zero rows must be zero, whatever stood here
                memset(p, 0, (size_t)keys * sizeof(float));
                memset(dp, 0, (size_t)keys * sizeof(float));
                continue;
            }
            int64_t row = first_query + i + r;
            float delta = row_delta(dout.data + r * dout.stride, (const float *)a->out.data + row * a->out.stride + column, d);
            float lse = ((const float *)a->lse.data)[row * a->lse.stride + head];
            row_gradients(job, p, dp, s->bits + (i % FT_ATT_CHUNK + r) * s->k, keys, lse, delta);
        }
        weighted(rows, s->dp, s->k, k, keys, d, ones, (float *)a->dq.data + (first_query + i) * a->dq.stride + column, a->dq.stride);
        add_key_gradients(s, keys, d, rows, q, dout);
    }
    copy_out(s->dk, s->d, a->dk, first_key, column, keys, d);
    copy_out(s->dv, s->d, a->dv, first_key, column, keys, d);
}

static void work(void *context, int task, int thread) {
    backward_job *job = context;
    const ft_attention_shape *shape = &job->args->shape;
    ft_attention_scratch scratch;
    ft_attention_layout(shape, true, job->args->workspace.data, thread, &scratch);
    long long pieces = (long long)shape->sequences * shape->heads;
    for (long long p; (p = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < pieces;)
        run_piece(job, &scratch, (int)(p / shape->heads), (int)(p % shape->heads));
}

ft_status FT_ISA_NAME(attention_backward)(ft_device *device, const ft_attention_backward_args *args) {
    ft_cpu *cpu = ft_cpu_of(device);
    const ft_attention_shape *shape = &args->shape;
    int64_t width = (int64_t)shape->heads * shape->head_dim;
    if (args->q.cols != width || args->k.cols != width || args->v.cols != width || args->dout.cols != width || args->dq.cols != width ||
        args->dk.cols != width || args->dv.cols != width || args->dq.rows != args->q.rows || args->dk.rows != args->k.rows ||
        args->dv.rows != args->v.rows || args->workspace.bytes < ft_attention_backward_workspace(&device->target, args))
        return ft_fail(FT_FAILED, "attention_backward", "shapes disagree");
    backward_job job = {.args = args, .dropout = score_dropout_of(&shape->dropout)};
    ft_pool_run(cpu->pool, cpu->threads, work, &job);
    return FT_OK;
}
