// Steps of real runs as they are queued on a CUDA device: the host waits for nothing inside of one, results come late and
// are booked exactly, and what orders the streams is needed. Each fault is planted into the engine by taking one call of
// it away (or putting one in), and is caught.
// ctest: tsan_part=1 cost=1000
// ctest: wrap=ft_steps_queue,ft_steps_free,ft_model_end_step,ft_update_run,ft_cuda_stream_wait,ft_cuda_event_sync
// ctest: wrap=ft_predict_dataset
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/log.h"
#include "engine/train/step/predict.h"
#include "engine/train/step/steps.h"
#include "engine/train/step/update.h"
#include "engine/train/train.h"
#include "engine/train/trainer.h"
#include "kernels/cuda/driver/device.h"
#include "tests/emulator/driver/fake_driver.h"
#include "tests/fixtures/sanitized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- what is planted (--wrap, see CMakeLists.txt) -----------------------------------------------------------------------

static enum {
    NO_FAULT,
    SYNC_IN_A_STEP,
    ALLOC_IN_A_STEP,
    BATCH_IS_THERE, // the computing stream waits for the copy
    SLOT_IS_READ,   // the copying stream waits until the last batch in this slot of the device was used
    PINNED_IS_FREE, // the host waits before it writes the next batch into pinned memory
    STEP_IS_DONE,   // the host waits before it reads what a step came to
    LOGITS_ARE_HOME, // likewise what an evaluation came to
} fault;
static bool in_evaluation;
static uint64_t evaluation_waits, evaluation_drains;
static bool in_step, always_books; // the latter: no step is queued ahead
static int on_the_way, refusals;   // steps before the one that is queued; how often memory shall be refused behind them

ft_status __real_ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run);
ft_status __wrap_ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run);
ft_status __wrap_ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run) {
    if (always_books) step->steps.room = 1;
    fake_forbid_waits(true);
    in_step = true;
    on_the_way = step->steps.count;
    ft_status status = __real_ft_steps_queue(step, climb, run);
    in_step = false;
    fake_forbid_waits(false);
    return status;
}

ft_status __real_ft_model_end_step(ft_model *model, ft_capacity capacity, const ft_step_state *step);
ft_status __wrap_ft_model_end_step(ft_model *model, ft_capacity capacity, const ft_step_state *step);
ft_status __wrap_ft_model_end_step(ft_model *model, ft_capacity capacity, const ft_step_state *step) {
    if (in_step && on_the_way > 0 && refusals > 0) return refusals--, ft_fail_memory(1, "a planted refusal");
    return __real_ft_model_end_step(model, capacity, step);
}

void __real_ft_steps_free(ft_step *step);
void __wrap_ft_steps_free(ft_step *step);
void __wrap_ft_steps_free(ft_step *step) {
    if (step->steps.room > 0) step->steps.room = FT_STEPS_ON_THE_WAY; // they are there all the same
    __real_ft_steps_free(step);
}

ft_status __real_ft_update_run(ft_parameters *parameters, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                               ft_update_state *update);
ft_status __wrap_ft_update_run(ft_parameters *parameters, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                               ft_update_state *update);
ft_status __wrap_ft_update_run(ft_parameters *parameters, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                               ft_update_state *update) {
    ft_device *device = ft_memory_device(parameters->memory);
    if (in_step && fault == SYNC_IN_A_STEP) FT_TRY(device->functions->sync(device));
    if (in_step && fault == ALLOC_IN_A_STEP) {
        void *data;
        FT_TRY(device->functions->buffer_alloc(device, 1, &data));
        device->functions->buffer_free(device, data, 1);
    }
    return __real_ft_update_run(parameters, config, losses, step, update);
}

ft_status __real_ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event);
ft_status __wrap_ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event);
ft_status __wrap_ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event) {
    if (fault == BATCH_IS_THERE && stream == FT_STREAM_COMPUTE) return FT_OK;
    if (fault == SLOT_IS_READ && stream == FT_STREAM_COPY) return FT_OK;
    return __real_ft_cuda_stream_wait(device, stream, event);
}

ft_status __real_ft_predict_dataset(ft_model *model, const ft_task_spec *task, const ft_dataset *data, ft_batch_limits limits,
                                    ft_capacity capacity, ft_window_pooling pooling, ft_logits *logits, float *losses, ft_predict_progress progress, void *context);
