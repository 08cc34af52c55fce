// The ops over rows in bf16 and fp16 against float64: a result is what fp32 arithmetic gives, rounded once; sums over
// rows stay fp32. Every case with views at 16-byte addresses and others, and in every order of threads, to the bit.
// ctest: emulated=yes
#include "half_matrix.h"

static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {5, 8}, {37, 40}, {9, 264}, {70, 33}, {130, 16}};
enum { SHAPES = sizeof shapes / sizeof shapes[0], MOST_ROWS = 130 };

// Everything a case may read; ops take what they need.
typedef struct half_case {
    int64_t rows, cols;
    ft_dtype dtype;
    typed x, residual, dy, vectors; // vectors: bias, and two more
    typed wide;                     // [2 * rows + 2, cols] fp32: what ops read in fp32 in every precision
    ft_tensor bias;
    ft_tensor wide_residual, wide_dy, gamma, beta; // of `wide`
    ft_activation kind;
    bool optional; // bias, residual, ... are there
    int keep;      // which views alias
    bool narrow;   // what adds up from layer to layer is of the rows' type too, not fp32
    ft_step_state step;
    int32_t slot[MOST_ROWS], position[MOST_ROWS];
    ft_dropout dropout;
} half_case;

static half_case *case_new(ft_dtype dtype, int64_t rows, int64_t cols, float probability) {
    half_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    *c = (half_case){.rows = rows, .cols = cols, .dtype = dtype, .optional = true};
    c->x = typed_random(dtype, rows, cols, 0, true, 1, 0.3);
    c->residual = typed_random(dtype, rows, cols, 0, true, 1, 0);
    c->dy = typed_random(dtype, rows, cols, 0, true, 1, 0);
    c->vectors = typed_random(dtype, 3, cols, 0, true, 0.4, 0.6);
    c->bias = ft_rows(c->vectors.t, 0, 1);
    c->wide = typed_random(FT_F32, 2 * rows + 2, cols, 0, true, 1, 0.3);
    c->wide_residual = ft_rows(c->wide.t, 0, rows);
    c->wide_dy = ft_rows(c->wide.t, rows, rows);
    c->gamma = ft_rows(c->wide.t, 2 * rows, 1);
    c->beta = ft_rows(c->wide.t, 2 * rows + 1, 1);
    c->step = (ft_step_state){.seed = 0x123456789ABCDEF0u, .step = 7, .loss_scale = 1};
    for (int64_t t = 0; t < rows; t++) {
        c->slot[t] = (int32_t)(t / 9);
        c->position[t] = (int32_t)(t % 9);
    }
    c->dropout = (ft_dropout){.probability = probability, .layer = 3, .site = FT_SITE_FFN_OUTPUT};
    c->dropout.step = &c->step;
    c->dropout.slot = c->slot;
    c->dropout.position = c->position;
    return c;
}
static void case_free(half_case *c) {
    typed all[] = {c->x, c->residual, c->dy, c->vectors, c->wide};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        typed_free(all[i]);
    free(c);
}
static double *doubles(int64_t n) {
    double *d = calloc((size_t)n + 1, sizeof *d);
    assert_non_null(d);
    return d;
}
static void free_all(typed *matrices, size_t n) {
    for (size_t i = 0; i < n; i++)
        typed_free(matrices[i]);
}
#define FREE_ALL(...)                                                                                                  \
    do {                                                                                                               \
        typed list_[] = {__VA_ARGS__};                                                                                 \
        free_all(list_, sizeof list_ / sizeof *list_);                                                                 \
    } while (0)

// ---- LayerNorm ----------------------------------------------------------------------------------------------------

// WIDE_IS_RESIDUAL: where there is no `wide`, s is.
enum { S_APART, S_IS_X, WIDE_IS_RESIDUAL, S_ABSENT, KEEPS };

static ft_tensor residual_of(const half_case *c) { return c->narrow ? c->residual.t : c->wide_residual; }
static ft_tensor dy_of(const half_case *c) { return c->narrow ? c->dy.t : c->wide_dy; }
// Of a result in the type of what adds up.
static void assert_added(const char *what, const half_case *c, ft_dtype dtype, const float *got, const double *want, int64_t n) {
    if (c->narrow && dtype != FT_F32) assert_rounded(what, dtype, got, want, (size_t)n);
    else assert_summed(what, got, want, (size_t)n);
}

