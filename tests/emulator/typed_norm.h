// typed_norm.h - cases of our own product whose sum with a residual goes into a norm, in bf16 and fp16 on the emulator: the sum against double precision,
// and to the bit what the pass makes of the same product; y against the norm of the sum that is there; in several orders of threads, to the bit.
#ifndef FT_TYPED_NORM_H
#define FT_TYPED_NORM_H

#include "tests/emulator/typed_product.h"

#include "kernels/ops/product_norm.h"

typedef enum sum_place { SUM_IN_S, SUM_IN_STREAM, SUM_IN_Y } sum_place; // beside a stream s is kept, too

typedef struct norm_case {
    int64_t rows, columns, terms, gap; // gap: further numbers between rows, of eight
    sum_place place;
    bool floats;             // the stream is of fp32
    bool bias, residual, in_place; // in_place: the sum takes the place of the residual
    float dropout;
    bool rms;
} norm_case;

typedef struct norm_inputs {
    ft_tensor x, w, bias, residual, gamma, beta;
} norm_inputs;
typedef struct norm_fences {
    fenced f[6];
} norm_fences;

typedef struct norm_results {
    float *sum, *s, *y, *mean, *rstd; // s: NULL where it is the sum, or is not kept
} norm_results;

static ft_dtype sum_type(const norm_case *c, ft_dtype dtype) { return c->floats ? FT_F32 : dtype; }

