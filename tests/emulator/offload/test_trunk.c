// memory.offload = trunk on a CUDA device: frozen layers in memory of the host, two of them on the device at a time, give the bits of a run that
// keeps them, in any order of the queues: families, precisions, packed weights, recomputation, layers that share weights, layers below which nothing is
// trained, beside AdamW's state and inputs on the host and across resumes. Every wait is needed; the device holds two layers and
// the host the rest, to the byte; memory that is refused ends in one error or in the same bits; what makes no sense is refused in one line.
// ctest: tsan=leave asan_part=2
// ctest: wrap=ft_steps_queue,ft_cuda_host_alloc,ft_cuda_range_commit,ft_cpu_available_bytes,ft_window_enter,ft_cuda_stream_wait
// ctest: wrap=ft_cuda_upload_beside,ft_step_carry_state,ft_cuda_event_sync
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/files/safetensors.h"
#include "engine/model/state/window.h"
#include "kernels/devices/cost.h"
#include "tests/emulator/offload/runs.h"
#include "tests/fixtures/sanitized.h"

enum { LAYERS = 5, STEPS = 2 };

// ---- what is planted (--wrap, see CMakeLists.txt) -----------------------------------------------------------------------

static enum {
    NO_FAULT,
    LAYER_IS_THERE, // what is computed waits until the layer has come
    PLACE_IS_FREE,  // what comes waits until nothing reads its place any more
    WAY_IS_FREE,    // what is read from a file waits until what was read before has gone up
} fault;
static bool entering;
static int sent; // layers, to the device itself and not to those that plan

ft_status __real_ft_window_enter(ft_window *window, int layer, int next);
ft_status __wrap_ft_window_enter(ft_window *window, int layer, int next);
ft_status __wrap_ft_window_enter(ft_window *window, int layer, int next) {
    entering = true;
    ft_status status = __real_ft_window_enter(window, layer, next);
    entering = false;
    int held = 0;
    for (int i = 0; i < window->count; i++) held += window->held[i] >= 0;
    assert_true(held <= FT_WINDOW_PLACES && window->count <= FT_WINDOW_PLACES);
    return status;
}

ft_status __real_ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event);
ft_status __wrap_ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event);
ft_status __wrap_ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event) {
    if (entering && fault == (stream == FT_STREAM_COMPUTE ? LAYER_IS_THERE : PLACE_IS_FREE)) return FT_OK;
    return __real_ft_cuda_stream_wait(device, stream, event);
}

ft_status __real_ft_cuda_event_sync(ft_device *device, ft_event *event);
ft_status __wrap_ft_cuda_event_sync(ft_device *device, ft_event *event);
ft_status __wrap_ft_cuda_event_sync(ft_device *device, ft_event *event) {
    if (!entering) return __real_ft_cuda_event_sync(device, event);
    if (fault == WAY_IS_FREE) return FT_OK;
    fake_forbid_waits(false); // layers that come from files: the host waits for the one before the last
    ft_status status = __real_ft_cuda_event_sync(device, event);
    fake_forbid_waits(queueing);
    return status;
}

ft_status __real_ft_cuda_upload_beside(ft_device *device, void *to, const void *from, size_t bytes);
ft_status __wrap_ft_cuda_upload_beside(ft_device *device, void *to, const void *from, size_t bytes);
ft_status __wrap_ft_cuda_upload_beside(ft_device *device, void *to, const void *from, size_t bytes) {
    sent += entering;
    return __real_ft_cuda_upload_beside(device, to, from, bytes);
}

static int carried; // states, from the device to another
ft_status __real_ft_step_carry_state(ft_step *step);
ft_status __wrap_ft_step_carry_state(ft_step *step);
ft_status __wrap_ft_step_carry_state(ft_step *step) {
    carried += step->room->state_built;
    return __real_ft_step_carry_state(step);
}

// ---- runs ---------------------------------------------------------------------------------------------------------------

// Models of LAYERS layers, with configurations of tests/vectors and the trainer's vocabulary.
static const struct {
    const char *name, *vectors;
    int hidden; // 0: as it is
} models[] = {{"bert", "bert_gelu", 16},       {"wide", "bert_gelu", 64},      {"deberta", "deberta_v3", 24}, {"albert", "albert", 24},
              {"qwen2", "causal_lm/qwen2", 36}, {"tied", "causal_lm/qwen2_tied", 36}, {"llama", "causal_lm/llama", 36}};

