// CUDA's attention forward on tensor memory of sm_100a, asked for with FTENGINE_ATTENTION=tcgen05 on an emulated chip of 10.0: bf16 and fp16 against
// double precision, as test_attention_types.c judges the other paths (the backward, which is mma.sync's, has its output and lse to go on); and who gets it.
// ctest: driver=fake part=4
#include "tests/emulator/typed_attention.h"

static uint64_t launches(void) { return simt_launches("attention_tensor_memory"); }
enum { LAUNCHES = 2 }; // of run_on_cuda on this path: with and without lse
#include "tests/emulator/typed_path.h"

static int set_up_blackwell(void **state) {
    set_up(state);
    reopen_gpu(100);
    return setenv("FTENGINE_ATTENTION", "tcgen05", 1);
}

// By 5 powers of two (4 in fp16: at 5 dQ of mma.sync is off by 8.4 units, and 8 are allowed) in 100 keys: a row exceeds its first tile's largest score by less than softmax.h's slack, then by more.
static void test_rising_scores(void **state) {
    static const int32_t lengths[] = {37, 1, 530};
    for (int i = 0; i < 2; i++) {
        const ft_dtype dtype = i ? FT_F16 : FT_BF16;
        check(rising_case(dtype, 1, i ? 128 : 64, 3, lengths, i ? 0 : 0.1f, i ? 0.03f : 0.035f), dtype, i, few_cases() ? 1 : 2);
    }
}

// More queries than keys in one sequence, keys without queries in another, queries without keys in a third.
static void test_no_queries_or_no_keys(void **state) {
    static const int32_t lengths[] = {6, 9, 4};
    for (int order = 0; order < SIMT_ORDERS; order++) {
        attention_case c = typed_case(FT_BF16, 1, 64, 3, lengths, false, 0);
        c.cu_queries[1] = 0, c.cu_queries[2] = 9, c.cu_queries[3] = 19; // 0, 9 and 10 queries
        c.cu_keys[1] = 6, c.cu_keys[2] = 19, c.cu_keys[3] = 19;         // 6, 13 and 0 keys
        simt_set_order((simt_order)order, 1);
        float *got = run_on_path(&c, FT_BF16);
        const parts p = parts_of(&c);
        for (int64_t i = 9 * 64; i < 19 * 64; i++)
            assert_true(got[i] == 0);
        for (size_t i = 9; i < 19; i++)
            assert_true(got[p.at[LSE] + i] == -INFINITY);
        for (int64_t i = 0; i < 9 * 64; i++)
            assert_true(got[i] != 0 && isfinite(got[i]));
        free(got);
        case_free(&c);
    }
}

// Scores of 0 make every probability 1/n. Unit vectors as values show the factor of every single score in the output: the element that the
// definition drops is dropped, and no other.
static void test_dropout_of_every_score_is_its_definition(void **state) {
    for (int32_t length = 64; length <= (few_cases() ? 64 : 128); length += 64) {
        attention_case c = plain_case(2, length, 1, &length, false, 0.25f, 1);
        c.slot[0] = 0xABCDE;
        for (int64_t i = 0; i < length; i++)
            for (int64_t j = 0; j < 6 * length; j++)
                *at(c.qkv.t, i, j) = j / length / 2 * 2 == 4 && j % length == i ? 1.0f : 0.0f;
        simt_set_order(SIMT_SKEWED, 3);
        float *got = run_on_path(&c, FT_BF16);
        for (int64_t i = 0; i < length; i++)
            for (int32_t h = 0; h < 2; h++)
                for (int64_t j = 0; j < length; j++)
                    assert_true(fabs((double)got[(i * 2 + h) * length + j] - (double)score_factor(&c, 0, h, i, j) / length) <= 8e-3 / length);
        free(got);
        case_free(&c);
    }
}

// A NaN stays in its own sequence, though tiles of the sequences in front of it have its rows; and does not get lost in it.
static void test_nan_stays_in_its_sequence(void **state) {
    static const int32_t lengths[] = {20, 30, 40};
    for (int which = 0; which < 3; which++) // in q, k, v
        for (int d = few_cases() ? 1 : 0; d < 2; d++) {
            const int64_t dim = d ? 128 : 64;
            attention_case c = typed_case(FT_BF16, 1, (int32_t)dim, 3, lengths, false, 0.1f);
            *at(c.qkv.t, 25, which * dim + 3) = NAN;
            simt_set_order(SIMT_REVERSE, 0);
            float *got = run_on_path(&c, FT_BF16);
            int nans = 0;
            for (int64_t i = 0; i < 90 * dim; i++) {
                assert_false(isnan(got[i]) && !(i >= 20 * dim && i < 50 * dim));
                nans += isnan(got[i]);
            }
            assert_true(nans >= 30);
            free(got);
            case_free(&c);
        }
}

