// Who computes a product with an activation, with its slope, or with a norm of what it is added to, on a chip of compute capability 9.0: cuBLASLt and a pass, unless measuring has found our own kernel
// faster and the check of the device has found it right; what the environment says; and nobody on other chips. ctest: tsan=leave
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/product.h"
#include "kernels/devices/devices.h"
#include "kernels/ops/backend.h"
#include "tests/emulator/driver/fake_cublaslt.h"
#include "tests/emulator/driver/fake_driver.h"
#include "tests/emulator/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALL = 5 }; // choices: three ways, and two products, of which one is in front of an activation and of a norm
enum { ROWS = 40, COLUMNS = 24, TERMS = 72, NOT_SUPPORTED = 801 };
static char cache[] = "/tmp/ft_product_XXXXXX", checks[64];
static ft_device *gpu;
static ft_product_activation_args args;
static ft_product_slope_args back; // x is the gradient, w's transpose the matrix, h what the activation has read
static void *memory;
static ft_product_norm_args normed; // the sum is in norm.s, the residual 1 everywhere, gamma 2
enum { MEMORY = 1 << 17, NORMED = 65536 };

static void good(ft_status status) {
    if (status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
}

static ft_status try_to_open(size_t capability) {
    fake_settings s = fake_defaults();
    s.capability = capability;
    s.version = 13000;
    s.memory = (size_t)256 << 20;
    fake_reset(&s);
    fake_lt_reset();
    return ft_cuda_open_with_kernels(0, &gpu);
}

// Rows that count, so that every number of the product is known: x[i][k] = (i + k) % 3 - 1, w[j][k] = (j + 2 k) % 5 - 2, an eighth of them.
static double x_at(int64_t i, int64_t k) { return (double)((i + k) % 3 - 1); }
static double w_at(int64_t j, int64_t k) { return (double)((j + 2 * k) % 5 - 2) / 8; }

static void open_gpu(void) {
    static uint16_t x[ROWS][TERMS], w[COLUMNS][TERMS], w_back[TERMS][COLUMNS];
    good(try_to_open(90));
    good(gpu->functions->buffer_alloc(gpu, MEMORY, &memory));
    unsigned char *at = memory;
    args = (ft_product_activation_args){.kind = FT_ACT_GELU,
                                        .x = ft_matrix(at, ROWS, TERMS, FT_BF16),
                                        .w = ft_matrix(at + 8192, COLUMNS, TERMS, FT_BF16),
                                        .h = ft_matrix(at + 16384, ROWS, COLUMNS, FT_BF16),
                                        .y = ft_matrix(at + 24576, ROWS, COLUMNS, FT_BF16)};
    back = (ft_product_slope_args){.kind = FT_ACT_GELU,
                                   .dout = args.x,
                                   .w = ft_matrix(at + 32768, TERMS, COLUMNS, FT_BF16),
                                   .h = args.h,
                                   .dx = ft_matrix(at + 40960, ROWS, COLUMNS, FT_BF16),
                                   .y = args.y,
                                   .dbias = ft_vector(at + 49152, COLUMNS, FT_F32)};
    normed = (ft_product_norm_args){.x = args.x,
                                    .w = args.w,
                                    .norm = {.x = ft_matrix(at + NORMED, ROWS, COLUMNS, FT_BF16),
                                             .residual = ft_matrix(at + NORMED + 8192, ROWS, COLUMNS, FT_BF16),
                                             .gamma = ft_vector(at + NORMED + 16384, COLUMNS, FT_F32),
                                             .epsilon = 1e-5f,
                                             .s = ft_matrix(at + NORMED, ROWS, COLUMNS, FT_BF16),
                                             .y = ft_matrix(at + NORMED + 24576, ROWS, COLUMNS, FT_BF16)}};
    for (int64_t k = 0; k < TERMS; k++) {
        for (int64_t i = 0; i < ROWS; i++) x[i][k] = half_bits(FT_BF16, x_at(i, k));
        for (int64_t j = 0; j < COLUMNS; j++) w[j][k] = w_back[k][j] = half_bits(FT_BF16, w_at(j, k));
    }
    good(gpu->functions->upload(gpu, args.x.data, x, sizeof x));
    good(gpu->functions->upload(gpu, args.w.data, w, sizeof w));
    good(gpu->functions->upload(gpu, back.w.data, w_back, sizeof w_back));
    args.workspace.bytes = ft_product_activation_workspace(&gpu->target, &args);
    assert_int_equal(ft_product_slope_workspace(&gpu->target, &back), args.workspace.bytes);
    good(gpu->functions->buffer_alloc(gpu, args.workspace.bytes, &args.workspace.data));
    back.workspace = args.workspace;
    assert_int_equal(ft_product_norm_workspace(&gpu->target, &normed), args.workspace.bytes);
    normed.workspace = args.workspace;
}

static void close_gpu(void) {
    gpu->functions->buffer_free(gpu, args.workspace.data, args.workspace.bytes);
    gpu->functions->buffer_free(gpu, memory, MEMORY);
    ft_device_close(gpu);
    const fake_books b = fake_read();
    assert_int_equal(b.contexts + b.streams + b.buffers + b.handles + b.misuses, 0);
}

// Runs the op once; how many products cuBLASLt made for it. What comes of it is right in any case.
static uint64_t products_of_cublaslt(void) {
    static uint16_t h[ROWS][COLUMNS], y[ROWS][COLUMNS];
    const uint64_t before = fake_lt_read().products;
    good(gpu->functions->fill(gpu, args.h.data, 0xff, sizeof h));
    good(gpu->functions->fill(gpu, args.y.data, 0xff, sizeof y));
    good(FT_RUN(gpu, product_activation, &args));
    good(gpu->functions->download(gpu, h, args.h.data, sizeof h));
    good(gpu->functions->download(gpu, y, args.y.data, sizeof y));
    good(gpu->functions->sync(gpu));
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < COLUMNS; j++) {
            double sum = 0;
            for (int64_t k = 0; k < TERMS; k++) sum += x_at(i, k) * w_at(j, k);
            const double want = half_value(FT_BF16, half_bits(FT_BF16, sum)), gelu = want * erfc(-want * sqrt(0.5)) / 2;
            assert_true(half_value(FT_BF16, h[i][j]) == want);
            assert_true(fabs(half_value(FT_BF16, y[i][j]) - gelu) <= fabs(gelu) / 250 + 1e-6);
        }
    return fake_lt_read().products - before;
}

