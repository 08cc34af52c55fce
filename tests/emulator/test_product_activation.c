// The kernel of our own that is a matrix product and its activation in one, on an emulated chip of compute capability 9.0: h against sums in double
// precision, y against the activation of the h that is there, in bf16 and fp16; whatever the order of threads, the same bits.
// ctest: driver=fake part=4
#include "tests/emulator/typed_product.h"

// Around 64 and 128 rows of a half and a tile, 256 columns, 64 terms, and three stages of them more than once; further tiles than blocks.
static const product_case cases[] = {
    {130, 264, 70, 0, FT_ACT_GELU, true, true},     {1, 8, 1, 0, FT_ACT_GELU, true, true},       {128, 256, 64, 0, FT_ACT_GELU, false, true},
    {64, 256, 256, 8, FT_ACT_RELU, true, true},     {65, 512, 192, 0, FT_ACT_GELU, true, true},  {300, 776, 130, 16, FT_ACT_GELU, true, true},
    {129, 248, 448, 0, FT_ACT_SILU, true, false},   {63, 16, 65, 8, FT_ACT_IDENTITY, true, true}, {385, 40, 200, 0, FT_ACT_GELU, false, false},
};

static void test_shapes(void **state) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (few_cases() && i > 0) break;
        check_product(&cases[i], i % 2 ? FT_F16 : FT_BF16, (int)i, few_cases() ? 1 : i == 0 ? SIMT_ORDERS : 1);
    }
}

// More than sixteen tiles of rows, of which bands are made; the last band is lower than the others.
static void test_bands_of_tiles(void **state) {
    static const product_case c = {128 * 17 + 5, 264, 16, 0, FT_ACT_GELU, true, true};
    if (!few_cases()) check_product(&c, FT_BF16, SIMT_RANDOM, 1);
}

// A NaN in a row is in all of that row, and nowhere else.
static void test_nan_stays_in_its_row(void **state) {
    static const product_case c = {70, 24, 40, 0, FT_ACT_GELU, true, true};
    fenced fx, fw, fb;
    const ft_tensor x = drawn(FT_BF16, c.rows, c.terms, 1, &fx), w = drawn(FT_BF16, c.columns, c.terms, 1, &fw), bias = drawn(FT_BF16, 1, c.columns, 1, &fb);
    *at(x, 66, 39) = NAN;
    results r = run(&c, FT_BF16, &x, &w, &bias);
    for (int64_t i = 0; i < c.rows * c.columns; i++)
        assert_true(isnan(r.h[i]) == (i / c.columns == 66) && isnan(r.y[i]) == (i / c.columns == 66));
    free(r.h);
    free(r.y);
    fenced_free(fx);
    fenced_free(fw);
    fenced_free(fb);
}

// What the kernel is not made for it refuses, and says so: nobody gets a wrong number.
static void test_others_are_refused(void **state) {
    const on_device m = device_matrix(FT_BF16, 16, 32, 0, 0, NULL);
    const ft_product_activation_args good_ones = {.kind = FT_ACT_GELU, .x = ft_columns(m.t, 0, 16), .w = ft_columns(m.t, 0, 16), .y = ft_columns(m.t, 16, 16)};
    assert_true(ft_product_activation_own(&good_ones));
    for (int i = 0; i < 6; i++) {
        ft_product_activation_args args = good_ones;
        if (i == 0) args.kind = FT_ACT_GELU_10;
        if (i == 1) args.x.dtype = args.w.dtype = args.y.dtype = FT_F32;
        if (i == 2) args.y.data = (char *)args.y.data + 2;
        if (i == 3) args.x.stride = 33;
        if (i == 4) args.y.cols = 15;
        if (i == 5) args.w.data = (char *)args.w.data + 8;
        assert_false(ft_product_activation_own(&args));
        assert_int_equal(ft_cuda_product_activation(gpu, &args), FT_FAILED);
        assert_non_null(strstr(ft_error_message(), "whole units"));
        ft_error_clear();
    }
    drop(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_bands_of_tiles),
        cmocka_unit_test(test_nan_stays_in_its_row),
        cmocka_unit_test(test_others_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up_hopper, tear_down);
}
