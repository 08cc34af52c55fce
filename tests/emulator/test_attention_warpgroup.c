// CUDA's attention on warpgroups of sm_90a, forward and backward, asked for with FTENGINE_ATTENTION=wgmma on an emulated chip that has
// them: bf16 and fp16 against double precision, as test_attention_types.c judges the other paths; and who gets it.
// ctest: driver=fake part=4
#include "tests/emulator/typed_attention.h"

// All of the cases of bands when they are asked for by name (the long runs of nvcc's PTX), else a selection.
static bool some_bands(void) {
    const char *cases = getenv("SIMT_CASES");
    return cases == NULL || strcmp(cases, "all") != 0;
}

static uint64_t launches(void) { return simt_launches("attention_warpgroup") + simt_launches("attention_warpgroup_backward"); }
enum { LAUNCHES = 4 }; // of run_on_cuda on this path: forward with and without lse, the passes of queries and of keys
#include "tests/emulator/typed_path.h"

static int set_up_hopper(void **state) {
    set_up(state);
    reopen_gpu(90);
    return setenv("FTENGINE_ATTENTION", "wgmma", 1);
}

// By 4 powers of two in 100 keys: a row exceeds its first tile's largest score by less than softmax.h's slack, then by more.
static void test_rising_scores(void **state) {
    static const int32_t lengths[] = {37, 1, 530};
    for (int i = 0; i < 4; i++) { // heads of 64 and 128, in bands and not
        if (few_cases() && (i == 1 || i == 2)) continue;
        const ft_dtype dtype = i % 3 == 0 ? FT_BF16 : FT_F16;
        attention_case c = rising_case(dtype, 1, i % 2 ? 128 : 64, 3, lengths, i / 2 ? 0.1f : 0, 0.03f);
        c.causal = i >= 2;
        check(c, dtype, i, few_cases() ? 1 : 2);
    }
}

// Who sees what, and which heads share keys: windows and causality, alone and together; edges within a tile of either warpgroup and between
// tiles; first tiles of which a row sees nothing; tiles that one warpgroup of a block passes over, in front and behind; keys that nobody sees.
static void test_bands_and_shared_keys(void **state) {
    static const int32_t lengths[] = {37, 1, 210, 130, 300};
    static const struct {
        int32_t head_dim, heads, key_heads, window;
        bool causal, pooled, few;
        float dropout;
    } bands[] = {
        {64, 2, 0, 0, true, false, true, 0},       {128, 2, 1, 0, true, false, true, 0.2f}, {64, 3, 1, 0, true, false, true, 0.2f},
        {128, 2, 0, 0, true, false, false, 0},     {64, 4, 2, 0, false, false, false, 0.2f}, {128, 2, 1, 0, false, true, false, 0},
        {64, 1, 0, 1, false, false, false, 0},     {128, 1, 0, 40, false, false, true, 0.2f}, {64, 1, 0, 64, false, false, true, 0},
        {64, 2, 1, 100, true, false, false, 0.2f}, {128, 2, 1, 64, true, false, false, 0},   {64, 1, 0, 130, false, false, false, 0.2f},
        {128, 1, 0, 16, false, true, false, 0},    {64, 1, 0, 0, true, true, false, 0},      {128, 1, 0, 200, true, false, false, 0.2f},
    };
    for (size_t i = 0; i < sizeof bands / sizeof *bands; i++) {
        if (some_bands() && !bands[i].few) continue;
        const ft_dtype dtype = i & 1 ? FT_F16 : FT_BF16;
        attention_case c = typed_case(dtype, bands[i].heads, bands[i].head_dim, some_bands() ? 3 : 5, lengths, bands[i].pooled, bands[i].dropout);
        c.key_heads = bands[i].key_heads;
        c.window = bands[i].window;
        c.causal = bands[i].causal;
        check(c, dtype, (int)i, some_bands() ? 1 : 2);
    }
}

