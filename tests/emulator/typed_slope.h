// typed_slope.h - cases of our own product with an activation's slope in bf16 and fp16 on the emulator: dx and its sums by columns against double
// precision, y against the activation of h; in several orders of threads, to the bit.
#ifndef FT_TYPED_SLOPE_H
#define FT_TYPED_SLOPE_H

#include "tests/emulator/typed_product.h"

#include "kernels/ops/product_slope.h"

typedef enum y_place { NO_Y, OWN_Y, Y_FOR_H } y_place; // y is not wanted, lies by itself, takes the place of h

typedef struct slope_case {
    int64_t rows, columns, terms, gap; // gap: further numbers between rows, of eight
    ft_activation kind;
    y_place y;
    bool dbias;
} slope_case;

typedef struct slope_inputs {
    ft_tensor dout, w, h;
} slope_inputs;

typedef struct slope_results {
    float *dx, *y, *dbias; // the latter two NULL where they are not wanted
} slope_results;

static float before_of(int64_t column) { return (float)(column % 7) - 3; } // of dbias, which is accumulated

static on_device dbias_before(int64_t columns) {
    fenced f = fenced_random(1, columns, 0, 1, 0);
    for (int64_t j = 0; j < columns; j++) *at(f.t, 0, j) = before_of(j);
    const on_device m = device_matrix(FT_F32, 1, columns, 0, 0, &f.t);
    fenced_free(f);
    return m;
}

static float *fetched(on_device m, bool wanted) {
    if (!wanted) return NULL;
    float *out = malloc((size_t)(m.t.rows * m.t.cols) * sizeof(float));
    assert_non_null(out);
    fetch(m, 0, m.t.cols, out);
    return out;
}

static slope_results run_slope(const slope_case *c, ft_dtype dtype, const slope_inputs *in) {
    const int64_t more = 8 - c->terms % 8 + c->gap;
    on_device dout = device_matrix(dtype, c->rows, c->terms, more, 0, &in->dout), w = device_matrix(dtype, c->terms, c->columns, c->gap, 0, &in->w),
              h = device_matrix(dtype, c->rows, c->columns, c->gap, 0, &in->h), dx = device_matrix(dtype, c->rows, c->columns, c->gap, 0, NULL),
              y = device_matrix(dtype, c->rows, c->columns, c->gap, 0, NULL), dbias = dbias_before(c->columns),
              sums = device_matrix(FT_F32, ft_cuda_slope_sums(c->rows), c->columns, 0, 0, NULL); // no byte more than our kernel has a use for
    ft_product_slope_args args = {.kind = c->kind, .dout = dout.t, .w = w.t, .h = h.t, .dx = dx.t, .y = c->y == OWN_Y ? y.t : c->y == Y_FOR_H ? h.t : ft_absent()};
    if (c->dbias) args.dbias = ft_vector(dbias.t.data, c->columns, FT_F32);
    args.workspace.bytes = ft_product_slope_workspace(&gpu->target, &args);
    assert_true(args.workspace.bytes >= sums.bytes - sizeof(float));
    good(ft_product_slope_check(&gpu->target, &args));
    assert_true(ft_product_slope_own(&args));
    if (c->dbias) args.workspace.data = sums.t.data;
    const uint64_t before = simt_launches("product_slope");
    good(ft_cuda_product_slope(gpu, &args));
    good(gpu->functions->sync(gpu));
    assert_int_equal(simt_launches("product_slope") - before, c->dbias ? 2 : 1);
    const slope_results r = {fetched(dx, true), fetched(c->y == Y_FOR_H ? h : y, c->y != NO_Y), fetched(dbias, c->dbias)};
    on_device all[] = {dout, w, h, dx, y, dbias, sums};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        drop(all[i]);
    return r;
}

static void slope_results_free(slope_results r) {
    free(r.dx);
    free(r.y);
    free(r.dbias);
}

