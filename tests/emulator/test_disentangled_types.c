// CUDA's disentangled attention on the emulator: fp32, bf16 and fp16 against double precision, in all orders of threads, on
// memory that is NaN before it is written.
// ctest: tsan_part=3
// ctest: driver=fake
#include "tests/emulator/typed_attention.h"

// ---- the tests ----------------------------------------------------------------------------------------------------------

static void test_head_sizes(void **state) {
    static const int32_t lengths[] = {37, 1, 70}, head_dims[] = {32, 64, 96, 128};
    for (int d = 0; d < 4; d++)
        for (int type = 1; type < 3; type++)
            for (int dropout = 0; dropout < 2; dropout++) {
                if (few_cases() && (d + type + dropout) % 3 != 0) continue;
                check_typed(typed_positions(dtypes[type], 2, head_dims[d], few_cases() ? 2 : 3, lengths, false, dropout ? 0.2f : 0, 1,
                                       dropout ? v3_rule : v1_rule, BOTH),
                            dtypes[type], true, d + dropout, few_cases() ? 1 : SIMT_ORDERS);
            }
}

// Those of the plain path: head sizes that no tile has, and views that are not aligned.
static void test_other_head_sizes(void **state) {
    static const int32_t lengths[] = {11, 1, 34}, head_dims[] = {8, 66, 147, 256};
    for (int d = 0; d < 4; d++)
        for (int type = 0; type < 3; type++) {
            if (few_cases() && (d + type) % 3 != 0) continue;
            check_typed(typed_positions(dtypes[type], 2, head_dims[d], few_cases() ? 2 : 3, lengths, false, d % 2 ? 0.1f : 0, 1, v3_rule,
                                   BOTH),
                        dtypes[type], true, d, few_cases() ? 1 : 2);
        }
    for (int type = 0; type < 3; type++)
        check_typed(typed_positions(dtypes[type], 2, 64, 3, lengths, false, 0.1f, 1, skipping_rule, BOTH), dtypes[type], false, type,
                    few_cases() ? 1 : SIMT_ORDERS);
}

// Around strips, blocks, and the edges of the buckets; rules that skip slots, have an odd number, or few.
static void test_lengths(void **state) {
    static const int32_t lengths[] = {1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 200, 255, 256, 257};
    const ft_relative_rule rules[] = {v3_rule, {33, 128}, {-1, 12}, v1_rule, skipping_rule};
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i += few_cases() ? 5 : 1)
        for (int type = 1; type < 3; type++)
            check_typed(typed_positions(dtypes[type], 1, 32, 1, &lengths[i], false, i % 2 ? 0.1f : 0, 1,
                                   lengths[i] < 120 ? rules[(i + type) % 5] : v3_rule, BOTH),
                        dtypes[type], true, i, 1);
}
static void test_long_sequences(void **state) {
    static const int32_t lengths[] = {511, 512, 513, 700};
    for (int i = 0; i < (few_cases() ? 1 : 4); i++) {
        const ft_dtype dtype = i % 2 ? FT_F16 : FT_BF16;
        check_typed(typed_positions(dtype, 1, 32, 1, &lengths[i], false, i == 3 ? 0.1f : 0, 1, i == 3 ? v1_rule : v3_rule, BOTH),
                    dtype, true, i, 1);
    }
}

// Heads of 64, whose gradients of tables go to the slab every eight steps: texts of seven to nine steps, of two visits and some that are left.
static void test_visits_to_the_slab(void **state) {
    static const int32_t lengths[] = {112, 128, 129, 257, 300};
    for (int i = 0; i < 5; i++) {
        if (few_cases() && i % 3 != 1) continue;
        const ft_dtype dtype = i % 2 ? FT_F16 : FT_BF16;
        check_typed(typed_positions(dtype, 1, 64, 1, &lengths[i], false, i % 2 ? 0.1f : 0, 1, i == 3 ? v1_rule : v3_rule, BOTH), dtype, true, i,
                    few_cases() ? 1 : 2);
    }
}

