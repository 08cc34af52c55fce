// Attention against plain loops in double precision, whose own gradient is held against finite differences.
#include "elementwise.h"

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

static void run_attention(ft_device *device, const void *test_case, float *results) {
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

static void check_case(attention_case c, double norm, double most) {
    float *got = run_everywhere(run_attention, &c, parts_of(&c).end);
    check_results(&c, got, norm, most);
    free(got);
    case_free(&c);
}

// ---- the tests ------------------------------------------------------------------------------------------------------

static double oracle_loss(const attention_case *c, oracle *o) {
    oracle_run(c, o, false);
    return dot(o->out.x, o->dout.x, o->out.rows * o->out.cols);
}

static void test_the_oracle_against_finite_differences(void **state) {
    static const int32_t lengths[] = {1, 3, 7};
    for (int variant = 0; variant < 4; variant++) {
        attention_case c = case_new(2, 5, 3, lengths, variant & 1, variant & 2 ? 0.3f : 0.0f, 1.5);
        oracle o = oracle_new(&c);
        oracle_run(&c, &o, true);
        oracle_matrix inputs[] = {o.q, o.k, o.v}, gradients[] = {o.dq, o.dk, o.dv};
        for (int m = 0; m < 3; m++)
            for (int64_t i = 0; i < inputs[m].rows * inputs[m].cols; i++) {
                double x = inputs[m].x[i], step = 1e-5;
                inputs[m].x[i] = x + step;
                double above = oracle_loss(&c, &o);
                inputs[m].x[i] = x - step;
                double below = oracle_loss(&c, &o);
                inputs[m].x[i] = x;
                double difference = (above - below) / (2 * step);
                if (fabs(difference - gradients[m].x[i]) > 1e-8)
                    fail_msg("gradient %d[%lld] is %.12g, differences say %.12g", m, (long long)i, gradients[m].x[i],
                             difference);
            }
        oracle_free(&o);
        case_free(&c);
    }
}

static void test_head_sizes(void **state) {
    static const int32_t lengths[] = {11, 1, 40, 66}, head_dims[] = {1, 3, 8, 16, 17, 32, 40, 48, 64, 96, 128, 200};
    for (size_t i = 0; i < sizeof head_dims / sizeof head_dims[0]; i++)
        for (int dropout = 0; dropout < 2; dropout++)
            check_case(case_new(2, head_dims[i], 3 + (i % 2), lengths, false, dropout ? 0.1f : 0.0f, 1), 1e-6, 4e-6);
}

static void test_lengths(void **state) {
    for (int32_t length = 1; length <= 20; length++)
        check_case(case_new(1, 32, 1, &length, false, length % 2 ? 0.1f : 0, 1), 1e-6, 4e-6);
    static const int32_t longer[] = {31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 193, 257, 300};
    for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++)
        check_case(case_new(1, 16, 1, &longer[i], false, i % 2 ? 0.1f : 0, 1), 1e-6, 4e-6);
}

// All lengths in one batch, for one instruction set: the best.
static void test_a_batch_of_all_lengths(void **state) {
    int32_t lengths[100];
    for (int32_t i = 0; i < 100; i++)
        lengths[i] = i + 1;
    attention_case c = case_new(1, 8, 100, lengths, false, 0.1f, 1);
    float *got = malloc(parts_of(&c).end * sizeof *got);
    assert_non_null(got);
    ft_device *device;
    assert_int_equal(ft_cpu_open(2, NULL, &device), FT_OK);
    run_attention(device, &c, got);
    check_results(&c, got, 1e-6, 4e-6);
    ft_device_close(device);
    free(got);
    case_free(&c);
}

// One query a sequence, at position 0.
static void test_pooled_queries(void **state) {
    static const int32_t lengths[] = {5, 1, 70, 130, 16};
    static const int32_t head_dims[] = {32, 64, 20};
    for (int i = 0; i < 3; i++)
        for (int dropout = 0; dropout < 2; dropout++)
            check_case(case_new(3, head_dims[i], 5, lengths, true, dropout ? 0.2f : 0.0f, 1), 1e-6, 4e-6);
}

