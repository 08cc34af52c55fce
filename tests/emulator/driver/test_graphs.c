// A micro-batch and an update of a real run, captured as graphs and replayed: with other values of the step in the same
// places they give the bits that the same calls give. What cannot be captured is refused, and nothing of it is left.
// ctest: tsan=leave cost=1000
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "engine/model/gradients/gradients.h"
#include "engine/train/step/update.h"
#include "engine/train/trainer.h"
#include "kernels/cuda/driver/device.h"
#include "tests/emulator/driver/fake_driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void good(ft_status status) {
    if (status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
}

static void failed(ft_status got, ft_status want, const char *part) {
    if (got != want || strstr(ft_error_message(), part) == NULL)
        fail_msg("status %d, not %d; '%s' should contain '%s'", got, want, ft_error_message(), part);
}

// ---- a run that is opened, and trained by hand ----------------------------------------------------------------------------

enum { EXAMPLES = 5, STEPS = 5 };

static ft_config config;

static void open_run(ft_trainer *t, fake_schedule schedule, const char *precision) {
    fake_settings s = fake_defaults();
    s.version = 13000, s.memory = (size_t)1 << 30, s.schedule = schedule;
    fake_reset(&s);
    const char *file = FT_TEST_VECTORS "/trainer/follow.ini";
    char with[32];
    snprintf(with, sizeof with, "train.precision=%s", precision);
    const char *options[] = {"device.name=cuda", "data.cache_dir=none", "model.hidden_dropout=0.1", "model.attention_dropout=0.1",
                             with};
    good(ft_config_load(&config, 1, &file, 5, options));
    good(ft_trainer_open(&config, t));
    good(ft_batch_buffers_load(&t->step.buffers, &t->job.split[FT_SPLIT_TRAIN].data, NULL, 0, EXAMPLES, 0));
}

static void close_run(ft_trainer *t, uint64_t misuses) {
    good(ft_trainer_close(t));
    ft_config_free(&config);
    fake_books b = fake_read();
    assert_int_equal(b.contexts + b.streams + b.events + b.graphs + b.buffers + b.pinned + b.reservations + b.handles + b.mappings, 0);
    assert_int_equal(b.misuses, misuses);
}

static ft_tensor losses_of(const ft_trainer *t) { return ft_vector(t->step.losses, EXAMPLES, FT_F32); }

static ft_status micro_step(ft_trainer *t) {
    FT_TRY(ft_update_scale_step(t->room.device, t->room.config, t->step.update_state, t->step.step_state));
    FT_TRY(ft_gradients_clear(&t->room.model.parameters));
    FT_TRY(ft_model_begin_step(&t->room.model, t->room.plan.capacity, t->step.step_state));
    FT_TRY(ft_model_train_batch(&t->room.model, &t->step.buffers.device, t->room.plan.capacity, t->step.step_state, losses_of(t)));
    return ft_model_end_step(&t->room.model, t->room.plan.capacity, t->step.step_state);
}

static ft_status update(ft_trainer *t) {
    return ft_update_run(&t->room.model.parameters, t->room.config, losses_of(t), t->step.step_state, t->step.update_state);
}

static ft_graph *captured(ft_trainer *t, ft_status (*work)(ft_trainer *t)) {
    ft_graph *graph;
    good(t->room.device->functions->graph_begin(t->room.device));
    good(work(t));
    good(t->room.device->functions->graph_end(t->room.device, &graph));
    assert_non_null(graph);
    return graph;
}

// What the device holds after a step.
typedef struct picture {
    ft_update_state update;
    float losses[EXAMPLES];
    float *values; // weights, m, v; in bf16 the weights' tails too
    size_t count;
} picture;