// By 5 powers of two in 100 keys: a row exceeds its first steps' largest score by less than softmax.h's slack, then by more.
static void test_rising_scores(void **state) {
    static const int32_t lengths[] = {37, 1, 300}, head_dims[] = {32, 64, 96, 128};
    for (int d = 0; d < 4; d++) {
        if (few_cases() && d % 2 == 0) continue;
        const ft_dtype dtype = d % 3 == 0 ? FT_BF16 : FT_F16;
        attention_case c = typed_positions(dtype, 1, head_dims[d], 3, lengths, false, d % 2 ? 0.1f : 0, 1, d % 2 ? v3_rule : v1_rule, BOTH);
        raise_scores(dtype, &c, 0.035f);
        check_typed(c, dtype, true, d, few_cases() ? 1 : 2);
    }
}

// One term alone, and tables whose gradient is not wanted.
static void test_terms(void **state) {
    static const int32_t lengths[] = {70, 5, 33};
    for (terms which = C2P; which <= BOTH; which++)
        for (int frozen = 0; frozen < 4; frozen++) {
            if (few_cases() && frozen != (int)which % 3) continue;
            attention_case c = typed_positions(dtypes[1 + frozen % 2], 2, 32, 3, lengths, false, 0.1f, 1, skipping_rule, which);
            if (frozen & 1) c.want_key = false;
            if (frozen & 2) c.want_query = false;
            check_typed(c, dtypes[1 + frozen % 2], true, frozen, 1);
        }
}

// Fewer queries than keys: one a sequence, at position 0.
static void test_pooled_queries(void **state) {
    static const int32_t lengths[] = {5, 1, 70, 130}, head_dims[] = {32, 64, 20};
    for (int d = 0; d < 3; d++)
        for (int type = 0; type < 3; type++)
            check_typed(typed_positions(dtypes[type], 2, head_dims[d], few_cases() ? 3 : 4, lengths, true, d % 2 ? 0 : 0.2f, 1, v3_rule,
                                   BOTH),
                        dtypes[type], true, d + type, few_cases() ? 1 : 2);
}

// More queries than keys in one sequence, keys without queries in another, queries without keys in a third.
static void test_no_queries_or_no_keys(void **state) {
    static const int32_t lengths[] = {6, 9, 4};
    for (int type = 1; type < 3; type++) {
        attention_case c = typed_positions(dtypes[type], 1, 32, 3, lengths, false, 0, 1, (ft_relative_rule){-1, 40}, BOTH);
        c.cu_queries[1] = 0, c.cu_queries[2] = 9, c.cu_queries[3] = 19; // 0, 9 and 10 queries
        c.cu_keys[1] = 6, c.cu_keys[2] = 19, c.cu_keys[3] = 19;         // 6, 13 and 0 keys
        free(c.slots);
        c.reach = 12;
        c.slots = malloc(25 * sizeof *c.slots);
        assert_non_null(c.slots);
        ft_relative_slots(c.rule, c.reach, c.slots);
        simt_set_order((simt_order)type, 1);
        float *got = run_on_cuda(&c, dtypes[type], true);
        parts p = parts_of(&c);
        for (int i = 0; i < 6 * 32; i++)
            assert_true(got[p.at[DK] + (size_t)i] == 0 && got[p.at[DV] + (size_t)i] == 0);
        for (int i = 9 * 32; i < 19 * 32; i++)
            assert_true(got[i] == 0 && got[p.at[DQ] + (size_t)i] == 0);
        for (int i = 9; i < 19; i++)
            assert_true(got[p.at[LSE] + (size_t)i] == -INFINITY);
        oracle o = oracle_new(&c);
        for (int64_t i = 0; i < 9; i++) // the second sequence is the only one with pairs
            oracle_query(&c, &o, 1, i, true);
        static const int shown[] = {OUT, DQ, DK, DV, DPK, DPQ};
        for (int i = 0; i < 6; i++)
            check_part(shown[i], &c, got + p.at[shown[i]], o.result[shown[i]], norm_bound(dtypes[type]),
                       element_bound(dtypes[type]));
        oracle_free(&o);
        free(got);
        case_free(&c);
    }
}