static void make_model(const char *name, const char *vectors, int hidden) {
    char path[256], command[700];
    json_t *config;
    snprintf(path, sizeof path, FT_TEST_VECTORS "/%s/config.json", vectors);
    assert_int_equal(ft_json_load(path, &config), FT_OK);
    json_object_del(config, "layer_types");
    json_object_set_new(config, "num_hidden_layers", json_integer(LAYERS));
    json_object_set_new(config, "vocab_size", json_integer(264));
    json_object_set_new(config, "initializer_range", json_real(0.3));
    json_object_set_new(config, "hidden_size", json_integer(hidden));
    if (strcmp(name, "bert") == 0 || strcmp(name, "wide") == 0) json_object_set_new(config, "num_attention_heads", json_integer(2));
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%s/config.json", scratch, name);
    assert_int_equal(json_dump_file(config, path, 0), 0);
    json_decref(config);
    snprintf(command, sizeof command, "cp " FT_TEST_VECTORS "/trainer/model/vocab.txt '%s/%s' && echo '{\"tokenizer_class\": \"BertTokenizer\"}' >'%s/%s/tokenizer_config.json'",
             scratch, name, scratch, name);
    assert_int_equal(system(command), 0);
}

static const char *const common[] = {"model.init=random", "train.max_steps=2", "train.batch_size=3", "train.micro_batch=2", "data.max_length=9", "output.save_steps=1", "train.warmup_steps=0",
                                     "memory.loss_rows=33", "model.hidden_dropout=0.1", NULL};
static const run_base base = {FT_TEST_VECTORS "/trainer/follow.ini", common, "checkpoints/step-00000002/state.safetensors"};

#define LORA "adapter.type=lora", "adapter.targets=all-linear", "adapter.r=3", "adapter.init=false"
enum { MOST = 12 };
typedef struct way {
    const char *name, *model, *offload;
    const char *options[MOST];
    int sent; // layers that travel in a run without evaluations; 0: not counted
} way;

// Two micro-batches a step. The first of all sends every layer forward; back, the last two are there, and so are the first two of the next.
enum { FIRST = LAYERS, BACK = LAYERS - 2, BOTH = STEPS * 2 * (2 * BACK) + 2 };
static const way ways[] = {
    {"adapters in fp32", "bert", "trunk", {LORA, "train.gradient_checkpointing=on", "adapter.dropout=0.1", NULL}, BOTH},
    {"all activations kept", "wide", "trunk+optimizer", {LORA, "train.precision=bf16", NULL}, BOTH},
    {"every second layer computed again", "tied", "trunk+all", {LORA, "train.task=causal_lm", "train.precision=bf16", "train.gradient_checkpointing=2", NULL}, 0},
    {"a head of its own, a table on the host", "qwen2", "trunk+all", {LORA, "train.task=causal_lm", "train.precision=bf16", "train.gradient_checkpointing=on", NULL}, BOTH},
    {"fp16", "llama", "trunk+activations", {LORA, "train.task=causal_lm", "train.precision=fp16", "train.gradient_checkpointing=on", "memory.active_vocabulary=off", NULL}, BOTH},
    {"4 bits", "wide", "trunk", {LORA, "train.precision=bf16", "model.storage=nf4", "train.gradient_checkpointing=3", NULL}, 0},
    {"4 bits, scales of 8", "qwen2", "trunk+optimizer", {LORA, "train.task=causal_lm", "model.storage=nf4_double", "train.gradient_checkpointing=on", NULL}, BOTH},
    {"8 bits, magnitudes", "bert", "trunk", {"adapter.type=dora", "adapter.targets=query,value,output.dense", "adapter.r=2", "model.storage=int8", "train.gradient_checkpointing=on", NULL}, BOTH},
    {"frozen in 16 bits", "bert", "trunk", {LORA, "model.storage=bf16", NULL}, BOTH},
    {"relative positions", "deberta", "trunk", {LORA, "train.gradient_checkpointing=on", NULL}, 0},
    {"shared weights", "albert", "trunk", {LORA, NULL}, 1},
    {"biases", "bert", "trunk", {"train.parameters=biases", NULL}, BOTH},
    {"the first three layers", "bert", "trunk", {"model.freeze_layers=3", "train.gradient_checkpointing=on", NULL}, 0},
    {"layers that nothing goes back through", "bert", "trunk", {"train.parameters=classifier", "train.frozen_dropout=on", NULL}, 0},
    {"features", "bert", "trunk", {"train.parameters=classifier", "data.feature_cache=off", NULL}, 0},
    {"16 bits between layers", "qwen2", "trunk+activations", {LORA, "train.task=causal_lm", "train.precision=bf16", "train.residual=16bit", "train.gradient_checkpointing=on", NULL}, BOTH},
};
enum { WAYS = sizeof ways / sizeof ways[0] };
static outcome reference[WAYS];

