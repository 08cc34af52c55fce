// attention_tests.h - what holds of attention with and without terms of positions alike. Who includes it has said before which is
// usual there: USUAL_TERMS, and USUAL_MOST, how far an element may be off as a part of the largest; USUAL_CASE makes of a case what is tested;
// USUAL_LONGEST of sequences that are run again and again.
#ifndef FT_ATTENTION_TESTS_H
#define FT_ATTENTION_TESTS_H

#include "tests/kernels/attention_case.h"

#ifndef USUAL_CASE
#define USUAL_CASE(c) (c)
#endif
#ifndef USUAL_LONGEST
#define USUAL_LONGEST 129
#endif

static attention_case usual_case(int32_t heads, int32_t head_dim, int32_t sequences, const int32_t *lengths, bool pooled,
                                 float probability, double spread) {
    return USUAL_CASE(case_new(heads, head_dim, sequences, lengths, pooled, probability, spread, v3_rule, USUAL_TERMS));
}

// ---- the oracle -----------------------------------------------------------------------------------------------------

static double oracle_loss(const attention_case *c, oracle *o) {
    oracle_run(c, o, false);
    return dot(o->result[OUT].x, o->dout.x, o->result[OUT].rows * o->result[OUT].cols);
}

static void check_oracle(attention_case c) {
    oracle o = oracle_new(&c);
    oracle_run(&c, &o, true);
    oracle_matrix inputs[] = {o.q, o.k, o.v, o.pos_key, o.pos_query, o.mix[0], o.mix[1], o.bias};
    for (int m = 0; m < 8; m++) {
        if ((m == 3 && !c.want_key) || (m == 4 && !c.want_query)) continue;
        static const int results[] = {DQ, DK, DV, DPK, DPQ, DMIX, DMIX_WEIGHTS, DBIAS};
        const int part = results[m];
        for (int64_t i = 0; i < inputs[m].rows * inputs[m].cols; i++) {
            double x = inputs[m].x[i], step = 1e-5;
            inputs[m].x[i] = x + step;
            double above = oracle_loss(&c, &o);
            inputs[m].x[i] = x - step;
            double below = oracle_loss(&c, &o);
            inputs[m].x[i] = x;
            double difference = (above - below) / (2 * step), gradient = o.result[part].x[i];
            if (fabs(difference - gradient) > 1e-8)
                fail_msg("%s[%lld] is %.12g, differences say %.12g", part_names[part], (long long)i, gradient, difference);
        }
    }
    oracle_free(&o);
    case_free(&c);
}

// ---- batches --------------------------------------------------------------------------------------------------------

// All lengths in one batch: many waves.
static void test_a_batch_of_all_lengths(void **state) {
    int32_t lengths[100];
    for (int32_t i = 0; i < 100; i++)
        lengths[i] = i + 1;
    attention_case c = usual_case(1, 8, 100, lengths, false, 0.1f, 1);
    float *got = run_once(&c);
    check_results(&c, got, 1e-6, USUAL_MOST);
    free(got);
    case_free(&c);
}

// One query a sequence, at position 0.
static void test_pooled_queries(void **state) {
    static const int32_t lengths[] = {5, 1, 70, 130, 16}, head_dims[] = {32, 64, 20};
    for (int i = 0; i < 3; i++)
        for (int dropout = 0; dropout < 2; dropout++)
            check_case(usual_case(3, head_dims[i], 5, lengths, true, dropout ? 0.2f : 0.0f, 1), 1e-6, USUAL_MOST);
}

