// What a plan says of a CUDA device and its host, and what a run then does: memory left to graphs, and memory of the host that
// memory.offload pins, which is reserved in the CPU's ledger beside everybody else's.
// ctest: tsan=leave
// ctest: wrap=ft_steps_queue,ft_cpu_available_bytes
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/log.h"
#include "engine/memory/process.h"
#include "engine/plan/plan.h"
#include "engine/train/room/admission.h"
#include "engine/train/room/device_graphs.h"
#include "engine/train/step/steps.h"
#include "engine/train/train.h"
#include "engine/train/trainer.h"
#include "tests/emulator/driver/fake_driver.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What the host has left; 0: nobody knows.
static size_t host_bytes;
size_t __wrap_ft_cpu_available_bytes(void);
size_t __wrap_ft_cpu_available_bytes(void) { return host_bytes; }

// What the CPU's ledger holds while steps are queued.
static int looks;
static ft_ledger_state seen;
ft_status __real_ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run);
ft_status __wrap_ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run);
ft_status __wrap_ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run) {
    ft_candidate host;
    if (looks++ == 0 && (ft_candidate_cpu(&host) != FT_OK || ft_candidate_read(&host, &seen) != FT_OK)) fail_msg("%s", ft_error_message());
    return __real_ft_steps_queue(step, climb, run);
}

static char scratch[64];
static int run_number, others; // reservations of the host that are not the run's
enum { MOST_OPTIONS = 24 };

