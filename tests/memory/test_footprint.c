// What the planner says and what a run then takes: equal, to the byte. Random models, data and options; every run is
// planned first and then trained with exactly the reserved bytes of its plan as the limit.
// ctest: wrap=ft_layernorm_backward_workspace,ft_update_run
#include <math.h>
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fixtures/count_malloc.h"
#include "engine/model/gradients/gradients.h"
#include "base/json/json.h"
#include "engine/plan/plan.h"
#include "engine/train/step/batch_buffers.h"
#include "engine/train/step/rehearsal.h"
#include "base/log.h"
#include "base/stop.h"
#include "kernels/ops/layernorm.h"
#include "tests/fixtures/sanitized.h"
#include "tests/fixtures/tiny_run.h"

enum { RUNS = FT_SANITIZED ? 60 : 300, RESUMED_RUNS = FT_SANITIZED ? 5 : 20, MIB = 1 << 20 };

// ---- planted faults (--wrap, asked for above) --------------------------------------------------------------------

static enum { NO_FAULT, DIRECT_MALLOC, OTHER_WORKSPACE, MOODY_WORKSPACE, SMALL_WORKSPACE, INTERRUPTION } fault;
static bool running; // the real thing, not its plan

ft_status __real_ft_update_run(ft_parameters *parameters, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                               ft_update_state *update);
ft_status __wrap_ft_update_run(ft_parameters *parameters, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                               ft_update_state *update);
ft_status __wrap_ft_update_run(ft_parameters *parameters, const ft_config *config, ft_tensor losses, const ft_step_state *step,
                               ft_update_state *update) {
    char *stolen = fault == DIRECT_MALLOC && running ? malloc(64 * MIB) : NULL;
    if (stolen != NULL) memset(stolen, 1, 64 * MIB);
    bool rehearsed = strstr(ft_memory_device(parameters->memory)->description, ", planned") != NULL;
    if (fault == INTERRUPTION && running && !rehearsed) ft_stop_ask(ft_context_now(), SIGINT);
    ft_status status = __real_ft_update_run(parameters, config, losses, step, update);
    free(stolen);
    return status;
}

size_t __real_ft_layernorm_backward_workspace(const ft_target *target, const ft_layernorm_backward_args *args);
size_t __wrap_ft_layernorm_backward_workspace(const ft_target *target, const ft_layernorm_backward_args *args);
size_t __wrap_ft_layernorm_backward_workspace(const ft_target *target, const ft_layernorm_backward_args *args) {
    size_t bytes = __real_ft_layernorm_backward_workspace(target, args);
    if (fault == SMALL_WORKSPACE) return bytes / 2;
    static size_t calls;
    if (fault == MOODY_WORKSPACE) return bytes + ++calls * 512;
    return fault == OTHER_WORKSPACE && running ? bytes + MIB : bytes;
}

// ---- one run ------------------------------------------------------------------------------------------------------------

static char scratch[64];
static int run_number;

static json_t *memory_of(const char *dir, const char *key) {
    char path[256];
    json_t *run;
    snprintf(path, sizeof path, "%s/run.json", dir);
    assert_int_equal(ft_json_load(path, &run), FT_OK);
    json_t *memory = json_incref(json_object_get(run, key));
    json_decref(run);
    json_object_del(memory, "outside_allocator_bytes");
    return memory;
}

static json_t *memory_of_plan(const ft_plan *plan) {
    json_t *root = ft_plan_json(plan);
    assert_non_null(root);
    json_t *memory = json_incref(json_object_get(root, "memory"));
    json_decref(root);
    json_object_del(memory, "outside_allocator_bytes");
    return memory;
}

static void say(const tiny_run *t, const char *what) {
    print_error("%s\n", what);
    for (int i = 0; i < t->count; i++) print_error("  %s\n", t->text[i]);
}

// True when the run did what its plan said.
static bool equal(const tiny_run *t, const ft_plan *plan, const char *dir) {
    json_t *metered = memory_of(dir, "memory"), *forecast = memory_of(dir, "planned"), *planned = memory_of_plan(plan);
    bool same = json_equal(metered, planned) && (json_equal(metered, forecast) || fault != NO_FAULT);
    json_decref(forecast);
    if (!same && fault == NO_FAULT) {
        say(t, "planned and metered differ");
        char *a = ft_json_line(planned), *b = ft_json_line(metered);
        print_error("planned %s\nmetered %s\n", a, b);
        free(a);
        free(b);
    }
    size_t sum = 0;
    for (int c = 0; c < FT_MEM_CATEGORIES; c++) sum += plan->memory.at_peak[c];
    assert_int_equal(sum, plan->memory.peak_allocated);
    json_decref(metered);
    json_decref(planned);
    return same;
}

