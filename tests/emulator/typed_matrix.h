// typed_matrix.h - for the tests of attention on the emulator: matrices of fp32, bf16 and fp16 on the fake device, whose
// new memory is NaN, and how far results may be off. Inputs are numbers that the type has, so that only the work of the
// kernels is off.
#ifndef FT_TYPED_MATRIX_H
#define FT_TYPED_MATRIX_H

#include "tests/kernels/elementwise.h"

#include "tests/emulator/driver/fake_device.h"
#include "tests/emulator/half.h"
#include "tests/emulator/simt/control.h"
#include "tests/fixtures/sanitized.h"

#include "kernels/cuda/ops.h"

static int set_up(void **state) {
    load_fake(FT_FAKE_DRIVER);
    simt_set_queue(fake_launch);
    open_gpu(NULL);
    return 0;
}
static int tear_down(void **state) {
    close_gpu(0);
    return 0;
}

static const ft_dtype dtypes[] = {FT_F32, FT_BF16, FT_F16};

static double rounded(ft_dtype dtype, double x) {
    return dtype == FT_F32 ? (double)(float)x : half_value(dtype, half_bits(dtype, x));
}
static void round_matrix(ft_dtype dtype, ft_tensor t) {
    for (int64_t i = 0; i < t.rows; i++)
        for (int64_t j = 0; j < t.cols; j++)
            *at(t, i, j) = (float)rounded(dtype, (double)*at(t, i, j));
}

// A matrix on the device, rows `gap` elements apart beyond their columns, `shift` elements behind an aligned address. The
// gaps are NaN, and must stay as they are.
typedef struct on_device {
    ft_tensor t;
    void *buffer;
    size_t bytes;
} on_device;
enum { GAP_BYTE = 0xff };

static void write_element(ft_dtype dtype, void *to, float x) {
    uint16_t bits = dtype == FT_F32 ? 0 : half_bits(dtype, (double)x);
    memcpy(to, dtype == FT_F32 ? (void *)&x : (void *)&bits, ft_dtype_size(dtype));
}
static float read_element(ft_dtype dtype, const void *from) {
    if (dtype != FT_F32) {
        uint16_t bits;
        memcpy(&bits, from, sizeof bits);
        return (float)half_value(dtype, bits);
    }
    float x;
    memcpy(&x, from, sizeof x);
    return x;
}

static void *to_device(const void *data, size_t bytes) {
    void *buffer;
    good(gpu->functions->buffer_alloc(gpu, bytes, &buffer));
    good(gpu->functions->upload(gpu, buffer, data, bytes));
    good(gpu->functions->sync(gpu));
    return buffer;
}

static on_device device_matrix(ft_dtype dtype, int64_t rows, int64_t cols, int64_t gap, int64_t shift, const ft_tensor *from) {
    size_t size = ft_dtype_size(dtype);
    on_device m = {.t = {NULL, rows, cols, cols + gap, dtype}, .bytes = ((size_t)(rows * (cols + gap) + shift) + 1) * size};
    char *host = malloc(m.bytes);
    assert_non_null(host);
    memset(host, GAP_BYTE, m.bytes);
    for (int64_t i = 0; from != NULL && i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            write_element(dtype, host + (size_t)(shift + i * m.t.stride + j) * size, *at(*from, i, j));
    m.buffer = to_device(host, m.bytes);
    m.t.data = (char *)m.buffer + (size_t)shift * size;
    free(host);
    return m;
}

// The elements of columns first.. of a matrix; and nothing was written between the rows.
static void fetch(on_device m, int64_t first, int64_t cols, float *out) {
    size_t size = ft_dtype_size(m.t.dtype), begin = (size_t)((char *)m.t.data - (char *)m.buffer);
    unsigned char *host = malloc(m.bytes);
    assert_non_null(host);
    good(gpu->functions->download(gpu, host, m.buffer, m.bytes));
    good(gpu->functions->sync(gpu));
    for (size_t i = 0; i < m.bytes; i++) {
        int64_t element = i < begin ? -1 : (int64_t)((i - begin) / size);
        bool inside = element >= 0 && element / m.t.stride < m.t.rows && element % m.t.stride < m.t.cols;
        if (!inside && host[i] != GAP_BYTE) fail_msg("byte %zu, outside of the view, was written", i);
    }
    for (int64_t i = 0; i < m.t.rows; i++)
        for (int64_t j = 0; j < cols; j++)
            out[i * cols + j] = read_element(m.t.dtype, host + begin + (size_t)(i * m.t.stride + first + j) * size);
    free(host);
}

static void drop(on_device m) { gpu->functions->buffer_free(gpu, m.buffer, m.bytes); }

// Norm of the error and its largest element, as parts of those of the right answer. In 16 bits: three roundings one after
// the other (probabilities or their gradients, the output that the gradient reads, the result), each of half a unit.
__attribute__((unused)) static double norm_bound(ft_dtype dtype) { return dtype == FT_F32 ? 1e-6 : 3 * ldexp(1, dtype == FT_F16 ? -11 : -8); }
__attribute__((unused)) static double element_bound(ft_dtype dtype) { return dtype == FT_F32 ? 4e-6 : 8 * ldexp(1, dtype == FT_F16 ? -11 : -8); }

#endif
