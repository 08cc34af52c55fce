// Attention of talking heads against plain loops in double precision, whose own gradient is held against finite differences. What
// transformers' own module gives is in the vectors of whole models (tests/model).
// ctest: emulated=plain tsan_part=1
#define USUAL_TERMS BOTH
#define USUAL_MOST 1e-5
#define USUAL_CASE(c) talking_case(c)
#ifdef FT_TEST_EMULATED // which has a hundred times the work
#define USUAL_LONGEST 20
#else
#define USUAL_LONGEST 129
#endif
#include "kernels/ops/talking_geometry.h"
#include "tests/kernels/attention_tests.h"

// Mixed before instead of behind dropout, a matrix transposed, a mask of another head: each is another gradient, or output.
static void test_the_oracle_against_finite_differences(void **state) {
    static const int32_t lengths[] = {1, 3, 7};
    static const terms which[] = {BOTH, C2P, P2C, NONE};
    for (int variant = 0; variant < 4; variant++)
        check_oracle(talking_case(case_new(3, 5, 3, lengths, variant & 1, variant & 2 ? 0.3f : 0.0f, 1.0, (ft_relative_rule){4, 6}, which[variant])));
}

// Matrices that do nothing: the other attention.
static void test_heads_that_say_nothing(void **state) {
    static const int32_t lengths[] = {70, 5, 33};
    for (terms which = NONE; which <= BOTH; which++) {
        attention_case c = talking_case(case_new(3, 24, 3, lengths, false, 0.1f, 1, skipping_rule, which)), silent = c;
        for (int i = 0; i < 2; i++)
            for (int64_t g = 0; g < 3; g++)
                for (int64_t h = 0; h < 3; h++) *at(c.mix[i].t, g, h) = g == h ? 1.0f : 0.0f;
        silent.talking = false;
        for (int i = 0; i < 2; i++) silent.mix[i] = fenced_none();
        float *got = run_once(&c);
        check_results(&silent, got, 1e-6, 1e-5);
        free(got);
        case_free(&c);
    }
}

// Odd ones, one head alone, more heads than lanes.
static void test_heads(void **state) {
    static const int32_t lengths[] = {11, 1, 21}, heads[] = {1, 2, 3, 5, 17, 33}, head_dims[] = {1, 3, 16, 17, 40, 140};
    for (int i = 0; i < 6; i++)
        check_case(talking_case(case_new(heads[i], head_dims[5 - i], heads[i] > 32 ? 1 : 3, lengths, false, i % 2 ? 0.1f : 0.0f, 1, i % 3 ? v1_rule : skipping_rule, BOTH)), 2e-6, 1e-5);
}

static void test_terms(void **state) {
    static const int32_t lengths[] = {37, 5, 17};
    for (terms which = NONE; which <= BOTH; which++)
        for (int frozen = 0; frozen < 4; frozen++) { // whose gradients are not wanted
            attention_case c = talking_case(case_new(3, 24, 3, lengths, false, 0.1f, 1, skipping_rule, which));
            if (frozen & 1) c.want_key = false;
            if (frozen & 2) c.want_query = false;
            check_case(c, 2e-6, 1e-5);
        }
}

// Around blocks of queries and vectors of keys; distances that share a slot.
static void test_lengths(void **state) {
    static const ft_relative_rule rules[] = {v3_rule, {33, 128}, {-1, 12}, {-1, 512}, {2, 10}};
    static const int32_t lengths[] = {1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 193};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0] && lengths[i] <= USUAL_LONGEST + 20; i++)
        check_case(talking_case(case_new(2, 16, 1, &lengths[i], false, i % 2 ? 0.1f : 0, 1, rules[i % 5], BOTH)), 2e-6, 1e-5);
}

// Longer than what the scratch of CUDA holds of one sequence's queries, whose keys then have sums on the way.
static void test_more_queries_than_scratch_holds(void **state) {
    static const int32_t lengths[] = {270, 7};
    const ft_cuda_talking_wave wave = ft_cuda_talking_wave_of(2, 270, 270, 2, true);
    assert_true(wave.rows < 270 && wave.sequences == 1);
    attention_case c = talking_case(case_new(2, 4, 2, lengths, false, 0.1f, 1, v1_rule, BOTH));
    float *got = run_once(&c);
    check_results(&c, got, 2e-6, 1e-5);
    free(got);
    case_free(&c);
}