// Causal, around the rows of a group, a block and a tile: the last row of one sees all of it, the first of the next one key more.
static void test_causal_lengths(void **state) {
    static const int32_t lengths[] = {65, 63, 64, 127, 128, 129, 191, 193, 256, 520};
    for (int i = 0; i < (int)(sizeof lengths / sizeof *lengths); i += some_bands() ? 4 : 1)
        for (int d = 0; d < 2; d++) {
            attention_case c = typed_case(i % 2 ? FT_F16 : FT_BF16, 1, d ? 128 : 64, 1, &lengths[i], false, i % 3 ? 0.1f : 0);
            c.causal = true;
            check(c, i % 2 ? FT_F16 : FT_BF16, i + d, 1);
        }
}

// Other numbers of queries than of keys: blocks of keys that nobody sees, and such of which one warpgroup's are not; with a window as many more queries
// as still see a key.
static void test_causal_with_other_keys(void **state) {
    static const int32_t lengths[] = {200, 330, 90};
    for (int d = 1; d >= 0; d--) {
        attention_case c = typed_case(FT_BF16, 2, d ? 128 : 64, 3, lengths, false, 0.1f);
        c.cu_queries[1] = 60, c.cu_queries[2] = 200; // 60 of 200 keys, 140 of 330, 420 of 90
        c.causal = true;
        c.key_heads = d ? 1 : 2;
        check(c, FT_BF16, d, some_bands() ? 1 : 2);
        if (some_bands()) break;
        c = typed_case(FT_F16, 1, d ? 128 : 64, 3, lengths, false, 0);
        c.cu_keys[1] = 90, c.cu_keys[2] = 440; // 200 queries of 90 keys, 330 of 350, 90 of 180
        c.window = 120;
        check(c, FT_F16, d + 1, 1);
    }
}

// Tiles of which nothing is seen are neither brought nor multiplied: NaNs there leave no trace, of whichever row is further away than a tile.
static void test_tiles_that_nobody_sees(void **state) {
    static const int32_t length = 420;
    for (int d = 0; d < 2; d++)
        for (int windowed = 0; windowed < 2; windowed++) {
            if (some_bands() && d == windowed) continue;
            const int64_t dim = d ? 128 : 64, tile = d ? 64 : 128, at_row = 200;
            attention_case c = typed_case(FT_BF16, 1, (int32_t)dim, 1, &length, false, 0.1f);
            c.causal = true;
            c.window = windowed ? 16 : 0;
            simt_set_order(SIMT_RANDOM, 2);
            float *before = run_on_path(&c, FT_BF16);
            for (int64_t j = dim; j < 3 * dim; j++) *at(c.qkv.t, at_row, j) = NAN;
            float *after = run_on_path(&c, FT_BF16);
            static const int shown[] = {OUT, DQ};
            for (int part = 0; part < 2; part++) { // (backward D is a NaN where out is)
                const size_t start = parts_of(&c).at[shown[part]];
                assert_true(isnan(after[start + (size_t)(at_row * dim)]));
                const int64_t first = at_row / tile * tile / 64 * 64, end = windowed ? (at_row / tile + 1) * tile + 16 + 63 : length;
                int64_t same = 0;
                for (int64_t i = 0; i < length; i++) {
                    if (i >= first && i < end) continue; // rows whose group multiplies that tile
                    assert_memory_equal(before + start + (size_t)(i * dim), after + start + (size_t)(i * dim), (size_t)dim * sizeof(float));
                    same++;
                }
                assert_true(same >= (windowed ? 150 : 120));
            }
            free(before);
            free(after);
            case_free(&c);
        }
}