// A pooled query gives what the full attention gives for its row, bit for bit: the last layer is computed so.
static void test_pooled_queries_are_first_rows(void **state) {
    static const int32_t lengths[] = {9, 1, 150, 64};
    attention_case full = usual_case(2, 32, 4, lengths, false, 0.1f, 1), pooled = full;
    pooled.pooled = true;
    pooled.pooled_q = fenced_new(4, 64, 0);
    pooled.dout = fenced_random(4, 64, 0, 1, 0);
    for (int32_t s = 0; s < 4; s++) {
        pooled.cu_queries[s + 1] = s + 1;
        memcpy(at(pooled.pooled_q.t, s, 0), at(q_of(&full), full.cu_keys[s], 0), 64 * sizeof(float));
    }
    float *a = run_everywhere(run_attention, &full, end_of(&full));
    float *b = run_everywhere(run_attention, &pooled, end_of(&pooled));
    for (int32_t s = 0; s < 4; s++) {
        assert_memory_equal(b + s * 64, a + full.cu_keys[s] * 64, 64 * sizeof(float));
        assert_memory_equal(b + parts_of(&pooled).at[LSE] + s * 2, a + parts_of(&full).at[LSE] + full.cu_keys[s] * 2,
                            2 * sizeof(float));
    }
    free(a);
    free(b);
    fenced_free(pooled.pooled_q);
    fenced_free(pooled.dout);
    case_free(&full);
}

// A NaN stays in its own sequence but for the tables, which all share.
static void test_nan_stays_in_its_sequence(void **state) {
    static const int32_t lengths[] = {20, 30, 40};
    for (int which = 0; which < 3; which++) { // in q, k, v
        attention_case c = usual_case(1, 16, 3, lengths, false, 0.1f, 1);
        *at(c.qkv.t, 25, which * 16 + 3) = NAN;
        float *got = run_everywhere(run_attention, &c, end_of(&c));
        static const int shown[] = {OUT, DQ, DK, DV};
        int nans = 0;
        for (int64_t i = 0; i < 90; i++)
            for (int64_t j = 0; j < 16; j++)
                for (int part = 0; part < 4; part++) {
                    bool is = isnan(got[parts_of(&c).at[shown[part]] + (size_t)(i * 16 + j)]);
                    assert_false(is && (i < 20 || i >= 50));
                    nans += is && part == 0;
                }
        assert_true(nans >= 16);
        free(got);
        case_free(&c);
    }
}

// Sequences [from, to) of a batch as a batch of their own.
static attention_case some_of(const attention_case *batch, int32_t from, int32_t to) {
    attention_case some = *batch;
    some.sequences = to - from;
    for (int32_t s = from; s <= to; s++) {
        some.cu_keys[s - from] = batch->cu_keys[s] - batch->cu_keys[from];
        some.cu_queries[s - from] = batch->cu_queries[s] - batch->cu_queries[from];
        if (s < to) some.slot[s - from] = batch->slot[s];
    }
    some.qkv.t = ft_rows(batch->qkv.t, batch->cu_keys[from], keys_of(&some));
    some.dout.t = ft_rows(batch->dout.t, batch->cu_queries[from], queries_of(&some));
    return some;
}

// Sums of a table over all sequences: on the CPU, any split over calls has the same bits; on CUDA it is rounded
// differently.
static void same_sums(const float *a, const float *b, size_t n) {
#ifdef FT_TEST_EMULATED
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    if (!(sqrt(error / size) <= 3e-7)) fail_msg("sums of a split batch are off by %.3g", sqrt(error / size));
#else
    assert_memory_equal(a, b, n * sizeof *a);
#endif
}

