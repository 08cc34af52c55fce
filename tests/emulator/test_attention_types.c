// CUDA's attention on the emulator: fp32, bf16 and fp16 against double precision and against the CPU's, in all orders of
// threads, on memory that is NaN before it is written.
// ctest: driver=fake part=3
#include "tests/emulator/typed_attention.h"

// ---- the tests ----------------------------------------------------------------------------------------------------------

static void test_head_sizes(void **state) {
    static const int32_t lengths[] = {37, 1, 70}, head_dims[] = {32, 64, 96, 128};
    for (int d = 0; d < 4; d++)
        for (int type = 0; type < 3; type++)
            for (int dropout = 0; dropout < 2; dropout++) {
                if (few_cases() && (d + type + dropout) % 3 != 0) continue;
                check_typed(typed_case(dtypes[type], 2, head_dims[d], few_cases() ? 2 : 3, lengths, false, dropout ? 0.2f : 0),
                            dtypes[type], true, d + dropout, few_cases() ? 1 : SIMT_ORDERS);
            }
}

// Those of the plain path: head sizes that no tile has, and views that are not aligned.
static void test_other_head_sizes(void **state) {
    static const int32_t lengths[] = {11, 1, 34}, head_dims[] = {1, 8, 20, 66, 147, 200, 256};
    for (int d = 0; d < 7; d++)
        for (int type = 0; type < 3; type++) {
            if (few_cases() && (d + type) % 3 != 0) continue;
            check_typed(typed_case(dtypes[type], 2, head_dims[d], few_cases() ? 2 : 3, lengths, false, d % 2 ? 0.1f : 0), dtypes[type],
                        true, d, few_cases() ? 1 : 2);
        }
    for (int type = 0; type < 3; type++)
        check_typed(typed_case(dtypes[type], 2, 64, 3, lengths, false, 0.1f), dtypes[type], false, type, few_cases() ? 1 : SIMT_ORDERS);
}

static void test_lengths(void **state) {
    static const int32_t lengths[] = {2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 200};
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i += few_cases() ? 4 : 1)
        for (int type = 0; type < 3; type++)
            check_typed(typed_case(dtypes[type], 1, 32, 1, &lengths[i], false, i % 2 ? 0.1f : 0), dtypes[type], true, i, 1);
}

// By 5 powers of two in 100 keys: a row exceeds its first tiles' largest score by less than softmax.h's slack, then by more.
static void test_rising_scores(void **state) {
    static const int32_t lengths[] = {37, 1, 300}, head_dims[] = {32, 64, 96, 128};
    for (int d = 0; d < 4; d++)
        for (int banded = 0; banded < 2; banded++) {
            if (few_cases() && d % 2 != banded) continue;
            const ft_dtype dtype = (d + banded) % 2 ? FT_F16 : FT_BF16;
            attention_case c = rising_case(dtype, 1, head_dims[d], 3, lengths, d % 2 ? 0.1f : 0, 0.035f);
            c.causal = banded && head_dims[d] != 96;
            check_typed(c, dtype, true, d, few_cases() ? 1 : 2);
        }
}

// Fewer queries than keys: one a sequence, at position 0.
static void test_pooled_queries(void **state) {
    static const int32_t lengths[] = {5, 1, 70, 130}, head_dims[] = {32, 64, 20};
    for (int d = 0; d < 3; d++)
        for (int type = 0; type < 3; type++)
            check_typed(typed_case(dtypes[type], 2, head_dims[d], few_cases() ? 3 : 4, lengths, true, d % 2 ? 0 : 0.2f), dtypes[type],
                        true, d + type, few_cases() ? 1 : 2);
}

// Narrower and wider than tiles, on tensor cores and on the plain path (20, 96), with fewer queries than keys too: edges of the window
// within a tile, rows that see nothing of the first tile, tiles that nobody sees, keys that no query sees.
static void test_windows(void **state) {
    static const int32_t lengths[] = {37, 1, 300, 130}, head_dims[] = {32, 64, 96, 128, 20}, windows[] = {1, 16, 40, 64, 100};
    for (int d = 0; d < 5; d++)
        for (int w = 0; w < 5; w++)
            for (int type = 0; type < 3; type++) {
                if ((d + w + type) % (few_cases() ? 7 : 3) != 0) continue;
                attention_case c = typed_case(dtypes[type], 1, head_dims[d], 4, lengths, w == 3, w % 2 ? 0.2f : 0);
                c.window = windows[w];
                check_typed(c, dtypes[type], true, d + w, few_cases() ? 1 : 2);
            }
}

