// device_check.h - what the tests of checks at the opening of a device share: an emulated chip is opened, its path and what is told of it are
// looked at, and the one verdict that is kept.
#ifndef FT_DEVICE_CHECK_H
#define FT_DEVICE_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "kernels/cuda/driver/device.h"
#include "kernels/devices/devices.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/backend.h"
#include "tests/emulator/driver/fake_driver.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNKNOWN_ERROR = 4242 };
static char cache[] = "/tmp/ft_check_XXXXXX", checks[64];

static void good(ft_status status) {
    if (status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
}

static int make_cache(void **state) {
    if (mkdtemp(cache) == NULL) return 1;
    snprintf(checks, sizeof checks, "%s/ftengine/checks", cache);
    return setenv("XDG_CACHE_HOME", cache, 1) + unsetenv("FTENGINE_ATTENTION");
}
static int remove_cache(void **state) { return ft_remove_tree(cache) != FT_OK; }
static void forget(void) { good(ft_remove_tree(checks)); }

// The only file of verdicts: its path, and what stands in it. False: there is none.
static bool verdict(char path[300], char text[300]) {
    DIR *directory = opendir(checks);
    bool found = false;
    for (struct dirent *e; directory != NULL && (e = readdir(directory)) != NULL;)
        if (e->d_name[0] != '.') {
            assert_false(found);
            found = snprintf(path, 300, "%s/%.100s", checks, e->d_name) > 0;
        }
    if (directory != NULL) closedir(directory);
    if (!found) return false;
    char *data;
    size_t length;
    good(ft_read_file(path, 0, &data, &length));
    snprintf(text, 300, "%s", data);
    free(data);
    return true;
}
static void holds(const char *part) {
    char path[300], text[300] = "";
    const bool found = verdict(path, text);
    if (!found || strstr(text, part) == NULL) fail_msg("kept is '%s', not '%s'", text, part);
}
static void keep(const char *text) {
    char path[300], before[300];
    assert_true(verdict(path, before));
    good(ft_atomic_write(path, text, strlen(text)));
}

// A chip of that compute capability.
static fake_settings chip(size_t capability) {
    fake_settings s = fake_defaults();
    s.capability = capability;
    s.version = 13000;
    return s;
}

// Opens it, after `refused` calls of the driver were named; its waits are of the check alone.
static ft_device *opened(const fake_settings *s, const char *refused, uint64_t nth, uint64_t times, int result,
                         ft_status want) {
    ft_device *device = NULL;
    fake_reset(s);
    if (refused != NULL) fake_refuse(refused, nth, times, result);
    const ft_status status = ft_device_open("cuda", 1, NULL, &device, NULL);
    fake_refuse(NULL, 1, 0, 0);
    if (status != want) fail_msg("status %d, not %d: %s", status, want, ft_error_message());
    assert_int_equal(device != NULL, want == FT_OK);
    return device;
}

// closed: with the path that it has, and a part of what is told; "": nothing.
static void closed(ft_device *device, const char *path, const char *told) {
    assert_string_equal(ft_device_attention(device), path);
    if (told[0] == '\0')
        assert_string_equal(ft_device_remark(device), "");
    else if (strstr(ft_device_remark(device), told) == NULL)
        fail_msg("told is '%s', not '%s'", ft_device_remark(device), told);
    ft_device_close(device);
    const fake_books b = fake_read();
    assert_int_equal(b.contexts + b.streams + b.buffers + b.handles + b.misuses, 0);
}

#endif