// The same of the way back, from an h that is known.
static double h_at(int64_t i, int64_t j) { return (double)((i + 2 * j) % 9 - 4) / 4; }
static uint64_t products_on_the_way_back(void) {
    static uint16_t h[ROWS][COLUMNS], y[ROWS][COLUMNS], dx[ROWS][COLUMNS];
    static float dbias[COLUMNS];
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < COLUMNS; j++) h[i][j] = half_bits(FT_BF16, h_at(i, j));
    const uint64_t before = fake_lt_read().products;
    good(gpu->functions->upload(gpu, back.h.data, h, sizeof h));
    good(gpu->functions->fill(gpu, back.y.data, 0xff, sizeof y));
    good(gpu->functions->fill(gpu, back.dx.data, 0xff, sizeof dx));
    good(gpu->functions->fill(gpu, back.dbias.data, 0, sizeof dbias));
    const bool measures = *ft_cuda_gemms_tuning(gpu) != NULL && ft_gemm_tuning_measures(*ft_cuda_gemms_tuning(gpu));
    good(FT_RUN(gpu, product_slope, &back));
    good(gpu->functions->download(gpu, dx, back.dx.data, sizeof dx));
    good(gpu->functions->download(gpu, y, back.y.data, sizeof y));
    good(gpu->functions->download(gpu, dbias, back.dbias.data, sizeof dbias));
    good(gpu->functions->sync(gpu));
    for (int64_t j = 0; j < COLUMNS; j++) {
        double of_column = 0, off = 1e-4;
        for (int64_t i = 0; i < ROWS; i++) {
            double sum = 0;
            for (int64_t k = 0; k < TERMS; k++) sum += x_at(i, k) * w_at(j, k);
            const double x = h_at(i, j), gelu = x * erfc(-x * sqrt(0.5)) / 2, slope = erfc(-x * sqrt(0.5)) / 2 + x * exp(-x * x / 2) * 0.3989422804014327;
            const double want = half_value(FT_BF16, half_bits(FT_BF16, sum)) * slope;
            assert_true(fabs(half_value(FT_BF16, dx[i][j]) - want) <= fabs(want) / 250 + 1e-5);
            assert_true(fabs(half_value(FT_BF16, y[i][j]) - gelu) <= fabs(gelu) / 250 + 1e-6);
            of_column += want, off += fabs(want) * 1e-5;
        }
        assert_true(measures || fabs((double)dbias[j] - of_column) <= off); // what is measured was added more than once
    }
    return fake_lt_read().products - before;
}