// Causal, with windows and without, shared keys and a bias, on tensor cores and on the plain path (20, 96); last rows of tiles that see one key.
static void test_causal(void **state) {
    static const int32_t lengths[] = {37, 1, 300, 130}, head_dims[] = {32, 64, 96, 128, 20}, windows[] = {0, 1, 40, 64, 100};
    for (int d = 0; d < 5; d++)
        for (int w = 0; w < 5; w++)
            for (int type = 0; type < 3; type++) {
                if (w > 0 && (d + w + type) % (few_cases() ? 7 : 3) != 0) continue;
                attention_case c = typed_case(dtypes[type], 2, head_dims[d], few_cases() ? 3 : 4, lengths, false, w % 2 ? 0.2f : 0);
                if (w == 2) c = biased_case(c, 6, 20);
                c.causal = true;
                c.window = windows[w];
                c.key_heads = w == 3 || (w == 0 && d % 2) ? 1 : 0;
                check_typed(c, dtypes[type], true, d + w, few_cases() ? 1 : 2);
            }
}

// NaNs further away than the window and a tile on both sides leave no trace: nothing is computed there.
static void test_far_tiles_are_not_computed(void **state) {
    static const int32_t length = 400;
    for (int type = 0; type < 3; type++) {
        attention_case c = typed_case(dtypes[type], 1, 64, 1, &length, false, 0.1f);
        c.window = 16;
        simt_set_order(SIMT_RANDOM, 2);
        float *before = run_on_cuda(&c, dtypes[type], true);
        for (int64_t j = 0; j < 3 * 64; j++) *at(c.qkv.t, 200, j) = NAN;
        float *after = run_on_cuda(&c, dtypes[type], true);
        static const int shown[] = {OUT, DQ, DK, DV};
        for (int part = 0; part < 4; part++) {
            const size_t start = parts_of(&c).at[shown[part]];
            assert_true(isnan(after[start + 200 * 64]));
            for (int64_t i = 0; i < length; i++) // rows of 64 reach tiles of 32, and backward once more
                if (llabs(i - 200) > (part == 0 ? 1 : 2) * (16 + 64 + 32) - 32)
                    assert_memory_equal(before + start + i * 64, after + start + i * 64, 64 * sizeof(float));
        }
        free(before);
        free(after);
        case_free(&c);
    }
}

// Heads that share keys and values, on tensor cores and on the plain path, with windows and rows that are read alone.
static void test_shared_keys(void **state) {
    static const int32_t lengths[] = {37, 1, 130}, head_dims[] = {32, 64, 96, 128, 20}, key_heads[] = {1, 2, 4};
    for (int d = 0; d < 5; d++)
        for (int k = 0; k < 3; k++)
            for (int type = 0; type < 3; type++) {
                if ((d + k + type) % (few_cases() ? 7 : 3) != 0) continue;
                attention_case c = typed_case(dtypes[type], 4, head_dims[d], 3, lengths, k == 1 && d == 3, d % 2 ? 0.2f : 0);
                c.key_heads = key_heads[k];
                c.window = k == 2 ? 40 : 0;
                check_typed(c, dtypes[type], true, d + k, few_cases() ? 1 : 2);
            }
}

// A bias by distance: distances of all tiles, far ones that share a row, its gradient over many tiles of a block; with windows and shared keys.
static void test_bias(void **state) {
    static const int32_t lengths[] = {37, 1, 150, 70}, head_dims[] = {32, 64, 96, 128, 20};
    for (int d = 0; d < 5; d++)
        for (int variant = 0; variant < 3; variant++)
            for (int type = 0; type < 3; type++) {
                if ((d + variant + type) % (few_cases() ? 7 : 3) != 0) continue;
                attention_case c = typed_case(dtypes[type], 2, head_dims[d], 4, lengths, variant == 1, d % 2 ? 0.2f : 0);
                c = biased_case(c, variant == 0 ? 32 : 6, variant == 2 ? 20 : 128);
                c.key_heads = variant == 2 ? 1 : 0;
                c.window = variant == 2 ? 40 : 0;
                check_typed(c, dtypes[type], d != 1 || variant != 0, d + variant, few_cases() ? 1 : 2);
            }
}

