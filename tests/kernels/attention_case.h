// attention_case.h - a case of attention, plain, disentangled or of talking heads, its run on a device of fp32, and the same by plain loops in
// double precision, whose own gradient attention_tests.h holds against finite differences. Plain attention is that without a term of positions.
#ifndef FT_ATTENTION_CASE_H
#define FT_ATTENTION_CASE_H

#include "tests/kernels/elementwise.h"

enum { MOST_SEQUENCES = 128 };

typedef enum terms { NONE = 0, C2P = 1, P2C = 2, BOTH = 3 } terms;

typedef struct attention_case {
    int32_t heads, head_dim, sequences;
    int32_t cu_queries[MOST_SEQUENCES + 1], cu_keys[MOST_SEQUENCES + 1], slot[MOST_SEQUENCES];
    float scale;
    ft_step_state step;
    float probability;
    int32_t window; // 0: none
    bool causal;
    int32_t key_heads; // 0: as many as heads; else k and v begin where they would, and are narrower
    fenced bias, bias_start; // of plain attention: a row for each slot. bias_start: what its gradient is added to; none: zeros
    int32_t bias_rows;
    terms which;
    ft_relative_rule rule; // and the rest: of terms of positions
    int32_t reach, *slots;
    fenced qkv, pooled_q, dout; // q, k, v are columns of qkv; with pooled rows q is a matrix of its own
    fenced pos_key, pos_query;
    fenced table_start; // what the gradients of the tables are added to; none: zeros
    bool talking;       // heads are mixed: scores, and probabilities
    fenced mix[2], mix_start[2];
    bool pooled, want_key, want_query;
} attention_case;

__attribute__((unused)) static const ft_relative_rule v3_rule = {256, 512}, v1_rule = {-1, 512}, skipping_rule = {32, 40};

static int64_t hidden_of(const attention_case *c) { return (int64_t)c->heads * c->head_dim; }
static int64_t key_hidden_of(const attention_case *c) { return (int64_t)(c->key_heads > 0 ? c->key_heads : c->heads) * c->head_dim; }
// Where the keys of head h begin.
static int64_t key_column(const attention_case *c, int64_t h) { return h * key_hidden_of(c) / hidden_of(c) * c->head_dim; }
static int64_t queries_of(const attention_case *c) { return c->cu_queries[c->sequences]; }
static int64_t keys_of(const attention_case *c) { return c->cu_keys[c->sequences]; }
static int64_t table_rows(const attention_case *c) { return c->which != NONE ? 2 * (int64_t)ft_relative_span(c->rule) : 0; }
static ft_tensor q_of(const attention_case *c) {
    return c->pooled ? c->pooled_q.t : ft_columns(c->qkv.t, 0, hidden_of(c));
}
static ft_tensor k_of(const attention_case *c) { return ft_columns(c->qkv.t, hidden_of(c), key_hidden_of(c)); }
static ft_tensor v_of(const attention_case *c) { return ft_columns(c->qkv.t, 2 * hidden_of(c), key_hidden_of(c)); }

static void set_reach(attention_case *c, int32_t reach) {
    free(c->slots);
    c->reach = reach;
    c->slots = malloc((2 * (size_t)reach + 1) * sizeof *c->slots);
    assert_non_null(c->slots);
    ft_relative_slots(c->rule, reach, c->slots);
}

