// Does the emulator catch what it is there to catch? Every kernel of faults.cu runs right without its fault, in all
// orders of threads, and is caught with it: by a wrong or missing number, by the emulator, or by a sanitizer.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/emulator/pieces/faults.h"
#include "tests/emulator/simt/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
enum { ADDRESS_SANITIZER = 1, THREAD_SANITIZER = 0 };
#elif defined(__SANITIZE_THREAD__)
enum { ADDRESS_SANITIZER = 0, THREAD_SANITIZER = 1 };
#else
enum { ADDRESS_SANITIZER = 0, THREAD_SANITIZER = 0 };
#endif

static bool right(const char *name, bool planted) {
    float outputs[FAULT_OUTPUTS], want[FAULT_OUTPUTS];
    ft_status status = fault_run(name, planted, outputs, want);
    assert_int_not_equal(status, FT_INVALID);
    return status == FT_OK && memcmp(outputs, want, sizeof want) == 0; // a NaN is not equal either
}

static void right_without_the_fault(const char *name) {
    for (int order = 0; order < SIMT_ORDERS; order++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            simt_set_order((simt_order)order, seed);
            if (!right(name, false)) fail_msg("%s without its fault, order %d: %s", name, order, simt_fault());
        }
}

// A fault that makes numbers wrong in one order at least. Its races would end a test under ThreadSanitizer.
static void wrong_in_some_order(const char *name) {
    right_without_the_fault(name);
    if (THREAD_SANITIZER) return;
    int wrong = 0;
    for (int order = 0; order < SIMT_ORDERS; order++) {
        simt_set_order((simt_order)order, 1);
        wrong += !right(name, true);
    }
    assert_int_not_equal(wrong, 0);
}

static void test_missing_barrier(void **state) { wrong_in_some_order("missing_barrier"); }
static void test_early_refill(void **state) { wrong_in_some_order("early_refill"); }
static void test_uninitialised_read(void **state) { wrong_in_some_order("uninitialised_read"); }
static void test_copy_without_wait(void **state) { wrong_in_some_order("copy_without_wait"); }

// A fault that the emulator names itself, in every order; and launches go on working.
static void named(const char *name, const char *words) {
    right_without_the_fault(name);
    simt_expect_fault(true);
    for (int order = 0; order < SIMT_ORDERS; order++) {
        float outputs[FAULT_OUTPUTS], want[FAULT_OUTPUTS];
        simt_set_order((simt_order)order, 2);
        simt_fault_clear();
        ft_error_clear();
        assert_int_equal(fault_run(name, true, outputs, want), FT_FAILED);
        if (strstr(simt_fault(), words) == NULL) fail_msg("'%s' should say '%s'", simt_fault(), words);
        assert_non_null(strstr(simt_fault(), name));       // the kernel
        assert_non_null(strstr(ft_error_message(), words)); // and whoever launched it hears of it
        assert_string_equal(ft_error_where(), name);
        assert_true(right(name, false));
    }
    simt_expect_fault(false);
    simt_fault_clear();
    ft_error_clear();
}

static void test_divergent_barrier(void **state) { named("divergent_barrier", "__syncthreads"); }
static void test_shuffle_of_absent_lanes(void **state) { named("shuffle_of_absent_lanes", "lanes ffffffff"); }

// Overruns end the process under AddressSanitizer.
static void overrun(const char *name, const char *words) {
    if (!ADDRESS_SANITIZER) {
        named(name, words);
        return;
    }
    right_without_the_fault(name);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL) _exit(0);
        _exit(right(name, true) ? 0 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}

static void test_shared_overrun(void **state) { overrun("shared_overrun", "past the end of a shared array"); }
static void test_dynamic_overrun(void **state) { overrun("dynamic_overrun", "past the end of its dynamic shared memory"); }

// What only ThreadSanitizer sees, in a program that is compiled for it in every build.
static void run_program(const char *name, const char *variant, int *exit_code, bool *race) {
    char command[1024], line[1024];
    snprintf(command, sizeof command, "'%s' %s %s 2>&1", FT_FAULTS_PROGRAM, name, variant);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    *race = false;
    while (fgets(line, sizeof line, output) != NULL)
        *race |= strstr(line, "ThreadSanitizer: data race") != NULL;
    int status = pclose(output);
    *exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void race(const char *name) {
    if (!FT_FAULTS_SEES_RACES) skip(); // not in this build
    int code;
    bool seen;
    run_program(name, "good", &code, &seen);
    assert_int_equal(code, 0);
    assert_false(seen);
    run_program(name, "planted", &code, &seen);
    assert_int_not_equal(code, 0);
    assert_true(seen);
}

static void test_race_between_blocks(void **state) { race("race_between_blocks"); }
static void test_shuffle_for_syncwarp(void **state) { race("shuffle_for_syncwarp"); }
static void test_races_of_missing_barriers(void **state) {
    race("missing_barrier");
    race("early_refill");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_barrier),
        cmocka_unit_test(test_early_refill),
        cmocka_unit_test(test_uninitialised_read),
        cmocka_unit_test(test_copy_without_wait),
        cmocka_unit_test(test_divergent_barrier),
        cmocka_unit_test(test_shuffle_of_absent_lanes),
        cmocka_unit_test(test_shared_overrun),
        cmocka_unit_test(test_dynamic_overrun),
        cmocka_unit_test(test_race_between_blocks),
        cmocka_unit_test(test_shuffle_for_syncwarp),
        cmocka_unit_test(test_races_of_missing_barriers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
