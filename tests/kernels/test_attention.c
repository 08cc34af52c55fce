// Attention against plain loops in double precision, whose own gradient is held against finite differences.
// ctest: emulated=plain
#define USUAL_TERMS NONE
#define USUAL_MOST 4e-6
#include "tests/kernels/attention_tests.h"

static void test_the_oracle_against_finite_differences(void **state) {
    static const int32_t lengths[] = {1, 3, 7};
    for (int variant = 0; variant < 4; variant++) check_oracle(plain_case(2, 5, 3, lengths, variant & 1, variant & 2 ? 0.3f : 0.0f, 1.5));
}

static void test_head_sizes(void **state) {
    static const int32_t lengths[] = {11, 1, 40, 66}, head_dims[] = {1, 3, 8, 16, 17, 32, 40, 48, 64, 96, 128, 200};
    for (size_t i = 0; i < sizeof head_dims / sizeof head_dims[0]; i++)
        for (int dropout = 0; dropout < 2; dropout++)
            check_case(plain_case(2, head_dims[i], 3 + (i % 2), lengths, false, dropout ? 0.1f : 0.0f, 1), 1e-6, 4e-6);
}

static void test_lengths(void **state) {
    for (int32_t length = 1; length <= 20; length++)
        check_case(plain_case(1, 32, 1, &length, false, length % 2 ? 0.1f : 0, 1), 1e-6, 4e-6);
    static const int32_t longer[] = {31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 193, 257, 300};
    for (size_t i = 0; i < sizeof longer / sizeof longer[0]; i++)
        check_case(plain_case(1, 16, 1, &longer[i], false, i % 2 ? 0.1f : 0, 1), 1e-6, 4e-6);
}

// Sequences of a table of lengths whose last is many tiles long: under sanitizers without that one, which is most of the time.
#define LENGTHS (FT_SANITIZED ? 4 : 5)

// ---- windows ---------------------------------------------------------------------------------------------------------

static attention_case window_case(int32_t window, int32_t head_dim, int32_t sequences, const int32_t *lengths, bool pooled, float probability) {
    attention_case c = plain_case(2, head_dim, sequences, lengths, pooled, probability, 1);
    c.window = window;
    return c;
}

// Narrower and wider than tiles, as wide as some, wider than the sequence; a window one off would be seen at every edge.
static void test_windows(void **state) {
    static const int32_t lengths[] = {11, 1, 64, 130, 300}, windows[] = {1, 2, 15, 16, 31, 63, 64, 65, 100, 299, 400};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i += FT_SANITIZED ? 3 : 1)
        check_case(window_case(windows[i], i % 2 ? 16 : 64, LENGTHS, lengths, false, i / 2 % 2 ? 0 : 0.1f), 1e-6, 4e-6);
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i += FT_SANITIZED ? 3 : 1)
        check_case(window_case(windows[i], 32, LENGTHS, lengths, true, i % 2 ? 0.1f : 0), 2e-6, 4e-6); // five queries: a norm of few numbers
}

static void test_the_oracle_of_windows_against_finite_differences(void **state) {
    static const int32_t lengths[] = {1, 3, 7};
    for (int variant = 0; variant < 4; variant++) check_oracle(window_case(1 + variant / 2, 5, 3, lengths, false, variant & 1 ? 0.3f : 0));
}

// A window that reaches over the whole sequence is none, to the bit.
static void test_a_window_wide_enough_is_none(void **state) {
    static const int32_t lengths[] = {150, 7, 64};
    attention_case wide = window_case(149, 32, 3, lengths, false, 0.1f), none = wide;
    none.window = 0;
    float *a = run_everywhere(run_attention, &wide, end_of(&wide)), *b = run_everywhere(run_attention, &none, end_of(&none));
    assert_memory_equal(a, b, end_of(&wide) * sizeof *a);
    free(a);
    free(b);
    case_free(&wide);
}

