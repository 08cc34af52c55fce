// Products of 8 bits: the integers and numbers that numpy has (vectors/int8/int8_product.txt), and everywhere the bits of plain loops over the
// definition. Wrong: a product that saturates, a zero that is not taken off, a strip of another part, a sum by another instruction set.
#include "kernels/cpu/device.h"
#include "kernels/cpu/int8_plan.h"
#include "kernels/ops/quantised.h"
#include "tests/kernels/elementwise.h"

#include <float.h>

// As make_int8_vectors.py has it.
static float number(int64_t k) {
    const double x = (double)(ft_splitmix64((uint64_t)k) >> 40) / 0x1p23 - 1;
    return (float)ldexp(x, -(int)(k / 48 % 6));
}

typedef struct product_case {
    fenced x, bias;
    int parts;
    int64_t rows[FT_INT8_MOST_PARTS], first[FT_INT8_MOST_PARTS], outputs[FT_INT8_MOST_PARTS]; // rows: of the whole matrix
    void *w[FT_INT8_MOST_PARTS];
    int64_t columns; // of y
    bool widened; // as on a processor without a unit for it
    uint8_t *codes; // of the last run, [M, K]
    int32_t *zeros;
} product_case;

static void *kept(int64_t rows, int64_t k, const float *values) {
    void *buffer = aligned_alloc(16, (ft_quantised_layout_of(FT_INT8, rows, k).bytes + 15) / 16 * 16);
    assert_non_null(buffer);
    assert_int_equal(ft_quantise(FT_INT8, rows, k, values, buffer), FT_OK);
    return buffer;
}

static product_case case_new(int64_t m, int64_t k, int parts, const int64_t (*shape)[3], bool bias) {
    product_case c = {.x = fenced_random(m, k, 3, 1, 0.2), .parts = parts};
    for (int i = 0; i < parts; i++) {
        c.rows[i] = shape[i][0], c.first[i] = shape[i][1], c.outputs[i] = shape[i][2];
        float *values = malloc((size_t)(c.rows[i] * k) * sizeof *values);
        assert_non_null(values);
        for (int64_t n = 0; n < c.rows[i] * k; n++) values[n] = (float)normal(0.05 * (double)(1 + n / k % 3));
        c.w[i] = kept(c.rows[i], k, values);
        free(values);
        c.columns += c.outputs[i];
    }
    c.bias = bias ? fenced_random(1, c.columns, 0, 1, 0) : fenced_none();
    return c;
}
static void case_free(product_case *c) {
    fenced_free(c->x), fenced_free(c->bias);
    for (int i = 0; i < c->parts; i++) free(c->w[i]);
    free(c->codes), free(c->zeros);
}

static ft_int8_product_args args_of(const product_case *c, ft_tensor y) {
    ft_int8_product_args args = {.x = c->x.t, .y = y, .bias = c->bias.t, .parts = c->parts};
    for (int i = 0; i < c->parts; i++) {
        const size_t bytes = ft_quantised_layout_of(FT_INT8, c->rows[i], c->x.t.cols).bytes;
        args.part[i] = (ft_int8_part){ft_vector(c->w[i], (int64_t)bytes, FT_U8), c->rows[i], c->first[i], c->outputs[i]};
    }
    return args;
}

static void run_product(ft_device *device, const void *test_case, float *out) {
    const product_case *c = test_case;
    const int64_t m = c->x.t.rows, k = c->x.t.cols;
    fenced y = fenced_new(m, c->columns, 5);
    if (c->widened) ((ft_cpu_device *)device)->cpu.int8 = FT_INT8_WIDENED;
    ft_int8_product_args args = args_of(c, y.t);
    args.workspace = workspace_new(ft_int8_product_workspace(&device->target, &args));
    if (FT_RUN(device, int8_product, &args) != FT_OK) fail_msg("%s", ft_error_message());
    if (c->codes != NULL) {
        const ft_int8_plan p = ft_int8_plan_of(&args);
        const uint8_t *scratch = args.workspace.data;
        for (int64_t i = 0; i < m; i++) memcpy(c->codes + i * k, scratch + p.codes + i * p.length, (size_t)k);
        memcpy(c->zeros, scratch + p.zeros, (size_t)m * sizeof *c->zeros);
    }
    workspace_free(args.workspace);
    fenced_flatten(y, out);
    fenced_free(y);
}

// ---- the definition ---------------------------------------------------------------------------------------------------

