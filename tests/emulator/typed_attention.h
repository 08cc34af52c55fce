// typed_attention.h - cases of attention, plain, disentangled and of talking heads, in fp32, bf16 and fp16 on the emulator, judged by double precision:
// outputs, lse and the gradients that are made of both; on memory that is NaN before it is written.
#ifndef FT_TYPED_ATTENTION_H
#define FT_TYPED_ATTENTION_H

#include "tests/kernels/attention_case.h"

#include "tests/emulator/typed_matrix.h"

// ---- cases on the device ------------------------------------------------------------------------------------------------

__attribute__((unused)) static attention_case typed_positions(ft_dtype dtype, int32_t heads, int32_t head_dim, int32_t sequences, const int32_t *lengths,
                                bool pooled, float probability, double spread, ft_relative_rule rule, terms which) {
    attention_case c = case_new(heads, head_dim, sequences, lengths, pooled, probability, spread, rule, which);
    fenced all[] = {c.qkv, c.pooled_q, c.dout, c.pos_key, c.pos_query};
    for (int i = 0; i < 5; i++)
        if (all[i].base) round_matrix(dtype, all[i].t);
    return c;
}
__attribute__((unused)) static attention_case typed_talking(ft_dtype dtype, attention_case c) {
    c = talking_case(c);
    for (int i = 0; i < 2; i++) round_matrix(dtype, c.mix[i].t);
    return c;
}

__attribute__((unused)) static attention_case typed_case(ft_dtype dtype, int32_t heads, int32_t head_dim, int32_t sequences,
                                                         const int32_t *lengths, bool pooled, float probability) {
    return typed_positions(dtype, heads, head_dim, sequences, lengths, pooled, probability, 1, (ft_relative_rule){0, 0}, NONE);
}

// Makes scores rise from key to key for every other query, by `step` each, and fall for the rest: what a row's are taken relative to has to change on the
// way, after tiles in which they may still exceed it. Not of pooled queries.
__attribute__((unused)) static void raise_scores(ft_dtype dtype, attention_case *c, float step) {
    for (int32_t s = 0; s < c->sequences; s++)
        for (int32_t i = c->cu_keys[s]; i < c->cu_keys[s + 1]; i++)
            for (int32_t h = 0; h < c->heads; h++) {
                *at(q_of(c), i, h * c->head_dim) = (i % 2 == 0 ? 1.0f : -1.0f) / c->scale;
                *at(k_of(c), i, h * c->head_dim) = step * (float)(i - c->cu_keys[s]);
            }
    round_matrix(dtype, c->qkv.t);
}
__attribute__((unused)) static attention_case rising_case(ft_dtype dtype, int32_t heads, int32_t head_dim, int32_t sequences, const int32_t *lengths,
                                                          float probability, float step) {
    attention_case c = typed_case(dtype, heads, head_dim, sequences, lengths, false, probability);
    raise_scores(dtype, &c, step);
    return c;
}

// Absent where the case has none.
static on_device device_table(ft_dtype dtype, fenced f, int64_t gap, int64_t shift) {
    if (!f.base) return (on_device){.t = ft_absent()};
    return device_matrix(dtype, f.t.rows, f.t.cols, gap, shift, &f.t);
}
// Where gradients of a table are added to: zeros.
static on_device device_sums(int64_t rows, int64_t cols, bool wanted) {
    if (!wanted) return (on_device){.t = ft_absent()};
    fenced zeros = fenced_new(rows, cols, 0);
    for (int64_t i = 0; i < zeros.t.rows; i++)
        memset(at(zeros.t, i, 0), 0, (size_t)zeros.t.cols * sizeof(float));
    on_device m = device_matrix(FT_F32, zeros.t.rows, zeros.t.cols, 5, 0, &zeros.t);
    fenced_free(zeros);
    return m;
}

// Scratch of NaNs: new memory is.
static void take_workspace(ft_workspace *w, size_t bytes) {
    *w = (ft_workspace){.bytes = bytes};
    if (bytes > 0) good(gpu->functions->buffer_alloc(gpu, bytes, &w->data));
}

// What the ops read and write, on the device.
typedef struct operands {
    ft_disentangled_shape shape;
    ft_tensor q, k, v, pos_key, pos_query, out, lse, dout, dq, dk, dv, dpos_key, dpos_query, mix[2], dmix[2], dbias;
    ft_attention_bias bias;
} operands;

// Returns its scratch.
static void *queue_talking_forward(const operands *o, ft_tensor out, ft_tensor lse) {
    ft_talking_attention_forward_args args = {.shape = o->shape, .q = o->q, .k = o->k, .v = o->v, .pos_key = o->pos_key, .pos_query = o->pos_query,
                                              .mix_scores = o->mix[0], .mix_weights = o->mix[1], .out = out, .lse = lse};
    take_workspace(&args.workspace, ft_talking_attention_forward_workspace(&gpu->target, &args));
    good(ft_talking_attention_forward_check(&gpu->target, &args));
    good(ft_cuda_talking_attention_forward(gpu, &args));
    return args.workspace.data;
}

