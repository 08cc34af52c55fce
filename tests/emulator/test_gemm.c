// The op gemm on CUDA: what it asks of cuBLASLt, judged by a library that interprets the same descriptors and refuses
// what the real one refuses. Every product against plain loops in double precision, in fp32, bf16 and fp16.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cuda/kernels.h"
#include "kernels/ops/geometry.h"
#include "kernels/philox.h"
#include "tests/emulator/driver/fake_cublaslt.h"
#include "tests/emulator/driver/fake_driver.h"
#include "tests/emulator/half.h"

#include <math.h>
#include <stdio.h>
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
    float *host; // its numbers
    char *base;
    size_t count;
} matrix;

static size_t bytes_of(const matrix *m) { return m->count * ft_dtype_size(m->t.dtype); }

// To and from memory as the type has it: every number that is there is one of the type's.
static void write_numbers(const matrix *m, void *to) {
    for (size_t i = 0; i < m->count; i++) {
        uint16_t bits = m->t.dtype == FT_F32 ? 0 : half_bits(m->t.dtype, (double)m->host[i]);
        if (m->t.dtype == FT_F32)
            memcpy((float *)to + i, &m->host[i], sizeof(float));
        else
            memcpy((uint16_t *)to + i, &bits, sizeof bits);
    }
}
static float read_number(const matrix *m, const void *from, size_t i) {
    return m->t.dtype == FT_F32 ? ((const float *)from)[i] : (float)half_value(m->t.dtype, ((const uint16_t *)from)[i]);
}

// Where a matrix' numbers come from, row by row; NULL: it is NaN.
typedef double number_function(int64_t at);
static double any_number(int64_t at) { return (double)number(); }

static matrix matrix_of(ft_dtype dtype, int64_t rows, int64_t cols, int64_t gap, number_function *source) {
    matrix m = {.t = ft_matrix(NULL, rows, cols, dtype), .count = (size_t)(rows * (cols + gap)) + 2 * FENCE};
    void *base, *encoded = malloc(m.count * sizeof(float));
    m.t.stride = cols + gap;
    m.host = malloc(m.count * sizeof(float));
    assert_non_null(m.host);
    assert_non_null(encoded);
    for (size_t i = 0; i < m.count; i++)
        m.host[i] = NAN;
    for (int64_t i = 0; i < rows && source != NULL; i++)
        for (int64_t j = 0; j < cols; j++) {
            const double x = source(i * cols + j);
            m.host[FENCE + i * m.t.stride + j] =
                dtype == FT_F32 ? (float)x : (float)half_value(dtype, half_bits(dtype, x));
        }
    write_numbers(&m, encoded);
    good(gpu->functions->buffer_alloc(gpu, bytes_of(&m), &base));
    m.base = base;
    m.t.data = m.base + FENCE * ft_dtype_size(dtype);
    good(gpu->functions->upload(gpu, m.base, encoded, bytes_of(&m)));
    good(gpu->functions->sync(gpu));
    free(encoded);
    return m;
}
static matrix matrix_new(int64_t rows, int64_t cols, int64_t gap, bool filled) {
    return matrix_of(FT_F32, rows, cols, gap, filled ? any_number : NULL);
}

static float *at(const matrix *m, int64_t i, int64_t j) { return m->host + FENCE + i * m->t.stride + j; }

static void matrix_free(matrix *m) {
    gpu->functions->buffer_free(gpu, m->base, bytes_of(m));
    free(m->host);
}

typedef struct product {
    int64_t m, n, k, gap;
    bool trans_a, trans_b, accumulate, bias;
    bool aligned;     // the bias, to 16 bytes
    float scale;      // 0: none
    ft_dtype in, out; // of A and B; of C and the bias
} product;

static ft_gemm_args args_of(const product *p, const matrix *a, const matrix *b, const matrix *c, const matrix *bias) {
    return (ft_gemm_args){.a = a->t,
                          .b = b->t,
                          .c = c->t,
                          .trans_a = p->trans_a,
                          .trans_b = p->trans_b,
                          .accumulate = p->accumulate,
                          .bias = p->bias ? bias->t : ft_absent(),
                          .scale = p->scale};
}

