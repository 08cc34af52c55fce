// The check of attention on warpgroups when a device is opened, on an emulated chip of compute capability 9.0: who
// passes has them, who does not has mma.sync and is told; what is kept of it, and for whom. The numbers of runs:
// runs/test_self_check.sh. ctest: tsan=leave asan_part=3
#include "tests/emulator/device_check.h"

static void what_passes_is_kept(void **state) {
    fake_settings s = chip(90);
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
    fake_settings s = chip(90);
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

// Buffers of keys and values that are right the first time alone: found with heads of either width, causal or not, in the case that fills them twice.
static void a_fault_of_buffers_that_are_filled_again(void **state) {
    fake_settings s = chip(90);
    static const struct {
        const char *launch, *found;
    } cases[] = {{"attention_warpgroup:2", "out of fp16, heads of 64, is inf off"},
                 {"attention_warpgroup:3", "out of bf16, heads of 64, causal, is inf off"},
                 {"attention_warpgroup:5", "out of bf16, heads of 128, is inf off"},
                 {"attention_warpgroup:8", "out of fp16, heads of 128, causal, is inf off"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv("SIMT_STALE", cases[i].launch, 1);
        closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", cases[i].found);
        unsetenv("SIMT_STALE");
        forget();
    }
}

// Disentangled attention, whose launches get lost: of either direction, and of both; the other one keeps its path.
static void a_fault_of_disentangled_attention(void **state) {
    fake_settings s = chip(90);
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
    fake_settings s = chip(90);
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
    fake_settings s = chip(90);
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
    fake_settings s = chip(90);
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
        cmocka_unit_test(a_fault_of_buffers_that_are_filled_again),
        cmocka_unit_test(a_fault_of_disentangled_attention),
        cmocka_unit_test(a_check_that_never_ended),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(who_is_not_checked),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
