// The kernel of our own that is a matrix product, dropout and a residual, with the norm behind it, on an emulated chip of compute capability 9.0: the sum
// against double precision and beside what the pass makes of the same product, y against the norm of the sum, in bf16 and fp16; whatever the
// order of threads and the number of multiprocessors, the same bits.
// ctest: driver=fake part=2
#include "tests/emulator/typed_norm.h"

// Around 64 and 128 rows of a half and a tile, the six and twelve rows that three warps ask for ahead, 64 and 256 columns, 64 terms, and three stages of
// them more than once; further tiles than blocks.
static const norm_case cases[] = {
    {130, 264, 70, 0, SUM_IN_S, false, true, true, false, 0.1f, false},        {130, 264, 70, 0, SUM_IN_STREAM, true, true, true, true, 0.1f, false},
    {1, 8, 1, 0, SUM_IN_S, false, true, true, false, 0.5f, false},             {128, 256, 64, 0, SUM_IN_STREAM, true, false, true, true, 0, true},
    {64, 256, 256, 8, SUM_IN_STREAM, false, true, true, true, 0.1f, false},    {65, 512, 192, 0, SUM_IN_S, false, false, true, true, 0, false},
    {300, 776, 130, 16, SUM_IN_STREAM, true, true, true, false, 0.3f, true},   {129, 248, 448, 0, SUM_IN_Y, false, true, true, false, 0, false},
    {63, 16, 65, 8, SUM_IN_STREAM, true, true, false, false, 0.1f, false},     {385, 40, 200, 0, SUM_IN_S, false, true, false, false, 0.2f, false},
    {13, 136, 40, 0, SUM_IN_Y, false, false, true, false, 0.1f, true},         {140, 72, 129, 8, SUM_IN_STREAM, true, true, true, true, 0.1f, false},
};

static void test_shapes(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (few_cases() && i > 1) break;
        check_norm(&cases[i], i % 4 < 2 ? FT_BF16 : FT_F16, (int)i, few_cases() ? 1 : i < 2 ? SIMT_ORDERS : 1);
    }
}

// More than sixteen tiles of rows, of which bands are made; the last band is lower than the others.
static void test_bands_of_tiles(void **state) {
    static const norm_case c = {128 * 17 + 5, 264, 16, 0, SUM_IN_S, false, true, true, true, 0.1f, false};
    if (!few_cases()) check_norm(&c, FT_BF16, SIMT_RANDOM, 1);
}

// On few multiprocessors or many, in the residual's place or not: a run that is computed again has the bits of one that is not.
static void test_where_it_runs_changes_no_bit(void **state) {
    norm_case c = {270, 264, 72, 8, SUM_IN_STREAM, true, true, true, false, 0.1f, false};
    norm_fences f;
    if (few_cases()) return;
    const norm_inputs in = norm_drawn(&c, FT_BF16, &f);
    const norm_results all = run_norm(&c, FT_BF16, &in, false);
    for (int i = 0; i < 3; i++) {
        c.in_place = i == 0;
        if (i > 0) open_hopper(i == 1 ? 1 : 132);
        const norm_results r = run_norm(&c, FT_BF16, &in, false);
        same_norm_results(&c, &all, &r);
        norm_results_free(r);
    }
    open_hopper(MULTIPROCESSORS);
    norm_results_free(all);
    norm_fences_free(f);
}

// A NaN of x is in all of its row; one of the residual where it is in the sum, and in all of its row behind the norm.
static void test_nan_stays_where_it_is(void **state) {
    static const norm_case c = {70, 24, 40, 0, SUM_IN_STREAM, true, true, true, false, 0.1f, false};
    norm_fences f;
    const norm_inputs in = norm_drawn(&c, FT_BF16, &f);
    *at(in.residual, 5, 7) = NAN;
    *at(in.x, 66, 39) = NAN;
    const norm_results r = run_norm(&c, FT_BF16, &in, false);
    for (int64_t i = 0; i < c.rows * c.columns; i++) {
        const bool of_x = i / c.columns == 66, of_residual = i / c.columns == 5;
        assert_true(isnan(r.sum[i]) == (of_x || i == 5 * c.columns + 7) && isnan(r.s[i]) == isnan(r.sum[i]) && isnan(r.y[i]) == (of_x || of_residual));
    }
    norm_results_free(r);
    norm_fences_free(f);
}

// What the kernel is not made for it refuses, and says so: nobody gets a wrong number.
static void test_others_are_refused(void **state) {
    const on_device m = device_matrix(FT_BF16, 16, 80, 0, 0, NULL), wide = device_matrix(FT_F32, 16, 16, 0, 0, NULL);
    const ft_product_norm_args good_ones = {.x = ft_columns(m.t, 0, 16), .w = ft_columns(m.t, 0, 16),
                                            .norm = {.x = ft_columns(m.t, 16, 16), .bias = ft_vector(m.t.data, 16, FT_BF16), .residual = ft_columns(m.t, 32, 16),
                                                     .gamma = ft_vector(wide.t.data, 16, FT_F32), .s = ft_columns(m.t, 48, 16), .y = ft_columns(m.t, 64, 16)}};
    assert_true(ft_product_norm_own(&good_ones));
    for (int i = 0; i < 9; i++) {
        ft_product_norm_args args = good_ones;
        if (i == 0) args.norm.wide = wide.t;
        if (i == 1) args.x.dtype = args.w.dtype = args.norm.x.dtype = args.norm.s.dtype = args.norm.y.dtype = args.norm.residual.dtype = FT_F32;
        if (i == 2) args.norm.s.data = (char *)args.norm.s.data + 2;
        if (i == 3) args.x.stride = 81;
        if (i == 4) args.norm.x.cols = 15;
        if (i == 5) args.w.data = (char *)args.w.data + 8;
        if (i == 6) args.norm.residual.data = (char *)args.norm.residual.data + 4;
        if (i == 7) args.norm.residual = wide.t; // what it is added to has another type than the sum
        if (i == 8) args.norm.bias.data = (char *)args.norm.bias.data + 2;
        assert_false(ft_product_norm_own(&args));
        assert_int_equal(ft_cuda_product_norm(gpu, &args), FT_FAILED);
        assert_non_null(strstr(ft_error_message(), "whole units"));
        ft_error_clear();
    }
    drop(m);
    drop(wide);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_bands_of_tiles),
        cmocka_unit_test(test_where_it_runs_changes_no_bit),
        cmocka_unit_test(test_nan_stays_where_it_is),
        cmocka_unit_test(test_others_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up_hopper, tear_down);
}