static bool is_rms(const half_case *c) { return c->keep % 2 == 1 && c->cols > 1; }

// y, wide (where there is none y again), mean, rstd, s unless absent; then ds, dx, the three sums.
static void run_layernorm(ft_device *device, const void *test_case, bool whole, float *out) {
    const half_case *c = test_case;
    const int64_t rows = c->rows, cols = c->cols;
    typed x = typed_like(c->x.t, 3, whole), residual = typed_like(residual_of(c), 5, whole),
          y = typed_new(c->dtype, rows, cols, 1, whole), wide = typed_new(FT_F32, rows, cols, 3, whole);
    typed apart = typed_new(c->dtype, rows, cols, 2, whole), bias = typed_like(c->bias, 0, whole);
    typed gamma = typed_like(c->gamma, 0, whole), beta = typed_like(c->beta, 0, whole),
          dy = typed_like(dy_of(c), 1, whole);
    typed statistics = typed_new(FT_F32, 2, rows, 0, false), dx = typed_new(c->dtype, rows, cols, 0, whole);
    typed sums = typed_new(FT_F32, 3, cols, 0, whole);
    for (int64_t i = 0; i < 3 * cols; i++)
        typed_set(sums.t, i / cols, i % cols, (double)(i % 5));
    ft_tensor s[] = {apart.t, x.t, c->narrow ? residual.t : apart.t, ft_absent()}, wides[] = {wide.t, ft_absent(), residual.t, wide.t};
    ft_layernorm_forward_args forward = {.x = x.t,
                                         .bias = c->optional ? bias.t : ft_absent(),
                                         .residual = c->optional ? residual.t : ft_absent(),
                                         .gamma = gamma.t,
                                         .beta = beta.t,
                                         .epsilon = 1e-12f,
                                         .rms = is_rms(c),
                                         .dropout = c->dropout,
                                         .s = s[c->keep],
                                         .y = y.t,
                                         .wide = c->narrow ? ft_absent() : wides[c->keep],
                                         .mean = ft_rows(statistics.t, 0, 1),
                                         .rstd = ft_rows(statistics.t, 1, 1)};
    RUN_OP(device, layernorm_forward, forward);
    out += typed_flatten(y.t, out);
    out += typed_flatten(forward.wide.data != NULL ? forward.wide : y.t, out);
    out += typed_flatten(statistics.t, out);
    if (c->keep != S_ABSENT) {
        out += typed_flatten(forward.s, out);
        ft_layernorm_backward_args backward = {.dy = dy.t,
                                               .s = forward.s,
                                               .mean = forward.mean,
                                               .rstd = forward.rstd,
                                               .gamma = gamma.t,
                                               .rms = forward.rms,
                                               .dropout = c->dropout,
                                               .ds = dy.t,
                                               .dx = dx.t,
                                               .dgamma = ft_rows(sums.t, 0, 1),
                                               .dbeta = ft_rows(sums.t, 1, 1),
                                               .dbias = ft_rows(sums.t, 2, 1)};
        RUN_OP(device, layernorm_backward, backward);
        out += typed_flatten(dy.t, out);
        out += typed_flatten(dx.t, out);
        typed_flatten(sums.t, out);
    }
    FREE_ALL(x, residual, y, wide, apart, bias, gamma, beta, dy, statistics, dx, sums);
}

