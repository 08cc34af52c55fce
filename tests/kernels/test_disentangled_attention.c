// Disentangled attention against plain loops in double precision, whose own gradient is held against finite
// differences, and against what transformers' modules give (tests/vectors/disentangled.txt).
// ctest: emulated=plain tsan_part=1
#include "disentangled_case.h"
#include "disentangled_vectors.h"

static double oracle_loss(const position_case *c, oracle *o) {
    oracle_run(c, o, false);
    return dot(o->result[OUT].x, o->dout.x, o->dout.rows * o->dout.cols);
}

static void test_the_oracle_against_finite_differences(void **state) {
    static const int32_t lengths[] = {1, 3, 7};
    for (int variant = 0; variant < 4; variant++) {
        position_case c =
            case_new(2, 5, 3, lengths, variant & 1, variant & 2 ? 0.3f : 0.0f, 1.0, (ft_relative_rule){4, 6},
                     variant == 1   ? C2P
                     : variant == 2 ? P2C
                                    : BOTH);
        oracle o = oracle_new(&c);
        oracle_run(&c, &o, true);
        oracle_matrix inputs[] = {o.q, o.k, o.v, o.pos_key, o.pos_query};
        for (int m = 0; m < 5; m++) {
            if ((m == 3 && !c.want_key) || (m == 4 && !c.want_query)) continue;
            for (int64_t i = 0; i < inputs[m].rows * inputs[m].cols; i++) {
                double x = inputs[m].x[i], step = 1e-5;
                inputs[m].x[i] = x + step;
                double above = oracle_loss(&c, &o);
                inputs[m].x[i] = x - step;
                double below = oracle_loss(&c, &o);
                inputs[m].x[i] = x;
                double difference = (above - below) / (2 * step), gradient = o.result[DQ + m].x[i];
                if (fabs(difference - gradient) > 1e-8)
                    fail_msg("%s[%lld] is %.12g, differences say %.12g", part_names[DQ + m], (long long)i, gradient,
                             difference);
            }
        }
        oracle_free(&o);
        case_free(&c);
    }
}

static void test_head_sizes(void **state) {
    static const int32_t lengths[] = {11, 1, 40, 66}, head_dims[] = {1, 3, 8, 16, 17, 32, 40, 48, 64, 80, 128, 140};
    for (size_t i = 0; i < sizeof head_dims / sizeof head_dims[0]; i++)
        check_case(case_new(2, head_dims[i], 3 + (i % 2), lengths, false, i % 2 ? 0.1f : 0.0f, 1,
                            i % 3 ? v3_rule : skipping_rule, BOTH),
                   1e-6, 6e-6);
}

static void test_terms(void **state) {
    static const int32_t lengths[] = {70, 5, 33};
    for (terms which = C2P; which <= BOTH; which++)
        for (int frozen = 0; frozen < 4; frozen++) { // whose gradients are not wanted
            position_case c = case_new(3, 24, 3, lengths, false, 0.1f, 1, skipping_rule, which);
            if (frozen & 1) c.want_key = false;
            if (frozen & 2) c.want_query = false;
            check_case(c, 1e-6, 6e-6);
        }
}

static void test_lengths(void **state) {
    static const ft_relative_rule rules[] = {v3_rule, {33, 128}, {-1, 12}, {-1, 512}, {2, 10}};
    // Of few tokens much of a gradient cancels, and rounding counts for more.
    for (int32_t length = 1; length <= 20; length++)
        check_case(case_new(1, 16, 1, &length, false, length % 2 ? 0.1f : 0, 1, rules[length % 5], BOTH), 2e-6, 6e-6);
    static const int32_t longer[] = {31, 32, 33, 63, 64, 65, 79, 80, 81, 100, 127, 128, 129, 193};
    for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++)
        check_case(case_new(1, 16, 1, &longer[i], false, i % 2 ? 0.1f : 0, 1, rules[i % 5], BOTH), 1e-6, 6e-6);
}

