// The op gemm on CUDA: what it asks of cuBLASLt, judged by a library that interprets the same descriptors and refuses
// what the real one refuses. Every product against plain loops in double precision.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cuda/geometry.h"
#include "kernels/cuda/kernels.h"
#include "kernels/philox.h"
#include "tests/emulator/fake_cublaslt.h"
#include "tests/emulator/fake_driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static ft_device *gpu;
static ft_workspace workspace = {NULL, FT_CUDA_GEMM_WORKSPACE}; // one for all products: they follow each other
static uint64_t state;

static void good(ft_status status) {
    if (status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
}

static void failed(ft_status got, ft_status want, const char *part) {
    if (got != want || strstr(ft_error_message(), part) == NULL)
        fail_msg("status %d, not %d; '%s' should contain '%s'", got, want, ft_error_message(), part);
}

static float number(void) { return (float)((double)(ft_splitmix64(++state) >> 40) * 0x1p-23 - 1.0); }

static int open_gpu(void **unused) {
    fake_settings s = fake_defaults();
    s.memory = (size_t)256 << 20;
    s.version = 13000;
    fake_reset(&s);
    fake_lt_reset();
    good(ft_cuda_open_with_kernels(0, &gpu));
    good(gpu->functions->buffer_alloc(gpu, workspace.bytes, &workspace.data));
    return 0;
}

static int close_gpu(void **unused) {
    gpu->functions->buffer_free(gpu, workspace.data, workspace.bytes);
    ft_device_close(gpu);
    fake_books b = fake_read();
    assert_int_equal(b.contexts + b.streams + b.buffers + b.handles, 0);
    fake_lt_books lt = fake_lt_read();
    assert_int_equal(lt.handles + lt.descs + lt.layouts + lt.preferences, 0);
    return 0;
}

// ---- matrices on the device, fenced with NaNs ---------------------------------------------------------------------

enum { FENCE = 5 };

typedef struct matrix {
    ft_tensor t; // on the device
    float *host, *base;
    size_t floats;
} matrix;

static matrix matrix_new(int64_t rows, int64_t cols, int64_t gap, bool filled) {
    matrix m = {.t = ft_matrix(NULL, rows, cols, FT_F32), .floats = (size_t)(rows * (cols + gap)) + 2 * FENCE};
    void *base;
    m.t.stride = cols + gap;
    m.host = malloc(m.floats * sizeof(float));
    assert_non_null(m.host);
    for (size_t i = 0; i < m.floats; i++)
        m.host[i] = NAN;
    for (int64_t i = 0; i < rows && filled; i++)
        for (int64_t j = 0; j < cols; j++)
            m.host[FENCE + i * m.t.stride + j] = number();
    good(gpu->functions->buffer_alloc(gpu, m.floats * sizeof(float), &base));
    m.base = base;
    m.t.data = m.base + FENCE;
    good(gpu->functions->upload(gpu, m.base, m.host, m.floats * sizeof(float)));
    good(gpu->functions->sync(gpu));
    return m;
}

static float *at(const matrix *m, int64_t i, int64_t j) { return m->host + FENCE + i * m->t.stride + j; }

static void matrix_free(matrix *m) {
    gpu->functions->buffer_free(gpu, m->base, m->floats * sizeof(float));
    free(m->host);
}

typedef struct product {
    int64_t m, n, k, gap;
    bool trans_a, trans_b, accumulate, bias;
} product;

static ft_gemm_args args_of(const product *p, const matrix *a, const matrix *b, const matrix *c, const matrix *bias) {
    return (ft_gemm_args){.a = a->t,
                          .b = b->t,
                          .c = c->t,
                          .trans_a = p->trans_a,
                          .trans_b = p->trans_b,
                          .accumulate = p->accumulate,
                          .bias = p->bias ? bias->t : ft_absent()};
}

static ft_status run(ft_gemm_args args) {
    assert_int_equal(ft_gemm_workspace(&gpu->target, &args), workspace.bytes);
    args.workspace = workspace;
    return FT_RUN(gpu, gemm, &args);
}

// Runs it and says by how much the worst element is off, in units of its tolerance; fails when anything else was
// written.
static double worst(const product *p) {
    matrix a = matrix_new(p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k, p->gap, true);
    matrix b = matrix_new(p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n, 2 * p->gap, true);
    matrix c = matrix_new(p->m, p->n, p->gap, p->accumulate), bias = matrix_new(1, p->n, 0, true);
    good(run(args_of(p, &a, &b, &c, &bias)));
    float *got = malloc(c.floats * sizeof(float));
    assert_non_null(got);
    good(gpu->functions->download(gpu, got, c.base, c.floats * sizeof(float)));
    good(gpu->functions->sync(gpu));
    double most = 0;
    for (size_t i = 0; i < c.floats; i++) {
        int64_t inside = (int64_t)i - FENCE, row = inside / c.t.stride, col = inside % c.t.stride;
        if (inside < 0 || row >= p->m || col >= p->n) {
            if (!isnan(got[i])) fail_msg("element %zu outside of C was written", i);
            continue;
        }
        double want = p->accumulate ? (double)*at(&c, row, col) : 0, size = 1;
        for (int64_t k = 0; k < p->k; k++) {
            double term = (double)(p->trans_a ? *at(&a, k, row) : *at(&a, row, k)) *
                          (double)(p->trans_b ? *at(&b, col, k) : *at(&b, k, col));
            want += term;
            size += fabs(term);
        }
        if (p->bias) want += (double)*at(&bias, 0, col);
        double off = fabs((double)got[i] - want) / (1e-6 * size);
        if (!(off <= most)) most = isnan(off) ? INFINITY : off;
    }
    free(got);
    matrix_free(&a);
    matrix_free(&b);
    matrix_free(&c);
    matrix_free(&bias);
    return most;
}

static void test_products_are_right(void **unused) {
    static const int64_t shapes[][3] = {{1, 1, 1},    {1, 7, 3},  {5, 1, 9},  {13, 6, 300},
                                        {32, 48, 16}, {7, 33, 1}, {2, 65, 31}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int how = 0; how < 16; how++) {
            product p = {.m = shapes[s][0],
                         .n = shapes[s][1],
                         .k = shapes[s][2],
                         .gap = how % 3,
                         .trans_a = how & 1,
                         .trans_b = how & 2,
                         .accumulate = how & 4,
                         .bias = how & 8};
            double off = worst(&p);
            if (off > 1)
                fail_msg("[%d,%d,%d] in way %d: %g times the tolerance", (int)p.m, (int)p.n, (int)p.k, how, off);
        }
    assert_int_equal(fake_lt_read().misuses, 0);
}

// The check above sees what it is there to see.
static void test_a_swapped_transpose_is_caught(void **unused) {
    product p = {.m = 9, .n = 8, .k = 8, .trans_b = true};
    assert_true(worst(&p) <= 1);
    fake_lt_swap_transpose(1);
    assert_true(worst(&p) > 1);
    fake_lt_swap_transpose(0);
}

static void test_nothing_to_add_up(void **unused) {
    for (int how = 0; how < 3; how++) {
        product p = {.m = 4, .n = 5, .k = 0, .gap = 3, .trans_a = how == 1, .accumulate = how == 2, .bias = how == 1};
        assert_true(worst(&p) == 0);
    }
    product empty = {.m = 0, .n = 5, .k = 3};
    assert_true(worst(&empty) == 0);
    assert_int_equal(fake_lt_read().products, 0);
}

static void test_an_algorithm_is_chosen_once(void **unused) {
    product p = {.m = 12, .n = 8, .k = 20, .bias = true};
    matrix a = matrix_new(12, 20, 0, true), b = matrix_new(20, 8, 0, true), c = matrix_new(12, 8, 0, false),
           bias = matrix_new(1, 8, 0, true);
    ft_gemm_args args = args_of(&p, &a, &b, &c, &bias);
    for (int i = 0; i < 5; i++)
        good(run(args));
    assert_int_equal(fake_lt_read().heuristics, 1);
    // Another address of the same alignment is the same product, another alignment is not.
    args.bias = ft_absent();
    good(run(args));
    assert_int_equal(fake_lt_read().heuristics, 2);
    args.a = ft_columns(args.a, 1, 19);
    args.b = ft_rows(args.b, 1, 19);
    good(run(args));
    assert_int_equal(fake_lt_read().heuristics, 3);
    good(gpu->functions->sync(gpu));
    matrix_free(&a);
    matrix_free(&b);
    matrix_free(&c);
    matrix_free(&bias);
}

// More shapes than there are slots: the oldest give way, and nothing is lost (close_gpu counts).
static void test_many_shapes(void **unused) {
    for (int64_t k = 1; k < 1500; k++) {
        product p = {.m = 1, .n = 2, .k = k % 40 + 1, .gap = k / 40};
        assert_true(worst(&p) <= 1);
    }
}

static void test_refusals(void **unused) {
    product p = {.m = 3, .n = 3, .k = 3};
    matrix a = matrix_new(3, 3, 0, true), b = matrix_new(3, 3, 0, true), c = matrix_new(3, 3, 0, false);
    ft_gemm_args args = args_of(&p, &a, &b, &c, &c);
    static const char *const calls[] = {"cublasLtMatmulDescCreate",       "cublasLtMatrixLayoutCreate",
                                        "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute",
                                        "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fake_lt_refuse(calls[i], 1, 1, 13);
        failed(run(args), FT_FAILED, "cuBLASLt answers CUBLAS_STATUS_EXECUTION_FAILED (13)");
        assert_string_equal(ft_error_where(), calls[i]);
        ft_error_clear();
    }
    fake_lt_refuse("cublasLtMatmulDescCreate", 1, 1, 3);
    args.trans_a = true;
    failed(run(args), FT_NO_MEMORY, "CUBLAS_STATUS_ALLOC_FAILED");
    fake_lt_set_mood(FAKE_LT_FINDS_NOTHING);
    failed(run(args), FT_FAILED, "CUBLAS_STATUS_NOT_SUPPORTED");
    fake_lt_set_mood(FAKE_LT_WANTS_MORE);
    failed(run(args), FT_FAILED, "cuBLASLt has no algorithm for fp32 [3,3] x fp32 [3,3]");
    fake_lt_set_mood(FAKE_LT_HELPFUL);
    good(run(args));
    args.workspace = (ft_workspace){NULL, FT_CUDA_GEMM_WORKSPACE - 1};
    failed(FT_RUN(gpu, gemm, &args), FT_FAILED, "workspace has");
    good(gpu->functions->sync(gpu));
    matrix_free(&a);
    matrix_free(&b);
    matrix_free(&c);
    ft_error_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_products_are_right, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_a_swapped_transpose_is_caught, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_nothing_to_add_up, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_an_algorithm_is_chosen_once, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_many_shapes, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_refusals, open_gpu, close_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
