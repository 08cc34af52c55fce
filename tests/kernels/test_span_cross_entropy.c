// Catches: a softmax over other rows than the sequence's, a column that reads its neighbour, a mark taken for a number, a place of which no row
// is marked that has a gradient all the same, losses that are not the mean of the columns.
// ctest: emulated=yes
#include "elementwise.h"

enum { MOST_ROWS = 2100, MOST_SEQUENCES = 20 };

typedef struct span_case {
    fenced logits;
    int32_t sequences, cu_rows[MOST_SEQUENCES + 1], marks[MOST_ROWS];
    ft_step_state step;
    enum { NO_GRADIENT, APART, IN_PLACE } gradient;
} span_case;

static void run_loss(ft_device *device, const void *test_case, float *out) {
    const span_case *c = test_case;
    const int64_t rows = c->logits.t.rows, cols = c->logits.t.cols;
    fenced logits = fenced_copy(c->logits), losses = fenced_new(1, rows, 0);
    fenced d = c->gradient == APART ? fenced_new(rows, cols, 2) : fenced_none();
    RUN_OP(device, span_cross_entropy,
           ((ft_span_cross_entropy_args){.logits = logits.t,
                                         .sequences = c->sequences,
                                         .cu_rows = c->cu_rows,
                                         .marks = c->marks,
                                         .step = &c->step,
                                         .losses = losses.t,
                                         .dlogits = c->gradient == IN_PLACE ? logits.t : d.t}));
    out += fenced_flatten(losses, out);
    if (c->gradient == APART) fenced_flatten(d, out);
    if (c->gradient == IN_PLACE) fenced_flatten(logits, out);
    fenced_free(logits);
    fenced_free(losses);
    fenced_free(d);
}

// The definition, in double: losses [rows], d [rows, cols].
static void oracle(const span_case *c, double *losses, double *d) {
    const int64_t cols = c->logits.t.cols;
    for (int64_t i = 0; i < c->logits.t.rows; i++) losses[i] = 0;
    for (int32_t s = 0; s < c->sequences; s++)
        for (int64_t j = 0; j < cols; j++) {
            int64_t begin = c->cu_rows[s], end = c->cu_rows[s + 1], marked = -1;
            double most = -INFINITY, sum = 0, others = 0;
            for (int64_t i = end - 1; i >= begin; i--) {
                if (c->marks[i] & 1 << j) marked = i;
                most = fmax(most, (double)*at(c->logits.t, i, j));
            }
            for (int64_t i = begin; i < end; i++) sum += exp((double)*at(c->logits.t, i, j) - most);
            for (int64_t i = begin; i < end; i++) {
                const double p = exp((double)*at(c->logits.t, i, j) - most) / sum;
                d[i * cols + j] = marked < 0 ? 0 : p / (double)cols * (double)c->step.loss_factor;
                others += i == marked ? 0 : p;
            }
            if (marked < 0) continue;
            losses[marked] += (log(sum) + most - (double)*at(c->logits.t, marked, j)) / (double)cols;
            d[marked * cols + j] = -others / (double)cols * (double)c->step.loss_factor;
        }
}

static void check_case(const span_case *c) {
    const size_t rows = (size_t)c->logits.t.rows, n = rows * (size_t)c->logits.t.cols;
    double *losses = malloc(rows * sizeof *losses), *d = malloc(n * sizeof *d);
    assert_true(losses && d);
    oracle(c, losses, d);
    float *got = run_everywhere(run_loss, c, rows + (c->gradient ? n : 0));
    assert_close("loss", got, losses, rows, 4e-7, 4e-7);
    if (c->gradient) assert_close("dlogits", got + rows, d, n, 1e-7 * (double)c->step.loss_factor, 1e-6);
    free(got);
    free(losses);
    free(d);
}

// marks: of every sequence and column a row that is drawn; with `sparse` every third of them has none.
static void draw_marks(span_case *c, bool sparse) {
    memset(c->marks, 0, sizeof c->marks);
    for (int32_t s = 0, k = 0; s < c->sequences; s++)
        for (int64_t j = 0; j < c->logits.t.cols; j++, k++)
            if (!sparse || k % 3 != 2) c->marks[(int)uniform(c->cu_rows[s], c->cu_rows[s + 1])] |= 1 << j;
}