static norm_inputs norm_drawn(const norm_case *c, ft_dtype dtype, norm_fences *f) {
    return (norm_inputs){drawn(dtype, c->rows, c->terms, 1 / sqrt((double)c->terms), &f->f[0]), drawn(dtype, c->columns, c->terms, 1.5, &f->f[1]),
                         drawn(dtype, 1, c->columns, 1, &f->f[2]), drawn(sum_type(c, dtype), c->rows, c->columns, 2, &f->f[3]),
                         drawn(FT_F32, 1, c->columns, 1, &f->f[4]), drawn(FT_F32, 1, c->columns, 1, &f->f[5])};
}
static void norm_fences_free(norm_fences f) {
    for (size_t i = 0; i < sizeof f.f / sizeof *f.f; i++)
        fenced_free(f.f[i]);
}
static void norm_results_free(norm_results r) {
    float *const all[] = {r.sum, r.s, r.y, r.mean, r.rstd};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

// Rows of sequences of 37, of which none begins with a tile.
enum { NORM_ROWS = 4096 };
static ft_step_state norm_step = {.seed = 0x123456789ABCDEF0u, .step = 7};
static int32_t norm_slots[NORM_ROWS], norm_positions[NORM_ROWS];
static ft_dropout norm_dropout(const norm_case *c) {
    for (int32_t t = 0; t < NORM_ROWS; t++) norm_slots[t] = 5 + t / 37, norm_positions[t] = t % 37;
    return (ft_dropout){.probability = c->dropout, .layer = 3, .site = FT_SITE_FFN_OUTPUT, .step = &norm_step, .slot = norm_slots, .position = norm_positions};
}
static double norm_epsilon(void) { return (double)1e-5f; }

static float *fetched_norm(on_device m) {
    float *out = malloc((size_t)(m.t.rows * m.t.cols) * sizeof(float));
    assert_non_null(out);
    fetch(m, 0, m.t.cols, out);
    return out;
}

// by_pass: of the same product, which our kernel without one behind it has made, by the pass that follows cuBLASLt's.
static norm_results run_norm(const norm_case *c, ft_dtype dtype, const norm_inputs *in, bool by_pass) {
    const int64_t more = 8 - c->terms % 8 + c->gap;
    const ft_dtype adds = sum_type(c, dtype);
    assert_true(c->rows <= NORM_ROWS);
    on_device x = device_matrix(dtype, c->rows, c->terms, more, 0, &in->x), w = device_matrix(dtype, c->columns, c->terms, more, 0, &in->w),
              bias = device_matrix(dtype, 1, c->columns, 0, 0, &in->bias), residual = device_matrix(adds, c->rows, c->columns, c->gap, 0, &in->residual),
              gamma = device_matrix(FT_F32, 1, c->columns, 0, 0, &in->gamma), beta = device_matrix(FT_F32, 1, c->columns, 0, 0, &in->beta),
              s = device_matrix(dtype, c->rows, c->columns, c->gap, 0, NULL), y = device_matrix(dtype, c->rows, c->columns, c->gap, 0, NULL),
              stream = device_matrix(adds, c->rows, c->columns, c->gap, 0, NULL), product = device_matrix(dtype, c->rows, c->columns, 0, 0, NULL),
              mean = device_matrix(FT_F32, 1, c->rows, 0, 0, NULL), rstd = device_matrix(FT_F32, 1, c->rows, 0, 0, NULL);
    void *const step = to_device(&norm_step, sizeof norm_step), *slots, *positions;
    ft_dropout dropout = norm_dropout(c);
    slots = to_device(norm_slots, sizeof norm_slots);
    positions = to_device(norm_positions, sizeof norm_positions);
    dropout.step = step, dropout.slot = slots, dropout.position = positions;
    ft_product_norm_args args = {.x = x.t, .w = w.t,
                                 .norm = {.x = c->place == SUM_IN_S && !by_pass ? s.t : product.t, .bias = c->bias ? ft_vector(bias.t.data, c->columns, dtype) : ft_absent(),
                                          .residual = c->residual ? residual.t : ft_absent(), .gamma = ft_vector(gamma.t.data, c->columns, FT_F32),
                                          .beta = c->rms ? ft_absent() : ft_vector(beta.t.data, c->columns, FT_F32), .epsilon = (float)norm_epsilon(), .rms = c->rms,
                                          .dropout = dropout, .s = c->place != SUM_IN_Y || by_pass ? s.t : ft_absent(), .y = y.t,
                                          .stream = c->place != SUM_IN_STREAM ? ft_absent() : c->in_place ? residual.t : stream.t,
                                          .mean = ft_vector(mean.t.data, c->rows, FT_F32), .rstd = ft_vector(rstd.t.data, c->rows, FT_F32)}};
    if (c->in_place && c->place == SUM_IN_S) args.norm.s = residual.t;
    args.workspace.bytes = ft_product_norm_workspace(&gpu->target, &args); // which only the two ops would use
    good(ft_product_norm_check(&gpu->target, &args));
    assert_true(ft_product_norm_own(&args));
    const uint64_t before = simt_launches("product_norm"), norms = simt_launches("layernorm_forward");
    if (by_pass) {
        const ft_product_activation_args alone = {.kind = FT_ACT_IDENTITY, .x = x.t, .w = w.t, .y = product.t};
        const ft_layernorm_forward_args rest = ft_product_norm_rest(&args);
        good(ft_cuda_product_activation(gpu, &alone));
        good(ft_cuda_layernorm_forward(gpu, &rest));
    } else {
        good(ft_cuda_product_norm(gpu, &args));
    }
    good(gpu->functions->sync(gpu));
    assert_int_equal(simt_launches("product_norm") - before, by_pass ? 0 : 1);
    assert_int_equal(simt_launches("layernorm_forward") - norms, 1);
    const bool streams = c->place == SUM_IN_STREAM, at_residual = c->in_place && c->place != SUM_IN_Y;
    const norm_results r = {c->place == SUM_IN_Y && !by_pass ? NULL : fetched_norm(at_residual ? residual : streams ? stream : s),
                            streams ? fetched_norm(s) : NULL, fetched_norm(y), fetched_norm(mean), fetched_norm(rstd)};
    on_device all[] = {x, w, bias, residual, gamma, beta, s, y, stream, product, mean, rstd};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        drop(all[i]);
    gpu->functions->buffer_free(gpu, step, sizeof norm_step);
    gpu->functions->buffer_free(gpu, slots, sizeof norm_slots);
    gpu->functions->buffer_free(gpu, positions, sizeof norm_positions);
    return r;
}

// Of the norm of the numbers `sum`: y, mean and rstd.
static void judge_row(const norm_case *c, ft_dtype dtype, const norm_results *r, const norm_inputs *in, int64_t i, const double *sum) {
    double total = 0, squares = 0, size = 0;
    for (int64_t j = 0; j < c->columns; j++) total += sum[j], size += fabs(sum[j]);
    const double mean = c->rms ? 0 : total / (double)c->columns;
    for (int64_t j = 0; j < c->columns; j++) squares += (sum[j] - mean) * (sum[j] - mean);
    const double rstd = 1 / sqrt(squares / (double)c->columns + norm_epsilon()), off_mean = 1e-6 * size / (double)c->columns + 1e-7;
    if (!(fabs((double)r->mean[i] - mean) <= off_mean) || !(fabs((double)r->rstd[i] - rstd) <= 1e-5 * rstd))
        fail_msg("row %lld: mean %.9g, rstd %.9g, not %.9g and %.9g", (long long)i, (double)r->mean[i], (double)r->rstd[i], mean, rstd);
    for (int64_t j = 0; j < c->columns; j++) {
        const double hat = (sum[j] - mean) * rstd, gamma = (double)*at(in->gamma, 0, j), y = hat * gamma + (c->rms ? 0 : (double)*at(in->beta, 0, j));
        const double off = unit(dtype) * fabs(y) * 1.001 + 2e-5 * fabs(hat * gamma) + fabs(gamma) * rstd * off_mean + 1e-6, is = (double)r->y[i * c->columns + j];
        if (!(fabs(is - y) <= off)) fail_msg("y[%lld, %lld] is %.9g, not %.9g (%.2g may be off)", (long long)i, (long long)j, is, y, off);
    }
}

static void judge_norm(const norm_case *c, ft_dtype dtype, const norm_results *r, const norm_inputs *in) {
    const ft_dropout dropout = norm_dropout(c);
    double *const row = malloc((size_t)c->columns * sizeof *row);
    assert_non_null(row);
    for (int64_t i = 0; i < c->rows && r->sum != NULL; i++) {
        for (int64_t j = 0; j < c->columns; j++) {
            double product = 0, size = 0;
            for (int64_t k = 0; k < c->terms; k++) {
                const double term = (double)*at(in->x, i, k) * (double)*at(in->w, j, k);
                product += term;
                size += fabs(term);
            }
            const double factor = dropout_factor(&dropout, i, j), past = c->residual ? (double)*at(in->residual, i, j) : 0;
            const double added = product + (c->bias ? (double)*at(in->bias, 0, j) : 0), want = added * factor + past, is = (double)r->sum[i * c->columns + j];
            const double once = (unit(dtype) * fabs(product) * 1.001 + size * 2e-6 + fabs(added) * 1e-6) * factor + fabs(want) * 1e-6 + 1e-7;
            const double off = once + (c->floats ? 0 : unit(dtype) * fabs(want) * 1.01);
            if (!(fabs(is - want) <= off)) fail_msg("sum[%lld, %lld] is %.9g, not %.9g (%.2g may be off)", (long long)i, (long long)j, is, want, off);
            if (r->s != NULL && (double)r->s[i * c->columns + j] != rounded(dtype, is))
                fail_msg("s[%lld, %lld] is %.9g, and the sum %.9g", (long long)i, (long long)j, (double)r->s[i * c->columns + j], is);
            row[j] = is;
        }
        judge_row(c, dtype, r, in, i, row);
    }
    free(row);
}

static void same_norm_numbers(const float *a, const float *b, int64_t count) {
    if (a != NULL && b != NULL) assert_memory_equal(a, b, (size_t)count * sizeof(float));
}
static void same_norm_results(const norm_case *c, const norm_results *a, const norm_results *b) {
    same_norm_numbers(a->sum, b->sum, c->rows * c->columns);
    same_norm_numbers(a->s, b->s, c->rows * c->columns);
    same_norm_numbers(a->y, b->y, c->rows * c->columns);
    same_norm_numbers(a->mean, b->mean, c->rows);
    same_norm_numbers(a->rstd, b->rstd, c->rows);
}

// In one and by the pass; of an fp32 sum nothing is rounded on the way to the norm. (s of a zero of the stream has no sign, where the norm reads the stream.)
static void same_as_by_pass(const norm_case *c, const norm_results *one, const norm_results *two) {
    same_norm_numbers(one->sum, two->sum, c->rows * c->columns);
    for (int64_t i = 0; one->s != NULL && i < c->rows * c->columns; i++) assert_true(one->s[i] == two->s[i]);
    if (!c->floats) return;
    same_norm_numbers(one->y, two->y, c->rows * c->columns);
    same_norm_numbers(one->mean, two->mean, c->rows);
    same_norm_numbers(one->rstd, two->rstd, c->rows);
}

__attribute__((unused)) static void check_norm(const norm_case *c, ft_dtype dtype, int first_order, int orders) {
    norm_fences f;
    const norm_inputs in = norm_drawn(c, dtype, &f);
    norm_results first = {NULL, NULL, NULL, NULL, NULL};
    for (int i = 0; i < orders; i++) {
        simt_set_order((simt_order)((first_order + i) % SIMT_ORDERS), (uint64_t)i);
        const norm_results r = run_norm(c, dtype, &in, false);
        if (i > 0) {
            same_norm_results(c, &first, &r);
            norm_results_free(r);
            continue;
        }
        first = r;
        judge_norm(c, dtype, &r, &in);
        const norm_results two = run_norm(c, dtype, &in, true);
        same_as_by_pass(c, &r, &two);
        if (r.sum == NULL) { // what was in y's place is gone: as if it had been kept
            norm_results of_y = r;
            of_y.sum = two.sum;
            judge_norm(c, dtype, &of_y, &in);
        }
        norm_results_free(two);
    }
    norm_results_free(first);
    norm_fences_free(f);
}

#endif