static void code_row(const float *x, int64_t k, uint8_t *code, float *step, int32_t *zero) {
    float low = 0, high = 0;
    bool numbers = true;
    for (int64_t i = 0; i < k; i++) {
        numbers = numbers && isfinite(x[i]);
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    *step = (high - low) / 255.0f;
    *zero = 0;
    for (int64_t i = 0; i < k; i++) code[i] = 0;
    if (!numbers || isinf(*step)) *step = NAN;
    else if (*step < FLT_MIN) *step = 0;
    else {
        *zero = (int32_t)rintf(-low / *step);
        for (int64_t i = 0; i < k; i++) {
            const double q = (double)rintf(x[i] * (1.0f / *step)) + *zero;
            code[i] = (uint8_t)(q < 0 ? 0 : q > 255 ? 255 : q);
        }
    }
}

static float *plain(const product_case *c) {
    const int64_t m = c->x.t.rows, k = c->x.t.cols;
    float *y = malloc((size_t)(m * c->columns + 1) * sizeof *y);
    uint8_t *code = malloc((size_t)k);
    assert_true(y != NULL && code != NULL);
    for (int64_t i = 0; i < m; i++) {
        float step;
        int32_t zero;
        code_row(at(c->x.t, i, 0), k, code, &step, &zero);
        for (int p = 0, column = 0; p < c->parts; p++) {
            const ft_quantised_layout l = ft_quantised_layout_of(FT_INT8, c->rows[p], k);
            for (int64_t j = c->first[p]; j < c->first[p] + c->outputs[p]; j++, column++) {
                const int8_t *w = (const int8_t *)c->w[p] + l.codes + j * k;
                const float scale = ((const float *)(const void *)((const char *)c->w[p] + l.scales))[j] * (1.0f / 127.0f);
                int64_t sum = 0;
                for (int64_t n = 0; n < k; n++) sum += (int64_t)(code[n] - zero) * w[n];
                const float first = (float)sum * step, second = first * scale;
                y[i * c->columns + column] = c->bias.t.data != NULL ? second + *at(c->bias.t, 0, column) : second;
            }
        }
    }
    free(code);
    return y;
}

static void assert_same(const float *got, const float *want, int64_t n, const char *what) {
    for (int64_t i = 0; i < n; i++)
        if (memcmp(&got[i], &want[i], sizeof *got) != 0 && !(isnan(got[i]) && isnan(want[i])))
            fail_msg("%s: element %d is %.9g, should be %.9g", what, (int)i, (double)got[i], (double)want[i]);
}

static void check(product_case *c, const char *what) {
    const int64_t n = c->x.t.rows * c->columns;
    float *want = plain(c);
    for (int turn = 0; turn < 2; turn++) {
        c->widened = turn == 1;
        float *got = run_everywhere(run_product, c, (size_t)n);
        assert_same(got, want, n, what);
        free(got);
    }
    free(want);
    case_free(c);
}

// ---- cases --------------------------------------------------------------------------------------------------------------

static void read_hex(FILE *f, void *to, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned byte;
        assert_int_equal(fscanf(f, "%2x", &byte), 1);
        ((unsigned char *)to)[i] = (unsigned char)byte;
    }
}

static void numbers_of_numpy(void **unused) {
    FILE *f = fopen(FT_TEST_VECTORS "/int8/int8_product.txt", "r");
    int m, k, n, cases = 0;
    assert_non_null(f);
    for (; fscanf(f, "%d %d %d", &m, &k, &n) == 3; cases++) {
        const size_t codes = (size_t)(m * k), weights = (size_t)(n * k), outputs = (size_t)(m * n);
        float *values = malloc((weights + outputs) * sizeof *values), *want = values + weights;
        uint8_t *code = malloc(codes);
        int8_t *w = malloc(weights);
        int32_t *number_of = malloc(((size_t)m + outputs) * sizeof *number_of);
        assert_true(values != NULL && code != NULL && w != NULL && number_of != NULL);
        for (size_t i = 0; i < weights; i++) values[i] = number(100000 + (int64_t)i);
        product_case c = {.x = fenced_new(m, k, 1), .bias = fenced_new(1, n, 0), .parts = 1, .rows = {n}, .outputs = {n}, .columns = n};
        c.w[0] = kept(n, k, values);
        for (int i = 0; i < m * k; i++) *at(c.x.t, i / k, i % k) = number(i);
        for (int i = 0; i < n; i++) *at(c.bias.t, 0, i) = number(200000 + i);
        c.codes = malloc(codes), c.zeros = malloc((size_t)m * sizeof *c.zeros);
        assert_true(c.codes != NULL && c.zeros != NULL);
        read_hex(f, code, codes);
        read_hex(f, number_of, (size_t)m * sizeof *number_of);
        read_hex(f, w, weights);
        read_hex(f, number_of + m, outputs * sizeof *number_of); // which y is made of
        read_hex(f, want, outputs * sizeof *want);
        float *got = run_everywhere(run_product, &c, outputs);
        assert_memory_equal(c.codes, code, codes);
        assert_memory_equal(c.zeros, number_of, (size_t)m * sizeof *number_of);
        assert_memory_equal((char *)c.w[0] + ft_quantised_layout_of(FT_INT8, n, k).codes, w, weights);
        assert_same(got, want, (int64_t)outputs, "numpy");
        free(got), free(values), free(code), free(w), free(number_of);
        case_free(&c);
    }
    assert_int_equal(cases, 5);
    fclose(f);
}