// A pooled query gives what the full attention gives for its row, bit for bit: the last layer is computed so.
static void test_pooled_queries_are_first_rows(void **state) {
    static const int32_t lengths[] = {9, 1, 150, 64};
    attention_case full = case_new(2, 32, 4, lengths, false, 0.1f, 1), pooled = full;
    pooled.pooled = true;
    pooled.pooled_q = fenced_new(4, 64, 0);
    pooled.dout = fenced_random(4, 64, 0, 1, 0);
    for (int32_t s = 0; s < 4; s++) {
        pooled.cu_queries[s + 1] = s + 1;
        memcpy(at(pooled.pooled_q.t, s, 0), at(q_of(&full), full.cu_keys[s], 0), 64 * sizeof(float));
    }
    float *a = run_everywhere(run_attention, &full, parts_of(&full).end);
    float *b = run_everywhere(run_attention, &pooled, parts_of(&pooled).end);
    for (int32_t s = 0; s < 4; s++) {
        assert_memory_equal(b + s * 64, a + full.cu_keys[s] * 64, 64 * sizeof(float));
        assert_memory_equal(b + parts_of(&pooled).lse + s * 2, a + parts_of(&full).lse + full.cu_keys[s] * 2,
                            2 * sizeof(float));
    }
    free(a);
    free(b);
    fenced_free(pooled.pooled_q);
    fenced_free(pooled.dout);
    case_free(&full);
}

// A sequence alone gives the bits that it gives among others.
static void test_packing_changes_no_bit(void **state) {
    static const int32_t lengths[] = {33, 2, 129, 64, 11};
    attention_case batch = case_new(2, 32, 5, lengths, false, 0.1f, 2);
    float *together = run_everywhere(run_attention, &batch, parts_of(&batch).end);
    parts whole = parts_of(&batch);
    for (int32_t s = 0; s < 5; s++) {
        attention_case one = batch;
        int64_t first = batch.cu_keys[s], rows = lengths[s], hidden = 64;
        one.sequences = 1;
        one.cu_keys[1] = one.cu_queries[1] = lengths[s];
        one.slot[0] = batch.slot[s];
        one.qkv.t = ft_rows(batch.qkv.t, first, rows);
        one.dout.t = ft_rows(batch.dout.t, first, rows);
        float *alone = run_everywhere(run_attention, &one, parts_of(&one).end);
        parts p = parts_of(&one);
        size_t bytes = (size_t)(rows * hidden) * sizeof(float);
        assert_memory_equal(alone + p.out, together + whole.out + first * hidden, bytes);
        assert_memory_equal(alone + p.lse, together + whole.lse + first * 2, (size_t)(rows * 2) * sizeof(float));
        assert_memory_equal(alone + p.dq, together + whole.dq + first * hidden, bytes);
        assert_memory_equal(alone + p.dk, together + whole.dk + first * hidden, bytes);
        assert_memory_equal(alone + p.dv, together + whole.dv + first * hidden, bytes);
        free(alone);
    }
    free(together);
    case_free(&batch);
}

// Scores in the hundreds: nothing overflows, and what the softmax loses is what fp32 scores lose.
static void test_large_scores(void **state) {
    static const int32_t lengths[] = {70, 12};
    check_case(case_new(2, 32, 2, lengths, false, 0, 12), 1e-3, 1e-2);
    attention_case c = case_new(1, 16, 2, lengths, false, 0, 1); // a score of 1e6 above all others, seen late
    for (int64_t i = 0; i < c.qkv.t.rows; i++)
        for (int64_t j = 0; j < 16; j++) {
            *at(c.qkv.t, i, j) = 1000.0f;
            *at(c.qkv.t, i, 16 + j) = i % 70 == 68 ? 250.0f : -250.0f;
        }
    float *got = run_everywhere(run_attention, &c, parts_of(&c).end);
    for (int64_t i = 0; i < 70; i++)
        for (int64_t j = 0; j < 16; j++)
            assert_true(got[i * 16 + j] == *at(c.qkv.t, 68, 32 + j));
    for (size_t i = 0; i < parts_of(&c).end; i++)
        assert_true(isfinite(got[i]));
    free(got);
    case_free(&c);
}

// A NaN stays in its own sequence, and does not get lost in it.
static void test_nan_stays_in_its_sequence(void **state) {
    static const int32_t lengths[] = {20, 30, 40};
    for (int which = 0; which < 3; which++) { // in q, k, v
        attention_case c = case_new(1, 16, 3, lengths, false, 0.1f, 1);
        *at(c.qkv.t, 25, which * 16 + 3) = NAN;
        float *got = run_everywhere(run_attention, &c, parts_of(&c).end);
        int nans = 0;
        for (int64_t i = 0; i < 90; i++)
            for (int64_t j = 0; j < 16; j++) {
                bool inside = i >= 20 && i < 50;
                for (size_t part = 0; part < 4; part++) {
                    size_t starts[4] = {parts_of(&c).out, parts_of(&c).dq, parts_of(&c).dk, parts_of(&c).dv};
                    bool is = isnan(got[starts[part] + (size_t)(i * 16 + j)]);
                    assert_false(is && !inside);
                    nans += is && part == 0;
                }
            }
        assert_true(nans >= 16);
        free(got);
        case_free(&c);
    }
}

