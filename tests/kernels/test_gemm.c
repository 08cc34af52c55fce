// gemm against a product in double precision, and the promises of its contract: the same bits for any instruction set,
// thread count, split of rows and split of k; nothing written outside C; no row that leaks into another.
// ctest: tsan_part=4
#include "kernels/ops/backend.h"
#include "tests/fixtures/sanitized.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const isas[] = {"avx512", "avx2", "neon", "portable"};
enum { ISAS = 4, MAX_THREADS = 4 };
static ft_device *devices[ISAS][MAX_THREADS + 1]; // NULL where this machine lacks the instruction set
static ft_device *best;

static uint32_t state = 12345;
static float uniform(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}

// A matrix inside a larger allocation: `gap` floats between rows and around, all NaN, which must stay NaN.
typedef struct framed {
    float *memory;
    size_t count;
    ft_tensor t;
} framed;
enum { MARGIN = 37 };
static framed frame(int64_t rows, int64_t cols, int gap) {
    framed f;
    int64_t stride = cols + gap;
    f.count = (size_t)(rows * stride + 2 * MARGIN);
    f.memory = malloc(f.count * sizeof(float));
    assert_non_null(f.memory);
    for (size_t i = 0; i < f.count; i++)
        f.memory[i] = NAN;
    f.t = (ft_tensor){f.memory + MARGIN, rows, cols, stride, FT_F32};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            f.memory[MARGIN + i * stride + j] = uniform();
    return f;
}
static float at(ft_tensor t, int64_t i, int64_t j) { return ((float *)t.data)[i * t.stride + j]; }
static void assert_frame_untouched(const framed *f) {
    for (size_t p = 0; p < f->count; p++) {
        int64_t q = (int64_t)p - MARGIN;
        bool inside = q >= 0 && q / f->t.stride < f->t.rows && q % f->t.stride < f->t.cols;
        if (!inside && !isnan(f->memory[p])) fail_msg("float %zu around the output was overwritten", p);
    }
}
static framed copy_of(const framed *f) {
    framed c = *f;
    c.memory = malloc(f->count * sizeof(float));
    assert_non_null(c.memory);
    memcpy(c.memory, f->memory, f->count * sizeof(float));
    c.t.data = c.memory + MARGIN;
    return c;
}
static void assert_same_bits(const framed *a, const framed *b, const char *what) {
    for (int64_t i = 0; i < a->t.rows; i++)
        for (int64_t j = 0; j < a->t.cols; j++) {
            float x = at(a->t, i, j), y = at(b->t, i, j);
            if (memcmp(&x, &y, sizeof x) != 0)
                fail_msg("%s: element (%lld,%lld) is %.9g and %.9g", what, (long long)i, (long long)j, (double)x,
                         (double)y);
        }
}

static void run(ft_device *device, ft_gemm_args g) {
    g.workspace.bytes = ft_gemm_workspace(&device->target, &g);
    float *memory = NULL;
    if (g.workspace.bytes) {
        // Scratch starts as NaN, so that reading what was not packed shows.
        memory = aligned_alloc(256, (g.workspace.bytes + 255) / 256 * 256);
        assert_non_null(memory);
        for (size_t i = 0; i < g.workspace.bytes / sizeof(float); i++)
            memory[i] = NAN;
    }
    g.workspace.data = memory;
    ft_status status = device->ops->gemm(device, &g);
    free(memory);
    if (status != FT_OK) fail_msg("gemm: %s", ft_error_message());
}

typedef struct problem {
    framed a, b, c, bias;
    ft_gemm_args g;
    int64_t m, n, k;
} problem;
static problem make(int64_t m, int64_t n, int64_t k, bool ta, bool tb, bool accumulate, bool bias, int gap) {
    problem p = {.m = m, .n = n, .k = k};
    p.a = ta ? frame(k, m, gap) : frame(m, k, gap);
    p.b = tb ? frame(n, k, 2 * gap) : frame(k, n, 2 * gap);
    p.c = frame(m, n, 3 * gap);
    p.bias = frame(1, n, 0);
    p.g = (ft_gemm_args){.a = p.a.t,
                         .b = p.b.t,
                         .c = p.c.t,
                         .trans_a = ta,
                         .trans_b = tb,
                         .accumulate = accumulate,
                         .bias = bias ? p.bias.t : ft_absent()};
    return p;
}
static void discard(problem *p) {
    free(p->a.memory);
    free(p->b.memory);
    free(p->c.memory);
    free(p->bias.memory);
}
static float a_of(const problem *p, int64_t i, int64_t k) { return p->g.trans_a ? at(p->a.t, k, i) : at(p->a.t, i, k); }
static float b_of(const problem *p, int64_t k, int64_t j) { return p->g.trans_b ? at(p->b.t, j, k) : at(p->b.t, k, j); }

