// elementwise.h - what the tests of the row-wise and column-wise ops share: reproducible inputs, matrices fenced with
// NaNs, and running one case on every instruction set and thread count with bit-equal results. Compiled with
// FT_TEST_EMULATED the same cases judge the CUDA kernels, on the emulator in four orders of threads
// (tests/emulator/CMakeLists.txt).
#ifndef FT_TEST_ELEMENTWISE_H
#define FT_TEST_ELEMENTWISE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/ops/backend.h"
#include "kernels/philox.h"
#include "tests/fixtures/sanitized.h"
#ifdef FT_TEST_EMULATED
#include "tests/emulator/emulated_device.h"
#endif

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- inputs --------------------------------------------------------------------------------------------------------
static uint64_t test_seed = 1;
__attribute__((unused)) static double uniform(double low, double high) {
    test_seed += 1;
    return low + (high - low) * (double)(ft_splitmix64(test_seed) >> 11) * 0x1p-53;
}
// Sum of uniforms: close enough to normal, and with the same tails everywhere.
__attribute__((unused)) static double normal(double deviation) {
    double sum = 0;
    for (int i = 0; i < 6; i++)
        sum += uniform(-1, 1);
    return deviation * sum * 0.70710678118654752;
}

// ---- fenced matrices: NaNs before, after and between the rows ------------------------------------------------------
enum { TEST_FENCE = 37 }; // odd, so that rows start at odd addresses
// But CUDA's kernels read whole units of eight columns where rows begin at 16-byte addresses: so do those that could.
static inline int64_t fence_of(int64_t cols) {
#ifdef FT_TEST_EMULATED
    if (cols % 8 == 0) return 40;
#endif
    return TEST_FENCE;
}
#define TEST_FENCE_BITS 0x7FC0BEEFu
typedef struct fenced {
    ft_tensor t; // the view; t.data is inside base
    float *base;
    size_t total;
} fenced;

__attribute__((unused)) static fenced fenced_new(int64_t rows, int64_t cols, int64_t gap) {
    if (fence_of(cols) != TEST_FENCE) gap = (gap + 3) / 4 * 4;
    fenced f = {.t = {NULL, rows, cols, cols + gap, FT_F32}};
    f.total = (size_t)(rows * (cols + gap) + 2 * fence_of(cols));
    f.base = malloc(f.total * sizeof(float));
    assert_non_null(f.base);
    uint32_t *bits = (uint32_t *)f.base;
    for (size_t i = 0; i < f.total; i++)
        bits[i] = TEST_FENCE_BITS;
    f.t.data = f.base + fence_of(f.t.cols);
    return f;
}
static inline float *at(ft_tensor t, int64_t row, int64_t col) { return (float *)t.data + row * t.stride + col; }
__attribute__((unused)) static fenced fenced_random(int64_t rows, int64_t cols, int64_t gap, double deviation,
                                                    double mean) {
    fenced f = fenced_new(rows, cols, gap);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            *at(f.t, i, j) = (float)(mean + normal(deviation));
    return f;
}
__attribute__((unused)) static fenced fenced_copy(fenced from) {
    fenced f = from;
    f.base = malloc(f.total * sizeof(float));
    assert_non_null(f.base);
    memcpy(f.base, from.base, f.total * sizeof(float));
    f.t.data = f.base + fence_of(f.t.cols);
    return f;
}
// Nothing outside the view was written; frees it.
__attribute__((unused)) static void fenced_free(fenced f) {
    if (!f.base) return;
    const uint32_t *bits = (const uint32_t *)f.base;
    for (size_t i = 0; i < f.total; i++) {
        int64_t inside = (int64_t)i - fence_of(f.t.cols);
        bool in_view = inside >= 0 && inside / f.t.stride < f.t.rows && inside % f.t.stride < f.t.cols;
        if (!in_view && bits[i] != TEST_FENCE_BITS) fail_msg("element %zu outside of the view was written", i);
    }
    free(f.base);
}
// Appends the view's elements to out; returns how many.
__attribute__((unused)) static size_t fenced_flatten(fenced f, float *out) {
    for (int64_t i = 0; i < f.t.rows; i++)
        memcpy(out + i * f.t.cols, at(f.t, i, 0), (size_t)f.t.cols * sizeof(float));
    return (size_t)(f.t.rows * f.t.cols);
}
__attribute__((unused)) static fenced fenced_none(void) { return (fenced){.t = ft_absent()}; }

// Every kind of case in fewer orders and sizes: under sanitizers, and where somebody asks for them (nvcc's PTX, executed in CI).
__attribute__((unused)) static bool few_cases(void) {
    const char *cases = getenv("SIMT_CASES");
    return FT_SANITIZED || (cases != NULL && strcmp(cases, "few") == 0);
}

// ---- every way to run ----------------------------------------------------------------------------------------------
static const char *const test_isas[] = {"portable", "avx2", "avx512", "neon"};
typedef void test_run(ft_device *device, const void *test_case, float *out);