// Equal keys make every probability 1/n, and unit vectors as values then show the factor of every single score.
static void test_dropout_of_every_score_is_its_definition(void **state) {
    int32_t length = 147;
    attention_case c = case_new(2, length, 1, &length, false, 0.25f, 1);
    c.slot[0] = 0xABCDE;
    for (int64_t i = 0; i < length; i++)
        for (int64_t j = 0; j < 6 * length; j++)
            *at(c.qkv.t, i, j) = j >= 4 * length && j % length == i ? 1.0f : 0.0f;
    float *got = run_everywhere(run_attention, &c, parts_of(&c).end);
    for (int64_t i = 0; i < length; i++)
        for (int32_t h = 0; h < 2; h++)
            for (int64_t j = 0; j < length; j++) {
                double want = score_factor(&c, 0, h, i, j) / length;
                assert_true(fabs((double)got[(i * 2 + h) * length + j] - want) <= 1e-6 * want);
            }
    free(got);
    case_free(&c);
}

static void test_no_queries_or_no_keys(void **state) {
    static const int32_t lengths[] = {6, 9, 4};
    attention_case c = case_new(1, 16, 3, lengths, false, 0, 1);
    c.cu_queries[1] = 0, c.cu_queries[2] = 9, c.cu_queries[3] = 19; // 0, 9 and 10 queries
    c.cu_keys[1] = 6, c.cu_keys[2] = 19, c.cu_keys[3] = 19;         // 6, 13 and 0 keys
    float *got = run_everywhere(run_attention, &c, parts_of(&c).end);
    parts p = parts_of(&c);
    for (int i = 0; i < 6 * 16; i++)
        assert_true(got[p.dk + (size_t)i] == 0 && got[p.dv + (size_t)i] == 0);
    for (int i = 9 * 16; i < 19 * 16; i++)
        assert_true(got[i] == 0 && got[p.dq + (size_t)i] == 0);
    for (int i = 9; i < 19; i++)
        assert_true(got[p.lse + (size_t)i] == -INFINITY);
    for (int i = 0; i < 9 * 16; i++)
        assert_true(got[i] != 0 && got[p.dq + (size_t)i] != 0);
    free(got);
    case_free(&c);
}

static void test_wrong_shapes(void **state) {
    static const int32_t lengths[] = {4};
    attention_case c = case_new(2, 8, 1, lengths, false, 0, 1);
    ft_device *device;
    assert_int_equal(ft_cpu_open(1, NULL, &device), FT_OK);
    fenced out = fenced_new(4, 16, 0);
    ft_attention_forward_args good = {.shape = shape_of(&c), .q = q_of(&c), .k = k_of(&c), .v = v_of(&c), .out = out.t},
                              bad = good;
    good.workspace = bad.workspace = workspace_new(ft_attention_forward_workspace(&device->target, &good));
    bad.q.cols = 15;
    assert_int_equal(FT_RUN(device, attention_forward, &bad), FT_FAILED);
    assert_string_equal(ft_error_where(), "attention_forward");
    bad = good;
    bad.workspace.bytes--;
    assert_int_equal(FT_RUN(device, attention_forward, &bad), FT_FAILED);
    bad = good;
    bad.shape.dropout.probability = 0.1f; // without a step
    assert_int_equal(FT_RUN(device, attention_forward, &bad), FT_FAILED);
    assert_int_equal(FT_RUN(device, attention_forward, &good), FT_OK);
    ft_attention_backward_args backward = {.shape = good.shape, .q = good.q, .k = good.k, .v = good.v};
    assert_int_equal(FT_RUN(device, attention_backward, &backward), FT_FAILED);
    assert_string_equal(ft_error_where(), "attention_backward");
    ft_error_clear();
    workspace_free(good.workspace);
    fenced_free(out);
    case_free(&c);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_oracle_against_finite_differences),
        cmocka_unit_test(test_head_sizes),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_a_batch_of_all_lengths),
        cmocka_unit_test(test_pooled_queries),
        cmocka_unit_test(test_pooled_queries_are_first_rows),
        cmocka_unit_test(test_packing_changes_no_bit),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_nan_stays_in_its_sequence),
        cmocka_unit_test(test_dropout_of_every_score_is_its_definition),
        cmocka_unit_test(test_no_queries_or_no_keys),
        cmocka_unit_test(test_wrong_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