// Gradients that nobody wants are not written, and rows of slots that no pair has are not even read.
static void test_other_rows_of_the_tables_are_left_alone(void **state) {
    static const int32_t lengths[] = {20, 7};
    attention_case c = talking_case(case_new(2, 16, 2, lengths, false, 0, 1, v3_rule, BOTH));
    c.table_start = fenced_random(table_rows(&c), hidden_of(&c), 0, 1, 0);
    for (int64_t i = 0; i < table_rows(&c); i++)
        if (i < 256 - 19 || i > 256 + 19)
            for (int64_t j = 0; j < hidden_of(&c); j++)
                *at(c.pos_key.t, i, j) = *at(c.pos_query.t, i, j) = *at(c.table_start.t, i, j) = NAN;
    float *got = run_everywhere(run_attention, &c, end_of(&c));
    parts p = parts_of(&c);
    for (size_t i = 0; i < p.at[DMIX]; i++) {
        size_t row = i < p.at[DPK] ? 256 : (i - p.at[DPK]) % (p.at[DPQ] - p.at[DPK]) / (size_t)hidden_of(&c);
        assert_true((row < 256 - 19 || row > 256 + 19) == isnan(got[i]));
    }
    free(got);
    case_free(&c);
}

// Bounded, however long the batch; of a sequence linear in its length.
static void test_scratch(void **state) {
    for (int backend = 0; backend < 2; backend++) {
        ft_target target = {.backend = backend ? FT_BACKEND_CUDA : FT_BACKEND_CPU, .threads = 2};
        for (int32_t longest = 128; longest <= 16384; longest *= 2) {
            size_t before[2] = {0, 0};
            for (int32_t sequences = 1; sequences <= 1024; sequences *= 4) {
                ft_talking_attention_forward_args f = {.shape = {.attention = {.heads = 12, .head_dim = 64, .sequences = sequences}}};
                f.shape.attention.max_queries = f.shape.attention.max_keys = longest;
                ft_talking_attention_backward_args b = {.shape = f.shape};
                const size_t now[2] = {ft_talking_attention_forward_workspace(&target, &f), ft_talking_attention_backward_workspace(&target, &b)};
                for (int i = 0; i < 2; i++) {
                    assert_true(now[i] >= before[i]); // it never shrinks with more sequences
                    if (!backend && sequences > 1) assert_int_equal(now[i], before[i]);
                    assert_true(now[i] <= ((size_t)40 << 20) + (size_t)longest * 12 * (64 * 2 + 5 * 20) * sizeof(float));
                    before[i] = now[i];
                }
            }
        }
    }
}

static void test_wrong_shapes(void **state) {
    static const int32_t lengths[] = {4};
    attention_case c = talking_case(case_new(2, 8, 1, lengths, false, 0, 1, v3_rule, BOTH));
    ft_device *device;
    assert_int_equal(ft_cpu_open(1, NULL, &device), FT_OK);
    fenced out = fenced_new(4, 16, 0);
    ft_talking_attention_forward_args good = {.shape = shape_of(&c), .q = q_of(&c), .k = k_of(&c), .v = v_of(&c), .pos_key = c.pos_key.t,
                                              .pos_query = c.pos_query.t, .mix_scores = c.mix[0].t, .mix_weights = c.mix[1].t, .out = out.t},
                                      bad = good;
    good.workspace = workspace_new(ft_talking_attention_forward_workspace(&device->target, &good));
#define REFUSED(change)                                                                                                \
    do {                                                                                                               \
        bad = good;                                                                                                    \
        change;                                                                                                        \
        assert_int_equal(FT_RUN(device, talking_attention_forward, &bad), FT_FAILED);                                  \
        assert_string_equal(ft_error_where(), "talking_attention_forward");                                            \
    } while (0)
    REFUSED(bad.q.cols = 15);
    REFUSED(bad.workspace.bytes--);
    REFUSED(bad.shape.attention.dropout.probability = 0.1f); // without a step
    REFUSED(bad.shape.attention.max_keys = 3);               // a sequence has 4
    REFUSED(bad.shape.slots = NULL);
    REFUSED(bad.pos_key.rows--);
    REFUSED(bad.mix_scores = ft_absent());
    REFUSED(bad.mix_weights.cols = 1);
    REFUSED(bad.mix_weights.rows = 3);
#undef REFUSED
    assert_int_equal(FT_RUN(device, talking_attention_forward, &good), FT_OK);
    ft_talking_attention_backward_args backward = {.shape = good.shape, .q = good.q, .k = good.k, .v = good.v};
    assert_int_equal(FT_RUN(device, talking_attention_backward, &backward), FT_FAILED);
    assert_string_equal(ft_error_where(), "talking_attention_backward");
    ft_error_clear();
    workspace_free(good.workspace);
    fenced_free(out);
    case_free(&c);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_oracle_against_finite_differences),
        SHARED_ATTENTION_TESTS,
        cmocka_unit_test(test_heads_that_say_nothing),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_terms),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_more_queries_than_scratch_holds),
        cmocka_unit_test(test_other_rows_of_the_tables_are_left_alone),
        cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_wrong_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