static double slope_of(ft_activation kind, double x) {
    const double s = 1 / (1 + exp(-x));
    switch (kind) {
    case FT_ACT_GELU: return erfc(-x * sqrt(0.5)) / 2 + x * exp(-x * x / 2) * 0.3989422804014327;
    case FT_ACT_RELU: return x > 0 ? 1 : 0;
    case FT_ACT_SILU: return s * (1 + x * (1 - s));
    default: return 1;
    }
}

static void judge_slope(const slope_case *c, ft_dtype dtype, const slope_results *r, const slope_inputs *in) {
    for (int64_t j = 0; j < c->columns; j++) {
        double sum = (double)before_of(j), all_off = 1e-5;
        for (int64_t i = 0; i < c->rows; i++) {
            double product = 0, size = 0;
            for (int64_t k = 0; k < c->terms; k++) {
                const double term = (double)*at(in->dout, i, k) * (double)*at(in->w, k, j);
                product += term;
                size += fabs(term);
            }
            const int64_t n = i * c->columns + j;
            const double h = (double)*at(in->h, i, j), slope = slope_of(c->kind, h), want = product * slope;
            const double once = unit(dtype) * fabs(want) * 1.001 + size * 2e-6 + fabs(product) * 1e-6 + 1e-7, twice = once + unit(dtype) * fabs(want) * 1.01;
            if (!(fabs((double)r->dx[n] - want) <= twice))
                fail_msg("dx[%lld, %lld] is %.9g, not %.9g (%.2g may be off)", (long long)i, (long long)j, (double)r->dx[n], want, twice);
            sum += want;
            all_off += once + fabs(sum) * 1e-6;
            const double y = activation_of(c->kind, h);
            if (r->y != NULL && !(fabs((double)r->y[n] - y) <= unit(dtype) * fabs(y) * 1.001 + 1e-6))
                fail_msg("y[%lld, %lld] is %.9g, not %.9g", (long long)i, (long long)j, (double)r->y[n], y);
        }
        if (r->dbias != NULL && !(fabs((double)r->dbias[j] - sum) <= all_off))
            fail_msg("dbias[%lld] is %.9g, not %.9g (%.2g may be off)", (long long)j, (double)r->dbias[j], sum, all_off);
    }
}

static void same_where_both_are(const float *a, const float *b, int64_t count) {
    if (a != NULL && b != NULL) assert_memory_equal(a, b, (size_t)count * sizeof(float));
}
static void same_slope_results(const slope_case *c, const slope_results *a, const slope_results *b) {
    same_where_both_are(a->dx, b->dx, c->rows * c->columns);
    same_where_both_are(a->y, b->y, c->rows * c->columns);
    same_where_both_are(a->dbias, b->dbias, c->columns);
}

typedef struct slope_fences {
    fenced dout, w, h;
} slope_fences;
static slope_inputs slope_drawn(const slope_case *c, ft_dtype dtype, slope_fences *f) {
    return (slope_inputs){drawn(dtype, c->rows, c->terms, 1 / sqrt((double)c->terms), &f->dout), drawn(dtype, c->terms, c->columns, 1.5, &f->w),
                          drawn(dtype, c->rows, c->columns, 2, &f->h)};
}
static void slope_fences_free(slope_fences f) {
    fenced_free(f.dout);
    fenced_free(f.w);
    fenced_free(f.h);
}

__attribute__((unused)) static void check_slope(const slope_case *c, ft_dtype dtype, int first_order, int orders) {
    slope_fences f;
    const slope_inputs in = slope_drawn(c, dtype, &f);
    slope_results first = {NULL, NULL, NULL};
    for (int i = 0; i < orders; i++) {
        simt_set_order((simt_order)((first_order + i) % SIMT_ORDERS), (uint64_t)i);
        const slope_results r = run_slope(c, dtype, &in);
        if (i == 0) {
            judge_slope(c, dtype, &r, &in);
            first = r;
            continue;
        }
        same_slope_results(c, &first, &r);
        slope_results_free(r);
    }
    slope_results_free(first);
    slope_fences_free(f);
}

#endif
