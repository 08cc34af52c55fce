// Losses and their gradients against PyTorch in float64 (vectors/losses.txt), on every instruction set and number of threads;
// extremes, absent arguments, shapes.
// ctest: emulated=yes
#include "elementwise.h"

enum { MOST_ROWS = 64, MOST_COLS = 32 };

typedef enum which { CROSS_ENTROPY, BINARY, SQUARES } which; // of the first also with two labels

typedef struct loss_case {
    which op;
    fenced logits, targets, weight;
    bool mixed;
    int32_t labels[MOST_ROWS], other[MOST_ROWS];
    float share[MOST_ROWS], smoothing, gamma;
    ft_step_state step;
    enum { NO_GRADIENT, APART, IN_PLACE } gradient;
} loss_case;

static void run_loss(ft_device *device, const void *test_case, float *out) {
    const loss_case *c = test_case;
    int64_t rows = c->logits.t.rows, cols = c->logits.t.cols;
    fenced x = fenced_copy(c->logits), losses = fenced_new(1, rows, 0);
    fenced d = c->gradient == APART ? fenced_new(rows, cols, 2) : fenced_none();
    ft_tensor dx = c->gradient == IN_PLACE ? x.t : d.t;
    const ft_step_state *step = c->gradient == NO_GRADIENT ? NULL : &c->step;
    if (c->op == CROSS_ENTROPY)
        RUN_OP(device, weighted_cross_entropy,
               ((ft_weighted_cross_entropy_args){.logits = x.t, .labels = c->labels, .other = c->mixed ? c->other : NULL, .share = c->mixed ? c->share : NULL,
                                                 .class_weight = c->weight.t, .smoothing = c->smoothing,
                                                 .gamma = c->gamma, .step = step, .losses = losses.t, .dlogits = dx}));
    else if (c->op == BINARY)
        RUN_OP(device, binary_cross_entropy,
               ((ft_binary_cross_entropy_args){.logits = x.t, .targets = c->targets.t, .positive_weight = c->weight.t, .gamma = c->gamma,
                                               .step = step, .losses = losses.t, .dlogits = dx}));
    else
        RUN_OP(device, squared_error,
               ((ft_squared_error_args){.logits = x.t, .targets = c->targets.t, .step = step, .losses = losses.t, .dlogits = dx}));
    out += fenced_flatten(losses, out);
    if (c->gradient == APART) fenced_flatten(d, out);
    if (c->gradient == IN_PLACE) fenced_flatten(x, out);
    if (c->gradient != IN_PLACE) assert_memory_equal(x.base, c->logits.base, x.total * sizeof(float));
    fenced_free(x);
    fenced_free(losses);
    fenced_free(d);
}

// ---- PyTorch ------------------------------------------------------------------------------------------------------

static double number(FILE *f) {
    double value;
    assert_int_equal(fscanf(f, "%lf", &value), 1);
    return value;
}

static void check_case(FILE *f, const char *name, int64_t rows, int64_t cols, int64_t gap) {
    static double loss[MOST_ROWS], slope[MOST_ROWS * MOST_COLS];
    loss_case c = {.op = strcmp(name, "binary") == 0 ? BINARY : strcmp(name, "squares") == 0 ? SQUARES : CROSS_ENTROPY,
                   .mixed = strcmp(name, "mixed") == 0, .step = {.loss_factor = 1.0f / 32, .loss_scale = 1}};
    assert_true(rows <= MOST_ROWS && cols <= MOST_COLS);
    c.smoothing = (float)number(f);
    c.gamma = (float)number(f);
    bool weighted = number(f) != 0;
    c.weight = weighted ? fenced_new(1, cols, 0) : fenced_none();
    for (int64_t k = 0; weighted && k < cols; k++) *at(c.weight.t, 0, k) = (float)number(f);
    c.logits = fenced_new(rows, cols, gap);
    c.targets = c.op == CROSS_ENTROPY ? fenced_none() : fenced_new(rows, cols, gap);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < cols; k++) *at(c.logits.t, i, k) = (float)number(f);
        if (c.op == CROSS_ENTROPY) c.labels[i] = (int32_t)number(f);
        if (c.mixed) c.other[i] = (int32_t)number(f), c.share[i] = (float)number(f);
        for (int64_t k = 0; c.op != CROSS_ENTROPY && k < cols; k++) *at(c.targets.t, i, k) = (float)number(f);
        loss[i] = number(f);
        for (int64_t k = 0; k < cols; k++) slope[i * cols + k] = number(f) * (double)c.step.loss_factor;
    }
    for (int g = NO_GRADIENT; g <= IN_PLACE; g++) {
        c.gradient = g;
        size_t n = (size_t)rows + (g != NO_GRADIENT ? (size_t)(rows * cols) : 0);
        float *got = run_everywhere(run_loss, &c, n);
        assert_close("loss", got, loss, (size_t)rows, 1e-12, 1e-7);
        if (g != NO_GRADIENT) assert_close("gradient", got + rows, slope, n - (size_t)rows, 1e-14, 1e-7);
        free(got);
    }
    fenced_free(c.logits);
    fenced_free(c.targets);
    fenced_free(c.weight);
}

static void test_matches_pytorch(void **state) {
    FILE *f = fopen(FT_TEST_VECTORS "/losses.txt", "r");
    assert_non_null(f);
    char name[32];
    long long rows, cols;
    int cases = 0;
    for (; fscanf(f, "%31s %lld %lld", name, &rows, &cols) == 3; cases++) check_case(f, name, rows, cols, cases % 3);
    assert_true(feof(f));
    assert_int_equal(cases, 24);
    fclose(f);
}