typedef struct result {
    ft_status status;
    bool equal;
    size_t unmetered; // growth of the process beyond what the meter has seen reserved
} result;

static result train_as_planned(tiny_run *t, const ft_plan *plan, size_t limit) {
    char dir[160];
    snprintf(dir, sizeof dir, "%s/run%d", t->dir, run_number++);
    int options = t->count;
    set(t, "output.dir=%s", dir);
    set(t, "memory.limit=%zu", limit);
    ft_config config;
    load_tiny_run(t, &config);
    t->count = options;
    size_t before = host_bytes();
    host_peak_reset();
    running = true;
    result r = {.status = ft_train(&config, NULL)};
    running = false;
    size_t grown = host_peak() - before;
    ft_config_free(&config);
    if (r.status != FT_OK) return r;
    r.unmetered = grown > plan->memory.peak_reserved ? grown - plan->memory.peak_reserved : 0;
    r.equal = equal(t, plan, dir);
    return r;
}

static ft_plan plan_of(tiny_run *t, size_t budget) {
    ft_config config;
    ft_plan plan;
    load_tiny_run(t, &config);
    ft_status status = ft_plan_run(&config, &(ft_plan_request){.budget_bytes = budget}, &plan);
    if (status != FT_OK) {
        say(t, "no plan");
        fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    }
    ft_config_free(&config);
    return plan;
}

// ---- tests --------------------------------------------------------------------------------------------------------------

static int make_scratch(void **state) {
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; // flushes to a disk are most of a tiny run
    snprintf(scratch, sizeof scratch, "%s/ft_footprint_XXXXXX", base);
    ft_log_set_level(FT_LOG_SILENT);
    return mkdtemp(scratch) == NULL;
}
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

static int refused_runs, fitted_runs;

// Less does not do for the run as it is, and the plan knows; if settings left at auto can make it fit,
// plan and run make the same of them.
static void check_less(tiny_run *t, const ft_plan *enough, size_t limit) {
    ft_plan plan = plan_of(t, limit);
    result r = train_as_planned(t, &plan, limit);
    if (plan.fits) {
        assert_true(plan.autofit.chosen && plan.memory.peak_reserved <= limit);
        if (r.status != FT_OK) {
            say(t, "a fitted run failed");
            fail_msg("%s (%s)", ft_error_message(), ft_error_where());
        }
        assert_true(r.equal);
        fitted_runs++;
    } else {
        assert_int_equal(plan.memory.peak_reserved, enough->memory.peak_reserved); // what it would take
        assert_int_equal(r.status, FT_NO_MEMORY);
        refused_runs++;
    }
}

static void test_planned_is_metered(void **state) {
    size_t unmetered = 0;
    double worst_arena = 0;
    int by_phase[FT_PHASE_COUNT] = {0};
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        tiny_run t;
        make_tiny_run(&t, scratch, seed);
        if (seed % 4 == 1) adapt_tiny_run(&t);
        if (seed % 4 == 3) probe_tiny_run(&t);
        ft_plan plan = plan_of(&t, 0);
        assert_true(plan.fits);
        size_t limit = plan.memory.peak_reserved; // not a byte more
        plan = plan_of(&t, limit);
        if (!plan.fits) {
            say(&t, "a plan does not fit into what it reserves");
            fail();
        }
        result r = train_as_planned(&t, &plan, limit);
        if (r.status != FT_OK) {
            say(&t, "a planned run failed");
            fail_msg("%s (%s)", ft_error_message(), ft_error_where());
        }
        assert_true(r.equal);
        if (r.unmetered > unmetered) unmetered = r.unmetered;
        if (r.unmetered > 16 * MIB) say(&t, "this run takes memory that is not metered");
        assert_true(r.unmetered <= 16 * MIB);
        double ratio = (double)plan.memory.arena_bytes / (double)plan.memory.arena_live_bytes;
        if (ratio > worst_arena) worst_arena = ratio;
        by_phase[plan.memory.peak_phase]++;
        if (seed % 10 == 0) check_less(&t, &plan, limit - 1);
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    print_message("largest unmetered growth %.2f MiB%s; arena at most %.4f of its live bytes; peaks in", (double)unmetered / MIB,
                  COUNT_MALLOC ? "" : " (not counted under a sanitizer)", worst_arena);
    for (int p = 0; p < FT_PHASE_COUNT; p++) print_message(" %s %d", ft_memory_phase_name((ft_memory_phase)p), by_phase[p]);
    print_message("; of runs with less memory %d were fitted, %d refused\n", fitted_runs, refused_runs);
    assert_true(refused_runs > 0); // fitted ones: test_autofit
    assert_true(worst_arena <= 1.03);
    if (COUNT_MALLOC) assert_true(unmetered > 0); // the counting counts
}

