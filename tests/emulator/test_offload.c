// memory.offload = optimizer on a CUDA device: AdamW's state in memory of the host gives the bits of a run that keeps it on the
// device, in any order of the queues and across resumes, in exactly the memory that was planned; what orders the streams is
// needed; memory that is refused, the host's too, ends in one error or in the same bits; and autofit takes it only where asked.
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/io/files.h"
#include "engine/io/json.h"
#include "engine/plan/plan.h"
#include "kernels/cuda/device.h"
#include "kernels/log.h"
#include "tests/emulator/fake_driver.h"
#include "tests/engine/tiny_run.h"

// ---- what is planted (--wrap, see CMakeLists.txt) -----------------------------------------------------------------------

static enum {
    NO_FAULT,
    STATE_IS_THERE, // the computing stream waits for what comes up
    SLOT_IS_FREE,   // the copying stream waits until a slot has gone back
    MEMORY_IS_FREE, // and until what was queued in front of the update has run
} fault;
static bool in_update;
static int updates, steps_to_stop, recordings; // updates through the host; steps until a Ctrl-C, 0: none; in this update

ft_status __real_ft_offload_update(const ft_parameters *parameters, const ft_adamw_args *adamw);
ft_status __wrap_ft_offload_update(const ft_parameters *parameters, const ft_adamw_args *adamw);
ft_status __wrap_ft_offload_update(const ft_parameters *parameters, const ft_adamw_args *adamw) {
    updates += strstr(ft_memory_device(parameters->memory)->description, ", planned") == NULL;
    in_update = true;
    recordings = 0;
    ft_status status = __real_ft_offload_update(parameters, adamw);
    in_update = false;
    return status;
}

ft_status __real_ft_steps_queue(ft_trainer *t);
ft_status __wrap_ft_steps_queue(ft_trainer *t);
ft_status __wrap_ft_steps_queue(ft_trainer *t) {
    if (steps_to_stop > 0 && --steps_to_stop == 0) raise(SIGINT);
    fake_forbid_waits(true);
    ft_status status = __real_ft_steps_queue(t);
    fake_forbid_waits(false);
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

// The device, or the host, has no memory for request number refuse_at; lasting: and for none behind it.
static int requests, refuse_at;
static bool of_host, lasting;
static bool refuses(bool host) {
    if (refuse_at == 0 || host != of_host) return false;
    requests++;
    return requests == refuse_at || (lasting && requests > refuse_at);
}

ft_status __real_ft_cuda_host_alloc(ft_device *device, size_t bytes, void **data);
ft_status __wrap_ft_cuda_host_alloc(ft_device *device, size_t bytes, void **data);
ft_status __wrap_ft_cuda_host_alloc(ft_device *device, size_t bytes, void **data) {
    return refuses(true) ? ft_fail_memory(bytes, "pinned memory") : __real_ft_cuda_host_alloc(device, bytes, data);
}
ft_status __real_ft_cuda_range_commit(ft_device *device, void *base, size_t offset, size_t bytes);
ft_status __wrap_ft_cuda_range_commit(ft_device *device, void *base, size_t offset, size_t bytes);
ft_status __wrap_ft_cuda_range_commit(ft_device *device, void *base, size_t offset, size_t bytes) {
    return refuses(false) ? ft_fail_memory(bytes, "a page of the device") : __real_ft_cuda_range_commit(device, base, offset, bytes);
}

// What the host has left; 0: nobody knows, and nothing is refused for it.
static size_t host_bytes;
size_t __wrap_ft_cpu_available_bytes(void);
size_t __wrap_ft_cpu_available_bytes(void) { return host_bytes; }

// ---- one run ------------------------------------------------------------------------------------------------------------

static char scratch[64];
static int run_number;

typedef struct outcome {
    ft_status status;
    char dir[128];
    char model[65], state[65]; // digests of the saved model and of the last checkpoint's tensors; "": there is none
    fake_books books;
} outcome;

static void digest(const char *dir, const char *name, char out[65]) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    out[0] = '\0';
    if (ft_path_exists(path)) assert_int_equal(ft_sha256_file(path, out), FT_OK);
}

