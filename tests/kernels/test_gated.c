// Gated activations in fp32, bf16 and fp16 against float64, whose own gradient is held against finite differences.
// ctest: emulated=yes
#include "half_matrix.h"

static const ft_dtype types[] = {FT_F32, FT_BF16, FT_F16};

static double value(ft_activation kind, double x) {
    switch (kind) {
    case FT_ACT_GELU: return 0.5 * x * erfc(-x * M_SQRT1_2);
    case FT_ACT_SILU: return x / (1 + exp(-x));
    case FT_ACT_TANH: return tanh(x);
    default: return x > 0 ? x : 0; // relu
    }
}
static double slope(ft_activation kind, double x) {
    const double s = 1 / (1 + exp(-x));
    switch (kind) {
    case FT_ACT_GELU: return 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) / sqrt(2 * M_PI);
    case FT_ACT_SILU: return s * (1 + x * (1 - s));
    case FT_ACT_TANH: return 1 - tanh(x) * tanh(x);
    default: return x > 0;
    }
}

static const ft_activation kinds[] = {FT_ACT_GELU, FT_ACT_SILU, FT_ACT_TANH, FT_ACT_RELU};

static void test_the_oracle_s_slopes_are_those_of_its_values(void **state) {
    for (int k = 0; k < 4; k++)
        for (double x = -6.03; x < 6; x += 0.1)
            assert_true(fabs((value(kinds[k], x + 1e-5) - value(kinds[k], x - 1e-5)) / 2e-5 - slope(kinds[k], x)) < 1e-8);
}

typedef struct gated_case {
    ft_activation kind;
    typed x, dy;
    bool in_place, again; // dx takes h's place; y is made again
} gated_case;

// y; dx; y again if wanted.
static void run_gated(ft_device *device, const void *test_case, bool whole, float *out) {
    const gated_case *c = test_case;
    const int64_t rows = c->x.t.rows, cols = c->dy.t.cols;
    typed x = typed_like(c->x.t, 1, whole), dy = typed_like(c->dy.t, 3, whole), y = typed_new(x.t.dtype, rows, cols, 2, whole);
    typed dx = typed_new(x.t.dtype, rows, 2 * cols, 5, whole), again = typed_new(x.t.dtype, rows, cols, 0, whole);
    RUN_OP(device, gated_forward, ((ft_gated_forward_args){.kind = c->kind, .x = x.t, .y = y.t}));
    const ft_tensor to = c->in_place ? x.t : dx.t;
    RUN_OP(device, gated_backward,
           ((ft_gated_backward_args){.kind = c->kind, .h = x.t, .dy = dy.t, .dx = to, .y = c->again ? again.t : ft_absent()}));
    out += typed_flatten(y.t, out);
    out += typed_flatten(to, out);
    if (c->again) typed_flatten(again.t, out);
    typed all[] = {x, dy, y, dx, again};
    for (int i = 0; i < 5; i++) typed_free(all[i]);
}

static void check_case(gated_case c) {
    const int64_t rows = c.x.t.rows, cols = c.dy.t.cols;
    const size_t n = (size_t)(rows * cols);
    const ft_dtype dtype = c.x.t.dtype;
    float *got = run_typed(run_gated, &c, (c.again ? 4 : 3) * n);
    double *want = calloc(3 * n, sizeof *want);
    assert_non_null(want);
    for (int64_t t = 0; t < rows; t++)
        for (int64_t j = 0; j < cols; j++) {
            const double a = typed_get(c.x.t, t, j), g = typed_get(c.x.t, t, cols + j), d = typed_get(c.dy.t, t, j);
            want[t * cols + j] = value(c.kind, a) * g;
            want[(int64_t)n + t * 2 * cols + j] = d * g * slope(c.kind, a);
            want[(int64_t)n + t * 2 * cols + cols + j] = d * value(c.kind, a);
        }
    if (dtype == FT_F32) assert_summed("y, dx", got, want, 3 * n);
    else assert_rounded("y", dtype, got, want, n), assert_rounded("dx", dtype, got + n, want + n, 2 * n);
    if (c.again) assert_memory_equal(got + 3 * n, got, n * sizeof *got); // the very bits of the forward
    free(got);
    free(want);
    typed_free(c.x);
    typed_free(c.dy);
}

static void test_is_its_definition(void **state) {
    static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {5, 8}, {37, 40}, {9, 264}, {130, 33}};
    int count = 0;
    for (int s = 0; s < 6; s++)
        for (int type = 0; type < 3; type++)
            for (int k = 0; k < 4; k++, count++) {
                const int64_t rows = shapes[s][0], cols = shapes[s][1];
                check_case((gated_case){.kind = kinds[k], .x = typed_random(types[type], rows, 2 * cols, 0, true, 2, 0),
                                        .dy = typed_random(types[type], rows, cols, 0, true, 1, 0), .in_place = count % 2 == 0,
                                        .again = count % 3 != 0});
            }
}

static void test_shapes_that_disagree_fail(void **state) {
    ft_device *device;
    assert_int_equal(test_open(1, &device), FT_OK);
    typed x = typed_random(FT_F32, 3, 8, 0, true, 1, 0), y = typed_random(FT_F32, 3, 8, 0, true, 1, 0);
    ft_gated_forward_args forward = {.kind = FT_ACT_GELU, .x = x.t, .y = y.t}; // as wide as x
    assert_int_equal(FT_RUN(device, gated_forward, &forward), FT_FAILED);
    assert_string_equal(ft_error_where(), "gated_forward");
    ft_gated_backward_args backward = {.kind = FT_ACT_COUNT, .h = x.t, .dy = ft_columns(y.t, 0, 4), .dx = x.t};
    assert_int_equal(FT_RUN(device, gated_backward, &backward), FT_FAILED);
    backward.kind = FT_ACT_GELU;
    backward.dx.cols = 4;
    assert_int_equal(FT_RUN(device, gated_backward, &backward), FT_FAILED);
    assert_string_equal(ft_error_where(), "gated_backward");
    ft_error_clear();
    typed_free(x);
    typed_free(y);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_oracle_s_slopes_are_those_of_its_values),
        cmocka_unit_test(test_is_its_definition),
        cmocka_unit_test(test_shapes_that_disagree_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
