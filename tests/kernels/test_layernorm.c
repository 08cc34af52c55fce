// ctest: emulated=yes tsan_part=2
#include "elementwise.h"

typedef struct ln_case {
    int64_t rows, cols;
    fenced x, bias, residual, gamma, beta, dy;
    float epsilon;
    bool rms;
    ft_step_state step;
    int32_t slot[4200], position[4200]; // of rows
    ft_dropout dropout;
    enum { S_APART, S_IS_X, S_IS_RESIDUAL, S_IS_Y, S_ABSENT } keep;
    bool statistics;
    // backward
    fenced s, mean, rstd, sums; // sums: what dgamma, dbeta and dbias start from, one row each
    bool want_ds, want_dx, want_sums, ds_is_dy;
    int64_t split;
} ln_case;

enum { BIAS = 1, RESIDUAL = 2, DROPOUT = 4, RMS = 8 };
static ln_case *case_new(int64_t rows, int64_t cols, int options) {
    ln_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    assert_true(rows <= (int64_t)(sizeof c->slot / sizeof c->slot[0]));
    c->rows = rows;
    c->cols = cols;
    c->epsilon = 1e-12f;
    c->rms = options & RMS;
    c->x = fenced_random(rows, cols, rows % 3, 1, 0.3);
    c->bias = options & BIAS ? fenced_random(1, cols, 0, 1, 0) : fenced_none();
    c->residual = options & RESIDUAL ? fenced_random(rows, cols, 5, 1, 0) : fenced_none();
    c->gamma = fenced_random(1, cols, 0, 0.3, 1);
    c->beta = fenced_random(1, cols, 0, 0.3, 0);
    c->dy = fenced_random(rows, cols, 1, 1, 0);
    c->sums = fenced_random(3, cols, 0, 1, 0);
    for (int64_t t = 0; t < rows; t++) {
        c->slot[t] = (int32_t)(t / 9);
        c->position[t] = (int32_t)(t % 9);
    }
    c->step = (ft_step_state){.seed = 0x123456789ABCDEF0u, .step = 7};
    c->dropout = (ft_dropout){.layer = 3, .site = FT_SITE_FFN_OUTPUT};
    if (options & DROPOUT) {
        c->dropout.probability = 0.25f;
        c->dropout.step = &c->step;
        c->dropout.slot = c->slot;
        c->dropout.position = c->position;
    }
    return c;
}
static void case_free(ln_case *c) {
    fenced all[] = {c->x, c->bias, c->residual, c->gamma, c->beta, c->dy, c->s, c->mean, c->rstd, c->sums};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        fenced_free(all[i]);
    free(c);
}

// ---- the oracle, in float64 -----------------------------------------------------------------------------------------
static void join(const ln_case *c, int64_t row, double *s) {
    for (int64_t j = 0; j < c->cols; j++) {
        double x = (double)*at(c->x.t, row, j) + (c->bias.base ? (double)*at(c->bias.t, 0, j) : 0);
        s[j] = x * dropout_factor(&c->dropout, row, j) + (c->residual.base ? (double)*at(c->residual.t, row, j) : 0);
    }
}
static void normalize(const double *s, const double *gamma, const double *beta, int64_t cols, double epsilon, double *y,
                      double *mean, double *rstd, bool rms) {
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < cols; j++)
        sum += s[j];
    *mean = rms ? 0 : sum / (double)cols;
    for (int64_t j = 0; j < cols; j++)
        squares += (s[j] - *mean) * (s[j] - *mean);
    *rstd = 1 / sqrt(squares / (double)cols + epsilon);
    for (int64_t j = 0; j < cols; j++)
        y[j] = (s[j] - *mean) * *rstd * gamma[j] + beta[j];
}
static void row_gradient(const double *s, const double *gamma, const double *dy, double mean, double rstd, int64_t cols,
                         double *ds, bool rms) {
    double sum = 0, dot = 0;
    for (int64_t j = 0; j < cols; j++) {
        sum += dy[j] * gamma[j];
        dot += dy[j] * gamma[j] * (s[j] - mean) * rstd;
    }
    if (rms) sum = 0;
    for (int64_t j = 0; j < cols; j++)
        ds[j] = rstd * (dy[j] * gamma[j] - sum / (double)cols - (s[j] - mean) * rstd * dot / (double)cols);
}
static double *doubles(ft_tensor t, int64_t row) {
    double *d = malloc((size_t)t.cols * sizeof *d);
    assert_non_null(d);
    for (int64_t j = 0; j < t.cols; j++)
        d[j] = (double)*at(t, row, j);
    return d;
}