static void test_losses_and_gradients(void **state) {
    static const int32_t lengths[][MOST_SEQUENCES] = {{1}, {2}, {5, 1, 16, 17}, {300, 3}, {31, 32, 33, 255, 256, 257}, {1030, 1, 700}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int64_t cols = 1; cols <= 3; cols++)
            for (int gradient = NO_GRADIENT; gradient <= IN_PLACE; gradient++) {
                span_case c = {.gradient = gradient, .step = {.loss_factor = 1.0f / 32, .loss_scale = 1}};
                for (; lengths[i][c.sequences] > 0; c.sequences++) c.cu_rows[c.sequences + 1] = c.cu_rows[c.sequences] + lengths[i][c.sequences];
                c.logits = fenced_random(c.cu_rows[c.sequences], cols, (int64_t)i % 3, (double[]){0.02, 3, 40}[(size_t)cols - 1], 0);
                draw_marks(&c, i % 2 == 1);
                if (i == 3) c.marks[299] |= 3; // a second row: the first one counts
                check_case(&c);
                fenced_free(c.logits);
            }
}

// How a step is cut changes no bit: a sequence among others, and alone.
static void test_a_sequence_alone_has_the_same_bits(void **state) {
    span_case all = {.gradient = APART, .sequences = 3, .cu_rows = {0, 40, 45, 145}, .step = {.loss_factor = 0.125f, .loss_scale = 1}};
    all.logits = fenced_random(145, 2, 1, 3, 0);
    draw_marks(&all, false);
    float *whole = run_everywhere(run_loss, &all, 145 * 3);
    for (int s = 0; s < 3; s++) {
        const int32_t begin = all.cu_rows[s], rows = all.cu_rows[s + 1] - begin;
        span_case one = all;
        one.sequences = 1;
        one.cu_rows[1] = rows;
        one.logits = fenced_new(rows, 2, 0);
        for (int64_t i = 0; i < rows; i++) memcpy(at(one.logits.t, i, 0), at(all.logits.t, begin + i, 0), 2 * sizeof(float));
        memmove(one.marks, all.marks + begin, (size_t)rows * sizeof *one.marks);
        float *own = run_everywhere(run_loss, &one, (size_t)rows * 3);
        assert_memory_equal(own, whole + begin, (size_t)rows * sizeof *own);
        assert_memory_equal(own + rows, whole + 145 + 2 * begin, 2 * (size_t)rows * sizeof *own);
        free(own);
        fenced_free(one.logits);
    }
    free(whole);
    fenced_free(all.logits);
}

static void test_non_finite_logits(void **state) {
    span_case c = {.gradient = APART, .sequences = 3, .cu_rows = {0, 2, 4, 6}, .marks = {1, 0, 0, 1, 1, 0}, .step = {.loss_factor = 1, .loss_scale = 1}};
    c.logits = fenced_new(6, 1, 0);
    memcpy(c.logits.t.data, (float[]){1e30f, 0, 0, NAN, INFINITY, 0}, 6 * sizeof(float));
    float *got = run_everywhere(run_loss, &c, 12);
    assert_true(got[0] == 0 && got[6] == 0 && got[7] == 0);
    assert_true(isnan(got[3]) && !isfinite(got[4]));
    free(got);
    fenced_free(c.logits);
}

static void test_wrong_shapes_fail(void **state) {
    ft_device *device;
    assert_int_equal(test_open(1, &device), FT_OK);
    fenced logits = fenced_random(3, 2, 0, 1, 0), losses = fenced_new(1, 2, 0);
    int32_t marks[3] = {3}, bounds[2] = {0, 2};
    ft_span_cross_entropy_args args = {.logits = logits.t, .sequences = 1, .cu_rows = bounds, .marks = marks, .losses = losses.t};
    assert_int_equal(FT_RUN(device, span_cross_entropy, &args), FT_FAILED);
    assert_non_null(strstr(ft_error_where(), "span_cross_entropy"));
    args.logits = ft_rows(logits.t, 0, 2);
    assert_int_equal(FT_RUN(device, span_cross_entropy, &args), FT_OK); // no gradient wanted: no step needed
    args.dlogits = args.logits;
    assert_int_equal(FT_RUN(device, span_cross_entropy, &args), FT_FAILED);
    ft_error_clear();
    fenced_free(logits);
    fenced_free(losses);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_and_gradients),
        cmocka_unit_test(test_a_sequence_alone_has_the_same_bits),
        cmocka_unit_test(test_non_finite_logits),
        cmocka_unit_test(test_wrong_shapes_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
