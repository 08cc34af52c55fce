// typed_attention.h - cases of attention in fp32, bf16 and fp16 on the emulator, judged by double precision: outputs, lse and the
// gradients that are made of both.
#ifndef FT_TYPED_ATTENTION_H
#define FT_TYPED_ATTENTION_H

#include "tests/kernels/attention_case.h"

#include "tests/emulator/typed_matrix.h"

// ---- cases on the device ------------------------------------------------------------------------------------------------

static attention_case typed_case(ft_dtype dtype, int32_t heads, int32_t head_dim, int32_t sequences, const int32_t *lengths,
                                 bool pooled, float probability) {
    attention_case c = case_new(heads, head_dim, sequences, lengths, pooled, probability, 1);
    round_matrix(dtype, c.qkv.t);
    if (pooled) round_matrix(dtype, c.pooled_q.t);
    round_matrix(dtype, c.dout.t);
    return c;
}

// With `aligned` false the views begin in the middle of 16 bytes.
static float *run_on_cuda(const attention_case *c, ft_dtype dtype, bool aligned) {
    int64_t hidden = hidden_of(c), queries = queries_of(c), keys = keys_of(c), shift = aligned ? 0 : 1;
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
    size_t offsets = (size_t)(c->sequences + 1) * sizeof(int32_t);
    ft_attention_shape shape = shape_of(c);
    void *cu_queries = to_device(c->cu_queries, offsets), *cu_keys = to_device(c->cu_keys, offsets);
    void *step = to_device(&c->step, sizeof c->step), *slot = to_device(c->slot, offsets - sizeof(int32_t));
    shape.cu_queries = cu_queries;
    shape.cu_keys = cu_keys;
    if (shape.dropout.probability > 0) {
        shape.dropout.step = step;
        shape.dropout.sequence_slot = slot;
    }
    ft_attention_forward_args forward = {.shape = shape,
                                         .q = c->pooled ? pooled.t : ft_columns(qkv.t, 0, hidden),
                                         .k = ft_columns(qkv.t, hidden, hidden),
                                         .v = ft_columns(qkv.t, 2 * hidden, hidden),
                                         .out = out.t,
                                         .lse = lse.t};
    assert_int_equal(ft_attention_forward_workspace(&gpu->target, &forward), 0);
    good(ft_attention_forward_check(&gpu->target, &forward));
    good(ft_cuda_attention_forward(gpu, &forward));
    forward.out = bare.t;
    forward.lse = ft_absent();
    good(ft_cuda_attention_forward(gpu, &forward));
    ft_attention_backward_args backward = {.shape = shape,
                                           .q = forward.q,
                                           .k = forward.k,
                                           .v = forward.v,
                                           .out = out.t,
                                           .lse = lse.t,
                                           .dout = dout.t,
                                           .dq = c->pooled ? pooled_gradient.t : ft_columns(gradients.t, 0, hidden),
                                           .dk = ft_columns(gradients.t, hidden, hidden),
                                           .dv = ft_columns(gradients.t, 2 * hidden, hidden)};
    backward.workspace.bytes = ft_attention_backward_workspace(&gpu->target, &backward);
    good(gpu->functions->buffer_alloc(gpu, backward.workspace.bytes, &backward.workspace.data));
    good(ft_attention_backward_check(&gpu->target, &backward));
    good(ft_cuda_attention_backward(gpu, &backward));
    good(gpu->functions->sync(gpu));

    parts p = parts_of(c);
    float *results = malloc((p.end + 1) * sizeof *results), *again = malloc((size_t)(queries * hidden + 1) * sizeof *again);
    assert_non_null(results);
    assert_non_null(again);
    fetch(out, 0, hidden, results + p.out);
    fetch(bare, 0, hidden, again);
    for (int64_t i = 0; i < queries * hidden; i++) // without lse, and NaN if NaN
        assert_true(memcmp(&again[i], &results[p.out + (size_t)i], sizeof *again) == 0);
    fetch(lse, 0, c->heads, results + p.lse);
    fetch(c->pooled ? pooled_gradient : gradients, 0, hidden, results + p.dq);
    fetch(gradients, hidden, hidden, results + p.dk);
    fetch(gradients, 2 * hidden, hidden, results + p.dv);
    on_device all[] = {qkv, gradients, pooled, pooled_gradient, out, bare, dout, lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        drop(all[i]);
    void *plain[] = {cu_queries, cu_keys, step, slot, backward.workspace.data};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        gpu->functions->buffer_free(gpu, plain[i], 1);
    free(again);
    return results;
}

// ---- checks -------------------------------------------------------------------------------------------------------------

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
        assert_memory_equal(got, first, parts_of(&c).end * sizeof *got); // whatever the order, the same bits
        free(got);
    }
    free(first);
    case_free(&c);
}

#endif