// Of two heads that are alike and share their keys, each gives what one head by itself gives, to the bit, and together they give the keys twice the
// gradient, as far as that is rounded.
static void test_sums_over_heads_that_share_keys(void **state) {
    static const int32_t lengths[] = {150, 70};
    for (int d = 0; d < 2; d++) {
        const int64_t dim = d ? 128 : 64;
        attention_case two = typed_case(FT_BF16, 2, (int32_t)dim, 2, lengths, false, 0), one = typed_case(FT_BF16, 1, (int32_t)dim, 2, lengths, false, 0);
        two.causal = one.causal = true;
        two.key_heads = 1;
        for (int64_t i = 0; i < 220; i++) // [q of one][the same again][k][v, after a gap] and [q][k][v]
            for (int64_t j = 0; j < dim; j++) {
                for (int h = 0; h < 2; h++) {
                    *at(two.qkv.t, i, h * dim + j) = *at(one.qkv.t, i, j);
                    *at(two.dout.t, i, h * dim + j) = *at(one.dout.t, i, j);
                }
                *at(two.qkv.t, i, 2 * dim + j) = *at(one.qkv.t, i, dim + j);
                *at(two.qkv.t, i, 4 * dim + j) = *at(one.qkv.t, i, 2 * dim + j);
            }
        simt_set_order(SIMT_REVERSE, 1);
        float *of_two = run_on_path(&two, FT_BF16), *of_one = run_on_path(&one, FT_BF16);
        const parts p = parts_of(&two), single = parts_of(&one);
        for (int part = DK; part <= DV; part++) {
            double off = 0, size = 0;
            for (size_t i = 0; i < (size_t)(220 * dim); i++) {
                const double want = 2 * (double)of_one[single.at[part] + i];
                off += pow((double)of_two[p.at[part] + i] - want, 2);
                size += want * want;
            }
            assert_true(sqrt(off / size) <= 0x1p-8);
        }
        for (size_t i = 0; i < (size_t)(220 * dim); i++)
            for (size_t h = 0; h < 2; h++) {
                const size_t there = i / (size_t)dim * 2 * (size_t)dim + h * (size_t)dim + i % (size_t)dim;
                assert_true(of_two[there] == of_one[i] && of_two[p.at[DQ] + there] == of_one[single.at[DQ] + i]);
            }
        free(of_two);
        free(of_one);
        case_free(&two);
        case_free(&one);
    }
}

static float *run_in_turns(const attention_case *c, ft_dtype dtype, const char *turns, uint64_t *arrivals) {
    assert_int_equal(setenv("FTENGINE_ATTENTION_TURNS", turns, 1), 0);
    const uint64_t before = simt_arrivals();
    float *got = run_on_path(c, dtype);
    *arrivals = simt_arrivals() - before;
    assert_int_equal(unsetenv("FTENGINE_ATTENTION_TURNS"), 0);
    return got;
}

