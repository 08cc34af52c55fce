// attention_case.h - a case of attention, its run on a device of fp32, and the same by plain loops in double precision,
// whose own gradient test_attention.c holds against finite differences.
#ifndef FT_ATTENTION_CASE_H
#define FT_ATTENTION_CASE_H

#include "tests/kernels/elementwise.h"

enum { MOST_SEQUENCES = 128 };

typedef struct attention_case {
    int32_t heads, head_dim, sequences;
    int32_t cu_queries[MOST_SEQUENCES + 1], cu_keys[MOST_SEQUENCES + 1], slot[MOST_SEQUENCES];
    float scale;
    ft_step_state step;
    float probability;
    fenced qkv, pooled_q, dout; // q, k, v are columns of qkv; with pooled rows q is a matrix of its own
    bool pooled;
} attention_case;

static int64_t hidden_of(const attention_case *c) { return (int64_t)c->heads * c->head_dim; }
static int64_t queries_of(const attention_case *c) { return c->cu_queries[c->sequences]; }
static int64_t keys_of(const attention_case *c) { return c->cu_keys[c->sequences]; }
static ft_tensor q_of(const attention_case *c) {
    return c->pooled ? c->pooled_q.t : ft_columns(c->qkv.t, 0, hidden_of(c));
}
static ft_tensor k_of(const attention_case *c) { return ft_columns(c->qkv.t, hidden_of(c), hidden_of(c)); }
static ft_tensor v_of(const attention_case *c) { return ft_columns(c->qkv.t, 2 * hidden_of(c), hidden_of(c)); }

static attention_case case_new(int32_t heads, int32_t head_dim, int32_t sequences, const int32_t *lengths, bool pooled,
                               float probability, double spread) {
    attention_case c = {.heads = heads,
                        .head_dim = head_dim,
                        .sequences = sequences,
                        .scale = 1.0f / sqrtf((float)head_dim),
                        .step = {.seed = 77, .step = 5},
                        .probability = probability,
                        .pooled = pooled};
    assert_true(sequences <= MOST_SEQUENCES);
    for (int32_t s = 0; s < sequences; s++) {
        c.cu_keys[s + 1] = c.cu_keys[s] + lengths[s];
        c.cu_queries[s + 1] = pooled ? s + 1 : c.cu_keys[s + 1];
        c.slot[s] = s * 3 + 1;
    }
    c.qkv = fenced_random(keys_of(&c), 3 * hidden_of(&c), head_dim % 3, spread, 0);
    c.pooled_q = pooled ? fenced_random(queries_of(&c), hidden_of(&c), 1, spread, 0) : fenced_none();
    c.dout = fenced_random(queries_of(&c), hidden_of(&c), 2, 1, 0);
    return c;
}
static void case_free(attention_case *c) {
    fenced_free(c->qkv);
    fenced_free(c->pooled_q);
    fenced_free(c->dout);
}

static ft_attention_shape shape_of(const attention_case *c) {
    ft_attention_shape shape = {.heads = c->heads,
                                .head_dim = c->head_dim,
                                .sequences = c->sequences,
                                .cu_queries = c->cu_queries,
                                .cu_keys = c->cu_keys,
                                .scale = c->scale};
    for (int32_t s = 0; s < c->sequences; s++) {
        int32_t queries = c->cu_queries[s + 1] - c->cu_queries[s], keys = c->cu_keys[s + 1] - c->cu_keys[s];
        if (queries > shape.max_queries) shape.max_queries = queries;
        if (keys > shape.max_keys) shape.max_keys = keys;
    }
    if (c->probability > 0) shape.dropout = (ft_score_dropout){c->probability, 2, FT_SITE_ATTENTION, &c->step, c->slot};
    return shape;
}

// Where the parts of a case's results begin: out, lse, dq, dk, dv.
typedef struct parts {
    size_t out, lse, dq, dk, dv, end;
} parts;
static parts parts_of(const attention_case *c) {
    size_t q = (size_t)(queries_of(c) * hidden_of(c)), k = (size_t)(keys_of(c) * hidden_of(c));
    size_t lse = (size_t)(queries_of(c) * c->heads);
    return (parts){0, q, q + lse, 2 * q + lse, 2 * q + lse + k, 2 * q + lse + 2 * k};
}