static attention_case case_new(int32_t heads, int32_t head_dim, int32_t sequences, const int32_t *lengths, bool pooled,
                              float probability, double spread, ft_relative_rule rule, terms which) {
    attention_case c = {.heads = heads,
                       .head_dim = head_dim,
                       .sequences = sequences,
                       .scale = 1.0f / sqrtf((float)head_dim * (which == BOTH ? 3.0f : which != NONE ? 2.0f : 1.0f)),
                       .step = {.seed = 77, .step = 5},
                       .probability = probability,
                       .which = which,
                       .rule = rule,
                       .pooled = pooled,
                       .want_key = which & C2P,
                       .want_query = which & P2C};
    int32_t longest = 0;
    assert_true(sequences <= MOST_SEQUENCES);
    for (int32_t s = 0; s < sequences; s++) {
        c.cu_keys[s + 1] = c.cu_keys[s] + lengths[s];
        c.cu_queries[s + 1] = pooled ? s + 1 : c.cu_keys[s + 1];
        c.slot[s] = s * 3 + 1;
        if (lengths[s] > longest) longest = lengths[s];
    }
    if (which != NONE) set_reach(&c, ft_relative_reach(rule, longest));
    int64_t hidden = hidden_of(&c);
    c.qkv = fenced_random(keys_of(&c), 3 * hidden, head_dim % 3, spread, 0);
    c.pooled_q = pooled ? fenced_random(queries_of(&c), hidden, 1, spread, 0) : fenced_none();
    c.dout = fenced_random(queries_of(&c), hidden, 2, 1, 0);
    c.pos_key = which & C2P ? fenced_random(table_rows(&c), hidden, 1, spread, 0) : fenced_none();
    c.pos_query = which & P2C ? fenced_random(table_rows(&c), hidden, 5, spread, 0) : fenced_none();
    c.table_start = fenced_none();
    for (int i = 0; i < 2; i++) c.mix[i] = c.mix_start[i] = fenced_none();
    c.bias = c.bias_start = fenced_none();
    return c;
}
// With a bias of `rows` rows: slots 0 to rows / 2 - 1 for distances from 0 on, the others behind for those below, as MPNet has them; from `reach`
// on all are the last one.
__attribute__((unused)) static attention_case biased_case(attention_case c, int32_t rows, int32_t reach) {
    c.bias_rows = rows;
    c.reach = reach;
    c.slots = malloc((2 * (size_t)reach + 1) * sizeof *c.slots);
    assert_non_null(c.slots);
    for (int32_t delta = -reach; delta <= reach; delta++) {
        const int32_t side = rows / 2, far = (int32_t)llabs(delta) * side / (reach + 1);
        c.slots[delta + reach] = delta < 0 ? side + far : far;
    }
    c.bias = fenced_random(rows, c.heads, 3, 2, 0.5);
    return c;
}
__attribute__((unused)) static attention_case talking_case(attention_case c) {
    c.talking = true;
    for (int i = 0; i < 2; i++) c.mix[i] = fenced_random(c.heads, c.heads, 3 - i, 0.8, 0.2);
    return c;
}
__attribute__((unused)) static attention_case plain_case(int32_t heads, int32_t head_dim, int32_t sequences, const int32_t *lengths, bool pooled,
                                                         float probability, double spread) {
    return case_new(heads, head_dim, sequences, lengths, pooled, probability, spread, (ft_relative_rule){0, 0}, NONE);
}
static void case_free(attention_case *c) {
    fenced all[] = {c->qkv, c->pooled_q, c->dout, c->pos_key, c->pos_query, c->table_start, c->mix[0], c->mix[1], c->bias};
    for (int i = 0; i < 9; i++)
        fenced_free(all[i]);
    free(c->slots);
}

static ft_disentangled_shape shape_of(const attention_case *c) {
    ft_disentangled_shape shape = {.attention = {.heads = c->heads,
                                                 .head_dim = c->head_dim,
                                                 .sequences = c->sequences,
                                                 .cu_queries = c->cu_queries,
                                                 .cu_keys = c->cu_keys,
                                                 .scale = c->scale,
                                                 .window = c->window,
                                                 .causal = c->causal,
                                                 .key_heads = c->key_heads},
                                   .reach = c->reach,
                                   .slots = c->slots};
    ft_attention_shape *a = &shape.attention;
    for (int32_t s = 0; s < c->sequences; s++) {
        int32_t queries = c->cu_queries[s + 1] - c->cu_queries[s], keys = c->cu_keys[s + 1] - c->cu_keys[s];
        if (queries > a->max_queries) a->max_queries = queries;
        if (keys > a->max_keys) a->max_keys = keys;
    }
    if (c->probability > 0) a->dropout = (ft_score_dropout){c->probability, 2, FT_SITE_ATTENTION, &c->step, c->slot};
    return shape;
}