// The same of a product with a norm behind it.
static uint64_t products_in_front_of_a_norm(void) {
    static uint16_t ones[ROWS][COLUMNS], s[ROWS][COLUMNS], y[ROWS][COLUMNS];
    static float gamma[COLUMNS];
    for (int64_t j = 0; j < COLUMNS; j++) gamma[j] = 2;
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t j = 0; j < COLUMNS; j++) ones[i][j] = half_bits(FT_BF16, 1);
    const uint64_t before = fake_lt_read().products;
    good(gpu->functions->upload(gpu, normed.norm.residual.data, ones, sizeof ones));
    good(gpu->functions->upload(gpu, normed.norm.gamma.data, gamma, sizeof gamma));
    good(gpu->functions->fill(gpu, normed.norm.s.data, 0xff, sizeof s));
    good(gpu->functions->fill(gpu, normed.norm.y.data, 0xff, sizeof y));
    good(FT_RUN(gpu, product_norm, &normed));
    good(gpu->functions->download(gpu, s, normed.norm.s.data, sizeof s));
    good(gpu->functions->download(gpu, y, normed.norm.y.data, sizeof y));
    good(gpu->functions->sync(gpu));
    for (int64_t i = 0; i < ROWS; i++) {
        double total = 0, squares = 0, row[COLUMNS];
        for (int64_t j = 0; j < COLUMNS; j++) {
            double sum = 0;
            for (int64_t k = 0; k < TERMS; k++) sum += x_at(i, k) * w_at(j, k);
            row[j] = 1 + half_value(FT_BF16, half_bits(FT_BF16, sum));
            total += row[j];
            assert_true(half_value(FT_BF16, s[i][j]) == half_value(FT_BF16, half_bits(FT_BF16, row[j])));
        }
        for (int64_t j = 0; j < COLUMNS; j++) squares += (row[j] - total / COLUMNS) * (row[j] - total / COLUMNS);
        for (int64_t j = 0; j < COLUMNS; j++) { // (of the sum before it is rounded, or after)
            const double want = 2 * (row[j] - total / COLUMNS) / sqrt(squares / COLUMNS + 1e-5);
            assert_true(fabs(half_value(FT_BF16, y[i][j]) - want) <= 0.03);
        }
    }
    return fake_lt_read().products - before;
}

// The way that was noted for an epilogue; FT_GEMM_EPILOGUES: for any.
static const ft_gemm_choice *choice_of(ft_gemm_epilogue epilogue, size_t *all) {
    const ft_gemm_choice *choices = ft_gemms_choices(gpu, all);
    for (size_t i = 0; i < *all; i++) {
        const int32_t has = choices[i].shape.epilogue;
        if (has == (int32_t)epilogue || (epilogue == FT_GEMM_EPILOGUES && has != FT_GEMM_NO_EPILOGUE)) return &choices[i];
    }
    return NULL;
}

static void nothing_is_taken_unmeasured(void **state) {
    open_gpu();
    assert_int_equal(products_of_cublaslt(), 1);
    assert_int_equal(products_on_the_way_back(), 1);
    assert_int_equal(products_in_front_of_a_norm(), 1);
    assert_false(ft_path_exists(checks)); // nor checked
    close_gpu();
}

