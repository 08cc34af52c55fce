// fake_device.h - for tests on the fake driver: its control functions, and a CUDA device on it whose books must be
// empty in the end. Behind cmocka.h; the build says where the library is.
#ifndef FT_FAKE_DEVICE_H
#define FT_FAKE_DEVICE_H

#include "kernels/cuda/driver/chips.h"
#include "kernels/cuda/driver/device.h"
#include "tests/emulator/driver/fake_driver.h"

#include <dlfcn.h>
#include <string.h>

typedef struct fake_control {
    fake_reset_function *reset;
    fake_defaults_function *defaults;
    fake_read_function *read;
    fake_refuse_function *refuse;
    fake_forbid_waits_function *forbid_waits;
} fake_control;

static fake_control fake;
static ft_cuda_driver *driver;
static ft_device *gpu;

static inline void find_function(void *library, const char *name, void *slot) {
    void *address = dlsym(library, name);
    assert_non_null(address);
    memcpy(slot, &address, sizeof address);
}

static inline void load_fake(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); // its state outlives every handle
    if (library == NULL) fail_msg("%s", dlerror());
    find_function(library, "fake_reset", &fake.reset);
    find_function(library, "fake_defaults", &fake.defaults);
    find_function(library, "fake_read", &fake.read);
    find_function(library, "fake_refuse", &fake.refuse);
    find_function(library, "fake_forbid_waits", &fake.forbid_waits);
    dlclose(library);
}

// Checks of an error: its code and a part of its message.
static inline void failed(ft_status got, ft_status want, const char *part) {
    if (got != want || strstr(ft_error_message(), part) == NULL)
        fail_msg("status %d, not %d; '%s' should contain '%s'", got, want, ft_error_message(), part);
}

static inline void good(ft_status status) {
    if (status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
}

static inline void open_gpu(const fake_settings *settings) {
    fake_settings defaults = fake.defaults();
    fake.reset(settings != NULL ? settings : &defaults);
    good(ft_cuda_driver_open(FT_FAKE_DRIVER, &driver));
    good(ft_cuda_open(driver, 0, NULL, &gpu));
}

static inline void nothing_left(void) {
    fake_books b = fake.read();
    assert_int_equal(b.contexts, 0);
    assert_int_equal(b.streams, 0);
    assert_int_equal(b.events, 0);
    assert_int_equal(b.graphs, 0);
    assert_int_equal(b.buffers, 0);
    assert_int_equal(b.pinned, 0);
    assert_int_equal(b.reservations, 0);
    assert_int_equal(b.handles, 0);
    assert_int_equal(b.mappings, 0);
    assert_int_equal(b.used, 0);
}

// misuses: how many the test made on purpose.
static inline void close_gpu(uint64_t misuses) {
    ft_device_close(gpu);
    ft_cuda_driver_close(driver);
    nothing_left();
    assert_int_equal(fake.read().misuses, misuses);
}

#endif