// Any split of the sequences over calls gives the same bits, but for the tables on CUDA.
static void test_splitting_changes_no_bit(void **state) {
    static const int32_t lengths[] = {33, 2, USUAL_LONGEST, 64, 11};
    static const int32_t cuts[][6] = {{0, 1, 2, 3, 4, 5}, {0, 3, 5, 5, 5, 5}, {0, 1, 5, 5, 5, 5}};
    attention_case batch = usual_case(2, 32, 5, lengths, false, 0.1f, 2);
    float *together = run_everywhere(run_attention, &batch, end_of(&batch));
    parts whole = parts_of(&batch);
    const bool tables = batch.which != NONE;
    for (int n = 0; n < 3; n++) {
        fenced sums[2] = {table_gradient(&batch, tables, 0), table_gradient(&batch, tables, 0)};
        fenced mixed[2] = {mix_gradient(&batch, 0, 0), mix_gradient(&batch, 1, 0)};
        for (int part = 0; part < 5 && cuts[n][part] < 5; part++) {
            attention_case some = some_of(&batch, cuts[n][part], cuts[n][part + 1]);
            size_t hidden = (size_t)hidden_of(&batch), first = (size_t)batch.cu_keys[cuts[n][part]];
            parts p = parts_of(&some);
            float *alone = NULL;
            for (int table = 0; table < 2; table++) { // each table's gradient goes on from what there is of it
                free(alone);
                some.table_start = sums[table];
                for (int i = 0; i < 2; i++) some.mix_start[i] = mixed[i];
                alone = run_everywhere(run_attention, &some, end_of(&some));
                for (int64_t i = 0; i < sums[table].t.rows; i++)
                    memcpy(at(sums[table].t, i, 0), alone + p.at[DPK + table] + (size_t)i * hidden,
                           hidden * sizeof(float));
            }
            for (int i = 0; i < 2 && batch.talking; i++)
                memcpy(mixed[i].t.data, alone + p.at[DMIX + i], (p.at[DMIX + 1] - p.at[DMIX]) * sizeof(float));
            for (int what = OUT; what <= DV; what++) {
                size_t cols = what == LSE ? (size_t)batch.heads : hidden;
                assert_memory_equal(alone + p.at[what], together + whole.at[what] + first * cols,
                                    (size_t)keys_of(&some) * cols * sizeof(float));
            }
            free(alone);
        }
        for (int table = 0; table < 2; table++) {
            if (tables) same_sums(sums[table].t.data, together + whole.at[DPK + table], whole.at[DPQ] - whole.at[DPK]);
            fenced_free(sums[table]);
            if (batch.talking) same_sums(mixed[table].t.data, together + whole.at[DMIX + table], whole.at[DMIX_WEIGHTS] - whole.at[DMIX]);
            fenced_free(mixed[table]);
        }
    }
    free(together);
    case_free(&batch);
}

static void test_no_queries_or_no_keys(void **state) {
    static const int32_t lengths[] = {6, 9, 4};
    attention_case c = USUAL_CASE(case_new(1, 16, 3, lengths, false, 0, 1, v1_rule, USUAL_TERMS));
    c.cu_queries[1] = 0, c.cu_queries[2] = 9, c.cu_queries[3] = 19; // 0, 9 and 10 queries
    c.cu_keys[1] = 6, c.cu_keys[2] = 19, c.cu_keys[3] = 19;         // 6, 13 and 0 keys
    if (c.which != NONE) set_reach(&c, 12);
    float *got = run_everywhere(run_attention, &c, end_of(&c));
    parts p = parts_of(&c);
    for (int i = 0; i < 6 * 16; i++)
        assert_true(got[p.at[DK] + (size_t)i] == 0 && got[p.at[DV] + (size_t)i] == 0);
    for (int i = 9 * 16; i < 19 * 16; i++)
        assert_true(got[i] == 0 && got[p.at[DQ] + (size_t)i] == 0);
    for (int i = 9; i < 19; i++)
        assert_true(got[p.at[LSE] + (size_t)i] == -INFINITY);
    for (int i = 0; i < 9 * 16; i++)
        assert_true(got[i] != 0 && got[p.at[DQ] + (size_t)i] != 0);
    oracle o = oracle_new(&c);
    for (int64_t i = 0; i < 9; i++) // the second sequence is the only one with pairs
        oracle_query(&c, &o, 1, i, true);
    for (int part = DPK; part < PARTS; part++)
        check_part(part, &c, got + p.at[part], o.result[part], room_of(part) * 1e-6, room_of(part) * 6e-6);
    oracle_free(&o);
    free(got);
    case_free(&c);
}

#define SHARED_ATTENTION_TESTS                                                                                                     \
    cmocka_unit_test(test_a_batch_of_all_lengths), cmocka_unit_test(test_pooled_queries),                                          \
        cmocka_unit_test(test_pooled_queries_are_first_rows), cmocka_unit_test(test_splitting_changes_no_bit),                     \
        cmocka_unit_test(test_nan_stays_in_its_sequence), cmocka_unit_test(test_no_queries_or_no_keys)

#endif