static void load(const char *const *options, ft_config *config) {
    const char *file = FT_TEST_VECTORS "/trainer/follow.ini";
    char output[160];
    snprintf(output, sizeof output, "output.dir=%s/run%d", scratch, run_number);
    const char *all[MOST_OPTIONS] = {output, "device.name=cuda", "data.cache_dir=none", "train.micro_batch=5", "train.max_steps=2"};
    int count = 5;
    for (; *options != NULL && count < MOST_OPTIONS; options++) all[count++] = *options;
    if (ft_config_load(config, 1, &file, count, all) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
}

static ft_plan plan_of(const char *const *options) {
    ft_config config;
    ft_plan plan;
    load(options, &config);
    if (ft_plan_run(&config, &(ft_plan_request){.budget_bytes = 0}, &plan) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    ft_config_free(&config);
    return plan;
}

static ft_status run(const char *const *options) {
    ft_config config;
    looks = 0;
    seen = (ft_ledger_state){.count = -1};
    run_number++;
    load(options, &config);
    ft_status status = ft_train(&config, NULL);
    ft_config_free(&config);
    fake_books b = fake_read();
    assert_int_equal(b.misuses, 0);
    assert_int_equal(b.contexts + b.streams + b.events + b.graphs + b.buffers + b.pinned + b.reservations + b.handles + b.mappings, 0);
    ft_candidate host;
    ft_ledger_state left;
    assert_int_equal(ft_candidate_cpu(&host), FT_OK);
    assert_int_equal(ft_candidate_read(&host, &left), FT_OK);
    assert_int_equal(left.count, others);
    return status;
}

static void reset_driver(size_t memory) {
    fake_settings s = fake_defaults();
    s.version = 13000, s.memory = memory, s.schedule = FAKE_LAZY;
    fake_reset(&s);
}

static const char *const on_host[] = {"memory.offload=optimizer", NULL};

// A device that has the planned bytes and what graphs are left takes the run; one with a page less does not, and the plan says so
// of both. Without graphs both are large enough.
static void test_graphs(void **state) {
    enum { PAGE = 2 << 20 };
    static const char *const graphs[] = {"device.graphs=on", NULL}, *const none[] = {"device.graphs=off", NULL};
    host_bytes = 0;
    reset_driver((size_t)1 << 30);
    const size_t peak = plan_of(graphs).memory.peak_reserved;
    for (int less = 0; less < 2; less++) {
        const size_t memory = peak + FT_STEP_GRAPHS_BYTES - (less ? PAGE : 0);
        reset_driver(memory);
        ft_plan plan = plan_of(graphs);
        assert_int_equal(plan.budget_bytes, memory - FT_STEP_GRAPHS_BYTES);
        assert_int_equal(plan.graph_bytes, FT_STEP_GRAPHS_BYTES);
        assert_int_equal(plan.fits, !less);
        assert_int_equal(run(graphs), less ? FT_NO_MEMORY : FT_OK);
        ft_error_clear();
        plan = plan_of(none);
        assert_true(plan.fits && plan.budget_bytes == memory && plan.graph_bytes == 0);
    }
}

// A host with a byte less than is pinned: the plan and the run say the same.
static void test_host_too_small(void **state) {
    reset_driver((size_t)1 << 30);
    host_bytes = 0;
    ft_plan plan = plan_of(on_host);
    const size_t pinned = plan.memory.peak_pinned;
    assert_true(plan.fits && plan.offloads && pinned > 0);
    for (int less = 0; less < 2; less++) {
        host_bytes = pinned - (less ? 1 : 0);
        plan = plan_of(on_host);
        assert_int_equal(plan.fits, !less);
        assert_int_equal(plan.host_short, less);
        if (less) assert_int_equal(run(on_host), FT_NO_MEMORY);
        ft_error_clear();
    }
    host_bytes = 1; // who does not ask for it is not refused
    assert_true(plan_of((const char *const[]){"memory.offload=none", NULL}).fits);
    assert_true(plan_of((const char *const[]){"memory.offload=auto", NULL}).fits);
}

// A host that has the memory, and whose ledger may not promise it to a run beside what the program holds.
static void test_ledger_too_small(void **state) {
    reset_driver((size_t)1 << 30);
    host_bytes = 0;
    setenv("FTENGINE_LEDGER_CAPACITY", "4GiB", 1);
    const ft_plan roomy = plan_of(on_host);
    const size_t more = 2 * roomy.memory.peak_reserved; // for the ledger of its device has that capacity too
    char *ballast = malloc(more), capacity[24];
    assert_non_null(ballast);
    memset(ballast, 1, more);
    assert_true(roomy.fits && roomy.memory.peak_pinned < more && ft_process_resident(getpid()) > more);
    snprintf(capacity, sizeof capacity, "%zu", more);
    setenv("FTENGINE_LEDGER_CAPACITY", capacity, 1);
    for (int known = 0; known < 2; known++) {
        host_bytes = known ? (size_t)8 << 30 : 0;
        const ft_plan plan = plan_of(on_host);
        assert_true(!plan.fits && plan.host_short && plan.host_bytes < plan.memory.peak_pinned);
        assert_int_equal(run(on_host), FT_NO_MEMORY);
        assert_int_equal(looks, 0);
        ft_error_clear();
    }
    static const char *const none[] = {"memory.offload=none", NULL};
    assert_true(plan_of(none).fits); // its device's memory
    assert_int_equal(run(none), FT_NO_MEMORY); // the process has no room, whatever is pinned
    ft_error_clear();
    free(ballast);
    setenv("FTENGINE_LEDGER_CAPACITY", "4GiB", 1);
    assert_int_equal(run(none), FT_OK);
    unsetenv("FTENGINE_LEDGER_CAPACITY");
}

// The run's entry stands in the CPU's ledger as long as it lives; beside what others have reserved it waits, or ends with what
// there is, and nothing is left on its own device either.
static void test_reserved_on_the_host(void **state) {
    enum { GIB = 1 << 30, ROOM = 64 << 20 };
    reset_driver(GIB);
    host_bytes = (size_t)8 * GIB;
    setenv("FTENGINE_LEDGER_CAPACITY", "4GiB", 1);
    const size_t pinned = plan_of(on_host).memory.peak_pinned;
    assert_int_equal(run(on_host), FT_OK);
    assert_true(looks > 0 && seen.count == 1 && seen.reservations[0].pid == getpid());
    assert_true(seen.reserved >= pinned && seen.reserved < pinned + ft_process_resident(getpid()) + ROOM);
    assert_int_equal(run((const char *const[]){"memory.offload=none", NULL}), FT_OK);
    assert_true(seen.count == 1 && seen.reserved > 0 && seen.reserved < pinned + ft_process_resident(getpid()) + ROOM); // the process

    ft_candidate host;
    ft_ledger *other;
    int chosen;
    assert_int_equal(ft_candidate_cpu(&host), FT_OK);
    host.unused = NULL; // somebody else's process, which this one is not
    const ft_admission_request most = {.bytes = host.capacity - pinned}; // beside which the pinned bytes fit, and the program does not
    assert_int_equal(ft_admission_enter(1, &host, &most, &other, &chosen), FT_OK);
    others = 1;
    assert_int_equal(run(on_host), FT_NO_DEVICE);
    assert_non_null(strstr(ft_error_message(), "no room on the device: cpu has"));
    assert_non_null(strstr(ft_error_hint(1), "bytes of the host, with what is pinned there"));
    assert_int_equal(looks, 0);
    ft_error_clear();
    static const char *const waits[] = {"memory.offload=optimizer", "device.wait=true", "device.wait_timeout=0.2s", "device.check_interval=0.1s", NULL};
    assert_int_equal(run(waits), FT_NO_DEVICE);
    assert_string_equal(ft_error_where(), "device.wait_timeout");
    ft_error_clear();
    ft_ledger_close(other);
    others = 0;
    assert_int_equal(run((const char *const[]){"memory.offload=none", NULL}), FT_OK); // its own device was given back
    assert_int_equal(run(waits), FT_OK);
    assert_int_equal(seen.count, 1);

    setenv("FTENGINE_LEDGER_CAPACITY", "1MiB", 1); // of both devices
    assert_int_equal(run(on_host), FT_NO_MEMORY);
    ft_error_clear();
    unsetenv("FTENGINE_LEDGER_CAPACITY");
}

static int set_up(void **state) {
    ft_log_set_level(FT_LOG_SILENT);
    snprintf(scratch, sizeof scratch, "/tmp/test_host_memory_XXXXXX");
    if (mkdtemp(scratch) == NULL) return 1;
    char ledgers[96];
    snprintf(ledgers, sizeof ledgers, "%s/ledgers", scratch);
    return setenv("FTENGINE_LEDGER_DIR", ledgers, 1);
}
static int tear_down(void **state) { return ft_remove_tree(scratch) == FT_OK ? 0 : 1; }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_graphs), cmocka_unit_test(test_host_too_small), cmocka_unit_test(test_ledger_too_small),
                                       cmocka_unit_test(test_reserved_on_the_host)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