ft_status __wrap_ft_predict_dataset(ft_model *model, const ft_task_spec *task, const ft_dataset *data, ft_batch_limits limits,
                                    ft_capacity capacity, ft_window_pooling pooling, ft_logits *logits, float *losses, ft_predict_progress progress, void *context);
ft_status __wrap_ft_predict_dataset(ft_model *model, const ft_task_spec *task, const ft_dataset *data, ft_batch_limits limits,
                                    ft_capacity capacity, ft_window_pooling pooling, ft_logits *logits, float *losses, ft_predict_progress progress, void *context) {
    const fake_books before = fake_read();
    in_evaluation = true;
    ft_status status = __real_ft_predict_dataset(model, task, data, limits, capacity, pooling, logits, losses, progress, context);
    in_evaluation = false;
    evaluation_waits = fake_read().waits - before.waits;
    evaluation_drains = fake_read().drains - before.drains;
    return status;
}

ft_status __real_ft_cuda_event_sync(ft_device *device, ft_event *event);
ft_status __wrap_ft_cuda_event_sync(ft_device *device, ft_event *event);
ft_status __wrap_ft_cuda_event_sync(ft_device *device, ft_event *event) {
    if (fault == PINNED_IS_FREE && in_step) return FT_OK;
    if (fault == STEP_IS_DONE && !in_step && !in_evaluation) return FT_OK;
    if (fault == LOGITS_ARE_HOME && in_evaluation) return FT_OK;
    return __real_ft_cuda_event_sync(device, event);
}

// ---- one run ------------------------------------------------------------------------------------------------------------

static char scratch[64];
static int run_number;

typedef struct outcome {
    ft_status status;
    char dir[128], message[256];
    char *lines;  // metrics.jsonl without the speeds; NULL: there is none
    char *model;  // the saved one's bytes
    size_t bytes;
    fake_books books;
} outcome;

static char *read_whole(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    char *data = NULL;
    size_t held = 0, got;
    do {
        data = realloc(data, held + 65537);
        assert_non_null(data);
        got = fread(data + held, 1, 65536, f);
        held += got;
    } while (got > 0);
    fclose(f);
    data[held] = '\0';
    *bytes = held;
    return data;
}

// The speed is a matter of the clock.
static void strip_speeds(char *lines) {
    for (char *at; lines != NULL && (at = strstr(lines, "\"tokens_per_second\"")) != NULL;) {
        size_t length = strcspn(at, "}\n");
        memmove(at, at + length, strlen(at + length) + 1);
    }
}