// What the path is not made for goes where it went before: other heads and views, bands, shared keys, a bias.
static void test_others_take_another_path(void **state) {
    static const int32_t lengths[] = {20, 3};
    static const struct {
        ft_dtype dtype;
        int32_t head_dim;
        bool aligned;
    } others[] = {{FT_BF16, 32, true}, {FT_F16, 96, true}, {FT_F32, 64, true}, {FT_BF16, 64, false}};
    const uint64_t before = launches();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check_typed(typed_case(others[i].dtype, 1, others[i].head_dim, 2, lengths, false, 0), others[i].dtype, others[i].aligned, 0, 1);
    check_typed(biased_case(typed_case(FT_BF16, 1, 64, 2, lengths, false, 0), 6, 20), FT_BF16, true, 0, 1);
    for (int i = 0; i < 3; i++) {
        attention_case c = typed_case(FT_BF16, 2, 64, 2, lengths, false, 0);
        c.causal = i == 0;
        c.window = i == 1 ? 5 : 0;
        c.key_heads = i == 2 ? 1 : 0;
        check_typed(c, FT_BF16, true, 0, 1);
    }
    assert_int_equal(launches(), before);
}

// Nobody gets it who does not ask, and who asks in vain hears of it.
static void test_who_gets_it(void **state) {
    static const int32_t lengths[] = {20, 3};
    const uint64_t before = launches();
    static const char *const no[] = {"", "mma", "auto", NULL};
    for (int i = 0; i < 4; i++) {
        if (no[i] != NULL) assert_int_equal(setenv("FTENGINE_ATTENTION", no[i], 1), 0);
        else assert_int_equal(unsetenv("FTENGINE_ATTENTION"), 0);
        check_typed(typed_case(FT_BF16, 1, 64, 2, lengths, false, 0), FT_BF16, true, 0, 1);
    }
    assert_int_equal(setenv("FTENGINE_ATTENTION", "tcgen05", 1), 0);
    attention_case c = typed_case(FT_BF16, 1, 64, 2, lengths, false, 0);
    on_device qkv = device_matrix(FT_BF16, 23, 192, 0, 0, &c.qkv.t), out = device_matrix(FT_BF16, 23, 64, 0, 0, NULL);
    ft_attention_forward_args args = {.shape = shape_of(&c).attention,
                                      .q = ft_columns(qkv.t, 0, 64),
                                      .k = ft_columns(qkv.t, 64, 64),
                                      .v = ft_columns(qkv.t, 128, 64),
                                      .out = out.t};
    fake.refuse("cuTensorMapEncodeTiled", 2, 1, 999);
    failed(ft_cuda_attention_forward(gpu, &args), FT_FAILED, "error 999");
    drop(qkv);
    drop(out);
    static const struct {
        size_t capability;
        const char *says;
    } others[] = {{80, "tcgen05 is for compute capability 10.0 and 10.3, cuda:0 has 8.0"}, {90, "cuda:0 has 9.0"}, {101, "cuda:0 has 10.1"}, {120, "cuda:0 has 12.0"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        reopen_gpu(others[i].capability);
        args.q.data = args.k.data = args.v.data = args.out.data = (void *)16; // nothing comes to read them
        failed(ft_cuda_attention_forward(gpu, &args), FT_NO_DEVICE, others[i].says);
        assert_string_equal(ft_error_where(), "FTENGINE_ATTENTION");
    }
    assert_int_equal(launches(), before);
    ft_error_clear();
    case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_sizes),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_rising_scores),
        cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_pooled_queries),
        cmocka_unit_test(test_no_queries_or_no_keys),
        cmocka_unit_test(test_dropout_of_every_score_is_its_definition),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_nan_stays_in_its_sequence),
        cmocka_unit_test(test_others_take_another_path),
        cmocka_unit_test(test_who_gets_it), // the last: it opens other devices
    };
    return cmocka_run_group_tests(tests, set_up_blackwell, tear_down);
}