// What lies further away than the window and a tile on both sides is not even read: NaNs there leave no trace. Twice as far backward:
// the queries whose outputs they are pass them on to their keys.
static void test_far_tiles_are_not_computed(void **state) {
    static const int32_t length = 700;
    attention_case c = window_case(16, 32, 1, &length, false, 0.1f);
    const int64_t hidden = hidden_of(&c);
    float *before = run_everywhere(run_attention, &c, end_of(&c));
    for (int64_t j = 0; j < 3 * hidden; j++) *at(c.qkv.t, 300, j) = NAN;
    float *after = run_everywhere(run_attention, &c, end_of(&c));
    static const int parts_shown[] = {OUT, DQ, DK, DV};
    for (int part = 0; part < 4; part++) {
        const size_t start = parts_of(&c).at[parts_shown[part]];
        for (int64_t i = 0; i < length; i++)
            if (llabs(i - 300) > (part == 0 ? 1 : 2) * (16 + 2 * 64))
                assert_memory_equal(before + start + i * hidden, after + start + i * hidden, (size_t)hidden * sizeof(float));
        assert_true(isnan(after[start + (size_t)(300 * hidden)])); // the test sees something
    }
    free(before);
    free(after);
    case_free(&c);
}

// ---- causal ------------------------------------------------------------------------------------------------------------

static attention_case causal_case(attention_case c, int32_t window, int32_t key_heads) {
    c.causal = true;
    c.window = window;
    c.key_heads = key_heads;
    return c;
}

static void test_the_oracle_of_causality_against_finite_differences(void **state) {
    static const int32_t lengths[] = {1, 3, 7};
    for (int window = 0; window < 3; window++) {
        check_oracle(causal_case(plain_case(2, 5, 3, lengths, false, window & 1 ? 0.3f : 0, 1.5), window, 0));
        check_oracle(causal_case(plain_case(4, 3, 3, lengths, window > 0, 0, 1.5), window, 2));
    }
}

// Lengths around tiles, windows of one key and more, shared keys, a bias.
static void test_causal(void **state) {
    static const int32_t lengths[] = {11, 1, 64, 130, 300}, windows[] = {0, 1, 16, 63, 64, 65, 299, 400}, head_dims[] = {16, 32, 64, 96, 128};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i += FT_SANITIZED ? 3 : 1)
        check_case(causal_case(plain_case(4, i % 2 ? 16 : 64, LENGTHS, lengths, false, i / 2 % 2 ? 0 : 0.1f, 1), windows[i], i % 4 == 2 ? 1 : i % 4 == 1 ? 2 : 0), 1e-6, 4e-6);
    for (size_t i = 0; i < sizeof head_dims / sizeof head_dims[0]; i += FT_SANITIZED ? 3 : 1)
        check_case(causal_case(plain_case(2, head_dims[i], LENGTHS, lengths, false, i % 2 ? 0.1f : 0, 1), 0, i % 2 ? 1 : 0), 1e-6, 4e-6);
    check_case(causal_case(biased_case(plain_case(2, 32, LENGTHS, lengths, false, 0.1f, 1), 32, 128), 0, 0), 1e-6, 6e-6);
}

// What lies behind a query is not read: NaNs there leave no trace in it, but for those of its tile.
static void test_later_tiles_are_not_computed(void **state) {
    static const int32_t length = 500;
    attention_case c = causal_case(plain_case(2, 32, 1, &length, false, 0.1f, 1), 0, 0);
    const int64_t hidden = hidden_of(&c);
    float *before = run_everywhere(run_attention, &c, end_of(&c));
    for (int64_t j = hidden; j < 3 * hidden; j++) *at(c.qkv.t, 300, j) = NAN;
    float *after = run_everywhere(run_attention, &c, end_of(&c));
    static const int parts_shown[] = {OUT, DQ};
    for (int part = 0; part < 2; part++) {
        const size_t start = parts_of(&c).at[parts_shown[part]];
        assert_memory_equal(before + start, after + start, (size_t)(256 * hidden) * sizeof(float)); // 300 is in the tile from 256 on
        assert_true(isnan(after[start + (size_t)(301 * hidden)]));
    }
    free(before);
    free(after);
    case_free(&c);
}

// ---- heads that share keys, and a bias by distance ----------------------------------------------------------------------

