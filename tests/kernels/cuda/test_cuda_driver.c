// The CUDA driver and the memory of a CUDA device, on the fake driver: what is missing is said, every refusal leaves
// things as they were, nothing stays behind.
// ctest: driver=fake
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/emulator/driver/fake_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { INVALID_VALUE = 1, OUT_OF_MEMORY = 2, UNKNOWN_ERROR = 4242 };
#define PAGE ((size_t)2 << 20)

static fake_settings with(size_t version, size_t devices, size_t init_result) {
    fake_settings s = fake.defaults();
    s.version = version;
    s.devices = devices;
    s.init_result = init_result;
    return s;
}

static int load(void **state) {
    load_fake(FT_FAKE_DRIVER);
    return 0;
}

// ---- the library ------------------------------------------------------------------------------------------------

static void opens(void **state) {
    fake_settings s = with(13010, 2, 0);
    fake.reset(&s);
    good(ft_cuda_driver_open(FT_FAKE_DRIVER, &driver));
    assert_int_equal(driver->version, 13010);
    assert_string_equal(driver->release, ""); // its name has no number
    assert_non_null(strstr(driver->path, "fake_driver"));
    int count;
    good(ft_cuda_chip_count(driver, &count));
    assert_int_equal(count, 2);
    ft_cuda_driver_close(driver);
    ft_cuda_driver_close(NULL);
    nothing_left();
}

static void cannot_open(const char *path, const char *part) {
    ft_cuda_driver *none = (void *)1;
    failed(ft_cuda_driver_open(path, &none), FT_NO_DEVICE, part);
    assert_null(none);
    nothing_left();
}

static void library_is_missing_or_wrong(void **state) {
    cannot_open("/nowhere/libcuda.so.1", "no NVIDIA driver: /nowhere/libcuda.so.1 was not found");
    assert_int_equal(ft_error_hint_count(), 1);
    cannot_open(FT_SOURCE_DIR "/CMakeLists.txt", "the NVIDIA driver cannot be loaded: ");
    cannot_open("libm.so.6", "the NVIDIA driver has no function cuInit");
    cannot_open(FT_FAKE_DRIVER_LACKING, "the NVIDIA driver has no function cuMemCreate");
}

static void driver_is_old(void **state) {
    fake_settings s = with(11040, 1, 0);
    fake.reset(&s);
    cannot_open(FT_FAKE_DRIVER, "the NVIDIA driver supports CUDA 11.4, but 12.0 is needed");
    s = with(12000, 1, 0);
    fake.reset(&s);
    good(ft_cuda_driver_open(FT_FAKE_DRIVER, &driver));
    ft_cuda_driver_close(driver);
    // An old driver is called old before it is blamed for a function that it lacks.
    load_fake(FT_FAKE_DRIVER_LACKING);
    s = with(10000, 1, 0);
    fake.reset(&s);
    cannot_open(FT_FAKE_DRIVER_LACKING, "the NVIDIA driver supports CUDA 10.0");
    load_fake(FT_FAKE_DRIVER);
}