static void shapes(void **unused) {
    static const struct {
        int64_t m, k;
        int parts;
        int64_t part[FT_INT8_MOST_PARTS][3];
    } cases[] = {{1, 1, 1, {{1, 0, 1}}},
                 {3, 5, 1, {{17, 0, 17}}},
                 {7, 64, 1, {{48, 0, 48}}},
                 {13, 36, 3, {{16, 0, 16}, {5, 0, 5}, {33, 0, 33}}},
                 {9, 40, 2, {{40, 7, 20}, {100, 99, 1}}},
                 {97, 48, 4, {{64, 0, 64}, {32, 16, 16}, {3, 0, 2}, {50, 0, 50}}},
                 {200, 100, 1, {{70, 3, 65}}},
                 {15, 1024, 1, {{130, 1, 129}}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int bias = 0; bias < 2; bias++) {
            char name[32];
            snprintf(name, sizeof name, "case %zu, bias %d", i, bias);
            product_case c = case_new(cases[i].m, cases[i].k, cases[i].parts, cases[i].part, bias == 1);
            check(&c, name);
        }
}

// Sums as large as they can be: 255 * 127 a number, which 16 bits do not hold two of, over as many numbers as an op takes; and of the other
// sign, where all of it is the zero's.
static void largest_sums(void **unused) {
    const int64_t k = FT_INT8_MOST_COLUMNS, shape[1][3] = {{3, 0, 3}};
    product_case c = case_new(2, k, 1, shape, true);
    int8_t *codes = (int8_t *)c.w[0] + ft_quantised_layout_of(FT_INT8, 3, k).codes;
    for (int64_t i = 0; i < k; i++) {
        *at(c.x.t, 0, i) = 255, *at(c.x.t, 1, i) = -255;
        codes[i] = 127, codes[k + i] = -127, codes[2 * k + i] = i % 2 == 0 ? 127 : -127;
    }
    check(&c, "largest sums");
}

// Rows of a kind.
static void rows(void **unused) {
    enum { K = 70 };
    static const float kinds[][2] = {{0, 0},          {NAN, 1},       {INFINITY, 1},  {-INFINITY, -1},      {1e-40f, 0},      {1.2e-38f, 0},
                                     {3e-36f, -1e-36f}, {3e38f, -3e38f}, {2e38f, 1e38f}, {-5, -7},           {5, 7},           {-0.0f, -0.0f},
                                     {1, -1},         {127.5f, -127.5f}, {0.5f, 254.5f}, {FLT_MIN, -FLT_MIN}};
    const int64_t count = sizeof kinds / sizeof *kinds, shape[1][3] = {{20, 0, 20}};
    product_case c = case_new(count, K, 1, shape, true);
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < K; j++) *at(c.x.t, i, j) = j == 0 ? kinds[i][0] : j == K - 1 ? kinds[i][1] : (kinds[i][0] + kinds[i][1]) / 2 * (float)(j % 2);
    *at(c.x.t, 1, 0) = 1, *at(c.x.t, 1, 3) = NAN;
    check(&c, "rows");
}