static void check_the_oracle_s_gradient(bool rms) {
    enum { H = 6 };
    double s[H], gamma[H], beta[H], dy[H], y[H], ds[H], mean, rstd, e = 1e-6;
    for (int j = 0; j < H; j++) {
        s[j] = normal(1);
        gamma[j] = 1 + normal(0.3);
        beta[j] = normal(1);
        dy[j] = normal(1);
    }
    normalize(s, gamma, beta, H, 1e-5, y, &mean, &rstd, rms);
    row_gradient(s, gamma, dy, mean, rstd, H, ds, rms);
    for (int k = 0; k < H; k++) {
        double loss[2] = {0, 0}, keep = s[k];
        for (int up = 0; up < 2; up++) {
            s[k] = keep + (up ? e : -e);
            normalize(s, gamma, beta, H, 1e-5, y, &mean, &rstd, rms);
            for (int j = 0; j < H; j++)
                loss[up] += y[j] * dy[j];
        }
        s[k] = keep;
        assert_true(fabs((loss[1] - loss[0]) / (2 * e) - ds[k]) < 1e-7);
    }
}

static void test_the_oracle_s_gradient(void **state) {
    check_the_oracle_s_gradient(false);
    check_the_oracle_s_gradient(true);
}

// ---- forward --------------------------------------------------------------------------------------------------------
// Writes y, then (unless absent) s, then (if wanted) mean and rstd.
static void run_forward(ft_device *device, const void *test_case, float *out) {
    const ln_case *c = test_case;
    fenced x = fenced_copy(c->x), residual = c->residual.base ? fenced_copy(c->residual) : fenced_none();
    fenced y = fenced_new(c->rows, c->cols, 2),
           s = c->keep == S_APART ? fenced_new(c->rows, c->cols, 0) : fenced_none();
    fenced mean = c->statistics ? fenced_new(1, c->rows, 0) : fenced_none();
    fenced rstd = c->statistics ? fenced_new(1, c->rows, 0) : fenced_none();
    fenced kept = c->keep == S_APART ? s : c->keep == S_IS_X ? x : c->keep == S_IS_RESIDUAL ? residual : fenced_none();
    ft_layernorm_forward_args args = {.x = x.t,
                                      .bias = c->bias.t,
                                      .residual = residual.t,
                                      .gamma = c->gamma.t,
                                      .beta = c->beta.t,
                                      .epsilon = c->epsilon,
                                      .rms = c->rms,
                                      .dropout = c->dropout,
                                      .s = c->keep == S_IS_Y ? y.t : kept.t,
                                      .y = y.t,
                                      .mean = mean.t,
                                      .rstd = rstd.t};
    RUN_OP(device, layernorm_forward, args);
    out += fenced_flatten(y, out);
    if (kept.base) out += fenced_flatten(kept, out);
    if (c->statistics) {
        out += fenced_flatten(mean, out);
        fenced_flatten(rstd, out);
    }
    fenced_free(x);
    fenced_free(residual);
    fenced_free(y);
    fenced_free(s);
    fenced_free(mean);
    fenced_free(rstd);
}

