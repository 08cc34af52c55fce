// Whole runs with device.graphs=on, on the emulator: the bits of the run that queues call by call, in any order of the queues, with
// dropout, accumulation, evaluations between, a resumed second half, graphs that are evicted and recorded again, and where
// recording fails. Nothing inside a step waits. What would be wrong is planted, and seen.
// ctest: part=2 tsan=leave asan_part=1 cost=1000
// ctest: wrap=ft_steps_queue,ft_step_graphs_queue,ft_step_graphs_record,ft_update_run
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/train/step/graphs.h"
#include "engine/train/step/steps.h"
#include "engine/train/train.h"
#include "engine/train/trainer.h"
#include "kernels/ops/geometry.h"
#include "tests/emulator/driver/fake_driver.h"
#include "tests/fixtures/sanitized.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- what is planted (--wrap, see CMakeLists.txt) -----------------------------------------------------------------------

static enum { NO_FAULT, SLOT_IS_FORGOTTEN, LENGTH_IS_FORGOTTEN, STEP_IS_BAKED_IN } fault;
static int most, refuse_after; // graphs held, 0: as many as there are; instantiations that go well, -1: all
static int launches;           // of graphs that go well before the driver lacks memory for one; -1: all

ft_status __real_ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run);
ft_status __wrap_ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run);
ft_status __wrap_ft_steps_queue(ft_step *step, ft_step_climb *climb, void *run) {
    fake_forbid_waits(true);
    ft_status status = __real_ft_steps_queue(step, climb, run);
    fake_forbid_waits(false);
    return status;
}

ft_status __real_ft_step_graphs_queue(ft_step *step, ft_step_shape shape);
ft_status __wrap_ft_step_graphs_queue(ft_step *step, ft_step_shape shape);
ft_status __wrap_ft_step_graphs_queue(ft_step *step, ft_step_shape shape) {
    if (fault == SLOT_IS_FORGOTTEN) shape.slot = 0;
    if (fault == LENGTH_IS_FORGOTTEN && shape.part == FT_STEP_BATCH) shape.longest = 1;
    return __real_ft_step_graphs_queue(step, shape);
}

void __real_ft_step_graphs_record(ft_step *step);
void __wrap_ft_step_graphs_record(ft_step *step);
void __wrap_ft_step_graphs_record(ft_step *step) {
    if (most > 0) step->graphs.most = most;
    if (refuse_after >= 0 && step->graphs.recorded == 0) fake_refuse("cuGraphInstantiateWithFlags", (uint64_t)refuse_after + 1, 1000, 2);
    if (launches >= 0 && step->graphs.replayed == 0) fake_refuse("cuGraphLaunch", (uint64_t)launches + 1, 1000, 2);
    __real_ft_step_graphs_record(step);
    if (launches >= 0 && step->graphs.ended) fake_refuse(NULL, 1, 0, 0);
    if (refuse_after >= 0 && step->graphs.ended) fake_refuse(NULL, 1, 0, 0);
}

// The learning rate of the step that is queued while recording, as a number of the host.
ft_status __real_ft_update_run(ft_parameters *parameters, const ft_config *c, ft_tensor losses, const ft_step_state *step,
                               ft_update_state *update);
ft_status __wrap_ft_update_run(ft_parameters *parameters, const ft_config *c, ft_tensor losses, const ft_step_state *step,
                               ft_update_state *update);
ft_status __wrap_ft_update_run(ft_parameters *parameters, const ft_config *c, ft_tensor losses, const ft_step_state *step,
                               ft_update_state *update) {
    static int calls;
    ft_device *device = ft_memory_device(parameters->memory);
    const unsigned char rate = (unsigned char)(30 + ++calls % 2); // the first byte of a float is noise, the last its size
    ft_status status = FT_OK;
    if (fault == STEP_IS_BAKED_IN) status = device->functions->fill(device, (void *)(uintptr_t)&step->learning_rate, rate, sizeof(float));
    return status == FT_OK ? __real_ft_update_run(parameters, c, losses, step, update) : status;
}

// ---- one run ------------------------------------------------------------------------------------------------------------

static char scratch[64];
static int run_number;

