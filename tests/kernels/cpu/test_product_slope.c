// A product times the slope of an activation in one op: on the CPU the bits of the two, in every type, whatever is wanted. (The kernel of our own on
// CUDA: tests/emulator/test_product_slope.c; who gets it: test_product_choice.c.)
#include "../half_matrix.h"

#include "kernels/ops/product_slope.h"

typedef struct slope_case {
    ft_dtype dtype;
    int64_t rows, columns, terms;
    bool y, in_place, dbias; // in_place: y takes the place of h
    ft_activation kind;
} slope_case;

static const slope_case cases[] = {
    {FT_F32, 7, 20, 33, true, false, true, FT_ACT_GELU},    {FT_F32, 3, 1, 1, false, false, false, FT_ACT_RELU}, {FT_BF16, 40, 48, 70, true, true, true, FT_ACT_GELU},
    {FT_BF16, 5, 9, 17, false, false, true, FT_ACT_SILU},   {FT_F16, 33, 24, 40, true, true, true, FT_ACT_GELU}, {FT_F16, 2, 3, 5, true, false, false, FT_ACT_GELU_10},
    {FT_F32, 0, 8, 4, true, true, true, FT_ACT_IDENTITY},
};
enum { THREADS = 3 };

static void test_bits_of_the_two(void **state) {
    ft_device *device;
    assert_int_equal(ft_cpu_open(THREADS, NULL, &device), FT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const slope_case *c = &cases[i];
        typed dout = typed_random(c->dtype, c->rows, c->terms, 3, true, 1, 0), w = typed_random(c->dtype, c->terms, c->columns, 1, false, 1, 0),
              from = typed_random(c->dtype, c->rows, c->columns, 0, true, 1, 0);
        typed h[2], dx[2], y[2], dbias[2];
        for (int k = 0; k < 2; k++) {
            h[k] = typed_like(from.t, k, k > 0);
            dx[k] = typed_new(c->dtype, c->rows, c->columns, 2, true), y[k] = typed_new(c->dtype, c->rows, c->columns, 5, false);
            dbias[k] = typed_new(FT_F32, 1, c->columns, 0, true);
            for (int64_t j = 0; j < c->columns; j++) typed_set(dbias[k].t, 0, j, (double)j);
        }
        const ft_activation_backward_args rest = {.kind = c->kind, .h = h[0].t, .dy = dx[0].t, .dx = dx[0].t,
                                                  .y = !c->y ? ft_absent() : c->in_place ? h[0].t : y[0].t,
                                                  .dbias = c->dbias ? ft_vector(dbias[0].t.data, c->columns, FT_F32) : ft_absent()};
        RUN_OP(device, gemm, ((ft_gemm_args){.a = dout.t, .b = w.t, .c = dx[0].t}));
        RUN_OP(device, activation_backward, rest);
        RUN_OP(device, product_slope,
               ((ft_product_slope_args){.kind = c->kind, .dout = dout.t, .w = w.t, .h = h[1].t, .dx = dx[1].t,
                                        .y = !c->y ? ft_absent() : c->in_place ? h[1].t : y[1].t,
                                        .dbias = c->dbias ? ft_vector(dbias[1].t.data, c->columns, FT_F32) : ft_absent()}));
        typed_same(dx[0], dx[1]);
        typed_same(h[0], h[1]);
        typed_same(dbias[0], dbias[1]);
        if (c->y && !c->in_place) typed_same(y[0], y[1]);
        typed all[] = {dout, w, from, h[0], h[1], dx[0], dx[1], y[0], y[1], dbias[0], dbias[1]};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            typed_free(all[k]);
    }
    ft_device_close(device);
}

static void test_arguments_that_do_not_fit(void **state) {
    ft_device *device;
    assert_int_equal(ft_cpu_open(1, NULL, &device), FT_OK);
    typed dout = typed_random(FT_F32, 4, 6, 0, true, 1, 0), w = typed_random(FT_F32, 6, 5, 0, true, 1, 0), h = typed_random(FT_F32, 4, 5, 0, true, 1, 0),
          dx = typed_new(FT_F32, 4, 5, 0, true), dbias = typed_random(FT_F32, 1, 5, 0, true, 1, 0);
    ft_product_slope_args fits = {.kind = FT_ACT_GELU, .dout = dout.t, .w = w.t, .h = h.t, .dx = dx.t, .y = h.t, .dbias = ft_vector(dbias.t.data, 5, FT_F32)};
    fits.workspace = workspace_new(ft_product_slope_workspace(&device->target, &fits));
    assert_int_equal(ft_product_slope_check(&device->target, &fits), FT_OK);
    for (int i = 0; i < 9; i++) {
        ft_product_slope_args args = fits;
        if (i == 0) args.kind = FT_ACT_COUNT;
        if (i == 1) args.h = args.dx;
        if (i == 2) args.dx.cols = 4;
        if (i == 3) args.w.rows = 5;
        if (i == 4) args.h.dtype = FT_BF16;
        if (i == 5) args.workspace.bytes = 0;
        if (i == 6) args.y = args.dx;
        if (i == 7) args.dbias.rows = args.dbias.cols = 4;
        if (i == 8) args.h.rows = 3;
        assert_int_equal(FT_RUN(device, product_slope, &args), FT_FAILED);
        ft_error_clear();
    }
    workspace_free(fits.workspace);
    typed all[] = {dout, w, h, dx, dbias};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        typed_free(all[k]);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits_of_the_two), cmocka_unit_test(test_arguments_that_do_not_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
