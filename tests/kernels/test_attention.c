// Attention against plain loops in double precision, whose own gradient is held against finite differences.
// ctest: emulated=plain
#include "tests/kernels/attention_case.h"

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