// cuBLASLt's third algorithm takes 250 us of the fake clock, and emulated kernels none.
static void the_faster_one_is_taken(void **state) {
    size_t count;
    open_gpu();
    good(ft_gemms_measure(gpu));
    assert_true(ft_path_exists(checks));
    const uint64_t all = products_of_cublaslt();
    assert_true(all > 2 * (FT_GEMM_ROUNDS + 1)); // of the algorithms, and in two
    assert_int_equal(products_of_cublaslt(), 0); // once and for all
    const ft_gemm_choice *way = choice_of(FT_GEMM_ACTIVATION, &count);
    assert_int_equal(count, 2); // the product has a choice of its own
    assert_non_null(way);
    assert_true(way->asked && way->algorithm.data[0] == FT_GEMM_OWN && way->first_microseconds == 250 && way->microseconds == 0);
    assert_int_equal(way->shape.kind, FT_ACT_GELU);
    assert_true(products_on_the_way_back() > 2 * (FT_GEMM_ROUNDS + 1)); // judged by itself
    assert_int_equal(products_on_the_way_back(), 0);
    way = choice_of(FT_GEMM_SLOPE, &count);
    assert_int_equal(count, 4);
    assert_true(way != NULL && way->asked && way->algorithm.data[0] == FT_GEMM_OWN && way->first_microseconds == 250 && way->microseconds == 0);
    assert_true(way->shape.kind == FT_ACT_GELU && way->shape.trans_b == 0);
    assert_true(products_in_front_of_a_norm() > FT_GEMM_ROUNDS + 1); // its product, without a bias, is known: only the two ways are measured
    assert_int_equal(products_in_front_of_a_norm(), 0);
    way = choice_of(FT_GEMM_NORM, &count);
    assert_true(way != NULL && way->asked && way->algorithm.data[0] == FT_GEMM_OWN && way->first_microseconds == 250 && way->shape.kind == 0);
    assert_int_equal(count, ALL);
    ft_gemm_choice kept[ALL];
    memcpy(kept, ft_gemms_choices(gpu, &count), sizeof kept);
    ft_gemms_forget(gpu);
    assert_int_equal(products_of_cublaslt(), 1); // as if nothing had been measured
    assert_int_equal(products_on_the_way_back(), 1);
    assert_int_equal(products_in_front_of_a_norm(), 1);
    close_gpu();

    open_gpu(); // a later run takes it up, and measures nothing
    good(ft_gemms_use(gpu, kept, ALL));
    assert_int_equal(products_of_cublaslt(), 0);
    assert_int_equal(products_on_the_way_back(), 0);
    assert_int_equal(products_in_front_of_a_norm(), 0);
    close_gpu();

    open_gpu(); // one of the two
    good(ft_gemms_use(gpu, kept, 2));
    assert_int_equal(products_of_cublaslt(), 0);
    assert_int_equal(products_on_the_way_back(), 1);
    close_gpu();

    open_gpu(); // in two, if that is what was measured
    for (int i = 0; i < ALL; i++)
        if (kept[i].shape.epilogue != FT_GEMM_NO_EPILOGUE) kept[i].algorithm.data[0] = FT_GEMM_IN_TWO;
    good(ft_gemms_use(gpu, kept, ALL));
    good(ft_gemms_measure(gpu));
    assert_int_equal(products_of_cublaslt(), 1);
    assert_int_equal(products_on_the_way_back(), 1);
    assert_int_equal(products_in_front_of_a_norm(), 1);
    close_gpu();
}

// Ways of so many products each.
static const ft_gemm_args *product;
static ft_status queue_products(ft_device *device, int count) {
    for (int i = 0; i < count; i++) FT_TRY(ft_cuda_gemm(device, product));
    return FT_OK;
}
static ft_status one_product(ft_device *device, const void *what) { return queue_products(device, 1); }
static ft_status two_products(ft_device *device, const void *what) { return queue_products(device, 2); }
static ft_status no_product(ft_device *device, const void *what) { return ft_fail(FT_FAILED, "own", "does not run"); }

static void slower_ones_are_not(void **state) {
    static const struct {
        ft_gemm_queue_function *in_two, *in_one;
        bool own;
        float microseconds, first;
    } cases[] = {{two_products, one_product, true, 250, 500}, {one_product, two_products, false, 250, 250},
                 {one_product, one_product, false, 250, 250}, {one_product, no_product, false, 250, 250}};
    open_gpu();
    const ft_gemm_args of_op = ft_product_activation_product(&args);
    product = &of_op;
    good(ft_cuda_gemms_measure(gpu));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ft_gemm_shape shape = ft_cuda_gemm_shape(product);
        bool own = !cases[i].own, found;
        shape.epilogue = FT_GEMM_ACTIVATION;
        shape.kind = (int32_t)i;
        ft_gemm_tuning *tuning = *ft_cuda_gemms_tuning(gpu);
        good(ft_gemm_tuning_measure_way(tuning, gpu, &shape, cases[i].in_two, cases[i].in_one, NULL, &own));
        assert_int_equal(own, cases[i].own);
        assert_int_equal(ft_error_code(), FT_OK);
        own = !own;
        ft_gemm_tuning_find_way(tuning, &shape, &own, &found);
        assert_true(found && own == cases[i].own);
        size_t count;
        const ft_gemm_choice *last = ft_cuda_gemms_choices(gpu, &count) + count - 1;
        assert_true(last->microseconds == cases[i].microseconds && last->first_microseconds == cases[i].first);
    }
    close_gpu();
}

