// Norms of rows in bf16 and fp16, and of fp32 where what adds up is, against float64: a result is what fp32 arithmetic gives, rounded once; sums over
// rows stay fp32. Every case with views at 16-byte addresses and others, and in every order of threads, to the bit.
// ctest: emulated=yes
#include "half_case.h"

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

// A NaN reaches its own row, and nothing else.
static void test_nan_stays_in_its_row(void **state) {
    for (int type = 0; type < 2; type++) {
        half_case *c = case_new(half_types[type], 37, 40, 0);
        const int64_t n = 37 * 40;
        typed_set(c->x.t, 5, 3, (double)NAN);
        float *norm = run_typed(run_layernorm, c, (size_t)(5 * n + 2 * 37 + 3 * 40));
        for (int64_t i = 0; i < n; i++)
            assert_int_equal(isnan(norm[i]), i / 40 == 5);
        free(norm);
        case_free(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layernorm),
        cmocka_unit_test(test_layernorm_of_wide_rows),
        cmocka_unit_test(test_layernorm_of_streams),
        cmocka_unit_test(test_nan_stays_in_its_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