static outcome run_way(const way *w, const char *offload, const char *const *more, fake_schedule schedule, uint64_t seed, const char *dir) {
    const char *options[MOST + 8];
    char path[128], set[64];
    int count = 0;
    snprintf(path, sizeof path, "model.path=%s/%s", scratch, w->model);
    snprintf(set, sizeof set, "memory.offload=%s", offload);
    options[count++] = path;
    for (int i = 0; w->options[i] != NULL; i++) options[count++] = w->options[i];
    options[count++] = set;
    for (; more != NULL && *more != NULL; more++) options[count++] = *more;
    options[count] = NULL;
    reset_driver(schedule, seed);
    sent = 0;
    return run_in(&base, dir, options);
}

static int set_up(void **state) {
    ft_log_set_level(FT_LOG_SILENT);
    snprintf(scratch, sizeof scratch, "/tmp/test_offload_XXXXXX");
    if (mkdtemp(scratch) == NULL) return 1;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) make_model(models[i].name, models[i].vectors, models[i].hidden);
    for (int w = 0; w < WAYS; w++) {
        reference[w] = run_way(&ways[w], "none", NULL, FAKE_EAGER, 0, NULL);
        if (reference[w].status != FT_OK) return print_error("%s: %s (%s)\n", ways[w].name, ft_error_message(), ft_error_where()), 1;
        if (sent != 0) return print_error("%s: layers travel without being asked\n", ways[w].name), 1;
    }
    return 0;
}

static int tear_down(void **state) { return ft_remove_tree(scratch) == FT_OK ? 0 : 1; }

static void good(const outcome *o, int w) {
    if (o->status != FT_OK) fail_msg("%s: %s (%s)", ways[w].name, ft_error_message(), ft_error_where());
    if (!same(o, &reference[w])) fail_msg("%s: another run", ways[w].name);
    assert_int_equal(o->books.misuses, 0);
    assert_int_equal(left(&o->books), 0);
    json_t *planned = memory_of(o->dir, "planned"), *metered = memory_of(o->dir, "memory");
    if (!json_equal(planned, metered)) fail_msg("%s: planned and metered differ", ways[w].name);
    json_decref(planned);
    json_decref(metered);
}

// ---- the same bits ------------------------------------------------------------------------------------------------------

static void test_in_any_order(void **state) {
    static const fake_schedule schedules[] = {FAKE_LAZY, FAKE_RANDOM, FAKE_FIRST_EAGER, FAKE_FIRST_LAZY};
    for (int w = 0; w < WAYS; w++)
        for (size_t s = 0; s < sizeof schedules / sizeof schedules[0]; s++) {
            if ((w >= 2 || FT_SANITIZED) && s != (size_t)w % 4) continue;
            outcome o = run_way(&ways[w], ways[w].offload, NULL, schedules[s], (uint64_t)w, NULL);
            good(&o, w);
            if (ways[w].sent > 0) assert_int_equal(sent, ways[w].sent);
            else assert_true(sent > 0);
        }
}

// ---- from files ---------------------------------------------------------------------------------------------------------

static ft_status first_halves(void *context, int index, size_t offset, size_t bytes, const void **data) {
    static uint16_t room[1 << 16];
    ft_safetensors *file = context;
    const ft_safetensor *t = ft_safetensors_at(file, index);
    assert_true(bytes <= sizeof room);
    for (size_t i = 0; i < bytes / 2; i++) {
        uint32_t bits;
        memcpy(&bits, (const char *)t->data + (offset / 2 + i) * sizeof bits, sizeof bits);
        room[i] = (uint16_t)(bits >> 16);
    }
    *data = room;
    return FT_OK;
}