// A sequence has the same bits in any company: out, lse and the gradients of its rows.
static void test_a_sequence_does_not_depend_on_the_others(void **state) {
    static const int32_t lengths[] = {1, 37, 128, 129, 2, 90};
    attention_case batch = typed_positions(FT_BF16, 2, 32, 6, lengths, false, 0.1f, 1, v3_rule, BOTH);
    simt_set_order(SIMT_RANDOM, 3);
    float *together = run_on_cuda(&batch, FT_BF16, true);
    for (int32_t s = 0; s < 6; s++) {
        attention_case alone = batch;
        alone.sequences = 1;
        alone.cu_queries[1] = alone.cu_keys[1] = lengths[s];
        alone.slot[0] = batch.slot[s];
        alone.qkv.t = ft_rows(batch.qkv.t, batch.cu_keys[s], lengths[s]);
        alone.dout.t = ft_rows(batch.dout.t, batch.cu_queries[s], lengths[s]);
        float *got = run_on_cuda(&alone, FT_BF16, true);
        for (int part = OUT; part <= DV; part++) {
            const size_t cols = part == LSE ? 2 : 64;
            const float *want = together + parts_of(&batch).at[part] + (size_t)batch.cu_keys[s] * cols;
            assert_memory_equal(got + parts_of(&alone).at[part], want, (size_t)lengths[s] * cols * sizeof *got);
        }
        free(got);
    }
    free(together);
    case_free(&batch);
}

// Rows of slots that no pair has are read by nobody, and their gradients stay as they are.
static void test_other_rows_of_the_tables_are_left_alone(void **state) {
    static const int32_t lengths[] = {20, 7};
    attention_case c = typed_positions(FT_F16, 2, 32, 2, lengths, false, 0, 1, v3_rule, BOTH);
    free(c.slots);
    c.reach = 40; // as if a longer sequence were in the batch
    c.slots = malloc((2 * (size_t)c.reach + 1) * sizeof *c.slots);
    assert_non_null(c.slots);
    ft_relative_slots(c.rule, c.reach, c.slots);
    for (int64_t i = 0; i < table_rows(&c); i++)
        if (i < 256 - 19 || i > 256 + 19)
            for (int64_t j = 0; j < hidden_of(&c); j++)
                *at(c.pos_key.t, i, j) = *at(c.pos_query.t, i, j) = NAN;
    simt_set_order(SIMT_SKEWED, 3);
    float *got = run_on_cuda(&c, FT_F16, true);
    parts p = parts_of(&c);
    for (size_t i = 0; i < p.at[PARTS]; i++) {
        size_t row = i < p.at[DPK] ? 256 : (i - p.at[DPK]) % (p.at[DPQ] - p.at[DPK]) / (size_t)hidden_of(&c);
        assert_true(isfinite(got[i]) && (got[i] == 0 || (row >= 256 - 19 && row <= 256 + 19)));
    }
    free(got);
    case_free(&c);
}

// A NaN stays in its own sequence but for the tables, which all share, and does not get lost in it.
static void test_nan_stays_in_its_sequence(void **state) {
    static const int32_t lengths[] = {20, 30, 40};
    static const int shown[] = {OUT, DQ, DK, DV};
    for (int which = 0; which < 3; which++) { // in q, k, v
        attention_case c = typed_positions(dtypes[1 + which % 2], 1, 32, 3, lengths, false, 0.1f, 1, v3_rule, BOTH);
        *at(c.qkv.t, 25, which * 32 + 3) = NAN;
        simt_set_order(SIMT_REVERSE, 0);
        float *got = run_on_cuda(&c, dtypes[1 + which % 2], true);
        int nans = 0;
        for (int64_t i = 0; i < 90; i++)
            for (int64_t j = 0; j < 32; j++)
                for (int part = 0; part < 4; part++) {
                    bool is = isnan(got[parts_of(&c).at[shown[part]] + (size_t)(i * 32 + j)]);
                    assert_false(is && (i < 20 || i >= 50));
                    nans += is && part == 0;
                }
        assert_true(nans >= 30);
        free(got);
        case_free(&c);
    }
}

