// CUDA's disentangled attention with both directions on warpgroups of sm_90a, asked for with FTENGINE_ATTENTION=wgmma on an emulated chip
// that has them: heads of 64, bf16 and fp16 against double precision, as test_disentangled_types.c judges the other paths; and who gets it.
// ctest: driver=fake part=3
#include "tests/emulator/typed_attention.h"

static void reopen_gpu(size_t capability) {
    close_gpu(0);
    fake_settings s = fake.defaults();
    s.capability = capability;
    open_gpu(&s);
}
static int set_up_hopper(void **state) {
    set_up(state);
    reopen_gpu(90);
    return setenv("FTENGINE_ATTENTION", "wgmma", 1);
}

// Of run_on_cuda on this path: forward with and without lse where there are both terms, the passes of queries and of keys.
typedef struct launched {
    uint64_t forward, backward;
} launched;
static launched launches(void) {
    return (launched){simt_launches("disentangled_warpgroup_forward"), simt_launches("disentangled_warpgroup_backward")};
}
enum { FORWARD = 2, BACKWARD = 2 };
static bool both_terms(const attention_case *c) { return c->pos_key.t.data != NULL && c->pos_query.t.data != NULL; }
static void launched_since(launched before, int forward, int backward) {
    const launched now = launches();
    assert_int_equal(now.forward - before.forward, forward);
    assert_int_equal(now.backward - before.backward, backward);
}

static float *run_on_warpgroups(const attention_case *c, ft_dtype dtype) {
    const launched before = launches();
    float *got = run_on_cuda(c, dtype, true);
    launched_since(before, both_terms(c) ? FORWARD : 0, BACKWARD);
    return got;
}
// Judged, in as many orders, and by this path.
static void check(attention_case c, ft_dtype dtype, int first_order, int orders) {
    const launched before = launches();
    const bool both = both_terms(&c);
    check_typed(c, dtype, true, first_order, orders);
    launched_since(before, both ? FORWARD * orders : 0, BACKWARD * orders);
}

static void test_types_and_dropout(void **state) {
    static const int32_t lengths[] = {37, 1, 150};
    for (int type = 1; type < 3; type++)
        for (int dropout = 0; dropout < 2; dropout++) {
            if (few_cases() && type + dropout != 2) continue;
            check(typed_positions(dtypes[type], 2, 64, few_cases() ? 2 : 3, lengths, false, dropout ? 0.2f : 0, 1, dropout ? v3_rule : v1_rule, BOTH),
                  dtypes[type], type + dropout, few_cases() ? 1 : SIMT_ORDERS);
        }
}

// Around strips, tiles of two steps, blocks, and visits to the slab; rules that skip slots, have an odd number, or few.
static void test_lengths(void **state) {
    static const int32_t lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 95, 97, 127, 128, 129, 145, 200, 255, 256, 257, 300};
    const ft_relative_rule rules[] = {v3_rule, {33, 128}, {-1, 12}, v1_rule, skipping_rule};
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i += few_cases() ? 7 : 1)
        for (int type = 1; type < 3; type++) {
            if (few_cases() && i % 2 != type % 2) continue;
            check(typed_positions(dtypes[type], 1, 64, 1, &lengths[i], false, i % 2 ? 0.1f : 0, 1, lengths[i] < 120 ? rules[(i + type) % 5] : v3_rule,
                                  BOTH),
                  dtypes[type], i, 1);
        }
}
static void test_long_sequences(void **state) {
    static const int32_t lengths[] = {513, 512, 700};
    for (int i = 0; i < (few_cases() ? 1 : 3); i++) {
        const ft_dtype dtype = i % 2 ? FT_F16 : FT_BF16;
        check(typed_positions(dtype, 1, 64, 1, &lengths[i], false, i == 2 ? 0.1f : 0, 1, i == 2 ? v1_rule : v3_rule, BOTH), dtype, i, 1);
    }
}

// By 5 powers of two in 100 keys.
static void test_rising_scores(void **state) {
    static const int32_t lengths[] = {37, 1, 300};
    for (int i = 0; i < (few_cases() ? 1 : 2); i++) {
        const ft_dtype dtype = i ? FT_BF16 : FT_F16;
        attention_case c = typed_positions(dtype, 1, 64, 3, lengths, false, i ? 0.1f : 0, 1, i ? v3_rule : v1_rule, BOTH);
        raise_scores(dtype, &c, 0.035f);
        check(c, dtype, i, few_cases() ? 1 : 2);
    }
}