// What a run of random weights leaves, in bf16 where it is asked for.
static void write_weights(const way *w, bool halves, char path[static 160]) {
    static const char *const task[] = {"train.task=causal_lm", NULL};
    char option[160], from[200], to[200], command[500];
    snprintf(option, sizeof option, "model.path=%s/%s", scratch, w->model);
    const char *options[] = {option, "train.max_steps=1", "train.learning_rate=1e-30", "device.name=cpu", strstr(w->model, "qwen") != NULL ? task[0] : NULL, NULL};
    reset_driver(FAKE_EAGER, 0);
    const outcome o = run_in(&base, NULL, options);
    if (o.status != FT_OK) fail_msg("%s: %s (%s)", w->name, ft_error_message(), ft_error_where());
    snprintf(path, 160, "%s/model", o.dir);
    if (!halves) return;
    snprintf(from, sizeof from, "%s/model.safetensors", path);
    snprintf(to, sizeof to, "%s/halves.safetensors", path);
    ft_safetensors *file;
    assert_int_equal(ft_safetensors_open(from, &file), FT_OK);
    const int count = ft_safetensors_count(file);
    ft_safetensor *list = calloc((size_t)count, sizeof *list);
    assert_non_null(list);
    for (int i = 0; i < count; i++) {
        list[i] = *ft_safetensors_at(file, i);
        list[i].dtype = FT_BF16, list[i].dtype_name = NULL, list[i].bytes /= 2;
    }
    FILE *out = fopen(to, "wb");
    assert_non_null(out);
    assert_int_equal(ft_safetensors_write_from(out, to, count, list, NULL, 1 << 12, first_halves, file), FT_OK);
    assert_int_equal(fclose(out), 0);
    ft_safetensors_close(file);
    free(list);
    snprintf(command, sizeof command, "mv '%s' '%s'", to, from);
    assert_int_equal(system(command), 0);
}

static size_t pinned_of(const outcome *o) {
    json_t *memory = memory_of(o->dir, "memory");
    const size_t bytes = (size_t)json_integer_value(json_object_get(memory, "host_pinned_bytes"));
    json_decref(memory);
    return bytes;
}

// The file that a layer comes from has no copy on the host, but two layers on their way.
static void test_from_files(void **state) {
    static const struct {
        int way;
        bool halves, maps; // the file's numbers; are they what is needed?
    } cases[] = {{0, false, true}, {3, true, true}, {8, true, true}, {3, false, false}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const way *w = &ways[cases[c].way];
        char path[160], option[180];
        write_weights(w, cases[c].halves, path);
        snprintf(option, sizeof option, "model.path=%s", path);
        const char *copied[] = {option, "model.init=pretrained", "memory.map_weights=off", NULL}, *mapped[] = {option, "model.init=pretrained", "memory.map_weights=on", NULL};
        const outcome kept = run_way(w, "none", mapped, FAKE_EAGER, 0, NULL), copy = run_way(w, w->offload, copied, FAKE_EAGER, 0, NULL);
        if (kept.status != FT_OK || copy.status != FT_OK) fail_msg("%s: %s (%s)", w->name, ft_error_message(), ft_error_where());
        assert_true(same(&kept, &copy));
        for (int s = 0; s < (FT_SANITIZED ? 1 : 3); s++) {
            static const fake_schedule schedules[] = {FAKE_RANDOM, FAKE_LAZY, FAKE_FIRST_LAZY};
            const outcome o = run_way(w, w->offload, mapped, schedules[s], c, NULL);
            if (o.status != FT_OK) fail_msg("%s: %s (%s)", w->name, ft_error_message(), ft_error_where());
            if (!same(&o, &kept)) fail_msg("%s, from files: another run", w->name);
            assert_int_equal(o.books.misuses, 0);
            assert_int_equal(left(&o.books), 0);
            json_t *planned = memory_of(o.dir, "planned"), *metered = memory_of(o.dir, "memory");
            assert_true(json_equal(planned, metered));
            json_decref(planned);
            json_decref(metered);
            if (cases[c].maps) assert_true(pinned_of(&o) < pinned_of(&copy));
            else assert_int_equal(pinned_of(&o), pinned_of(&copy));
        }
        if (c > 0 || FT_SANITIZED) continue;
        bool seen = false; // a way that is not waited for
        for (int schedule = FAKE_SCHEDULES - 1; schedule >= 0 && !seen; schedule--) {
            fault = WAY_IS_FREE;
            const outcome o = run_way(w, w->offload, mapped, (fake_schedule)schedule, 1, NULL);
            fault = NO_FAULT;
            seen = !same(&o, &kept) || o.books.misuses > 0;
        }
        assert_true(seen);
    }
}

