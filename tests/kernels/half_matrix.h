// half_matrix.h - what the tests of ops in bf16 and fp16 share: matrices of any type fenced with NaNs, reproducible
// numbers that the type has, and the tolerance of a result that was rounded once. Behind elementwise.h.
#ifndef FT_TEST_HALF_MATRIX_H
#define FT_TEST_HALF_MATRIX_H

#include "elementwise.h"

#include "tests/emulator/half.h"

typedef struct typed {
    ft_tensor t; // the view; t.data is inside base
    unsigned char *base;
    size_t bytes;
} typed;

// `whole`: rows begin at 16-byte addresses where they are whole units of eight; else in the middle of 16 bytes.
enum { TYPED_FENCE = 64, TYPED_BYTE = 0xFF }; // every type reads that byte as a NaN

__attribute__((unused)) static typed typed_new(ft_dtype dtype, int64_t rows, int64_t cols, int64_t gap, bool whole) {
    size_t size = ft_dtype_size(dtype);
    typed m = {.t = {NULL, rows, cols, cols + (whole ? (gap + 7) / 8 * 8 : gap), dtype}};
    m.bytes = (2 * TYPED_FENCE + (size_t)(rows * m.t.stride + 1) * size + 15) / 16 * 16;
    m.base = aligned_alloc(16, m.bytes);
    assert_non_null(m.base);
    memset(m.base, TYPED_BYTE, m.bytes);
    m.t.data = m.base + TYPED_FENCE + (whole ? 0 : size);
    return m;
}
static inline double typed_get(ft_tensor t, int64_t row, int64_t col) {
    const char *from = (const char *)t.data + (size_t)(row * t.stride + col) * ft_dtype_size(t.dtype);
    float wide;
    uint16_t bits;
    if (t.dtype == FT_F32) return memcpy(&wide, from, sizeof wide), (double)wide;
    return memcpy(&bits, from, sizeof bits), half_value(t.dtype, bits);
}
static inline void typed_set(ft_tensor t, int64_t row, int64_t col, double x) {
    char *to = (char *)t.data + (size_t)(row * t.stride + col) * ft_dtype_size(t.dtype);
    float wide = (float)x;
    uint16_t bits = t.dtype == FT_F32 ? 0 : half_bits(t.dtype, x);
    memcpy(to, t.dtype == FT_F32 ? (void *)&wide : (void *)&bits, ft_dtype_size(t.dtype));
}
__attribute__((unused)) static typed typed_random(ft_dtype dtype, int64_t rows, int64_t cols, int64_t gap, bool whole,
                                                  double deviation, double mean) {
    typed m = typed_new(dtype, rows, cols, gap, whole);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            typed_set(m.t, i, j, mean + normal(deviation));
    return m;
}
// The numbers of another matrix, which the type must have, laid out anew.
__attribute__((unused)) static typed typed_like(ft_tensor from, int64_t gap, bool whole) {
    typed m = typed_new(from.dtype, from.rows, from.cols, gap, whole);
    for (int64_t i = 0; i < from.rows; i++)
        for (int64_t j = 0; j < from.cols; j++)
            typed_set(m.t, i, j, typed_get(from, i, j));
    return m;
}
__attribute__((unused)) static void typed_same(typed a, typed b) {
    for (int64_t i = 0; i < a.t.rows; i++)
        for (int64_t j = 0; j < a.t.cols; j++)
            assert_true(typed_get(a.t, i, j) == typed_get(b.t, i, j));
}
__attribute__((unused)) static typed typed_none(void) { return (typed){.t = ft_absent()}; }

// Nothing outside the view was written; frees it.
__attribute__((unused)) static void typed_free(typed m) {
    if (m.base == NULL) return;
    const size_t size = ft_dtype_size(m.t.dtype), begin = (size_t)((unsigned char *)m.t.data - m.base);
    for (size_t i = 0; i < m.bytes; i++) {
        int64_t element = i < begin ? -1 : (int64_t)((i - begin) / size);
        bool inside = element >= 0 && element / m.t.stride < m.t.rows && element % m.t.stride < m.t.cols;
        if (!inside && m.base[i] != TYPED_BYTE) fail_msg("byte %zu, outside of the view, was written", i);
    }
    free(m.base);
}
// Appends the view's elements to out; returns how many.
__attribute__((unused)) static size_t typed_flatten(ft_tensor t, float *out) {
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t j = 0; j < t.cols; j++)
            out[i * t.cols + j] = (float)typed_get(t, i, j);
    return t.data != NULL ? (size_t)(t.rows * t.cols) : 0;
}

// ---- judging -------------------------------------------------------------------------------------------------------

// Half a unit of the last place, relative.
static inline double half_unit(ft_dtype dtype) { return ldexp(1, dtype == FT_BF16 ? -8 : dtype == FT_F16 ? -11 : -24); }

// Computed in fp32 and rounded once: what fp32 loses is small beside the largest element. (2^-25: half of fp16's
// smallest.)
__attribute__((unused)) static void assert_rounded(const char *what, ft_dtype dtype, const float *got,
                                                   const double *want, size_t n) {
    double most = 0, error = 0, size = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(want[i]));
    for (size_t i = 0; i < n; i++) {
        double off = fabs((double)got[i] - want[i]);
        if (!(off <= half_unit(dtype) * fabs(want[i]) + 5e-6 * most + (dtype == FT_F16 ? 0x1p-25 : 0)))
            fail_msg("%s in %s: [%zu] is %.9g, should be %.9g", what, ft_dtype_name(dtype), i, (double)got[i], want[i]);
        error += off * off;
        size += want[i] * want[i];
    }
    if (!(sqrt(error) <= 0.75 * half_unit(dtype) * sqrt(size) + 1e-30)) // of many elements not all are off by the most
        assert_true(n < 20);
}
// Sums in fp32 of numbers that are exact.
__attribute__((unused)) static void assert_summed(const char *what, const float *got, const double *want, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= 4e-6 * most))
            fail_msg("%s: [%zu] is %.9g, should be %.9g", what, i, (double)got[i], want[i]);
}

// Norm of the difference over the norm of the right answer.
__attribute__((unused)) static double relative_error(const float *got, const double *want, size_t n) {
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        error += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        size += want[i] * want[i];
    }
    return sqrt(error / size);
}

// ---- the ways of a case --------------------------------------------------------------------------------------------

static const ft_dtype half_types[] = {FT_BF16, FT_F16};

// Runs a case in every way, with views that begin at 16-byte addresses and with others: the bits are the same.
typedef void typed_run(ft_device *device, const void *test_case, bool whole, float *out);
typedef struct typed_way {
    typed_run *run;
    const void *test_case;
    bool whole;
} typed_way;
static void run_typed_way(ft_device *device, const void *way, float *out) {
    const typed_way *w = way;
    w->run(device, w->test_case, w->whole, out);
}
__attribute__((unused)) static float *run_typed(typed_run *run, const void *test_case, size_t n) {
    float *got[2];
    for (int whole = 0; whole < 2; whole++) {
        typed_way way = {run, test_case, whole};
        got[whole] = run_everywhere(run_typed_way, &way, n);
    }
    for (size_t i = 0; i < n; i++)
        if (memcmp(&got[0][i], &got[1][i], sizeof(float)) != 0 && !(isnan(got[0][i]) && isnan(got[1][i])))
            fail_msg("element %zu is %.9g, with aligned views %.9g", i, (double)got[0][i], (double)got[1][i]);
    free(got[0]);
    return got[1];
}

#endif