static ft_attention_bias bias_of(const attention_case *c) { return (ft_attention_bias){.table = c->bias.t, .slots = c->slots, .reach = c->reach}; }

// Where the parts of a case's results begin.
enum { OUT, LSE, DQ, DK, DV, DPK, DPQ, DMIX, DMIX_WEIGHTS, DBIAS, PARTS };
static const char *const part_names[PARTS] = {"out", "lse", "dq", "dk", "dv", "dpk", "dpq", "dmix of scores", "dmix of weights", "dbias"};
typedef struct parts {
    size_t at[PARTS + 1];
} parts;
static parts parts_of(const attention_case *c) {
    size_t hidden = (size_t)hidden_of(c), q = (size_t)queries_of(c), k = (size_t)keys_of(c),
           t = (size_t)table_rows(c) * hidden, mix = c->talking ? (size_t)c->heads * (size_t)c->heads : 0;
    const size_t narrow = (size_t)key_hidden_of(c), bias = (size_t)c->bias_rows * (size_t)c->heads;
    size_t sizes[PARTS] = {q * hidden, q * (size_t)c->heads, q * hidden, k * narrow, k * narrow, t, t, mix, mix, bias};
    parts p = {{0}};
    for (int i = 0; i < PARTS; i++)
        p.at[i + 1] = p.at[i] + sizes[i];
    return p;
}
static size_t end_of(const attention_case *c) { return parts_of(c).at[PARTS]; }

static void flatten(ft_tensor t, float *out) {
    for (int64_t i = 0; i < t.rows && t.data; i++)
        memcpy(out + i * t.cols, at(t, i, 0), (size_t)t.cols * sizeof(float));
}

static fenced sum_from(fenced start, int64_t rows, int64_t cols, int64_t gap) {
    fenced f = fenced_new(rows, cols, gap);
    for (int64_t i = 0; i < f.t.rows; i++)
        for (int64_t j = 0; j < f.t.cols; j++)
            *at(f.t, i, j) = start.base ? *at(start.t, i, j) : 0.0f;
    return f;
}
static fenced table_gradient(const attention_case *c, bool wanted, int64_t gap) {
    return wanted ? sum_from(c->table_start, table_rows(c), hidden_of(c), gap) : fenced_none();
}
static fenced mix_gradient(const attention_case *c, int which, int64_t gap) {
    return c->talking ? sum_from(c->mix_start[which], c->heads, c->heads, gap) : fenced_none();
}

