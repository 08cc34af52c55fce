// Which device a run takes, when it waits, and what it says when there is none.
// ctest: tsan=run driver=fake
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "engine/memory/process.h"
#include "engine/train/room/admission.h"
#include "kernels/devices/devices.h"
#include "kernels/ops/device.h"
#include "tests/emulator/driver/fake_device.h"

#define GIB ((size_t)1 << 30)

static char scratch[64];
static int make_scratch(void **state) {
    snprintf(scratch, sizeof scratch, "/tmp/ft_admission_XXXXXX");
    ft_log_set_level(FT_LOG_SILENT);
    return mkdtemp(scratch) == NULL || setenv("FTENGINE_LEDGER_DIR", scratch, 1) != 0;
}
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

// A CPU with much memory, two accelerators, and one that cannot train. Ledgers of a test are its own.
enum { CPU, SMALL, LARGE, IDLE, DEVICES };
static void make_devices(const char *test, ft_candidate out[DEVICES]) {
    static const char *const names[] = {"cpu", "cuda:0", "cuda:1", "cuda:2"};
    static const size_t capacity[] = {64, 16, 24, 80};
    for (int i = 0; i < DEVICES; i++) {
        out[i] = (ft_candidate){.accelerator = i != CPU, .trains = i != IDLE, .capacity = capacity[i] * GIB};
        snprintf(out[i].name, sizeof out[i].name, "%s", names[i]);
        snprintf(out[i].ledger, sizeof out[i].ledger, "%s-%d", test, i);
    }
}

static int choose(size_t bytes, size_t min_free, size_t cpu, size_t small, size_t large) {
    ft_candidate devices[DEVICES];
    make_devices("choose", devices);
    size_t unused[] = {cpu * GIB, small * GIB, large * GIB, 80 * GIB};
    return ft_admission_choose(DEVICES, devices, unused,
                               &(ft_admission_request){.bytes = bytes * GIB, .min_free = min_free * GIB});
}

static void the_best_is_chosen(void **test) {
    assert_int_equal(choose(8, 0, 64, 16, 24), LARGE); // most free, an accelerator before the CPU
    assert_int_equal(choose(8, 0, 64, 16, 10), SMALL);
    assert_int_equal(choose(8, 0, 64, 16, 16), SMALL); // equal: the first
    assert_int_equal(choose(8, 12, 64, 11, 12), LARGE);
    assert_int_equal(choose(20, 0, 64, 16, 19), CPU);
    assert_int_equal(choose(65, 0, 64, 16, 24), -1); // the one that could hold it does not train
    assert_int_equal(choose(1, 65, 64, 16, 24), -1);
}

static ft_status enter(const char *test, const ft_admission_request *request, ft_ledger **reservation, int *chosen) {
    ft_candidate devices[DEVICES];
    make_devices(test, devices);
    return ft_admission_enter(DEVICES, devices, request, reservation, chosen);
}

static void runs_spread_over_the_devices(void **test) {
    static const int expected[] = {LARGE, SMALL, LARGE, CPU, CPU};
    ft_ledger *in[5], *late;
    int chosen;
    for (int i = 0; i < 5; i++) {
        ft_admission_request request = {.bytes = 10 * GIB};
        assert_int_equal(enter("spread", &request, &in[i], &chosen), FT_OK);
        assert_non_null(in[i]);
        assert_int_equal(chosen, expected[i]);
    }
    // 6 + 4 GiB are left on the accelerators, 44 on the CPU.
    assert_int_equal(enter("spread", &(ft_admission_request){.bytes = 50 * GIB}, &late, &chosen), FT_NO_DEVICE);
    assert_null(late);
    assert_non_null(strstr(ft_error_message(), "44.00GiB free of 64.00GiB"));
    assert_non_null(strstr(ft_error_message(), "reserved 10.00GiB"));
    long long limit = 0; // of a smaller run, beside what this process holds already
    assert_int_equal(sscanf(ft_error_hint(1), "memory.limit=%lld", &limit), 1);
    assert_true(limit < (long long)(44 * GIB) && limit > (long long)(43 * GIB));
    ft_ledger_close(in[1]);
    assert_int_equal(enter("spread", &(ft_admission_request){.bytes = 16 * GIB}, &late, &chosen), FT_OK);
    assert_int_equal(chosen, SMALL);
    ft_ledger_close(late);
    for (int i = 0; i < 5; i++)
        if (i != 1) ft_ledger_close(in[i]);
}

// Who waits does not take the CPU because the accelerators are busy: their time comes.
static void a_wait_is_for_an_accelerator(void **test) {
    ft_ledger *a, *b, *late, *none;
    int chosen;
    const ft_admission_request request = {.bytes = 10 * GIB, .wait = true, .timeout = 0.2, .interval = 0.05};
    assert_int_equal(enter("wait", &request, &a, &chosen), FT_OK);
    assert_int_equal(enter("wait", &(ft_admission_request){.bytes = 14 * GIB}, &b, &chosen), FT_OK);
    assert_int_equal(chosen, SMALL); // 16 free, the other has 14
    assert_int_equal(enter("wait", &(ft_admission_request){.bytes = 14 * GIB}, &late, &chosen), FT_OK);
    assert_int_equal(chosen, LARGE);
    assert_int_equal(enter("wait", &request, &none, &chosen), FT_NO_DEVICE);
    assert_string_equal(ft_error_where(), "device.wait_timeout");
    ft_ledger_close(late);
    assert_int_equal(enter("wait", &request, &late, &chosen), FT_OK);
    assert_int_equal(chosen, LARGE);
    ft_ledger_close(late);
    // What only the CPU can ever hold does not wait for the others.
    assert_int_equal(enter("wait", &(ft_admission_request){.bytes = 30 * GIB, .wait = true}, &late, &chosen), FT_OK);
    assert_int_equal(chosen, CPU);
    ft_ledger_close(late);
    ft_ledger_close(b);
    ft_ledger_close(a);
}