// Runs the problem from the C in `before` on one device and leaves the outcome in a copy.
static framed outcome(ft_device *device, const problem *p) {
    framed c = copy_of(&p->c);
    ft_gemm_args g = p->g;
    g.c = c.t;
    run(device, g);
    assert_frame_untouched(&c);
    return c;
}

static void check_against_double(ft_device *device, const problem *p) {
    framed c = outcome(device, p);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = p->g.accumulate ? at(p->c.t, i, j) : 0, size = fabs(sum);
            for (int64_t k = 0; k < p->k; k++) {
                double product = (double)a_of(p, i, k) * b_of(p, k, j);
                sum += product;
                size += fabs(product);
            }
            if (p->g.bias.data) sum += at(p->bias.t, 0, j), size += fabs(at(p->bias.t, 0, j));
            double bound = (double)(p->k + 2) * FLT_EPSILON / 2 * size; // of a chain of k + 2 roundings
            if (p->g.scale != 0) sum *= p->g.scale, bound = (bound + FLT_EPSILON * fabs(sum / p->g.scale)) * fabs(p->g.scale);
            double got = at(c.t, i, j);
            if (!(fabs(got - sum) <= bound))
                fail_msg("%s [%lld,%lld,%lld] %c%c: element (%lld,%lld) is %.9g, expected %.9g +- %.3g",
                         device->description, (long long)p->m, (long long)p->n, (long long)p->k,
                         p->g.trans_a ? 'T' : 'N', p->g.trans_b ? 'T' : 'N', (long long)i, (long long)j, got, sum,
                         bound);
        }
    free(c.memory);
}

// The contract to the bit: one chain of fused multiply-adds in the order of k.
static void check_chain(ft_device *device, const problem *p) {
    framed c = outcome(device, p);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            float sum = p->g.accumulate ? at(p->c.t, i, j) : 0;
            for (int64_t k = 0; k < p->k; k++)
                sum = fmaf(a_of(p, i, k), b_of(p, k, j), sum);
            if (p->g.bias.data) sum += at(p->bias.t, 0, j);
            if (p->g.scale != 0) sum *= p->g.scale;
            float got = at(c.t, i, j);
            if (memcmp(&got, &sum, sizeof sum) != 0)
                fail_msg("%s: element (%lld,%lld) is %.9g, the chain gives %.9g", device->description, (long long)i,
                         (long long)j, (double)got, (double)sum);
        }
    free(c.memory);
}

static const int sizes[][3] = {{1, 1, 1},     {1, 2, 384},   {2, 1, 7},     {3, 5, 11},    {7, 47, 9},
                               {8, 48, 16},   {8, 6, 384},   {9, 49, 17},   {13, 33, 65},  {16, 96, 1},
                               {24, 16, 400}, {31, 17, 130}, {65, 64, 33},  {64, 100, 40}, {5, 200, 64},
                               {200, 5, 64},  {17, 3, 800},  {150, 49, 50}, {170, 97, 39}};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void every_size_layout_and_option_is_right(void **unused) {
    for (int s = 0; s < SIZES; s++)
        for (int option = 0; option < 16; option += FT_SANITIZED ? 5 : 1) {
            problem p =
                make(sizes[s][0], sizes[s][1], sizes[s][2], option & 1, option & 2, option & 4, option & 8, s % 3 * 2);
            for (int i = 0; i < ISAS; i++)
                if (devices[i][1]) {
                    check_against_double(devices[i][1], &p);
                    check_chain(devices[i][1], &p);
                }
            discard(&p);
        }
}

// Of the whole sum, once: in blocks of k and in tiles that are stored swapped too.
static void a_scale_is_of_the_sum(void **unused) {
    static const int shapes[][3] = {{1, 1, 1}, {9, 49, 17}, {8, 200, 384}, {300, 8, 900}, {170, 97, 800}, {3, 48, 1}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int trans_b = 0; trans_b < 2; trans_b++) {
            problem p = make(shapes[s][0], shapes[s][1], shapes[s][2], false, trans_b, false, false, (int)s % 3);
            p.g.scale = s % 2 ? 0.3f : -2;
            for (int i = 0; i < ISAS; i++)
                for (int threads = 1; threads <= 2; threads++)
                    if (devices[i][threads]) {
                        check_against_double(devices[i][threads], &p);
                        check_chain(devices[i][threads], &p);
                    }
            p.g.accumulate = true;
            assert_int_equal(best->ops->gemm(best, &p.g), FT_FAILED);
            discard(&p);
        }
}