typedef struct outcome {
    ft_status status;
    char dir[128], message[256];
    char *lines, *model; // metrics.jsonl without the speeds; NULL: there is none
    size_t bytes;
    int64_t recorded, replayed, evicted, queued; // -1: run.json tells nothing of graphs
    int64_t micro_batch;
    bool failed, planned; // planned: bytes as metered
    fake_books books;
} outcome;

static char *read_whole(const char *dir, const char *name, size_t *bytes) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "rb");
    *bytes = 0;
    if (f == NULL) return NULL;
    char *data = NULL;
    size_t got;
    do {
        data = realloc(data, *bytes + 65537);
        assert_non_null(data);
        got = fread(data + *bytes, 1, 65536, f);
        *bytes += got;
    } while (got > 0);
    fclose(f);
    data[*bytes] = '\0';
    return data;
}

static void strip_speeds(char *lines) {
    for (char *at; lines != NULL && (at = strstr(lines, "\"tokens_per_second\"")) != NULL;) {
        size_t length = strcspn(at, "}\n");
        memmove(at, at + length, strlen(at + length) + 1);
    }
}

static void look_at_json(outcome *o) {
    size_t bytes;
    char *text = read_whole(o->dir, "run.json", &bytes);
    o->recorded = -1;
    if (text == NULL) return;
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    assert_non_null(root);
    const json_t *graphs = json_object_get(root, "graphs");
    if (graphs != NULL) {
        o->recorded = json_integer_value(json_object_get(graphs, "recorded"));
        o->replayed = json_integer_value(json_object_get(graphs, "replayed"));
        o->evicted = json_integer_value(json_object_get(graphs, "evicted"));
        o->queued = json_integer_value(json_object_get(graphs, "call_by_call"));
        o->failed = json_is_true(json_object_get(graphs, "failed"));
    }
    o->micro_batch = json_integer_value(json_object_get(json_object_get(root, "resolved"), "micro_batch"));
    const json_t *memory = json_object_get(root, "memory"), *planned = json_object_get(root, "planned");
    o->planned = json_equal(json_object_get(memory, "peak_reserved_bytes"), json_object_get(planned, "peak_reserved_bytes")) &&
                 json_equal(json_object_get(memory, "peak_allocated_bytes"), json_object_get(planned, "peak_allocated_bytes"));
    json_decref(root);
    free(text);
}

