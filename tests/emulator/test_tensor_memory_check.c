// The check of attention on tensor memory when a device is opened and FTENGINE_ATTENTION=tcgen05 asks for it, on an emulated chip of compute
// capability 10.0: who passes has it, who does not has mma.sync and is told. What both checks share: test_self_check.c. The numbers of runs:
// runs/test_self_check.sh. ctest: tsan=leave asan_part=2
#include "tests/emulator/device_check.h"

static const char left[] = "attention on tensor memory (FTENGINE_ATTENTION=tcgen05) is left alone on cuda:0, mma.sync computes it: ";

// A wish that can be met is met where the check finds nothing wrong, once for a GPU, driver and module; a chip of its family has its own.
static void tensor_memory_that_passes(void **state) {
    fake_settings s = chip(100);
    setenv("FTENGINE_ATTENTION", "tcgen05", 1);
    for (int i = 0; i < 2; i++) {
        s.capability = i ? 103 : 100;
        closed(opened(&s, NULL, 0, 0, 0, FT_OK), "tcgen05", "");
        assert_true(fake_read().waits > 12);
        holds("good\n");
        closed(opened(&s, NULL, 0, 0, 0, FT_OK), "tcgen05", "");
        assert_true(fake_read().waits < 12); // not checked again
        forget();
    }
}

// A fault of each kind: copies that bring other columns, a kernel that does nothing.
static void a_fault_of_tensor_memory(void **state) {
    fake_settings s = chip(100);
    char told[300];
    setenv("FTENGINE_ATTENTION", "tcgen05", 1);
    for (int lost = 0; lost < 2; lost++) {
        s.map_columns = lost ? 0 : 8;
        if (lost) setenv("SIMT_LOST", "attention_tensor_memory", 1);
        snprintf(told, sizeof told, "%sout of bf16, heads of 64, is %s", left, lost ? "inf off" : "");
        for (int i = 0; i < 2; i++) { // found, then remembered
            closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", told);
            holds("rounding\n");
            s.map_columns = 0;
            unsetenv("SIMT_LOST");
        }
        forget();
    }
    // Of one instance alone: each of them is tried.
    static const char *const instances[] = {"bf16, heads of 64", "fp16, heads of 64", "bf16, heads of 128", "fp16, heads of 128"};
    for (int i = 0; i < 4; i++) {
        char nth[40];
        snprintf(nth, sizeof nth, "attention_tensor_memory:%d", i + 1);
        setenv("SIMT_LOST", nth, 1);
        snprintf(told, sizeof told, "%sout of %s, is inf off", left, instances[i]);
        closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", told);
        unsetenv("SIMT_LOST");
        forget();
    }
}

static void tensor_memory_that_never_ended_or_is_refused(void **state) {
    fake_settings s = chip(100);
    char told[300];
    setenv("FTENGINE_ATTENTION", "tcgen05", 1);
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "tcgen05", "");
    keep("begun\n");
    snprintf(told, sizeof told, "%sits check has begun and never ended (/tmp/ft_check_", left);
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", told);
    holds("begun\n");
    forget();
    snprintf(told, sizeof told, "%sits check failed: ", left);
    closed(opened(&s, "cuTensorMapEncodeTiled", 2, 1, UNKNOWN_ERROR, FT_OK), "mma.sync", told);
    holds("its check failed: ");
    forget();
    closed(opened(&s, "cuMemAlloc_v2", 1, 1, FT_CU_OUT_OF_MEMORY, FT_OK), "mma.sync", told); // says nothing of the path
    holds("\n");
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "tcgen05", "");
    forget();
    opened(&s, "cuStreamSynchronize", 3, 3, UNKNOWN_ERROR, FT_FAILED);
    assert_non_null(strstr(ft_error_hint(0), "tensor memory (tcgen05)"));
    ft_error_clear();
    closed(opened(&s, NULL, 0, 0, 0, FT_OK), "mma.sync", told);
    forget();
}

// Who does not ask is not checked, and has mma.sync; who asks in vain hears of it, on any chip and of kernels without that code.
static void who_has_no_tensor_memory(void **state) {
    char path[300], text[300], told[300], module12[4096];
    const char *module = getenv("FTENGINE_CUDA_MODULE");
    snprintf(module12, sizeof module12, "%.*s12.so", (int)(strlen(module) - strlen(".so")), module);
    static const struct {
        const char *asked, *told;
        size_t capability;
        bool module12; // kernels without that code
    } cases[] = {{NULL, "", 100, false},
                 {"auto", "", 100, false},
                 {"mma", "", 100, false},
                 {"tcgen05", "compute capability 10.0 and 10.3 have it, this is 8.0", 80, false},
                 {"tcgen05", "compute capability 10.0 and 10.3 have it, this is 9.0", 90, false},
                 {"tcgen05", "compute capability 10.0 and 10.3 have it, this is 12.0", 120, false},
                 {"tcgen05", "these kernels (emulated sm_90a) have no code for it, CUDA 13 builds it for 100f", 100, true},
                 {"tcgen05", "these kernels (emulated sm_90a) have no code for it, CUDA 13 builds it for 100f", 103, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fake_settings s = chip(100);
        s.map_columns = 8; // nobody would pass
        s.capability = cases[i].capability;
        if (cases[i].asked != NULL) setenv("FTENGINE_ATTENTION", cases[i].asked, 1);
        else unsetenv("FTENGINE_ATTENTION");
        if (cases[i].module12) setenv("FTENGINE_CUDA_MODULE", module12, 1);
        snprintf(told, sizeof told, "%s%s", cases[i].told[0] != '\0' ? left : "", cases[i].told);
        closed(opened(&s, NULL, 0, 0, 0, FT_OK), cases[i].asked != NULL && strcmp(cases[i].asked, "auto") == 0 ? "auto" : "mma.sync", told);
        assert_false(verdict(path, text));
    }
    unsetenv("FTENGINE_ATTENTION");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensor_memory_that_passes),
        cmocka_unit_test(a_fault_of_tensor_memory),
        cmocka_unit_test(tensor_memory_that_never_ended_or_is_refused),
        cmocka_unit_test(who_has_no_tensor_memory),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
