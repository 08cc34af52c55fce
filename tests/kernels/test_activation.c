// ctest: emulated=yes
#include "elementwise.h"

// ---- the activations and their derivatives in float64 -------------------------------------------------------------
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double value(ft_activation kind, double x) {
    switch (kind) {
    case FT_ACT_GELU: return 0.5 * x * erfc(-x * M_SQRT1_2);
    case FT_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case FT_ACT_RELU: return x > 0 ? x : 0;
    case FT_ACT_TANH: return tanh(x);
    case FT_ACT_SILU: return x * sigmoid(x);
    case FT_ACT_QUICK_GELU: return x * sigmoid(1.702 * x);
    case FT_ACT_MISH: return x * tanh(log1p(exp(x)));
    case FT_ACT_GELU_10: return fmin(10, 0.5 * x * erfc(-x * M_SQRT1_2));
    case FT_ACT_SIGMOID: return sigmoid(x);
    case FT_ACT_LEAKY_RELU: return x > 0 ? x : 0.01 * x;
    case FT_ACT_RELU6: return fmin(6, fmax(0, x));
    case FT_ACT_HARDSWISH: return x <= -3 ? 0 : x * fmin(6, x + 3) / 6;
    case FT_ACT_LAPLACE: return 0.5 * erfc((0.707107 - x) / (0.282095 * M_SQRT2));
    case FT_ACT_SQRTSOFTPLUS: return sqrt(fmax(x, 0) + log1p(exp(-fabs(x))));
    default: return x;
    }
}
static double slope(ft_activation kind, double x) {
    switch (kind) {
    case FT_ACT_GELU: return 0.5 * erfc(-x * M_SQRT1_2) + x * exp(-0.5 * x * x) / sqrt(2 * M_PI);
    case FT_ACT_GELU_TANH: {
        double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), t = tanh(u);
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    }
    case FT_ACT_RELU: return x > 0;
    case FT_ACT_TANH: return 1 - tanh(x) * tanh(x);
    case FT_ACT_SILU: return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
    case FT_ACT_GELU_10: return value(kind, x) < 10 || x <= 10 ? slope(FT_ACT_GELU, x) : 0;
    case FT_ACT_SIGMOID: return sigmoid(x) * sigmoid(-x);
    case FT_ACT_LEAKY_RELU: return x > 0 ? 1 : 0.01;
    case FT_ACT_RELU6: return x > 0 && x < 6;
    case FT_ACT_HARDSWISH: return x > 3 ? 1 : x < -3 ? 0 : x / 3 + 0.5;
    case FT_ACT_LAPLACE: return exp(-0.5 * pow((x - 0.707107) / 0.282095, 2)) / (0.282095 * sqrt(2 * M_PI));
    case FT_ACT_SQRTSOFTPLUS: return 0.5 * sigmoid(x) / value(kind, x);
    case FT_ACT_QUICK_GELU: return sigmoid(1.702 * x) * (1 + 1.702 * x * (1 - sigmoid(1.702 * x)));
    case FT_ACT_MISH: {
        double t = tanh(log1p(exp(x)));
        return t + x * (1 - t * t) * sigmoid(x);
    }
    default: return 1;
    }
}

static void test_the_oracle_s_slopes_are_those_of_its_values(void **state) {
    for (int kind = 0; kind < FT_ACT_COUNT; kind++)
        for (double x = -9.03; x < 9; x += 0.1) {
            double e = 1e-5, numeric = (value(kind, x + e) - value(kind, x - e)) / (2 * e);
            if (!(fabs(numeric - slope(kind, x)) < 1e-8)) fail_msg("%s at %g", ft_activation_name(kind), x);
        }
}

// ---- accuracy over the whole range --------------------------------------------------------------------------------
typedef struct act_case {
    ft_activation kind;
    fenced x, bias, dy;
    bool keep_h, recompute_y;
    int64_t split; // backward in two calls, the second from this row on; 0: one call
    enum { APART, H_IS_X, ALL_IN_PLACE } alias;
} act_case;