// A kernel whose launches get lost is found by the check, told, and remembered; nothing else is left alone.
static void a_wrong_kernel_is_found(void **state) {
    static const struct {
        const char *kernel, *said;
    } lost[] = {{"product_activation", "the product of bf16 at row 0"}, {"product_slope", "the product by gelu's slope of bf16 at row 0"},
                {"product_norm", "the sum with a residual of bf16 in bf16 at row 0"}};
    for (int n = 0; n < 6; n++) { // each found, then remembered
        const int i = n % 2;
        if (i == 0) {
            good(ft_remove_tree(checks));
            setenv("SIMT_LOST", lost[n / 2].kernel, 1);
        }
        char told[160];
        snprintf(told, sizeof told, "left alone on cuda:0, cuBLASLt and a pass compute them: %s", lost[n / 2].said);
        size_t count;
        open_gpu();
        good(ft_gemms_measure(gpu));
        (void)products_of_cublaslt();
        assert_int_equal(products_of_cublaslt(), 1);
        (void)products_on_the_way_back();
        assert_int_equal(products_on_the_way_back(), 1);
        (void)products_in_front_of_a_norm();
        assert_int_equal(products_in_front_of_a_norm(), 1);
        assert_null(choice_of(FT_GEMM_EPILOGUES, &count));
        assert_int_equal(count, 2);
        if (strstr(ft_device_product_remark(gpu), told) == NULL) fail_msg("told is '%s'", ft_device_product_remark(gpu));
        close_gpu();
        unsetenv("SIMT_LOST");
    }
    good(ft_remove_tree(checks));
}

// Errors of the check's own are an outcome; a device without memory for it says nothing of the kernel.
static void a_check_that_is_refused(void **state) {
    open_gpu();
    fake_refuse("cuTensorMapEncodeTiled", 1, 1, NOT_SUPPORTED);
    good(ft_gemms_measure(gpu));
    fake_refuse(NULL, 1, 0, 0);
    assert_non_null(strstr(ft_device_product_remark(gpu), "its check failed: "));
    (void)products_of_cublaslt();
    assert_int_equal(products_of_cublaslt(), 1);
    close_gpu();
    good(ft_remove_tree(checks));

    open_gpu();
    fake_refuse("cuMemAlloc_v2", 1, 1, 2);
    good(ft_gemms_measure(gpu));
    fake_refuse(NULL, 1, 0, 0);
    assert_false(ft_cuda_of(gpu)->own_products);
    close_gpu();
    open_gpu(); // the next one checks anew
    good(ft_gemms_measure(gpu));
    assert_true(ft_cuda_of(gpu)->own_products);
    assert_string_equal(ft_device_product_remark(gpu), "");
    close_gpu();
}

static void what_the_environment_says(void **state) {
    setenv("FTENGINE_PRODUCTS", "own", 1);
    open_gpu();
    assert_int_equal(products_of_cublaslt(), 0); // unmeasured
    assert_int_equal(products_on_the_way_back(), 0);
    assert_int_equal(products_in_front_of_a_norm(), 0);
    args.kind = FT_ACT_GELU_10; // for which there is none
    args.workspace.bytes = ft_product_activation_workspace(&gpu->target, &args);
    const uint64_t before = fake_lt_read().products;
    good(FT_RUN(gpu, product_activation, &args));
    assert_int_equal(fake_lt_read().products - before, 1);
    close_gpu();
    assert_int_equal(try_to_open(89), FT_NO_DEVICE);
    assert_non_null(strstr(ft_error_message(), "own is for compute capability 9.0"));

    setenv("FTENGINE_PRODUCTS", "cublaslt", 1);
    open_gpu();
    good(ft_gemms_measure(gpu));
    (void)products_of_cublaslt();
    assert_int_equal(products_of_cublaslt(), 1);
    close_gpu();

    setenv("FTENGINE_PRODUCTS", "triton", 1);
    assert_int_equal(try_to_open(90), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "'triton' is neither own, cublaslt nor auto"));
    assert_string_equal(ft_error_where(), FT_PRODUCTS_NAME);
    unsetenv("FTENGINE_PRODUCTS");
    ft_error_clear();
}

static int make_cache(void **state) {
    if (mkdtemp(cache) == NULL) return 1;
    snprintf(checks, sizeof checks, "%s/ftengine/checks", cache);
    return setenv("XDG_CACHE_HOME", cache, 1) + unsetenv("FTENGINE_PRODUCTS");
}
static int remove_cache(void **state) { return ft_remove_tree(cache) != FT_OK; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_taken_unmeasured), cmocka_unit_test(the_faster_one_is_taken),  cmocka_unit_test(slower_ones_are_not),
        cmocka_unit_test(a_wrong_kernel_is_found),     cmocka_unit_test(a_check_that_is_refused), cmocka_unit_test(what_the_environment_says),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
