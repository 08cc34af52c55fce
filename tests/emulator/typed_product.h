// typed_product.h - cases of our own product with an activation in bf16 and fp16 on the emulator: h against sums in double precision, y against the
// activation of the h that is there; in several orders of threads, to the bit.
#ifndef FT_TYPED_PRODUCT_H
#define FT_TYPED_PRODUCT_H

#include "tests/emulator/typed_matrix.h"

#include "kernels/ops/product_activation.h"

enum { MULTIPROCESSORS = 3 }; // so that a block has several tiles

static inline void open_hopper(size_t multiprocessors) {
    close_gpu(0);
    fake_settings s = fake.defaults();
    s.capability = 90;
    s.multiprocessors = multiprocessors;
    open_gpu(&s);
}
static inline int set_up_hopper(void **state) {
    set_up(state);
    open_hopper(MULTIPROCESSORS);
    return 0;
}

typedef struct product_case {
    int64_t rows, columns, terms, gap; // gap: further numbers between rows, of eight
    ft_activation kind;
    bool bias, keeps_h;
} product_case;

typedef struct results {
    float *h, *y; // h: NULL where it is not kept
} results;

static ft_tensor drawn(ft_dtype dtype, int64_t rows, int64_t cols, double size, fenced *f) {
    *f = fenced_random(rows, cols, 0, size, 0);
    round_matrix(dtype, f->t);
    return f->t;
}

static results run(const product_case *c, ft_dtype dtype, const ft_tensor *x, const ft_tensor *w, const ft_tensor *bias) {
    on_device dx = device_matrix(dtype, c->rows, c->terms, 8 - c->terms % 8 + c->gap, 0, x);
    on_device dw = device_matrix(dtype, c->columns, c->terms, 8 - c->terms % 8 + c->gap, 0, w);
    on_device db = device_matrix(dtype, 1, c->columns, 0, 0, bias);
    on_device h = device_matrix(dtype, c->rows, c->columns, c->gap, 0, NULL), y = device_matrix(dtype, c->rows, c->columns, c->gap, 0, NULL);
    ft_product_activation_args args = {.kind = c->kind, .x = dx.t, .w = dw.t, .bias = c->bias ? db.t : ft_absent(), .h = c->keeps_h ? h.t : ft_absent(), .y = y.t};
    args.workspace.bytes = ft_product_activation_workspace(&gpu->target, &args); // which only the two ops would use
    good(ft_product_activation_check(&gpu->target, &args));
    assert_true(ft_product_activation_own(&args));
    const uint64_t before = simt_launches("product_activation");
    good(ft_cuda_product_activation(gpu, &args));
    good(gpu->functions->sync(gpu));
    assert_int_equal(simt_launches("product_activation") - before, 1);
    results r = {c->keeps_h ? malloc((size_t)(c->rows * c->columns) * sizeof(float)) : NULL, malloc((size_t)(c->rows * c->columns) * sizeof(float))};
    assert_non_null(r.y);
    if (c->keeps_h) fetch(h, 0, c->columns, r.h);
    fetch(y, 0, c->columns, r.y);
    on_device all[] = {dx, dw, db, h, y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        drop(all[i]);
    return r;
}

static double activation_of(ft_activation kind, double x) {
    switch (kind) {
    case FT_ACT_GELU: return x * erfc(-x * sqrt(0.5)) / 2;
    case FT_ACT_RELU: return x > 0 ? x : 0;
    case FT_ACT_SILU: return x / (1 + exp(-x));
    default: return x;
    }
}

// Half a unit in the last place of the type, and what the arithmetic in fp32 leaves.
static double unit(ft_dtype dtype) { return ldexp(1, dtype == FT_F16 ? -11 : -8); }

static void judge(const product_case *c, ft_dtype dtype, const results *r, ft_tensor x, ft_tensor w, ft_tensor bias) {
    for (int64_t i = 0; i < c->rows; i++)
        for (int64_t j = 0; j < c->columns; j++) {
            double sum = c->bias ? (double)*at(bias, 0, j) : 0, size = fabs(sum);
            for (int64_t k = 0; k < c->terms; k++) {
                const double term = (double)*at(x, i, k) * (double)*at(w, j, k);
                sum += term;
                size += fabs(term);
            }
            const int64_t n = i * c->columns + j;
            const double h = r->h != NULL ? (double)r->h[n] : rounded(dtype, sum), off = unit(dtype) * fabs(sum) * 1.001 + size * 2e-6 + 1e-7;
            if (!(fabs(h - sum) <= off)) fail_msg("h[%lld, %lld] is %.9g, not %.9g (%.2g may be off)", (long long)i, (long long)j, h, sum, off);
            const double y = activation_of(c->kind, h), more = r->h != NULL ? 0 : 2 * off;
            if (!(fabs((double)r->y[n] - y) <= unit(dtype) * fabs(y) * 1.001 + 1e-6 + more))
                fail_msg("y[%lld, %lld] is %.9g, not %.9g", (long long)i, (long long)j, (double)r->y[n], y);
        }
}

__attribute__((unused)) static void check_product(const product_case *c, ft_dtype dtype, int first_order, int orders) {
    fenced fx, fw, fb;
    const ft_tensor x = drawn(dtype, c->rows, c->terms, 1 / sqrt((double)c->terms), &fx), w = drawn(dtype, c->columns, c->terms, 1.5, &fw),
                    bias = drawn(dtype, 1, c->columns, 1, &fb);
    results first = {NULL, NULL};
    for (int i = 0; i < orders; i++) {
        simt_set_order((simt_order)((first_order + i) % SIMT_ORDERS), (uint64_t)i);
        results r = run(c, dtype, &x, &w, &bias);
        const size_t bytes = (size_t)(c->rows * c->columns) * sizeof(float);
        if (i == 0) {
            judge(c, dtype, &r, x, w, bias);
            first = r;
            continue;
        }
        assert_memory_equal(r.y, first.y, bytes);
        if (r.h != NULL) assert_memory_equal(r.h, first.h, bytes);
        free(r.h);
        free(r.y);
    }
    free(first.h);
    free(first.y);
    fenced_free(fx);
    fenced_free(fw);
    fenced_free(fb);
}

#endif