static void *queue_talking_backward(const operands *o) {
    ft_talking_attention_backward_args args = {.shape = o->shape, .q = o->q, .k = o->k, .v = o->v, .pos_key = o->pos_key, .pos_query = o->pos_query,
                                               .mix_scores = o->mix[0], .mix_weights = o->mix[1], .lse = o->lse, .dout = o->dout, .dq = o->dq,
                                               .dk = o->dk, .dv = o->dv, .dpos_key = o->dpos_key, .dpos_query = o->dpos_query,
                                               .dmix_scores = o->dmix[0], .dmix_weights = o->dmix[1]};
    take_workspace(&args.workspace, ft_talking_attention_backward_workspace(&gpu->target, &args));
    good(ft_talking_attention_backward_check(&gpu->target, &args));
    good(ft_cuda_talking_attention_backward(gpu, &args));
    return args.workspace.data;
}

static void *queue_forward(const attention_case *c, const operands *o, ft_tensor out, ft_tensor lse) {
    if (c->talking) return queue_talking_forward(o, out, lse);
    if (c->which == NONE) {
        ft_attention_forward_args plain = {.shape = o->shape.attention, .q = o->q, .k = o->k, .v = o->v, .out = out, .lse = lse, .bias = o->bias};
        if (c->bias_rows == 0) assert_int_equal(ft_attention_forward_workspace(&gpu->target, &plain), 0);
        take_workspace(&plain.workspace, ft_attention_forward_workspace(&gpu->target, &plain));
        good(ft_attention_forward_check(&gpu->target, &plain));
        good(ft_cuda_attention_forward(gpu, &plain));
        return plain.workspace.data;
    }
    ft_disentangled_attention_forward_args args = {.shape = o->shape, .q = o->q, .k = o->k, .v = o->v, .pos_key = o->pos_key,
                                                   .pos_query = o->pos_query, .out = out, .lse = lse};
    assert_int_equal(ft_disentangled_attention_forward_workspace(&gpu->target, &args), 0);
    good(ft_disentangled_attention_forward_check(&gpu->target, &args));
    good(ft_cuda_disentangled_attention_forward(gpu, &args));
    return NULL;
}

static void *queue_backward(const attention_case *c, const operands *o) {
    if (c->talking) return queue_talking_backward(o);
    if (c->which == NONE) {
        ft_attention_backward_args plain = {.shape = o->shape.attention, .q = o->q, .k = o->k, .v = o->v, .out = o->out, .lse = o->lse,
                                            .dout = o->dout, .dq = o->dq, .dk = o->dk, .dv = o->dv, .bias = o->bias, .dbias = o->dbias};
        take_workspace(&plain.workspace, ft_attention_backward_workspace(&gpu->target, &plain));
        good(ft_attention_backward_check(&gpu->target, &plain));
        good(ft_cuda_attention_backward(gpu, &plain));
        return plain.workspace.data;
    }
    ft_disentangled_attention_backward_args args = {.shape = o->shape, .q = o->q, .k = o->k, .v = o->v, .pos_key = o->pos_key,
                                                    .pos_query = o->pos_query, .out = o->out, .lse = o->lse, .dout = o->dout,
                                                    .dq = o->dq, .dk = o->dk, .dv = o->dv, .dpos_key = o->dpos_key,
                                                    .dpos_query = o->dpos_query};
    take_workspace(&args.workspace, ft_disentangled_attention_backward_workspace(&gpu->target, &args));
    good(ft_disentangled_attention_backward_check(&gpu->target, &args));
    good(ft_cuda_disentangled_attention_backward(gpu, &args));
    return args.workspace.data;
}

