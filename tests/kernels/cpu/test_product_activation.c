// A product and its activation in one op: on the CPU the bits of the two, in every type, whatever is kept. (The kernel of our own on CUDA:
// tests/emulator/test_product_activation.c; who gets it: test_product_choice.c.)
#include "../half_matrix.h"

#include "kernels/ops/product_activation.h"

typedef struct product_case {
    ft_dtype dtype;
    int64_t rows, columns, terms;
    bool bias, keeps_h;
    ft_activation kind;
} product_case;

static const product_case cases[] = {
    {FT_F32, 7, 20, 33, true, true, FT_ACT_GELU},    {FT_F32, 3, 1, 1, false, false, FT_ACT_RELU},    {FT_BF16, 40, 48, 70, true, true, FT_ACT_GELU},
    {FT_BF16, 5, 9, 17, true, false, FT_ACT_SILU},   {FT_F16, 33, 24, 40, true, true, FT_ACT_GELU},   {FT_F16, 2, 3, 5, false, false, FT_ACT_GELU_10},
    {FT_F32, 0, 8, 4, true, true, FT_ACT_IDENTITY},
};
enum { THREADS = 3 };

static void test_bits_of_the_two(void **state) {
    ft_device *device;
    assert_int_equal(ft_cpu_open(THREADS, NULL, &device), FT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const product_case *c = &cases[i];
        typed x = typed_random(c->dtype, c->rows, c->terms, 3, true, 1, 0), w = typed_random(c->dtype, c->columns, c->terms, 1, false, 1, 0),
              bias = typed_random(c->dtype, 1, c->columns, 0, true, 1, 0);
        typed h[2], y[2];
        for (int k = 0; k < 2; k++) h[k] = typed_new(c->dtype, c->rows, c->columns, 2, true), y[k] = typed_new(c->dtype, c->rows, c->columns, 5, false);
        const ft_tensor b = c->bias ? bias.t : ft_absent();
        RUN_OP(device, gemm, ((ft_gemm_args){.a = x.t, .b = w.t, .c = h[0].t, .trans_b = true, .bias = b}));
        RUN_OP(device, activation_forward, ((ft_activation_forward_args){.kind = c->kind, .x = h[0].t, .y = y[0].t}));
        RUN_OP(device, product_activation,
               ((ft_product_activation_args){.kind = c->kind, .x = x.t, .w = w.t, .bias = b, .h = c->keeps_h ? h[1].t : ft_absent(), .y = y[1].t}));
        typed_same(y[0], y[1]);
        if (c->keeps_h) typed_same(h[0], h[1]);
        typed all[] = {x, w, bias, h[0], h[1], y[0], y[1]};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            typed_free(all[k]);
    }
    ft_device_close(device);
}

static void test_arguments_that_do_not_fit(void **state) {
    ft_device *device;
    assert_int_equal(ft_cpu_open(1, NULL, &device), FT_OK);
    typed x = typed_random(FT_F32, 4, 6, 0, true, 1, 0), w = typed_random(FT_F32, 5, 6, 0, true, 1, 0), h = typed_new(FT_F32, 4, 5, 0, true),
          y = typed_new(FT_F32, 4, 5, 0, true);
    ft_product_activation_args fits = {.kind = FT_ACT_GELU, .x = x.t, .w = w.t, .h = h.t, .y = y.t};
    fits.workspace = workspace_new(ft_product_activation_workspace(&device->target, &fits));
    assert_int_equal(ft_product_activation_check(&device->target, &fits), FT_OK);
    for (int i = 0; i < 6; i++) {
        ft_product_activation_args args = fits;
        if (i == 0) args.kind = FT_ACT_COUNT;
        if (i == 1) args.h = args.y;
        if (i == 2) args.y.cols = 4;
        if (i == 3) args.w.cols = 5;
        if (i == 4) args.h.dtype = FT_BF16;
        if (i == 5) args.workspace.bytes = 0;
        assert_int_equal(FT_RUN(device, product_activation, &args), FT_FAILED);
        ft_error_clear();
    }
    workspace_free(fits.workspace);
    typed all[] = {x, w, h, y};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        typed_free(all[k]);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits_of_the_two), cmocka_unit_test(test_arguments_that_do_not_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