#ifdef FT_TEST_EMULATED
static inline ft_status test_open(int threads, ft_device **device) {
    *device = emulated_device();
    return FT_OK;
}
// The way to run with this number, or NULL where the machine lacks it; *end: there is none with this number or beyond.
static inline ft_device *test_way(int way, char *name, size_t size, bool *end) {
    static const char *const orders[SIMT_ORDERS] = {"forward", "reverse", "random", "skewed"};
    static int turn; // of few: each case in one order, the next in the next
    *end = way == (few_cases() ? 1 : SIMT_ORDERS);
    if (*end) return NULL;
    // ThreadSanitizer sees a missing barrier in any
    const simt_order order = (simt_order)(FT_SANITIZED ? SIMT_RANDOM : few_cases() ? turn++ % SIMT_ORDERS : way);
    simt_set_order(order, 1);
    snprintf(name, size, "CUDA, threads in %s order", orders[order]);
    return emulated_device();
}
#else
static inline ft_status test_open(int threads, ft_device **device) { return ft_cpu_open(threads, NULL, device); }
static inline ft_device *test_way(int way, char *name, size_t size, bool *end) {
    enum { COUNTS = FT_SANITIZED ? 2 : 4 }; // of threads: 1 to 4, or 1 and 4
    ft_device *device = NULL;
    const size_t isa = (size_t)way / COUNTS;
    const int threads = FT_SANITIZED ? 1 + way % COUNTS * 3 : 1 + way % COUNTS;
    *end = isa == sizeof test_isas / sizeof test_isas[0];
    if (*end) return NULL;
    snprintf(name, size, "%s with %d threads", test_isas[isa], threads);
    if (ft_cpu_open(threads, test_isas[isa], &device) == FT_OK) return device;
    assert_true(isa > 0); // every machine has the portable one
    ft_error_clear();
    return NULL;
}
#endif

// Runs a case (which writes n floats to out) in every way - on the CPU, every instruction set of this machine with 1..4
// threads (under sanitizers fewer) - and asserts that not a bit differs. Returns the results; the caller frees them.
__attribute__((unused)) static float *run_everywhere(test_run *run, const void *test_case, size_t n) {
    float *first = NULL, *out = malloc((n + 1) * sizeof(float));
    char name[64], first_name[64] = "";
    bool end = false;
    assert_non_null(out);
    for (int way = 0; !end; way++) {
        ft_device *device = test_way(way, name, sizeof name, &end);
        if (device == NULL) continue;
        for (size_t i = 0; i < n; i++)
            out[i] = -77.0f;
        run(device, test_case, out);
        ft_device_close(device);
        if (!first) {
            first = out;
            snprintf(first_name, sizeof first_name, "%s", name);
            out = malloc((n + 1) * sizeof(float));
            assert_non_null(out);
            continue;
        }
        for (size_t i = 0; i < n; i++)
            if (memcmp(&out[i], &first[i], sizeof(float)) != 0 &&
                !(isnan(out[i]) && isnan(first[i]))) // a NaN is a NaN
                fail_msg("%s: element %zu is %.9g, %s has %.9g", name, i, (double)out[i], first_name, (double)first[i]);
    }
    free(out);
    return first;
}

// Sums whose order the CPU's contract fixes to the bit; other back ends have an order of their own.
__attribute__((unused)) static void assert_same_chain(const float *got, const float *want, size_t n) {
#ifdef FT_TEST_EMULATED
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 1e-4f + 1e-5f * fabsf(want[i])))
            fail_msg("element %zu is %.9g, should be %.9g", i, (double)got[i], (double)want[i]);
#else
    assert_memory_equal(got, want, n * sizeof *got);
#endif
}

// |got - want| <= absolute + relative |want|, for all.
__attribute__((unused)) static void assert_close(const char *what, const float *got, const double *want, size_t n,
                                                 double absolute, double relative) {
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= absolute + relative * fabs(want[i])))
            fail_msg("%s[%zu] is %.9g, should be %.9g (off by %.3g)", what, i, (double)got[i], want[i],
                     fabs((double)got[i] - want[i]));
}

// Scratch of exactly the size the op asked for, fenced.
__attribute__((unused)) static ft_workspace workspace_new(size_t bytes) {
    ft_workspace w = {NULL, bytes};
    if (!bytes) return w;
    w.data = aligned_alloc(256, (bytes + 64 + 255) / 256 * 256);
    assert_non_null(w.data);
    memset(w.data, 0xA5, bytes + 64);
    return w;
}
__attribute__((unused)) static void workspace_free(ft_workspace w) {
    if (!w.data) return;
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(((unsigned char *)w.data)[w.bytes + i], 0xA5);
    free(w.data);
}
// Runs an op with the scratch it wants and asserts success.
#define RUN_OP(device, op, args_)                                                                                      \
    do {                                                                                                               \
        ft_##op##_args run_args_ = (args_);                                                                            \
        run_args_.workspace = workspace_new(ft_##op##_workspace(&(device)->target, &run_args_));                       \
        if (FT_RUN(device, op, &run_args_) != FT_OK) fail_msg(#op ": %s", ft_error_message());                         \
        workspace_free(run_args_.workspace);                                                                           \
    } while (0)

// ---- dropout of rows, straight from its definition -----------------------------------------------------------------
__attribute__((unused)) static double dropout_factor(const ft_dropout *d, int64_t row, int64_t channel) {
    if (d->probability == 0.0f) return 1.0;
    uint64_t key = ft_dropout_key(d->step->seed, d->step->step, d->layer, d->site);
    uint32_t threshold = ft_dropout_threshold(d->probability);
    uint32_t bits = ft_dropout_bits_row(key, (uint32_t)d->slot[row], (uint32_t)d->position[row], (uint32_t)channel);
    return bits < threshold ? 0.0 : (double)ft_dropout_scale(threshold);
}
// Rows [first, ...) of a dropout.
__attribute__((unused)) static ft_dropout dropout_rows(ft_dropout d, int64_t first) {
    if (d.slot) d.slot += first;
    if (d.position) d.position += first;
    return d;
}

#endif