// Large enough for several blocks in every direction (and for every thread to get work).
static void large_products_agree_between_instruction_sets_and_thread_counts(void **unused) {
    static const int large[][3] = {{190, 500, 800}, {700, 90, 500}, {64, 384, 1200}, {300, 433, 390}};
    for (size_t s = 0; s < sizeof large / sizeof *large; s++)
        for (int layout = 0; layout < 4; layout += FT_SANITIZED ? 3 : 1) {
            problem p =
                make(large[s][0], large[s][1], large[s][2], layout & 1, layout & 2, layout == 1, layout != 1, 3);
            framed first = outcome(best, &p);
            for (int i = 0; i < ISAS; i++)
                for (int threads = 1; threads <= MAX_THREADS; threads++) {
                    if (!devices[i][threads]) continue;
                    if (strcmp(isas[i], "portable") == 0 && (threads == 1 || threads == 4 || s > 0)) continue; // slow
                    framed c = outcome(devices[i][threads], &p);
                    assert_same_bits(&first, &c, devices[i][threads]->description);
                    free(c.memory);
                }
            check_against_double(best, &p);
            free(first.memory);
            discard(&p);
        }
}

static void splitting_rows_or_columns_changes_no_bit(void **unused) {
    for (int layout = 0; layout < 4; layout++) {
        problem p = make(230, 170, 410, layout & 1, layout & 2, false, true, 1);
        framed whole = outcome(best, &p);
        static const int steps[] = {1, 7, 64, 161};
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
            framed c = copy_of(&p.c);
            for (int64_t row = 0; row < p.m; row += steps[s]) {
                int64_t rows = p.m - row < steps[s] ? p.m - row : steps[s];
                ft_gemm_args g = p.g;
                g.a = g.trans_a ? ft_columns(g.a, row, rows) : ft_rows(g.a, row, rows);
                g.c = ft_rows(c.t, row, rows);
                run(best, g);
            }
            assert_same_bits(&whole, &c, "rows in parts");
            for (int64_t column = 0; column < p.n; column += steps[s]) {
                int64_t columns = p.n - column < steps[s] ? p.n - column : steps[s];
                ft_gemm_args g = p.g;
                g.b = g.trans_b ? ft_rows(g.b, column, columns) : ft_columns(g.b, column, columns);
                g.c = ft_columns(c.t, column, columns);
                g.bias = ft_columns(g.bias, column, columns);
                run(best, g);
            }
            assert_same_bits(&whole, &c, "columns in parts");
            assert_frame_untouched(&c);
            free(c.memory);
        }
        free(whole.memory);
        discard(&p);
    }
}

// Gradients over micro-batches: dW += over 1000 tokens at once, or in chunks of any size.
// Rows that lie elsewhere, of several lengths and strides, some none: each has the bits that it has alone. Wrong are a block that goes on
// behind the end of its part, the first part's strides for another's, and a bias or C of another part.
static void rows_that_lie_elsewhere_have_the_bits_that_they_have_alone(void **unused) {
    static const int parts[][4] = {{230, 1, 64, 7}, {3, 0, 170, 96}, {100, 97, 1, 0}, {1, 1, 1, 1}};
    for (size_t s = 0; s < sizeof parts / sizeof *parts; s++)
        for (int layout = 0; layout < 4; layout++) {
            problem p[4];
            framed alone[4], c[4];
            ft_gemm_rows more[3];
            for (int i = 0; i < 4; i++) {
                p[i] = make(parts[s][i], 170, 410, false, layout & 1, layout & 2, !(layout & 2), i);
                p[i].g.b = p[0].g.b, p[i].g.bias = p[0].g.bias;
                alone[i] = outcome(best, &p[i]);
            }
            for (int isa = 0; isa < ISAS; isa++)
                for (int threads = 1; threads <= MAX_THREADS; threads += 2) {
                    if (!devices[isa][threads] || (FT_SANITIZED && threads == 1)) continue;
                    for (int i = 0; i < 4; i++) {
                        c[i] = copy_of(&p[i].c);
                        if (i > 0) more[i - 1] = (ft_gemm_rows){p[i].g.a, c[i].t};
                    }
                    ft_gemm_args g = p[0].g;
                    g.c = c[0].t, g.more = more, g.more_count = 3;
                    run(devices[isa][threads], g);
                    for (int i = 0; i < 4; i++) {
                        assert_same_bits(&alone[i], &c[i], devices[isa][threads]->description);
                        assert_frame_untouched(&c[i]);
                        free(c[i].memory);
                    }
                }
            for (int i = 0; i < 4; i++) {
                free(alone[i].memory);
                discard(&p[i]);
            }
        }
}