// The head alone: what makes the features, and then what trains on them, takes as much as was planned; the same run once they are found
// takes no more, and its plan knows that they are there: then the frozen layers are not.
static void test_features(void **state) {
    int less = 0, without_layers = 0;
    for (uint64_t seed = 4001; seed <= 4000 + RESUMED_RUNS; seed++) {
        tiny_run t;
        make_tiny_run(&t, scratch, seed);
        probe_tiny_run(&t);
        set(&t, "data.feature_cache=%s/cache", t.dir);
        size_t peak[2], weights[2];
        for (int found = 0; found < 2; found++) {
            const ft_plan plan = plan_of(&t, 0);
            assert_true(plan.features);
            assert_int_equal(plan.trunk.tokens > 0, !found);
            const result r = train_as_planned(&t, &plan, plan.memory.peak_reserved);
            if (r.status != FT_OK) {
                say(&t, "a planned run on features failed");
                fail_msg("%s (%s)", ft_error_message(), ft_error_where());
            }
            assert_true(r.equal);
            weights[found] = plan.memory.at_peak[FT_MEM_WEIGHTS];
            peak[found] = plan.memory.phase_peak[FT_PHASE_EVAL]; // in which the texts are read, too: others have the window for files
        }
        assert_true(peak[1] <= peak[0]);
        less += peak[1] < peak[0];
        assert_true(weights[1] <= weights[0]);
        without_layers += weights[1] < weights[0];
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    assert_true(less > 0 && without_layers > 0);
}

// Stopped in its first step and continued: the peaks of both sessions together are those of the plan.
static void test_resumed_runs(void **state) {
    for (uint64_t seed = 2001; seed <= 2000 + RESUMED_RUNS; seed++) {
        tiny_run t;
        make_tiny_run(&t, scratch, seed);
        if (seed % 3 == 0) adapt_tiny_run(&t);
        if (seed % 3 == 1) probe_tiny_run(&t);
        set(&t, "train.max_steps=3");
        ft_plan plan = plan_of(&t, 0);
        char dir[160];
        snprintf(dir, sizeof dir, "%s/stopped", t.dir);
        set(&t, "output.dir=%s", dir);
        set(&t, "output.exists=resume");
        ft_config config;
        load_tiny_run(&t, &config);
        fault = INTERRUPTION;
        running = true;
        assert_int_equal(ft_train(&config, NULL), FT_INTERRUPTED);
        fault = NO_FAULT;
        running = false;
        assert_int_equal(ft_train(&config, NULL), FT_OK);
        ft_config_free(&config);
        assert_true(equal(&t, &plan, dir));
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
}

// Micro-batches of one text each, from a few tokens to all 512 positions of DeBERTa's real table of distances, live in what
// the plan gave the longest: its scratch is not a simple function of length.
static void test_long_and_short_sequences(void **state) {
    tiny_run t;
    make_tiny_run(&t, scratch, 3001);
    FILE *f = file_in(&t, "model/config.json");
    fprintf(f, "{\"model_type\": \"deberta-v2\", \"vocab_size\": %d, \"pad_token_id\": 0, \"max_position_embeddings\": 512, "
               "\"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"intermediate_size\": 40, "
               "\"relative_attention\": true, \"position_buckets\": 256, \"max_relative_positions\": -1, \"pos_att_type\": \"c2p|p2c\", "
               "\"share_att_key\": true, \"norm_rel_ebd\": \"layer_norm\", \"pooler_dropout\": 0.1}\n", TINY_WORDS + 5);
    fclose(f);
    static const int lengths[] = {510, 3, 129, 256, 127, 400, 257, 128, 511, 60, 255, 300};
    f = file_in(&t, "train.tsv");
    fprintf(f, "text\tlabel\n");
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (int k = 0; k < lengths[i] - 2; k++) fprintf(f, "w%d ", k % TINY_WORDS); // and two special tokens
        fprintf(f, "\t%d\n", (int)(i % 2));
    }
    fclose(f);
    t.count = 0;
    set(&t, "model.path=%s/model", t.dir);
    set(&t, "model.init=random");
    set(&t, "data.train=%s/train.tsv", t.dir);
    set(&t, "data.cache_dir=none");
    set(&t, "train.batch_size=12");
    set(&t, "train.micro_batch=1");
    set(&t, "train.max_steps=1");
    set(&t, "device.threads=2");
    ft_plan plan = plan_of(&t, 0);
    result r = train_as_planned(&t, &plan, plan.memory.peak_reserved);
    if (r.status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    assert_true(r.equal);
    assert_int_equal(ft_remove_tree(t.dir), FT_OK);
}

// Scratch of DeBERTa's attention for `tokens` in sequences of `length`, every distance with a slot of its own: forward or back.
static size_t attention_scratch(int64_t tokens, int32_t length, bool backward) {
    enum { HEADS = 12, HEAD_DIM = 64, WIDTH = HEADS * HEAD_DIM };
    const ft_target target = ft_cpu_target(2);
    const ft_disentangled_shape shape = {.attention = {.heads = HEADS, .head_dim = HEAD_DIM, .sequences = (int32_t)(tokens / length),
                                                       .max_queries = length, .max_keys = length},
                                         .reach = length - 1};
    const ft_tensor rows = ft_matrix(NULL, tokens, WIDTH, FT_F32), table = ft_matrix(NULL, 2 * length, WIDTH, FT_F32);
    const ft_tensor lse = ft_matrix(NULL, tokens, HEADS, FT_F32);
    if (backward)
        return ft_disentangled_attention_backward_workspace(
            &target, &(ft_disentangled_attention_backward_args){.shape = shape, .q = rows, .k = rows, .v = rows, .out = rows, .dout = rows,
                                                                .lse = lse, .dq = rows, .dk = rows, .dv = rows, .pos_key = table,
                                                                .pos_query = table, .dpos_key = table, .dpos_query = table});
    return ft_disentangled_attention_forward_workspace(
        &target, &(ft_disentangled_attention_forward_args){.shape = shape, .q = rows, .k = rows, .v = rows, .out = rows, .lse = lse,
                                                           .pos_key = table, .pos_query = table});
}

// Nothing of the size of tokens x length is ever alive: at the same tokens, longer sequences cost the rows of their table in
// scratch and nothing else. 12 heads of 8,192 tokens in sequences of 8,192 would be 3 GiB a tensor.
static void test_attention_memory_is_linear(void **state) {
    enum { TOKENS = 8192, SHORTEST = 512 };
    for (int backward = 0; backward < 2; backward++) {
        size_t at[5];
        for (int i = 0; i < 5; i++) at[i] = attention_scratch(TOKENS, SHORTEST << i, backward);
        assert_true(at[1] > at[0]);
        for (int i = 2; i < 5; i++) assert_int_equal(at[i] - at[i - 1], 2 * (at[i - 1] - at[i - 2])); // a straight line
        assert_true(at[4] < (size_t)512 * MIB);
    }
    static const char *const models[] = {"microsoft/deberta-v3-small", "microsoft/deberta-base", "microsoft/deberta-v2-xlarge"};
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        size_t first = 0;
        for (int length = SHORTEST; length <= TOKENS; length *= 2) {
            tiny_run t = {.count = 0};
            set(&t, "model.path=%s", models[m]);
            set(&t, "model.init=random");
            set(&t, "data.max_length=%d", length);
            set(&t, "train.batch_size=%d", TOKENS / length);
            set(&t, "train.gradient_checkpointing=on");
            set(&t, "device.threads=2");
            ft_plan plan = plan_of(&t, (size_t)1 << 40);
            assert_true(plan.fits);
            assert_int_equal(plan.train.tokens, TOKENS);
            assert_int_equal(plan.train.longest, length);
            size_t peak = plan.memory.peak_allocated;
            if (first == 0) first = peak;
            size_t table = attention_scratch(TOKENS, length, true);
            if (peak > first + table) fail_msg("%s: %zu bytes at length %d, %zu at %d", models[m], peak, length, first, SHORTEST);
        }
    }
}

// So that every op has its backward pass.
static void train_everything(tiny_run *t) {
    set(t, "model.freeze=none");
    set(t, "model.freeze_layers=0");
    set(t, "train.parameters=all");
}

// A run of seed `seed` with a fault in it.
static result with_fault(int which, uint64_t seed) {
    tiny_run t;
    make_tiny_run(&t, scratch, seed);
    train_everything(&t);
    ft_plan plan = plan_of(&t, 0);
    fault = which;
    result r = train_as_planned(&t, &plan, (size_t)1 << 30);
    fault = NO_FAULT;
    assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    return r;
}

static void test_planted_malloc_is_seen(void **state) {
    if (!COUNT_MALLOC) skip();
    result r = with_fault(DIRECT_MALLOC, 1001);
    assert_int_equal(r.status, FT_OK);
    assert_true(r.equal); // the meter cannot see it ...
    assert_true(r.unmetered > 16 * MIB); // ... the count of the process does
}

static void test_planted_workspace_is_seen(void **state) {
    assert_true(with_fault(NO_FAULT, 1002).equal);
    result r = with_fault(OTHER_WORKSPACE, 1002); // another one than the planner was told
    assert_int_equal(r.status, FT_OK);
    assert_false(r.equal);
    r = with_fault(MOODY_WORKSPACE, 1002); // no function of its arguments: the step differs from its recording
    assert_int_equal(r.status, FT_FAILED);
    assert_non_null(strstr(ft_error_message(), "workspace"));
}

// A workspace that is too small: the guard zone behind it is overwritten.
static void test_small_workspace_is_seen(void **state) {
    for (int planted = 0; planted < 2; planted++) {
        tiny_run t;
        make_tiny_run(&t, scratch, 1003);
        train_everything(&t);
        ft_config config;
        load_tiny_run(&t, &config);
        ft_model_config shape;
        ft_model model;
        ft_device *device;
        ft_memory *memory;
        char path[160];
        snprintf(path, sizeof path, "%s/model", t.dir);
        assert_int_equal(ft_model_config_load(path, &shape), FT_OK);
        assert_int_equal(ft_cpu_open(1, NULL, &device), FT_OK);
        assert_int_equal(ft_memory_create_with(device, &(ft_memory_options){.guard_bytes = 256}, &memory), FT_OK);
        fault = planted ? SMALL_WORKSPACE : NO_FAULT;
        ft_step_sizes sizes = {.train = {.tokens = 30, .sequences = 3, .longest = 10, .reads = 3, .most_reads = 1}, .rows = 3};
        assert_int_equal(ft_model_create(memory, &shape, &config, 2, &model), FT_OK);
        assert_int_equal(ft_model_keep_master(&model), FT_OK);
        assert_int_equal(ft_model_draw(&model, 0.02, 1), FT_OK);
        assert_int_equal(ft_model_prepare_training(&model, 0), FT_OK);
        assert_int_equal(ft_gradients_hold(&model.parameters, false), FT_OK);
        assert_int_equal(ft_lay_out_steps(memory, &shape, &config, 2, &sizes), FT_OK);
        int32_t ids[30] = {0}, label[3] = {0};
        int64_t offset[4] = {0, 10, 20, 30};
        ft_dataset data = {
            .input = &ft_text_input, .examples = 3, .sequences = 3, .tokens = 30, .ids = ids, .offset = offset, .label = label};
        ft_batch_buffers buffers;
        void *losses, *step, *update;
        assert_int_equal(ft_model_hold_positions(&model, sizes.train, sizes.predict), FT_OK);
        assert_int_equal(ft_batch_buffers_create(&model, sizes.train, true, &buffers), FT_OK);
        assert_int_equal(ft_batch_buffers_load(&buffers, &data, NULL, 0, 3, 0), FT_OK);
        assert_int_equal(ft_memory_alloc(memory, 3 * sizeof(float), FT_MEM_DATA, "losses", &losses), FT_OK);
        assert_int_equal(ft_memory_alloc(memory, sizeof(ft_step_state), FT_MEM_DATA, "step", &step), FT_OK);
        assert_int_equal(ft_memory_alloc(memory, sizeof(ft_update_state), FT_MEM_DATA, "update", &update), FT_OK);
        *(ft_step_state *)step = (ft_step_state){.loss_scale = 1};
        memset(update, 0, sizeof(ft_update_state));
        ft_status status = ft_rehearse_step(&model, &config, &sizes, &buffers.device, losses, step, update);
        assert_int_equal(status, planted ? FT_FAILED : FT_OK);
        if (planted) assert_non_null(strstr(ft_error_where(), "layernorm_backward scratch"));
        fault = NO_FAULT;
        ft_memory_free(memory, losses);
        ft_memory_free(memory, step);
        ft_memory_free(memory, update);
        ft_batch_buffers_free(&buffers);
        ft_model_free(&model);
        assert_int_equal(ft_memory_destroy(memory), planted ? FT_FAILED : FT_OK);
        ft_device_close(device);
        ft_model_config_free(&shape);
        ft_config_free(&config);
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_planned_is_metered), cmocka_unit_test(test_features),
        cmocka_unit_test(test_resumed_runs),
                                       cmocka_unit_test(test_long_and_short_sequences),
                                       cmocka_unit_test(test_attention_memory_is_linear), cmocka_unit_test(test_planted_malloc_is_seen),
                                       cmocka_unit_test(test_planted_workspace_is_seen), cmocka_unit_test(test_small_workspace_is_seen)};
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
