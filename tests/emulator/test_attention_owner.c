// CUDA's attention backward by one owner of a sequence and head, asked for with FTENGINE_ATTENTION=owner on an emulated chip of 99 KB
// of shared memory: bf16 and fp16 against double precision, as test_attention_types.c judges the two passes; its scratch; and who gets it.
// ctest: driver=fake
#include "tests/emulator/typed_attention.h"

#include "kernels/cuda/attention/path.h"

static void reopen_gpu(size_t capability, size_t multiprocessors) {
    close_gpu(0);
    fake_settings s = fake.defaults();
    s.capability = capability;
    s.multiprocessors = multiprocessors;
    open_gpu(&s);
}
static void ask_for(const char *path) { assert_int_equal(setenv(FT_ATTENTION_PATH_NAME, path, 1), 0); }
static int set_up_owner(void **state) {
    set_up(state);
    reopen_gpu(89, 3); // blocks that take several sequences and heads one after the other
    ask_for("owner");
    return 0;
}

static uint64_t launches(void) { return simt_launches("attention_owner"); }

static float *run_on_owner(const attention_case *c, ft_dtype dtype) {
    const uint64_t before = launches();
    float *got = run_on_cuda(c, dtype, true);
    assert_int_equal(launches() - before, 1);
    return got;
}
// Judged, in as many orders, and by this path.
static void check(attention_case c, ft_dtype dtype, int first_order, int orders) {
    const uint64_t before = launches();
    check_typed(c, dtype, true, first_order, orders);
    assert_int_equal(launches() - before, orders);
}

static void test_head_sizes(void **state) {
    static const int32_t lengths[] = {37, 1, 150};
    for (int i = 0; i < 8; i++) {
        if (few_cases() && i % 3 != 0) continue;
        const ft_dtype dtype = i & 1 ? FT_BF16 : FT_F16;
        check(typed_case(dtype, 2, i & 2 ? 64 : 32, 3, lengths, false, i & 4 ? 0.2f : 0), dtype, i, few_cases() ? 1 : SIMT_ORDERS);
    }
}

// Around a warp's 16 keys, 32 and 64 queries of a tile, and the 128 keys behind which the slab begins; the last one has it read and
// written.
static void test_lengths(void **state) {
    static const int32_t lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 97, 127, 128, 129, 145, 255, 256, 257, 385};
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i += few_cases() ? 5 : 1)
        for (int d = 0; d < 2; d++)
            check(typed_case(i % 2 ? FT_F16 : FT_BF16, 1, d ? 32 : 64, 1, &lengths[i], false, i % 3 ? 0.1f : 0),
                  i % 2 ? FT_F16 : FT_BF16, i + d, 1);
}

// Fewer queries than keys: one a sequence, at position 0.
static void test_pooled_queries(void **state) {
    static const int32_t lengths[] = {5, 1, 70, 290};
    for (int i = 0; i < 4; i += few_cases() ? 3 : 1) {
        const ft_dtype dtype = i & 1 ? FT_BF16 : FT_F16;
        check(typed_case(dtype, 2, i & 2 ? 32 : 64, 4, lengths, true, i & 2 ? 0 : 0.2f), dtype, i, few_cases() ? 1 : 2);
    }
}

// More queries than keys in one sequence, keys without queries in another, queries without keys in a third.
static void test_no_queries_or_no_keys(void **state) {
    static const int32_t lengths[] = {6, 9, 4};
    for (int32_t d = 32; d <= 64; d += 32) {
        attention_case c = typed_case(FT_BF16, 1, d, 3, lengths, false, 0);
        c.cu_queries[1] = 0, c.cu_queries[2] = 9, c.cu_queries[3] = 19; // 0, 9 and 10 queries
        c.cu_keys[1] = 6, c.cu_keys[2] = 19, c.cu_keys[3] = 19;         // 6, 13 and 0 keys
        simt_set_order(d == 32 ? SIMT_RANDOM : SIMT_REVERSE, 1);
        float *got = run_on_owner(&c, FT_BF16);
        const parts p = parts_of(&c);
        for (int64_t i = 0; i < 19 * d; i++) {
            const float dq = got[p.at[DQ] + (size_t)i], dk = got[p.at[DK] + (size_t)i], dv = got[p.at[DV] + (size_t)i];
            assert_true(i < 9 * d ? dq != 0 && isfinite(dq) : dq == 0);
            assert_true(i < 6 * d ? dk == 0 && dv == 0 : dk != 0 && dv != 0 && isfinite(dk) && isfinite(dv));
        }
        free(got);
        case_free(&c);
    }
}