static void check_layernorm(half_case *c) {
    const int64_t rows = c->rows, cols = c->cols, n = rows * cols;
    const bool kept = c->keep != S_ABSENT;
    float *got = run_typed(run_layernorm, c, (size_t)(2 * n + 2 * rows + (kept ? 3 * n + 3 * cols : 0)));
    const float *wide = got + n, *mean = wide + n, *rstd = mean + rows, *s_got = rstd + rows;
    double *s = doubles(n), *y = doubles(n), *ds = doubles(n), *dx = doubles(n), *sums = doubles(3 * cols);
    for (int64_t i = 0; i < 3 * cols; i++)
        sums[i] = (double)(i % 5);
    for (int64_t t = 0; t < rows; t++) {
        double *row = s + t * cols, center = 0, squares = 0, sum = 0, dot = 0;
        for (int64_t j = 0; j < cols; j++) {
            row[j] = (typed_get(c->x.t, t, j) + (c->optional ? typed_get(c->bias, 0, j) : 0)) *
                         dropout_factor(&c->dropout, t, j) +
                     (c->optional ? typed_get(residual_of(c), t, j) : 0);
            center += row[j] / (double)cols;
        }
        if (is_rms(c)) center = 0;
        for (int64_t j = 0; j < cols; j++)
            squares += (row[j] - center) * (row[j] - center);
        double scale = 1 / sqrt(squares / (double)cols + 1e-12);
        assert_close("mean", mean + t, &center, 1, 1e-6, 0);
        if (cols > 1) assert_close("rstd", rstd + t, &scale, 1, 0, 4e-6); // of one column it is rounding alone
        for (int64_t j = 0; j < cols; j++)
            y[t * cols + j] =
                (cols > 1 ? (row[j] - center) * scale : 0) * typed_get(c->gamma, 0, j) + typed_get(c->beta, 0, j);
        if (!kept) continue;
        // The gradient reads s as it was stored.
        for (int64_t j = 0; j < cols; j++) {
            double g = typed_get(dy_of(c), t, j) * typed_get(c->gamma, 0, j);
            sum += g / (double)cols;
            dot += g * ((double)s_got[t * cols + j] - (double)mean[t]) * (double)rstd[t] / (double)cols;
        }
        if (is_rms(c)) sum = 0;
        for (int64_t j = 0; j < cols; j++) {
            double d = typed_get(dy_of(c), t, j),
                   hat = ((double)s_got[t * cols + j] - (double)mean[t]) * (double)rstd[t];
            ds[t * cols + j] = (double)rstd[t] * (d * typed_get(c->gamma, 0, j) - sum - hat * dot);
            dx[t * cols + j] = ds[t * cols + j] * dropout_factor(&c->dropout, t, j);
            sums[j] += d * hat;
            sums[cols + j] += d;
            sums[2 * cols + j] += dx[t * cols + j];
        }
    }
    if (cols > 1) assert_rounded("y", c->dtype, got, y, (size_t)n);
    for (int64_t i = 0; i < n; i++) // one is the other's rounding, to the bit
        if ((double)got[i] != half_value(c->dtype, half_bits(c->dtype, (double)wide[i])))
            fail_msg("y[%lld] is %.9g, in fp32 %.9g", (long long)i, (double)got[i], (double)wide[i]);
    if (cols > 1 && c->keep != S_IS_X && !c->narrow) assert_summed("y in fp32", wide, y, (size_t)n);
    if (kept) {
        const float *ds_got = s_got + n, *dx_got = ds_got + n, *sums_got = dx_got + n;
        assert_rounded("s", c->dtype, s_got, s, (size_t)n);
        if (cols > 1) {
            assert_added("ds", c, c->dtype, ds_got, ds, n);
            assert_rounded("dx", c->dtype, dx_got, dx, (size_t)n);
            assert_summed("dgamma, dbeta and dbias", sums_got, sums, (size_t)(3 * cols));
        }
    }
    free(got);
    free(s);
    free(y);
    free(ds);
    free(dx);
    free(sums);
}