// Rows of scores that have an infinity or a NaN in them, and so a softmax that is NaN, where fp16 is used naively, as by
// transformers: K scaled before the product, position terms behind it, every product and sum rounded to fp16 (the sums inside of a
// product are not). `content` alone: without position terms.
static int naive_rows_lost(const attention_case *c, int64_t length, bool content) {
    const double scale = rounded(FT_F16, 1 / (double)c->scale);
    int lost = 0;
    for (int64_t i = 0; i < length; i++) {
        bool finite = true;
        for (int64_t j = 0; j < length && finite; j++) {
            const int64_t slot = c->slots[i - j + c->reach];
            double key = 0, by_key = 0, by_query = 0;
            for (int64_t x = 0; x < c->head_dim; x++) {
                const double q = (double)*at(q_of(c), i, x), k = (double)*at(k_of(c), j, x);
                key += q * rounded(FT_F16, k / scale);
                by_key += q * (double)*at(c->pos_key.t, slot, x);
                by_query += k * (double)*at(c->pos_query.t, slot, x);
            }
            double score = rounded(FT_F16, key);
            if (!content) {
                const double first = rounded(FT_F16, rounded(FT_F16, by_key) / scale);
                const double second = rounded(FT_F16, rounded(FT_F16, by_query) / scale);
                score = rounded(FT_F16, score + rounded(FT_F16, first + second));
            }
            finite = !(isnan(score) || score == (double)INFINITY); // minus infinity is a key that is left out
        }
        lost += !finite;
    }
    return lost;
}

// Scores that overflow a naive fp16, each term and even the one that is scaled before: the kernel stays finite, and the outputs
// are right. (All that a softmax of such scores passes on is which key is the largest.)
static void test_scores_beyond_fp16_stay_finite(void **state) {
    static const int32_t lengths[] = {70, 33};
    for (int type = 1; type < 3; type++) {
        attention_case c = typed_positions(dtypes[type], 2, 64, 2, lengths, false, 0.1f, 250, v3_rule, BOTH);
        fenced tables[] = {c.pos_key, c.pos_query}; // products beyond 65504 / scale would be the largest number (disentangled/sweep.h)
        for (int t = 0; t < 2; t++)
            for (int64_t i = 0; i < table_rows(&c); i++)
                for (int64_t x = 0; x < hidden_of(&c); x++)
                    *at(tables[t].t, i, x) /= 4;
        if (dtypes[type] == FT_F16) {
            assert_true(naive_rows_lost(&c, lengths[0], true) > 0);
            assert_true(naive_rows_lost(&c, lengths[0], false) > lengths[0] / 2);
        }
        simt_set_order(SIMT_FORWARD, 0);
        float *got = run_on_cuda(&c, dtypes[type], true);
        for (size_t i = 0; i < end_of(&c); i++)
            if (!isfinite(got[i])) fail_msg("%s: result %zu is %f", ft_dtype_name(dtypes[type]), i, (double)got[i]);
        oracle o = oracle_new(&c);
        oracle_run(&c, &o, false);
        int wrong = 0;
        for (int64_t i = 0; i < queries_of(&c) * hidden_of(&c); i++)
            wrong += fabs((double)got[i] - o.result[OUT].x[i]) > 250 / 16.0;
        if (wrong * 50 > queries_of(&c) * hidden_of(&c)) fail_msg("%s: %d outputs are wrong", ft_dtype_name(dtypes[type]), wrong);
        oracle_free(&o);
        free(got);
        case_free(&c);
    }
}

// number() of the scripts, rounded.
static void vector_matrix(ft_dtype dtype, ft_tensor t, uint32_t seed, uint32_t tensor) {
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t j = 0; j < t.cols; j++) {
            uint64_t x = ft_splitmix64((uint64_t)seed << 40 | (uint64_t)tensor << 32 | (uint64_t)(i * t.cols + j));
            *at(t, i, j) = (float)rounded(dtype, ((double)(x >> 40) * 0x1p-24 - 0.5) * 4);
        }
}

