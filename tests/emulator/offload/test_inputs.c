// memory.offload = activations on a CUDA device: inputs of recomputed layers that travel to the host and back give the bits of a
// run that keeps them, in any order of the queues, beside micro-batches, evaluations, graphs, AdamW's state on the host, and
// across resumes; every wait is needed; a micro-batch that fails leaves nothing on its way; memory that is refused ends in one
// error or in the same bits; and what makes no sense is refused in one line.
// ctest: tsan=leave asan_part=3
// ctest: wrap=ft_steps_queue,ft_cuda_host_alloc,ft_cuda_range_commit,ft_cpu_available_bytes,ft_input_send,ft_input_sent
// ctest: wrap=ft_input_fetch,ft_input_fetched,ft_layer_backward,ft_model_train_batch,ft_cuda_stream_wait
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/model/blocks/layers.h"
#include "engine/model/model.h"
#include "tests/emulator/driver/fake_state.h"
#include "tests/emulator/offload/runs.h"
#include "tests/fixtures/sanitized.h"

enum { LAYERS = 6, STEPS = 3, PARTS = 2 }; // PARTS: micro-batches of a step

// ---- what is planted (--wrap, see CMakeLists.txt) -----------------------------------------------------------------------

static enum {
    NO_FAULT,
    ROWS_ARE_THERE,  // what goes waits until it has been computed
    PLACE_IS_GONE,   // what is computed waits until what was in its place has gone
    PLACE_IS_FREE,   // what comes waits until its place is no longer read and written
    ROWS_CAME,       // what is computed waits until they have come
    LEFT_ON_THE_WAY, // computing goes on behind what a failed micro-batch left
} fault;
static int waits_left_out; // of the call under way: the fault
static int sent, fetched;  // on the device itself, not on those that plan

static bool is_real(const ft_model *m) { return strstr(m->device->description, ", planned") == NULL; }

#define WITHOUT_WAITS_IF(planted, call)                                                                                \
    do {                                                                                                               \
        waits_left_out = fault == (planted);                                                                           \
        ft_status status_ = (call);                                                                                    \
        waits_left_out = 0;                                                                                            \
        return status_;                                                                                                \
    } while (0)

ft_status __real_ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event);
ft_status __wrap_ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event);
ft_status __wrap_ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event) {
    return waits_left_out ? FT_OK : __real_ft_cuda_stream_wait(device, stream, event);
}

ft_status __real_ft_input_send(ft_pass *pass, int n, ft_tensor x);
ft_status __wrap_ft_input_send(ft_pass *pass, int n, ft_tensor x);
ft_status __wrap_ft_input_send(ft_pass *pass, int n, ft_tensor x) {
    sent += is_real(pass->model);
    WITHOUT_WAITS_IF(ROWS_ARE_THERE, __real_ft_input_send(pass, n, x));
}
ft_status __real_ft_input_sent(ft_pass *pass, int n, ft_tensor *x);
ft_status __wrap_ft_input_sent(ft_pass *pass, int n, ft_tensor *x);
ft_status __wrap_ft_input_sent(ft_pass *pass, int n, ft_tensor *x) {
    WITHOUT_WAITS_IF(PLACE_IS_GONE, __real_ft_input_sent(pass, n, x));
}
ft_status __real_ft_input_fetch(ft_pass *pass, int n, ft_tensor *x);
ft_status __wrap_ft_input_fetch(ft_pass *pass, int n, ft_tensor *x);
ft_status __wrap_ft_input_fetch(ft_pass *pass, int n, ft_tensor *x) {
    fetched += is_real(pass->model);
    WITHOUT_WAITS_IF(PLACE_IS_FREE, __real_ft_input_fetch(pass, n, x));
}
ft_status __real_ft_input_fetched(ft_pass *pass, int n);
ft_status __wrap_ft_input_fetched(ft_pass *pass, int n);
ft_status __wrap_ft_input_fetched(ft_pass *pass, int n) { WITHOUT_WAITS_IF(ROWS_CAME, __real_ft_input_fetched(pass, n)); }

// The product of a layer on the way back that the library has no memory for; 0: none.
static int failing_backward;
ft_status __real_ft_layer_backward(ft_pass *pass, int layer, ft_tensor *x, ft_layer_saved *saved, ft_tensor *dy, ft_tensor *stream, bool want_dx, ft_tensor *dx);
ft_status __wrap_ft_layer_backward(ft_pass *pass, int layer, ft_tensor *x, ft_layer_saved *saved, ft_tensor *dy, ft_tensor *stream, bool want_dx, ft_tensor *dx);
ft_status __wrap_ft_layer_backward(ft_pass *pass, int layer, ft_tensor *x, ft_layer_saved *saved, ft_tensor *dy, ft_tensor *stream, bool want_dx, ft_tensor *dx) {
    if (failing_backward > 0 && is_real(pass->model) && --failing_backward == 0) {
        waits_left_out = fault == LEFT_ON_THE_WAY;
        return ft_fail_memory(1, "a product");
    }
    return __real_ft_layer_backward(pass, layer, x, saved, dy, stream, want_dx, dx);
}