static void run_forward(ft_device *device, const void *test_case, float *out) {
    const act_case *c = test_case;
    fenced x = fenced_copy(c->x);
    fenced h = c->keep_h && c->alias == APART ? fenced_new(x.t.rows, x.t.cols, 5) : fenced_none();
    fenced y = c->alias == ALL_IN_PLACE ? fenced_none() : fenced_new(x.t.rows, x.t.cols, 0);
    ft_activation_forward_args args = {.kind = c->kind, .x = x.t, .bias = c->bias.t, .h = h.t, .y = y.t};
    if (c->alias == H_IS_X) args.h = x.t;
    if (c->alias == ALL_IN_PLACE) args.y = x.t;
    RUN_OP(device, activation_forward, args);
    out += fenced_flatten(c->alias == ALL_IN_PLACE ? x : y, out);
    if (c->keep_h) {
        fenced kept = c->alias == H_IS_X ? x : h;
        fenced_flatten(kept, out);
    }
    fenced_free(x);
    fenced_free(h);
    fenced_free(y);
}

static void run_backward(ft_device *device, const void *test_case, float *out) {
    const act_case *c = test_case;
    int64_t rows = c->x.t.rows, cols = c->x.t.cols;
    fenced dy = fenced_copy(c->dy);
    fenced dx = c->alias == ALL_IN_PLACE ? fenced_none() : fenced_new(rows, cols, 3);
    const bool into_h = c->alias == ALL_IN_PLACE && c->recompute_y;
    fenced h = into_h ? fenced_copy(c->x) : c->x, y = into_h ? h : c->recompute_y ? fenced_new(rows, cols, 1) : fenced_none();
    fenced dbias = c->bias.base ? fenced_copy(c->bias) : fenced_none(); // starts from whatever is there
    ft_tensor to = c->alias == ALL_IN_PLACE ? dy.t : dx.t;
    for (int part = 0; part < (c->split ? 2 : 1); part++) {
        int64_t first = part ? c->split : 0, count = !c->split ? rows : part ? rows - c->split : c->split;
        ft_activation_backward_args args = {.kind = c->kind,
                                            .h = ft_rows(h.t, first, count),
                                            .dy = ft_rows(dy.t, first, count),
                                            .dx = ft_rows(to, first, count),
                                            .y = ft_rows(y.t, first, count),
                                            .dbias = dbias.t};
        RUN_OP(device, activation_backward, args);
    }
    out += fenced_flatten(c->alias == ALL_IN_PLACE ? dy : dx, out);
    if (c->recompute_y) out += fenced_flatten(y, out);
    if (dbias.base) fenced_flatten(dbias, out);
    fenced_free(dy);
    fenced_free(dx);
    fenced_free(y);
    fenced_free(dbias);
}

static void test_accuracy_over_the_whole_range(void **state) {
    enum { N = 4001 };
    for (int kind = 0; kind < FT_ACT_COUNT; kind++) {
        act_case c = {.kind = kind, .x = fenced_new(3, N, 0), .dy = fenced_new(3, N, 0), .bias = fenced_none()};
        for (int i = 0; i < 3 * N; i++) {
            int row = i / N, j = i % N;
            double range[] = {0.5, 12, 300};
            *at(c.x.t, row, j) = (float)(range[row] * (j - N / 2) / (N / 2));
            *at(c.dy.t, row, j) = 1;
        }
        double *want = malloc(3 * N * sizeof *want), *want_slope = malloc(3 * N * sizeof *want);
        assert_true(want && want_slope);
        for (int i = 0; i < 3 * N; i++) {
            want[i] = value(kind, (double)*at(c.x.t, i / N, i % N));
            want_slope[i] = slope(kind, (double)*at(c.x.t, i / N, i % N));
        }
        float *y = run_everywhere(run_forward, &c, 3 * N), *dx = run_everywhere(run_backward, &c, 3 * N);
        assert_close(ft_activation_name(kind), y, want, N, 1.5e-7, 0); // |x| <= 0.5
        assert_close(ft_activation_name(kind), y, want, 2 * N, 2e-7, 1e-7);
        assert_close(ft_activation_name(kind), y, want, 3 * N, 2e-7, 1.2e-7);
        assert_close(ft_activation_name(kind), dx, want_slope, 3 * N, 6e-7, 0);
        free(y);
        free(dx);
        free(want);
        free(want_slope);
        fenced_free(c.x);
        fenced_free(c.dy);
    }
}

