// The ops over rows in bf16 and fp16, but for norms (test_half_norms.c), against float64: a result is what fp32
// arithmetic gives, rounded once; sums over rows stay fp32. Every case with views at 16-byte addresses and others, and in every order of threads, to the bit.
// ctest: emulated=yes
#include "half_case.h"

// ---- activations --------------------------------------------------------------------------------------------------

// y without h kept, h, y again in place of x, dx in place of dy, y once more, dbias
static void run_activation(ft_device *device, const void *test_case, bool whole, float *out) {
    const half_case *c = test_case;
    const int64_t rows = c->rows, cols = c->cols;
    typed x = typed_like(c->x.t, 3, whole), bias = typed_like(c->bias, 0, whole),
          h = typed_new(c->dtype, rows, cols, 1, whole);
    typed y = typed_new(c->dtype, rows, cols, 2, whole), dy = typed_like(c->dy.t, 0, whole),
          dbias = typed_new(FT_F32, 1, cols, 0, whole);
    for (int64_t j = 0; j < cols; j++)
        typed_set(dbias.t, 0, j, (double)(j % 3));
    ft_activation_forward_args forward = {
        .kind = c->kind, .x = x.t, .bias = c->optional ? bias.t : ft_absent(), .y = y.t};
    RUN_OP(device, activation_forward, forward);
    out += typed_flatten(y.t, out);
    forward.h = h.t;
    forward.y = x.t;
    RUN_OP(device, activation_forward, forward);
    out += typed_flatten(h.t, out);
    out += typed_flatten(x.t, out);
    RUN_OP(
        device, activation_backward,
        ((ft_activation_backward_args){.kind = c->kind, .h = h.t, .dy = dy.t, .dx = dy.t, .y = y.t, .dbias = dbias.t}));
    out += typed_flatten(dy.t, out);
    out += typed_flatten(y.t, out);
    typed_flatten(dbias.t, out);
    FREE_ALL(x, bias, h, y, dy, dbias);
}

// y = act(h) and its slope, from their definitions.
static double activate(ft_activation kind, double x, double *slope) {
    double e = exp(-x), s = 1 / (1 + e), u;
    switch (kind) {
    case FT_ACT_GELU:
        *slope = 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * acos(-1));
        return x * 0.5 * erfc(-x / sqrt(2));
    case FT_ACT_GELU_TANH:
        u = tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x));
        *slope = 0.5 * (1 + u) + 0.5 * x * (1 - u * u) * sqrt(2 / acos(-1)) * (1 + 3 * 0.044715 * x * x);
        return 0.5 * x * (1 + u);
    case FT_ACT_RELU: *slope = x > 0; return x > 0 ? x : 0;
    case FT_ACT_TANH: *slope = 1 - tanh(x) * tanh(x); return tanh(x);
    case FT_ACT_SILU: *slope = s + x * s * (1 - s); return x * s;
    case FT_ACT_QUICK_GELU:
        s = 1 / (1 + exp(-1.702 * x));
        *slope = s + 1.702 * x * s * (1 - s);
        return x * s;
    case FT_ACT_MISH:
        u = tanh(log1p(exp(x)));
        *slope = u + x * (1 - u * u) * s;
        return x * u;
    case FT_ACT_GELU_10:
        if (x <= 10) return activate(FT_ACT_GELU, x, slope);
        *slope = 0;
        return 10;
    case FT_ACT_SIGMOID: *slope = s * (1 - s); return s;
    case FT_ACT_LEAKY_RELU: *slope = x > 0 ? 1 : 0.01; return x * *slope;
    case FT_ACT_RELU6: *slope = x > 0 && x < 6; return fmin(6, fmax(0, x));
    case FT_ACT_HARDSWISH: *slope = x > 3 ? 1 : x < -3 ? 0 : x / 3 + 0.5; return x <= -3 ? 0 : x * fmin(6, x + 3) / 6;
    case FT_ACT_LAPLACE:
        u = (x - 0.707107) / 0.282095;
        *slope = exp(-0.5 * u * u) / (0.282095 * sqrt(2 * acos(-1)));
        return 0.5 * erfc(-u / sqrt(2));
    case FT_ACT_SQRTSOFTPLUS:
        u = sqrt(fmax(x, 0) + log1p(exp(-fabs(x))));
        *slope = 0.5 * s / u;
        return u;
    default: *slope = 1; return x;
    }
}