// The rest of a step may come from graphs; evaluations read the same layers.
static void test_beside_graphs_and_evaluations(void **state) {
    static const char *const graphs[] = {"device.graphs=on", NULL};
    static const char *const evaluation[] = {"data.validation=" FT_TEST_VECTORS "/trainer/validation.tsv", "eval.strategy=steps", "eval.steps=1", NULL};
    outcome o = run_way(&ways[1], ways[1].offload, graphs, FAKE_RANDOM, 3, NULL);
    good(&o, 1);
    o = run_way(&ways[0], "none", evaluation, FAKE_EAGER, 0, NULL);
    const outcome other = run_way(&ways[0], ways[0].offload, evaluation, FAKE_RANDOM, 4, NULL);
    assert_int_equal(o.status, FT_OK);
    assert_true(same(&o, &other) && other.books.misuses == 0);
}

// Stopped where they lie in one place, and continued where they lie in the other.
static void test_resumed_elsewhere(void **state) {
    for (int first = 0; first < 2; first++) {
        const way *w = &ways[12]; // whose checkpoints have the frozen layers
        steps_to_stop = 1;
        outcome o = run_way(w, first ? w->offload : "none", NULL, FAKE_LAZY, 0, NULL);
        assert_int_equal(steps_to_stop, 0);
        assert_int_equal(o.status, FT_INTERRUPTED);
        o = run_way(w, first ? "none" : w->offload, NULL, FAKE_LAZY, 0, o.dir);
        if (o.status != FT_OK || !same(&o, &reference[12])) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    }
}

// Under some order of the queues another run comes out, or one that does what the driver forbids.
static void caught(int planted, int w) {
    FT_PLAIN_ONLY();
    bool seen = false;
    for (int schedule = FAKE_SCHEDULES - 1; schedule >= 0 && !seen; schedule--) {
        fault = planted;
        outcome o = run_way(&ways[w], ways[w].offload, NULL, (fake_schedule)schedule, 1, NULL);
        fault = NO_FAULT;
        seen = !same(&o, &reference[w]) || o.books.misuses > 0;
    }
    assert_true(seen);
}
static void test_read_before_it_came(void **state) { caught(LAYER_IS_THERE, 0), caught(LAYER_IS_THERE, 5); }
static void test_overwritten_while_read(void **state) { caught(PLACE_IS_FREE, 0), caught(PLACE_IS_FREE, 5); }

// ---- memory -------------------------------------------------------------------------------------------------------------

static ft_plan plan_of(const char *model, const char *offload, const char *storage, size_t budget) {
    char path[160], option[64], kept[64];
    snprintf(path, sizeof path, "model.path=%s/%s", scratch, model);
    snprintf(option, sizeof option, "memory.offload=%s", offload);
    snprintf(kept, sizeof kept, "model.storage=%s", storage);
    const char *options[] = {path, "model.init=random", "data.max_length=32", "device.name=cuda", "train.precision=bf16", "train.task=causal_lm",
                             "train.batch_size=4", "train.gradient_checkpointing=on", "memory.loss_rows=16", LORA, option, kept};
    ft_config config;
    ft_plan plan;
    assert_int_equal(ft_config_load(&config, 0, NULL, sizeof options / sizeof options[0], options), FT_OK);
    if (ft_plan_run(&config, &(ft_plan_request){.budget_bytes = budget}, &plan) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    ft_config_free(&config);
    return plan;
}

// A decoder whose layers are what its memory is about.
static void write_decoder(int layers, int hidden, int vocabulary) {
    char path[128];
    snprintf(path, sizeof path, "%s/decoder", scratch);
    if (!ft_path_exists(path)) assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/decoder/config.json", scratch);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"model_type\": \"qwen2\", \"vocab_size\": %d, \"hidden_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": 8, \"num_key_value_heads\": 2, "
               "\"intermediate_size\": %d, \"max_position_embeddings\": 64, \"hidden_act\": \"silu\", \"tie_word_embeddings\": false, \"pad_token_id\": 0}\n",
            vocabulary, hidden, layers, 3 * hidden);
    fclose(f);
}