// One term alone, and tables whose gradient is not wanted.
static void test_terms(void **state) {
    static const int32_t lengths[] = {70, 5, 33};
    for (terms which = C2P; which <= BOTH; which++)
        for (int frozen = 0; frozen < 4; frozen++) {
            if (few_cases() && frozen != (int)which % 3) continue;
            attention_case c = typed_positions(dtypes[1 + frozen % 2], 2, 64, 3, lengths, false, 0.1f, 1, skipping_rule, which);
            if (frozen & 1) c.want_key = false;
            if (frozen & 2) c.want_query = false;
            check(c, dtypes[1 + frozen % 2], frozen, 1);
        }
}

// Fewer queries than keys: one a sequence, at position 0.
static void test_pooled_queries(void **state) {
    static const int32_t lengths[] = {5, 1, 70, 130};
    for (int type = few_cases() ? 2 : 1; type < 3; type++)
        check(typed_positions(dtypes[type], 2, 64, few_cases() ? 3 : 4, lengths, true, type == 1 ? 0 : 0.2f, 1, v3_rule, BOTH), dtypes[type], type,
              few_cases() ? 1 : 2);
}

// More queries than keys in one sequence, keys without queries in another, queries without keys in a third.
static void test_no_queries_or_no_keys(void **state) {
    static const int32_t lengths[] = {6, 9, 4};
    for (int type = 1; type < 3; type++) {
        attention_case c = typed_positions(dtypes[type], 1, 64, 3, lengths, false, 0, 1, (ft_relative_rule){-1, 40}, BOTH);
        c.cu_queries[1] = 0, c.cu_queries[2] = 9, c.cu_queries[3] = 19; // 0, 9 and 10 queries
        c.cu_keys[1] = 6, c.cu_keys[2] = 19, c.cu_keys[3] = 19;         // 6, 13 and 0 keys
        free(c.slots);
        c.reach = 12;
        c.slots = malloc(25 * sizeof *c.slots);
        assert_non_null(c.slots);
        ft_relative_slots(c.rule, c.reach, c.slots);
        simt_set_order((simt_order)type, 1);
        float *got = run_on_warpgroups(&c, dtypes[type]);
        const parts p = parts_of(&c);
        for (int i = 0; i < 6 * 64; i++)
            assert_true(got[p.at[DK] + (size_t)i] == 0 && got[p.at[DV] + (size_t)i] == 0);
        for (int i = 9 * 64; i < 19 * 64; i++)
            assert_true(got[i] == 0 && got[p.at[DQ] + (size_t)i] == 0);
        for (size_t i = p.at[DPK]; i < p.at[PARTS]; i++)
            assert_true(isfinite(got[i]));
        free(got);
        case_free(&c);
    }
}

// Rows of slots that no pair has are read by nobody, and their gradients stay as they are.
static void test_other_rows_of_the_tables_are_left_alone(void **state) {
    static const int32_t lengths[] = {20, 7};
    attention_case c = typed_positions(FT_F16, 2, 64, 2, lengths, false, 0, 1, v3_rule, BOTH);
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
    float *got = run_on_warpgroups(&c, FT_F16);
    const parts p = parts_of(&c);
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
        attention_case c = typed_positions(dtypes[1 + which % 2], 1, 64, 3, lengths, false, 0.1f, 1, v3_rule, BOTH);
        *at(c.qkv.t, 25, which * 64 + 3) = NAN;
        simt_set_order(SIMT_REVERSE, 0);
        float *got = run_on_warpgroups(&c, dtypes[1 + which % 2]);
        int nans = 0;
        for (int64_t i = 0; i < 90; i++)
            for (int64_t j = 0; j < 64; j++)
                for (int part = 0; part < 4; part++) {
                    bool is = isnan(got[parts_of(&c).at[shown[part]] + (size_t)(i * 64 + j)]);
                    assert_false(is && (i < 20 || i >= 50));
                    nans += is && part == (which < 2 ? 0 : 1);
                }
        assert_true(nans >= 30);
        free(got);
        case_free(&c);
    }
}

// One path after the other: what is dropped is the same. Of one key V is all there is of <dout, V>, so that dV of a
// key is the sum of dout over the queries that kept it, times what they gave it; the other path's is the same to rounding.
static void test_same_as_the_other_path(void **state) {
    static const int32_t lengths[] = {90, 33};
    attention_case c = typed_positions(FT_BF16, 2, 64, 2, lengths, false, 0.3f, 1, v3_rule, BOTH);
    const parts p = parts_of(&c);
    simt_set_order(SIMT_RANDOM, 4);
    float *got = run_on_warpgroups(&c, FT_BF16);
    assert_int_equal(setenv("FTENGINE_ATTENTION", "mma", 1), 0);
    const launched before = launches();
    float *want = run_on_cuda(&c, FT_BF16, true);
    launched_since(before, 0, 0);
    assert_int_equal(setenv("FTENGINE_ATTENTION", "wgmma", 1), 0);
    const size_t ends[] = {0, p.at[DQ], p.at[PARTS]}; // forward, backward
    for (int i = 0; i < 2; i++) {
        double error = 0, size = 0;
        for (size_t j = ends[i]; j < ends[i + 1]; j++) {
            error += pow((double)got[j] - (double)want[j], 2);
            size += pow((double)want[j], 2);
        }
        assert_true(size > 0 && sqrt(error / size) <= 0x1p-9); // sums in another order, then rounded
    }
    free(want);
    free(got);
    case_free(&c);
}