// Norms in front of blocks: `stream` is s before it is rounded, in the residual's place; without beta; `past` is added to ds, in its place,
// and dx and dbias are of the sum. Then the norm of the stream alone, whose bits are those of the first where the stream is fp32.
typedef struct stream_case {
    half_case *of;
    ft_dtype dtype;
    bool keeps_s;
} stream_case;
static void run_streams(ft_device *device, const void *test_case, bool whole, float *out) {
    const stream_case *sc = test_case;
    const half_case *c = sc->of;
    const int64_t rows = c->rows, cols = c->cols;
    typed x = typed_new(sc->dtype, rows, cols, 3, whole), stream = typed_like(residual_of(c), 5, whole), y = typed_new(sc->dtype, rows, cols, 1, whole);
    typed s = typed_new(sc->dtype, rows, cols, 2, whole), again = typed_new(sc->dtype, rows, cols, 2, whole), gamma = typed_like(c->gamma, 0, whole);
    typed dy = typed_like(dy_of(c), 1, whole), past = typed_like(residual_of(c), 3, whole), dx = typed_new(sc->dtype, rows, cols, 0, whole);
    typed statistics = typed_new(FT_F32, 2, rows, 0, false), sums = typed_new(FT_F32, 1, cols, 0, whole);
    for (int64_t i = 0; i < rows * cols; i++) typed_set(x.t, i / cols, i % cols, typed_get(c->x.t, i / cols, i % cols));
    for (int64_t j = 0; j < cols; j++) typed_set(sums.t, 0, j, 0);
    RUN_OP(device, layernorm_forward,
           ((ft_layernorm_forward_args){.x = x.t, .residual = stream.t, .gamma = gamma.t, .epsilon = 1e-5f, .dropout = c->dropout,
                                        .s = sc->keeps_s ? s.t : ft_absent(), .y = y.t, .stream = stream.t,
                                        .mean = ft_rows(statistics.t, 0, 1), .rstd = ft_rows(statistics.t, 1, 1)}));
    RUN_OP(device, layernorm_forward,
           ((ft_layernorm_forward_args){.x = stream.t, .gamma = gamma.t, .epsilon = 1e-5f, .y = again.t}));
    out += typed_flatten(y.t, out);
    out += typed_flatten(again.t, out);
    out += typed_flatten(stream.t, out);
    out += typed_flatten(statistics.t, out);
    if (sc->keeps_s) {
        out += typed_flatten(s.t, out);
        RUN_OP(device, layernorm_backward,
               ((ft_layernorm_backward_args){.dy = dy.t, .s = s.t, .past = past.t, .mean = ft_rows(statistics.t, 0, 1),
                                             .rstd = ft_rows(statistics.t, 1, 1), .gamma = gamma.t, .dropout = c->dropout, .ds = past.t,
                                             .dx = dx.t, .dbias = sums.t}));
        out += typed_flatten(past.t, out);
        out += typed_flatten(dx.t, out);
        typed_flatten(sums.t, out);
    }
    FREE_ALL(x, stream, y, s, again, gamma, dy, past, dx, statistics, sums);
}

static void check_streams(stream_case sc) {
    const half_case *c = sc.of;
    const int64_t rows = c->rows, cols = c->cols, n = rows * cols;
    float *got = run_typed(run_streams, &sc, (size_t)(3 * n + 2 * rows + (sc.keeps_s ? 3 * n + cols : 0)));
    const float *stream = got + 2 * n, *mean = stream + n, *rstd = mean + rows, *s_got = rstd + rows, *ds_got = s_got + n, *dx_got = ds_got + n;
    double *s = doubles(n), *y = doubles(n), *ds = doubles(n), *dx = doubles(n), *dbias = doubles(cols);
    if (!c->narrow) assert_memory_equal(got, got + n, (size_t)n * sizeof *got);
    for (int64_t t = 0; t < rows; t++) {
        double *row = s + t * cols, center = 0, squares = 0, sum = 0, dot = 0;
        for (int64_t j = 0; j < cols; j++) {
            row[j] = typed_get(c->x.t, t, j) * dropout_factor(&c->dropout, t, j) + typed_get(residual_of(c), t, j);
            center += row[j] / (double)cols;
        }
        for (int64_t j = 0; j < cols; j++) squares += (row[j] - center) * (row[j] - center);
        for (int64_t j = 0; j < cols; j++)
            y[t * cols + j] = (row[j] - center) / sqrt(squares / (double)cols + 1e-5) * typed_get(c->gamma, 0, j);
        for (int64_t j = 0; j < cols && sc.keeps_s; j++) {
            const double g = typed_get(dy_of(c), t, j) * typed_get(c->gamma, 0, j);
            sum += g / (double)cols;
            dot += g * ((double)s_got[t * cols + j] - (double)mean[t]) * (double)rstd[t] / (double)cols;
        }
        for (int64_t j = 0; j < cols && sc.keeps_s; j++) {
            const double hat = ((double)s_got[t * cols + j] - (double)mean[t]) * (double)rstd[t];
            const double g = typed_get(dy_of(c), t, j) * typed_get(c->gamma, 0, j);
            ds[t * cols + j] = typed_get(residual_of(c), t, j) + (double)rstd[t] * (g - sum - hat * dot);
            dx[t * cols + j] = ds[t * cols + j] * dropout_factor(&c->dropout, t, j);
            dbias[j] += dx[t * cols + j];
        }
    }
    assert_added("stream", c, sc.dtype, stream, s, n);
    if (sc.dtype == FT_F32) assert_summed("y", got, y, (size_t)n);
    else assert_rounded("y", sc.dtype, got, y, (size_t)n);
    for (int64_t i = 0; sc.keeps_s && i < n; i++) // s is the stream's rounding
        assert_true(sc.dtype == FT_F32 ? s_got[i] == stream[i] : (double)s_got[i] == half_value(sc.dtype, half_bits(sc.dtype, (double)stream[i])));
    if (sc.keeps_s) {
        assert_added("ds", c, sc.dtype, ds_got, ds, n);
        if (sc.dtype == FT_F32) assert_summed("dx", dx_got, dx, (size_t)n);
        else assert_rounded("dx", sc.dtype, dx_got, dx, (size_t)n);
        assert_summed("dbias", dx_got + n, dbias, (size_t)cols);
    }
    free(got);
    free(s);
    free(y);
    free(ds);
    free(dx);
    free(dbias);
}