static void check_forward(ln_case *c) {
    size_t n = (size_t)(c->rows * c->cols);
    bool kept = c->keep < S_IS_Y;
    size_t total = n * (kept ? 2 : 1) + (c->statistics ? 2 * (size_t)c->rows : 0);
    float *got = run_everywhere(run_forward, c, total);
    double *s = malloc((size_t)c->cols * sizeof *s), *y = malloc((size_t)c->cols * sizeof *y);
    double *gamma = doubles(c->gamma.t, 0), *beta = doubles(c->beta.t, 0), mean, rstd;
    assert_true(s && y);
    for (int64_t t = 0; t < c->rows; t++) {
        join(c, t, s);
        if (kept) assert_close("s", got + n + t * c->cols, s, (size_t)c->cols, 5e-7, 2e-7);
        // A row of one column, or of equal ones, has no variance: what is left of it is rounding times 1/sqrt(epsilon).
        normalize(s, gamma, beta, c->cols, (double)c->epsilon, y, &mean, &rstd, c->rms);
        double blur = 3e-7 * fmax(1, rstd);
        assert_close("y", got + t * c->cols, y, (size_t)c->cols, c->cols == 1 ? 1e-7 : 1e-6 + blur, 1e-6);
        if (c->statistics) {
            assert_close("mean", got + total - 2 * c->rows + t, &mean, 1, 1e-6, 0);
            assert_close("rstd", got + total - c->rows + t, &rstd, 1, 0, 2e-6);
        }
    }
    free(got);
    free(s);
    free(y);
    free(gamma);
    free(beta);
}

