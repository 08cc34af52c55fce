// memory.offload = optimizer on a CUDA device: AdamW's state in memory of the host gives the bits of a run that keeps it on the
// device, in any order of the queues and across resumes; what orders the streams is needed; and memory that is refused, the host's
// too, ends in one error or in the same bits.
// ctest: tsan=leave asan_part=0
// ctest: wrap=ft_steps_queue,ft_cuda_host_alloc,ft_cuda_range_commit,ft_cpu_available_bytes,ft_offload_update,ft_cuda_stream_wait
// ctest: wrap=ft_cuda_event_record
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/emulator/offload/runs.h"

// ---- what is planted (--wrap, see CMakeLists.txt) -----------------------------------------------------------------------

static enum {
    NO_FAULT,
    STATE_IS_THERE, // the computing stream waits for what comes up
    SLOT_IS_FREE,   // the copying stream waits until a slot has gone back
    MEMORY_IS_FREE, // and until what was queued in front of the update has run
} fault;
static bool in_update;
static int updates, recordings; // updates through the host; in this one

ft_status __real_ft_offload_update(const ft_store *store, const ft_adamw_args *adamw);
ft_status __wrap_ft_offload_update(const ft_store *store, const ft_adamw_args *adamw);
ft_status __wrap_ft_offload_update(const ft_store *store, const ft_adamw_args *adamw) {
    updates += strstr(ft_memory_device(store->owner)->description, ", planned") == NULL;
    in_update = true;
    recordings = 0;
    ft_status status = __real_ft_offload_update(store, adamw);
    in_update = false;
    return status;
}

ft_status __real_ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event);
ft_status __wrap_ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event);
ft_status __wrap_ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event) {
    if (in_update && fault == STATE_IS_THERE && stream == FT_STREAM_COMPUTE) return FT_OK;
    if (in_update && fault == SLOT_IS_FREE && stream == FT_STREAM_COPY) return FT_OK;
    return __real_ft_cuda_stream_wait(device, stream, event);
}

ft_status __real_ft_cuda_event_record(ft_device *device, ft_event *event, ft_stream_kind stream);
ft_status __wrap_ft_cuda_event_record(ft_device *device, ft_event *event, ft_stream_kind stream);
ft_status __wrap_ft_cuda_event_record(ft_device *device, ft_event *event, ft_stream_kind stream) {
    if (in_update && recordings++ < FT_OFFLOAD_SLOTS && fault == MEMORY_IS_FREE) return FT_OK;
    return __real_ft_cuda_event_record(device, event, stream);
}

static const char *const common[] = {"train.micro_batch=5", "model.hidden_dropout=0.1", "train.max_steps=4", "train.weight_decay=0.1",
                                     "output.save_steps=2", NULL};
static const run_base base = {FT_TEST_VECTORS "/trainer/follow.ini", common, "checkpoints/step-00000004/state.safetensors"};
static const char *const on_device[][3] = {{"train.precision=fp32", NULL}, {"train.precision=bf16", "train.micro_batch=8", NULL}};
static const char *const on_host[][4] = { // in fp32 with gradients that are kept, in bf16 with the arena's
    {"train.precision=fp32", "memory.offload=optimizer", NULL},
    {"train.precision=bf16", "memory.offload=optimizer", "train.micro_batch=8", NULL}};
enum { PRECISIONS = 2 };
static outcome reference[PRECISIONS];

static int set_up(void **state) {
    ft_log_set_level(FT_LOG_SILENT);
    snprintf(scratch, sizeof scratch, "/tmp/test_offload_XXXXXX");
    if (mkdtemp(scratch) == NULL) return 1;
    for (int p = 0; p < PRECISIONS; p++) {
        reference[p] = run(&base, FAKE_EAGER, 0, on_device[p]);
        if (reference[p].status != FT_OK) return print_error("%s\n", ft_error_message()), 1;
    }
    return 0;
}

static int tear_down(void **state) { return ft_remove_tree(scratch) == FT_OK ? 0 : 1; }

// ---- the same bits ------------------------------------------------------------------------------------------------------