static void test_layernorm_of_streams(void **state) {
    static const ft_dtype types[] = {FT_F32, FT_BF16, FT_F16};
    for (int type = 0; type < 3; type++)
        for (int s = 1; s < SHAPES; s++)
            for (int narrow = 0; narrow < 2; narrow++) {
                if (narrow && types[type] == FT_F32) continue;
                half_case *c = case_new(types[type], shapes[s][0], shapes[s][1], s % 2 ? 0.25f : 0);
                c->narrow = narrow;
                check_streams((stream_case){c, types[type], (s + type) % 3 != 0});
                case_free(c);
            }
}

// Rows of which fewer have room in shared memory at once, backward.
static void test_layernorm_of_wide_rows(void **state) {
    static const int64_t wide[][2] = {{21, 1544}, {3, 4100}, {3, 8192}};
    for (int type = 0; type < 2; type++)
        for (size_t i = 0; i < 2 * (sizeof wide / sizeof wide[0]); i++) {
            half_case *c = case_new(half_types[type], wide[i / 2][0], wide[i / 2][1], 0.25f);
            c->narrow = i % 2;
            check_layernorm(c);
            case_free(c);
        }
}

static void test_layernorm(void **state) {
    for (int type = 0; type < 2; type++)
        for (int i = 0; i < SHAPES; i++)
            for (int k = 0; k < 2 * KEEPS; k++) {
                const int keep = k / 2;
                if (i >= 4 && keep != i % KEEPS) continue; // all pairs are slow
                half_case *c = case_new(half_types[type], shapes[i][0], shapes[i][1], (i + keep) % 2 ? 0.25f : 0);
                c->keep = keep;
                c->narrow = k % 2;
                c->optional = keep == WIDE_IS_RESIDUAL || (i + keep) % 3 != 0;
                check_layernorm(c);
                case_free(c);
            }
}

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

// A NaN reaches its own row and its own column's sums, and nothing else; what fp16 cannot hold becomes infinity.
static void test_nan_and_overflow(void **state) {
    for (int type = 0; type < 2; type++) {
        half_case *c = case_new(half_types[type], 37, 40, 0);
        const int64_t n = 37 * 40, bad = 5 * 40 + 3;
        typed_set(c->x.t, 5, 3, (double)NAN);
        c->kind = FT_ACT_GELU;
        float *norm = run_typed(run_layernorm, c, (size_t)(5 * n + 2 * 37 + 3 * 40)),
              *act = run_typed(run_activation, c, (size_t)(5 * n + 40));
        for (int64_t i = 0; i < n; i++) {
            assert_int_equal(isnan(norm[i]), i / 40 == 5);
            assert_int_equal(isnan(act[i]), i == bad);
        }
        for (int64_t j = 0; j < 40; j++)
            assert_int_equal(isnan(act[5 * n + j]), j == 3);
        free(norm);
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
        cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_layernorm_of_wide_rows),
        cmocka_unit_test(test_layernorm_of_streams),
        cmocka_unit_test(test_activations),
        cmocka_unit_test(test_column_sum_and_embeddings),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_nan_and_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