static void test_around_the_edges_of_the_buckets(void **state) {
    static const int32_t lengths[] = {255, 256, 257, 511, 512, 513, 700, 1100};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        position_case c = case_new(1, 8, 1, &lengths[i], false, 0.1f, 1, i % 2 ? v3_rule : v1_rule, BOTH);
        float *got = run_once(&c);
        check_results(&c, got, 2e-6, 1e-5);
        free(got);
        case_free(&c);
    }
}

// All lengths in one batch: many waves.
static void test_a_batch_of_all_lengths(void **state) {
    int32_t lengths[100];
    for (int32_t i = 0; i < 100; i++)
        lengths[i] = i + 1;
    position_case c = case_new(1, 8, 100, lengths, false, 0.1f, 1, v3_rule, BOTH);
    float *got = run_once(&c);
    check_results(&c, got, 1e-6, 6e-6);
    free(got);
    case_free(&c);
}

// One query a sequence, at position 0.
static void test_pooled_queries(void **state) {
    static const int32_t lengths[] = {5, 1, 70, 130, 16}, head_dims[] = {32, 64, 20};
    for (int i = 0; i < 3; i++)
        for (int dropout = 0; dropout < 2; dropout++)
            check_case(case_new(3, head_dims[i], 5, lengths, true, dropout ? 0.2f : 0.0f, 1, v3_rule, BOTH), 1e-6,
                       6e-6);
}