// What a sequence gets does not depend on how many blocks there are, and which of them has it: every multiprocessor less is another
// schedule. More of them than sequences and heads as well.
static void test_any_number_of_blocks(void **state) {
    static const int32_t lengths[] = {140, 3, 260, 60};
    attention_case c = typed_case(FT_BF16, 2, 64, few_cases() ? 2 : 4, lengths, false, 0.1f);
    float *first = NULL;
    for (size_t multiprocessors = 1; multiprocessors <= 12; multiprocessors += multiprocessors < 3 ? 1 : 9) {
        reopen_gpu(89, multiprocessors);
        simt_set_order(SIMT_RANDOM, multiprocessors);
        float *got = run_on_owner(&c, FT_BF16);
        if (first == NULL) {
            first = got;
            continue;
        }
        assert_memory_equal(got, first, end_of(&c) * sizeof *got);
        free(got);
    }
    free(first);
    case_free(&c);
    reopen_gpu(89, 3);
}

// A probability of e^1000 relative to the lse of a row that is not there would be infinite: rows past the end of keys and queries, in
// tiles that are not full, add nothing.
static void test_large_scores(void **state) {
    static const int32_t lengths[] = {270, 12};
    attention_case c = typed_case(FT_F16, 1, 64, 2, lengths, false, 0);
    for (int64_t i = 0; i < c.qkv.t.rows; i++)
        for (int64_t j = 0; j < 64; j++) {
            *at(c.qkv.t, i, j) = 1000.0f;
            *at(c.qkv.t, i, 64 + j) = i == 268 ? -1.0f : -250.0f;
        }
    simt_set_order(SIMT_RANDOM, 4);
    float *got = run_on_owner(&c, FT_F16);
    for (size_t i = 0; i < end_of(&c); i++)
        assert_true(isfinite(got[i]));
    free(got);
    case_free(&c);
}

// A NaN stays in its own sequence, though a block has several of them one after the other in the same slab; and does not get lost in it.
static void test_nan_stays_in_its_sequence(void **state) {
    static const int32_t lengths[] = {140, 150, 160};
    reopen_gpu(89, 1);
    for (int which = 0; which < 4; which += few_cases() ? 3 : 1) { // in q, k, v, dout
        attention_case c = typed_case(FT_BF16, 1, 64, 3, lengths, false, 0.1f);
        if (which < 3) *at(c.qkv.t, 145, which * 64 + 3) = NAN;
        else *at(c.dout.t, 145, 3) = NAN;
        simt_set_order(SIMT_REVERSE, 0);
        float *got = run_on_owner(&c, FT_BF16);
        const parts p = parts_of(&c);
        const size_t begins[] = {p.at[DQ], p.at[DK], p.at[DV]};
        for (int part = 0; part < 3; part++) {
            int nans = 0;
            for (int64_t i = 0; i < 450 * 64; i++) {
                const bool is_nan = isnan(got[begins[part] + (size_t)i]);
                assert_false(is_nan && !(i >= 140 * 64 && i < 290 * 64));
                nans += is_nan;
            }
            if (which < 2 || part < 2) assert_true(nans >= 30); // (of dV, V has nothing and dout a column)
        }
        free(got);
        case_free(&c);
    }
    reopen_gpu(89, 3);
}

// The two passes on the same case: every sum has the same terms in the same order, so every bit is the same.
static void test_against_the_passes(void **state) {
    static const int32_t lengths[] = {150, 33};
    for (int i = 0; i < 4; i++) {
        const ft_dtype dtype = i & 1 ? FT_BF16 : FT_F16;
        attention_case c = typed_case(dtype, 2, i & 2 ? 64 : 32, 2, lengths, false, i & 1 ? 0.1f : 0);
        simt_set_order(SIMT_FORWARD, 0);
        float *got = run_on_owner(&c, dtype);
        ask_for("mma");
        const uint64_t before = launches();
        float *want = run_on_cuda(&c, dtype, true);
        assert_int_equal(launches(), before);
        ask_for("owner");
        assert_memory_equal(got, want, end_of(&c) * sizeof *got);
        free(want);
        free(got);
        case_free(&c);
    }
}

// ---- who gets it, and in which scratch ----------------------------------------------------------------------------------

static ft_attention_backward_args planned(int32_t sequences, int32_t longest, int32_t head_dim, ft_dtype dtype) {
    return (ft_attention_backward_args){
        .shape = {.heads = 12, .head_dim = head_dim, .sequences = sequences, .max_queries = longest, .max_keys = longest, .scale = 1},
        .q = {.rows = (int64_t)sequences * longest, .cols = 12 * head_dim, .stride = 12 * head_dim, .dtype = dtype}};
}