// dir: of a run to resume; NULL: a new one.
static outcome run_in(const char *dir, fake_schedule schedule, bool graphs, const char *const *options) {
    fake_settings s = fake_defaults();
    s.version = 13000, s.memory = (size_t)1 << 30, s.schedule = schedule, s.seed = 3;
    fake_reset(&s);
    outcome o = {.recorded = -1};
    size_t length;
    char output[160];
    if (dir != NULL) snprintf(o.dir, sizeof o.dir, "%s", dir);
    else snprintf(o.dir, sizeof o.dir, "%s/run%d", scratch, run_number++);
    snprintf(output, sizeof output, "output.dir=%s", o.dir);
    const char *file = FT_TEST_VECTORS "/trainer/follow.ini";
    const char *all[24] = {output, "device.name=cuda", "data.cache_dir=none", "train.micro_batch=5", "model.hidden_dropout=0.1",
                           "model.attention_dropout=0.1", graphs ? "device.graphs=on" : "device.graphs=off", "output.exists=resume"};
    int count = dir != NULL ? 8 : 7;
    for (; *options != NULL; options++) all[count++] = *options;
    ft_config config;
    if (ft_config_load(&config, 1, &file, count, all) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    o.status = ft_train(&config, NULL);
    ft_config_free(&config);
    snprintf(o.message, sizeof o.message, "%.200s", o.status != FT_OK ? ft_error_message() : "");
    o.lines = read_whole(o.dir, "metrics.jsonl", &length);
    strip_speeds(o.lines);
    o.model = read_whole(o.dir, "model/model.safetensors", &o.bytes);
    look_at_json(&o);
    o.books = fake_read();
    return o;
}

static outcome run(fake_schedule schedule, bool graphs, const char *const *options) { return run_in(NULL, schedule, graphs, options); }

static void drop(outcome *o) {
    free(o->lines);
    free(o->model);
}

static bool same(const outcome *a, const outcome *b) {
    return a->status == b->status && a->lines != NULL && b->lines != NULL && strcmp(a->lines, b->lines) == 0 && a->bytes == b->bytes &&
           a->bytes > 0 && memcmp(a->model, b->model, a->bytes) == 0;
}

// A run that went well, gave everything back and asked for nothing that is forbidden.
static void clean_session(const outcome *o) {
    const fake_books *b = &o->books;
    if (o->status != FT_OK) fail_msg("%s", o->message);
    assert_int_equal(b->misuses, 0);
    assert_int_equal(b->contexts + b->streams + b->events + b->graphs, 0);
    assert_int_equal(b->buffers + b->pinned + b->reservations + b->handles + b->mappings, 0);
}

static void clean(const outcome *o) {
    clean_session(o);
    assert_true(o->planned);
}

#define EVALUATED                                                                                                             \
    "data.validation=" FT_TEST_VECTORS "/trainer/validation.tsv", "eval.strategy=steps", "eval.steps=5", "train.logging_steps=1"
static const char *const twelve[] = {"train.max_steps=12", EVALUATED, NULL};
static outcome reference; // of twelve, call by call

static int set_up(void **state) {
    ft_log_set_level(FT_LOG_SILENT);
    refuse_after = launches = -1;
    snprintf(scratch, sizeof scratch, "/tmp/test_step_graphs_XXXXXX");
    if (mkdtemp(scratch) == NULL) return 1;
    reference = run(FAKE_EAGER, false, twelve);
    if (reference.status != FT_OK) print_error("%s\n", reference.message);
    return reference.status != FT_OK;
}

static int tear_down(void **state) {
    drop(&reference);
    return ft_remove_tree(scratch) == FT_OK ? 0 : 1;
}

// ---- right --------------------------------------------------------------------------------------------------------------

static void test_graphs_give_the_same(void **state) {
    static const fake_schedule schedules[] = {FAKE_LAZY, FAKE_EAGER, FAKE_RANDOM};
    clean(&reference);
    assert_int_equal(reference.recorded, -1);
    for (int i = FT_SANITIZED ? 2 : 0; i < 3; i++) {
        outcome o = run(schedules[i], true, twelve);
        clean(&o);
        if (!same(&o, &reference)) fail_msg("schedule %d: another run", (int)schedules[i]);
        assert_true(o.recorded >= 3);
        assert_true(o.replayed > o.recorded);
        assert_false(o.failed);
        drop(&o);
    }
}

// Every way in which a step is put together.
static void test_kinds_of_runs(void **state) {
    static const char *const kinds[][9] = { // gradients kept, and with the whole batch at once in the arena
        {"train.max_steps=12", EVALUATED, "train.precision=bf16", "train.gradient_accumulation_steps=2", NULL},
        {"train.max_steps=12", EVALUATED, "train.precision=fp16", "train.gradient_checkpointing=1", "train.micro_batch=8", NULL},
        {"train.max_steps=12", EVALUATED, "model.freeze_layers=1", "train.micro_batch_tokens=50", NULL},
        {"train.max_steps=12", EVALUATED, "memory.active_vocabulary=off", "train.label_smoothing=0.1", "train.micro_batch=8", NULL}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        outcome graphs = run(FAKE_RANDOM, true, kinds[i]);
        clean(&graphs);
        assert_true(graphs.replayed > graphs.recorded);
        if (!FT_SANITIZED) {
            outcome calls = run(FAKE_EAGER, false, kinds[i]);
            clean(&calls);
            if (!same(&calls, &graphs)) fail_msg("%s %s: another run", kinds[i][5], kinds[i][6]);
            drop(&calls);
        }
        drop(&graphs);
    }
}

// DeBERTa's projections of positions are made around the micro-batches, and their gradients are summed over sequences that the
// filling is one of: the same bits as of filled micro-batches that are queued call by call. Heads of 8 in fp32 take the plain
// kernels, heads of 32 in bf16 those of the tensor cores, where a slot baked in is seen as well.
static void test_deberta(void **state) {
    char make[1024], path[160];
    snprintf(make, sizeof make, "cd %s && for m in narrow wide; do mkdir $m && cp %s/trainer/model/vocab.txt $m && "
             "echo '{\"tokenizer_class\": \"BertTokenizer\"}' >$m/tokenizer_config.json && "
             "sed \"s/\\\"vocab_size\\\": *[0-9]*/\\\"vocab_size\\\": $(wc -l <$m/vocab.txt)/\" %s/deberta_v3/config.json "
             ">$m/config.json || exit 1; done && "
             "sed -i 's/hidden_size\": *[0-9]*/hidden_size\": 64/; s/attention_heads\": *[0-9]*/attention_heads\": 2/; "
             "s/initializer_range\": *[0-9.]*/initializer_range\": 0.1/' wide/config.json", scratch, FT_TEST_VECTORS, FT_TEST_VECTORS);
    assert_int_equal(system(make), 0);
    for (int wide = FT_SANITIZED; wide < 2; wide++) {
        snprintf(path, sizeof path, "model.path=%s/%s", scratch, wide ? "wide" : "narrow");
        const char *const options[] = {path, "model.init=random", "train.max_steps=12", EVALUATED, "train.micro_batch=8",
                                       wide ? "train.precision=bf16" : "train.precision=fp32", NULL};
        outcome graphs = run(FAKE_RANDOM, true, options);
        refuse_after = 0;
        outcome calls = run(FAKE_EAGER, true, options);
        refuse_after = -1;
        clean(&graphs), clean(&calls);
        assert_true(graphs.replayed > graphs.recorded && graphs.recorded >= 4);
        assert_int_equal(calls.replayed, 0);
        if (!same(&graphs, &calls)) fail_msg("%s: another run", path);
        if (wide && !FT_SANITIZED) {
            fault = SLOT_IS_FORGOTTEN;
            outcome planted = run(FAKE_RANDOM, true, options);
            fault = NO_FAULT;
            if (same(&planted, &graphs)) fail_msg("a forgotten slot is not seen");
            drop(&planted);
        }
        drop(&graphs), drop(&calls);
    }
}

// A run that was begun call by call goes on with graphs, and the other way round.
static void test_resumed(void **state) {
    static const char *const early[] = {"train.max_steps=12", EVALUATED, "output.save_steps=6", "output.save_total_limit=5", NULL};
    for (int first = FT_SANITIZED; first < 2; first++) {
        outcome whole = run(FAKE_LAZY, first == 1, early);
        clean(&whole);
        char path[192];
        snprintf(path, sizeof path, "%s/checkpoints/step-00000012", whole.dir);
        assert_int_equal(ft_remove_tree(path), FT_OK); // as if it had been killed
        outcome resumed = run_in(whole.dir, FAKE_LAZY, first == 0, early);
        clean_session(&resumed); // its peaks are those of both sessions
        assert_true(same(&resumed, &whole));
        assert_true(same(&resumed, &reference));
        drop(&whole), drop(&resumed);
    }
}

// Texts of all lengths: micro-batches of five and of three, each of as many sizes as multiples of plan.bucket go into it, in two
// slots. The filling has every length there is, which is no part of the shape.
static void test_shapes_come_back(void **state) {
    FT_PLAIN_ONLY();
    static const char *const options[] = {"train.max_steps=75", NULL}; // two epochs
    outcome o = run(FAKE_EAGER, true, options);
    clean(&o);
    print_message("%lld shapes recorded, %lld parts of steps replayed, %lld call by call\n", (long long)o.recorded, (long long)o.replayed,
                  (long long)o.queued);
    // The longest text is shorter than two of plan.bucket. Besides: beginning, end, and updates of two sizes.
    assert_true(o.recorded <= 2 * (5 + 3) * FT_BATCH_SLOTS + 4);
    assert_int_equal(o.evicted, 0);
    assert_int_equal(o.micro_batch, 5); // of texts
    assert_true(o.replayed > 4 * o.queued);
    drop(&o);
}

// Micro-batches are filled up to multiples of a power of two, with rows of zeros: in the same tiles they give the same sums.
static void test_filling_up_keeps_the_tiles(void **state) {
    for (int64_t bucket = 1; bucket <= FT_STEP_GRAPH_TOKENS; bucket *= 2)
        for (int64_t rows = 1; rows <= 20000; rows++)
            assert_int_equal(ft_cuda_tile_rows(rows), ft_cuda_tile_rows((rows + bucket - 1) / bucket * bucket));
    for (int32_t longest = 1; longest <= 200; longest++) {
        ft_run_plan plan = {.capacity = {.sequences = 3, .tokens = 3 * longest, .longest = longest}};
        ft_run_plan_fill_up(&plan);
        assert_int_equal(plan.bucket & (plan.bucket - 1), 0);
        assert_in_range(plan.bucket, 1, longest);
        assert_true(plan.capacity.tokens >= 3 * longest && plan.capacity.tokens < 3 * longest + plan.bucket);
    }
}

static void test_evicted(void **state) {
    most = 2;
    outcome o = run(FAKE_LAZY, true, twelve);
    most = 0;
    clean(&o);
    assert_true(same(&o, &reference));
    assert_true(o.evicted > 0);
    assert_true(o.recorded >= o.evicted + 1);
    drop(&o);
}

static void test_recording_fails(void **state) {
    for (refuse_after = FT_SANITIZED ? 2 : 0; refuse_after < 4; refuse_after += 2) {
        outcome o = run(FAKE_LAZY, true, twelve);
        clean(&o);
        assert_true(same(&o, &reference));
        assert_true(o.failed);
        assert_int_equal(o.recorded, refuse_after);
        drop(&o);
    }
    refuse_after = -1;
}

// In the middle of a step as at its beginning.
static void test_launching_fails(void **state) {
    for (launches = FT_SANITIZED ? 6 : 0; launches < 8; launches += 3) {
        outcome o = run(FAKE_LAZY, true, twelve);
        clean(&o);
        assert_true(same(&o, &reference));
        assert_true(o.failed);
        assert_int_equal(o.replayed, launches);
        assert_true(o.recorded > 0);
        drop(&o);
    }
    launches = -1;
}

// A step that is not finite: the same report, and nothing behind it counted.
static void test_divergence(void **state) {
    FT_PLAIN_ONLY();
    static const char *const options[] = {"train.max_steps=60", "train.learning_rate=100", "train.warmup_steps=8", "train.weight_decay=1",
                                          "train.lr_scheduler=constant_with_warmup", NULL};
    outcome calls = run(FAKE_EAGER, false, options), graphs = run(FAKE_LAZY, true, options);
    assert_int_equal(calls.status, FT_DIVERGED);
    assert_int_equal(graphs.status, FT_DIVERGED);
    assert_string_equal(calls.message, graphs.message);
    assert_string_equal(calls.lines, graphs.lines);
    assert_true(graphs.replayed > 0);
    drop(&calls), drop(&graphs);
}

// ---- wrong --------------------------------------------------------------------------------------------------------------

static void test_planted(void **state) {
    FT_PLAIN_ONLY();
    for (int f = SLOT_IS_FORGOTTEN; f <= STEP_IS_BAKED_IN; f++) {
        fault = f;
        outcome o = run(FAKE_RANDOM, true, twelve);
        fault = NO_FAULT;
        if (same(&o, &reference)) fail_msg("fault %d is not seen", f);
        drop(&o);
    }
}

static void test_on_the_cpu(void **state) {
    const char *file = FT_TEST_VECTORS "/trainer/follow.ini", *options[] = {"device.name=cpu", "device.graphs=on", "output.dir=none"};
    ft_config config;
    assert_int_equal(ft_config_load(&config, 1, &file, 3, options), FT_OK);
    assert_int_equal(ft_train(&config, NULL), FT_INVALID);
    assert_non_null(strstr(ft_error_message(), "there are no graphs on cpu"));
    ft_config_free(&config);
    ft_error_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs_give_the_same), cmocka_unit_test(test_kinds_of_runs),
        cmocka_unit_test(test_deberta),              cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_shapes_come_back),     cmocka_unit_test(test_filling_up_keeps_the_tiles),
        cmocka_unit_test(test_evicted),
        cmocka_unit_test(test_recording_fails),      cmocka_unit_test(test_launching_fails),  cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_planted),              cmocka_unit_test(test_on_the_cpu),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