// RUN_OP with scratch full of NaNs: nothing is read that was not written.
#define RUN_POISONED(device, op, args_)                                                                                \
    do {                                                                                                               \
        ft_##op##_args run_args_ = (args_);                                                                            \
        run_args_.workspace = workspace_new(ft_##op##_workspace(&(device)->target, &run_args_));                       \
        memset(run_args_.workspace.data, 0xFF, run_args_.workspace.bytes);                                             \
        if (FT_RUN(device, op, &run_args_) != FT_OK) fail_msg(#op ": %s", ft_error_message());                         \
        workspace_free(run_args_.workspace);                                                                           \
    } while (0)

static void forward_into(ft_device *device, const attention_case *c, ft_tensor out, ft_tensor lse) {
    const ft_disentangled_shape shape = shape_of(c);
    if (c->talking) {
        RUN_POISONED(device, talking_attention_forward,
                     ((ft_talking_attention_forward_args){.shape = shape, .q = q_of(c), .k = k_of(c), .v = v_of(c), .pos_key = c->pos_key.t,
                                                          .pos_query = c->pos_query.t, .mix_scores = c->mix[0].t, .mix_weights = c->mix[1].t,
                                                          .out = out, .lse = lse}));
        return;
    }
    if (c->which == NONE) {
        RUN_POISONED(device, attention_forward, ((ft_attention_forward_args){.shape = shape.attention, .q = q_of(c), .k = k_of(c),
                                                                             .v = v_of(c), .out = out, .lse = lse, .bias = bias_of(c)}));
        return;
    }
    RUN_POISONED(device, disentangled_attention_forward,
                 ((ft_disentangled_attention_forward_args){.shape = shape, .q = q_of(c), .k = k_of(c), .v = v_of(c),
                                                           .pos_key = c->pos_key.t, .pos_query = c->pos_query.t, .out = out, .lse = lse}));
}

static void backward_into(ft_device *device, const attention_case *c, const ft_tensor tensors[PARTS]) {
    const ft_disentangled_shape shape = shape_of(c);
    if (c->talking) {
        RUN_POISONED(device, talking_attention_backward,
                     ((ft_talking_attention_backward_args){
                         .shape = shape, .q = q_of(c), .k = k_of(c), .v = v_of(c), .pos_key = c->pos_key.t, .pos_query = c->pos_query.t,
                         .mix_scores = c->mix[0].t, .mix_weights = c->mix[1].t, .lse = tensors[LSE], .dout = c->dout.t, .dq = tensors[DQ],
                         .dk = tensors[DK], .dv = tensors[DV], .dpos_key = tensors[DPK], .dpos_query = tensors[DPQ],
                         .dmix_scores = tensors[DMIX], .dmix_weights = tensors[DMIX_WEIGHTS]}));
        return;
    }
    if (c->which == NONE) {
        RUN_POISONED(device, attention_backward,
                     ((ft_attention_backward_args){.shape = shape.attention, .q = q_of(c), .k = k_of(c), .v = v_of(c), .out = tensors[OUT],
                                                   .lse = tensors[LSE], .dout = c->dout.t, .dq = tensors[DQ], .dk = tensors[DK],
                                                   .dv = tensors[DV], .bias = bias_of(c), .dbias = tensors[DBIAS]}));
        return;
    }
    RUN_POISONED(device, disentangled_attention_backward,
                 ((ft_disentangled_attention_backward_args){
                     .shape = shape, .q = q_of(c), .k = k_of(c), .v = v_of(c), .pos_key = c->pos_key.t, .pos_query = c->pos_query.t,
                     .out = tensors[OUT], .lse = tensors[LSE], .dout = c->dout.t, .dq = tensors[DQ], .dk = tensors[DK],
                     .dv = tensors[DV], .dpos_key = tensors[DPK], .dpos_query = tensors[DPQ]}));
}

__attribute__((unused)) static void run_attention(ft_device *device, const void *test_case, float *results) {
    const attention_case *c = test_case;
    int64_t hidden = hidden_of(c), narrow = key_hidden_of(c);
    fenced out = fenced_new(queries_of(c), hidden, 3), lse = fenced_new(queries_of(c), c->heads, 1),
           bare = fenced_copy(out);
    fenced gradients = fenced_new(keys_of(c), 3 * hidden, 0), pooled = fenced_new(queries_of(c), hidden, 1);
    fenced dpos_key = table_gradient(c, c->want_key, 0), dpos_query = table_gradient(c, c->want_query, 7);
    fenced dbias = c->bias_rows > 0 ? sum_from(c->bias_start, c->bias_rows, c->heads, 3) : fenced_none();
    fenced dmix[2] = {mix_gradient(c, 0, 2), mix_gradient(c, 1, 0)};
    forward_into(device, c, out.t, lse.t);
    forward_into(device, c, bare.t, ft_absent());
    const ft_tensor all[PARTS] = {out.t, lse.t, c->pooled ? pooled.t : ft_columns(gradients.t, 0, hidden),
                                  ft_columns(gradients.t, hidden, narrow), ft_columns(gradients.t, 2 * hidden, narrow), dpos_key.t,
                                  dpos_query.t, dmix[0].t, dmix[1].t, dbias.t};
    backward_into(device, c, all);
    parts p = parts_of(c);
    memset(results + p.at[DPK], 0, (p.at[PARTS] - p.at[DPK]) * sizeof *results); // tables that are not wanted
    for (int i = 0; i < PARTS; i++)
        flatten(all[i], results + p.at[i]);
    for (int64_t i = 0; i < out.t.rows; i++)
        assert_memory_equal(at(bare.t, i, 0), at(out.t, i, 0), (size_t)hidden * sizeof(float));
    fenced fences[] = {out, lse, bare, gradients, pooled, dpos_key, dpos_query, dmix[0], dmix[1], dbias};
    for (int i = 0; i < 10; i++)
        fenced_free(fences[i]);
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
// An absent table is one of zeros: its products vanish.
static oracle_matrix oracle_of(ft_tensor t, int64_t rows, int64_t cols) {
    oracle_matrix m = oracle_zeros(rows, cols);
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t j = 0; j < t.cols; j++)
            *oracle_row(m, i, j) = (double)*at(t, i, j);
    return m;
}

typedef struct oracle {
    oracle_matrix q, k, v, pos_key, pos_query, mix[2], bias, dout, result[PARTS];
} oracle;
static oracle oracle_new(const attention_case *c) {
    int64_t queries = queries_of(c), keys = keys_of(c), hidden = hidden_of(c), narrow = key_hidden_of(c), rows = table_rows(c), mixed = c->talking ? c->heads : 0;
    return (oracle){oracle_of(q_of(c), queries, hidden),
                    oracle_of(k_of(c), keys, narrow),
                    oracle_of(v_of(c), keys, narrow),
                    oracle_of(c->pos_key.t, rows, hidden),
                    oracle_of(c->pos_query.t, rows, hidden),
                    {oracle_of(c->mix[0].t, mixed, mixed), oracle_of(c->mix[1].t, mixed, mixed)},
                    oracle_of(c->bias.t, c->bias_rows, c->heads),
                    oracle_of(c->dout.t, queries, hidden),
                    {oracle_zeros(queries, hidden), oracle_zeros(queries, c->heads), oracle_zeros(queries, hidden),
                     oracle_zeros(keys, narrow), oracle_zeros(keys, narrow), oracle_zeros(rows, hidden),
                     oracle_zeros(rows, hidden), oracle_zeros(mixed, mixed), oracle_zeros(mixed, mixed), oracle_zeros(c->bias_rows, c->heads)}};
}
static void oracle_free(oracle *o) {
    oracle_matrix *inputs[] = {&o->q, &o->k, &o->v, &o->pos_key, &o->pos_query, &o->mix[0], &o->mix[1], &o->bias, &o->dout};
    for (int i = 0; i < 9; i++)
        free(inputs[i]->x);
    for (int i = 0; i < PARTS; i++)
        free(o->result[i].x);
}

static double score_factor(const attention_case *c, int32_t sequence, int32_t head, int64_t i, int64_t j) {
    if (c->probability == 0.0f) return 1.0;
    uint64_t key = ft_dropout_key(c->step.seed, c->step.step, 2, FT_SITE_ATTENTION);
    uint32_t threshold = ft_dropout_threshold(c->probability);
    uint32_t bits = ft_dropout_bits_score(key, (uint32_t)c->slot[sequence], (uint32_t)head, (uint32_t)i, (uint32_t)j);
    return bits < threshold ? 0.0 : (double)ft_dropout_scale(threshold);
}

static bool sees(const attention_case *c, int64_t i, int64_t j) { return (c->window == 0 || llabs(i - j) <= c->window) && (!c->causal || j <= i); }

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

// y_g = sum_h matrix[g,h] x_h (transposed: matrix[h,g]), rows of `keys`; heads that do not talk: x.
static double *oracle_mix(const attention_case *c, oracle_matrix matrix, bool transposed, const double *x, int64_t keys) {
    double *y = calloc((size_t)(c->heads * keys) + 1, sizeof *y);
    assert_non_null(y);
    for (int32_t g = 0; g < c->heads; g++)
        for (int32_t h = 0; h < c->heads; h++) {
            const double factor = !c->talking ? (g == h) : transposed ? *oracle_row(matrix, h, g) : *oracle_row(matrix, g, h);
            add(y + g * keys, factor, x + h * keys, keys);
        }
    return y;
}

static int64_t bias_row(const attention_case *c, int64_t delta) {
    return c->slots[(delta < -c->reach ? -c->reach : delta > c->reach ? c->reach : delta) + c->reach];
}

// One query: its output, and its share of all gradients.
static void oracle_query(const attention_case *c, oracle *o, int32_t s, int64_t i, bool gradients) {
    const int64_t d = c->head_dim, keys = c->cu_keys[s + 1] - c->cu_keys[s], first = c->cu_keys[s], row = c->cu_queries[s] + i;
    const int64_t all = c->heads * keys;
    double *z = calloc((size_t)all + 1, sizeof *z), *p = calloc((size_t)all + 1, sizeof *p), *da = calloc((size_t)all + 1, sizeof *da);
    assert_true(z != NULL && p != NULL && da != NULL);
    for (int64_t h = 0, at = 0; h < c->heads; h++)
        for (int64_t j = 0, col = h * d; j < keys; j++, at++) {
            const double *q = oracle_row(o->q, row, col), *k = oracle_row(o->k, first + j, key_column(c, h));
            z[at] = (double)c->scale * dot(q, k, d);
            if (c->bias_rows > 0) z[at] += *oracle_row(o->bias, bias_row(c, i - j), h);
            if (c->which != NONE) {
                int64_t slot = ft_relative_slot(c->rule, (int32_t)(i - j));
                z[at] += (double)c->scale * (dot(q, oracle_row(o->pos_key, slot, col), d) + dot(k, oracle_row(o->pos_query, slot, col), d));
            }
        }
    double *m = oracle_mix(c, o->mix[0], false, z, keys); // becomes probabilities
    for (int32_t g = 0; g < c->heads; g++) {
        double *of = m + g * keys, most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; j++) {
            if (!sees(c, i, j)) of[j] = -INFINITY;
            if (of[j] > most) most = of[j];
        }
        for (int64_t j = 0; j < keys; j++)
            sum += of[j] = exp(of[j] - most);
        *oracle_row(o->result[LSE], row, g) = most + log(sum);
        for (int64_t j = 0; j < keys; j++) {
            of[j] /= sum;
            p[g * keys + j] = of[j] * score_factor(c, s, g, i, j);
        }
    }
    double *a = oracle_mix(c, o->mix[1], false, p, keys);
    for (int64_t g = 0; g < c->heads; g++)
        for (int64_t j = 0; j < keys; j++)
            add(oracle_row(o->result[OUT], row, g * d), a[g * keys + j], oracle_row(o->v, first + j, key_column(c, g)), d);
    for (int64_t g = 0; g < c->heads && gradients; g++)
        for (int64_t j = 0; j < keys; j++) {
            const double *dout = oracle_row(o->dout, row, g * d);
            da[g * keys + j] = dot(dout, oracle_row(o->v, first + j, key_column(c, g)), d);
            add(oracle_row(o->result[DV], first + j, key_column(c, g)), a[g * keys + j], dout, d);
        }
    double *dm = oracle_mix(c, o->mix[1], true, da, keys);
    for (int32_t g = 0; g < c->heads && gradients; g++) {
        double mean = dot(p + g * keys, dm + g * keys, keys);
        for (int64_t j = 0; j < keys; j++)
            dm[g * keys + j] = m[g * keys + j] * (score_factor(c, s, g, i, j) * dm[g * keys + j] - mean);
    }
    for (int64_t g = 0; g < c->heads && gradients && c->talking; g++)
        for (int64_t h = 0; h < c->heads; h++) {
            *oracle_row(o->result[DMIX_WEIGHTS], g, h) += dot(da + g * keys, p + h * keys, keys);
            *oracle_row(o->result[DMIX], g, h) += dot(dm + g * keys, z + h * keys, keys);
        }
    double *dz = oracle_mix(c, o->mix[0], true, dm, keys);
    for (int64_t h = 0, at = 0; h < c->heads && gradients; h++)
        for (int64_t j = 0, col = h * d; j < keys; j++, at++) {
            const double ds = (double)c->scale * dz[at];
            const double *q = oracle_row(o->q, row, col), *k = oracle_row(o->k, first + j, key_column(c, h));
            add(oracle_row(o->result[DQ], row, col), ds, k, d);
            add(oracle_row(o->result[DK], first + j, key_column(c, h)), ds, q, d);
            if (c->bias_rows > 0) *oracle_row(o->result[DBIAS], bias_row(c, i - j), h) += dz[at];
            if (c->which == NONE) continue;
            int64_t slot = ft_relative_slot(c->rule, (int32_t)(i - j));
            add(oracle_row(o->result[DQ], row, col), ds, oracle_row(o->pos_key, slot, col), d);
            add(oracle_row(o->result[DK], first + j, col), ds, oracle_row(o->pos_query, slot, col), d);
            if (c->want_key) add(oracle_row(o->result[DPK], slot, col), ds, q, d);
            if (c->want_query) add(oracle_row(o->result[DPQ], slot, col), ds, k, d);
        }
    double *const made[] = {z, p, da, m, a, dm, dz};
    for (int k = 0; k < 7; k++)
        free(made[k]);
}
static void oracle_run(const attention_case *c, oracle *o, bool gradients) {
    memset(o->result[OUT].x, 0, (size_t)(o->result[OUT].rows * o->result[OUT].cols) * sizeof(double));
    for (int32_t s = 0; s < c->sequences; s++)
        for (int64_t i = 0; i < c->cu_queries[s + 1] - c->cu_queries[s]; i++)
            oracle_query(c, o, s, i, gradients);
}

// The error's norm is at most `norm` of the right answer's, and no element is off by more than `most` of the largest.
static void check_part(int part, const attention_case *c, const float *got, oracle_matrix want, double norm,
                       double most) {
    double error = 0, size = 0, largest = 0, worst = 0;
    int64_t n = want.rows * want.cols;
    for (int64_t i = 0; i < n; i++) {
        double off = fabs((double)got[i] - want.x[i]);
        if (!isfinite(got[i])) fail_msg("%s[%lld] is %f", part_names[part], (long long)i, (double)got[i]);
        error += off * off;
        size += want.x[i] * want.x[i];
        if (fabs(want.x[i]) > largest) largest = fabs(want.x[i]);
        if (off > worst) worst = off;
    }
    if (size < 1e-20) size = largest = 1.0; // a query of one key has no gradient but rounding
    if (sqrt(error) > norm * sqrt(size) || worst > most * largest)
        fail_msg("%s, %d heads of %d, %d sequences up to row %d: error %.3g of its norm, worst element %.3g of the "
                 "largest",
                 part_names[part], c->heads, c->head_dim, c->sequences, c->cu_keys[c->sequences], sqrt(error / size),
                 worst / largest);
}

// A number of the mixing matrices sums over all pairs, and of one head most of that cancels.
static double room_of(int part) { return part >= DMIX ? 10 : 1; }

static void check_results(const attention_case *c, const float *got, double norm, double most) {
    oracle o = oracle_new(c);
    oracle_run(c, &o, true);
    for (int part = 0; part < PARTS; part++)
        check_part(part, c, got + parts_of(c).at[part], o.result[part], room_of(part) * norm, room_of(part) * most);
    oracle_free(&o);
}

__attribute__((unused)) static void check_case(attention_case c, double norm, double most) {
    float *got = run_everywhere(run_attention, &c, end_of(&c));
    check_results(&c, got, norm, most);
    free(got);
    case_free(&c);
}
// In one way only - on the CPU two threads on the best instruction set -: long sequences.
__attribute__((unused)) static float *run_once(const attention_case *c) {
    float *got = malloc(end_of(c) * sizeof *got);
    assert_non_null(got);
    ft_device *device;
    assert_int_equal(test_open(2, &device), FT_OK);
    run_attention(device, c, got);
    ft_device_close(device);
    return got;
}

#endif
