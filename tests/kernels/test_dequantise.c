// Matrices of 4 and 8 bits: the bytes that bitsandbytes writes (vectors/quantised.txt), and the numbers that it makes of them, to
// the bit in fp32 and rounded once in 16 bits, on every instruction set and number of threads.
// ctest: emulated=yes
#include "elementwise.h"
#include "base/arena.h"
#include "tests/emulator/half.h"

enum { MOST = 160 * 200, TAIL = 256 };
static const char *const formats[FT_QUANTISATIONS] = {"nf4", "nf4_double", "int8"};

// As make_quantised_vectors.py has it.
static float number(int64_t k) {
    if (k >= 100 && k < 200) return 0;
    double x = (double)(ft_splitmix64((uint64_t)k) >> 40) / 0x1p23 - 1;
    return (float)ldexp(x, -(int)(k / 48 % 6));
}
static float *numbers(int64_t n) {
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) x[i] = number(i);
    return x;
}

static void *buffer_new(size_t bytes) {
    void *data = aligned_alloc(16, (bytes + 16 + 15) / 16 * 16);
    assert_non_null(data);
    memset(data, 0xA5, bytes + 16);
    return data;
}
static void buffer_free(void *data, size_t bytes) {
    for (int i = 0; i < 16; i++) assert_int_equal(((unsigned char *)data)[bytes + (size_t)i], 0xA5);
    free(data);
}

typedef struct dequantise_case {
    ft_quantisation format;
    int64_t rows, cols;
    ft_dtype dtype;
    void *buffer;
} dequantise_case;

static void run_dequantise(ft_device *device, const void *test_case, float *out) {
    const dequantise_case *c = test_case;
    const int64_t n = c->rows * c->cols;
    const size_t bytes = ft_quantised_layout_of(c->format, c->rows, c->cols).bytes;
    fenced y = fenced_new(1, n == 0 ? 1 : c->dtype == FT_F32 ? n : (n + 1) / 2, 0); // a fence behind 16 bits, too
    ft_tensor to = ft_matrix(y.t.data, c->rows, c->cols, c->dtype);
    RUN_OP(device, dequantise, ((ft_dequantise_args){.format = c->format, .x = ft_vector(c->buffer, (int64_t)bytes, FT_U8), .y = to}));
    for (int64_t i = 0; i < n; i++)
        out[i] = c->dtype == FT_F32 ? ((float *)to.data)[i] : (float)half_value(c->dtype, ((uint16_t *)to.data)[i]);
    fenced_free(y);
}

// What a device makes of the buffer, in all three types; returns the fp32 ones, which are those of the host, in pieces that begin anywhere.
static float *dequantised(ft_quantisation format, int64_t rows, int64_t cols, void *buffer) {
    dequantise_case c = {format, rows, cols, FT_F32, buffer};
    float *wide = run_everywhere(run_dequantise, &c, (size_t)(rows * cols));
    for (c.dtype = FT_BF16; c.dtype <= FT_F16; c.dtype++) {
        float *narrow = run_everywhere(run_dequantise, &c, (size_t)(rows * cols));
        for (int64_t i = 0; i < rows * cols; i++)
            if (narrow[i] != (float)half_value(c.dtype, half_bits(c.dtype, (double)wide[i])))
                fail_msg("%s, number %d in %s is %.9g, of %.9g", formats[format], (int)i, ft_dtype_name(c.dtype), (double)narrow[i], (double)wide[i]);
        free(narrow);
    }
    const ft_quantised_layout l = ft_quantised_layout_of(format, rows, cols);
    const unsigned char *from = buffer;
    for (int64_t first = 0, n; first < rows * cols; first += n) {
        float piece[77];
        n = rows * cols - first < 77 ? rows * cols - first : 77;
        ft_dequantise_numbers(format, &l, cols, first, n, from + (format == FT_INT8 ? first : first / 2), from + l.scales, piece);
        assert_memory_equal(piece, wide + first, (size_t)n * sizeof *piece);
    }
    return wide;
}

// ---- bitsandbytes --------------------------------------------------------------------------------------------------

static size_t read_hex(FILE *f, void *to, size_t most) {
    size_t n = 0;
    unsigned byte;
    assert_int_equal(fscanf(f, " "), 0);
    for (; fscanf(f, "%2x", &byte) == 1; n++) {
        assert_true(n < most);
        ((unsigned char *)to)[n] = (unsigned char)byte;
        int next = fgetc(f);
        if (next == '\n' || next == EOF) return n + 1;
        ungetc(next, f);
    }
    fail_msg("%s", "quantised.txt ends in a line");
    return 0;
}