// More queries than keys in one sequence, keys without queries in another, queries without keys in a third.
static void test_no_queries_or_no_keys(void **state) {
    static const int32_t lengths[] = {6, 9, 4};
    for (int type = 0; type < 3; type++)
        for (int path = 0; path < 2; path++) {
            attention_case c = typed_case(dtypes[type], 1, path == 0 ? 32 : 16, 3, lengths, false, 0);
            c.cu_queries[1] = 0, c.cu_queries[2] = 9, c.cu_queries[3] = 19; // 0, 9 and 10 queries
            c.cu_keys[1] = 6, c.cu_keys[2] = 19, c.cu_keys[3] = 19;         // 6, 13 and 0 keys
            int64_t d = hidden_of(&c);
            simt_set_order((simt_order)(type + path), 1);
            float *got = run_on_cuda(&c, dtypes[type], true);
            parts p = parts_of(&c);
            for (int64_t i = 0; i < 6 * d; i++)
                assert_true(got[p.at[DK] + (size_t)i] == 0 && got[p.at[DV] + (size_t)i] == 0);
            for (int64_t i = 9 * d; i < 19 * d; i++)
                assert_true(got[i] == 0 && got[p.at[DQ] + (size_t)i] == 0);
            for (size_t i = 9; i < 19; i++)
                assert_true(got[p.at[LSE] + i] == -INFINITY);
            for (int64_t i = 0; i < 9 * d; i++)
                assert_true(got[i] != 0 && isfinite(got[i]) && got[p.at[DQ] + (size_t)i] != 0);
            free(got);
            case_free(&c);
        }
}

// Equal keys make every probability 1/n, and unit vectors as values show the factor of every single score: the element
// that the definition drops is dropped, and no other.
static void test_dropout_of_every_score_is_its_definition(void **state) {
    int32_t length = 128;
    for (int type = 0; type < 3; type++) {
        attention_case c = plain_case(2, length, 1, &length, false, 0.25f, 1);
        c.slot[0] = 0xABCDE;
        for (int64_t i = 0; i < length; i++)
            for (int64_t j = 0; j < 6 * length; j++)
                *at(c.qkv.t, i, j) = j >= 4 * length && j % length == i ? 1.0f : 0.0f;
        round_matrix(dtypes[type], c.dout.t);
        simt_set_order(SIMT_SKEWED, 3);
        float *got = run_on_cuda(&c, dtypes[type], true);
        for (int64_t i = 0; i < length; i++)
            for (int32_t h = 0; h < 2; h++)
                for (int64_t j = 0; j < length; j++) {
                    double want = score_factor(&c, 0, h, i, j) / length;
                    double off = fabs((double)got[(i * 2 + h) * length + j] - want);
                    assert_true(off <= (dtypes[type] == FT_F32 ? 1e-6 : 4e-3) * want);
                }
        check_results(&c, got, norm_bound(dtypes[type]), element_bound(dtypes[type]));
        free(got);
        case_free(&c);
    }
}