enum { DEEP = 10, WIDTH = 512, WORDS = 3000 };

static void test_two_layers_are_there(void **state) {
    const size_t enough = (size_t)64 << 30, square = (size_t)WIDTH * WIDTH, table = (size_t)WORDS * WIDTH * 2;
    const size_t exact = 2 * square + 2 * square / 4 + 9 * square; // Q and what is behind the attention, K and V, and three of the feed-forward
    reset_driver(FAKE_LAZY, 0);
    write_decoder(DEEP, WIDTH, WORDS);
    const ft_plan kept = plan_of("decoder", "none", "bf16", enough), away = plan_of("decoder", "trunk", "bf16", enough);
    assert_true(kept.fits && away.fits && away.offloads_trunk && !kept.offloads_trunk);
    assert_int_equal(kept.memory.peak_requested - away.memory.peak_requested, (DEEP - 2) * exact * 2 + table);
    assert_int_equal(away.memory.peak_pinned - kept.memory.peak_pinned, DEEP * exact * 2 + table);
    // Packed: half a byte a number, and a scale for 64.
    const ft_plan small = plan_of("decoder", "none", "nf4", enough), packed = plan_of("decoder", "trunk", "nf4", enough);
    assert_int_equal(small.memory.peak_requested - packed.memory.peak_requested, (DEEP - 2) * (exact / 2 + exact / 64 * 4) + table);
    // The link is beside what is computed: of few tokens it is most of the step.
    const double link = (double)(2 * DEEP - 4) * (double)exact * 2 / ft_rates_of(&(ft_target){.backend = FT_BACKEND_CUDA}).link;
    assert_true(away.step_seconds > kept.step_seconds && away.step_seconds < kept.step_seconds + 1.2 * link);
}

// auto: the host where nothing else fits, and has room; a model of which nothing is frozen keeps what it has.
static void test_autofit(void **state) {
    const size_t enough = (size_t)64 << 30;
    reset_driver(FAKE_LAZY, 0);
    write_decoder(DEEP, WIDTH, WORDS);
    const ft_plan kept = plan_of("decoder", "none", "bf16", enough), away = plan_of("decoder", "trunk+all", "bf16", enough);
    const ft_plan may = plan_of("decoder", "auto", "bf16", enough);
    assert_true(may.fits && !may.offloads_trunk && may.memory.peak_reserved == kept.memory.peak_reserved);
    const size_t budget = away.memory.peak_reserved + (kept.memory.peak_reserved - away.memory.peak_reserved) / 8;
    assert_true(budget < kept.memory.peak_reserved);
    const ft_plan fitted = plan_of("decoder", "auto", "bf16", budget);
    assert_true(fitted.fits && fitted.offloads_trunk && fitted.memory.peak_reserved <= budget);
    char text[FT_FITTING_TEXT];
    assert_non_null(strstr(ft_fitting_text(&fitted.autofit.choice, text), "frozen layers"));
    host_bytes = 1 << 20; // where the host has no room it is no choice
    const ft_plan alone = plan_of("decoder", "auto", "bf16", budget);
    host_bytes = 0;
    assert_true(!alone.offloads_trunk && !alone.fits);
}