// In 16 bits at most as far off as transformers' own modules in them (make_disentangled_half_vectors.py).
static void test_as_exact_as_transformers(void **state) {
    FILE *file = fopen(FT_TEST_VECTORS "/disentangled_half.txt", "re");
    assert_non_null(file);
    char type[8];
    int version, head_dim, length, seed, cases = 0;
    double theirs[6];
    for (; fscanf(file, "case %7s %d %d %d %d %lf %lf %lf %lf %lf %lf\n", type, &version, &head_dim, &length, &seed, &theirs[0],
                  &theirs[1], &theirs[2], &theirs[3], &theirs[4], &theirs[5]) == 11;
         cases++) {
        if (few_cases() && length > 40) continue;
        ft_dtype dtype = strcmp(type, "fp16") == 0 ? FT_F16 : FT_BF16;
        attention_case c = case_new(2, head_dim, 1, &length, false, 0, 1, version == 1 ? v1_rule : v3_rule, BOTH);
        for (int t = 0; t < 3; t++)
            vector_matrix(dtype, ft_columns(c.qkv.t, t * hidden_of(&c), hidden_of(&c)), (uint32_t)seed, (uint32_t)t);
        vector_matrix(dtype, c.dout.t, (uint32_t)seed, 3);
        vector_matrix(dtype, c.pos_key.t, (uint32_t)seed, 4);
        vector_matrix(dtype, c.pos_query.t, (uint32_t)seed, 5);
        simt_set_order(SIMT_RANDOM, (uint64_t)cases);
        float *got = run_on_cuda(&c, dtype, true);
        oracle o = oracle_new(&c);
        oracle_run(&c, &o, true);
        parts p = parts_of(&c);
        static const int shown[] = {OUT, DQ, DK, DV, DPK, DPQ};
        for (int part = 0; part < 6; part++) {
            double error = 0, size = 0;
            const oracle_matrix right = o.result[shown[part]];
            for (int64_t i = 0; i < right.rows * right.cols; i++) {
                double off = (double)got[p.at[shown[part]] + (size_t)i] - right.x[i];
                error += off * off;
                size += right.x[i] * right.x[i];
            }
            if (!(sqrt(error / size) <= theirs[part]))
                fail_msg("%s, version %d, head of %d, length %d, %s: error %.3g, transformers' is %.3g", type, version, head_dim,
                         length, part_names[shown[part]], sqrt(error / size), theirs[part]);
        }
        oracle_free(&o);
        free(got);
        case_free(&c);
    }
    assert_true(feof(file) && cases == 12);
    fclose(file);
}

static void test_what_does_not_fit(void **state) {
    static const int32_t lengths[] = {4};
    attention_case c = case_new(1, 264, 1, lengths, false, 0, 1, v3_rule, BOTH);
    ft_disentangled_attention_forward_args args = {.shape = shape_of(&c), .q = q_of(&c), .k = k_of(&c), .v = v_of(&c)};
    failed(ft_disentangled_attention_forward_check(&gpu->target, &args), FT_INVALID, "heads of at most 256 columns, not 264");
    case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_sizes),
        cmocka_unit_test(test_other_head_sizes),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_long_sequences),
        cmocka_unit_test(test_visits_to_the_slab),
        cmocka_unit_test(test_rising_scores),
        cmocka_unit_test(test_terms),
        cmocka_unit_test(test_pooled_queries),
        cmocka_unit_test(test_no_queries_or_no_keys),
        cmocka_unit_test(test_a_sequence_does_not_depend_on_the_others),
        cmocka_unit_test(test_other_rows_of_the_tables_are_left_alone),
        cmocka_unit_test(test_nan_stays_in_its_sequence),
        cmocka_unit_test(test_scores_beyond_fp16_stay_finite),
        cmocka_unit_test(test_as_exact_as_transformers),
        cmocka_unit_test(test_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