static ft_status run(ft_gemm_args args) {
    assert_int_equal(ft_gemm_workspace(&gpu->target, &args), workspace.bytes);
    args.workspace = workspace;
    return FT_RUN(gpu, gemm, &args);
}

// Runs it and says by how much the worst element is off, in units of its tolerance; fails when anything else was
// written.
static double worst(const product *p) {
    matrix a = matrix_of(p->in, p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k, p->gap, any_number);
    matrix b = matrix_of(p->in, p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n, 2 * p->gap, any_number);
    matrix c = matrix_of(p->out, p->m, p->n, p->gap, p->accumulate ? any_number : NULL);
    const int64_t first = p->aligned ? 3 : 0; // behind FENCE elements
    matrix bias = matrix_of(p->out, 1, p->n + first, 0, any_number);
    bias.t = ft_columns(bias.t, first, p->n);
    bias.t.stride = p->n + first;
    assert_int_equal((uintptr_t)bias.t.data % 16 == 0, p->aligned);
    good(run(args_of(p, &a, &b, &c, &bias)));
    float *got = malloc(c.count * sizeof(float));
    assert_non_null(got);
    good(gpu->functions->download(gpu, got, c.base, bytes_of(&c)));
    good(gpu->functions->sync(gpu));
    // The sum in fp32, then the result rounded once.
    const double unit = p->out == FT_F32 ? 0 : ldexp(1, p->out == FT_BF16 ? -8 : -11);
    double most = 0;
    for (size_t i = 0; i < c.count; i++) {
        int64_t inside = (int64_t)i - FENCE, row = inside / c.t.stride, col = inside % c.t.stride;
        const float is = read_number(&c, got, i);
        if (inside < 0 || row >= p->m || col >= p->n) {
            if (!isnan(is)) fail_msg("element %zu outside of C was written", i);
            continue;
        }
        double want = p->accumulate ? (double)*at(&c, row, col) : 0, size = 1;
        for (int64_t k = 0; k < p->k; k++) {
            double term = (double)(p->trans_a ? *at(&a, k, row) : *at(&a, row, k)) *
                          (double)(p->trans_b ? *at(&b, col, k) : *at(&b, k, col));
            want += term;
            size += fabs(term);
        }
        if (p->bias) want += (double)*at(&bias, 0, first + col);
        if (p->scale != 0) want *= (double)p->scale, size *= fabs((double)p->scale);
        double off = fabs((double)is - want) / (1e-6 * size + unit * fabs(want));
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
                         .bias = how & 8,
                         .aligned = s % 2,
                         .scale = how == 0 || how == 2 ? -2.5f : 0};
            double off = worst(&p);
            if (off > 1)
                fail_msg("[%d,%d,%d] in way %d: %g times the tolerance", (int)p.m, (int)p.n, (int)p.k, how, off);
        }
    assert_int_equal(fake_lt_read().misuses, 0);
}

static void test_products_in_16_bits(void **unused) {
    static const int64_t shapes[][3] = {{1, 1, 1}, {5, 7, 9}, {13, 6, 300}, {32, 48, 16}, {2, 65, 31}};
    static const ft_dtype types[][2] = {{FT_BF16, FT_BF16}, {FT_BF16, FT_F32}, {FT_F16, FT_F16}, {FT_F16, FT_F32}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int how = 0; how < 16; how++)
            for (int type = 0; type < 4; type++) {
                product p = {.m = shapes[s][0],
                             .n = shapes[s][1],
                             .k = shapes[s][2],
                             .gap = how % 3,
                             .trans_a = how & 1,
                             .trans_b = how & 2,
                             .accumulate = how & 4,
                             .bias = how & 8,
                             .aligned = s % 2,
                             .scale = how == 0 || how == 2 ? 0.3f : 0,
                             .in = types[type][0],
                             .out = types[type][1]};
                double off = worst(&p);
                if (off > 1)
                    fail_msg("%s [%d,%d,%d] -> %s in way %d: %g times the tolerance", ft_dtype_name(p.in), (int)p.m,
                             (int)p.n, (int)p.k, ft_dtype_name(p.out), how, off);
            }
    assert_int_equal(fake_lt_read().misuses, 0);
}