static const int64_t shapes[][2] = {{1, 1}, {2, 7}, {5, 33}, {11, 384}, {3, 1030}, {40, 64}, {130, 130}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void test_forward(void **state) {
    for (int i = 0; i < SHAPES; i++)
        for (int options = 0; options < 16; options++)
            for (int keep = S_APART; keep <= S_ABSENT; keep++) {
                if (keep == S_IS_RESIDUAL && !(options & RESIDUAL)) continue;
                ln_case *c = case_new(shapes[i][0], shapes[i][1], options);
                c->keep = keep;
                c->statistics = (options + options / 8 + keep) % 2;
                check_forward(c);
                case_free(c);
            }
}

static void test_far_from_zero_and_not_finite(void **state) {
    ln_case *c = case_new(3, 64, 0);
    for (int j = 0; j < 64; j++) { // a mean far above the deviation: E[x^2] - E[x]^2 would have nothing left
        *at(c->x.t, 0, j) = 1000 + (float)j / 16;
        *at(c->x.t, 1, j) = 5;
    }
    *at(c->x.t, 2, 63) = NAN;
    float *got = run_everywhere(run_forward, c, 3 * 64 * 2);
    double *s = doubles(c->x.t, 0), *gamma = doubles(c->gamma.t, 0), *beta = doubles(c->beta.t, 0), y[64], mean, rstd;
    normalize(s, gamma, beta, 64, 1e-12, y, &mean, &rstd, false);
    assert_close("y", got, y, 64, 2e-4, 0);
    for (int j = 0; j < 64; j++) {
        assert_true(got[64 + j] == *at(c->beta.t, 0, j)); // equal elements: exactly beta
        assert_true(isnan(got[128 + j]));
    }
    free(got);
    free(s);
    free(gamma);
    free(beta);
    case_free(c);
}

static void test_dropout_drops_the_share_it_should(void **state) {
    ln_case *c = case_new(200, 384, DROPOUT | RESIDUAL);
    c->keep = S_APART;
    size_t n = 200 * 384, dropped = 0;
    for (int64_t t = 0; t < 200; t++)
        for (int64_t j = 0; j < 384; j++) {
            *at(c->x.t, t, j) = 1;
            *at(c->residual.t, t, j) = 0;
        }
    float *got = run_everywhere(run_forward, c, 2 * n);
    for (size_t i = 0; i < n; i++) {
        assert_true(got[n + i] == 0 || got[n + i] == 65536.0f / 49152.0f);
        dropped += got[n + i] == 0;
    }
    assert_true(fabs((double)dropped / (double)n - 0.25) < 0.01);
    free(got);
    case_free(c);
}

// ---- backward -------------------------------------------------------------------------------------------------------
// Prepares s, mean and rstd as a forward would leave them.
static void prepare_backward(ln_case *c) {
    c->s = fenced_new(c->rows, c->cols, 3);
    c->mean = fenced_new(1, c->rows, 0);
    c->rstd = fenced_new(1, c->rows, 0);
    double *s = malloc((size_t)c->cols * sizeof *s), *y = malloc((size_t)c->cols * sizeof *y), mean, rstd;
    double *gamma = doubles(c->gamma.t, 0), *beta = doubles(c->beta.t, 0);
    assert_true(s && y);
    for (int64_t t = 0; t < c->rows; t++) {
        join(c, t, s);
        for (int64_t j = 0; j < c->cols; j++)
            s[j] = (double)(*at(c->s.t, t, j) = (float)s[j]);
        normalize(s, gamma, beta, c->cols, (double)c->epsilon, y, &mean, &rstd, c->rms);
        *at(c->mean.t, 0, t) = (float)mean;
        *at(c->rstd.t, 0, t) = (float)rstd;
    }
    free(s);
    free(y);
    free(gamma);
    free(beta);
}

// Writes those of ds, dx, dgamma, dbeta, dbias that are wanted.
static void run_backward(ft_device *device, const void *test_case, float *out) {
    const ln_case *c = test_case;
    fenced dy = fenced_copy(c->dy), sums = c->want_sums ? fenced_copy(c->sums) : fenced_none();
    fenced ds = c->want_ds && !c->ds_is_dy ? fenced_new(c->rows, c->cols, 0) : fenced_none();
    fenced dx = c->want_dx ? fenced_new(c->rows, c->cols, 7) : fenced_none();
    ft_tensor to = c->ds_is_dy ? dy.t : ds.t;
    for (int part = 0; part < (c->split ? 2 : 1); part++) {
        int64_t first = part ? c->split : 0, count = !c->split ? c->rows : part ? c->rows - c->split : c->split;
        ft_layernorm_backward_args args = {.dy = ft_rows(dy.t, first, count),
                                           .s = ft_rows(c->s.t, first, count),
                                           .mean = ft_columns(c->mean.t, first, count),
                                           .rstd = ft_columns(c->rstd.t, first, count),
                                           .gamma = c->gamma.t,
                                           .rms = c->rms,
                                           .dropout = dropout_rows(c->dropout, first),
                                           .ds = ft_rows(to, first, count),
                                           .dx = ft_rows(dx.t, first, count)};
        if (c->want_sums) {
            args.dgamma = ft_vector(at(sums.t, 0, 0), c->cols, FT_F32);
            args.dbeta = ft_vector(at(sums.t, 1, 0), c->cols, FT_F32);
            args.dbias = ft_vector(at(sums.t, 2, 0), c->cols, FT_F32);
        }
        RUN_OP(device, layernorm_backward, args);
    }
    if (c->want_ds) out += fenced_flatten(c->ds_is_dy ? dy : ds, out);
    if (c->want_dx) out += fenced_flatten(dx, out);
    if (c->want_sums) fenced_flatten(sums, out);
    fenced_free(dy);
    fenced_free(ds);
    fenced_free(dx);
    fenced_free(sums);
}

static void check_backward(ln_case *c) {
    size_t n = (size_t)(c->rows * c->cols), cols = (size_t)c->cols;
    size_t total = n * (size_t)c->want_ds + n * (size_t)c->want_dx + (c->want_sums ? 3 * cols : 0);
    float *got = run_everywhere(run_backward, c, total), *next = got;
    double *ds = malloc(n * sizeof *ds), *dx = malloc(n * sizeof *dx), *sums = malloc(3 * cols * sizeof *sums);
    double *gamma = doubles(c->gamma.t, 0), largest = 0;
    assert_true(ds && dx && sums);
    for (size_t j = 0; j < 3 * cols; j++)
        sums[j] = (double)*at(c->sums.t, (int64_t)(j / cols), (int64_t)(j % cols));
    for (int64_t t = 0; t < c->rows; t++) {
        double *dy = doubles(c->dy.t, t), *s = doubles(c->s.t, t), mean = (double)*at(c->mean.t, 0, t),
               rstd = (double)*at(c->rstd.t, 0, t);
        row_gradient(s, gamma, dy, mean, rstd, c->cols, ds + t * c->cols, c->rms);
        largest = fmax(largest, rstd);
        for (int64_t j = 0; j < c->cols; j++) {
            dx[t * c->cols + j] = ds[t * c->cols + j] * dropout_factor(&c->dropout, t, j);
            sums[j] += dy[j] * (s[j] - mean) * rstd;
            sums[c->cols + j] += dy[j];
            sums[2 * c->cols + j] += dx[t * c->cols + j];
        }
        free(dy);
        free(s);
    }
    double tolerance = 2e-6 * fmax(1, largest), longest = (double)(c->rows + 10);
    if (c->want_ds) {
        assert_close("ds", next, ds, n, tolerance, 1e-6);
        next += n;
    }
    if (c->want_dx) {
        assert_close("dx", next, dx, n, tolerance, 1e-6);
        next += n;
    }
    if (c->want_sums) {
        assert_close("dgamma", next, sums, cols, 1e-6 * longest, 0);
        assert_close("dbeta", next + cols, sums + cols, cols, 5e-7 * longest, 0);
        assert_close("dbias", next + 2 * cols, sums + 2 * cols, cols, tolerance * longest, 0);
    }
    for (c->split = 1; c->split < c->rows; c->split += c->rows / 3 + 1) {
        float *again = run_everywhere(run_backward, c, total);
        assert_same_chain(got, again, total);
        free(again);
    }
    c->split = 0;
    free(got);
    free(ds);
    free(dx);
    free(sums);
    free(gamma);
}

static void test_backward(void **state) {
    for (int i = 0; i < SHAPES; i++)
        for (int drops = 0; drops < 2; drops++)
            for (int wanted = 1; wanted < 8; wanted++)
                for (int alias = 0; alias < 2; alias++) {
                    if (alias && !(wanted & 1)) continue;
                    if (shapes[i][1] == 1 && drops) continue;
                    ln_case *c = case_new(shapes[i][0], shapes[i][1], BIAS | RESIDUAL | (drops ? DROPOUT : 0) | ((i + drops + wanted / 2) % 2 ? RMS : 0));
                    if (shapes[i][1] == 1) c->epsilon = 1e-3f; // else its rstd is 1e6
                    c->want_ds = wanted & 1;
                    c->want_dx = wanted & 2;
                    c->want_sums = wanted & 4;
                    c->ds_is_dy = alias;
                    prepare_backward(c);
                    check_backward(c);
                    case_free(c);
                }
}

// Of rows that fill shared memory fewer are kept there at once, and of the longest there is no room for the next.
static void test_backward_of_wide_rows(void **state) {
    static const int64_t wide[][2] = {{20, 1032}, {35, 2050}, {5, 4104}, {3, 8192}, {2, 8190}};
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
        ln_case *c = case_new(wide[i][0], wide[i][1], BIAS | RESIDUAL | DROPOUT | (i % 2 ? RMS : 0));
        c->want_ds = c->want_dx = c->want_sums = true;
        c->ds_is_dy = i % 2 == 0;
        prepare_backward(c);
        check_backward(c);
        case_free(c);
    }
}