static void test_special_values(void **state) {
    for (int kind = 0; kind < FT_ACT_COUNT; kind++) {
        act_case c = {.kind = kind, .x = fenced_new(1, 5, 0), .dy = fenced_new(1, 5, 0), .bias = fenced_none()};
        float special[5] = {NAN, INFINITY, -0.0f, 3.0e38f, -3.0e38f};
        memcpy(c.x.t.data, special, sizeof special);
        for (int i = 0; i < 5; i++)
            *at(c.dy.t, 0, i) = 1;
        float *y = run_everywhere(run_forward, &c, 5), *dx = run_everywhere(run_backward, &c, 5);
        // A NaN must reach the loss: it is how a diverged run is noticed.
        assert_true(isnan(y[0]));
        const bool straight = kind == FT_ACT_RELU || kind == FT_ACT_IDENTITY || kind == FT_ACT_LEAKY_RELU || kind == FT_ACT_RELU6;
        const bool root = kind == FT_ACT_SQRTSOFTPLUS; // which ends at no constant and no line
        if (!straight) assert_true(isnan(dx[0]));
        for (int i = 1; i < 5; i++) {
            const double want = value(kind, i == 1 ? 1e300 : (double)special[i]);
            if (want == 1e300 || (root && i == 1)) assert_true(isinf(y[i]) && y[i] > 0);
            else if (!(fabs((double)y[i] - want) <= 1.2e-7 * fabs(want) + (root ? 1e-17 : i == 2 && want != 0 ? 1e-8 : 1e-30)))
                fail_msg("%s of %g is %g, should be %g", ft_activation_name(kind), (double)special[i], (double)y[i], want);
        }
        for (int i = 3; i < 5; i++)
            assert_true(fabs((double)dx[i] - slope(kind, i == 4 ? -300 : root ? 3e38 : 300)) < 1e-6);
        free(y);
        free(dx);
        fenced_free(c.x);
        fenced_free(c.dy);
    }
}

// ---- shapes, options and aliases ----------------------------------------------------------------------------------
static void check_case(act_case *c) {
    int64_t rows = c->x.t.rows, cols = c->x.t.cols;
    size_t n = (size_t)(rows * cols);
    double *h = malloc(n * sizeof *h), *want = malloc(n * sizeof *want), *sums = calloc((size_t)cols, sizeof *sums);
    assert_true(h && want && sums);

    size_t forward_count = c->keep_h ? 2 * n : n;
    float *got = run_everywhere(run_forward, c, forward_count);
    for (size_t i = 0; i < n; i++) {
        int64_t row = (int64_t)i / cols, col = (int64_t)i % cols;
        h[i] = (double)*at(c->x.t, row, col) + (c->bias.base ? (double)*at(c->bias.t, 0, col) : 0);
        want[i] = value(c->kind, h[i]);
    }
    assert_close("y", got, want, n, 4e-7, 3e-7);
    if (c->keep_h) assert_close("h", got + n, h, n, 0, 1e-7);
    free(got);

    size_t total = n * (c->recompute_y ? 2 : 1) + (c->bias.base ? (size_t)cols : 0);
    got = run_everywhere(run_backward, c, total);
    for (int64_t j = 0; j < cols; j++)
        sums[j] = c->bias.base ? (double)*at(c->bias.t, 0, j) : 0;
    for (size_t i = 0; i < n; i++) {
        int64_t row = (int64_t)i / cols, col = (int64_t)i % cols;
        double x = (double)*at(c->x.t, row, col);
        h[i] = value(c->kind, x);
        want[i] = (double)*at(c->dy.t, row, col) * slope(c->kind, x);
        sums[col] += want[i];
    }
    assert_close("dx", got, want, n, 2e-6, 1e-6);
    if (c->recompute_y) { // the very bits of the forward, or keeping and recomputing would train differently
        act_case plain = {.kind = c->kind, .x = c->x, .bias = fenced_none()};
        float *forward = run_everywhere(run_forward, &plain, n);
        assert_memory_equal(got + n, forward, n * sizeof *got);
        free(forward);
        assert_close("recomputed y", got + n, h, n, 4e-7, 3e-7);
    }
    if (c->bias.base) assert_close("dbias", got + total - cols, sums, (size_t)cols, 3e-6 * (double)(rows + 10), 0);
    if (c->bias.base) { // the chain of a column is the same when the rows come in two calls
        for (int64_t split = 1; split<rows; split += rows> 7 ? rows / 3 : 1) {
            act_case in_two = *c;
            in_two.split = split;
            float *again = run_everywhere(run_backward, &in_two, total);
            assert_same_chain(got, again, total);
            free(again);
        }
    }
    free(got);
    free(h);
    free(want);
    free(sums);
}

