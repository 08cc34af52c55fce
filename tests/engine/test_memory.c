// The meter: what is counted, what is reused, what a refused request leaves behind.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/memory/memory.h"

#include <string.h>

static ft_device *device;
static int open_device(void **state) { return ft_cpu_open(1, NULL, &device) != FT_OK; }
static int close_device(void **state) { return ft_device_close(device), 0; }

static void *take(ft_memory *m, size_t bytes, ft_memory_category category, const char *site) {
    void *p;
    assert_int_equal(ft_memory_alloc(m, bytes, category, site, &p), FT_OK);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 256, 0);
    memset(p, 0xAB, bytes);
    return p;
}

static void test_counts(void **state) {
    ft_memory *m;
    assert_int_equal(ft_memory_create(device, 0, &m), FT_OK);
    void *a = take(m, 1000, FT_MEM_WEIGHTS, "a");
    ft_memory_set_phase(m, FT_PHASE_FORWARD);
    void *b = take(m, 513, FT_MEM_ACTIVATIONS, "b");
    ft_memory_counters c = ft_memory_read(m);
    assert_int_equal(c.requested, 1513);
    assert_int_equal(c.allocated, 1024 + 1024);
    assert_int_equal(c.reserved, 2048);
    assert_int_equal(c.at_peak[FT_MEM_WEIGHTS], 1024);
    assert_int_equal(c.at_peak[FT_MEM_ACTIVATIONS], 1024);
    assert_int_equal(c.phase_peak[FT_PHASE_LOAD], 1024);
    assert_int_equal(c.phase_peak[FT_PHASE_FORWARD], 2048);
    ft_memory_free(m, b);
    c = ft_memory_read(m);
    assert_int_equal(c.requested, 1000);
    assert_int_equal(c.allocated, 1024);
    assert_int_equal(c.reserved, 2048); // kept for the next step
    assert_int_equal(c.peak_allocated, 2048);
    assert_ptr_equal(take(m, 600, FT_MEM_WORKSPACE, "c"), b); // the same rounded size: the same block
    assert_int_equal(ft_memory_read(m).reserved, 2048);
    ft_memory_free(m, b);
    void *none = take(m, 0, FT_MEM_DATA, "nothing");
    assert_true(none != a && none != b);
    ft_memory_free(m, none);
    ft_memory_free(m, NULL);
    ft_memory_free(m, a);
    assert_int_equal(ft_memory_read(m).live_buffers, 0);
    assert_int_equal(ft_memory_destroy(m), FT_OK);
}

static void test_limit(void **state) {
    ft_memory *m;
    assert_int_equal(ft_memory_create(device, 4096, &m), FT_OK);
    void *a = take(m, 1024, FT_MEM_WEIGHTS, "the weights"), *b = take(m, 2048, FT_MEM_ACTIVATIONS, "big one");
    ft_memory_counters before = ft_memory_read(m);
    void *p = a;
    assert_int_equal(ft_memory_alloc(m, 1025, FT_MEM_DATA, "the straw", &p), FT_NO_MEMORY);
    assert_null(p);
    ft_memory_counters after = ft_memory_read(m);
    assert_memory_equal(&before, &after, sizeof before);
    assert_string_equal(ft_error_where(), "the straw");
    assert_non_null(strstr(ft_error_message(), "1025 bytes"));
    assert_non_null(strstr(ft_error_message(), "weights 1.0KiB"));
    assert_non_null(strstr(ft_error_hint(0), "big one 2.0KiB, the weights 1.0KiB"));
    // Cached blocks make room before anything is refused.
    ft_memory_free(m, b);
    void *c = take(m, 3072, FT_MEM_DATA, "c");
    assert_int_equal(ft_memory_read(m).reserved, 4096);
    ft_memory_free(m, c);
    ft_memory_free(m, a);
    assert_int_equal(ft_memory_destroy(m), FT_OK);
}

static void test_leak_is_named(void **state) {
    ft_memory *m;
    assert_int_equal(ft_memory_create(device, 0, &m), FT_OK);
    take(m, 77, FT_MEM_DATA, "forgotten");
    assert_int_equal(ft_memory_destroy(m), FT_FAILED);
    assert_string_equal(ft_error_where(), "forgotten");
    assert_int_equal(ft_memory_destroy(NULL), FT_OK);
}

static void test_absurd_size(void **state) {
    ft_memory *m;
    assert_int_equal(ft_memory_create(device, 0, &m), FT_OK);
    void *a = take(m, 4096, FT_MEM_DATA, "old"), *p;
    assert_int_equal(ft_memory_alloc(m, SIZE_MAX, FT_MEM_DATA, "absurd", &p), FT_NO_MEMORY);
    assert_int_equal(ft_memory_alloc(m, SIZE_MAX / 2, FT_MEM_DATA, "absurd", &p), FT_NO_MEMORY);
    assert_int_equal(((unsigned char *)a)[4095], 0xAB); // old buffers still work
    ft_memory_free(m, a);
    assert_int_equal(ft_memory_destroy(m), FT_OK);
}

static void test_texts(void **state) {
    char out[24];
    assert_string_equal(ft_bytes_text(512, out), "512B");
    assert_string_equal(ft_bytes_text(1536, out), "1.5KiB");
    assert_string_equal(ft_bytes_text((size_t)3 << 29, out), "1.50GiB");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_counts), cmocka_unit_test(test_limit), cmocka_unit_test(test_leak_is_named),
                                       cmocka_unit_test(test_absurd_size), cmocka_unit_test(test_texts)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
