// ctest: emulated=yes
#include "elementwise.h"

typedef struct sum_case {
    fenced x, out;
    int64_t split;
} sum_case;

static void run_sum(ft_device *device, const void *test_case, float *out) {
    const sum_case *c = test_case;
    fenced sum = fenced_copy(c->out);
    for (int part = 0; part < (c->split ? 2 : 1); part++) {
        ft_tensor x = !c->split ? c->x.t
                      : part    ? ft_rows(c->x.t, c->split, c->x.t.rows - c->split)
                                : ft_rows(c->x.t, 0, c->split);
        RUN_OP(device, column_sum, ((ft_column_sum_args){.x = x, .out = sum.t}));
    }
    fenced_flatten(sum, out);
    fenced_free(sum);
}

static void test_sums_are_one_chain_a_column(void **state) {
    static const int64_t shapes[][2] = {{1, 1}, {1, 7}, {9, 33}, {65, 384}, {4, 1030}, {300, 16}, {1000, 49}, {2060, 9}, {4110, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t rows = shapes[i][0], cols = shapes[i][1];
        sum_case c = {.x = fenced_random(rows, cols, (int64_t)i % 3, 1, 0.5), .out = fenced_random(1, cols, 0, 1, 0)};
        float *got = run_everywhere(run_sum, &c, (size_t)cols);
        for (int64_t j = 0; j < cols; j++) { // the contract fixes even the bits
            float sum = *at(c.out.t, 0, j);
            for (int64_t t = 0; t < rows; t++)
                sum += *at(c.x.t, t, j);
            assert_same_chain(&got[j], &sum, 1);
        }
        for (c.split = 1; c.split < rows; c.split += rows / 4 + 1) {
            float *again = run_everywhere(run_sum, &c, (size_t)cols);
            assert_same_chain(got, again, (size_t)cols);
            free(again);
        }
        free(got);
        fenced_free(c.x);
        fenced_free(c.out);
    }
}

// A plan is made for the longest batch, and must do for every shorter one; on CUDA tiles of rows shrink with the rows.
static void test_scratch_of_fewer_rows_is_no_more(void **state) {
    const ft_target target = {.backend = FT_BACKEND_CUDA};
    size_t before = 0;
    for (int64_t rows = 0; rows <= 20000; rows++) {
        const ft_column_sum_args args = {.x = ft_matrix(NULL, rows, 5, FT_F32)};
        const size_t bytes = ft_column_sum_workspace(&target, &args);
        if (bytes < before) fail_msg("%lld rows want %zu bytes, one less %zu", (long long)rows, bytes, before);
        before = bytes;
    }
    assert_int_equal(before, (20000 + 63) / 64 * 5 * sizeof(float));
}

static void test_no_rows_and_wrong_shapes(void **state) {
    ft_device *device;
    assert_int_equal(test_open(2, &device), FT_OK);
    fenced x = fenced_random(2, 20, 0, 1, 0), out = fenced_random(1, 20, 0, 1, 0), before = fenced_copy(out);
    RUN_OP(device, column_sum, ((ft_column_sum_args){.x = ft_rows(x.t, 0, 0), .out = out.t}));
    assert_memory_equal(out.base, before.base, out.total * sizeof(float));
    ft_column_sum_args args = {.x = x.t, .out = ft_columns(out.t, 0, 19)};
    assert_int_equal(FT_RUN(device, column_sum, &args), FT_FAILED);
    assert_non_null(strstr(ft_error_where(), "column_sum"));
    ft_error_clear();
    fenced_free(x);
    fenced_free(out);
    fenced_free(before);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_one_chain_a_column),
        cmocka_unit_test(test_scratch_of_fewer_rows_is_no_more),
        cmocka_unit_test(test_no_rows_and_wrong_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