static void test_shapes_options_and_aliases(void **state) {
    static const int64_t shapes[][2] = {{1, 1}, {1, 7}, {5, 33}, {7, 384}, {3, 1030}, {300, 65}};
    int count = 0; // the last shape is large enough for four threads
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (int kind = 0; kind < FT_ACT_COUNT; kind++)
            for (int alias = APART; alias <= ALL_IN_PLACE; alias++, count++) {
                int64_t rows = shapes[s][0], cols = shapes[s][1];
                act_case c = {.kind = kind, .alias = alias, .keep_h = alias == H_IS_X || (alias == APART && count % 2)};
                c.recompute_y = count % 3 != 0;
                c.x = fenced_random(rows, cols, count % 4, 2, 0);
                c.dy = fenced_random(rows, cols, 0, 1, 0);
                c.bias = count % 5 < 3 ? fenced_random(1, cols, 0, 1, 0) : fenced_none();
                check_case(&c);
                fenced_free(c.x);
                fenced_free(c.dy);
                fenced_free(c.bias);
            }
}

static void test_no_rows_is_no_work(void **state) {
    ft_device *device;
    assert_int_equal(test_open(2, &device), FT_OK);
    fenced x = fenced_new(1, 8, 0), dbias = fenced_random(1, 8, 0, 1, 0), before = fenced_copy(dbias);
    ft_tensor none = ft_rows(x.t, 0, 0);
    RUN_OP(device, activation_forward, ((ft_activation_forward_args){.kind = FT_ACT_GELU, .x = none, .y = none}));
    RUN_OP(device, activation_backward,
           ((ft_activation_backward_args){.kind = FT_ACT_GELU, .h = none, .dy = none, .dx = none, .dbias = dbias.t}));
    assert_memory_equal(dbias.base, before.base, dbias.total * sizeof(float));
    for (int i = 0; i < 8; i++)
        assert_memory_equal(at(x.t, 0, i), x.base, sizeof(float));
    fenced_free(x);
    fenced_free(dbias);
    fenced_free(before);
    ft_device_close(device);
}

static void test_shapes_that_disagree_fail(void **state) {
    ft_device *device;
    assert_int_equal(test_open(1, &device), FT_OK);
    fenced x = fenced_random(3, 8, 0, 1, 0), y = fenced_random(3, 9, 0, 1, 0);
    ft_activation_forward_args forward = {.kind = FT_ACT_GELU, .x = x.t, .y = y.t};
    assert_int_equal(FT_RUN(device, activation_forward, &forward), FT_FAILED);
    assert_non_null(strstr(ft_error_where(), "activation_forward"));
    forward.y = x.t;
    forward.kind = FT_ACT_COUNT;
    assert_int_equal(FT_RUN(device, activation_forward, &forward), FT_FAILED);
    ft_activation_backward_args backward = {.kind = FT_ACT_GELU, .h = x.t, .dy = x.t, .dx = x.t, .dbias = y.t};
    assert_int_equal(FT_RUN(device, activation_backward, &backward), FT_FAILED);
    assert_non_null(strstr(ft_error_where(), "activation_backward"));
    ft_error_clear();
    fenced_free(x);
    fenced_free(y);
    ft_device_close(device);
}