static void what_can_never_be_is_said_at_once(void **test) {
    ft_ledger *in;
    int chosen;
    assert_int_equal(enter("never", &(ft_admission_request){.bytes = 65 * GIB, .wait = true}, &in, &chosen),
                     FT_NO_MEMORY);
    assert_non_null(strstr(ft_error_hint(0), "memory.limit="));
    assert_int_equal(
        enter("never", &(ft_admission_request){.bytes = GIB, .min_free = 65 * GIB, .wait = true}, &in, &chosen),
        FT_NO_DEVICE);
    assert_string_equal(ft_error_where(), "device.min_free_memory");
    ft_candidate idle[DEVICES];
    make_devices("never", idle);
    assert_int_equal(ft_admission_enter(1, &idle[IDLE], &(ft_admission_request){.bytes = 1}, &in, &chosen),
                     FT_NO_DEVICE);
}

// The CPU: no more than the machine can give, less what was promised and not taken.
static void the_cpu_is_as_large_as_it_is(void **test) {
    ft_candidate cpu;
    ft_ledger_state state;
    assert_int_equal(ft_candidate_cpu(&cpu), FT_OK);
    assert_int_equal(cpu.capacity, ft_cpu_total_bytes());
    size_t available = ft_cpu_available_bytes();
    assert_true(available > 0 && available <= cpu.capacity);
    const size_t held = ft_process_held(getpid());
    const ft_reservation other = {.pid = getppid(), .started = ft_process_started(getppid()) + 1, .bytes = 1 << 20},
                         mine = {.pid = getpid(), .started = ft_process_started(getpid()), .bytes = held / 2};
    const size_t slack = 256 << 20; // other programs go on
    assert_true(cpu.unused(NULL, NULL, 0) + slack > available);
    // A pid that means another process now holds nothing of what was reserved.
    const ft_reservation large = {.pid = other.pid, .started = other.started, .bytes = available / 2};
    assert_true(cpu.unused(NULL, &large, 1) < available / 2 + slack);
    assert_true(cpu.unused(NULL, &mine, 1) + slack > available); // taken already
    const ft_reservation endless = {.pid = other.pid, .started = other.started, .bytes = SIZE_MAX / 2};
    assert_int_equal(cpu.unused(NULL, &endless, 1), 0);
    setenv("FTENGINE_LEDGER_CAPACITY", "5MiB", 1);
    assert_int_equal(ft_candidate_cpu(&cpu), FT_OK);
    assert_int_equal(cpu.capacity, 5 << 20);
    assert_int_equal(ft_candidate_read(&cpu, &state), FT_OK);
    assert_int_equal(state.free, 5 << 20);
    setenv("FTENGINE_LEDGER_CAPACITY", "50%", 1);
    assert_int_equal(ft_candidate_cpu(&cpu), FT_OK);
    assert_true(cpu.capacity > ft_cpu_total_bytes() / 2 - 10 && cpu.capacity <= ft_cpu_total_bytes() / 2 + 10);
    setenv("FTENGINE_LEDGER_CAPACITY", "much", 1);
    assert_int_equal(ft_candidate_cpu(&cpu), FT_INVALID);
    unsetenv("FTENGINE_LEDGER_CAPACITY");
}

// A CUDA device has a ledger of its own, and its driver sees what no ledger does: another program's buffers.
static void a_cuda_device_says_what_is_left(void **test) {
    enum { OTHERS = 600 << 20 };
    ft_candidate c;
    ft_ledger *in;
    ft_ledger_state state;
    void *buffer;
    int chosen;
    load_fake(FT_FAKE_DRIVER);
    fake_settings settings = fake.defaults();
    settings.memory = GIB;
    open_gpu(&settings);
    assert_int_equal(ft_candidate_of(gpu, &c), FT_OK);
    assert_string_equal(c.name, "cuda:0");
    assert_non_null(strstr(c.ledger, "cuda-fa0b0000-"));
    assert_true(c.accelerator && c.trains && c.capacity == GIB);
    const size_t unused = ft_device_free_bytes(gpu);
    assert_true(unused > GIB / 2 && unused <= GIB);
    assert_int_equal(ft_candidate_read(&c, &state), FT_OK);
    assert_int_equal(state.free, unused);
    good(gpu->functions->buffer_alloc(gpu, OTHERS, &buffer));
    const ft_admission_request half = {.bytes = GIB / 2};
    assert_int_equal(ft_admission_enter(1, &c, &half, &in, &chosen), FT_NO_DEVICE);
    assert_non_null(strstr(ft_error_message(), "other programs hold the rest"));
    gpu->functions->buffer_free(gpu, buffer, OTHERS);
    assert_int_equal(ft_admission_enter(1, &c, &half, &in, &chosen), FT_OK);
    assert_int_equal(ft_candidate_read(&c, &state), FT_OK);
    assert_int_equal(state.reserved, GIB / 2); // not taken yet, and still not to be had
    assert_int_equal(state.free, GIB / 2 < unused ? GIB / 2 : unused);
    ft_ledger_close(in);
    ft_device_close(gpu);
    ft_cuda_driver_close(driver);
    nothing_left();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_is_chosen),           cmocka_unit_test(runs_spread_over_the_devices),
        cmocka_unit_test(a_wait_is_for_an_accelerator), cmocka_unit_test(what_can_never_be_is_said_at_once),
        cmocka_unit_test(the_cpu_is_as_large_as_it_is), cmocka_unit_test(a_cuda_device_says_what_is_left),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
