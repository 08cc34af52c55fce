// Means of the rows of packed sequences in fp32, bf16 and fp16 against float64, and their gradient as the transpose.
// ctest: emulated=yes
#include "half_matrix.h"

static const ft_dtype types[] = {FT_F32, FT_BF16, FT_F16};
enum { SEQUENCES = 6, TOKENS = 331 };
static const int32_t bounds[SEQUENCES + 1] = {0, 1, 8, 8, 10, 13, TOKENS}; // of 1, 7, 0, 2, 3 and 318 rows

typedef struct mean_case {
    typed x, dy;
} mean_case;

static void run_mean(ft_device *device, const void *test_case, bool whole, float *out) {
    const mean_case *c = test_case;
    const int64_t cols = c->x.t.cols;
    typed x = typed_like(c->x.t, 2, whole), y = typed_new(x.t.dtype, SEQUENCES, cols, 3, whole);
    typed dy = typed_like(c->dy.t, 1, whole), dx = typed_new(FT_F32, TOKENS, cols, 5, whole);
    RUN_OP(device, sequence_mean_forward,
           ((ft_sequence_mean_forward_args){.sequences = SEQUENCES, .cu_seqlens = bounds, .x = x.t, .y = y.t}));
    RUN_OP(device, sequence_mean_backward,
           ((ft_sequence_mean_backward_args){.sequences = SEQUENCES, .cu_seqlens = bounds, .dy = dy.t, .dx = dx.t}));
    out += typed_flatten(y.t, out);
    typed_flatten(dx.t, out);
    typed all[] = {x, y, dy, dx};
    for (int i = 0; i < 4; i++) typed_free(all[i]);
}

static void test_is_its_definition(void **state) {
    static const int64_t widths[] = {1, 7, 8, 40, 264, 1030};
    for (int type = 0; type < 3; type++)
        for (int w = 0; w < 6; w++) {
            const int64_t cols = widths[w];
            const size_t means = (size_t)(SEQUENCES * cols), rows = (size_t)(TOKENS * cols);
            mean_case c = {typed_random(types[type], TOKENS, cols, 0, true, 1, 0.5), typed_random(FT_F32, SEQUENCES, cols, 0, true, 1, 0)};
            float *got = run_typed(run_mean, &c, means + rows);
            double *want = calloc(means + rows, sizeof *want);
            assert_non_null(want);
            for (int s = 0; s < SEQUENCES; s++)
                for (int64_t t = bounds[s]; t < bounds[s + 1]; t++)
                    for (int64_t j = 0; j < cols; j++) {
                        const double number = bounds[s + 1] - bounds[s];
                        want[s * cols + j] += typed_get(c.x.t, t, j) / number;
                        want[(int64_t)means + t * cols + j] = typed_get(c.dy.t, s, j) / number;
                    }
            if (types[type] == FT_F32) assert_summed("means", got, want, means);
            else assert_rounded("means", types[type], got, want, means);
            assert_summed("gradients", got + means, want + means, rows);
            free(got);
            free(want);
            typed_free(c.x);
            typed_free(c.dy);
        }
}

// One chain a column in row order: a sequence gives the same bits whatever stands beside it. (run_typed asks that of threads.)
static void test_a_sequence_alone(void **state) {
    ft_device *device;
    assert_int_equal(test_open(2, &device), FT_OK);
    typed x = typed_random(FT_F32, TOKENS, 40, 0, true, 1, 0), y = typed_new(FT_F32, SEQUENCES, 40, 0, true), alone = typed_new(FT_F32, 1, 40, 0, true);
    RUN_OP(device, sequence_mean_forward,
           ((ft_sequence_mean_forward_args){.sequences = SEQUENCES, .cu_seqlens = bounds, .x = x.t, .y = y.t}));
    const int32_t own[] = {0, bounds[6] - bounds[5]};
    RUN_OP(device, sequence_mean_forward,
           ((ft_sequence_mean_forward_args){.sequences = 1, .cu_seqlens = own, .x = ft_rows(x.t, bounds[5], own[1]), .y = alone.t}));
    for (int64_t j = 0; j < 40; j++) assert_true(typed_get(alone.t, 0, j) == typed_get(y.t, 5, j));
    typed_free(x);
    typed_free(y);
    typed_free(alone);
    ft_device_close(device);
}

static void test_shapes_that_disagree_fail(void **state) {
    ft_device *device;
    assert_int_equal(test_open(1, &device), FT_OK);
    typed x = typed_random(FT_F32, TOKENS, 8, 0, true, 1, 0), y = typed_random(FT_F32, SEQUENCES, 7, 0, true, 1, 0);
    ft_sequence_mean_forward_args forward = {.sequences = SEQUENCES, .cu_seqlens = bounds, .x = x.t, .y = y.t};
    assert_int_equal(FT_RUN(device, sequence_mean_forward, &forward), FT_FAILED);
    assert_string_equal(ft_error_where(), "sequence_mean_forward");
    ft_sequence_mean_backward_args backward = {.sequences = SEQUENCES - 1, .cu_seqlens = bounds, .dy = y.t, .dx = ft_columns(x.t, 0, 7)};
    assert_int_equal(FT_RUN(device, sequence_mean_backward, &backward), FT_FAILED);
    assert_string_equal(ft_error_where(), "sequence_mean_backward");
    ft_error_clear();
    typed_free(x);
    typed_free(y);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_its_definition),
        cmocka_unit_test(test_a_sequence_alone),
        cmocka_unit_test(test_shapes_that_disagree_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