static picture look(ft_trainer *t) {
    const ft_parameters *p = &t->room.model.parameters;
    const ft_device_functions *f = t->room.device->functions;
    picture got = {.count = ft_parameters_weight_bytes(p)};
    for (int i = 0; i < p->store_count; i++)
        for (ft_store_state k = 0; k < FT_STATES; k++) got.count += (size_t)p->stores[i].count * ft_store_state_size(&p->stores[i], k);
    char *to = malloc(got.count);
    assert_non_null(to);
    got.values = (float *)(void *)to;
    got.count /= sizeof(float);
    for (int i = 0; i < p->store_count; i++)
        for (ft_store_state k = 0; k < FT_STATES; k++) {
            const size_t bytes = (size_t)p->stores[i].count * ft_store_state_size(&p->stores[i], k);
            if (bytes > 0) good(f->download(t->room.device, to, p->stores[i].state[k], bytes));
            to += bytes;
        }
    good(f->download(t->room.device, to, p->block, ft_parameters_weight_bytes(p)));
    good(f->download(t->room.device, &got.update, t->step.update_state, sizeof got.update));
    good(f->download(t->room.device, got.losses, t->step.losses, sizeof got.losses));
    good(f->sync(t->room.device));
    return got;
}

static void same(const picture *a, const picture *b, int step) {
    if (memcmp(&a->update, &b->update, sizeof a->update) != 0) fail_msg("step %d: another outcome", step);
    if (memcmp(a->losses, b->losses, sizeof a->losses) != 0) fail_msg("step %d: other losses", step);
    if (memcmp(a->values, b->values, a->count * sizeof(float)) != 0) fail_msg("step %d: other weights or moments", step);
}

// bad: a step whose gradients are not finite; -1: none.
static void set_step(ft_trainer *t, int step, int bad) {
    ft_step_state s = {.seed = 7, .step = (uint32_t)step, .learning_rate = 1e-3f / (float)(step + 1), .loss_scale = 1};
    s.loss_factor = step == bad ? INFINITY : 1.0f / (float)(EXAMPLES + step);
    good(t->room.device->functions->upload(t->room.device, t->step.step_state, &s, sizeof s));
    good(t->room.device->functions->sync(t->room.device));
}

static void forgive(ft_trainer *t) {
    picture p = look(t);
    p.update.stopped = 0;
    good(t->room.device->functions->upload(t->room.device, t->step.update_state, &p.update, sizeof p.update));
    good(t->room.device->functions->sync(t->room.device));
    free(p.values);
}

static void train(fake_schedule schedule, const char *precision, int bad, bool replayed, picture pictures[STEPS]) {
    ft_trainer t;
    open_run(&t, schedule, precision);
    ft_graph *graphs[2] = {NULL, NULL};
    if (replayed) {
        graphs[0] = captured(&t, micro_step);
        graphs[1] = captured(&t, update);
    }
    for (int step = 0; step < STEPS; step++) {
        if (bad >= 0 && step == bad + 2) forgive(&t);
        set_step(&t, step, bad);
        if (replayed) {
            good(t.room.device->functions->graph_run(t.room.device, graphs[0]));
            good(t.room.device->functions->graph_run(t.room.device, graphs[1]));
        } else {
            good(micro_step(&t));
            good(update(&t));
        }
        pictures[step] = look(&t);
    }
    for (int i = 0; i < 2; i++) t.room.device->functions->graph_destroy(t.room.device, graphs[i]);
    close_run(&t, 0);
}

static void drop(picture pictures[STEPS]) {
    for (int step = 0; step < STEPS; step++) free(pictures[step].values);
}

static bool moved(const picture *a, const picture *b) { return memcmp(a->values, b->values, a->count * sizeof(float)) != 0; }

static void compare(const char *precision, int bad, picture queued[STEPS]) {
    static const fake_schedule schedules[] = {FAKE_LAZY, FAKE_EAGER, FAKE_RANDOM};
    train(FAKE_EAGER, precision, bad, false, queued);
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        picture replayed[STEPS];
        train(schedules[i], precision, bad, true, replayed);
        for (int step = 0; step < STEPS; step++) same(&queued[step], &replayed[step], step);
        drop(replayed);
    }
}

// ---- tests --------------------------------------------------------------------------------------------------------------

static void test_replays_are_the_calls(void **state) {
    picture queued[STEPS];
    compare("fp32", -1, queued);
    for (int step = 1; step < STEPS; step++) {
        assert_int_equal(queued[step].update.count, step + 1);
        assert_true(moved(&queued[step], &queued[step - 1]));
        assert_true(queued[step].losses[0] != queued[step - 1].losses[0]);
    }
    drop(queued);
}