static void flatten(ft_tensor t, float *out) {
    for (int64_t i = 0; i < t.rows; i++)
        memcpy(out + i * t.cols, at(t, i, 0), (size_t)t.cols * sizeof(float));
}

__attribute__((unused)) static void run_attention(ft_device *device, const void *test_case, float *results) {
    const attention_case *c = test_case;
    int64_t hidden = hidden_of(c);
    fenced out = fenced_new(queries_of(c), hidden, 3), lse = fenced_new(queries_of(c), c->heads, 1),
           bare = fenced_copy(out);
    fenced gradients = fenced_new(keys_of(c), 3 * hidden, 0), pooled = fenced_new(queries_of(c), hidden, 1);
    ft_attention_shape shape = shape_of(c);
    ft_attention_forward_args forward = {
        .shape = shape, .q = q_of(c), .k = k_of(c), .v = v_of(c), .out = out.t, .lse = lse.t};
    RUN_OP(device, attention_forward, forward);
    forward.out = bare.t;
    forward.lse = ft_absent();
    RUN_OP(device, attention_forward, forward);
    ft_attention_backward_args backward = {.shape = shape,
                                           .q = q_of(c),
                                           .k = k_of(c),
                                           .v = v_of(c),
                                           .out = out.t,
                                           .lse = lse.t,
                                           .dout = c->dout.t,
                                           .dq = c->pooled ? pooled.t : ft_columns(gradients.t, 0, hidden),
                                           .dk = ft_columns(gradients.t, hidden, hidden),
                                           .dv = ft_columns(gradients.t, 2 * hidden, hidden)};
    RUN_OP(device, attention_backward, backward);
    parts p = parts_of(c);
    flatten(out.t, results + p.out);
    flatten(lse.t, results + p.lse);
    flatten(backward.dq, results + p.dq);
    flatten(backward.dk, results + p.dk);
    flatten(backward.dv, results + p.dv);
    for (int64_t i = 0; i < out.t.rows; i++)
        assert_memory_equal(at(bare.t, i, 0), at(out.t, i, 0), (size_t)hidden * sizeof(float));
    fenced all[] = {out, lse, bare, gradients, pooled};
    for (int i = 0; i < 5; i++)
        fenced_free(all[i]);
}

// ---- the same in double precision -----------------------------------------------------------------------------------

typedef struct oracle_matrix {
    double *x; // [rows, cols], dense
    int64_t rows, cols;
} oracle_matrix;
static double *oracle_row(oracle_matrix m, int64_t row, int64_t col) { return m.x + row * m.cols + col; }
static oracle_matrix oracle_zeros(int64_t rows, int64_t cols) {
    oracle_matrix m = {calloc((size_t)(rows * cols) + 1, sizeof(double)), rows, cols};
    assert_non_null(m.x);
    return m;
}
static oracle_matrix oracle_of(ft_tensor t) {
    oracle_matrix m = oracle_zeros(t.rows, t.cols);
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t j = 0; j < t.cols; j++)
            *oracle_row(m, i, j) = (double)*at(t, i, j);
    return m;
}

typedef struct oracle {
    oracle_matrix q, k, v, dout, out, lse, dq, dk, dv;
} oracle;
static oracle oracle_new(const attention_case *c) {
    int64_t queries = queries_of(c), keys = keys_of(c), hidden = hidden_of(c);
    return (oracle){oracle_of(q_of(c)),
                    oracle_of(k_of(c)),
                    oracle_of(v_of(c)),
                    oracle_of(c->dout.t),
                    oracle_zeros(queries, hidden),
                    oracle_zeros(queries, c->heads),
                    oracle_zeros(queries, hidden),
                    oracle_zeros(keys, hidden),
                    oracle_zeros(keys, hidden)};
}
static void oracle_free(oracle *o) {
    oracle_matrix *all[] = {&o->q, &o->k, &o->v, &o->dout, &o->out, &o->lse, &o->dq, &o->dk, &o->dv};
    for (int i = 0; i < 9; i++)
        free(all[i]->x);
}