static void splitting_k_over_accumulating_calls_changes_no_bit(void **unused) {
    for (int layout = 0; layout < 4; layout++) {
        problem p = make(100, 70, 1000, layout & 1, layout & 2, true, false, 2);
        framed whole = outcome(best, &p);
        static const int steps[] = {1, 13, 384, 999};
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
            framed c = copy_of(&p.c);
            for (int64_t k = 0; k < p.k; k += steps[s]) {
                int64_t count = p.k - k < steps[s] ? p.k - k : steps[s];
                ft_gemm_args g = p.g;
                g.a = g.trans_a ? ft_rows(g.a, k, count) : ft_columns(g.a, k, count);
                g.b = g.trans_b ? ft_columns(g.b, k, count) : ft_rows(g.b, k, count);
                g.c = c.t;
                run(best, g);
            }
            assert_same_bits(&whole, &c, "k in parts");
            free(c.memory);
        }
        free(whole.memory);
        discard(&p);
    }
}

static void nan_and_infinity_stay_in_their_row_and_column(void **unused) {
    for (int layout = 0; layout < 4; layout++)
        for (int i = 0; i < ISAS; i++) {
            if (!devices[i][1]) continue;
            problem p = make(21, 60, 30, layout & 1, layout & 2, false, false, 0);
            framed clean = outcome(devices[i][1], &p);
            float *a = p.a.t.data, *b = p.b.t.data;
            a[p.g.trans_a ? 4 * p.a.t.stride + 10 : 10 * p.a.t.stride + 4] = NAN;      // row 10
            b[p.g.trans_b ? 50 * p.b.t.stride + 2 : 2 * p.b.t.stride + 50] = INFINITY; // column 50
            framed c = outcome(devices[i][1], &p);
            for (int64_t row = 0; row < p.m; row++)
                for (int64_t column = 0; column < p.n; column++) {
                    float x = at(c.t, row, column), y = at(clean.t, row, column);
                    if (row == 10)
                        assert_true(isnan(x));
                    else if (column == 50)
                        assert_false(isfinite(x));
                    else
                        assert_memory_equal(&x, &y, sizeof x);
                }
            free(c.memory);
            free(clean.memory);
            discard(&p);
        }
}

static void without_k_the_result_is_the_bias_or_unchanged(void **unused) {
    for (int i = 0; i < ISAS; i++) {
        if (!devices[i][1]) continue;
        for (int accumulate = 0; accumulate < 2; accumulate++)
            for (int transposed = 0; transposed < 2; transposed++) {
                problem p = make(5, 20, 0, false, transposed, accumulate, true, 1);
                check_chain(devices[i][1], &p);
                discard(&p);
            }
    }
}

static void empty_results_touch_nothing(void **unused) {
    problem p = make(0, 20, 30, false, true, false, true, 0);
    framed c = outcome(best, &p);
    free(c.memory);
    discard(&p);
    p = make(20, 0, 30, false, false, false, false, 1);
    c = outcome(best, &p);
    free(c.memory);
    discard(&p);
}

static void wrong_arguments_are_refused_with_a_reason(void **unused) {
    problem p = make(4, 5, 6, false, false, false, true, 0);
    char scratch[8];
    ft_gemm_args g = p.g;
    g.workspace = (ft_workspace){scratch, sizeof scratch};
    assert_int_equal(best->ops->gemm(best, &g), FT_FAILED);
    assert_non_null(strstr(ft_error_message(), "workspace"));
    g = p.g;
    g.trans_b = true;
    assert_int_equal(best->ops->gemm(best, &g), FT_FAILED);
    assert_string_equal(ft_error_where(), "gemm");
    assert_non_null(strstr(ft_error_message(), "shapes disagree"));
    g = p.g;
    g.a.dtype = FT_BF16;
    assert_int_equal(best->ops->gemm(best, &g), FT_FAILED);
    assert_non_null(strstr(ft_error_message(), "bf16"));
    g = p.g;
    g.bias.cols = 4;
    assert_int_equal(best->ops->gemm(best, &g), FT_FAILED);
    assert_non_null(strstr(ft_error_message(), "bias"));
    discard(&p);
}

