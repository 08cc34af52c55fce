// Disentangled attention against plain loops in double precision, whose own gradient is held against finite
// differences, and against what transformers' modules give (tests/vectors/disentangled.txt).
// ctest: emulated=plain tsan_part=1
#define USUAL_TERMS BOTH
#define USUAL_MOST 6e-6
#include "tests/kernels/attention_tests.h"
#include "disentangled_vectors.h"

static void test_the_oracle_against_finite_differences(void **state) {
    static const int32_t lengths[] = {1, 3, 7};
    static const terms which[] = {BOTH, C2P, P2C, BOTH};
    for (int variant = 0; variant < 4; variant++)
        check_oracle(case_new(2, 5, 3, lengths, variant & 1, variant & 2 ? 0.3f : 0.0f, 1.0, (ft_relative_rule){4, 6}, which[variant]));
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
            attention_case c = case_new(3, 24, 3, lengths, false, 0.1f, 1, skipping_rule, which);
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
        attention_case c = case_new(1, 8, 1, &lengths[i], false, 0.1f, 1, i % 2 ? v3_rule : v1_rule, BOTH);
        float *got = run_once(&c);
        check_results(&c, got, 2e-6, 1e-5);
        free(got);
        case_free(&c);
    }
}

// Rows of slots that no pair has are not even read.
static void test_other_rows_of_the_tables_are_left_alone(void **state) {
    static const int32_t lengths[] = {20, 7};
    attention_case c = case_new(2, 16, 2, lengths, false, 0, 1, v3_rule, BOTH);
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
    attention_case c = case_new(2, 8, 1, lengths, false, 0, 1, v3_rule, BOTH);
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
        SHARED_ATTENTION_TESTS,
        cmocka_unit_test(test_head_sizes),
        cmocka_unit_test(test_terms),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_around_the_edges_of_the_buckets),
        cmocka_unit_test(test_other_rows_of_the_tables_are_left_alone),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_scratch_depends_on_the_longest_sequence_only),
        cmocka_unit_test(test_wrong_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
