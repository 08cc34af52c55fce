// typed_path.h - what a path of attention of its own has to pass at heads of 64 and 128, in bf16 and fp16. Who includes it has defined, behind
// typed_attention.h,
//     static uint64_t launches(void);    of the path's kernels so far
//     enum { LAUNCHES = ... };           of run_on_cuda on this path
// and calls the tests below beside its own.
#ifndef FT_TESTS_TYPED_PATH_H
#define FT_TESTS_TYPED_PATH_H

#include "tests/emulator/typed_attention.h"

// The emulated GPU is another chip from here on.
static void reopen_gpu(size_t capability) {
    close_gpu(0);
    fake_settings s = fake.defaults();
    s.capability = capability;
    open_gpu(&s);
}

static float *run_on_path(const attention_case *c, ft_dtype dtype) {
    const uint64_t before = launches();
    float *got = run_on_cuda(c, dtype, true);
    assert_int_equal(launches() - before, LAUNCHES);
    return got;
}
// Judged, in as many orders, and by this path.
static void check(attention_case c, ft_dtype dtype, int first_order, int orders) {
    const uint64_t before = launches();
    check_typed(c, dtype, true, first_order, orders);
    assert_int_equal(launches() - before, LAUNCHES * orders);
}

static void test_head_sizes(void **state) {
    static const int32_t lengths[] = {37, 1, 150};
    for (int i = 0; i < 8; i++) {
        if (few_cases() && i % 3 != 0) continue;
        const ft_dtype dtype = i & 1 ? FT_BF16 : FT_F16;
        check(typed_case(dtype, 2, i & 2 ? 64 : 128, 3, lengths, false, i & 4 ? 0.2f : 0), dtype, i, few_cases() ? 1 : SIMT_ORDERS);
    }
}

// Around 64 and 128 rows of a group and a block, and 64 and 128 of a tile; all buffers more than once.
static void test_lengths(void **state) {
    static const int32_t lengths[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 400};
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i += few_cases() ? 5 : 1)
        for (int d = 0; d < 2; d++)
            check(typed_case(i % 2 ? FT_F16 : FT_BF16, 1, d ? 128 : 64, 1, &lengths[i], false, i % 3 ? 0.1f : 0),
                  i % 2 ? FT_F16 : FT_BF16, i + d, 1);
}

static void test_long_text(void **state) {
    static const int32_t lengths[] = {5, 1030};
    check(typed_case(FT_BF16, 1, 64, few_cases() ? 1 : 2, lengths, false, 0.1f), FT_BF16, SIMT_SKEWED, 1);
}

// Fewer queries than keys: one a sequence, at position 0.
static void test_pooled_queries(void **state) {
    static const int32_t lengths[] = {5, 1, 70, 290};
    for (int i = 0; i < 4; i += few_cases() ? 3 : 1) {
        const ft_dtype dtype = i & 1 ? FT_BF16 : FT_F16;
        check(typed_case(dtype, 2, i & 2 ? 128 : 64, few_cases() ? 3 : 4, lengths, true, i & 2 ? 0 : 0.2f), dtype, i, few_cases() ? 1 : 2);
    }
}

// Scores in the hundreds, and one far above the others that comes in the last tile.
static void test_large_scores(void **state) {
    static const int32_t lengths[] = {270, 12};
    attention_case c = typed_case(FT_F16, 1, 64, 2, lengths, false, 0);
    for (int64_t i = 0; i < c.qkv.t.rows; i++)
        for (int64_t j = 0; j < 64; j++) {
            *at(c.qkv.t, i, j) = 1000.0f;
            *at(c.qkv.t, i, 64 + j) = i == 268 ? 250.0f : -250.0f;
        }
    simt_set_order(SIMT_RANDOM, 4);
    float *got = run_on_path(&c, FT_F16);
    for (int64_t i = 0; i < 270; i++)
        for (int64_t j = 0; j < 64; j++) {
            const double value = (double)*at(c.qkv.t, 268, 128 + j);
            assert_true(fabs((double)got[i * 64 + j] - value) <= 0x1p-10 * fabs(value));
        }
    for (size_t i = 0; i < end_of(&c); i++)
        assert_true(isfinite(got[i]));
    free(got);
    case_free(&c);
}

#endif