static void check_activation(half_case *c) {
    const int64_t rows = c->rows, cols = c->cols, n = rows * cols;
    float *got = run_typed(run_activation, c, (size_t)(5 * n + cols));
    const float *h_got = got + n, *dx_got = got + 3 * n, *again = got + 4 * n, *dbias_got = got + 5 * n;
    double *h = doubles(n), *y = doubles(n), *dx = doubles(n), *from_h = doubles(n), *dbias = doubles(cols);
    for (int64_t j = 0; j < cols; j++)
        dbias[j] = (double)(j % 3);
    for (int64_t i = 0; i < n; i++) {
        double slope;
        h[i] = typed_get(c->x.t, i / cols, i % cols) + (c->optional ? typed_get(c->bias, 0, i % cols) : 0);
        y[i] = activate(c->kind, h[i], &slope);
        from_h[i] = activate(c->kind, (double)h_got[i], &slope); // the backward pass knows h as it was stored
        dx[i] = typed_get(c->dy.t, i / cols, i % cols) * slope;
        dbias[i % cols] += dx[i];
    }
    const char *name = ft_activation_name(c->kind);
    assert_rounded("h", c->dtype, h_got, h, (size_t)n);
    assert_rounded(name, c->dtype, got, y, (size_t)n);
    assert_memory_equal(got, got + 2 * n, (size_t)n * sizeof *got); // whether h is kept or not
    assert_rounded(name, c->dtype, again, from_h, (size_t)n);
    assert_rounded(name, c->dtype, dx_got, dx, (size_t)n);
    assert_summed("dbias", dbias_got, dbias, (size_t)cols);
    free(got);
    free(h);
    free(y);
    free(dx);
    free(from_h);
    free(dbias);
}

static void test_activations(void **state) {
    for (int type = 0; type < 2; type++)
        for (int kind = 0; kind < FT_ACT_COUNT; kind++)
            for (int i = 0; i < SHAPES; i++) {
                if (kind != FT_ACT_GELU && i != 3 && i != 5) continue;
                half_case *c = case_new(half_types[type], shapes[i][0], shapes[i][1], 0);
                c->kind = (ft_activation)kind;
                c->optional = (i + kind) % 3 != 0;
                check_activation(c);
                case_free(c);
            }
}

// ---- sums over rows, embeddings -----------------------------------------------------------------------------------

static void run_column_sum(ft_device *device, const void *test_case, bool whole, float *out) {
    const half_case *c = test_case;
    typed x = typed_like(c->x.t, 3, whole), sum = typed_new(FT_F32, 1, c->cols, 0, whole);
    for (int64_t j = 0; j < c->cols; j++)
        typed_set(sum.t, 0, j, 10);
    RUN_OP(device, column_sum, ((ft_column_sum_args){.x = x.t, .out = sum.t}));
    typed_flatten(sum.t, out);
    FREE_ALL(x, sum);
}

enum { WORDS = 11, PADDING = 4 };
// The words' rows are x's first ones, again and again, the types' those of bias and gamma; gradients of 16 bits go to a
// table of fp32.
static void run_embedding(ft_device *device, const void *test_case, bool whole, float *out) {
    const half_case *c = test_case;
    typed word = typed_new(c->dtype, WORDS, c->cols, 0, whole), position = typed_like(c->residual.t, 0, whole);
    typed type = typed_like(ft_rows(c->vectors.t, 0, 2), 0, whole),
          sum = typed_new(c->dtype, c->rows, c->cols, 1, whole);
    typed dout = typed_like(c->dy.t, 3, whole), table = typed_new(FT_F32, WORDS, c->cols, 0, whole);
    int32_t words[MOST_ROWS], positions[MOST_ROWS], types[MOST_ROWS];
    for (int64_t i = 0; i < WORDS * c->cols; i++) {
        typed_set(word.t, i / c->cols, i % c->cols, typed_get(c->x.t, i / c->cols % c->rows, i % c->cols));
        typed_set(table.t, i / c->cols, i % c->cols, 1);
    }
    for (int64_t t = 0; t < c->rows; t++) {
        words[t] = (int32_t)(t * 7 % WORDS);
        positions[t] = (int32_t)(c->rows - 1 - t);
        types[t] = (int32_t)(t % 2);
    }
    RUN_OP(device, embedding_forward,
           ((ft_embedding_forward_args){.word_ids = words,
                                        .position_ids = positions,
                                        .type_ids = types,
                                        .word = word.t,
                                        .position = position.t,
                                        .type = c->optional ? type.t : ft_absent(),
                                        .out = sum.t}));
    out += typed_flatten(sum.t, out);
    int32_t order[MOST_ROWS], space[MOST_ROWS];
    ft_embedding_order(words, (int32_t)c->rows, order, space);
    RUN_OP(device, embedding_backward,
           ((ft_embedding_backward_args){
               .ids = words, .order = order, .dout = dout.t, .table_gradient = table.t, .padding_id = PADDING}));
    typed_flatten(table.t, out);
    FREE_ALL(word, position, type, sum, dout, table);
}