// ---- by hand ------------------------------------------------------------------------------------------------------

static void set_row(fenced f, int64_t row, const float *values) { memcpy(at(f.t, row, 0), values, (size_t)f.t.cols * sizeof(float)); }

static void test_extremes(void **state) {
    loss_case c = {.op = BINARY, .logits = fenced_new(3, 2, 0), .targets = fenced_new(3, 2, 0), .weight = fenced_none(), .gradient = APART,
                   .step = {.loss_factor = 1, .loss_scale = 1}};
    set_row(c.logits, 0, (const float[]){1e30f, -1e30f}), set_row(c.targets, 0, (const float[]){1, 0}); // sure and right
    set_row(c.logits, 1, (const float[]){1e30f, -1e30f}), set_row(c.targets, 1, (const float[]){0, 1}); // sure and wrong
    set_row(c.logits, 2, (const float[]){NAN, 0}), set_row(c.targets, 2, (const float[]){0, 1});
    for (int gamma = 0; gamma < 3; gamma += 2) {
        c.gamma = (float)gamma;
        float *got = run_everywhere(run_loss, &c, 3 + 6), *d = got + 3;
        assert_true(got[0] == 0 && d[0] == 0 && d[1] == 0);
        assert_true(got[1] == 1e30f && isnan(got[2]));
        assert_true(d[2] == 0.5f && d[3] == -0.5f);
        free(got);
    }
    loss_case s = {.op = CROSS_ENTROPY, .logits = fenced_new(4, 2, 0), .targets = fenced_none(), .weight = fenced_none(), .gradient = APART,
                   .labels = {0, 1, 0, 1}, .step = {.loss_factor = 1, .loss_scale = 1}};
    set_row(s.logits, 0, (const float[]){1e30f, 0});
    set_row(s.logits, 1, (const float[]){1e30f, 0});
    set_row(s.logits, 2, (const float[]){NAN, 0});
    set_row(s.logits, 3, (const float[]){0, 40}); // p is 1 in double, 1 - p is not 0
    for (int i = 0; i < 3; i++) {
        s.gamma = (float[]){0, 0.5f, 2}[i];
        float *got = run_everywhere(run_loss, &s, 4 + 8), *d = got + 4;
        assert_true(got[0] == 0 && d[0] == 0 && d[1] == 0);
        assert_true(got[1] == 1e30f && d[2] == 1 && d[3] == -1);
        assert_true(isnan(got[2]) && got[3] >= 0 && d[6] == -d[7]);
        assert_true(s.gamma > 1 || d[7] < 0); // its cube is below what fp32 has
        free(got);
    }
    fenced_free(c.logits), fenced_free(c.targets), fenced_free(s.logits);
}

static void test_wrong_arguments_fail(void **state) {
    ft_device *device;
    assert_int_equal(test_open(1, &device), FT_OK);
    fenced x = fenced_random(3, 4, 0, 1, 0), t = fenced_random(3, 4, 0, 1, 0), losses = fenced_new(1, 3, 0), w = fenced_random(1, 3, 0, 1, 0);
    int32_t labels[3] = {0};
    ft_step_state step = {.loss_factor = 1, .loss_scale = 1};
    ft_weighted_cross_entropy_args ce = {.logits = x.t, .labels = labels, .losses = losses.t};
    assert_int_equal(FT_RUN(device, weighted_cross_entropy, &ce), FT_OK);
    ce.smoothing = 0.1f, ce.gamma = 1;
    assert_int_equal(FT_RUN(device, weighted_cross_entropy, &ce), FT_FAILED); // one or the other
    ce.gamma = 0, ce.class_weight = w.t;
    assert_int_equal(FT_RUN(device, weighted_cross_entropy, &ce), FT_FAILED); // 3 weights, 4 classes
    assert_non_null(strstr(ft_error_where(), "weighted_cross_entropy"));
    const float share[3] = {0.5f, 1, 0};
    ce.class_weight = ft_absent(), ce.smoothing = 0, ce.other = labels;
    assert_int_equal(FT_RUN(device, weighted_cross_entropy, &ce), FT_FAILED); // by which share?
    ce.share = share;
    assert_int_equal(FT_RUN(device, weighted_cross_entropy, &ce), FT_OK);
    ce.gamma = 1;
    assert_int_equal(FT_RUN(device, weighted_cross_entropy, &ce), FT_FAILED); // the focal loss is of one label
    ft_binary_cross_entropy_args bce = {.logits = x.t, .targets = t.t, .losses = losses.t, .step = &step};
    assert_int_equal(FT_RUN(device, binary_cross_entropy, &bce), FT_OK);
    bce.targets = ft_rows(t.t, 0, 2);
    assert_int_equal(FT_RUN(device, binary_cross_entropy, &bce), FT_FAILED);
    ft_squared_error_args mse = {.logits = x.t, .targets = t.t, .losses = losses.t, .dlogits = x.t};
    assert_int_equal(FT_RUN(device, squared_error, &mse), FT_FAILED); // a gradient needs a step
    mse.step = &step;
    assert_int_equal(FT_RUN(device, squared_error, &mse), FT_OK);
    ft_error_clear();
    fenced_free(x), fenced_free(t), fenced_free(losses), fenced_free(w);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_matches_pytorch), cmocka_unit_test(test_extremes),
                                       cmocka_unit_test(test_wrong_arguments_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