// Bounded: a plan adds this up before anything is allocated, whatever the number of tokens.
static void scratch_does_not_grow_with_the_tokens(void **unused) {
    ft_target target = {.backend = FT_BACKEND_CPU, .threads = 2};
    size_t previous = 0;
    for (int64_t tokens = 512; tokens <= 1 << 20; tokens *= 2) {
        ft_gemm_args g = {.a = ft_matrix(NULL, tokens, 384, FT_F32),
                          .b = ft_matrix(NULL, 1536, 384, FT_F32),
                          .c = ft_matrix(NULL, tokens, 1536, FT_F32),
                          .trans_b = true};
        size_t bytes = ft_gemm_workspace(&target, &g);
        assert_true(bytes > 0 && bytes < 8 << 20);
        if (previous) assert_int_equal(bytes, previous);
        previous = bytes;
    }
}

static void unknown_instruction_sets_are_refused_with_the_choices(void **unused) {
    ft_device *device;
    assert_int_equal(ft_cpu_open(1, "sse9", &device), FT_INVALID);
    assert_null(device);
    assert_non_null(strstr(ft_error_message(), "sse9"));
    assert_non_null(strstr(ft_error_message(), "portable"));
    assert_int_equal(ft_cpu_open(100000, NULL, &device), FT_INVALID);
    assert_null(device);
}

static void the_device_keeps_its_memory_promises(void **unused) {
    const ft_device_functions *f = best->functions;
    static const size_t bytes[] = {0, 1, 255, 257, 5 << 20};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        void *a, *b;
        assert_int_equal(f->buffer_alloc(best, bytes[i], &a), FT_OK);
        assert_int_equal(f->buffer_alloc(best, bytes[i], &b), FT_OK);
        assert_non_null(a);
        assert_int_equal((uintptr_t)a % 256, 0);
        assert_int_equal(f->fill(best, a, 0x5A, bytes[i]), FT_OK);
        assert_int_equal(f->copy(best, b, a, bytes[i]), FT_OK);
        assert_int_equal(f->sync(best), FT_OK);
        assert_memory_equal(a, b, bytes[i]);
        f->buffer_free(best, a, bytes[i]);
        f->buffer_free(best, b, bytes[i]);
    }
    void *huge;
    assert_int_equal(f->buffer_alloc(best, SIZE_MAX / 2, &huge), FT_NO_MEMORY);
    assert_null(huge);
    assert_true(best->total_bytes > 64 << 20);
}

static int open_devices(void **unused) {
    for (int i = 0; i < ISAS; i++)
        for (int threads = 1; threads <= MAX_THREADS; threads++)
            if (ft_cpu_open(threads, isas[i], &devices[i][threads]) == FT_OK && !best) best = devices[i][threads];
    ft_error_clear();
    return best ? 0 : -1;
}
static int close_devices(void **unused) {
    for (int i = 0; i < ISAS; i++)
        for (int threads = 1; threads <= MAX_THREADS; threads++)
            ft_device_close(devices[i][threads]);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_layout_and_option_is_right),
        cmocka_unit_test(a_scale_is_of_the_sum),
        cmocka_unit_test(large_products_agree_between_instruction_sets_and_thread_counts),
        cmocka_unit_test(splitting_rows_or_columns_changes_no_bit),
        cmocka_unit_test(rows_that_lie_elsewhere_have_the_bits_that_they_have_alone),
        cmocka_unit_test(splitting_k_over_accumulating_calls_changes_no_bit),
        cmocka_unit_test(nan_and_infinity_stay_in_their_row_and_column),
        cmocka_unit_test(without_k_the_result_is_the_bias_or_unchanged),
        cmocka_unit_test(empty_results_touch_nothing),
        cmocka_unit_test(wrong_arguments_are_refused_with_a_reason),
        cmocka_unit_test(scratch_does_not_grow_with_the_tokens),
        cmocka_unit_test(unknown_instruction_sets_are_refused_with_the_choices),
        cmocka_unit_test(the_device_keeps_its_memory_promises),
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