// The two groups of a block, in turns or as they like: the same bits. A turn is an arrival of each warp, taken at the tiles of keys that both
// groups multiply, and by no group that is alone.
static void test_turns(void **state) {
    static const struct {
        int32_t head_dim, heads, length, window;
        bool causal, pooled, few;
        int turns; // of a head, of one group
    } cases[] = {
        {64, 1, 64, 0, false, false, false, 0},  // one group
        {64, 1, 65, 0, false, false, true, 1},   // a second one, and one tile
        {128, 1, 130, 0, false, false, false, 2}, // two tiles, and a block of one group
        {64, 1, 300, 0, false, true, true, 0},   // one query
        {64, 2, 400, 0, false, false, true, 12}, // three blocks of two groups, four tiles; one block of one
        {128, 1, 520, 0, false, false, true, 20}, // four blocks, five tiles: buffers once more
        {64, 1, 400, 0, true, false, false, 6},  // of causality 1, 2 and 3 tiles of 128
        {128, 1, 400, 0, true, false, true, 9},  // 1, 3 and 5 of 64: the second group has one more
        {64, 1, 400, 64, false, false, true, 3}, // of two tiles of either group one is the other's too
        {128, 1, 400, 16, true, false, false, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (few_cases() && !cases[i].few) continue;
        const ft_dtype dtype = i % 2 ? FT_F16 : FT_BF16;
        attention_case c = typed_case(dtype, cases[i].heads, cases[i].head_dim, 1, &cases[i].length, cases[i].pooled, 0.1f);
        c.causal = cases[i].causal;
        c.window = cases[i].window;
        uint64_t with, without;
        simt_set_order((simt_order)(i % SIMT_ORDERS), i);
        float *in_turns = run_in_turns(&c, dtype, "1", &with), *free_ones = run_in_turns(&c, dtype, "0", &without);
        assert_memory_equal(in_turns, free_ones, parts_of(&c).at[PARTS] * sizeof *in_turns);
        const int arrivals = 2 * 2 * 4 * cases[i].heads * cases[i].turns; // forward with and without lse, two groups of four warps
        if (getenv("SIMT_EXECUTOR") == NULL) assert_int_equal(with - without, arrivals);
        free(in_turns);
        free(free_ones);
        if (cases[i].turns == 20) check(c, dtype, (int)i, 1); // (no other test has so many tiles of heads of 128)
        else case_free(&c);
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
            assert_true(got[i] == 0 && got[p.at[DQ] + (size_t)i] == 0);
        for (size_t i = 9; i < 19; i++)
            assert_true(got[p.at[LSE] + i] == -INFINITY);
        for (int64_t i = 0; i < 9 * 64; i++)
            assert_true(got[i] != 0 && isfinite(got[i]) && got[p.at[DQ] + (size_t)i] != 0 && isfinite(got[p.at[DQ] + (size_t)i]));
        for (size_t i = 0; i < 19 * 64; i++) { // of keys without queries nothing, of the others something
            const float dk = got[p.at[DK] + i], dv = got[p.at[DV] + i];
            assert_true(i < 6 * 64 ? dk == 0 && dv == 0 : dk != 0 && dv != 0 && isfinite(dk) && isfinite(dv));
        }
        free(got);
        case_free(&c);
    }
}

// Scores of 0 make every probability 1/n. Unit vectors as values show the factor of every single score in the output, and as dout in dV;
// as keys, where <dout, V> is 1 everywhere, in dQ. The element that the definition drops is dropped, and no other.
static void test_dropout_of_every_score_is_its_definition(void **state) {
    for (int of_queries = 0; of_queries < 2; of_queries++)
        for (int32_t length = 64; length <= (few_cases() ? 64 : 128); length += 64) {
            attention_case c = plain_case(2, length, 1, &length, false, 0.25f, 1);
            c.slot[0] = 0xABCDE;
            const int unit = of_queries ? 2 : 4; // q, k or v of two heads
            for (int64_t i = 0; i < length; i++)
                for (int64_t j = 0; j < 6 * length; j++) {
                    const bool one = of_queries && j >= 4 * length && j % length == 0;
                    *at(c.qkv.t, i, j) = one || (j / length / 2 * 2 == unit && j % length == i) ? 1.0f : 0.0f;
                    if (j < 2 * length) *at(c.dout.t, i, j) = j % length == (of_queries ? 0 : i) ? 1.0f : 0.0f;
                }
            simt_set_order(SIMT_SKEWED, 3);
            float *got = run_on_path(&c, FT_BF16);
            const parts p = parts_of(&c);
            for (int64_t i = 0; i < length; i++)
                for (int32_t h = 0; h < 2; h++) {
                    double mean = 0; // <dout, out>
                    for (int64_t j = 0; j < length && of_queries; j++)
                        mean += score_factor(&c, 0, h, i, j) / length;
                    for (int64_t j = 0; j < length; j++) {
                        const double factor = score_factor(&c, 0, h, i, j), most = 8e-3 / length;
                        const int64_t here = (i * 2 + h) * length + j, there = (j * 2 + h) * length + i;
                        if (of_queries) {
                            const double off = (double)got[p.at[DQ] + (size_t)here] / (double)c.scale - (factor - mean) / length;
                            assert_true(fabs(off) <= most);
                        } else {
                            assert_true(fabs((double)got[here] - factor / length) <= most);
                            assert_true(fabs((double)got[p.at[DV] + (size_t)there] - factor / length) <= most);
                        }
                    }
                }
            free(got);
            case_free(&c);
        }
}

// A NaN stays in its own sequence, though tiles of the sequences in front of it have its rows; and does not get lost in it.
static void test_nan_stays_in_its_sequence(void **state) {
    static const int32_t lengths[] = {20, 30, 40};
    for (int which = 0; which < 4; which++) // in q, k, v, dout
        for (int d = few_cases() ? 1 : 0; d < 2; d++) {
            const int64_t dim = d ? 128 : 64;
            attention_case c = typed_case(FT_BF16, 1, (int32_t)dim, 3, lengths, false, 0.1f);
            if (which < 3) *at(c.qkv.t, 25, which * dim + 3) = NAN;
            else *at(c.dout.t, 25, 3) = NAN;
            simt_set_order(SIMT_REVERSE, 0);
            float *got = run_on_path(&c, FT_BF16);
            const parts p = parts_of(&c);
            const size_t begins[] = {p.at[OUT], p.at[DQ], p.at[DK], p.at[DV]};
            for (int part = 0; part < 4; part++) {
                int nans = 0;
                for (int64_t i = 0; i < 90 * dim; i++) {
                    const bool is_nan = isnan(got[begins[part] + (size_t)i]);
                    assert_false(is_nan && !(i >= 20 * dim && i < 50 * dim));
                    nans += is_nan;
                }
                // (neither the output nor, of dV, more than a column has anything of dout; and dV has nothing of V)
                if (which < 2 || part < (which == 2 ? 3 : 0)) assert_true(nans >= 30);
                if (which == 3 && part > 0) assert_true(nans >= (part == 3 ? 20 : 30));
            }
            free(got);
            case_free(&c);
        }
}

// The same case on the CPU's back end, in fp32.
static void test_against_the_cpu(void **state) {
    static const int32_t lengths[] = {50, 3, 140};
    ft_device *cpu;
    good(ft_cpu_open(1, NULL, &cpu));
    attention_case c = typed_case(FT_F16, 2, 64, 3, lengths, false, 0.1f);
    const parts p = parts_of(&c);
    float *want = malloc(p.at[PARTS] * sizeof *want);
    assert_non_null(want);
    run_attention(cpu, &c, want);
    simt_set_order(SIMT_RANDOM, 0);
    float *got = run_on_path(&c, FT_F16);
    const size_t begins[] = {p.at[OUT], p.at[LSE], p.at[DQ], p.at[DK], p.at[DV], p.at[PARTS]};
    for (int part = 0; part < 5; part++) {
        double error = 0, size = 0;
        for (size_t i = begins[part]; i < begins[part + 1]; i++) {
            error += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
            size += (double)want[i] * (double)want[i];
        }
        assert_true(sqrt(error / size) <= norm_bound(FT_F16));
    }
    free(want);
    free(got);
    case_free(&c);
    ft_device_close(cpu);
}

// What the path is not made for goes where it went before.
static void test_others_take_another_path(void **state) {
    static const int32_t lengths[] = {20, 3};
    static const struct {
        ft_dtype dtype;
        int32_t head_dim;
        bool aligned;
    } others[] = {{FT_BF16, 32, true}, {FT_F16, 96, true}, {FT_BF16, 20, true}, {FT_F32, 64, true}, {FT_BF16, 64, false}};
    const uint64_t before = launches();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check_typed(typed_case(others[i].dtype, 1, others[i].head_dim, 2, lengths, false, 0), others[i].dtype, others[i].aligned, 0, 1);
    attention_case biased = biased_case(typed_case(FT_BF16, 1, 64, 2, lengths, false, 0), 6, 20);
    biased.causal = true;
    check_typed(biased, FT_BF16, true, 0, 1);
    assert_int_equal(launches(), before);
}

// Nobody gets it who does not ask, and who asks in vain hears of it.
static void test_who_gets_it(void **state) {
    static const int32_t lengths[] = {20, 3};
    const uint64_t before = launches();
    static const char *const no[] = {"", "mma", NULL};
    for (int i = 0; i < 3; i++) {
        if (no[i] != NULL) assert_int_equal(setenv("FTENGINE_ATTENTION", no[i], 1), 0);
        else assert_int_equal(unsetenv("FTENGINE_ATTENTION"), 0);
        check_typed(typed_case(FT_BF16, 1, 64, 2, lengths, false, 0), FT_BF16, true, 0, 1);
    }
    attention_case c = typed_case(FT_BF16, 1, 64, 2, lengths, false, 0);
    on_device qkv = device_matrix(FT_BF16, 23, 192, 0, 0, &c.qkv.t), out = device_matrix(FT_BF16, 23, 64, 0, 0, NULL);
    ft_attention_forward_args args = {.shape = shape_of(&c).attention,
                                      .q = ft_columns(qkv.t, 0, 64),
                                      .k = ft_columns(qkv.t, 64, 64),
                                      .v = ft_columns(qkv.t, 128, 64),
                                      .out = out.t};
    on_device lse = device_matrix(FT_F32, 23, 1, 0, 0, NULL);
    ft_attention_backward_args backward = {.shape = args.shape, .q = args.q, .k = args.k, .v = args.v, .out = out.t, .lse = lse.t,
                                           .dout = out.t, .dq = args.q, .dk = args.k, .dv = args.v};
    backward.workspace.bytes = ft_attention_backward_workspace(&gpu->target, &backward);
    good(gpu->functions->buffer_alloc(gpu, backward.workspace.bytes, &backward.workspace.data));
    assert_int_equal(setenv("FTENGINE_ATTENTION", "flash", 1), 0);
    failed(ft_cuda_attention_forward(gpu, &args), FT_INVALID, "'flash' is neither mma, wgmma, tcgen05, owner nor auto");
    assert_string_equal(ft_error_where(), "FTENGINE_ATTENTION");
    failed(ft_cuda_attention_backward(gpu, &backward), FT_INVALID, "'flash' is neither mma, wgmma, tcgen05, owner nor auto");
    assert_int_equal(setenv("FTENGINE_ATTENTION", "wgmma", 1), 0);
    assert_int_equal(setenv("FTENGINE_ATTENTION_TURNS", "yes", 1), 0);
    failed(ft_cuda_attention_forward(gpu, &args), FT_INVALID, "'yes' is neither 0 nor 1");
    assert_string_equal(ft_error_where(), "FTENGINE_ATTENTION_TURNS");
    assert_int_equal(unsetenv("FTENGINE_ATTENTION_TURNS"), 0);
    fake.refuse("cuTensorMapEncodeTiled", 2, 1, 999);
    failed(ft_cuda_attention_forward(gpu, &args), FT_FAILED, "error 999");
    fake.refuse("cuTensorMapEncodeTiled", 4, 1, 999);
    failed(ft_cuda_attention_backward(gpu, &backward), FT_FAILED, "error 999");
    on_device all[] = {qkv, out, lse};
    for (int i = 0; i < 3; i++)
        drop(all[i]);
    gpu->functions->buffer_free(gpu, backward.workspace.data, 1);
    for (size_t capability = 80; capability <= 100; capability += 20) { // before and behind the chip
        reopen_gpu(capability);
        args.q.data = args.k.data = args.v.data = args.out.data = (void *)16; // nothing comes to read them
        failed(ft_cuda_attention_forward(gpu, &args), FT_NO_DEVICE,
               capability == 80 ? "wgmma is for compute capability 9.0, cuda:0 has 8.0" : "cuda:0 has 10.0");
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
        cmocka_unit_test(test_bands_and_shared_keys),
        cmocka_unit_test(test_causal_lengths),
        cmocka_unit_test(test_causal_with_other_keys),
        cmocka_unit_test(test_tiles_that_nobody_sees),
        cmocka_unit_test(test_sums_over_heads_that_share_keys),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_no_queries_or_no_keys),
        cmocka_unit_test(test_dropout_of_every_score_is_its_definition),
        cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_nan_stays_in_its_sequence),
        cmocka_unit_test(test_against_the_cpu),
        cmocka_unit_test(test_others_take_another_path),
        cmocka_unit_test(test_who_gets_it), // the last: it opens other devices
    };
    return cmocka_run_group_tests(tests, set_up_hopper, tear_down);
}