static void test_in_any_order(void **state) {
    for (int p = 0; p < PRECISIONS; p++)
        for (int schedule = 0; schedule < FAKE_SCHEDULES; schedule++)
            for (uint64_t seed = 0; seed < (schedule == FAKE_RANDOM ? 2 : 1); seed++) {
                if (p == 0 && schedule != FAKE_LAZY && schedule != FAKE_RANDOM) continue;
                updates = 0;
                outcome o = run(&base, (fake_schedule)schedule, seed, on_host[p]);
                if (o.status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
                if (!same(&o, &reference[p])) fail_msg("schedule %d, seed %d: another run", schedule, (int)seed);
                assert_int_equal(updates, 4);
                assert_int_equal(o.books.misuses, 0);
                assert_int_equal(left(&o.books), 0);
            }
}

// The rest of a step may come from graphs: the update's copies run beside them.
static void test_beside_graphs(void **state) {
    static const char *const options[] = {"train.precision=bf16", "memory.offload=optimizer", "train.micro_batch=8", "device.graphs=on",
                                          NULL};
    updates = 0;
    outcome o = run(&base, FAKE_RANDOM, 1, options);
    if (o.status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    assert_true(same(&o, &reference[1]));
    assert_int_equal(updates, 4);
    assert_int_equal(o.books.misuses, 0);
    assert_int_equal(left(&o.books), 0);
}

// Stopped where the state lies in one place, and continued where it lies in the other.
static void test_resumed_elsewhere(void **state) {
    for (int p = 0; p < PRECISIONS; p++)
        for (int first = 0; first < 2; first++) {
            reset_driver(FAKE_LAZY, 0);
            steps_to_stop = 3; // the first two are on their way
            outcome o = run_in(&base, NULL, first ? on_host[p] : on_device[p]);
            assert_int_equal(steps_to_stop, 0);
            assert_int_equal(o.status, FT_INTERRUPTED);
            o = run_in(&base, o.dir, first ? on_device[p] : on_host[p]);
            if (o.status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
            assert_true(same(&o, &reference[p]));
            assert_int_equal(o.books.misuses, 0);
        }
}

// Under some order of the queues another run comes out, or one that does what the driver forbids.
static void caught(int planted) {
    bool seen = false;
    for (int schedule = FAKE_SCHEDULES - 1; schedule >= 0 && !seen; schedule--) {
        fault = planted;
        outcome o = run(&base, (fake_schedule)schedule, 1, on_host[1]);
        fault = NO_FAULT;
        seen = !same(&o, &reference[1]) || o.books.misuses > 0;
    }
    assert_true(seen);
}
static void test_update_before_the_state(void **state) { caught(STATE_IS_THERE); }
static void test_slot_filled_too_early(void **state) { caught(SLOT_IS_FREE); }
static void test_arena_filled_too_early(void **state) { caught(MEMORY_IS_FREE); }

// ---- memory -------------------------------------------------------------------------------------------------------------

// Requests for memory are refused, of the host and of the device, once and from then on: every third of each kind.
static void test_refused_memory(void **state) {
    int completed = 0, failed = 0;
    for (int kind = 0; kind < 4; kind++) {
        of_host = kind % 2 == 1, lasting = kind >= 2;
        bool beyond = false;
        for (refuse_at = 1 + kind % 3; !beyond; refuse_at += 3) {
            reset_driver(FAKE_LAZY, 0);
            requests = 0;
            outcome o = run_in(&base, NULL, on_host[1]);
            if (o.status == FT_OK) assert_true(same(&o, &reference[1]));
            else assert_int_equal(o.status, FT_NO_MEMORY);
            if (o.status != FT_OK && strstr(ft_error_message(), "memory") == NULL) fail_msg("%s", ft_error_message());
            assert_int_equal(o.books.misuses, 0);
            assert_int_equal(left(&o.books), 0);
            *(o.status == FT_OK ? &completed : &failed) += 1;
            beyond = requests < refuse_at; // it took so many, and none was refused
        }
    }
    refuse_at = 0;
    print_message("%d runs completed, %d ended with the error\n", completed, failed);
    assert_true(completed > 4 && failed > 4);
}

// A host that has a byte less than the plan pins: one error before the run, and nothing left behind. What the process itself takes of
// the host is planned too: with some MiB for it the same run goes.
static void test_host_too_small(void **state) {
    outcome o = run(&base, FAKE_LAZY, 0, on_host[0]);
    assert_int_equal(o.status, FT_OK);
    json_t *planned = memory_of(o.dir, "planned");
    const size_t pinned = (size_t)json_integer_value(json_object_get(planned, "host_pinned_bytes"));
    json_decref(planned);
    for (size_t less = 0; less < 2; less++) {
        host_bytes = less ? pinned - 1 : pinned + ((size_t)8 << 20);
        o = run(&base, FAKE_LAZY, 0, on_host[0]);
        assert_int_equal(o.status, less ? FT_NO_MEMORY : FT_OK);
        assert_int_equal(left(&o.books), 0);
    }
    host_bytes = 0;
    assert_string_equal(ft_error_where(), "memory.offload");
    assert_non_null(strstr(ft_error_message(), "pinned memory of the host are needed"));
    assert_int_equal(ft_path_exists(o.dir), 0);
    ft_error_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_any_order),
        cmocka_unit_test(test_beside_graphs),
        cmocka_unit_test(test_resumed_elsewhere),
        cmocka_unit_test(test_update_before_the_state),
        cmocka_unit_test(test_slot_filled_too_early),
        cmocka_unit_test(test_arena_filled_too_early),
        cmocka_unit_test(test_refused_memory),
        cmocka_unit_test(test_host_too_small),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