static attention_case shared_case(int32_t heads, int32_t key_heads, int32_t head_dim, int32_t sequences, const int32_t *lengths, bool pooled, float probability) {
    attention_case c = plain_case(heads, head_dim, sequences, lengths, pooled, probability, 1);
    c.key_heads = key_heads;
    return c;
}

static void test_the_oracle_of_shared_keys_and_bias_against_finite_differences(void **state) {
    static const int32_t lengths[] = {1, 3, 7};
    check_oracle(shared_case(4, 2, 3, 3, lengths, false, 0.3f));
    check_oracle(shared_case(3, 1, 5, 3, lengths, true, 0));
    check_oracle(biased_case(plain_case(2, 5, 3, lengths, false, 0.3f, 1), 6, 4));
    check_oracle(biased_case(plain_case(2, 5, 3, lengths, true, 0, 1), 4, 20));
}

// Groups of 2, of all heads, and of one; a kernel that takes the head's own number for its keys', or adds up one head of a group, is off.
static void test_shared_keys(void **state) {
    static const int32_t lengths[] = {11, 1, 64, 130, 300}, key_heads[] = {1, 2, 3, 6};
    for (int i = 0; i < 4; i += FT_SANITIZED ? 3 : 1)
        check_case(shared_case(6, key_heads[i], i % 2 ? 16 : 32, LENGTHS, lengths, i == 3, i / 2 % 2 ? 0 : 0.1f), 1e-6, 4e-6);
    attention_case c = shared_case(4, 2, 16, LENGTHS, lengths, false, 0.1f);
    c.window = 40;
    check_case(c, 1e-6, 4e-6);
}

// The shape that says how many are shared, and all of them are: to the bit what nobody shares.
static void test_one_head_a_group_is_none(void **state) {
    static const int32_t lengths[] = {150, 7, 64};
    attention_case c = shared_case(2, 2, 32, 3, lengths, false, 0.1f), none = c;
    none.key_heads = 0;
    float *a = run_everywhere(run_attention, &c, end_of(&c)), *b = run_everywhere(run_attention, &none, end_of(&none));
    assert_memory_equal(a, b, end_of(&c) * sizeof *a);
    free(a);
    free(b);
    case_free(&c);
}

// Distances within reach and far beyond it, slots in no order, tables of few rows; with a window, shared keys and rows that are read alone.
static void test_bias(void **state) {
    static const int32_t lengths[] = {11, 1, 64, 130, 300}, reaches[] = {4, 128, 400};
    for (int i = 0; i < 3; i++)
        for (int dropout = 0; dropout < 2; dropout++)
            check_case(biased_case(plain_case(2, i == 1 ? 20 : 32, 5, lengths, i == 2, dropout ? 0.1f : 0, 1), i == 0 ? 4 : 32, reaches[i]), 1e-6, 6e-6);
    attention_case c = biased_case(shared_case(4, 2, 16, 5, lengths, false, 0.1f), 32, 128);
    c.window = 40;
    check_case(c, 1e-6, 6e-6);
}

// A sequence adds its terms when its turn comes: any split over calls has the same bits (on CUDA, the same but for rounding).
static void test_splitting_changes_no_bit_of_the_bias(void **state) {
    static const int32_t lengths[] = {33, 2, 129, 64, 11};
    attention_case batch = biased_case(plain_case(2, 32, 5, lengths, false, 0.1f, 1), 32, 60);
    const size_t bytes = 32 * 2 * sizeof(float);
    float *together = run_everywhere(run_attention, &batch, end_of(&batch));
    fenced sums = fenced_new(32, 2, 0);
    for (int i = 0; i < 64; i++) ((float *)sums.t.data)[i] = 0;
    for (int32_t s = 0; s < 5; s += 2) {
        attention_case some = some_of(&batch, s, s + 2 < 5 ? s + 2 : 5);
        some.bias_start = sums;
        float *alone = run_everywhere(run_attention, &some, end_of(&some));
        memcpy(sums.t.data, alone + parts_of(&some).at[DBIAS], bytes);
        free(alone);
    }
    same_sums(sums.t.data, together + parts_of(&batch).at[DBIAS], 64);
    free(together);
    fenced_free(sums);
    case_free(&batch);
}