static outcome run_queued(fake_schedule schedule, uint64_t seed, const char *const *options) {
    fake_settings s = fake_defaults();
    s.version = 13000, s.memory = (size_t)1 << 30, s.schedule = schedule, s.seed = seed;
    fake_reset(&s);
    outcome o = {0};
    size_t length;
    char path[256], output[160];
    snprintf(o.dir, sizeof o.dir, "%s/run%d", scratch, run_number++);
    snprintf(output, sizeof output, "output.dir=%s", o.dir);
    const char *file = FT_TEST_VECTORS "/trainer/follow.ini";
    const char *all[24] = {output, "device.name=cuda", "data.cache_dir=none", "train.micro_batch=5", "model.hidden_dropout=0.1",
                           "model.attention_dropout=0.1"};
    int count = 6;
    for (; options != NULL && *options != NULL; options++) all[count++] = *options;
    ft_config config;
    if (ft_config_load(&config, 1, &file, count, all) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    o.status = ft_train(&config, NULL);
    ft_config_free(&config);
    snprintf(o.message, sizeof o.message, "%.200s", o.status != FT_OK ? ft_error_message() : "");
    snprintf(path, sizeof path, "%s/metrics.jsonl", o.dir);
    o.lines = read_whole(path, &length);
    strip_speeds(o.lines);
    snprintf(path, sizeof path, "%s/model/model.safetensors", o.dir);
    o.model = read_whole(path, &o.bytes);
    o.books = fake_read();
    return o;
}

static outcome run(fake_schedule schedule, uint64_t seed, const char *const *options) {
    always_books = false;
    return run_queued(schedule, seed, options);
}

// Each step is booked before the next is queued, and work runs at once.
static outcome run_one_by_one(const char *const *options) {
    always_books = true;
    return run_queued(FAKE_EAGER, 0, options);
}

static outcome run_with(int planted, fake_schedule schedule, const char *const *options) {
    fault = planted;
    outcome o = run(schedule, 1, options);
    fault = NO_FAULT;
    return o;
}

static void drop(outcome *o) {
    free(o->lines);
    free(o->model);
}

static bool same(const outcome *a, const outcome *b) {
    return a->status == b->status && a->lines != NULL && b->lines != NULL && strcmp(a->lines, b->lines) == 0 && a->bytes == b->bytes &&
           (a->bytes == 0 || memcmp(a->model, b->model, a->bytes) == 0);
}

static size_t left(const fake_books *b) {
    return b->contexts + b->streams + b->events + b->graphs + b->buffers + b->pinned + b->reservations + b->handles + b->mappings;
}

static const char *const short_run[] = {"train.max_steps=6", NULL};
static outcome reference; // of short_run, one by one

static int set_up(void **state) {
    ft_log_set_level(FT_LOG_SILENT);
    snprintf(scratch, sizeof scratch, "/tmp/test_steps_XXXXXX");
    if (mkdtemp(scratch) == NULL) return 1;
    reference = run_one_by_one(short_run);
    if (reference.status != FT_OK) print_error("%s\n", reference.message);
    return reference.status != FT_OK;
}

static int tear_down(void **state) {
    drop(&reference);
    return ft_remove_tree(scratch) == FT_OK ? 0 : 1;
}

// ---- right --------------------------------------------------------------------------------------------------------------

static void test_steps_ahead_give_the_same(void **state) {
    for (int schedule = FT_SANITIZED ? FAKE_RANDOM : 0; schedule < FAKE_SCHEDULES; schedule++)
        for (uint64_t seed = 0; seed < (schedule == FAKE_RANDOM && !FT_SANITIZED ? 3 : 1); seed++) {
            outcome o = run((fake_schedule)schedule, seed, short_run);
            if (o.status != FT_OK) fail_msg("%s", o.message);
            if (!same(&o, &reference)) fail_msg("schedule %d, seed %d: another run", schedule, (int)seed);
            assert_int_equal(o.books.misuses, 0);
            assert_int_equal(left(&o.books), 0);
            drop(&o);
        }
    // The same with gradients in the arena, which the next step fills anew while the last is on its way.
    static const char *const whole[] = {"train.max_steps=6", "train.micro_batch=8", NULL};
    outcome one = run_one_by_one(whole), ahead = run(FAKE_RANDOM, 1, whole), lazy = run(FAKE_LAZY, 0, whole);
    assert_int_equal(one.status, FT_OK);
    assert_true(same(&one, &ahead) && same(&one, &lazy));
    drop(&one), drop(&ahead), drop(&lazy);
}

// Twice as many steps between two looks at the device: the device is left without work as often as before.
static void test_steps_leave_the_device_busy(void **state) {
    FT_PLAIN_ONLY();
    static const char *const twelve[] = {"train.max_steps=12", NULL};
    outcome longer = run(FAKE_LAZY, 0, twelve), shorter = run(FAKE_LAZY, 0, short_run);
    assert_int_equal(longer.status, FT_OK);
    assert_int_equal(longer.books.drains, shorter.books.drains);
    assert_true(longer.books.waits > shorter.books.waits); // for what happened two steps before
    always_books = true;
    outcome booking = run_queued(FAKE_LAZY, 0, twelve);
    assert_true(booking.books.drains >= longer.books.drains + 6);
    drop(&longer), drop(&shorter), drop(&booking);
}

// While a micro-batch of an evaluation is read, the next is computed.
static const char *const evaluated[] = {"train.max_steps=2", "data.validation=" FT_TEST_VECTORS "/trainer/validation.tsv",
                                        "eval.strategy=steps", "eval.steps=2", "eval.batch_size=3", NULL};
static void test_evaluations_leave_the_device_busy(void **state) {
    FT_PLAIN_ONLY();
    outcome one = run_one_by_one(evaluated), o = run(FAKE_LAZY, 0, evaluated);
    assert_true(same(&one, &o));
    assert_int_equal(o.books.misuses, 0);
    if (evaluation_waits < 20 || evaluation_drains > 5) fail_msg("%d waits, %d of them for all there was", (int)evaluation_waits, (int)evaluation_drains);
    drop(&one), drop(&o);
}

// Evaluations and checkpoints between the steps see the step that they are told they see.
static void test_boundaries(void **state) {
    static const char *const options[] = {"train.max_steps=7",  "data.validation=" FT_TEST_VECTORS "/trainer/validation.tsv",
                                          "eval.strategy=steps", "eval.steps=3", "output.save_steps=2", "train.logging_steps=2", NULL};
    outcome one = run_one_by_one(options);
    outcome ahead = run(FAKE_LAZY, 0, options);
    assert_int_equal(one.status, FT_OK);
    assert_true(same(&one, &ahead));
    assert_int_equal(ahead.books.misuses, 0);
    drop(&one), drop(&ahead);
}

// A step that is not finite is reported under its number, and nothing behind it counted although it was queued.
static void test_divergence(void **state) {
    FT_PLAIN_ONLY();
    static const char *const options[] = {"train.max_steps=60", "train.learning_rate=100", "train.warmup_steps=3", "train.weight_decay=1",
                                          "train.lr_scheduler=constant_with_warmup", NULL};
    outcome one = run_one_by_one(options);
    outcome ahead = run(FAKE_LAZY, 0, options);
    assert_int_equal(one.status, FT_DIVERGED);
    assert_true(same(&one, &ahead));
    assert_string_equal(one.message, ahead.message);
    int step;
    assert_int_equal(sscanf(one.message, "training diverged at step %d:", &step), 1);
    assert_true(step > 1 && step < 58); // others were queued behind
    char path[256];
    size_t bytes[2];
    char *saved[2];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/checkpoints/step-%08d/state.safetensors", i ? ahead.dir : one.dir, step - 1);
        saved[i] = read_whole(path, &bytes[i]);
        assert_non_null(saved[i]);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(saved[0], saved[1], bytes[0]);
    free(saved[0]), free(saved[1]);
    drop(&one), drop(&ahead);
}

// Memory refused to a step that was queued ahead: it is queued again when the steps before it are booked.
static void test_a_refusal_behind_steps(void **state) {
    refusals = 3;
    outcome o = run(FAKE_LAZY, 0, short_run);
    assert_int_equal(refusals, 0);
    assert_true(same(&o, &reference));
    assert_int_equal(o.books.misuses, 0);
    drop(&o);
}

// ---- wrong --------------------------------------------------------------------------------------------------------------

static void test_a_call_that_waits_inside_a_step(void **state) {
    FT_PLAIN_ONLY();
    for (int f = SYNC_IN_A_STEP; f <= ALLOC_IN_A_STEP; f++) {
        outcome o = run_with(f, FAKE_LAZY, short_run);
        assert_int_equal(o.status, FT_FAILED);
        assert_non_null(strstr(o.message, "not permitted when stream is capturing"));
        assert_true(o.books.forbidden > 0);
        drop(&o);
    }
}

// Under some order of the queues the run goes another way, fails, or does what the driver forbids.
static void caught(int planted) {
    FT_PLAIN_ONLY();
    bool seen = false;
    for (int schedule = FAKE_SCHEDULES - 1; schedule >= 0 && !seen; schedule--) {
        outcome o = run_with(planted, (fake_schedule)schedule, short_run);
        seen = !same(&o, &reference) || o.books.misuses > 0;
        drop(&o);
    }
    assert_true(seen);
}
static void test_missing_event_before_reading(void **state) { caught(BATCH_IS_THERE); }
static void test_missing_event_before_writing(void **state) { caught(SLOT_IS_READ); }
static void test_reused_pinned_buffer(void **state) { caught(PINNED_IS_FREE); }
static void test_outcome_read_too_early(void **state) { caught(STEP_IS_DONE); }
static void test_logits_read_too_early(void **state) {
    FT_PLAIN_ONLY();
    outcome right = run_one_by_one(evaluated), o = run_with(LOGITS_ARE_HOME, FAKE_LAZY, evaluated);
    assert_int_equal(right.status, FT_OK);
    assert_false(same(&right, &o));
    drop(&right), drop(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_ahead_give_the_same),
        cmocka_unit_test(test_steps_leave_the_device_busy),
        cmocka_unit_test(test_evaluations_leave_the_device_busy),
        cmocka_unit_test(test_boundaries),
        cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_a_refusal_behind_steps),
        cmocka_unit_test(test_a_call_that_waits_inside_a_step),
        cmocka_unit_test(test_missing_event_before_reading),
        cmocka_unit_test(test_missing_event_before_writing),
        cmocka_unit_test(test_reused_pinned_buffer),
        cmocka_unit_test(test_outcome_read_too_early),
        cmocka_unit_test(test_logits_read_too_early),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
