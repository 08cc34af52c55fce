// ctest: emulated=yes
#include "elementwise.h"

// ---- dropout --------------------------------------------------------------------------------------------------------

typedef struct dropout_case {
    fenced x;
    ft_dropout dropout;
    bool in_place, accumulate;
    int64_t gap;
} dropout_case;

static void run_dropout(ft_device *device, const void *test_case, float *out) {
    const dropout_case *c = test_case;
    fenced x = fenced_copy(c->x), y = c->in_place ? x : fenced_new(x.t.rows, x.t.cols, c->gap);
    for (int64_t i = 0; i < y.t.rows * y.t.cols && c->accumulate; i++) *at(y.t, i / y.t.cols, i % y.t.cols) = (float)(i % 7);
    RUN_OP(device, dropout, ((ft_dropout_args){.dropout = c->dropout, .x = x.t, .y = y.t, .accumulate = c->accumulate}));
    fenced_flatten(y, out);
    fenced_free(x);
    if (!c->in_place) fenced_free(y);
}

static void test_dropout_is_its_definition(void **state) {
    static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {2, 16}, {5, 129}, {70, 384}, {1, 1000}, {40, 100}};
    static const float probabilities[] = {0.0f, 0.1f, 0.5f, 0.9f};
    ft_step_state step = {.seed = 99, .step = 12345};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        int64_t rows = shapes[s][0], cols = shapes[s][1];
        int32_t slot[70], position[70];
        for (int i = 0; i < 70; i++) {
            slot[i] = i / 3 * 7 + 1;
            position[i] = i % 3 + 1000;
        }
        for (size_t p = 0; p < 4; p++) {
            dropout_case c = {.x = fenced_random(rows, cols, (int64_t)s % 3, 1, 0), .in_place = (s + p) % 2, .gap = 5};
            c.dropout = (ft_dropout){probabilities[p], 3, FT_SITE_FFN_OUTPUT, &step, slot, position};
            if (p == 0) c.dropout = (ft_dropout){0}; // no pointer is read
            float *got = run_everywhere(run_dropout, &c, (size_t)(rows * cols));
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < cols; j++) {
                    float want = *at(c.x.t, i, j) * (float)dropout_factor(&c.dropout, i, j);
                    assert_true(got[i * cols + j] == want);
                }
            free(got);
            c.in_place = false; // and added to what is there
            c.accumulate = p > 0;
            got = run_everywhere(run_dropout, &c, (size_t)(rows * cols));
            for (int64_t i = 0; i < rows * cols && c.accumulate; i++) {
                const float dropped = *at(c.x.t, i / cols, i % cols) * (float)dropout_factor(&c.dropout, i / cols, i % cols);
                assert_true(got[i] == (float)(i % 7) + dropped);
            }
            free(got);
            fenced_free(c.x);
        }
    }
}

// A row's dropout depends on its slot and position, not on where in the batch it lies.
static void test_dropout_of_a_split_batch(void **state) {
    int32_t slot[9] = {0, 0, 4, 4, 4, 2, 2, 9, 9}, position[9] = {0, 1, 0, 1, 2, 0, 1, 0, 1};
    ft_step_state step = {.seed = 5};
    dropout_case c = {.x = fenced_random(9, 200, 0, 1, 0),
                      .dropout = {0.3f, 0, FT_SITE_EMBEDDING, &step, slot, position}};
    float *whole = run_everywhere(run_dropout, &c, 9 * 200);
    fenced tail_x = fenced_new(5, 200, 3);
    for (int64_t i = 0; i < 5; i++)
        memcpy(at(tail_x.t, i, 0), at(c.x.t, 4 + i, 0), 200 * sizeof(float));
    dropout_case tail = {.x = tail_x, .dropout = dropout_rows(c.dropout, 4)};
    float *part = run_everywhere(run_dropout, &tail, 5 * 200);
    assert_memory_equal(part, whole + 4 * 200, 5 * 200 * sizeof(float));
    free(whole);
    free(part);
    fenced_free(c.x);
    fenced_free(tail_x);
}

// ---- rows by index --------------------------------------------------------------------------------------------------

typedef struct index_case {
    fenced x, y;
    const int32_t *index;
} index_case;

static void run_gather(ft_device *device, const void *test_case, float *out) {
    const index_case *c = test_case;
    fenced y = fenced_copy(c->y);
    RUN_OP(device, gather_rows, ((ft_gather_rows_args){.index = c->index, .x = c->x.t, .y = y.t}));
    fenced_flatten(y, out);
    fenced_free(y);
}
static void run_scatter(ft_device *device, const void *test_case, float *out) {
    const index_case *c = test_case;
    fenced y = fenced_copy(c->y);
    RUN_OP(device, scatter_rows_add, ((ft_scatter_rows_add_args){.index = c->index, .x = c->x.t, .y = y.t}));
    fenced_flatten(y, out);
    fenced_free(y);
}

