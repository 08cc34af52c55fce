// Norms of rows of w + s b a, and columns times magnitude by norm, against float64. Wrong: the scale on w, squares that miss the last columns,
// a bias that is scaled, y that is overwritten where it is added to, 16 bits rounded twice.
// ctest: emulated=yes
#include "elementwise.h"
#include "tests/emulator/half.h"

static double value_of(ft_tensor t, int64_t row, int64_t col) {
    const int64_t at = row * t.stride + col;
    return t.dtype == FT_F32 ? (double)((float *)t.data)[at] : half_value(t.dtype, ((uint16_t *)t.data)[at]);
}

// A matrix of that type, of numbers that it holds; memory of fp32 is enough for all.
static fenced matrix_of(int64_t rows, int64_t cols, ft_dtype dtype, double size) {
    fenced f = fenced_new(rows, cols, 8);
    f.t.dtype = dtype;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            const double x = uniform(-size, size);
            if (dtype == FT_F32) ((float *)f.t.data)[i * f.t.stride + j] = (float)x;
            else ((uint16_t *)f.t.data)[i * f.t.stride + j] = half_bits(dtype, x);
        }
    return f;
}

// What is behind the numbers of a matrix of 16 bits is as it was, too.
static void release(fenced f) {
    if (f.t.dtype == FT_F32) return fenced_free(f);
    const uint32_t *bits = (const uint32_t *)f.base;
    const size_t first = (size_t)(fence_of(f.t.cols) + (f.t.rows * f.t.stride + 1) / 2);
    for (size_t i = 0; i < f.total; i++)
        if (i < (size_t)fence_of(f.t.cols) || i >= first) assert_int_equal(bits[i], TEST_FENCE_BITS);
    free(f.base);
}

typedef struct norm_case {
    fenced w, a, b;
    float scale;
} norm_case;

static void run_norm(ft_device *device, const void *test_case, float *out) {
    const norm_case *c = test_case;
    fenced y = fenced_new(1, c->w.t.rows, 0);
    RUN_OP(device, row_norm, ((ft_row_norm_args){.w = c->w.t, .a = c->a.t, .b = c->b.t, .scale = c->scale, .out = y.t}));
    memcpy(out, y.t.data, (size_t)c->w.t.rows * sizeof *out);
    release(y);
}

static void test_norms(void **state) {
    static const int64_t shapes[][3] = {{5, 64, 4}, {33, 37, 3}, {1, 1, 1}, {16, 200, 8}, {70, 8, 2}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (ft_dtype h = FT_F32; h <= FT_F16; h++) {
            const int64_t rows = shapes[k][0], cols = shapes[k][1], rank = shapes[k][2];
            norm_case c = {matrix_of(rows, cols, h, 1), matrix_of(rank, cols, h, 1), matrix_of(rows, rank, h, 1), 0.75f};
            float *got = run_everywhere(run_norm, &c, (size_t)rows);
            for (int64_t i = 0; i < rows; i++) {
                double squares = 0;
                for (int64_t j = 0; j < cols; j++) {
                    double v = 0;
                    for (int64_t r = 0; r < rank; r++) v += value_of(c.b.t, i, r) * value_of(c.a.t, r, j);
                    v = value_of(c.w.t, i, j) + (double)c.scale * v;
                    squares += v * v;
                }
                if (!(fabs((double)got[i] - sqrt(squares)) <= 2e-6 * sqrt(squares))) fail_msg("row %d: %.9g, expected %.9g", (int)i, (double)got[i], sqrt(squares));
            }
            free(got);
            release(c.w), release(c.a), release(c.b);
        }
}

typedef struct scale_case {
    fenced x, times, magnitude, norm, bias, past;
    bool has_times, has_magnitude, has_norm, has_bias, accumulate, wide, in_place;
    float shift;
} scale_case;

static void run_scale(ft_device *device, const void *test_case, float *out) {
    const scale_case *c = test_case;
    const int64_t rows = c->x.t.rows, cols = c->x.t.cols;
    const ft_dtype h = c->x.t.dtype, to = c->wide ? FT_F32 : h;
    fenced y = matrix_of(rows, cols, to, 0);
    const fenced *from = c->in_place ? &c->x : &c->past;
    for (int64_t i = 0; i < rows; i++) memcpy((char *)y.t.data + (size_t)(i * y.t.stride) * ft_dtype_size(to), (char *)from->t.data + (size_t)(i * from->t.stride) * ft_dtype_size(to), (size_t)cols * ft_dtype_size(to));
    const ft_tensor none = ft_absent();
    RUN_OP(device, column_scale,
           ((ft_column_scale_args){.x = c->in_place ? y.t : c->x.t, .times = c->has_times ? c->times.t : none, .magnitude = c->has_magnitude ? c->magnitude.t : none,
                                   .norm = c->has_norm ? c->norm.t : none, .bias = c->has_bias ? c->bias.t : none, .shift = c->shift, .accumulate = c->accumulate, .y = y.t}));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) out[i * cols + j] = (float)value_of(y.t, i, j);
    release(y);
}