static void reset_driver(fake_schedule schedule, uint64_t seed) {
    fake_settings s = fake_defaults();
    s.version = 13000, s.memory = (size_t)1 << 30, s.schedule = schedule, s.seed = seed;
    fake_reset(&s);
}

// In `dir`, NULL: a new directory.
static outcome run_in(const char *dir, const char *const *options) {
    outcome o = {.status = FT_OK};
    char output[160];
    if (dir != NULL) snprintf(o.dir, sizeof o.dir, "%s", dir);
    else snprintf(o.dir, sizeof o.dir, "%s/run%d", scratch, run_number++);
    snprintf(output, sizeof output, "output.dir=%s", o.dir);
    const char *file = FT_TEST_VECTORS "/trainer/follow.ini";
    const char *all[24] = {output, "output.exists=resume", "device.name=cuda", "data.cache_dir=none", "train.micro_batch=5",
                           "model.hidden_dropout=0.1", "train.max_steps=6", "train.weight_decay=0.1", "output.save_steps=3"};
    int count = 9;
    for (; *options != NULL; options++) all[count++] = *options;
    ft_config config;
    if (ft_config_load(&config, 1, &file, count, all) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    o.status = ft_train(&config, NULL);
    ft_config_free(&config);
    digest(o.dir, "model/model.safetensors", o.model);
    digest(o.dir, "checkpoints/step-00000006/state.safetensors", o.state);
    o.books = fake_read();
    return o;
}

static outcome run(fake_schedule schedule, uint64_t seed, const char *const *options) {
    reset_driver(schedule, seed);
    return run_in(NULL, options);
}

static bool same(const outcome *a, const outcome *b) {
    return a->status == b->status && a->state[0] != '\0' && strcmp(a->model, b->model) == 0 && strcmp(a->state, b->state) == 0;
}

static size_t left(const fake_books *b) {
    return b->contexts + b->streams + b->events + b->graphs + b->buffers + b->pinned + b->reservations + b->handles + b->mappings;
}

static const char *const on_device[][2] = {{"train.precision=fp32", NULL}, {"train.precision=bf16", NULL}};
static const char *const on_host[][3] = {{"train.precision=fp32", "memory.offload=optimizer", NULL},
                                         {"train.precision=bf16", "memory.offload=optimizer", NULL}};
enum { PRECISIONS = 2 };
static outcome reference[PRECISIONS];

static int set_up(void **state) {
    ft_log_set_level(FT_LOG_SILENT);
    snprintf(scratch, sizeof scratch, "/tmp/test_offload_XXXXXX");
    if (mkdtemp(scratch) == NULL) return 1;
    for (int p = 0; p < PRECISIONS; p++) {
        reference[p] = run(FAKE_EAGER, 0, on_device[p]);
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
                outcome o = run((fake_schedule)schedule, seed, on_host[p]);
                if (o.status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
                if (!same(&o, &reference[p])) fail_msg("schedule %d, seed %d: another run", schedule, (int)seed);
                assert_int_equal(updates, 6);
                assert_int_equal(o.books.misuses, 0);
                assert_int_equal(left(&o.books), 0);
            }
}

// The rest of a step may come from graphs: the update's copies run beside them.
static void test_beside_graphs(void **state) {
    static const char *const options[] = {"train.precision=bf16", "memory.offload=optimizer", "device.graphs=on", NULL};
    updates = 0;
    outcome o = run(FAKE_RANDOM, 1, options);
    if (o.status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    assert_true(same(&o, &reference[1]));
    assert_int_equal(updates, 6);
    assert_int_equal(o.books.misuses, 0);
    assert_int_equal(left(&o.books), 0);
}

// Stopped where the state lies in one place, and continued where it lies in the other.
static void test_resumed_elsewhere(void **state) {
    for (int p = 0; p < PRECISIONS; p++)
        for (int first = 0; first < 2; first++) {
            reset_driver(FAKE_LAZY, 0);
            steps_to_stop = 5; // two of the first four are on their way
            outcome o = run_in(NULL, first ? on_host[p] : on_device[p]);
            assert_int_equal(steps_to_stop, 0);
            assert_int_equal(o.status, FT_INTERRUPTED);
            o = run_in(o.dir, first ? on_device[p] : on_host[p]);
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
        outcome o = run((fake_schedule)schedule, 1, on_host[1]);
        fault = NO_FAULT;
        seen = !same(&o, &reference[1]) || o.books.misuses > 0;
    }
    assert_true(seen);
}
static void test_update_before_the_state(void **state) { caught(STATE_IS_THERE); }
static void test_slot_filled_too_early(void **state) { caught(SLOT_IS_FREE); }
static void test_arena_filled_too_early(void **state) { caught(MEMORY_IS_FREE); }

// ---- memory -------------------------------------------------------------------------------------------------------------

static json_t *memory_of(const char *dir, const char *key) {
    char path[256];
    json_t *file;
    snprintf(path, sizeof path, "%s/run.json", dir);
    assert_int_equal(ft_json_load(path, &file), FT_OK);
    json_t *memory = json_incref(json_object_get(file, key));
    json_decref(file);
    json_object_del(memory, "outside_allocator_bytes");
    return memory;
}

// Random models and options: a run under exactly what its plan reserves takes exactly that, pinned memory included.
static void test_planned_is_metered(void **state) {
    int on = 0;
    for (uint64_t seed = 1; seed <= 16; seed++) {
        if (seed % 7 >= 5) continue; // families with relative positions
        tiny_run t;
        make_tiny_run(&t, scratch, seed);
        set(&t, "device.name=cuda");
        set(&t, "memory.offload=%s", seed % 4 ? "optimizer" : "none");
        char dir[200];
        snprintf(dir, sizeof dir, "%s/run", t.dir);
        set(&t, "output.dir=%s", dir);
        reset_driver(FAKE_LAZY, seed);
        ft_config config;
        ft_plan plan;
        load_tiny_run(&t, &config);
        if (ft_plan_run(&config, &(ft_plan_request){.budget_bytes = 0}, &plan) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
        ft_config_free(&config);
        set(&t, "memory.limit=%zu", plan.memory.peak_reserved);
        load_tiny_run(&t, &config);
        if (ft_train(&config, NULL) != FT_OK) fail_msg("seed %d: %s (%s)", (int)seed, ft_error_message(), ft_error_where());
        ft_config_free(&config);
        json_t *document = ft_plan_json(&plan), *planned = json_object_get(document, "memory"), *metered = memory_of(dir, "memory");
        json_object_del(planned, "outside_allocator_bytes");
        char *a = ft_json_line(planned), *b = ft_json_line(metered);
        assert_string_equal(a, b);
        assert_true(plan.offloads == (seed % 4 != 0) && plan.memory.peak_pinned > 0);
        on += plan.offloads;
        free(a);
        free(b);
        json_decref(document);
        json_decref(metered);
        fake_books books = fake_read();
        assert_int_equal(books.misuses, 0);
        assert_int_equal(left(&books), 0);
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    assert_true(on > 6);
}

// Requests for memory are refused, of the host and of the device, once and from then on: every third of each kind.
static void test_refused_memory(void **state) {
    int completed = 0, failed = 0;
    for (int kind = 0; kind < 4; kind++) {
        of_host = kind % 2 == 1, lasting = kind >= 2;
        bool beyond = false;
        for (refuse_at = 1 + kind % 3; !beyond; refuse_at += 3) {
            reset_driver(FAKE_LAZY, 0);
            requests = 0;
            outcome o = run_in(NULL, on_host[1]);
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

// A host that has a byte less than the plan pins: one error before the run, and nothing left behind.
static void test_host_too_small(void **state) {
    outcome o = run(FAKE_LAZY, 0, on_host[0]);
    assert_int_equal(o.status, FT_OK);
    json_t *planned = memory_of(o.dir, "planned");
    const size_t pinned = (size_t)json_integer_value(json_object_get(planned, "host_pinned_bytes"));
    json_decref(planned);
    for (size_t less = 0; less < 2; less++) {
        host_bytes = pinned - less;
        o = run(FAKE_LAZY, 0, on_host[0]);
        assert_int_equal(o.status, less ? FT_NO_MEMORY : FT_OK);
        assert_int_equal(left(&o.books), 0);
    }
    host_bytes = 0;
    assert_string_equal(ft_error_where(), "memory.offload");
    assert_non_null(strstr(ft_error_message(), "pinned memory of the host are needed"));
    assert_int_equal(ft_path_exists(o.dir), 0);
    ft_error_clear();
}

// ---- autofit ------------------------------------------------------------------------------------------------------------

static ft_plan plan_of(const char *offload, size_t budget) {
    char option[48];
    snprintf(option, sizeof option, "memory.offload=%s", offload);
    const char *options[] = {"model.path=bert-base-uncased", "model.init=random", "data.max_length=32", "device.name=cuda",
                             "train.precision=bf16", "train.batch_size=16", option};
    ft_config config;
    ft_plan plan;
    assert_int_equal(ft_config_load(&config, 0, NULL, sizeof options / sizeof options[0], options), FT_OK);
    const ft_plan_request request = {.budget_bytes = budget, .labels = 2};
    if (ft_plan_run(&config, &request, &plan) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    ft_config_free(&config);
    return plan;
}

// auto: nothing as long as smaller micro-batches or recomputation are faster; the host where nothing else fits.
static void test_autofit(void **state) {
    enum { MIB = 1 << 20 };
    reset_driver(FAKE_LAZY, 0);
    const size_t enough = (size_t)64 << 30;
    ft_plan none = plan_of("none", enough), all = plan_of("auto", enough), host = plan_of("optimizer", enough);
    assert_true(none.fits && all.fits && !all.offloads && !all.autofit.chosen && all.memory.peak_reserved == none.memory.peak_reserved);
    const size_t state_bytes = host.memory.peak_pinned - none.memory.peak_pinned;
    assert_true(host.offloads && state_bytes > (size_t)1200 * MIB && host.memory.peak_reserved + state_bytes < none.memory.peak_reserved + 64 * MIB);
    assert_true(host.step_seconds > none.step_seconds * 1.01 && host.step_seconds < none.step_seconds + 0.2); // 1.3 GB each way
    int without = 0, with = 0, neither = 0;
    static const size_t less[] = {30, 500, 1300, 1700};
    for (size_t i = 0; i < sizeof less / sizeof less[0]; i++) {
        const size_t budget = none.memory.peak_reserved - less[i] * MIB;
        ft_plan never = plan_of("none", budget), may = plan_of("auto", budget);
        assert_true(!never.offloads && may.fits >= never.fits && (!may.fits || may.memory.peak_reserved <= budget));
        if (may.fits && never.fits) assert_true(may.step_seconds <= never.step_seconds);
        host_bytes = state_bytes / 2; // where the host has no room it is no choice
        ft_plan alone = plan_of("auto", budget);
        host_bytes = 0;
        assert_true(!alone.offloads && alone.fits == never.fits);
        *(may.fits ? may.offloads ? &with : &without : &neither) += 1;
        char text[FT_FITTING_TEXT];
        if (may.offloads) assert_non_null(strstr(ft_fitting_text(&may.autofit.choice, text), "on the host"));
    }
    print_message("%d budgets without the host, %d with it, %d too small\n", without, with, neither);
    assert_true(without > 0 && with > 0 && neither > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_any_order),
        cmocka_unit_test(test_beside_graphs),
        cmocka_unit_test(test_resumed_elsewhere),
        cmocka_unit_test(test_update_before_the_state),
        cmocka_unit_test(test_slot_filled_too_early),
        cmocka_unit_test(test_arena_filled_too_early),
        cmocka_unit_test(test_planned_is_metered),
        cmocka_unit_test(test_refused_memory),
        cmocka_unit_test(test_host_too_small),
        cmocka_unit_test(test_autofit),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