static void test_gather_and_scatter(void **state) {
    static const int64_t widths[] = {1, 15, 16, 33, 384, 1030};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        int64_t cols = widths[w], many = 50, few = 1 + 8 * (int64_t)w;
        int32_t index[50];
        for (int32_t i = 0; i < 50; i++)
            index[i] = i * 37 % 50; // a permutation: distinct
        index_case gather = {fenced_random(many, cols, 2, 1, 0), fenced_new(few, cols, 1), index};
        float *got = run_everywhere(run_gather, &gather, (size_t)(few * cols));
        for (int64_t i = 0; i < few; i++)
            assert_memory_equal(got + i * cols, at(gather.x.t, index[i], 0), (size_t)cols * sizeof(float));
        free(got);
        index_case scatter = {fenced_random(few, cols, 3, 1, 0), fenced_random(many, cols, 0, 1, 0), index};
        got = run_everywhere(run_scatter, &scatter, (size_t)(many * cols));
        fenced want = fenced_copy(scatter.y);
        for (int64_t i = 0; i < few; i++)
            for (int64_t j = 0; j < cols; j++)
                *at(want.t, index[i], j) += *at(scatter.x.t, i, j);
        assert_memory_equal(got, want.t.data, (size_t)(many * cols) * sizeof(float));
        free(got);
        fenced all[] = {gather.x, gather.y, scatter.x, scatter.y, want};
        for (int i = 0; i < 5; i++)
            fenced_free(all[i]);
    }
}

static void test_gather_may_repeat_rows(void **state) {
    int32_t index[4] = {2, 2, 0, 2};
    index_case c = {fenced_random(3, 20, 0, 1, 0), fenced_new(4, 20, 0), index};
    float *got = run_everywhere(run_gather, &c, 80);
    for (int64_t i = 0; i < 4; i++)
        assert_memory_equal(got + i * 20, at(c.x.t, index[i], 0), 20 * sizeof(float));
    free(got);
    fenced_free(c.x);
    fenced_free(c.y);
}

static void test_no_rows_and_wrong_shapes(void **state) {
    ft_device *device;
    assert_int_equal(test_open(2, &device), FT_OK);
    fenced x = fenced_random(2, 20, 0, 1, 0), y = fenced_random(3, 20, 0, 1, 0), before = fenced_copy(y);
    int32_t index[2] = {0, 1};
    ft_tensor none = ft_rows(x.t, 0, 0);
    RUN_OP(device, dropout, ((ft_dropout_args){.x = none, .y = ft_rows(y.t, 0, 0)}));
    RUN_OP(device, gather_rows, ((ft_gather_rows_args){.index = index, .x = x.t, .y = ft_rows(y.t, 0, 0)}));
    RUN_OP(device, scatter_rows_add, ((ft_scatter_rows_add_args){.index = index, .x = none, .y = y.t}));
    assert_memory_equal(y.base, before.base, y.total * sizeof(float));
    ft_dropout_args dropout = {.x = x.t, .y = y.t};
    assert_int_equal(FT_RUN(device, dropout, &dropout), FT_FAILED);
    assert_string_equal(ft_error_where(), "dropout");
    dropout = (ft_dropout_args){.dropout = {.probability = 0.5f}, .x = x.t, .y = x.t};
    assert_int_equal(FT_RUN(device, dropout, &dropout), FT_FAILED); // dropout without a step
    ft_gather_rows_args gather = {.index = index, .x = ft_columns(x.t, 0, 19), .y = y.t};
    assert_int_equal(FT_RUN(device, gather_rows, &gather), FT_FAILED);
    assert_string_equal(ft_error_where(), "gather_rows");
    ft_scatter_rows_add_args scatter = {.index = index, .x = ft_columns(x.t, 0, 19), .y = y.t};
    assert_int_equal(FT_RUN(device, scatter_rows_add, &scatter), FT_FAILED);
    assert_string_equal(ft_error_where(), "scatter_rows_add");
    ft_error_clear();
    fenced_free(x);
    fenced_free(y);
    fenced_free(before);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropout_is_its_definition), cmocka_unit_test(test_dropout_of_a_split_batch),
        cmocka_unit_test(test_gather_and_scatter),        cmocka_unit_test(test_gather_may_repeat_rows),
        cmocka_unit_test(test_no_rows_and_wrong_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