// Behind a failed micro-batch: once everything that is computed has run, does anything still travel?
static int still_travelling;
ft_status __real_ft_model_train_batch(ft_model *m, const ft_batch *batch, ft_capacity capacity, const ft_step_state *step, ft_tensor losses);
ft_status __wrap_ft_model_train_batch(ft_model *m, const ft_batch *batch, ft_capacity capacity, const ft_step_state *step, ft_tensor losses);
ft_status __wrap_ft_model_train_batch(ft_model *m, const ft_batch *batch, ft_capacity capacity, const ft_step_state *step, ft_tensor losses) {
    ft_status status = __real_ft_model_train_batch(m, batch, capacity, step, losses);
    waits_left_out = 0;
    if (status == FT_OK) return status;
    ft_event *event;
    fake_forbid_waits(false);
    assert_int_equal(m->device->functions->event_create(m->device, &event), FT_OK);
    assert_int_equal(m->device->functions->event_record(m->device, event, FT_STREAM_COMPUTE), FT_OK);
    assert_int_equal(m->device->functions->event_sync(m->device, event), FT_OK);
    m->device->functions->event_destroy(m->device, event);
    still_travelling += fake_queued(m->inputs.host, (size_t)m->inputs.count * m->inputs.place);
    fake_forbid_waits(true);
    return status;
}

// ---- runs ---------------------------------------------------------------------------------------------------------------

static tiny_run files;
static char model[160], train[160], validation[160];
static const char *const common[] = {model, "model.init=random", train, validation, "data.max_length=12", "train.batch_size=6",
                                     "train.micro_batch=4", "train.max_steps=3", "train.gradient_checkpointing=on", "output.save_steps=2",
                                     "eval.strategy=steps", "eval.steps=2", NULL};
static const run_base base = {NULL, common, "checkpoints/step-00000003/state.safetensors"};

enum { FP32, BF16, EVERY_2, NARROW, WAYS };
static const char *const kept[WAYS][3] = {{"train.precision=fp32", NULL},
                                          {"train.precision=bf16", NULL},
                                          {"train.precision=fp32", "train.gradient_checkpointing=2", NULL},
                                          {"train.precision=bf16", "train.residual=16bit", NULL}};
static const char *const offloaded[WAYS][4] = {
    {"train.precision=fp32", "memory.offload=activations", NULL},
    {"train.precision=bf16", "memory.offload=activations", NULL},
    {"train.precision=fp32", "train.gradient_checkpointing=2", "memory.offload=activations", NULL},
    {"train.precision=bf16", "train.residual=16bit", "memory.offload=activations", NULL}};
static const int travelling[WAYS] = {LAYERS - 2, LAYERS - 2, LAYERS / 2 - 2, LAYERS - 2};
static outcome reference[WAYS];

static int set_up(void **state) {
    ft_log_set_level(FT_LOG_SILENT);
    snprintf(scratch, sizeof scratch, "/tmp/test_offload_XXXXXX");
    if (mkdtemp(scratch) == NULL) return 1;
    make_tiny_run(&files, scratch, 7);
    FILE *f = file_in(&files, "model/config.json");
    fprintf(f, "{\"model_type\": \"bert\", \"vocab_size\": %d, \"hidden_size\": 16, \"num_hidden_layers\": %d, \"num_attention_heads\": 2, "
               "\"intermediate_size\": 24, \"max_position_embeddings\": 16, \"type_vocab_size\": 2, \"hidden_act\": \"gelu\", \"pad_token_id\": 0}\n",
            TINY_WORDS + 5, LAYERS);
    fclose(f);
    write_texts(&files, "train.tsv", STEPS * 6, 12, 2);
    write_texts(&files, "dev.tsv", 4, 12, 2);
    snprintf(model, sizeof model, "model.path=%s/model", files.dir);
    snprintf(train, sizeof train, "data.train=%s/train.tsv", files.dir);
    snprintf(validation, sizeof validation, "data.validation=%s/dev.tsv", files.dir);
    for (int w = 0; w < WAYS; w++) {
        reference[w] = run(&base, FAKE_EAGER, 0, kept[w]);
        if (reference[w].status != FT_OK) return print_error("%s (%s)\n", ft_error_message(), ft_error_where()), 1;
    }
    return 0;
}