static void driver_does_not_start(void **state) {
    static const struct {
        size_t devices, init_result;
        const char *part;
    } cases[] = {
        {0, 0, "no NVIDIA GPU: the driver is there but finds none: CUDA_ERROR_NO_DEVICE"},
        {1, FT_CU_STUB_LIBRARY, "no NVIDIA driver: this file is only the stub"},
        {1, FT_CU_SYSTEM_DRIVER_MISMATCH, "of different releases: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
        {1, UNKNOWN_ERROR, "the NVIDIA driver does not start: cuInit: CUDA error 4242"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_settings s = with(12020, cases[i].devices, cases[i].init_result);
        fake.reset(&s);
        cannot_open(FT_FAKE_DRIVER, cases[i].part);
    }
    fake_settings s = with(12020, 0, 0);
    fake.reset(&s);
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    cannot_open(FT_FAKE_DRIVER, "no NVIDIA GPU");
    unsetenv("CUDA_VISIBLE_DEVICES");
    assert_int_equal(ft_error_hint_count(), 1);
    assert_non_null(strstr(ft_error_hint(0), "CUDA_VISIBLE_DEVICES is '7'"));
    s = with(12020, 1, 0);
    fake.reset(&s);
    fake.refuse("cuDriverGetVersion", 1, 1, UNKNOWN_ERROR);
    cannot_open(FT_FAKE_DRIVER, "the NVIDIA driver does not tell its version: CUDA error 4242");
}

static void release_is_read_off_the_file(void **state) {
    char directory[] = "/tmp/ft_cuda_XXXXXX", file[64], link[64], command[600];
    assert_non_null(mkdtemp(directory));
    snprintf(file, sizeof file, "%s/libcuda.so.535.129.03", directory);
    snprintf(link, sizeof link, "%s/libcuda.so.1", directory);
    snprintf(command, sizeof command, "cp '%s' '%s'", FT_FAKE_DRIVER, file);
    assert_int_equal(system(command), 0);
    assert_int_equal(symlink(file, link), 0);
    ft_status status = ft_cuda_driver_open(link, &driver);
    unlink(link);
    unlink(file);
    rmdir(directory);
    good(status);
    assert_string_equal(driver->release, "535.129.03");
    assert_string_equal(driver->path, file);
    ft_cuda_driver_close(driver);
}

// ---- devices ----------------------------------------------------------------------------------------------------

static void chips_are_read(void **state) {
    fake_settings s = with(12020, 2, 0);
    s.memory = 24 * PAGE;
    s.capability = 89;
    open_gpu(&s);
    ft_gpu chip;
    good(ft_cuda_chip_read(driver, 1, &chip));
    assert_string_equal(chip.name, "NVIDIA Fake 4096");
    assert_string_equal(chip.pci, "0000:3c:00.0");
    assert_int_equal(chip.capability, 89);
    assert_int_equal(chip.multiprocessors, 108);
    assert_int_equal(chip.total_bytes, 24 * PAGE);
    assert_true(chip.virtual_memory);
    good(ft_cuda_chip_check(&chip));
    chip.capability = 75;
    failed(ft_cuda_chip_check(&chip), FT_NO_DEVICE, "compute capability 7.5, but 8.0 is needed");
    failed(ft_cuda_chip_read(driver, 2, &chip), FT_NO_DEVICE, "no device cuda:2: this machine has 2 CUDA devices");
    failed(ft_cuda_chip_read(driver, -1, &chip), FT_NO_DEVICE, "no device cuda:-1");

    void *data;
    size_t bytes;
    good(ft_cuda_chip_read(driver, 0, &chip));
    good(gpu->functions->buffer_alloc(gpu, PAGE, &data));
    good(ft_cuda_chip_free_bytes(driver, &chip, &bytes));
    assert_int_equal(bytes, 23 * PAGE);
    gpu->functions->buffer_free(gpu, data, PAGE); // although another context was current meanwhile
    good(gpu->functions->sync(gpu));
    fake.refuse("cuMemGetInfo_v2", 1, 1, UNKNOWN_ERROR);
    failed(ft_cuda_chip_free_bytes(driver, &chip, &bytes), FT_FAILED, "CUDA error 4242");
    close_gpu(0);
}

static void device_describes_itself(void **state) {
    open_gpu(NULL);
    assert_string_equal(gpu->name, "cuda:0");
    assert_string_equal(gpu->description, "NVIDIA Fake 4096, sm_80");
    assert_int_equal(gpu->total_bytes, 32 * PAGE);
    assert_int_equal(gpu->target.backend, FT_BACKEND_CUDA);
    assert_int_equal(gpu->target.compute_capability, 80);
    assert_int_equal(gpu->target.sm_count, 108);
    assert_int_equal(gpu->target.page_bytes, PAGE);
    ft_device *other = (void *)1;
    failed(ft_cuda_open(driver, 1, NULL, &other), FT_NO_DEVICE, "no device cuda:1: this machine has 1 CUDA device");
    assert_null(other);
    close_gpu(0);
}

static size_t free_pages(int ordinal) {
    ft_gpu chip;
    size_t bytes;
    good(ft_cuda_chip_read(driver, ordinal, &chip));
    good(ft_cuda_chip_free_bytes(driver, &chip, &bytes));
    return bytes / PAGE;
}

// Memory comes from the device that was asked, whichever was used last.
static void two_devices_keep_apart(void **state) {
    fake_settings s = with(12020, 2, 0);
    open_gpu(&s);
    ft_device *second;
    void *buffer[2], *range[2];
    size_t page;
    unsigned char back[2];
    good(ft_cuda_open(driver, 1, NULL, &second));
    assert_string_equal(second->name, "cuda:1");
    ft_device *devices[2] = {gpu, second};
    for (int i = 0; i < 2; i++) {
        good(devices[i]->functions->buffer_alloc(devices[i], (size_t)(i + 1) * PAGE, &buffer[i]));
        good(devices[i]->functions->range_reserve(devices[i], 8 * PAGE, &range[i], &page));
    }
    for (int i = 0; i < 2; i++)
        good(devices[i]->functions->range_commit(devices[i], range[i], 0, (size_t)(3 + i) * PAGE));
    assert_int_equal(free_pages(0), 32 - 1 - 3);
    assert_int_equal(free_pages(1), 32 - 2 - 4);
    for (int i = 0; i < 2; i++)
        good(devices[i]->functions->fill(devices[i], range[i], 10 + i, 1));
    for (int i = 0; i < 2; i++) {
        good(devices[i]->functions->copy(devices[i], buffer[i], range[i], 1));
        good(devices[i]->functions->download(devices[i], &back[i], buffer[i], 1));
    }
    for (int i = 0; i < 2; i++) {
        good(devices[i]->functions->sync(devices[i]));
        assert_int_equal(back[i], 10 + i);
        devices[i]->functions->range_decommit(devices[i], range[i], 0, (size_t)(3 + i) * PAGE);
    }
    for (int i = 0; i < 2; i++) {
        devices[i]->functions->range_release(devices[i], range[i], 8 * PAGE);
        devices[i]->functions->buffer_free(devices[i], buffer[i], (size_t)(i + 1) * PAGE);
        good(devices[i]->functions->sync(devices[i]));
        assert_int_equal(free_pages(i), 32);
    }
    ft_device_close(second);
    close_gpu(0);
}

static void devices_that_cannot_do_everything(void **state) {
    fake_settings s = fake.defaults();
    s.virtual_memory = 0;
    open_gpu(&s);
    assert_null(gpu->functions->range_reserve);
    assert_null(gpu->functions->range_commit);
    void *data;
    good(gpu->functions->buffer_alloc(gpu, 100, &data));
    gpu->functions->buffer_free(gpu, data, 100);
    close_gpu(0);

    s.capability = 75;
    fake.reset(&s);
    good(ft_cuda_driver_open(FT_FAKE_DRIVER, &driver));
    failed(ft_cuda_open(driver, 0, NULL, &gpu), FT_NO_DEVICE, "NVIDIA Fake 4096 has compute capability 7.5");
    assert_null(gpu);
    ft_cuda_driver_close(driver);
    nothing_left();
}

// Every call that opening makes fails once.
static void opening_fails_at_every_call(void **state) {
    fake_settings s = fake.defaults();
    fake.reset(&s);
    good(ft_cuda_driver_open(FT_FAKE_DRIVER, &driver));
    uint64_t nth = 0;
    ft_status status;
    do {
        fake.refuse(NULL, ++nth, 1, UNKNOWN_ERROR);
        status = ft_cuda_open(driver, 0, NULL, &gpu);
        if (status != FT_OK) {
            failed(status, FT_FAILED, "CUDA error 4242");
            assert_null(gpu);
            fake.refuse(NULL, 1, 0, 0);
            nothing_left();
        }
    } while (status != FT_OK && nth < 100);
    fake.refuse(NULL, 1, 0, 0);
    assert_in_range(nth, 14, 20); // chip, page, context, stream
    close_gpu(0);
}

// ---- buffers ----------------------------------------------------------------------------------------------------

static void buffers_are_copied_and_filled(void **state) {
    enum { N = 1000 };
    open_gpu(NULL);
    const ft_device_functions *f = gpu->functions;
    unsigned char host[N], back[N];
    void *a, *b;
    good(f->buffer_alloc(gpu, N, &a));
    good(f->buffer_alloc(gpu, N, &b));
    assert_int_equal((uintptr_t)a % 256, 0);
    for (int i = 0; i < N; i++)
        host[i] = (unsigned char)(i * 7 + 1);
    good(f->upload(gpu, a, host, N));
    good(f->copy(gpu, b, a, N));
    good(f->fill(gpu, (char *)b + 100, 0xab, 50));
    good(f->download(gpu, back, b, N));
    good(f->sync(gpu));
    for (int i = 0; i < N; i++)
        assert_int_equal(back[i], i >= 100 && i < 150 ? 0xab : host[i]);
    // Nothing at all is fine, wherever it is.
    good(f->upload(gpu, NULL, NULL, 0));
    good(f->download(gpu, NULL, NULL, 0));
    good(f->copy(gpu, NULL, NULL, 0));
    good(f->fill(gpu, NULL, 1, 0));
    void *empty;
    good(f->buffer_alloc(gpu, 0, &empty));
    assert_non_null(empty);
    f->buffer_free(gpu, empty, 0);
    f->buffer_free(gpu, NULL, 0);
    f->buffer_free(gpu, a, N);
    f->buffer_free(gpu, b, N);
    good(f->sync(gpu));
    close_gpu(0);
}

static void buffers_run_out(void **state) {
    open_gpu(NULL);
    const ft_device_functions *f = gpu->functions;
    void *a, *b = (void *)1;
    good(f->buffer_alloc(gpu, 20 * PAGE, &a));
    fake_books before = fake.read();
    failed(f->buffer_alloc(gpu, 13 * PAGE, &b), FT_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
    assert_string_equal(ft_error_where(), "cuMemAlloc_v2");
    assert_null(b);
    fake_books after = fake.read();
    assert_memory_equal(&before, &after, sizeof before);
    good(f->buffer_alloc(gpu, 12 * PAGE, &b));
    f->buffer_free(gpu, a, 20 * PAGE);
    f->buffer_free(gpu, b, 12 * PAGE);
    close_gpu(0);
}

// What is queued may still use memory that is given back: freeing waits for it.
static void giving_back_waits(void **state) {
    open_gpu(NULL);
    const ft_device_functions *f = gpu->functions;
    unsigned char back[16] = {0};
    void *buffer, *range;
    size_t page;
    good(f->buffer_alloc(gpu, 16, &buffer));
    good(f->fill(gpu, buffer, 5, 16));
    good(f->download(gpu, back, buffer, 16));
    assert_int_equal(back[0], 0); // the fake queues indeed
    f->buffer_free(gpu, buffer, 16);
    assert_int_equal(back[15], 5);
    good(f->range_reserve(gpu, PAGE, &range, &page));
    good(f->range_commit(gpu, range, 0, PAGE));
    good(f->fill(gpu, range, 6, 16));
    good(f->download(gpu, back, range, 16));
    f->range_decommit(gpu, range, 0, PAGE);
    assert_int_equal(back[15], 6);
    f->range_release(gpu, range, PAGE);
    good(f->sync(gpu));
    close_gpu(0);
}

// ---- ranges -----------------------------------------------------------------------------------------------------

static void check_bytes(const char *at, int byte, size_t bytes) {
    char *host = malloc(bytes);
    assert_non_null(host);
    good(gpu->functions->download(gpu, host, at, bytes));
    good(gpu->functions->sync(gpu));
    for (size_t i = 0; i < bytes; i++)
        if (host[i] != (char)byte) fail_msg("byte %zu is %d, not %d", i, host[i], byte);
    free(host);
}

static void ranges_grow_and_shrink_anywhere(void **state) {
    open_gpu(NULL);
    const ft_device_functions *f = gpu->functions;
    void *base;
    size_t page;
    good(f->range_reserve(gpu, 100 * PAGE - 5, &base, &page)); // more than the device has
    assert_int_equal(page, PAGE);
    assert_int_equal((uintptr_t)base % PAGE, 0);
    char *at = base;
    good(f->range_commit(gpu, base, 0, 3 * PAGE));
    good(f->range_commit(gpu, base, 3 * PAGE, 4 * PAGE));
    good(f->range_commit(gpu, base, 99 * PAGE, PAGE));
    good(f->range_commit(gpu, base, 50 * PAGE, 0));
    good(f->fill(gpu, at, 1, 7 * PAGE));              // across two commits
    f->range_decommit(gpu, base, 2 * PAGE, 3 * PAGE); // a part of both
    good(f->sync(gpu));
    assert_int_equal(fake.read().mappings, 5);
    assert_int_equal(fake.read().handles, 5);
    assert_int_equal(fake.read().used, 5 * PAGE);
    check_bytes(at, 1, 2 * PAGE);
    check_bytes(at + 5 * PAGE, 1, 2 * PAGE);
    good(f->range_commit(gpu, base, 3 * PAGE, PAGE));
    good(f->fill(gpu, at + 3 * PAGE, 2, PAGE));
    check_bytes(at + 3 * PAGE, 2, PAGE);
    check_bytes(at + 5 * PAGE, 1, PAGE);
    f->range_decommit(gpu, base, 0, 2 * PAGE);
    f->range_decommit(gpu, base, 3 * PAGE, PAGE);
    f->range_decommit(gpu, base, 5 * PAGE, 2 * PAGE);
    f->range_decommit(gpu, base, 99 * PAGE, PAGE);
    good(f->sync(gpu));
    assert_int_equal(fake.read().used, 0);
    f->range_release(gpu, base, 100 * PAGE - 5);
    good(f->sync(gpu));
    close_gpu(0);
}

// Each step of a commit of five pages is refused, at each page: memory and contents are as before, and the commit can
// be made again.
static void refused_commits_change_nothing(void **state) {
    static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess"};
    open_gpu(NULL);
    const ft_device_functions *f = gpu->functions;
    void *base;
    size_t page;
    good(f->range_reserve(gpu, 16 * PAGE, &base, &page));
    good(f->range_commit(gpu, base, 0, 2 * PAGE));
    good(f->range_commit(gpu, base, 7 * PAGE, PAGE));
    good(f->fill(gpu, base, 3, 2 * PAGE));
    fake_books before = fake.read();
    int refused = 0;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++)
        for (uint64_t nth = 1; nth <= 5; nth++) {
            fake.refuse(calls[c], nth, 1, OUT_OF_MEMORY);
            ft_status status = f->range_commit(gpu, base, 2 * PAGE, 5 * PAGE);
            fake.refuse(NULL, 1, 0, 0);
            if (status == FT_OK) { // one call gives access to all five
                assert_int_equal(c, 2);
                assert_int_equal(nth, 2);
                f->range_decommit(gpu, base, 2 * PAGE, 5 * PAGE);
                break;
            }
            failed(status, FT_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY");
            assert_string_equal(ft_error_where(), calls[c]);
            fake_books after = fake.read();
            assert_memory_equal(&before, &after, sizeof before);
            refused++;
        }
    assert_int_equal(refused, 11);
    check_bytes(base, 3, 2 * PAGE);
    f->range_decommit(gpu, base, 0, 2 * PAGE);
    f->range_decommit(gpu, base, 7 * PAGE, PAGE);
    f->range_release(gpu, base, 16 * PAGE);
    good(f->sync(gpu));
    close_gpu(0);
}

static void devices_run_out(void **state) {
    open_gpu(NULL);
    const ft_device_functions *f = gpu->functions;
    void *base, *other;
    size_t page;
    good(f->range_reserve(gpu, 40 * PAGE, &base, &page));
    good(f->range_commit(gpu, base, 0, 30 * PAGE));
    failed(f->range_commit(gpu, base, 30 * PAGE, 3 * PAGE), FT_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY");
    assert_int_equal(fake.read().used, 30 * PAGE);
    good(f->range_commit(gpu, base, 38 * PAGE, 2 * PAGE)); // what there was is still there
    failed(f->range_reserve(gpu, SIZE_MAX, &other, &page), FT_NO_MEMORY, "no device has a range of");
    assert_null(other);
    failed(f->range_reserve(gpu, 0, &other, &page), FT_NO_MEMORY, "no device has a range of 0 bytes");
    fake.refuse("cuMemAddressReserve", 1, 1, OUT_OF_MEMORY);
    failed(f->range_reserve(gpu, PAGE, &other, &page), FT_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY");
    assert_null(other);
    f->range_decommit(gpu, base, 0, 30 * PAGE);
    f->range_decommit(gpu, base, 38 * PAGE, 2 * PAGE);
    f->range_release(gpu, base, 40 * PAGE);
    good(f->sync(gpu));
    close_gpu(0);
}

// ---- mistakes ---------------------------------------------------------------------------------------------------

// Callers that mix something up get an error from commit, and from sync for what returns none; the driver is not asked.
static void mistakes_are_errors(void **state) {
    open_gpu(NULL);
    const ft_device_functions *f = gpu->functions;
    void *base;
    size_t page;
    good(f->range_reserve(gpu, 4 * PAGE, &base, &page));
    good(f->range_commit(gpu, base, PAGE, PAGE));
    failed(f->range_commit(gpu, base, 0, 100), FT_FAILED, "100 bytes at 0 are no pages of a range");
    failed(f->range_commit(gpu, base, 100, PAGE), FT_FAILED, "are no pages of a range");
    failed(f->range_commit(gpu, base, 3 * PAGE, 2 * PAGE), FT_FAILED, "are no pages of a range");
    failed(f->range_commit(gpu, base, 5 * PAGE, 0), FT_FAILED, "are no pages of a range");
    failed(f->range_commit(gpu, (char *)base + PAGE, 0, PAGE), FT_FAILED, "is no reserved range");
    failed(f->range_commit(gpu, base, 0, 2 * PAGE), FT_FAILED, "page 1 of a range is committed twice");
    assert_int_equal(fake.read().handles, 1);

    (void)ft_fail(FT_DIVERGED, NULL, "an error that is told already");
    f->range_decommit(gpu, base, 2 * PAGE, PAGE);
    f->range_decommit(gpu, base, 0, 7 * PAGE); // the first error is kept
    assert_string_equal(ft_error_message(), "an error that is told already");
    failed(f->sync(gpu), FT_FAILED, "page 2 of a range was not committed");
    good(f->sync(gpu));
    f->range_release(gpu, (char *)base + PAGE, PAGE);
    failed(f->sync(gpu), FT_FAILED, "is no reserved range");
    f->range_decommit(gpu, base, PAGE, PAGE);
    f->range_release(gpu, base, 4 * PAGE);
    good(f->sync(gpu));
    close_gpu(0);
}

static void failures_of_giving_back_reach_sync(void **state) {
    open_gpu(NULL);
    const ft_device_functions *f = gpu->functions;
    void *base, *buffer;
    size_t page;
    good(f->buffer_alloc(gpu, 100, &buffer));
    fake.refuse("cuMemFree_v2", 1, 1, UNKNOWN_ERROR);
    (void)ft_fail(FT_DIVERGED, NULL, "an error that is told already");
    f->buffer_free(gpu, buffer, 100);
    assert_string_equal(ft_error_message(), "an error that is told already");
    failed(f->sync(gpu), FT_FAILED, "CUDA error 4242");
    assert_string_equal(ft_error_where(), "cuMemFree_v2");
    f->buffer_free(gpu, buffer, 100); // it was not freed
    good(f->range_reserve(gpu, 2 * PAGE, &base, &page));
    good(f->range_commit(gpu, base, 0, 2 * PAGE));
    fake.refuse("cuMemUnmap", 1, 1, UNKNOWN_ERROR);
    f->range_decommit(gpu, base, 0, 2 * PAGE);
    failed(f->sync(gpu), FT_FAILED, "CUDA error 4242");
    assert_int_equal(fake.read().mappings, 1); // the other page went
    f->range_decommit(gpu, base, 0, PAGE);
    // A refused commit that cannot be undone either says what refused it; the rest is for sync. The calls are: enter,
    // create and map a page, create another.
    fake.refuse(NULL, 4, 2, UNKNOWN_ERROR);
    failed(f->range_commit(gpu, base, 0, 2 * PAGE), FT_FAILED, "CUDA error 4242");
    assert_string_equal(ft_error_where(), "cuMemCreate");
    failed(f->sync(gpu), FT_FAILED, "CUDA error 4242");
    assert_string_equal(ft_error_where(), "cuMemUnmap");
    f->range_decommit(gpu, base, 0, PAGE);
    f->range_release(gpu, base, 2 * PAGE);
    good(f->sync(gpu));
    close_gpu(0);
}

// After an error that a device does not recover from every call fails, and closing still gives the host's memory back.
static void lost_devices_say_so(void **state) {
    open_gpu(NULL);
    const ft_device_functions *f = gpu->functions;
    void *base, *buffer, *more;
    size_t page;
    good(f->range_reserve(gpu, 2 * PAGE, &base, &page));
    good(f->range_commit(gpu, base, 0, PAGE));
    good(f->buffer_alloc(gpu, 16, &buffer));
    good(f->fill(gpu, (char *)base + PAGE - 1, 1, 2)); // one byte too far
    failed(f->sync(gpu), FT_FAILED, "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)");
    failed(f->buffer_alloc(gpu, 16, &more), FT_FAILED, "CUDA_ERROR_ILLEGAL_ADDRESS");
    failed(f->range_commit(gpu, base, PAGE, PAGE), FT_FAILED, "CUDA_ERROR_ILLEGAL_ADDRESS");
    f->buffer_free(gpu, buffer, 16);
    f->range_decommit(gpu, base, 0, PAGE);
    f->range_release(gpu, base, 2 * PAGE);
    failed(f->sync(gpu), FT_FAILED, "CUDA_ERROR_ILLEGAL_ADDRESS");
    close_gpu(0);
}

// ---- the fake is strict -----------------------------------------------------------------------------------------

// What the tests above rely on to be refused is refused.
static void the_fake_refuses_what_the_driver_does(void **state) {
    fake_settings s = fake.defaults();
    fake.reset(&s);
    good(ft_cuda_driver_open(FT_FAKE_DRIVER, &driver));
    const ft_cuda_driver *d = driver;
    ft_cu_memory kind = {.type = FT_CU_MEMORY_PINNED, .location = {FT_CU_LOCATION_DEVICE, 0}}, odd = kind;
    ft_cu_access access = {{FT_CU_LOCATION_DEVICE, 0}, FT_CU_ACCESS_READ_WRITE};
    ft_cu_address base, buffer;
    ft_cu_handle one, two;
    ft_cu_context context;
    uint64_t refused = 0;
#define REFUSED(call, result)                                                                                          \
    do {                                                                                                               \
        assert_int_equal(d->call, result);                                                                             \
        refused++;                                                                                                     \
    } while (0)
    REFUSED(mem_alloc(&buffer, 1), 201); // no context
    assert_int_equal(d->primary_context_retain(&context, 0), 0);
    assert_int_equal(d->context_set_current(context), 0);
    REFUSED(mem_alloc(&buffer, 0), INVALID_VALUE);
    REFUSED(mem_free(4096), INVALID_VALUE);
    REFUSED(address_reserve(&base, 100, 0, 0, 0), INVALID_VALUE);
    REFUSED(address_reserve(&base, PAGE, 3 * PAGE, 0, 0), INVALID_VALUE);
    assert_int_equal(d->address_reserve(&base, 4 * PAGE, PAGE, 0, 0), 0);
    REFUSED(address_free(base, PAGE), INVALID_VALUE);
    odd.location.id = 1;
    REFUSED(mem_create(&one, PAGE, &odd, 0), INVALID_VALUE);
    REFUSED(mem_create(&one, PAGE / 2, &kind, 0), INVALID_VALUE);
    REFUSED(mem_create(&one, PAGE, &kind, 1), INVALID_VALUE);
    assert_int_equal(d->mem_create(&one, 2 * PAGE, &kind, 0), 0);
    assert_int_equal(d->mem_create(&two, PAGE, &kind, 0), 0);
    assert_int_equal(d->mem_create(&two, 64 * PAGE, &kind, 0), OUT_OF_MEMORY);
    REFUSED(mem_map(base + 4096, PAGE, 0, two, 0), INVALID_VALUE);
    REFUSED(mem_map(base, 2 * PAGE, 0, two, 0), INVALID_VALUE);            // larger than the handle
    REFUSED(mem_map(base + 4 * PAGE, PAGE, 0, two, 0), INVALID_VALUE);     // outside the reservation
    REFUSED(mem_map(base + 3 * PAGE, 2 * PAGE, 0, one, 0), INVALID_VALUE); // half outside
    assert_int_equal(d->mem_map(base, 2 * PAGE, 0, one, 0), 0);
    REFUSED(mem_map(base + PAGE, PAGE, 0, two, 0), INVALID_VALUE);      // taken
    REFUSED(mem_set_access(base, 3 * PAGE, &access, 1), INVALID_VALUE); // not all mapped
    REFUSED(mem_set_access(base, PAGE, &access, 1), INVALID_VALUE);     // a part of a mapping
    assert_int_equal(d->mem_set_access(base, 2 * PAGE, &access, 1), 0);
    REFUSED(mem_unmap(base, PAGE), INVALID_VALUE);
    REFUSED(address_free(base, 4 * PAGE), INVALID_VALUE); // something is mapped
    assert_int_equal(d->mem_release(one), 0);
    REFUSED(mem_release(one), INVALID_VALUE);
    assert_int_equal(fake.read().used, 3 * PAGE); // released, but still mapped
    assert_int_equal(d->mem_unmap(base, 2 * PAGE), 0);
    assert_int_equal(fake.read().used, PAGE);
    REFUSED(mem_unmap(base, 2 * PAGE), INVALID_VALUE);
    assert_int_equal(d->mem_release(two), 0);
    assert_int_equal(d->address_free(base, 4 * PAGE), 0);
    assert_int_equal(d->context_set_current(NULL), 0);
    assert_int_equal(d->primary_context_release(0), 0);
    REFUSED(primary_context_release(0), 201);
#undef REFUSED
    ft_cuda_driver_close(driver);
    nothing_left();
    assert_int_equal(fake.read().misuses, refused);
}

// Mapped memory cannot be used before access is given.
static void the_fake_guards_access(void **state) {
    open_gpu(NULL);
    const ft_cuda_driver *d = driver;
    ft_cu_memory kind = {.type = FT_CU_MEMORY_PINNED, .location = {FT_CU_LOCATION_DEVICE, 0}};
    ft_cu_address base;
    ft_cu_handle handle;
    assert_int_equal(d->address_reserve(&base, PAGE, 0, 0, 0), 0);
    assert_int_equal(d->mem_create(&handle, PAGE, &kind, 0), 0);
    assert_int_equal(d->mem_map(base, PAGE, 0, handle, 0), 0);
    good(gpu->functions->fill(gpu, (void *)(uintptr_t)base, 1, 1));
    failed(gpu->functions->sync(gpu), FT_FAILED, "CUDA_ERROR_ILLEGAL_ADDRESS");
    close_gpu(0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens),
        cmocka_unit_test(library_is_missing_or_wrong),
        cmocka_unit_test(driver_is_old),
        cmocka_unit_test(driver_does_not_start),
        cmocka_unit_test(release_is_read_off_the_file),
        cmocka_unit_test(chips_are_read),
        cmocka_unit_test(device_describes_itself),
        cmocka_unit_test(two_devices_keep_apart),
        cmocka_unit_test(devices_that_cannot_do_everything),
        cmocka_unit_test(opening_fails_at_every_call),
        cmocka_unit_test(buffers_are_copied_and_filled),
        cmocka_unit_test(buffers_run_out),
        cmocka_unit_test(giving_back_waits),
        cmocka_unit_test(ranges_grow_and_shrink_anywhere),
        cmocka_unit_test(refused_commits_change_nothing),
        cmocka_unit_test(devices_run_out),
        cmocka_unit_test(mistakes_are_errors),
        cmocka_unit_test(failures_of_giving_back_reach_sync),
        cmocka_unit_test(lost_devices_say_so),
        cmocka_unit_test(the_fake_refuses_what_the_driver_does),
        cmocka_unit_test(the_fake_guards_access),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