static void test_scratch(void **state) {
    const ft_target small = {.backend = FT_BACKEND_CUDA, .sm_count = 128, .compute_capability = 89},
                    large = {.backend = FT_BACKEND_CUDA, .sm_count = 132, .compute_capability = 90};
    const size_t deltas = 32 * 512 * 12 * sizeof(float), slabs = 128 * 512 * 64 * sizeof(float);
    ft_attention_backward_args a = planned(32, 512, 64, FT_BF16);
    ask_for("owner");
    assert_int_equal(ft_attention_backward_workspace(&small, &a), deltas + slabs);
    ask_for("auto");
    assert_int_equal(ft_attention_backward_workspace(&small, &a), deltas + slabs);
    assert_int_equal(ft_attention_backward_workspace(&large, &a), deltas);
    ask_for("mma");
    assert_int_equal(ft_attention_backward_workspace(&small, &a), deltas);
    ask_for("auto");
    a = planned(32, 512, 64, FT_F32); // has no tensor cores
    assert_int_equal(ft_attention_backward_workspace(&small, &a), deltas);
    a = planned(32, 512, 96, FT_BF16); // no such kernel
    assert_int_equal(ft_attention_backward_workspace(&small, &a), deltas);
    a = planned(32, 128, 64, FT_BF16); // the first keys are all
    assert_int_equal(ft_attention_backward_workspace(&small, &a), 32 * 128 * 12 * sizeof(float));
    // A plan is made for the largest call: no smaller one needs more, whichever way it goes.
    for (int32_t sequences = 1; sequences <= 32; sequences++)
        for (int32_t longest = 1; longest <= 512; longest += 37) {
            a = planned(sequences, longest, 64, FT_BF16);
            assert_true(ft_attention_backward_workspace(&small, &a) <= deltas + slabs);
        }
    ask_for("owner");
}

// By counting, on chips of 99 KB: where there are sequences and heads for all multiprocessors, and keys for all warps.
static void test_what_counting_favours(void **state) {
    static const struct {
        int capability, sms;
        int32_t sequences, longest, head_dim;
        bool owner;
    } cases[] = {
        {89, 128, 32, 512, 64, true},  // 384 heads: three full rounds, 5 products instead of 7
        {89, 128, 64, 128, 32, true},
        {120, 170, 64, 512, 64, true},
        {89, 128, 2, 512, 64, false},  // 24 heads: most of the chip would have nothing to do
        {89, 128, 11, 512, 64, false}, // 132: four multiprocessors would have two
        {89, 128, 32, 64, 64, false},  // half of the warps would have no keys
        {89, 128, 32, 512, 96, false}, // there is none
        {80, 108, 32, 512, 64, false}, // shared memory binds
        {90, 132, 32, 512, 64, false},
        {100, 148, 32, 512, 64, false},
    };
    ask_for("auto");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ft_target target = {.backend = FT_BACKEND_CUDA, .sm_count = cases[i].sms, .compute_capability = cases[i].capability};
        ft_attention_backward_args a = planned(cases[i].sequences, cases[i].longest, cases[i].head_dim, FT_BF16);
        if (ft_attention_takes_owner(&target, &a.shape) != cases[i].owner) fail_msg("case %zu", i);
    }
    ask_for("mma");
    ft_attention_backward_args a = planned(32, 512, 64, FT_BF16);
    assert_false(ft_attention_takes_owner(&(ft_target){.sm_count = 128, .compute_capability = 89}, &a.shape));
    ask_for("owner");
    assert_true(ft_attention_takes_owner(&(ft_target){.sm_count = 132, .compute_capability = 90}, &a.shape)); // who asks
}

// What it is not made for goes where it went before; so does everything where nobody asks, or counting says no.
static void test_others_take_another_path(void **state) {
    static const int32_t lengths[] = {20, 3};
    static const struct {
        const char *asked;
        ft_dtype dtype;
        int32_t head_dim;
        bool aligned;
    } others[] = {{"owner", FT_F16, 96, true},  {"owner", FT_BF16, 128, true}, {"owner", FT_BF16, 20, true}, {"owner", FT_F32, 64, true},
                  {"owner", FT_BF16, 64, false}, {"mma", FT_BF16, 64, true},   {"", FT_BF16, 64, true},       {"auto", FT_BF16, 64, true}};
    const uint64_t before = launches();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ask_for(others[i].asked);
        check_typed(typed_case(others[i].dtype, 1, others[i].head_dim, 2, lengths, false, 0), others[i].dtype, others[i].aligned, 0, 1);
    }
    assert_int_equal(launches(), before);
    static const int32_t equal[] = {128, 128, 128};
    ask_for("auto");
    check(typed_case(FT_BF16, 1, 64, 3, equal, false, 0), FT_BF16, 0, 1); // a multiprocessor each
    ask_for("owner");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_sizes),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_pooled_queries),
        cmocka_unit_test(test_no_queries_or_no_keys),
        cmocka_unit_test(test_any_number_of_blocks),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_nan_stays_in_its_sequence),
        cmocka_unit_test(test_against_the_passes),
        cmocka_unit_test(test_scratch),
        cmocka_unit_test(test_what_counting_favours),
        cmocka_unit_test(test_others_take_another_path),
    };
    return cmocka_run_group_tests(tests, set_up_owner, tear_down);
}