// CUDA's tiles of rows are larger where rows are many.
static void test_backward_of_many_rows(void **state) {
    static const int64_t long_ones[][2] = {{2060, 9}, {4110, 3}};
    for (size_t i = 0; i < sizeof long_ones / sizeof long_ones[0]; i++) {
        ln_case *c = case_new(long_ones[i][0], long_ones[i][1], BIAS | RESIDUAL | DROPOUT | (i % 2 ? RMS : 0));
        c->want_ds = c->want_dx = c->want_sums = true;
        prepare_backward(c);
        check_backward(c);
        case_free(c);
    }
}

// Each sum alone: an absent neighbour must change nothing.
static void test_each_sum_alone(void **state) {
    ln_case *c = case_new(21, 100, DROPOUT);
    prepare_backward(c);
    c->want_sums = true;
    float *all = run_everywhere(run_backward, c, 300);
    ft_device *device;
    assert_int_equal(test_open(2, &device), FT_OK);
    for (int which = 0; which < 3; which++) {
        fenced sums = fenced_copy(c->sums);
        ft_layernorm_backward_args args = {.dy = c->dy.t,
                                           .s = c->s.t,
                                           .mean = c->mean.t,
                                           .rstd = c->rstd.t,
                                           .gamma = c->gamma.t,
                                           .rms = c->rms,
                                           .dropout = c->dropout};
        ft_tensor one = ft_vector(at(sums.t, which, 0), 100, FT_F32);
        if (which == 0) args.dgamma = one;
        if (which == 1) args.dbeta = one;
        if (which == 2) args.dbias = one;
        RUN_OP(device, layernorm_backward, args);
        for (int row = 0; row < 3; row++) {
            const float *want = row == which ? all + 100 * row : at(c->sums.t, row, 0);
            assert_memory_equal(at(sums.t, row, 0), want, 100 * sizeof(float));
        }
        fenced_free(sums);
    }
    free(all);
    case_free(c);
    ft_device_close(device);
}