static double score_factor(const attention_case *c, int32_t sequence, int32_t head, int64_t i, int64_t j) {
    if (c->probability == 0.0f) return 1.0;
    uint64_t key = ft_dropout_key(c->step.seed, c->step.step, 2, FT_SITE_ATTENTION);
    uint32_t threshold = ft_dropout_threshold(c->probability);
    uint32_t bits = ft_dropout_bits_score(key, (uint32_t)c->slot[sequence], (uint32_t)head, (uint32_t)i, (uint32_t)j);
    return bits < threshold ? 0.0 : (double)ft_dropout_scale(threshold);
}

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}
static void add(double *to, double factor, const double *from, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] += factor * from[i];
}

// One query of one head: its output, and its share of all gradients.
static void oracle_query(const attention_case *c, oracle *o, int32_t s, int32_t h, int64_t i, bool gradients) {
    int64_t d = c->head_dim, keys = c->cu_keys[s + 1] - c->cu_keys[s], col = h * d, first = c->cu_keys[s];
    int64_t row = c->cu_queries[s] + i;
    double *p = malloc((size_t)keys * sizeof *p), most = -INFINITY, sum = 0;
    assert_non_null(p);
    for (int64_t j = 0; j < keys; j++) {
        p[j] = (double)c->scale * dot(oracle_row(o->q, row, col), oracle_row(o->k, first + j, col), d);
        if (p[j] > most) most = p[j];
    }
    for (int64_t j = 0; j < keys; j++)
        sum += p[j] = exp(p[j] - most);
    *oracle_row(o->lse, row, h) = most + log(sum);
    double *out = oracle_row(o->out, row, col);
    for (int64_t j = 0; j < keys; j++) {
        p[j] /= sum;
        add(out, p[j] * score_factor(c, s, h, i, j), oracle_row(o->v, first + j, col), d);
    }
    const double *dout = oracle_row(o->dout, row, col);
    double mean = dot(dout, out, d);
    for (int64_t j = 0; j < keys && gradients; j++) {
        double factor = score_factor(c, s, h, i, j);
        double ds = (double)c->scale * p[j] * (factor * dot(dout, oracle_row(o->v, first + j, col), d) - mean);
        add(oracle_row(o->dv, first + j, col), p[j] * factor, dout, d);
        add(oracle_row(o->dq, row, col), ds, oracle_row(o->k, first + j, col), d);
        add(oracle_row(o->dk, first + j, col), ds, oracle_row(o->q, row, col), d);
    }
    free(p);
}
static void oracle_run(const attention_case *c, oracle *o, bool gradients) {
    memset(o->out.x, 0, (size_t)(o->out.rows * o->out.cols) * sizeof(double));
    for (int32_t s = 0; s < c->sequences; s++)
        for (int32_t h = 0; h < c->heads; h++)
            for (int64_t i = 0; i < c->cu_queries[s + 1] - c->cu_queries[s]; i++)
                oracle_query(c, o, s, h, i, gradients);
}

// The error's norm is at most `norm` of the right answer's, and no element is off by more than `most` of the largest.
static void check_part(const char *what, const attention_case *c, const float *got, oracle_matrix want, double norm,
                       double most) {
    double error = 0, size = 0, largest = 0, worst = 0;
    int64_t n = want.rows * want.cols;
    for (int64_t i = 0; i < n; i++) {
        double off = fabs((double)got[i] - want.x[i]);
        if (!isfinite(got[i])) fail_msg("%s[%lld] is %f", what, (long long)i, (double)got[i]);
        error += off * off;
        size += want.x[i] * want.x[i];
        if (fabs(want.x[i]) > largest) largest = fabs(want.x[i]);
        if (off > worst) worst = off;
    }
    if (size < 1e-20) size = largest = 1.0; // a query of one key has no gradient but rounding
    if (sqrt(error) > norm * sqrt(size) || worst > most * largest)
        fail_msg("%s, %d heads of %d, %d sequences: error %.3g of its norm, worst element %.3g of the largest", what,
                 c->heads, c->head_dim, c->sequences, sqrt(error / size), worst / largest);
}

static void check_results(const attention_case *c, const float *got, double norm, double most) {
    oracle o = oracle_new(c);
    oracle_run(c, &o, true);
    parts p = parts_of(c);
    check_part("out", c, got + p.out, o.out, norm, most);
    check_part("lse", c, got + p.lse, o.lse, norm, most);
    check_part("dq", c, got + p.dq, o.dq, norm, most);
    check_part("dk", c, got + p.dk, o.dk, norm, most);
    check_part("dv", c, got + p.dv, o.dv, norm, most);
    oracle_free(&o);
}

#endif
