// ctest: emulated=yes
#include "elementwise.h"

enum { MOST_ROWS = 300 };

typedef struct loss_case {
    fenced logits;
    int32_t labels[MOST_ROWS];
    ft_step_state step;
    enum { NO_GRADIENT, APART, IN_PLACE } gradient;
} loss_case;

static void run_loss(ft_device *device, const void *test_case, float *out) {
    const loss_case *c = test_case;
    int64_t rows = c->logits.t.rows, cols = c->logits.t.cols;
    fenced logits = fenced_copy(c->logits), losses = fenced_new(1, rows, 0);
    fenced d = c->gradient == APART ? fenced_new(rows, cols, 2) : fenced_none();
    RUN_OP(device, cross_entropy,
           ((ft_cross_entropy_args){.logits = logits.t,
                                    .labels = c->labels,
                                    .step = &c->step,
                                    .losses = losses.t,
                                    .dlogits = c->gradient == IN_PLACE ? logits.t : d.t}));
    out += fenced_flatten(losses, out);
    if (c->gradient == APART) fenced_flatten(d, out);
    if (c->gradient == IN_PLACE) fenced_flatten(logits, out);
    if (c->gradient != IN_PLACE) assert_memory_equal(logits.base, c->logits.base, logits.total * sizeof(float));
    fenced_free(logits);
    fenced_free(losses);
    fenced_free(d);
}

// ---- the oracle ---------------------------------------------------------------------------------------------------
static double loss_of(const double *x, int64_t classes, int32_t label, double *d) {
    double most = x[0], sum = 0;
    for (int64_t c = 1; c < classes; c++)
        most = fmax(most, x[c]);
    for (int64_t c = 0; c < classes; c++)
        sum += exp(x[c] - most);
    for (int64_t c = 0; d && c < classes; c++) {
        d[c] = exp(x[c] - most) / sum;
        if (c != label) continue;
        double others = 0;
        for (int64_t o = 0; o < classes; o++)
            others += o == label ? 0 : exp(x[o] - most) / sum;
        d[c] = -others; // p - 1, without cancellation
    }
    return log(sum) + most - x[label];
}

static void test_the_oracle_s_gradient(void **state) {
    double x[5], d[5];
    for (int i = 0; i < 5; i++)
        x[i] = normal(2);
    for (int32_t label = 0; label < 5; label++) {
        loss_of(x, 5, label, d);
        for (int i = 0; i < 5; i++) {
            double keep = x[i], e = 1e-6;
            x[i] = keep + e;
            double up = loss_of(x, 5, label, NULL);
            x[i] = keep - e;
            double down = loss_of(x, 5, label, NULL);
            x[i] = keep;
            assert_true(fabs((up - down) / (2 * e) - d[i]) < 1e-8);
        }
    }
}

static void check_case(loss_case *c) {
    int64_t rows = c->logits.t.rows, cols = c->logits.t.cols;
    size_t n = (size_t)(rows * cols);
    double *x = malloc((size_t)cols * sizeof *x), *d = malloc((size_t)cols * sizeof *d);
    assert_true(x && d);
    float *got = run_everywhere(run_loss, c, (size_t)rows + (c->gradient ? n : 0));
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t j = 0; j < cols; j++)
            x[j] = (double)*at(c->logits.t, row, j);
        double loss = loss_of(x, cols, c->labels[row], d);
        assert_close("loss", got + row, &loss, 1, 2e-7, 2e-7);
        for (int64_t j = 0; j < cols; j++)
            d[j] *= (double)c->step.loss_factor;
        if (c->gradient)
            assert_close("dlogits", got + rows + row * cols, d, (size_t)cols, 1e-7 * (double)c->step.loss_factor, 5e-7);
    }
    free(got);
    free(x);
    free(d);
}

static void test_losses_and_gradients(void **state) {
    static const int64_t shapes[][2] = {{1, 2}, {3, 2}, {33, 3}, {5, 16}, {7, 17}, {300, 20}, {4, 1030}, {2, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int gradient = NO_GRADIENT; gradient <= IN_PLACE; gradient++)
            for (int scale = 0; scale < 3; scale++) {
                loss_case c = {.logits = fenced_random(shapes[i][0], shapes[i][1], (int64_t)i % 3,
                                                       (double[]){0.02, 3, 40}[scale], 0),
                               .gradient = gradient,
                               .step = {.loss_factor = 1.0f / 32, .loss_scale = 1}};
                for (int64_t row = 0; row < shapes[i][0]; row++)
                    c.labels[row] = (int32_t)uniform(0, (double)shapes[i][1]);
                c.labels[0] = (int32_t)shapes[i][1] - 1;
                check_case(&c);
                fenced_free(c.logits);
            }
}

static void test_huge_and_non_finite_logits(void **state) {
    loss_case c = {
        .logits = fenced_new(6, 3, 0), .gradient = APART, .step = {.loss_factor = 1, .loss_scale = 1}, .labels = {0, 1, 0, 0, 2, 0}};
    float x[6][3] = {{1e30f, 0, 0}, {1e30f, -1e30f, 0}, {-1e38f, -1e38f, -1e38f},
                     {NAN, 0, 1},   {1, 2, NAN},        {INFINITY, 0, 0}};
    memcpy(c.logits.t.data, x, sizeof x);
    float *got = run_everywhere(run_loss, &c, 6 + 18), *d = got + 6;
    assert_true(got[0] == 0 && d[0] == 0 && d[1] == 0 && d[2] == 0);
    assert_true(got[1] == 2e30f && d[3] == 1 && d[4] == -1);
    assert_true(fabs((double)got[2] - log(3)) < 1e-6);
    assert_true(isnan(got[3]) && isnan(got[4]) && !isfinite(got[5]));
    free(got);
    fenced_free(c.logits);
}

static void test_wrong_shapes_fail(void **state) {
    ft_device *device;
    assert_int_equal(test_open(1, &device), FT_OK);
    fenced logits = fenced_random(3, 4, 0, 1, 0), losses = fenced_new(1, 2, 0);
    int32_t labels[3] = {0};
    ft_cross_entropy_args args = {.logits = logits.t, .labels = labels, .losses = losses.t};
    assert_int_equal(FT_RUN(device, cross_entropy, &args), FT_FAILED);
    assert_non_null(strstr(ft_error_where(), "cross_entropy"));
    args.logits = ft_rows(logits.t, 0, 2);
    assert_int_equal(FT_RUN(device, cross_entropy, &args), FT_OK); // no gradient wanted: no step needed
    args.dlogits = args.logits;
    assert_int_equal(FT_RUN(device, cross_entropy, &args), FT_FAILED);
    ft_error_clear();
    fenced_free(logits);
    fenced_free(losses);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_oracle_s_gradient),
        cmocka_unit_test(test_losses_and_gradients),
        cmocka_unit_test(test_huge_and_non_finite_logits),
        cmocka_unit_test(test_wrong_shapes_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