// The checks above see what they are there to see.
static void test_a_swapped_transpose_is_caught(void **unused) {
    static const ft_dtype types[] = {FT_F32, FT_BF16, FT_F16};
    for (int type = 0; type < 3; type++) {
        product p = {.m = 9, .n = 8, .k = 8, .trans_b = true, .in = types[type], .out = types[type]};
        assert_true(worst(&p) <= 1);
        fake_lt_swap_transpose(1);
        assert_true(worst(&p) > 1);
        fake_lt_swap_transpose(0);
    }
}

// What the library has no product for is refused before it is asked.
static void test_types_that_do_not_go_together(void **unused) {
    static const ft_dtype types[][4] = {// A, B, C, bias
                                        {FT_BF16, FT_F16, FT_F32, FT_F32},   {FT_BF16, FT_F32, FT_F32, FT_F32},
                                        {FT_F32, FT_F32, FT_BF16, FT_BF16},  {FT_BF16, FT_BF16, FT_F16, FT_F16},
                                        {FT_BF16, FT_BF16, FT_BF16, FT_F32}, {FT_F16, FT_F16, FT_F32, FT_F16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        product p = {.m = 3, .n = 3, .k = 3, .bias = true};
        matrix m[4];
        for (int k = 0; k < 4; k++)
            m[k] = matrix_of(types[i][k], k == 3 ? 1 : 3, 3, 0, any_number);
        failed(run(args_of(&p, &m[0], &m[1], &m[2], &m[3])), FT_FAILED, i < 4 ? "no product of" : "bias is");
        ft_error_clear();
        for (int k = 0; k < 4; k++)
            matrix_free(&m[k]);
    }
    assert_int_equal(fake_lt_read().heuristics, 0);
}

// ---- beside PyTorch -----------------------------------------------------------------------------------------------

// number() of make_half_vectors.py.
static struct { uint64_t seed, tensor; } source;
static double vector_number(int64_t at) {
    uint64_t x = ft_splitmix64(source.seed << 40 | source.tensor << 32 | (uint64_t)at);
    return ((double)(x >> 40) * 0x1p-24 - 0.5) * 4;
}
static matrix vector_matrix(ft_dtype dtype, int64_t rows, int64_t cols, uint64_t tensor) {
    source.tensor = tensor;
    return matrix_of(dtype, rows, cols, 0, vector_number);
}

// Norm of the error over that of the right answer, of a product that has been queued.
static double error_of(const product *p, const matrix *a, const matrix *b, const matrix *c, const matrix *bias) {
    float *got = malloc(c->count * sizeof(float));
    assert_non_null(got);
    good(run(args_of(p, a, b, c, bias)));
    good(gpu->functions->download(gpu, got, c->base, bytes_of(c)));
    good(gpu->functions->sync(gpu));
    double error = 0, size = 0;
    for (int64_t i = 0; i < c->t.rows; i++)
        for (int64_t j = 0; j < c->t.cols; j++) {
            const int64_t inner = p->trans_a ? a->t.rows : a->t.cols;
            double want = p->bias ? (double)*at(bias, 0, j) : 0;
            for (int64_t k = 0; k < inner; k++)
                want += (double)(p->trans_a ? *at(a, k, i) : *at(a, i, k)) *
                        (double)(p->trans_b ? *at(b, j, k) : *at(b, k, j));
            const double off = (double)read_number(c, got, (size_t)(FENCE + i * c->t.stride + j)) - want;
            error += off * off;
            size += want * want;
        }
    free(got);
    return sqrt(error / size);
}

// y = x W' + b, dx = dy W in 16 bits, dW = dy' x in fp32: at most twice as far off as PyTorch's in these 16 bits.
static void test_as_exact_as_pytorch(void **unused) {
    enum { INNER = 48 };
    FILE *file = fopen(FT_TEST_VECTORS "/half.txt", "re");
    char line[200], type[8];
    int rows, cols, seed, cases = 0;
    double theirs[3];
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "case linear %7s %d %d %d %lf %lf %lf", type, &rows, &cols, &seed, &theirs[0], &theirs[1],
                   &theirs[2]) != 7)
            continue;
        const ft_dtype h = strcmp(type, "fp16") == 0 ? FT_F16 : FT_BF16;
        source.seed = (uint64_t)seed;
        matrix x = vector_matrix(h, rows, INNER, 0), w = vector_matrix(h, cols, INNER, 1),
               b = vector_matrix(h, 1, cols, 2);
        matrix dy = vector_matrix(h, rows, cols, 3), y = matrix_of(h, rows, cols, 0, NULL),
               dx = matrix_of(h, rows, INNER, 0, NULL);
        matrix dw = matrix_of(FT_F32, cols, INNER, 0, NULL);
        const product forward = {.trans_b = true, .bias = true}, input = {.m = 0}, weight = {.trans_a = true};
        const double ours[] = {error_of(&forward, &x, &w, &y, &b), error_of(&input, &dy, &w, &dx, &b),
                               error_of(&weight, &dy, &x, &dw, &b)};
        for (int i = 0; i < 3; i++)
            if (!(ours[i] <= 2 * theirs[i]))
                fail_msg("%s [%d,%d], part %d: error %.3g, PyTorch's is %.3g", type, rows, cols, i, ours[i], theirs[i]);
        matrix all[] = {x, w, b, dy, y, dx, dw};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            matrix_free(&all[i]);
        cases++;
    }
    fclose(file);
    assert_int_equal(cases, 6);
}