static void test_scales(void **state) {
    static const int64_t shapes[][2] = {{3, 64}, {17, 37}, {1, 1}, {9, 200}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++)
        for (ft_dtype h = FT_F32; h <= FT_F16; h++)
            for (unsigned way = 0; way < 64; way++) {
                const int64_t rows = shapes[k][0], cols = shapes[k][1];
                scale_case c = {.has_times = way & 1, .has_norm = way & 2, .has_magnitude = way & 4, .has_bias = way & 8, .accumulate = way & 16, .shift = way & 1 ? -1 : 0.5f};
                c.in_place = (way & 32) != 0 && !c.accumulate;
                c.wide = (way & 32) != 0 && c.accumulate;
                c.x = matrix_of(rows, cols, h, 2), c.times = matrix_of(rows, cols, h, 2), c.past = matrix_of(rows, cols, c.wide ? FT_F32 : h, 2);
                c.magnitude = matrix_of(1, cols, FT_F32, 1), c.norm = matrix_of(1, cols, FT_F32, 1), c.bias = matrix_of(1, cols, h, 1);
                for (int64_t j = 0; j < cols; j++) ((float *)c.norm.t.data)[j] = j == 3 ? 0 : 0.5f + fabsf(((float *)c.norm.t.data)[j]);
                float *got = run_everywhere(run_scale, &c, (size_t)(rows * cols));
                for (int64_t i = 0; i < rows; i++)
                    for (int64_t j = 0; j < cols; j++) {
                        const double norm = value_of(c.norm.t, 0, j);
                        double g = c.has_magnitude ? value_of(c.magnitude.t, 0, j) : 1;
                        if (c.has_norm) g = norm > 0 ? g / norm : 0;
                        double want = value_of(c.x.t, i, j) * (c.has_times ? value_of(c.times.t, i, j) : 1) * (g + (double)c.shift);
                        if (c.has_bias) want += (1 - g) * value_of(c.bias.t, 0, j);
                        if (c.accumulate) want += value_of(c.past.t, i, j);
                        const double unit = c.wide || h == FT_F32 ? 1e-6 : h == FT_BF16 ? 0x1p-8 * 1.02 : 0x1p-11 * 1.02;
                        if (!(fabs((double)got[i * cols + j] - want) <= unit * fabs(want) + 2e-6))
                            fail_msg("way %u in %s at %d, %d: %.9g, expected %.9g", way, ft_dtype_name(h), (int)i, (int)j, (double)got[i * cols + j], want);
                    }
                free(got);
                release(c.x), release(c.times), release(c.past), release(c.magnitude), release(c.norm), release(c.bias);
            }
}

static void test_refusals(void **state) {
    ft_device *device;
    assert_int_equal(ft_cpu_open(1, NULL, &device), FT_OK);
    float room[64] = {0};
    const ft_tensor m = ft_matrix(room, 4, 4, FT_F32), v = ft_vector(room + 32, 4, FT_F32);
    const ft_row_norm_args wrong_norm = {.w = m, .a = ft_matrix(room, 2, 3, FT_F32), .b = ft_matrix(room, 4, 2, FT_F32), .out = v};
    assert_int_equal(FT_RUN(device, row_norm, &wrong_norm), FT_FAILED);
    const ft_column_scale_args wrong_scale = {.x = m, .norm = ft_vector(room, 3, FT_F32), .y = m};
    assert_int_equal(FT_RUN(device, column_scale, &wrong_scale), FT_FAILED);
    assert_non_null(strstr(ft_error_where(), "column_scale"));
    ft_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_norms), cmocka_unit_test(test_scales), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