// What the path is not made for goes where it went before.
static void test_others_take_another_path(void **state) {
    static const int32_t lengths[] = {20, 3};
    static const struct {
        ft_dtype dtype;
        int32_t head_dim;
        bool aligned;
    } others[] = {{FT_BF16, 32, true}, {FT_F16, 96, true}, {FT_BF16, 128, true}, {FT_BF16, 20, true}, {FT_F32, 64, true}, {FT_BF16, 64, false}};
    const launched before = launches();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check_typed(typed_positions(others[i].dtype, 1, others[i].head_dim, 2, lengths, false, 0, 1, v3_rule, BOTH), others[i].dtype, others[i].aligned,
                    0, 1);
    launched_since(before, 0, 0);
}

// Nobody gets it who does not ask, and who asks in vain hears of it.
static void test_who_gets_it(void **state) {
    static const int32_t lengths[] = {20, 3};
    const launched before = launches();
    static const char *const no[] = {"", "mma", NULL};
    for (int i = 0; i < 3; i++) {
        if (no[i] != NULL) assert_int_equal(setenv("FTENGINE_ATTENTION", no[i], 1), 0);
        else assert_int_equal(unsetenv("FTENGINE_ATTENTION"), 0);
        check_typed(typed_positions(FT_BF16, 1, 64, 2, lengths, false, 0, 1, v3_rule, BOTH), FT_BF16, true, 0, 1);
    }
    attention_case c = typed_positions(FT_BF16, 1, 64, 2, lengths, false, 0, 1, v3_rule, BOTH);
    on_device qkv = device_matrix(FT_BF16, 23, 192, 0, 0, &c.qkv.t), out = device_matrix(FT_BF16, 23, 64, 0, 0, NULL),
              lse = device_matrix(FT_F32, 23, 1, 0, 0, NULL), table = device_table(FT_BF16, c.pos_key, 0, 0);
    ft_disentangled_attention_backward_args args = {.shape = shape_of(&c), .q = ft_columns(qkv.t, 0, 64), .k = ft_columns(qkv.t, 64, 64),
                                                    .v = ft_columns(qkv.t, 128, 64), .pos_key = table.t, .pos_query = table.t, .out = out.t,
                                                    .lse = lse.t, .dout = out.t, .dq = out.t, .dk = out.t, .dv = out.t,
                                                    .dpos_key = ft_absent(), .dpos_query = ft_absent()};
    take_workspace(&args.workspace, ft_disentangled_attention_backward_workspace(&gpu->target, &args));
    assert_int_equal(setenv("FTENGINE_ATTENTION", "flash", 1), 0);
    failed(ft_cuda_disentangled_attention_backward(gpu, &args), FT_INVALID, "'flash' is neither mma, wgmma, tcgen05, owner nor auto");
    assert_int_equal(setenv("FTENGINE_ATTENTION", "wgmma", 1), 0);
    on_device all[] = {qkv, out, lse, table};
    for (int i = 0; i < 4; i++)
        drop(all[i]);
    gpu->functions->buffer_free(gpu, args.workspace.data, 1);
    for (size_t capability = 80; capability <= 100; capability += 20) { // before and behind the chip
        reopen_gpu(capability);
        failed(ft_cuda_disentangled_attention_backward(gpu, &args), FT_NO_DEVICE,
               capability == 80 ? "wgmma is for compute capability 9.0, cuda:0 has 8.0" : "cuda:0 has 10.0");
    }
    launched_since(before, 0, 0);
    ft_error_clear();
    case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_and_dropout),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_long_sequences),
        cmocka_unit_test(test_rising_scores),
        cmocka_unit_test(test_terms),
        cmocka_unit_test(test_pooled_queries),
        cmocka_unit_test(test_no_queries_or_no_keys),
        cmocka_unit_test(test_other_rows_of_the_tables_are_left_alone),
        cmocka_unit_test(test_nan_stays_in_its_sequence),
        cmocka_unit_test(test_same_as_the_other_path),
        cmocka_unit_test(test_others_take_another_path),
        cmocka_unit_test(test_who_gets_it), // the last: it opens other devices
    };
    return cmocka_run_group_tests(tests, set_up_hopper, tear_down);
}