static void test_nothing_to_add_up(void **unused) {
    static const ft_dtype types[] = {FT_F32, FT_BF16, FT_F16};
    for (int how = 0; how < 3; how++)
        for (int type = 0; type < 3; type++) {
            product p = {
                .m = 4, .n = 5, .k = 0, .gap = 3, .trans_a = how == 1, .accumulate = how == 2, .bias = how == 1};
            p.in = p.out = types[type];
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

// The fastest of what is offered (the fake one's third), measured once a shape; taken up again without asking the heuristic.
static void test_tuned_choices(void **unused) {
    const product tuned = {.m = 12, .n = 8, .k = 20, .bias = true}, other = {.m = 5, .n = 8, .k = 20, .accumulate = true};
    good(ft_cuda_gemms_measure(gpu));
    for (int i = 0; i < 3; i++) // what measuring leaves in C is of no use where it accumulates
        assert_true(worst(&tuned) <= 1);
    size_t count;
    const ft_gemm_choice *choices = ft_cuda_gemms_choices(gpu, &count);
    assert_int_equal(count, 1);
    assert_int_equal(choices->shape.m, 12);
    assert_true(choices->microseconds == 250 && choices->first_microseconds == 500);
    const uint64_t rounds = FT_GEMM_ROUNDS + 1;
    fake_lt_books lt = fake_lt_read();
    assert_int_equal(lt.heuristics, 1);
    assert_int_equal(lt.by_algorithm[0], rounds);
    assert_int_equal(lt.by_algorithm[2], rounds + 3);
    ft_gemm_choice kept[2] = {choices[0], choices[0]};

    (void)close_gpu(NULL);
    (void)open_gpu(NULL);
    good(ft_cuda_gemms_use(gpu, kept, 1));
    assert_true(worst(&tuned) <= 1);
    assert_int_equal(fake_lt_read().heuristics, 0);
    assert_int_equal(fake_lt_read().by_algorithm[2], 1);
    assert_true(worst(&other) <= 1); // the heuristic's
    assert_int_equal(fake_lt_read().heuristics, 1);
    assert_int_equal(fake_lt_read().by_algorithm[0], 1);

    (void)close_gpu(NULL);
    (void)open_gpu(NULL);
    memset(&kept[0].algorithm, 7, sizeof kept[0].algorithm); // of another release, say
    good(ft_cuda_gemms_use(gpu, kept, 1));
    matrix a = matrix_new(12, 20, 0, true), b = matrix_new(20, 8, 0, true), c = matrix_new(12, 8, 0, false),
           bias = matrix_new(1, 8, 0, true);
    failed(run(args_of(&tuned, &a, &b, &c, &bias)), FT_FAILED, "the algorithm tuned for [12,20] x [20,8] is none of this cuBLASLt's");
    matrix_free(&a), matrix_free(&b), matrix_free(&c), matrix_free(&bias);
    ft_error_clear();
}

// What was asked for is marked, among choices that were taken up too. Forgotten, the device is as it was opened: the heuristic is asked again, and
// nothing is measured.
static void test_forgotten_choices(void **unused) {
    const product known = {.m = 12, .n = 8, .k = 20}, new = {.m = 7, .n = 8, .k = 20}, left = {.m = 3, .n = 8, .k = 20};
    size_t count;
    good(ft_cuda_gemms_measure(gpu));
    assert_true(worst(&known) <= 1);
    assert_true(worst(&left) <= 1);
    const ft_gemm_choice *choices = ft_cuda_gemms_choices(gpu, &count);
    assert_int_equal(count, 2);
    assert_true(choices[0].asked && choices[1].asked);
    const ft_gemm_choice kept[2] = {choices[0], choices[1]};

    ft_cuda_gemms_forget(gpu);
    assert_null(ft_cuda_gemms_choices(gpu, &count));
    assert_int_equal(count, 0);
    fake_lt_reset();
    assert_true(worst(&known) <= 1); // whose plan was there
    assert_int_equal(fake_lt_read().heuristics, 1);
    assert_int_equal(fake_lt_read().by_algorithm[0], 1);
    assert_int_equal(fake_lt_read().by_algorithm[2], 0);

    ft_cuda_gemms_forget(gpu);
    good(ft_cuda_gemms_use(gpu, kept, 2));
    good(ft_cuda_gemms_measure(gpu));
    choices = ft_cuda_gemms_choices(gpu, &count);
    assert_true(count == 2 && !choices[0].asked && !choices[1].asked);
    assert_true(worst(&new) <= 1);
    assert_true(worst(&known) <= 1);
    choices = ft_cuda_gemms_choices(gpu, &count);
    assert_int_equal(count, 3);
    assert_true(choices[0].asked && !choices[1].asked && choices[2].asked);
    assert_int_equal(choices[2].shape.m, 7);
}

// A candidate that cuBLASLt does not run after all is passed over; its first choice must run, and a driver that fails is heard.
static void test_tuning_passes_over(void **unused) {
    enum { EXECUTION_FAILED = 13 };
    const product p = {.m = 12, .n = 8, .k = 20};
    const uint64_t rounds = FT_GEMM_ROUNDS + 1;
    size_t count;
    good(ft_cuda_gemms_measure(gpu));
    fake_lt_refuse("cublasLtMatmul", 2 * rounds + 1, 1, EXECUTION_FAILED); // the third, which is the fastest
    assert_true(worst(&p) <= 1);
    const ft_gemm_choice *choices = ft_cuda_gemms_choices(gpu, &count);
    assert_int_equal(count, 1);
    assert_true(choices->microseconds == 500 && choices->first_microseconds == 500);
    assert_int_equal(fake_lt_read().by_algorithm[2], 0);
    assert_int_equal(ft_error_code(), FT_OK);

    matrix a = matrix_new(3, 20, 0, true), b = matrix_new(20, 8, 0, true), c = matrix_new(3, 8, 0, false), none = {0};
    const product other = {.m = 3, .n = 8, .k = 20};
    fake_lt_refuse("cublasLtMatmul", 1, 1, EXECUTION_FAILED);
    failed(run(args_of(&other, &a, &b, &c, &none)), FT_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED");
    assert_non_null(ft_cuda_gemms_choices(gpu, &count));
    assert_int_equal(count, 1); // and nothing was chosen
    matrix_free(&a), matrix_free(&b), matrix_free(&c);
    ft_error_clear();
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
        cmocka_unit_test_setup_teardown(test_products_in_16_bits, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_types_that_do_not_go_together, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_as_exact_as_pytorch, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_a_swapped_transpose_is_caught, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_nothing_to_add_up, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_an_algorithm_is_chosen_once, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_many_shapes, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_tuned_choices, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_forgotten_choices, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_tuning_passes_over, open_gpu, close_gpu),
        cmocka_unit_test_setup_teardown(test_refusals, open_gpu, close_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