static void check_case(FILE *f, ft_quantisation format, int64_t rows, int64_t cols) {
    const ft_quantised_layout l = ft_quantised_layout_of(format, rows, cols);
    const int64_t n = rows * cols, tail = n < TAIL ? n : TAIL;
    const size_t code_bytes = (size_t)(format == FT_INT8 ? n : (n + 1) / 2), scale_bytes = (size_t)l.scale_count * (format == FT_NF4_DOUBLE ? 1 : 4);
    unsigned char *want = buffer_new(l.bytes), *got = buffer_new(l.bytes);
    float *x = numbers(n), last[TAIL];
    memset(want, 0, l.bytes);
    assert_int_equal(read_hex(f, want + l.codes, l.bytes), code_bytes);
    assert_int_equal(read_hex(f, want + l.scales, l.bytes), scale_bytes);
    if (format == FT_NF4_DOUBLE) {
        assert_int_equal(read_hex(f, want + l.groups, l.bytes), (size_t)l.group_count * 4);
        assert_int_equal(read_hex(f, want + l.map, l.bytes), FT_NF4_MAP * 4);
        assert_int_equal(read_hex(f, want + l.mean, l.bytes), 4);
    }
    assert_int_equal(read_hex(f, last, sizeof last), (size_t)tail * sizeof *last);

    assert_int_equal(ft_quantise(format, rows, cols, x, got), FT_OK);
    assert_memory_equal(got + l.codes, want + l.codes, code_bytes);
    assert_memory_equal(got + l.scales, want + l.scales, scale_bytes);
    // The map comes from a sum in another order, and so does the mean: one unit in the last place.
    for (size_t at = l.groups; at < l.bytes; at += 4) {
        float a, b;
        memcpy(&a, got + at, 4), memcpy(&b, want + at, 4);
        if (!(fabsf(a - b) <= 1.2e-7f * fmaxf(fabsf(b), 0.5f))) fail_msg("float at %zu is %.9g, should be %.9g", at, (double)a, (double)b);
    }
    float *y = dequantised(format, rows, cols, want);
    assert_memory_equal(y + n - tail, last, (size_t)tail * sizeof *y);
    free(y);
    free(x);
    buffer_free(want, l.bytes);
    buffer_free(got, l.bytes);
}

static void test_bytes_of_bitsandbytes(void **state) {
    FILE *f = fopen(FT_TEST_VECTORS "/quantised.txt", "r");
    char name[16];
    int rows, cols, cases = 0;
    assert_non_null(f);
    for (; fscanf(f, "%15s %d %d", name, &rows, &cols) == 3; cases++) {
        int format = 0;
        while (strcmp(formats[format], name) != 0) assert_true(++format < FT_QUANTISATIONS);
        check_case(f, (ft_quantisation)format, rows, cols);
    }
    assert_int_equal(cases, 9);
    fclose(f);
}

// ---- there and back -------------------------------------------------------------------------------------------------

// By how much of its scale a number may be off: half of the widest gap between values, and for scales of 8 bits what they are off.
static const float off[FT_QUANTISATIONS] = {0.152f, 0.18f, 0.5f / 127};

static void test_there_and_back(void **state) {
    static const int64_t shapes[][2] = {{1, 1}, {1, 63}, {1, 64}, {5, 13}, {8, 8}, {17, 48}, {40, 416}, {0, 8}};
    for (int format = 0; format < FT_QUANTISATIONS; format++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            const int64_t rows = shapes[s][0], cols = shapes[s][1], n = rows * cols;
            const size_t bytes = ft_quantised_layout_of((ft_quantisation)format, rows, cols).bytes;
            void *buffer = buffer_new(bytes);
            float *x = numbers(n + 1);
            assert_int_equal(ft_quantise((ft_quantisation)format, rows, cols, x, buffer), FT_OK);
            float *y = dequantised((ft_quantisation)format, rows, cols, buffer);
            for (int64_t i = 0; i < n; i++) {
                const int64_t size = format == FT_INT8 ? cols : FT_NF4_BLOCK, first = i / size * size;
                float most = 0;
                for (int64_t j = first; j < first + size && j < n; j++) most = fmaxf(most, fabsf(x[j]));
                // A scale of 8 bits is off by a part of the largest of its group, which is below 1.
                const float allowed = off[format] * most + (format == FT_NF4_DOUBLE ? 0.02f : 1e-7f);
                if (!(fabsf(y[i] - x[i]) <= allowed))
                    fail_msg("%s of %dx%d: number %d was %.9g, is %.9g", formats[format], (int)rows, (int)cols, (int)i, (double)x[i], (double)y[i]);
            }
            free(y);
            free(x);
            buffer_free(buffer, bytes);
        }
}

static void test_refusals(void **state) {
    ft_device *device;
    unsigned char *buffer = buffer_new(4096);
    float y[64] = {0};
    assert_int_equal(test_open(1, &device), FT_OK);
    const size_t bytes = ft_quantised_layout_of(FT_NF4, 8, 8).bytes;
    const ft_tensor x = ft_vector(buffer, (int64_t)bytes, FT_U8), to = ft_matrix(y, 8, 8, FT_F32);
    ft_tensor strided = to, integers = to, aside = x, shorter = x;
    strided.stride = 9, integers.dtype = FT_I32, aside.data = buffer + 4, shorter.cols -= 1;
    const ft_dequantise_args wrong[] = {{.format = FT_QUANTISATIONS, .x = x, .y = to}, {.format = FT_INT8, .x = x, .y = to},
                                        {.format = FT_NF4, .x = x, .y = strided},      {.format = FT_NF4, .x = x, .y = integers},
                                        {.format = FT_NF4, .x = aside, .y = to},       {.format = FT_NF4, .x = shorter, .y = to}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(FT_RUN(device, dequantise, &wrong[i]), FT_FAILED);
        assert_non_null(strstr(ft_error_where(), "dequantise"));
        ft_error_clear();
    }
    y[5] = NAN;
    for (int format = 0; format < FT_QUANTISATIONS; format++) {
        assert_int_equal(ft_quantise((ft_quantisation)format, 8, 8, y, buffer), FT_INVALID);
        assert_non_null(strstr(ft_error_message(), "number 5 is not finite"));
        ft_error_clear();
    }
    ft_device_close(device);
    buffer_free(buffer, 4096 - 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_of_bitsandbytes),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
