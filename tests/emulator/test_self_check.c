// The check of attention on warpgroups when a device is opened, on an emulated chip of compute capability 9.0: who
// passes has them, who does not has mma.sync and is told; what is kept of it, and for whom. The numbers of runs:
// runs/test_self_check.sh. ctest: tsan=leave asan_part=3
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

static fake_settings hopper(void) {
    fake_settings s = fake_defaults();
    s.capability = 90;
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

static void what_passes_is_kept(void **state) {
    fake_settings s = hopper();
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "wgmma", "");
    assert_true(fake_read().waits > 16);
    holds("good\n");
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "wgmma", "");
    assert_true(fake_read().waits < 16); // not checked again
    keep("out of bf16, as somebody found\n");
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync",
           "mma.sync computes it: out of bf16, as somebody found (/tmp/ft_check_");
    s.slices = 1; // another GPU: checked for itself
    s.map_columns = 8;
    char path[300], text[300];
    assert_true(verdict(path, text) && unlink(path) == 0);
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", "out of bf16, heads of 64");
    forget();
}

static void a_fault_is_found(void **state) {
    fake_settings s = hopper();
    s.map_columns = 8;
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync",
           "attention on warpgroups of cuda:0 is left alone, mma.sync computes it: out of bf16, heads of 64, is ");
    holds("rounding\n");
    s.map_columns = 0;
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", "is rounding (/tmp/ft_check_");
    s.version = 13010; // another driver may have mended it, or not
    s.map_columns = 8;
    char path[300], text[300];
    assert_true(verdict(path, text) && unlink(path) == 0);
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", "out of bf16");
    forget();
}

// Disentangled attention, whose launches get lost: of either direction, and of both; the other one keeps its path.
static void a_fault_of_disentangled_attention(void **state) {
    fake_settings s = hopper();
    static const struct {
        const char *lost, *kept, *told;
        bool backward, forward; // may be used still
    } cases[] = {
        {"disentangled_warpgroup_backward", "good but disentangled backward: dq of bf16",
         "disentangled attention's backward pass on warpgroups of cuda:0 is left alone, mma.sync computes it: dq of bf16, heads of 64, positions, is inf off",
         false, true},
        {"disentangled_warpgroup_forward", "good but disentangled forward: out of bf16",
         "disentangled attention's forward pass on warpgroups of cuda:0 is left alone, mma.sync computes it: out of bf16, heads of 64, positions, is inf off",
         true, false},
        {"disentangled_warpgroup", "good but disentangled: dq of bf16",
         "disentangled attention on warpgroups of cuda:0 is left alone, mma.sync computes it: dq of bf16, heads of 64, positions, is inf off", false, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        forget();
        setenv("SIMT_LOST", cases[c].lost, 1);
        for (int i = 0; i < 2; i++) { // found, then remembered
            ft_device *device = opened(&s, NULL, 0, 0, 0, FT_OK);
            assert_int_equal(((ft_cuda *)device)->disentangled_warpgroups, cases[c].backward);
            assert_int_equal(((ft_cuda *)device)->disentangled_forward_warpgroups, cases[c].forward);
            closed(device, "wgmma", cases[c].told);
            holds(cases[c].kept);
            unsetenv("SIMT_LOST");
        }
    }
    keep("good but disentangled forward: its check has begun and never ended\n");
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "wgmma", "forward pass on warpgroups of cuda:0 is left alone, mma.sync computes it: its check has begun and never ended (/tmp/ft_check_");
    keep("good but disentangled: its check has begun and never ended\n"); // of a process that is gone
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "wgmma", "mma.sync computes it: its check has begun and never ended (/tmp/ft_check_");
    // Of one that is alive nobody takes its word.
    char path[300], text[300];
    assert_true(verdict(path, text));
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "wgmma", "");
    close(fd);
    forget();
}

// A hang, a crash: whoever begins finds that the last one never ended.
static void a_check_that_never_ended(void **state) {
    fake_settings s = hopper();
    s.map_columns = 8;
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", "out of bf16");
    keep("begun\n");
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", "its check has begun and never ended (/tmp/ft_check_");
    holds("begun\n");
    // Of one that is alive nobody waits, and nobody takes its word.
    char path[300], text[300];
    assert_true(verdict(path, text));
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", "out of bf16");
    holds("begun\n");
    close(fd);
    forget();
}

static void what_is_refused(void **state) {
    fake_settings s = hopper();
    closed(opened(&s, "cuTensorMapEncodeTiled", 2, 1, UNKNOWN_ERROR, FT_OK), "mma.sync", "its check failed: ");
    holds("its check failed: ");
    forget();
    // Short of memory: not the path's fault, and nothing is kept.
    closed(opened(&s, "cuMemAlloc_v2", 1, 1, FT_CU_OUT_OF_MEMORY, FT_OK), "mma.sync",
           "its check failed: CUDA_ERROR_OUT_OF_MEMORY");
    char path[300], text[300];
    assert_true(verdict(path, text));
    assert_string_equal(text, "\n");
    // What the device does not recover from ends here, and the next one knows.
    opened(&s, "cuStreamSynchronize", 3, 3, UNKNOWN_ERROR, FT_FAILED);
    assert_non_null(strstr(ft_error_hint(0), "FTENGINE_ATTENTION=mma"));
    ft_error_clear();
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", "its check failed: CUDA error 4242");
    forget();
    // Of the check of disentangled attention alone: the first wait that is refused without taking standard attention its path.
    uint64_t nth = 24; // three at least for each case of standard attention
    ft_device *device = opened(&s, "cuStreamSynchronize", nth, 1, UNKNOWN_ERROR, FT_OK);
    while (strcmp(ft_device_attention(device), "mma.sync") == 0) {
        closed(device, "mma.sync", "its check failed: ");
        forget();
        device = opened(&s, "cuStreamSynchronize", nth += 2, 1, UNKNOWN_ERROR, FT_OK);
    }
    for (int i = 0; i < 2; i++) { // refused, then remembered
        closed(device, "wgmma", "disentangled attention's backward pass on warpgroups of cuda:0 is left alone, mma.sync computes it: its check failed: ");
        holds("good but disentangled backward: its check failed: "); // and the other one was tried
        device = opened(&s, NULL, 0, 0, 0, FT_OK);
    }
    ft_device_close(device);
    forget();
}

static void who_is_not_checked(void **state) {
    char path[300], text[300];
    fake_settings s = hopper();
    s.map_columns = 8; // nobody would pass
    static const struct {
        const char *asked, *path;
        size_t capability;
    } cases[] = {{"mma", "mma.sync", 90},
                 {"wgmma", "wgmma", 90},
                 {"owner", "owner", 90},
                 {NULL, "mma.sync", 80},
                 {NULL, "mma.sync", 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        s.capability = cases[i].capability;
        if (cases[i].asked != NULL) setenv("FTENGINE_ATTENTION", cases[i].asked, 1);
        closed(opened(&s, NULL, 0, 0, 0, FT_OK), cases[i].path, "");
        assert_false(verdict(path, text));
        unsetenv("FTENGINE_ATTENTION");
    }
    // Where nothing can be kept it is checked every time.
    s.capability = 90;
    setenv("XDG_CACHE_HOME", "/proc/none", 1);
    for (int i = 0; i < 2; i++)
        closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", "is rounding");
    setenv("XDG_CACHE_HOME", cache, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_passes_is_kept),
        cmocka_unit_test(a_fault_is_found),
        cmocka_unit_test(a_fault_of_disentangled_attention),
        cmocka_unit_test(a_check_that_never_ended),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(who_is_not_checked),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