static int tear_down(void **state) { return ft_remove_tree(scratch) == FT_OK ? 0 : 1; }

static void good(const outcome *o, int way) {
    if (o->status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    if (!same(o, &reference[way])) fail_msg("another run");
    assert_int_equal(o->books.misuses, 0);
    assert_int_equal(left(&o->books), 0);
}

// ---- the same bits ------------------------------------------------------------------------------------------------------

static void test_in_any_order(void **state) {
    for (int way = 0; way < WAYS; way++)
        for (int schedule = FT_SANITIZED ? FAKE_RANDOM : 0; schedule < FAKE_SCHEDULES; schedule++)
            for (uint64_t seed = 0; seed < (schedule == FAKE_RANDOM && !FT_SANITIZED ? 3 : 1); seed++) {
                sent = fetched = 0;
                outcome o = run(&base, (fake_schedule)schedule, seed, offloaded[way]);
                good(&o, way);
                assert_int_equal(sent, travelling[way] * STEPS * PARTS);
                assert_int_equal(fetched, sent);
            }
}

// Both at once, and the parts of a step that one stream does from graphs.
static void test_beside_the_rest(void **state) {
    static const char *const all[] = {"train.precision=bf16", "memory.offload=all", NULL};
    static const char *const graphs[] = {"train.precision=bf16", "memory.offload=activations", "device.graphs=on", NULL};
    for (uint64_t seed = 0; seed < 2; seed++) {
        outcome o = run(&base, FAKE_RANDOM, seed, all);
        good(&o, BF16);
        sent = 0;
        o = run(&base, FAKE_RANDOM, seed, graphs);
        good(&o, BF16);
        assert_int_equal(sent, travelling[BF16] * STEPS * PARTS);
    }
}

// Where a step is one micro-batch gradients come into the arena beside the inputs (gradients.h).
static void test_whole_steps(void **state) {
    static const char *const kept_whole[][3] = {{"train.precision=fp32", "train.micro_batch=6", NULL}, {"train.precision=bf16", "train.micro_batch=6", NULL}};
    static const char *const away[][4] = {{"train.precision=fp32", "train.micro_batch=6", "memory.offload=all", NULL},
                                          {"train.precision=bf16", "train.micro_batch=6", "memory.offload=all", NULL}};
    for (int p = 0; p < 2; p++) {
        outcome here = run(&base, FAKE_EAGER, 0, kept_whole[p]), there = run(&base, FAKE_RANDOM, 1, away[p]);
        if (here.status != FT_OK || there.status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
        assert_true(same(&here, &there));
        assert_int_equal(there.books.misuses, 0);
        assert_int_equal(left(&there.books), 0);
    }
}

// Who asks for the inputs on the host need not ask for what keeps nothing else.
static void test_checkpointing_at_auto(void **state) {
    static const char *const automatic[] = {"train.precision=fp32", "memory.offload=activations", "train.gradient_checkpointing=auto", NULL};
    outcome o = run(&base, FAKE_LAZY, 0, automatic);
    good(&o, FP32);
    json_t *file;
    char path[256];
    snprintf(path, sizeof path, "%s/run.json", o.dir);
    assert_int_equal(ft_json_load(path, &file), FT_OK);
    const json_t *resolved = json_object_get(file, "resolved");
    assert_int_equal(json_integer_value(json_object_get(resolved, "gradient_checkpointing")), 1);
    assert_string_equal(json_string_value(json_object_get(resolved, "offload")), "activations");
    json_decref(file);
}

// Stopped where they lie in one place, and continued where they lie in the other.
static void test_resumed_elsewhere(void **state) {
    for (int first = 0; first < 2; first++) {
        reset_driver(FAKE_LAZY, 0);
        steps_to_stop = 2;
        outcome o = run_in(&base, NULL, first ? offloaded[BF16] : kept[BF16]);
        assert_int_equal(steps_to_stop, 0);
        assert_int_equal(o.status, FT_INTERRUPTED);
        o = run_in(&base, o.dir, first ? kept[BF16] : offloaded[BF16]);
        good(&o, BF16);
    }
}

// Under some order of the queues another run comes out, or one that does what the driver forbids.
static void caught(int planted, int way) {
    FT_PLAIN_ONLY();
    bool seen = false;
    for (int schedule = FAKE_SCHEDULES - 1; schedule >= 0 && !seen; schedule--) {
        fault = planted;
        outcome o = run(&base, (fake_schedule)schedule, 1, offloaded[way]);
        fault = NO_FAULT;
        seen = !same(&o, &reference[way]) || o.books.misuses > 0;
    }
    assert_true(seen);
}
static void test_sent_before_computed(void **state) { caught(ROWS_ARE_THERE, FP32), caught(ROWS_ARE_THERE, BF16); }
static void test_overwritten_before_sent(void **state) { caught(PLACE_IS_GONE, FP32), caught(PLACE_IS_GONE, BF16); }
static void test_fetched_too_early(void **state) { caught(PLACE_IS_FREE, FP32), caught(PLACE_IS_FREE, BF16); }
static void test_read_before_fetched(void **state) { caught(ROWS_CAME, FP32), caught(ROWS_CAME, BF16); }

// A micro-batch fails halfway back, where one input is there and the next is on its way.
static void test_failed_micro_batch(void **state) {
    for (int planted = 0; planted < 2; planted++) {
        fault = planted ? LEFT_ON_THE_WAY : NO_FAULT;
        failing_backward = 4;
        still_travelling = 0;
        outcome o = run(&base, FAKE_LAZY, 0, offloaded[FP32]);
        fault = NO_FAULT;
        assert_int_equal(failing_backward, 0);
        assert_int_equal(o.status, FT_NO_MEMORY); // the library's: no rung of the ladder gives it any
        assert_int_equal(still_travelling, planted);
        assert_int_equal(left(&o.books), 0);
    }
}

// ---- memory -------------------------------------------------------------------------------------------------------------

// Requests for memory are refused, of the host and of the device, once and from then on: every third of each kind.
enum { EVERY = FT_SANITIZED ? 9 : 3 };
static void test_refused_memory(void **state) {
    static const char *const all[] = {"train.precision=bf16", "memory.offload=all", NULL};
    int completed = 0, failed = 0;
    for (int kind = 0; kind < 4; kind++) {
        of_host = kind % 2 == 1, lasting = kind >= 2;
        bool beyond = false;
        for (refuse_at = 1 + kind % 3; !beyond; refuse_at += EVERY) {
            reset_driver(FAKE_LAZY, 0);
            requests = 0;
            outcome o = run_in(&base, NULL, all);
            if (o.status == FT_OK) assert_true(same(&o, &reference[BF16]));
            else if (o.status != FT_NO_MEMORY) fail_msg("kind %d, request %d: %s (%s)", kind, refuse_at, ft_error_message(), ft_error_where());
            if (o.status != FT_OK && strstr(ft_error_message(), "memory") == NULL) fail_msg("%s", ft_error_message());
            assert_int_equal(o.books.misuses, 0);
            assert_int_equal(left(&o.books), 0);
            *(o.status == FT_OK ? &completed : &failed) += 1;
            beyond = requests < refuse_at; // it took so many, and none was refused
        }
    }
    refuse_at = 0;
    print_message("%d runs completed, %d ended with the error\n", completed, failed);
    assert_true(completed > 4 / (EVERY / 3) && failed > 4 / (EVERY / 3));
}

static void refused(const char *const *options, ft_status status, const char *says) {
    ft_error_clear();
    outcome o = run(&base, FAKE_LAZY, 0, options);
    assert_int_equal(o.status, status);
    assert_string_equal(ft_error_where(), "memory.offload");
    if (strstr(ft_error_message(), says) == NULL) fail_msg("%s", ft_error_message());
    assert_int_equal(left(&o.books), 0);
    ft_error_clear();
}

static void test_what_makes_no_sense(void **state) {
    static const char *const without[] = {"memory.offload=activations", "train.gradient_checkpointing=off", NULL};
    static const char *const on_the_cpu[] = {"memory.offload=activations", "device.name=cpu", NULL};
    refused(without, FT_INVALID, "train.gradient_checkpointing is off");
    refused(on_the_cpu, FT_INVALID, "activations needs a device with memory of its own");
    host_bytes = 1;
    refused(offloaded[FP32], FT_NO_MEMORY, "pinned memory of the host are needed");
    host_bytes = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_any_order),
        cmocka_unit_test(test_beside_the_rest),
        cmocka_unit_test(test_whole_steps),
        cmocka_unit_test(test_checkpointing_at_auto),
        cmocka_unit_test(test_resumed_elsewhere),
        cmocka_unit_test(test_sent_before_computed),
        cmocka_unit_test(test_overwritten_before_sent),
        cmocka_unit_test(test_fetched_too_early),
        cmocka_unit_test(test_read_before_fetched),
        cmocka_unit_test(test_failed_micro_batch),
        cmocka_unit_test(test_refused_memory),
        cmocka_unit_test(test_what_makes_no_sense),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