// With `aligned` false the views begin in the middle of 16 bytes.
static float *run_on_cuda(const attention_case *c, ft_dtype dtype, bool aligned) {
    int64_t hidden = hidden_of(c), narrow = key_hidden_of(c), queries = queries_of(c), keys = keys_of(c), shift = aligned ? 0 : 1;
    int64_t gap = aligned ? (8 - 3 * hidden % 8) % 8 + 8 : 3; // rows begin at 16 bytes, or do not
    int64_t gap_q = aligned ? (8 - hidden % 8) % 8 + 8 : 1;
    on_device qkv = device_matrix(dtype, keys, 3 * hidden, gap, shift, &c->qkv.t);
    on_device gradients = device_matrix(dtype, keys, 3 * hidden, gap, shift, NULL);
    on_device pooled = device_matrix(dtype, queries, hidden, gap_q, shift, c->pooled ? &c->pooled_q.t : NULL);
    on_device pooled_gradient = device_matrix(dtype, queries, hidden, gap_q, shift, NULL);
    on_device out = device_matrix(dtype, queries, hidden, gap_q, shift, NULL);
    on_device bare = device_matrix(dtype, queries, hidden, gap_q, shift, NULL);
    on_device dout = device_matrix(dtype, queries, hidden, gap_q, shift, &c->dout.t);
    on_device lse = device_matrix(FT_F32, queries, c->heads, 2, 0, NULL);
    on_device pos_key = device_table(dtype, c->pos_key, gap_q, shift);
    on_device pos_query = device_table(dtype, c->pos_query, gap_q, shift);
    on_device dpos_key = device_sums(table_rows(c), hidden, c->want_key), dpos_query = device_sums(table_rows(c), hidden, c->want_query);
    on_device bias = device_table(FT_F32, c->bias, 3, 0), dbias = device_sums(c->bias_rows, c->heads, c->bias_rows > 0);
    on_device mix[2], dmix[2];
    for (int i = 0; i < 2; i++) {
        mix[i] = device_table(dtype, c->mix[i], 3, shift);
        dmix[i] = device_sums(c->heads, c->heads, c->talking);
    }
    size_t offsets = (size_t)(c->sequences + 1) * sizeof(int32_t);
    ft_disentangled_shape shape = shape_of(c);
    ft_attention_shape *attention = &shape.attention;
    void *cu_queries = to_device(c->cu_queries, offsets), *cu_keys = to_device(c->cu_keys, offsets);
    void *step = to_device(&c->step, sizeof c->step), *slot = to_device(c->slot, offsets - sizeof(int32_t));
    void *slots = c->slots != NULL ? to_device(c->slots, (2 * (size_t)c->reach + 1) * sizeof(int32_t)) : NULL;
    attention->cu_queries = cu_queries;
    attention->cu_keys = cu_keys;
    shape.slots = slots;
    if (attention->dropout.probability > 0) {
        attention->dropout.step = step;
        attention->dropout.sequence_slot = slot;
    }
    const operands o = {.shape = shape,
                        .q = c->pooled ? pooled.t : ft_columns(qkv.t, 0, hidden),
                        .k = ft_columns(qkv.t, hidden, narrow),
                        .v = ft_columns(qkv.t, 2 * hidden, narrow),
                        .pos_key = pos_key.t,
                        .pos_query = pos_query.t,
                        .out = out.t,
                        .lse = lse.t,
                        .dout = dout.t,
                        .dq = c->pooled ? pooled_gradient.t : ft_columns(gradients.t, 0, hidden),
                        .dk = ft_columns(gradients.t, hidden, narrow),
                        .dv = ft_columns(gradients.t, 2 * hidden, narrow),
                        .dpos_key = dpos_key.t,
                        .dpos_query = dpos_query.t,
                        .mix = {mix[0].t, mix[1].t},
                        .dmix = {dmix[0].t, dmix[1].t},
                        .dbias = dbias.t,
                        .bias = {.table = bias.t, .slots = slots, .reach = c->reach}};
    void *of_forward = queue_forward(c, &o, out.t, lse.t), *of_bare = queue_forward(c, &o, bare.t, ft_absent());
    void *scratch = queue_backward(c, &o);
    good(gpu->functions->sync(gpu));

    parts p = parts_of(c);
    float *results = calloc(p.at[PARTS] + 1, sizeof *results), *again = malloc((size_t)(queries * hidden + 1) * sizeof *again);
    assert_non_null(results);
    assert_non_null(again);
    fetch(out, 0, hidden, results + p.at[OUT]);
    fetch(bare, 0, hidden, again);
    for (int64_t i = 0; i < queries * hidden; i++) // without lse, and NaN if NaN
        assert_true(memcmp(&again[i], &results[p.at[OUT] + (size_t)i], sizeof *again) == 0);
    fetch(lse, 0, c->heads, results + p.at[LSE]);
    fetch(c->pooled ? pooled_gradient : gradients, 0, hidden, results + p.at[DQ]);
    fetch(gradients, hidden, narrow, results + p.at[DK]);
    fetch(gradients, 2 * hidden, narrow, results + p.at[DV]);
    if (c->bias_rows > 0) fetch(dbias, 0, c->heads, results + p.at[DBIAS]);
    if (c->want_key) fetch(dpos_key, 0, hidden, results + p.at[DPK]);
    if (c->want_query) fetch(dpos_query, 0, hidden, results + p.at[DPQ]);
    for (int i = 0; i < 2 && c->talking; i++) fetch(dmix[i], 0, c->heads, results + p.at[DMIX + i]);
    on_device all[] = {qkv, gradients, pooled, pooled_gradient, out, bare, dout, lse, pos_key, pos_query, dpos_key, dpos_query,
                       mix[0], mix[1], dmix[0], dmix[1], bias, dbias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].buffer) drop(all[i]);
    void *plain[] = {cu_queries, cu_keys, step, slot, slots, scratch, of_forward, of_bare};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (plain[i] != NULL) gpu->functions->buffer_free(gpu, plain[i], 1);
    free(again);
    return results;
}

static void check_typed(attention_case c, ft_dtype dtype, bool aligned, int first_order, int orders) {
    float *first = NULL;
    for (int i = 0; i < orders; i++) {
        simt_set_order((simt_order)((first_order + i) % SIMT_ORDERS), (uint64_t)i);
        float *got = run_on_cuda(&c, dtype, aligned);
        if (first == NULL) {
            first = got;
            check_results(&c, got, norm_bound(dtype), element_bound(dtype));
            continue;
        }
        assert_memory_equal(got, first, end_of(&c) * sizeof *got); // whatever the order, the same bits
        free(got);
    }
    free(first);
    case_free(&c);
}

#endif