static void test_column_sum_and_embeddings(void **state) {
    for (int type = 0; type < 2; type++)
        for (int i = 0; i < SHAPES; i++) {
            half_case *c = case_new(half_types[type], shapes[i][0], shapes[i][1], 0);
            const int64_t rows = c->rows, cols = c->cols, n = rows * cols;
            c->optional = i % 2;
            float *sum = run_typed(run_column_sum, c, (size_t)cols);
            float *got = run_typed(run_embedding, c, (size_t)(n + WORDS * cols));
            double *of_columns = doubles(cols), *out = doubles(n), *table = doubles(WORDS * cols);
            for (int64_t k = 0; k < cols; k++)
                of_columns[k] = 10;
            for (int64_t k = 0; k < WORDS * cols; k++)
                table[k] = 1;
            for (int64_t t = 0; t < rows; t++)
                for (int64_t j = 0; j < cols; j++) {
                    const int64_t id = t * 7 % WORDS;
                    of_columns[j] += typed_get(c->x.t, t, j);
                    out[t * cols + j] = typed_get(c->x.t, id % rows, j) + typed_get(c->residual.t, rows - 1 - t, j) +
                                        (c->optional ? typed_get(c->vectors.t, t % 2, j) : 0);
                    if (id != PADDING) table[id * cols + j] += typed_get(c->dy.t, t, j);
                }
            assert_summed("column sum", sum, of_columns, (size_t)cols);
            assert_rounded("embedding", c->dtype, got, out, (size_t)n);
            assert_summed("gradient of the table", got + n, table, (size_t)(WORDS * cols));
            free(sum);
            free(got);
            free(of_columns);
            free(out);
            free(table);
            case_free(c);
        }
}

// ---- rows, windows ------------------------------------------------------------------------------------------------

enum { TAPS = 3 };
static const int32_t bounds[] = {0, 1, 3, 3, 6}; // of the last rows' windows: what lies beyond is the last sequence's

// Dropout apart and in place; rows gathered backwards; added to every second row of H, and of fp32; windows, and back.
static void run_rows(ft_device *device, const void *test_case, bool whole, float *out) {
    const half_case *c = test_case;
    const int64_t rows = c->rows, cols = c->cols;
    typed x = typed_like(c->x.t, 3, whole), y = typed_new(c->dtype, rows, cols, 1, whole),
          in_place = typed_like(c->x.t, 0, whole);
    typed many = typed_new(c->dtype, 2 * rows, cols, 2, whole), wide = typed_new(FT_F32, 2 * rows, cols, 1, whole);
    typed windows = typed_new(c->dtype, rows, cols * TAPS, 5, whole), folded = typed_like(c->wide_residual, 1, whole);
    int32_t backwards[MOST_ROWS], every_second[MOST_ROWS], cu_seqlens[5];
    for (int64_t t = 0; t < rows; t++) {
        backwards[t] = (int32_t)(rows - 1 - t);
        every_second[t] = (int32_t)(2 * t);
    }
    for (int i = 0; i < 5; i++)
        cu_seqlens[i] = (int32_t)(i == 4 || bounds[i] > rows ? rows : bounds[i]);
    RUN_OP(device, dropout, ((ft_dropout_args){.dropout = c->dropout, .x = x.t, .y = y.t}));
    RUN_OP(device, dropout, ((ft_dropout_args){.dropout = c->dropout, .x = in_place.t, .y = in_place.t}));
    assert_int_equal(typed_flatten(y.t, out), typed_flatten(in_place.t, out + rows * cols));
    out += 2 * rows * cols;
    RUN_OP(device, gather_rows, ((ft_gather_rows_args){.index = backwards, .x = x.t, .y = y.t}));
    out += typed_flatten(y.t, out);
    for (int64_t i = 0; i < 2 * rows * cols; i++) {
        typed_set(many.t, i / cols, i % cols, 0.75);
        typed_set(wide.t, i / cols, i % cols, 0.75);
    }
    RUN_OP(device, scatter_rows_add, ((ft_scatter_rows_add_args){.index = every_second, .x = x.t, .y = many.t}));
    RUN_OP(device, scatter_rows_add, ((ft_scatter_rows_add_args){.index = every_second, .x = x.t, .y = wide.t}));
    out += typed_flatten(many.t, out);
    out += typed_flatten(wide.t, out);
    RUN_OP(device, unfold,
           ((ft_unfold_args){.sequences = 4, .taps = TAPS, .cu_seqlens = cu_seqlens, .x = x.t, .y = windows.t}));
    out += typed_flatten(windows.t, out);
    RUN_OP(device, fold_add,
           ((ft_fold_add_args){.sequences = 4, .taps = TAPS, .cu_seqlens = cu_seqlens, .y = windows.t, .x = folded.t}));
    typed_flatten(folded.t, out);
    FREE_ALL(x, y, in_place, many, wide, windows, folded);
}