// Every unit by its name, with the bits of plain loops, over rows and strips of every size of tile; what this machine lacks is skipped, not passed.
static void check_unit(const char *isa, ft_int8_unit unit) {
    const int64_t shape[2][3] = {{70, 0, 70}, {33, 1, 32}};
    ft_device *device;
    const bool opened = ft_cpu_open(3, isa, &device) == FT_OK;
    if (!opened || ((ft_cpu_device *)device)->cpu.int8 != unit) {
        ft_device_close(device);
        ft_error_clear();
        print_message("%s: this machine has no such unit, its products are not tested here\n", isa);
        skip();
    }
    for (int64_t m = 1; m <= 99; m += 14)
        for (int64_t k = 4; k <= 200; k += 49) {
            product_case c = case_new(m, k, 2, shape, true);
            float *want = plain(&c), *got = malloc((size_t)(m * c.columns) * sizeof *got);
            assert_non_null(got);
            run_product(device, &c, got);
            assert_same(got, want, m * c.columns, isa);
            free(got), free(want);
            case_free(&c);
        }
    ft_device_close(device);
}
static void amx_int8_multiplies(void **unused) { check_unit("amx_bf16", FT_INT8_BY_AMX); }
static void avx512_vnni_multiplies(void **unused) { check_unit("avx512", FT_INT8_BY_DOT); }
static void avx_vnni_multiplies(void **unused) { check_unit("avx2", FT_INT8_BY_DOT); }
static void neon_i8mm_multiplies(void **unused) { check_unit("neon", FT_INT8_BY_DOT); }
static void neon_dotprod_multiplies(void **unused) { check_unit("neon", FT_INT8_BY_SIGNED_DOT); }

// What a row gives does not depend on the rows beside it.
static void alone(void **unused) {
    const int64_t shape[2][3] = {{30, 0, 30}, {40, 10, 25}};
    product_case c = case_new(37, 50, 2, shape, true);
    ft_device *device;
    float all[37 * 55], one[55];
    assert_int_equal(ft_cpu_open(2, NULL, &device), FT_OK);
    run_product(device, &c, all);
    for (int64_t i = 0; i < 37; i++) {
        product_case single = c;
        single.x.t = ft_rows(c.x.t, i, 1);
        run_product(device, &single, one);
        assert_memory_equal(one, all + i * 55, sizeof one);
    }
    ft_device_close(device);
    case_free(&c);
}

static void nothing_and_refusals(void **unused) {
    const int64_t shape[1][3] = {{16, 0, 16}};
    product_case c = case_new(4, 32, 1, shape, true);
    fenced y = fenced_new(4, 16, 0);
    ft_device *device, *planned;
    assert_int_equal(ft_cpu_open(1, NULL, &device), FT_OK);
    ft_int8_product_args good = args_of(&c, y.t);
    good.workspace = workspace_new(ft_int8_product_workspace(&device->target, &good));
    ft_int8_product_args none = good, wrong[8];
    none.x.rows = none.y.rows = 0;
    assert_int_equal(FT_RUN(device, int8_product, &none), FT_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) wrong[i] = good;
    wrong[0].y.cols = 15, wrong[1].parts = 0, wrong[2].part[0].first = 1, wrong[3].part[0].w.cols--, wrong[4].x.dtype = FT_BF16;
    wrong[5].bias.cols = 3, wrong[6].workspace.bytes--, wrong[7].y.rows = 3;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (FT_RUN(device, int8_product, &wrong[i]) != FT_FAILED) fail_msg("arguments %zu were taken", i);
        assert_non_null(strstr(ft_error_where(), "int8_product"));
        ft_error_clear();
    }
    // Of a GPU the plan says it already.
    assert_int_equal(ft_plan_open("cuda:0", (ft_target){.backend = FT_BACKEND_CUDA, .sm_count = 100, .compute_capability = 90}, 1 << 30, &planned), FT_OK);
    assert_int_equal(FT_RUN(planned, int8_product, &good), FT_INVALID);
    assert_string_equal(ft_error_where(), "device.name");
    ft_error_clear();
    ft_device_close(planned);
    ft_device_close(device);
    workspace_free(good.workspace);
    fenced_free(y);
    case_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_numpy), cmocka_unit_test(shapes), cmocka_unit_test(largest_sums), cmocka_unit_test(rows),
        cmocka_unit_test(amx_int8_multiplies), cmocka_unit_test(avx512_vnni_multiplies), cmocka_unit_test(avx_vnni_multiplies),
        cmocka_unit_test(neon_i8mm_multiplies), cmocka_unit_test(neon_dotprod_multiplies),
        cmocka_unit_test(alone),            cmocka_unit_test(nothing_and_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