// Requests for memory are refused, of the host and of the device, once and from then on.
enum { EVERY = FT_SANITIZED ? 17 : 6 };
static void test_refused_memory(void **state) {
    int completed = 0, failed = 0;
    for (int kind = 0; kind < 4; kind++) {
        of_host = kind % 2 == 1, lasting = kind >= 2;
        bool beyond = false;
        for (refuse_at = 1 + kind % 3; !beyond; refuse_at += EVERY) {
            requests = 0;
            outcome o = run_way(&ways[3], ways[3].offload, NULL, FAKE_LAZY, 0, NULL);
            if (o.status == FT_OK) assert_true(same(&o, &reference[3]));
            else if (o.status != FT_NO_MEMORY) fail_msg("kind %d, request %d: %s (%s)", kind, refuse_at, ft_error_message(), ft_error_where());
            assert_int_equal(o.books.misuses, 0);
            assert_int_equal(left(&o.books), 0);
            *(o.status == FT_OK ? &completed : &failed) += 1;
            beyond = requests < refuse_at; // it took so many, and none was refused
        }
    }
    refuse_at = 0;
    print_message("%d runs completed, %d ended with the error\n", completed, failed);
    assert_true(completed > 1 && failed > (FT_SANITIZED ? 1 : 3));
}

// Bytes of a tensor of the saved model.
static const ft_safetensor *tensor_of(const outcome *o, const char *name, ft_safetensors **file) {
    char path[256];
    snprintf(path, sizeof path, "%s/model/model.safetensors", o->dir);
    assert_int_equal(ft_safetensors_open(path, file), FT_OK);
    const ft_safetensor *t = ft_safetensors_find(*file, name);
    assert_non_null(t);
    return t;
}

// A run that leaves the device takes along what lay on the host.
static void test_on_another_device(void **state) {
    static const char *const anywhere[] = {"device.name=auto", "device.threads=1", NULL};
    static const char *const names[] = {"bert.encoder.layer.0.attention.self.key.weight", "bert.encoder.layer.2.output.dense.weight",
                                        "bert.embeddings.word_embeddings.weight"};
    carried = 0;
    of_host = false, lasting = true;
    bool beyond = false;
    for (refuse_at = 2; !beyond; refuse_at++) {
        requests = 0;
        outcome o = run_way(&ways[12], "trunk", anywhere, FAKE_LAZY, 0, NULL);
        beyond = requests < refuse_at;
        assert_int_equal(left(&o.books), 0);
        if (o.status != FT_OK) fail_msg("request %d: %s (%s)", refuse_at, ft_error_message(), ft_error_where());
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            ft_safetensors *here, *there;
            const ft_safetensor *a = tensor_of(&o, names[i], &here), *b = tensor_of(&reference[12], names[i], &there);
            if (a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes) != 0) fail_msg("request %d: another %s", refuse_at, names[i]);
            ft_safetensors_close(here);
            ft_safetensors_close(there);
        }
    }
    refuse_at = 0;
    print_message("%d runs took their weights to the CPU\n", carried);
    assert_true(carried > 0);
}

static void refused(const way *w, const char *offload, const char *const *more, ft_status status, const char *says) {
    ft_error_clear();
    outcome o = run_way(w, offload, more, FAKE_LAZY, 0, NULL);
    assert_int_equal(o.status, status);
    assert_string_equal(ft_error_where(), "memory.offload");
    if (strstr(ft_error_message(), says) == NULL) fail_msg("%s", ft_error_message());
    assert_int_equal(left(&o.books), 0);
    ft_error_clear();
}

static void test_what_makes_no_sense(void **state) {
    static const way whole = {"nothing is frozen", "bert", "trunk", {NULL}, 0};
    static const char *const on_the_cpu[] = {"device.name=cpu", NULL};
    refused(&whole, "trunk", NULL, FT_INVALID, "no layer of this run has frozen weights");
    refused(&whole, "trunk+optimizer", NULL, FT_INVALID, "trunk+optimizer keeps frozen layers on the host");
    refused(&ways[0], "trunk", on_the_cpu, FT_INVALID, "trunk needs a device with memory of its own");
    host_bytes = 1;
    refused(&ways[0], "trunk", NULL, FT_NO_MEMORY, "pinned memory of the host are needed");
    host_bytes = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_any_order),
        cmocka_unit_test(test_from_files), cmocka_unit_test(test_beside_graphs_and_evaluations),
        cmocka_unit_test(test_resumed_elsewhere),
        cmocka_unit_test(test_read_before_it_came),
        cmocka_unit_test(test_overwritten_while_read),
        cmocka_unit_test(test_two_layers_are_there),
        cmocka_unit_test(test_autofit),
        cmocka_unit_test(test_refused_memory),
        cmocka_unit_test(test_on_another_device),
        cmocka_unit_test(test_what_makes_no_sense),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