static int64_t neighbour(int64_t rows, int64_t t, int64_t by) { // -1: outside of the sequence
    for (int s = 0; s < 4; s++) {
        int64_t first = bounds[s] < rows ? bounds[s] : rows,
                last = s == 3 || bounds[s + 1] > rows ? rows : bounds[s + 1];
        if (t >= first && t < last) return t + by >= first && t + by < last ? t + by : -1;
    }
    return -1;
}

static void test_rows(void **state) {
    for (int type = 0; type < 2; type++)
        for (int i = 0; i < SHAPES; i++) {
            half_case *c = case_new(half_types[type], shapes[i][0], shapes[i][1], 0.25f);
            const int64_t rows = c->rows, cols = c->cols, n = rows * cols;
            float *got = run_typed(run_rows, c, (size_t)(8 * n + TAPS * n));
            const float *gathered = got + 2 * n, *many = got + 3 * n, *wide = got + 5 * n, *windows = got + 7 * n;
            double *dropped = doubles(n), *folded = doubles(n), *added = doubles(2 * n);
            for (int64_t t = 0; t < rows; t++)
                for (int64_t j = 0; j < cols; j++) {
                    const double x = typed_get(c->x.t, t, j);
                    dropped[t * cols + j] = x * dropout_factor(&c->dropout, t, j);
                    assert_true((double)gathered[(rows - 1 - t) * cols + j] == x);
                    added[2 * t * cols + j] = 0.75 + x;
                    added[(2 * t + 1) * cols + j] = 0.75;
                    folded[t * cols + j] = typed_get(c->wide_residual, t, j);
                    for (int k = 0; k < TAPS; k++) {
                        const int64_t from = neighbour(rows, t, k - 1);
                        const double want = from < 0 ? 0 : typed_get(c->x.t, from, j);
                        assert_true((double)windows[t * cols * TAPS + j * TAPS + k] == want);
                        const int64_t into = neighbour(rows, t, 1 - k); // whose window k has this row
                        if (into >= 0) folded[t * cols + j] += x;
                    }
                }
            assert_rounded("dropout", c->dtype, got, dropped, (size_t)n);
            assert_memory_equal(got, got + n, (size_t)n * sizeof *got);
            assert_rounded("scattered rows", c->dtype, many, added, (size_t)(2 * n));
            assert_summed("scattered rows in fp32", wide, added, (size_t)(2 * n));
            assert_summed("folded", windows + TAPS * n, folded, (size_t)n);
            free(got);
            free(dropped);
            free(folded);
            free(added);
            case_free(c);
        }
}

// ---- what is not finite -------------------------------------------------------------------------------------------

// A NaN reaches its own place and its own column's sums, and nothing else; what fp16 cannot hold becomes infinity.
static void test_nan_and_overflow(void **state) {
    for (int type = 0; type < 2; type++) {
        half_case *c = case_new(half_types[type], 37, 40, 0);
        const int64_t n = 37 * 40, bad = 5 * 40 + 3;
        typed_set(c->x.t, 5, 3, (double)NAN);
        c->kind = FT_ACT_GELU;
        float *act = run_typed(run_activation, c, (size_t)(5 * n + 40));
        for (int64_t i = 0; i < n; i++)
            assert_int_equal(isnan(act[i]), i == bad);
        for (int64_t j = 0; j < 40; j++)
            assert_int_equal(isnan(act[5 * n + j]), j == 3);
        free(act);
        typed_set(c->x.t, 5, 3, 60000); // of bf16 59,904
        typed_set(c->bias, 0, 3, 30000);
        act = run_typed(run_activation, c, (size_t)(5 * n + 40));
        assert_int_equal(isinf(act[n + bad]), half_types[type] == FT_F16);
        assert_true(act[n + bad] > 89000);
        free(act);
        case_free(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_column_sum_and_embeddings),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_nan_and_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
