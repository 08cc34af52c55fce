// A product whose sum with a residual goes into a norm, in one op: on the CPU the bits of the two, in every type, whatever is kept. (The kernel of our own on
// CUDA: tests/emulator/test_product_norm.c; who gets it: test_product_choice.c.)
#include "../half_matrix.h"

#include "kernels/ops/product_norm.h"

typedef struct norm_case {
    ft_dtype dtype, adds; // adds: of residual and stream
    int64_t rows, columns, terms;
    bool bias, residual, in_place, stream, wide, rms; // in_place: the product goes to s
    float dropout;
} norm_case;

static const norm_case cases[] = {
    {FT_F32, FT_F32, 7, 20, 33, true, true, true, false, false, false, 0.1f},   {FT_F32, FT_F32, 3, 1, 1, false, false, false, false, false, false, 0},
    {FT_BF16, FT_F32, 40, 48, 70, true, true, true, true, false, false, 0.1f},  {FT_BF16, FT_BF16, 5, 9, 17, true, true, true, false, false, false, 0.5f},
    {FT_BF16, FT_BF16, 6, 16, 8, false, true, false, true, false, true, 0},     {FT_F16, FT_F32, 33, 24, 40, true, true, true, false, true, false, 0.1f},
    {FT_F16, FT_F16, 2, 3, 5, true, true, false, true, false, true, 0.2f},      {FT_F32, FT_F32, 0, 8, 4, true, true, true, false, false, false, 0.1f},
};
enum { THREADS = 3, MOST_ROWS = 64 };

static void test_bits_of_the_two(void **state) {
    ft_device *device;
    ft_step_state step = {.seed = 0x123456789ABCDEF0u, .step = 7};
    int32_t slot[MOST_ROWS], position[MOST_ROWS];
    for (int32_t t = 0; t < MOST_ROWS; t++) slot[t] = t / 9, position[t] = t % 9;
    assert_int_equal(ft_cpu_open(THREADS, NULL, &device), FT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const norm_case *c = &cases[i];
        typed x = typed_random(c->dtype, c->rows, c->terms, 3, true, 1, 0), w = typed_random(c->dtype, c->columns, c->terms, 1, false, 1, 0),
              bias = typed_random(c->dtype, 1, c->columns, 0, true, 1, 0), residual = typed_random(c->adds, c->rows, c->columns, 2, true, 1, 0),
              gamma = typed_random(FT_F32, 1, c->columns, 0, true, 1, 0), beta = typed_random(FT_F32, 1, c->columns, 0, true, 1, 0);
        typed product[2], s[2], y[2], stream[2], wide[2], mean[2], rstd[2];
        ft_layernorm_forward_args rest[2];
        for (int k = 0; k < 2; k++) {
            product[k] = typed_new(c->dtype, c->rows, c->columns, k, k > 0), s[k] = typed_new(c->dtype, c->rows, c->columns, 2, true);
            y[k] = typed_new(c->dtype, c->rows, c->columns, 5, false), stream[k] = typed_new(c->adds, c->rows, c->columns, 0, true);
            wide[k] = typed_new(FT_F32, c->rows, c->columns, 1, true);
            mean[k] = typed_new(FT_F32, 1, c->rows + 1, 0, true), rstd[k] = typed_new(FT_F32, 1, c->rows + 1, 0, true);
            mean[k].t.cols = rstd[k].t.cols = c->rows;
            rest[k] = (ft_layernorm_forward_args){.x = c->in_place ? s[k].t : product[k].t, .bias = c->bias ? ft_vector(bias.t.data, c->columns, c->dtype) : ft_absent(),
                                                  .residual = c->residual ? residual.t : ft_absent(), .gamma = ft_vector(gamma.t.data, c->columns, FT_F32),
                                                  .beta = c->rms ? ft_absent() : ft_vector(beta.t.data, c->columns, FT_F32), .epsilon = 1e-5f, .rms = c->rms,
                                                  .dropout = {c->dropout, 3, FT_SITE_FFN_OUTPUT, &step, slot, position}, .s = s[k].t, .y = y[k].t,
                                                  .wide = c->wide ? wide[k].t : ft_absent(), .stream = c->stream ? stream[k].t : ft_absent(),
                                                  .mean = ft_vector(mean[k].t.data, c->rows, FT_F32), .rstd = ft_vector(rstd[k].t.data, c->rows, FT_F32)};
        }
        RUN_OP(device, gemm, ((ft_gemm_args){.a = x.t, .b = w.t, .c = rest[0].x, .trans_b = true}));
        RUN_OP(device, layernorm_forward, rest[0]);
        RUN_OP(device, product_norm, ((ft_product_norm_args){.x = x.t, .w = w.t, .norm = rest[1]}));
        typed_same(s[0], s[1]);
        typed_same(y[0], y[1]);
        typed_same(mean[0], mean[1]);
        typed_same(rstd[0], rstd[1]);
        if (c->stream) typed_same(stream[0], stream[1]);
        if (c->wide) typed_same(wide[0], wide[1]);
        typed all[] = {x, w, bias, residual, gamma, beta, product[0], product[1], s[0], s[1], y[0], y[1], stream[0], stream[1], wide[0], wide[1], mean[0], mean[1], rstd[0], rstd[1]};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            typed_free(all[k]);
    }
    ft_device_close(device);
}

static void test_arguments_that_do_not_fit(void **state) {
    ft_device *device;
    assert_int_equal(ft_cpu_open(1, NULL, &device), FT_OK);
    typed x = typed_random(FT_F32, 4, 5, 0, true, 1, 0), w = typed_random(FT_F32, 5, 5, 0, true, 1, 0), s = typed_random(FT_F32, 4, 5, 0, true, 1, 0),
          y = typed_new(FT_F32, 4, 5, 0, true), gamma = typed_random(FT_F32, 1, 5, 0, true, 1, 0), residual = typed_random(FT_F32, 4, 5, 0, true, 1, 0);
    ft_product_norm_args fits = {.x = x.t, .w = w.t,
                                 .norm = {.x = s.t, .residual = residual.t, .gamma = ft_vector(gamma.t.data, 5, FT_F32), .epsilon = 1e-5f, .s = s.t, .y = y.t}};
    fits.workspace = workspace_new(ft_product_norm_workspace(&device->target, &fits));
    assert_int_equal(ft_product_norm_check(&device->target, &fits), FT_OK);
    for (int i = 0; i < 9; i++) {
        ft_product_norm_args args = fits;
        if (i == 0) args.norm.y = args.x; // which the product reads
        if (i == 1) args.norm.residual = args.norm.x; // which the product takes the place of
        if (i == 2) args.norm.x.cols = 4;
        if (i == 3) args.w.cols = 4;
        if (i == 4) args.norm.x.dtype = FT_BF16;
        if (i == 5) args.workspace.bytes = 0;
        if (i == 6) args.norm.gamma = ft_absent();
        if (i == 7) args.norm.y.rows = 3;
        if (i == 8) args.norm.dropout.probability = 0.1f; // without step, slots and positions
        assert_int_equal(FT_RUN(device, product_norm, &args), FT_FAILED);
        ft_error_clear();
    }
    workspace_free(fits.workspace);
    typed all[] = {x, w, s, y, gamma, residual};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        typed_free(all[k]);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bits_of_the_two), cmocka_unit_test(test_arguments_that_do_not_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