// The step with the bad gradient and the one behind it change nothing; when the stop is lifted, training goes on.
static void test_a_non_finite_step(void **state) {
    static const char *const precisions[] = {"fp32", "bf16"};
    for (int i = 0; i < 2; i++) {
        picture queued[STEPS];
        compare(precisions[i], 1, queued);
        for (int step = 1; step <= 2; step++) {
            assert_int_equal(queued[step].update.finite, 0);
            assert_int_equal(queued[step].update.stopped, 1);
            assert_int_equal(queued[step].update.count, 1);
            assert_false(moved(&queued[step], &queued[0]));
        }
        assert_int_equal(queued[3].update.finite, 1);
        assert_int_equal(queued[3].update.count, 2);
        assert_true(moved(&queued[3], &queued[2]));
        drop(queued);
    }
}

// fp16: the scale halves, nothing else changes, and the next step counts with the new scale.
static void test_an_overflow_in_fp16(void **state) {
    picture queued[STEPS];
    compare("fp16", 1, queued);
    assert_int_equal(queued[0].update.finite, 1);
    assert_int_equal(queued[1].update.finite, 0);
    assert_int_equal(queued[1].update.stopped, 0);
    assert_int_equal(queued[1].update.skipped, 1);
    assert_true(queued[1].update.loss_scale == queued[0].update.loss_scale / 2);
    assert_false(moved(&queued[1], &queued[0]));
    assert_int_equal(queued[2].update.finite, 1);
    assert_int_equal(queued[2].update.count, 2);
    assert_int_equal(queued[2].update.finite_steps, 1);
    assert_true(moved(&queued[2], &queued[1]));
    drop(queued);
}

static ft_status wait_inside(ft_trainer *t) { return t->room.device->functions->sync(t->room.device); }
static ft_status take_inside(ft_trainer *t) {
    void *data;
    return t->room.device->functions->buffer_alloc(t->room.device, 256, &data);
}
static ft_status read_inside(ft_trainer *t) { // into memory that is not pinned
    float value;
    return t->room.device->functions->download(t->room.device, &value, t->step.losses, sizeof value);
}
static ft_status event_from_outside(ft_trainer *t) {
    return t->room.device->functions->stream_wait(t->room.device, FT_STREAM_COMPUTE, t->step.buffers.slot[0].copied);
}
static ft_status wait_for_an_event_inside(ft_trainer *t) {
    FT_TRY(t->room.device->functions->event_record(t->room.device, t->step.buffers.slot[0].used, FT_STREAM_COMPUTE));
    return t->room.device->functions->event_sync(t->room.device, t->step.buffers.slot[0].used);
}

static void test_what_cannot_be_captured(void **state) {
    static const struct {
        ft_status (*work)(ft_trainer *t);
        const char *words;
    } cases[] = {{wait_inside, "not permitted when stream is capturing"},
                 {take_inside, "not permitted when stream is capturing"},
                 {read_inside, "not permitted when stream is capturing"},
                 {event_from_outside, "dependency created on uncaptured work"},
                 {wait_for_an_event_inside, "an event last recorded in a capturing stream"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ft_trainer t;
        ft_graph *graph;
        open_run(&t, FAKE_LAZY, "fp32");
        set_step(&t, 0, -1);
        const uint64_t before = fake_read().misuses;
        good(t.room.device->functions->graph_begin(t.room.device));
        good(update(&t));
        failed(cases[i].work(&t), FT_FAILED, cases[i].words);
        failed(t.room.device->functions->graph_end(t.room.device, &graph), FT_FAILED, "a previous error during capture");
        assert_null(graph);
        good(t.room.device->functions->event_record(t.room.device, t.step.buffers.slot[0].used,
                                                    FT_STREAM_COMPUTE)); // of no capture any more
        good(micro_step(&t)); // the stream is as before
        picture p = look(&t);
        assert_int_equal(p.update.count, 0); // the update was recorded, not run
        free(p.values);
        assert_true(fake_read().misuses > before); // made on purpose
        close_run(&t, fake_read().misuses);
    }
}

int main(void) {
    ft_log_set_level(FT_LOG_SILENT);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replays_are_the_calls),
        cmocka_unit_test(test_a_non_finite_step),
        cmocka_unit_test(test_an_overflow_in_fp16),
        cmocka_unit_test(test_what_cannot_be_captured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