// Scores in the hundreds: nothing overflows, and what the softmax loses is what fp32 scores lose.
static void test_large_scores(void **state) {
    static const int32_t lengths[] = {70, 12};
    check_case(plain_case(2, 32, 2, lengths, false, 0, 12), 1e-3, 1e-2);
    attention_case c = plain_case(1, 16, 2, lengths, false, 0, 1); // a score of 1e6 above all others, seen late
    for (int64_t i = 0; i < c.qkv.t.rows; i++)
        for (int64_t j = 0; j < 16; j++) {
            *at(c.qkv.t, i, j) = 1000.0f;
            *at(c.qkv.t, i, 16 + j) = i % 70 == 68 ? 250.0f : -250.0f;
        }
    float *got = run_everywhere(run_attention, &c, end_of(&c));
    for (int64_t i = 0; i < 70; i++)
        for (int64_t j = 0; j < 16; j++)
            assert_true(got[i * 16 + j] == *at(c.qkv.t, 68, 32 + j));
    for (size_t i = 0; i < end_of(&c); i++)
        assert_true(isfinite(got[i]));
    free(got);
    case_free(&c);
}

// Equal keys make every probability 1/n, and unit vectors as values then show the factor of every single score.
static void test_dropout_of_every_score_is_its_definition(void **state) {
    int32_t length = 147;
    attention_case c = plain_case(2, length, 1, &length, false, 0.25f, 1);
    c.slot[0] = 0xABCDE;
    for (int64_t i = 0; i < length; i++)
        for (int64_t j = 0; j < 6 * length; j++)
            *at(c.qkv.t, i, j) = j >= 4 * length && j % length == i ? 1.0f : 0.0f;
    float *got = run_everywhere(run_attention, &c, end_of(&c));
    for (int64_t i = 0; i < length; i++)
        for (int32_t h = 0; h < 2; h++)
            for (int64_t j = 0; j < length; j++) {
                double want = score_factor(&c, 0, h, i, j) / length;
                assert_true(fabs((double)got[(i * 2 + h) * length + j] - want) <= 1e-6 * want);
            }
    free(got);
    case_free(&c);
}

static void test_wrong_shapes(void **state) {
    static const int32_t lengths[] = {4};
    attention_case c = plain_case(2, 8, 1, lengths, false, 0, 1);
    ft_device *device;
    assert_int_equal(ft_cpu_open(1, NULL, &device), FT_OK);
    fenced out = fenced_new(4, 16, 0);
    ft_attention_forward_args good = {.shape = shape_of(&c).attention, .q = q_of(&c), .k = k_of(&c), .v = v_of(&c), .out = out.t},
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
    bad = good;
    bad.shape.window = -1;
    assert_int_equal(FT_RUN(device, attention_forward, &bad), FT_FAILED);
    bad = good;
    bad.shape.key_heads = 1; // but keys of two heads
    assert_int_equal(FT_RUN(device, attention_forward, &bad), FT_FAILED);
    bad.shape.key_heads = 3; // no divisor
    assert_int_equal(FT_RUN(device, attention_forward, &bad), FT_FAILED);
    bad = good;
    bad.bias.table = ft_columns(c.qkv.t, 0, 2); // without slots
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
        SHARED_ATTENTION_TESTS,
        cmocka_unit_test(test_head_sizes),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_the_oracle_of_windows_against_finite_differences),
        cmocka_unit_test(test_a_window_wide_enough_is_none),
        cmocka_unit_test(test_far_tiles_are_not_computed),
        cmocka_unit_test(test_the_oracle_of_causality_against_finite_differences),
        cmocka_unit_test(test_causal),
        cmocka_unit_test(test_later_tiles_are_not_computed),
        cmocka_unit_test(test_the_oracle_of_shared_keys_and_bias_against_finite_differences),
        cmocka_unit_test(test_shared_keys),
        cmocka_unit_test(test_one_head_a_group_is_none),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_splitting_changes_no_bit_of_the_bias),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_dropout_of_every_score_is_its_definition),
        cmocka_unit_test(test_wrong_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