// A pooled query gives what the full attention gives for its row, bit for bit: the last layer is computed so.
static void test_pooled_queries_are_first_rows(void **state) {
    static const int32_t lengths[] = {9, 1, 150, 64};
    position_case full = case_new(2, 32, 4, lengths, false, 0.1f, 1, v3_rule, BOTH), pooled = full;
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

// Sequences [from, to) of a batch as a batch of their own.
static position_case some_of(const position_case *batch, int32_t from, int32_t to) {
    position_case some = *batch;
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
    static const int32_t lengths[] = {33, 2, 129, 64, 11};
    static const int32_t cuts[][6] = {{0, 1, 2, 3, 4, 5}, {0, 3, 5, 5, 5, 5}, {0, 1, 5, 5, 5, 5}};
    position_case batch = case_new(2, 32, 5, lengths, false, 0.1f, 2, v3_rule, BOTH);
    float *together = run_everywhere(run_attention, &batch, end_of(&batch));
    parts whole = parts_of(&batch);
    for (int n = 0; n < 3; n++) {
        fenced sums[2] = {table_gradient(&batch, true, 0), table_gradient(&batch, true, 0)};
        for (int part = 0; part < 5 && cuts[n][part] < 5; part++) {
            position_case some = some_of(&batch, cuts[n][part], cuts[n][part + 1]);
            size_t hidden = (size_t)hidden_of(&batch), first = (size_t)batch.cu_keys[cuts[n][part]];
            parts p = parts_of(&some);
            float *alone = NULL;
            for (int table = 0; table < 2; table++) { // each table's gradient goes on from what there is of it
                free(alone);
                some.table_start = sums[table];
                alone = run_everywhere(run_attention, &some, end_of(&some));
                for (int64_t i = 0; i < sums[table].t.rows; i++)
                    memcpy(at(sums[table].t, i, 0), alone + p.at[DPK + table] + (size_t)i * hidden,
                           hidden * sizeof(float));
            }
            for (int what = OUT; what <= DV; what++) {
                size_t cols = what == LSE ? (size_t)batch.heads : hidden;
                assert_memory_equal(alone + p.at[what], together + whole.at[what] + first * cols,
                                    (size_t)keys_of(&some) * cols * sizeof(float));
            }
            free(alone);
        }
        for (int table = 0; table < 2; table++) {
            same_sums(sums[table].t.data, together + whole.at[DPK + table], whole.at[DPQ] - whole.at[DPK]);
            fenced_free(sums[table]);
        }
    }
    free(together);
    case_free(&batch);
}

// Rows of slots that no pair has are not even read.
static void test_other_rows_of_the_tables_are_left_alone(void **state) {
    static const int32_t lengths[] = {20, 7};
    position_case c = case_new(2, 16, 2, lengths, false, 0, 1, v3_rule, BOTH);
    c.table_start = fenced_random(table_rows(&c), hidden_of(&c), 0, 1, 0);
    for (int64_t i = 0; i < table_rows(&c); i++)
        if (i < 256 - 19 || i > 256 + 19)
            for (int64_t j = 0; j < hidden_of(&c); j++)
                *at(c.pos_key.t, i, j) = *at(c.pos_query.t, i, j) = *at(c.table_start.t, i, j) = NAN;
    float *got = run_everywhere(run_attention, &c, end_of(&c));
    parts p = parts_of(&c);
    for (size_t i = 0; i < p.at[PARTS]; i++) {
        size_t row = i < p.at[DPK] ? 256 : (i - p.at[DPK]) % (p.at[DPQ] - p.at[DPK]) / (size_t)hidden_of(&c);
        assert_true((row < 256 - 19 || row > 256 + 19) == isnan(got[i]));
    }
    free(got);
    case_free(&c);
}

// Scores in the hundreds: nothing overflows, and what the softmax loses is what fp32 scores lose.
static void test_large_scores(void **state) {
    static const int32_t lengths[] = {70, 12};
    check_case(case_new(2, 32, 2, lengths, false, 0, 12, v3_rule, BOTH), 2e-3, 2e-2);
}

// A NaN stays in its own sequence but for the tables, which all share.
static void test_nan_stays_in_its_sequence(void **state) {
    static const int32_t lengths[] = {20, 30, 40};
    for (int which = 0; which < 3; which++) { // in q, k, v
        position_case c = case_new(1, 16, 3, lengths, false, 0.1f, 1, v3_rule, BOTH);
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

static void test_no_queries_or_no_keys(void **state) {
    static const int32_t lengths[] = {6, 9, 4};
    position_case c = case_new(1, 16, 3, lengths, false, 0, 1, v1_rule, BOTH);
    c.cu_queries[1] = 0, c.cu_queries[2] = 9, c.cu_queries[3] = 19; // 0, 9 and 10 queries
    c.cu_keys[1] = 6, c.cu_keys[2] = 19, c.cu_keys[3] = 19;         // 6, 13 and 0 keys
    free(c.slots);
    c.reach = 12;
    c.slots = malloc(25 * sizeof *c.slots);
    assert_non_null(c.slots);
    ft_relative_slots(c.rule, c.reach, c.slots);
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
    oracle_query(&c, &o, 1, 0, 0, true); // the second sequence is the only one with pairs
    for (int64_t i = 1; i < 9; i++)
        oracle_query(&c, &o, 1, 0, i, true);
    for (int part = DPK; part <= DPQ; part++)
        check_part(part, &c, got + p.at[part], o.result[part], 1e-6, 6e-6);
    oracle_free(&o);
    free(got);
    case_free(&c);
}

static void test_scratch_depends_on_the_longest_sequence_only(void **state) {
    ft_target target = {.backend = FT_BACKEND_CPU, .threads = 2};
    size_t before[2] = {0, 0};
    for (int32_t longest = 128; longest <= 512; longest *= 2)
        for (int32_t sequences = 16; sequences <= 1024; sequences *= 4) {
            ft_tensor table = ft_matrix(NULL, 512, 768, FT_F32);
            ft_disentangled_attention_forward_args f = {.shape = {.attention = {.heads = 12, .head_dim = 64}}};
            f.shape.attention.sequences = sequences;
            f.shape.attention.max_queries = f.shape.attention.max_keys = longest;
            f.shape.reach = longest - 1;
            f.pos_key = f.pos_query = table;
            ft_disentangled_attention_backward_args b = {.shape = f.shape, .pos_key = table, .pos_query = table};
            b.dpos_key = b.dpos_query = table;
            size_t now[2] = {ft_disentangled_attention_forward_workspace(&target, &f),
                             ft_disentangled_attention_backward_workspace(&target, &b)};
            for (int i = 0; i < 2; i++) {
                if (sequences > 16)
                    assert_int_equal(now[i], before[i]);
                else if (longest > 128)
                    assert_true(now[i] > before[i] && now[i] < 2 * before[i]); // linear, at most
                before[i] = now[i];
            }
        }
}

static void test_wrong_shapes(void **state) {
    static const int32_t lengths[] = {4};
    position_case c = case_new(2, 8, 1, lengths, false, 0, 1, v3_rule, BOTH);
    ft_device *device;
    assert_int_equal(ft_cpu_open(1, NULL, &device), FT_OK);
    fenced out = fenced_new(4, 16, 0);
    ft_disentangled_attention_forward_args good = {.shape = shape_of(&c),
                                                   .q = q_of(&c),
                                                   .k = k_of(&c),
                                                   .v = v_of(&c),
                                                   .pos_key = c.pos_key.t,
                                                   .pos_query = c.pos_query.t,
                                                   .out = out.t},
                                           bad = good;
    good.workspace = bad.workspace = workspace_new(ft_disentangled_attention_forward_workspace(&device->target, &good));
#define REFUSED(change)                                                                                                \
    do {                                                                                                               \
        bad = good;                                                                                                    \
        change;                                                                                                        \
        assert_int_equal(FT_RUN(device, disentangled_attention_forward, &bad), FT_FAILED);                             \
        assert_string_equal(ft_error_where(), "disentangled_attention_forward");                                       \
    } while (0)
    REFUSED(bad.q.cols = 15);
    REFUSED(bad.workspace.bytes--);
    REFUSED(bad.shape.attention.dropout.probability = 0.1f); // without a step
    REFUSED(bad.shape.attention.max_keys = 3);               // a sequence has 4
    REFUSED(bad.shape.slots = NULL);
    REFUSED(bad.shape.reach = -1);
    REFUSED(bad.pos_key = bad.pos_query = ft_absent());
    REFUSED(bad.pos_key.rows--);
    REFUSED(bad.pos_query.cols = 8);
#undef REFUSED
    assert_int_equal(FT_RUN(device, disentangled_attention_forward, &good), FT_OK);
    ft_disentangled_attention_backward_args backward = {.shape = good.shape, .q = good.q, .k = good.k, .v = good.v};
    assert_int_equal(FT_RUN(device, disentangled_attention_backward, &backward), FT_FAILED);
    assert_string_equal(ft_error_where(), "disentangled_attention_backward");
    ft_error_clear();
    workspace_free(good.workspace);
    fenced_free(out);
    case_free(&c);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_oracle_against_finite_differences),
        cmocka_unit_test(test_slots_of_the_library),
        cmocka_unit_test(test_rules_without_meaning),
        cmocka_unit_test(test_against_the_library),
        cmocka_unit_test(test_head_sizes),
        cmocka_unit_test(test_terms),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_around_the_edges_of_the_buckets),
        cmocka_unit_test(test_a_batch_of_all_lengths),
        cmocka_unit_test(test_pooled_queries),
        cmocka_unit_test(test_pooled_queries_are_first_rows),
        cmocka_unit_test(test_splitting_changes_no_bit),
        cmocka_unit_test(test_other_rows_of_the_tables_are_left_alone),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_nan_stays_in_its_sequence),
        cmocka_unit_test(test_no_queries_or_no_keys),
        cmocka_unit_test(test_scratch_depends_on_the_longest_sequence_only),
        cmocka_unit_test(test_wrong_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