// Scores in the hundreds, and one far above the others that comes late.
static void test_large_scores(void **state) {
    static const int32_t lengths[] = {70, 12};
    for (int type = 0; type < 3; type++)
        for (int path = 0; path < 2; path++) {
            attention_case c = typed_case(dtypes[type], 1, path == 0 ? 32 : 16, 2, lengths, false, 0);
            int64_t d = hidden_of(&c);
            for (int64_t i = 0; i < c.qkv.t.rows; i++)
                for (int64_t j = 0; j < d; j++) {
                    *at(c.qkv.t, i, j) = 1000.0f;
                    *at(c.qkv.t, i, d + j) = i % 70 == 68 ? 250.0f : -250.0f;
                }
            simt_set_order(SIMT_RANDOM, 4);
            float *got = run_on_cuda(&c, dtypes[type], true);
            for (int64_t i = 0; i < 70; i++)
                for (int64_t j = 0; j < d; j++) { // of its key alone, as far as a probability in 16 bits says that
                    const double value = (double)*at(c.qkv.t, 68, 2 * d + j), off = fabs((double)got[i * d + j] - value);
                    assert_true(off <= (dtypes[type] == FT_F32 ? 0 : dtypes[type] == FT_F16 ? 0x1p-10 : 0x1p-7) * fabs(value));
                }
            for (size_t i = 0; i < end_of(&c); i++)
                assert_true(isfinite(got[i]));
            free(got);
            case_free(&c);
        }
}

// A NaN stays in its own sequence, and does not get lost in it.
static void test_nan_stays_in_its_sequence(void **state) {
    static const int32_t lengths[] = {20, 30, 40};
    for (int which = 0; which < 3; which++) // in q, k, v
        for (int type = 0; type < 3; type++) {
            attention_case c = typed_case(dtypes[type], 1, 32, 3, lengths, false, 0.1f);
            *at(c.qkv.t, 25, which * 32 + 3) = NAN;
            simt_set_order(SIMT_REVERSE, 0);
            float *got = run_on_cuda(&c, dtypes[type], true);
            parts p = parts_of(&c);
            size_t starts[4] = {p.at[OUT], p.at[DQ], p.at[DK], p.at[DV]};
            int nans = 0;
            for (int64_t i = 0; i < 90; i++)
                for (int64_t j = 0; j < 32; j++)
                    for (int part = 0; part < 4; part++) {
                        bool is = isnan(got[starts[part] + (size_t)(i * 32 + j)]);
                        assert_false(is && !(i >= 20 && i < 50));
                        nans += is && part == 0;
                    }
            assert_true(nans >= 30);
            free(got);
            case_free(&c);
        }
}

// The same case on the CPU's back end: fp32 differs by rounding alone.
static void test_against_the_cpu(void **state) {
    static const int32_t lengths[] = {50, 3, 90};
    const double bounds[] = {2 * norm_bound(FT_F32), norm_bound(FT_BF16), norm_bound(FT_F16)};
    ft_device *cpu;
    good(ft_cpu_open(1, NULL, &cpu));
    for (int type = 0; type < 3; type++) {
        attention_case c = typed_case(dtypes[type], 2, 64, 3, lengths, false, 0.1f);
        parts p = parts_of(&c);
        float *want = malloc(p.at[PARTS] * sizeof *want);
        assert_non_null(want);
        run_attention(cpu, &c, want);
        simt_set_order(SIMT_FORWARD, 0);
        float *got = run_on_cuda(&c, dtypes[type], true);
        size_t begins[] = {p.at[OUT], p.at[LSE], p.at[DQ], p.at[DK], p.at[DV], p.at[PARTS]};
        for (int part = 0; part < 5; part++) {
            double error = 0, size = 0;
            for (size_t i = begins[part]; i < begins[part + 1]; i++) {
                error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
                size += (double)want[i] * (double)want[i];
            }
            if (!(sqrt(error / size) <= bounds[type]))
                fail_msg("%s, part %d: %.3g", ft_dtype_name(dtypes[type]), part, sqrt(error / size));
        }
        free(want);
        free(got);
        case_free(&c);
    }
    ft_device_close(cpu);
}

// number() of the script, rounded.
static void vector_matrix(ft_dtype dtype, ft_tensor t, uint32_t seed, uint32_t tensor) {
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t j = 0; j < t.cols; j++) {
            uint64_t x = ft_splitmix64((uint64_t)seed << 40 | (uint64_t)tensor << 32 | (uint64_t)(i * t.cols + j));
            *at(t, i, j) = (float)rounded(dtype, ((double)(x >> 40) * 0x1p-24 - 0.5) * 4);
        }
}

