// The kernel of our own that is a matrix product times the slope of an activation, on an emulated chip of compute capability 9.0: dx and its sums by
// columns against double precision, y against the activation of h, in bf16 and fp16; whatever the order of threads, the number of
// multiprocessors and what is wanted beside, the same bits.
// ctest: driver=fake part=2
#include "tests/emulator/typed_slope.h"

// Around 64 and 128 rows of a half and a tile, the twelve rows that three warps ask for ahead, 64 and 256 columns, 64 terms, and three stages of them more
// than once; further tiles than blocks.
static const slope_case cases[] = {
    {130, 264, 70, 0, FT_ACT_GELU, OWN_Y, true},    {1, 8, 1, 0, FT_ACT_GELU, OWN_Y, true},          {128, 256, 64, 0, FT_ACT_GELU, NO_Y, true},
    {64, 256, 256, 8, FT_ACT_RELU, Y_FOR_H, true},  {65, 512, 192, 0, FT_ACT_GELU, Y_FOR_H, false},  {300, 776, 130, 16, FT_ACT_GELU, Y_FOR_H, true},
    {129, 248, 448, 0, FT_ACT_SILU, OWN_Y, true},   {63, 16, 65, 8, FT_ACT_IDENTITY, NO_Y, true},    {385, 40, 200, 0, FT_ACT_GELU, NO_Y, false},
    {13, 136, 40, 0, FT_ACT_GELU, OWN_Y, true},     {140, 72, 129, 8, FT_ACT_GELU, Y_FOR_H, true},
};

static void test_shapes(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (few_cases() && i > 0) break;
        check_slope(&cases[i], i % 2 ? FT_F16 : FT_BF16, (int)i, few_cases() ? 1 : i == 0 ? SIMT_ORDERS : 1);
    }
}

// More than sixteen tiles of rows, of which bands are made; the last band is lower than the others.
static void test_bands_of_tiles(void **state) {
    static const slope_case c = {128 * 17 + 5, 264, 16, 0, FT_ACT_GELU, Y_FOR_H, true};
    if (!few_cases()) check_slope(&c, FT_BF16, SIMT_RANDOM, 1);
}

// Kept or made again, with a bias or without, on few multiprocessors or many: a run that is computed again has the bits of one that is not.
static void test_what_is_wanted_changes_no_bit(void **state) {
    slope_case c = {270, 264, 72, 8, FT_ACT_GELU, OWN_Y, true};
    slope_fences f;
    if (few_cases()) return;
    const slope_inputs in = slope_drawn(&c, FT_BF16, &f);
    const slope_results all = run_slope(&c, FT_BF16, &in);
    for (int i = 0; i < 5; i++) {
        c.y = i == 0 ? NO_Y : i == 1 ? Y_FOR_H : OWN_Y;
        c.dbias = i != 2;
        if (i > 2) open_hopper(i == 3 ? 1 : 132);
        const slope_results r = run_slope(&c, FT_BF16, &in);
        same_slope_results(&c, &all, &r);
        slope_results_free(r);
    }
    open_hopper(MULTIPROCESSORS);
    slope_results_free(all);
    slope_fences_free(f);
}

// A NaN in a row of the gradient is in all of that row, one of h where it is alone; of the sums in their columns. Infinities become none.
static void test_nan_stays_where_it_is(void **state) {
    static const slope_case c = {70, 24, 40, 0, FT_ACT_GELU, OWN_Y, true};
    slope_fences f;
    const slope_inputs in = slope_drawn(&c, FT_BF16, &f);
    *at(in.h, 5, 7) = NAN;
    *at(in.h, 6, 8) = INFINITY;
    *at(in.h, 69, 9) = -INFINITY;
    slope_results r = run_slope(&c, FT_BF16, &in);
    for (int64_t i = 0; i < c.rows * c.columns; i++)
        assert_true(isnan(r.dx[i]) == (i == 5 * c.columns + 7) && isnan(r.y[i]) == (i == 5 * c.columns + 7));
    for (int64_t j = 0; j < c.columns; j++)
        assert_true(isnan(r.dbias[j]) == (j == 7));
    assert_true(r.dx[69 * c.columns + 9] == 0 && isinf(r.y[6 * c.columns + 8]) && r.y[69 * c.columns + 9] == 0);
    slope_results_free(r);
    *at(in.dout, 66, 39) = NAN;
    r = run_slope(&c, FT_BF16, &in);
    for (int64_t i = 0; i < c.rows * c.columns; i++)
        assert_true(isnan(r.dx[i]) == (i / c.columns == 66 || i == 5 * c.columns + 7));
    slope_results_free(r);
    slope_fences_free(f);
}

// What the kernel is not made for it refuses, and says so: nobody gets a wrong number.
static void test_others_are_refused(void **state) {
    const on_device m = device_matrix(FT_BF16, 16, 64, 0, 0, NULL);
    const ft_product_slope_args good_ones = {.kind = FT_ACT_GELU, .dout = ft_columns(m.t, 0, 16), .w = ft_columns(m.t, 0, 16), .h = ft_columns(m.t, 16, 16),
                                             .dx = ft_columns(m.t, 32, 16), .y = ft_columns(m.t, 48, 16)};
    assert_true(ft_product_slope_own(&good_ones));
    for (int i = 0; i < 8; i++) {
        ft_product_slope_args args = good_ones;
        if (i == 0) args.kind = FT_ACT_GELU_10;
        if (i == 1) args.dout.dtype = args.w.dtype = args.h.dtype = args.dx.dtype = args.y.dtype = FT_F32;
        if (i == 2) args.y.data = (char *)args.y.data + 2;
        if (i == 3) args.dout.stride = 65;
        if (i == 4) args.dx.cols = 15;
        if (i == 5) args.w.data = (char *)args.w.data + 8;
        if (i == 6) args.h.data = (char *)args.h.data + 4;
        if (i == 7) args.dx.stride = 68;
        assert_false(ft_product_slope_own(&args));
        assert_int_equal(ft_cuda_product_slope(gpu, &args), FT_FAILED);
        assert_non_null(strstr(ft_error_message(), "whole units"));
        ft_error_clear();
    }
    drop(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_bands_of_tiles),
        cmocka_unit_test(test_what_is_wanted_changes_no_bit),
        cmocka_unit_test(test_nan_stays_where_it_is),
        cmocka_unit_test(test_others_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up_hopper, tear_down);
}
