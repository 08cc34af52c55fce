// Windows within packed sequences against plain loops, and both ops as each other's transpose.
// ctest: emulated=yes
#include "elementwise.h"

enum { TOKENS = 31, SEQUENCES = 6 };
static const int32_t bounds[SEQUENCES + 1] = {0, 1, 8, 8, 10, 13, TOKENS}; // of 1, 7, 0, 2, 3 and 18 rows

typedef struct unfold_case {
    fenced x, y;
    int taps;
} unfold_case;

static void run_unfold(ft_device *device, const void *test_case, float *out) {
    const unfold_case *c = test_case;
    fenced y = fenced_copy(c->y);
    RUN_OP(device, unfold,
           ((ft_unfold_args){.sequences = SEQUENCES, .taps = c->taps, .cu_seqlens = bounds, .x = c->x.t, .y = y.t}));
    fenced_flatten(y, out);
    fenced_free(y);
}

static void run_fold(ft_device *device, const void *test_case, float *out) {
    const unfold_case *c = test_case;
    fenced x = fenced_copy(c->x);
    RUN_OP(device, fold_add,
           ((ft_fold_add_args){.sequences = SEQUENCES, .taps = c->taps, .cu_seqlens = bounds, .x = x.t, .y = c->y.t}));
    fenced_flatten(x, out);
    fenced_free(x);
}

// Row `t` moved by `by` within its sequence; -1 outside.
static int64_t neighbour(int64_t t, int64_t by) {
    for (int s = 0; s < SEQUENCES; s++)
        if (t >= bounds[s] && t < bounds[s + 1]) return t + by >= bounds[s] && t + by < bounds[s + 1] ? t + by : -1;
    return -1;
}

static const int taps_tried[] = {1, 3, 5, 9, 41};
enum { TRIED = sizeof taps_tried / sizeof taps_tried[0] };

static void test_unfold_is_its_definition(void **state) {
    for (int i = 0; i < TRIED; i++) {
        int taps = taps_tried[i];
        int64_t cols = i == 1 ? 200 : 7; // the wide one is worth threads
        unfold_case c = {fenced_random(TOKENS, cols, 3, 1, 0), fenced_new(TOKENS, cols * taps, i), taps};
        float *got = run_everywhere(run_unfold, &c, (size_t)(TOKENS * cols * taps));
        for (int64_t t = 0; t < TOKENS; t++)
            for (int64_t j = 0; j < cols; j++)
                for (int k = 0; k < taps; k++) {
                    int64_t from = neighbour(t, k - (taps - 1) / 2);
                    assert_true(got[t * cols * taps + j * taps + k] == (from < 0 ? 0.0f : *at(c.x.t, from, j)));
                }
        free(got);
        fenced_free(c.x);
        fenced_free(c.y);
    }
}

// The chain that the contract promises, term after term.
static void test_fold_is_its_definition(void **state) {
    for (int i = 0; i < TRIED; i++) {
        int taps = taps_tried[i];
        int64_t cols = i == 1 ? 200 : 7;
        unfold_case c = {fenced_random(TOKENS, cols, i, 1, 0), fenced_random(TOKENS, cols * taps, 2, 1, 0), taps};
        float *got = run_everywhere(run_fold, &c, (size_t)(TOKENS * cols));
        for (int64_t t = 0; t < TOKENS; t++)
            for (int64_t j = 0; j < cols; j++) {
                float want = *at(c.x.t, t, j);
                for (int k = 0; k < taps; k++) {
                    int64_t from = neighbour(t, (taps - 1) / 2 - k);
                    if (from >= 0) want += *at(c.y.t, from, j * taps + k);
                }
                assert_true(got[t * cols + j] == want);
            }
        free(got);
        fenced_free(c.x);
        fenced_free(c.y);
    }
}

// <unfold(x), y> = <x, fold(y)>: the gradient of one is the other.
static void test_fold_is_the_transpose(void **state) {
    enum { TAPS = 5, COLS = 6 };
    unfold_case c = {fenced_random(TOKENS, COLS, 0, 1, 0), fenced_random(TOKENS, COLS * TAPS, 0, 1, 0), TAPS};
    float *windows = run_everywhere(run_unfold, &c, TOKENS * COLS * TAPS);
    fenced zero = fenced_new(TOKENS, COLS, 0);
    memset(zero.t.data, 0, TOKENS * COLS * sizeof(float));
    unfold_case back = {zero, c.y, TAPS};
    float *folded = run_everywhere(run_fold, &back, TOKENS * COLS);
    double forward = 0, backward = 0, size = 0;
    for (int i = 0; i < TOKENS * COLS * TAPS; i++) {
        forward += (double)windows[i] * ((float *)c.y.t.data)[i];
        size += fabs((double)windows[i] * ((float *)c.y.t.data)[i]);
    }
    for (int i = 0; i < TOKENS * COLS; i++) backward += (double)folded[i] * ((float *)c.x.t.data)[i];
    assert_true(size > 100 && fabs(forward - backward) <= 1e-6 * size);
    free(windows);
    free(folded);
    fenced_free(c.x);
    fenced_free(c.y);
    fenced_free(zero);
}

static void test_no_rows_and_wrong_shapes(void **state) {
    ft_device *device;
    assert_int_equal(test_open(2, &device), FT_OK);
    fenced x = fenced_random(TOKENS, 4, 0, 1, 0), y = fenced_random(TOKENS, 12, 0, 1, 0), before = fenced_copy(y);
    RUN_OP(device, unfold, ((ft_unfold_args){.taps = 3, .x = ft_rows(x.t, 0, 0), .y = ft_rows(y.t, 0, 0)}));
    RUN_OP(device, fold_add, ((ft_fold_add_args){.taps = 3, .x = ft_rows(x.t, 0, 0), .y = ft_rows(y.t, 0, 0)}));
    const struct {
        int taps;
        const int32_t *bounds;
        ft_tensor x;
    } wrong[] = {{2, bounds, ft_columns(x.t, 0, 3)}, {5, bounds, x.t}, {3, NULL, x.t}, {3, bounds, ft_rows(x.t, 0, 5)}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ft_unfold_args unfold = {.sequences = SEQUENCES, .taps = wrong[i].taps, .cu_seqlens = wrong[i].bounds, .x = wrong[i].x, .y = y.t};
        assert_int_equal(FT_RUN(device, unfold, &unfold), FT_FAILED);
        assert_string_equal(ft_error_where(), "unfold");
        ft_fold_add_args fold = {.sequences = SEQUENCES, .taps = wrong[i].taps, .cu_seqlens = wrong[i].bounds, .x = wrong[i].x, .y = y.t};
        assert_int_equal(FT_RUN(device, fold_add, &fold), FT_FAILED);
        assert_string_equal(ft_error_where(), "fold_add");
    }
    assert_memory_equal(y.base, before.base, y.total * sizeof(float));
    ft_error_clear();
    fenced_free(x);
    fenced_free(y);
    fenced_free(before);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unfold_is_its_definition), cmocka_unit_test(test_fold_is_its_definition),
        cmocka_unit_test(test_fold_is_the_transpose),    cmocka_unit_test(test_no_rows_and_wrong_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