// In 16 bits at most twice as far off as PyTorch's own op in them (make_attention_vectors.py).
static void test_as_exact_as_pytorch(void **state) {
    FILE *file = fopen(FT_TEST_VECTORS "/attention.txt", "re");
    assert_non_null(file);
    char type[8];
    int head_dim, length, seed, cases = 0;
    double theirs[4];
    for (; fscanf(file, "case %7s %d %d %d %lf %lf %lf %lf\n", type, &head_dim, &length, &seed, &theirs[0], &theirs[1],
                  &theirs[2], &theirs[3]) == 8;
         cases++) {
        if (few_cases() && length > 64) continue;
        ft_dtype dtype = strcmp(type, "fp16") == 0 ? FT_F16 : FT_BF16;
        attention_case c = plain_case(2, head_dim, 1, &length, false, 0, 1);
        for (int t = 0; t < 3; t++)
            vector_matrix(dtype, ft_columns(c.qkv.t, t * hidden_of(&c), hidden_of(&c)), (uint32_t)seed, (uint32_t)t);
        vector_matrix(dtype, c.dout.t, (uint32_t)seed, 3);
        simt_set_order(SIMT_RANDOM, (uint64_t)cases);
        float *got = run_on_cuda(&c, dtype, true);
        oracle o = oracle_new(&c);
        oracle_run(&c, &o, true);
        parts p = parts_of(&c);
        const size_t begins[] = {p.at[OUT], p.at[DQ], p.at[DK], p.at[DV]};
        const oracle_matrix right[] = {o.result[OUT], o.result[DQ], o.result[DK], o.result[DV]};
        for (int part = 0; part < 4; part++) {
            double error = 0, size = 0;
            for (int64_t i = 0; i < right[part].rows * right[part].cols; i++) {
                double off = (double)got[begins[part] + (size_t)i] - right[part].x[i];
                error += off * off;
                size += right[part].x[i] * right[part].x[i];
            }
            if (!(sqrt(error / size) <= 2 * theirs[part]))
                fail_msg("%s, head of %d, length %d, part %d: error %.3g, PyTorch's is %.3g", type, head_dim, length, part,
                         sqrt(error / size), theirs[part]);
        }
        oracle_free(&o);
        free(got);
        case_free(&c);
    }
    assert_true(feof(file) && cases == 10);
    fclose(file);
}

static void test_what_does_not_fit(void **state) {
    static const int32_t lengths[] = {4};
    attention_case c = plain_case(1, 264, 1, lengths, false, 0, 1);
    on_device qkv = device_matrix(FT_BF16, 4, 3 * 264, 0, 0, &c.qkv.t), out = device_matrix(FT_BF16, 4, 264, 0, 0, NULL);
    ft_attention_forward_args args = {.shape = shape_of(&c).attention,
                                      .q = ft_columns(qkv.t, 0, 264),
                                      .k = ft_columns(qkv.t, 264, 264),
                                      .v = ft_columns(qkv.t, 528, 264),
                                      .out = out.t};
    good(ft_attention_forward_check(&gpu->target, &args));
    failed(ft_cuda_attention_forward(gpu, &args), FT_INVALID, "heads of at most 256 columns, not 264");
    args.k.dtype = FT_F16; // two types
    assert_int_equal(ft_attention_forward_check(&gpu->target, &args), FT_FAILED);
    args.k.dtype = FT_BF16;
    args.q.dtype = args.k.dtype = args.v.dtype = args.out.dtype = FT_F64; // not a type of rows
    assert_int_equal(ft_attention_forward_check(&gpu->target, &args), FT_FAILED);
    ft_error_clear();
    drop(qkv);
    drop(out);
    case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head_sizes),
        cmocka_unit_test(test_other_head_sizes),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_rising_scores),
        cmocka_unit_test(test_pooled_queries),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_causal),
        cmocka_unit_test(test_shared_keys),
        cmocka_unit_test(test_bias),
        cmocka_unit_test(test_far_tiles_are_not_computed),
        cmocka_unit_test(test_no_queries_or_no_keys),
        cmocka_unit_test(test_dropout_of_every_score_is_its_definition),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_nan_stays_in_its_sequence),
        cmocka_unit_test(test_against_the_cpu),
        cmocka_unit_test(test_as_exact_as_pytorch),
        cmocka_unit_test(test_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