static void test_no_rows_and_wrong_shapes(void **state) {
    ft_device *device;
    assert_int_equal(test_open(2, &device), FT_OK);
    ln_case *c = case_new(4, 20, 0);
    prepare_backward(c);
    fenced before = fenced_copy(c->sums), y = fenced_new(4, 20, 0);
    ft_tensor none = ft_rows(c->x.t, 0, 0), dgamma = ft_vector(c->sums.t.data, 20, FT_F32);
    RUN_OP(device, layernorm_forward,
           ((ft_layernorm_forward_args){.x = none, .gamma = c->gamma.t, .beta = c->beta.t, .y = none}));
    RUN_OP(device, layernorm_backward,
           ((ft_layernorm_backward_args){.dy = none, .s = none, .gamma = c->gamma.t, .dgamma = dgamma}));
    assert_memory_equal(before.base, c->sums.base, before.total * sizeof(float));

    ft_layernorm_forward_args forward = {
        .x = c->x.t, .gamma = ft_columns(c->gamma.t, 0, 19), .beta = c->beta.t, .y = y.t};
    assert_int_equal(FT_RUN(device, layernorm_forward, &forward), FT_FAILED);
    assert_non_null(strstr(ft_error_where(), "layernorm_forward"));
    forward.gamma = c->gamma.t;
    forward.dropout.probability = 0.1f; // without step, slots and positions
    assert_int_equal(FT_RUN(device, layernorm_forward, &forward), FT_FAILED);
    ft_layernorm_backward_args backward = {.dy = c->dy.t,
                                           .s = c->s.t,
                                           .mean = c->mean.t,
                                           .rstd = c->rstd.t,
                                           .gamma = c->gamma.t,
                                           .rms = c->rms,
                                           .dgamma = dgamma}; // without scratch
    assert_int_equal(FT_RUN(device, layernorm_backward, &backward), FT_FAILED);
    assert_non_null(strstr(ft_error_where(), "layernorm_backward"));
    const ft_target cuda = {.backend = FT_BACKEND_CUDA};
    // A norm of a stream in fp32 beside one of 16 bits: kernels would read the one as the other.
    ft_layernorm_forward_args narrow = {.x = ft_matrix(c->dy.t.data, 4, 8, FT_F32), .gamma = ft_matrix(c->dy.t.data, 1, 8, FT_F32), .y = ft_matrix(c->dy.t.data, 4, 8, FT_BF16)};
    assert_int_equal(ft_layernorm_forward_check(&cuda, &narrow), FT_OK);
    narrow.stream = ft_matrix(c->dy.t.data, 4, 8, FT_BF16);
    assert_int_equal(ft_layernorm_forward_check(&cuda, &narrow), FT_FAILED);
    backward.dy = ft_matrix(c->dy.t.data, 4, 8193, FT_F32);
    assert_int_equal(ft_layernorm_backward_check(&cuda, &backward), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "at most 8192 columns, not 8193"));
    ft_error_clear();
    fenced_free(before);
    fenced_free(y);
    case_free(c);
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_oracle_s_gradient),
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_far_from_zero_and_not_finite),
        cmocka_unit_test(test_dropout_drops_the_share_it_should),
        cmocka_unit_test(test_backward),
        cmocka_unit_test(test_backward_of_wide_rows),
        cmocka_unit_test(test_backward_of_many_rows),
        cmocka_unit_test(test_each_sum_alone),
        cmocka_unit_test(test_no_rows_and_wrong_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