// ---- transformers -------------------------------------------------------------------------------------------------
// Of every name that both know: activations.txt has value and slope (make_activation_vectors.py).
static void test_values_of_transformers(void **state) {
    FILE *file = fopen(FT_TEST_VECTORS "/activations.txt", "re");
    assert_non_null(file);
    char line[128], name[32] = "";
    ft_activation kind = FT_ACT_COUNT;
    int names = 0, points = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        double at_x, want[2];
        if (sscanf(line, "name %31s", name) == 1) {
            assert_int_equal(ft_activation_from_name(name, &kind), FT_OK);
            names++;
        }
        if (sscanf(line, "%lf %lf %lf", &at_x, &want[0], &want[1]) != 3) continue;
        act_case c = {.kind = kind, .x = fenced_new(1, 1, 0), .dy = fenced_new(1, 1, 0), .bias = fenced_none()};
        *at(c.x.t, 0, 0) = (float)at_x;
        *at(c.dy.t, 0, 0) = 1;
        float *y = run_everywhere(run_forward, &c, 1), *dx = run_everywhere(run_backward, &c, 1);
        assert_close(name, y, &want[0], 1, 2e-7, 1.2e-7);
        assert_close(name, dx, &want[1], 1, 6e-7, 0);
        free(y);
        free(dx);
        fenced_free(c.x);
        fenced_free(c.dy);
        points++;
    }
    fclose(file);
    assert_int_equal(names, 21);
    assert_int_equal(points, 21 * 25);
}

// ---- names --------------------------------------------------------------------------------------------------------
static void test_names(void **state) {
    static const struct {
        const char *name;
        ft_activation kind;
    } known[] = {{"gelu", FT_ACT_GELU},           {"gelu_python", FT_ACT_GELU},
                 {"gelu_new", FT_ACT_GELU_TANH},  {"gelu_pytorch_tanh", FT_ACT_GELU_TANH},
                 {"gelu_fast", FT_ACT_GELU_TANH}, {"relu", FT_ACT_RELU},
                 {"silu", FT_ACT_SILU},           {"swish", FT_ACT_SILU},
                 {"tanh", FT_ACT_TANH},           {"quick_gelu", FT_ACT_QUICK_GELU},
                 {"mish", FT_ACT_MISH},           {"linear", FT_ACT_IDENTITY}};
    ft_activation kind;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        kind = FT_ACT_COUNT;
        assert_int_equal(ft_activation_from_name(known[i].name, &kind), FT_OK);
        assert_int_equal(kind, known[i].kind);
    }
    for (int i = 0; i < FT_ACT_COUNT; i++) { // every kind has a name, and the name means that kind
        assert_int_equal(ft_activation_from_name(ft_activation_name((ft_activation)i), &kind), FT_OK);
        assert_int_equal(kind, i);
    }
    assert_string_equal(ft_activation_name(FT_ACT_GELU_TANH), "gelu_new");
    assert_string_equal(ft_activation_name(FT_ACT_COUNT), "?");
    kind = FT_ACT_MISH;
    assert_int_equal(ft_activation_from_name("gelu-new", &kind), FT_INVALID);
    assert_int_equal(kind, FT_ACT_MISH);
    assert_non_null(strstr(ft_error_message(), "'gelu-new'"));
    assert_non_null(strstr(ft_error_message(), "'gelu_new'"));
    assert_int_equal(ft_activation_from_name("an_activation_whose_name_is_longer_than_any_known_one", &kind),
                     FT_INVALID);
    assert_int_equal(ft_activation_from_name("", &kind), FT_INVALID);
    assert_int_equal(ft_activation_from_name(NULL, &kind), FT_INVALID);
    ft_error_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_oracle_s_slopes_are_those_of_its_values),
        cmocka_unit_test(test_accuracy_over_the_whole_range),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_values_of_transformers),
        cmocka_unit_test(test_shapes_options_and_aliases),
        cmocka_unit_test(test_no_rows_is_no_work),
        cmocka_unit_test(test_shapes_that_disagree_fail),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
