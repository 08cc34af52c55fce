// Memory with memory.offload, known beforehand: random models and options take exactly what their plan says, pinned memory of the
// host included; autofit puts on the host what was left to it, only where nothing faster fits and the host has room; and the
// price of a step has the link in it, beside what is computed meanwhile.
// ctest: part=0 tsan=leave asan_part=1
// ctest: wrap=ft_steps_queue,ft_cuda_host_alloc,ft_cuda_range_commit,ft_cpu_available_bytes
#include <signal.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/train/fit/autofit.h"
#include "engine/train/fit/run_rehearsal.h"
#include "kernels/devices/cost.h"
#include "kernels/devices/devices.h"
#include "tests/emulator/offload/runs.h"
#include "tests/fixtures/sanitized.h"

static int set_up(void **state) {
    ft_log_set_level(FT_LOG_SILENT);
    snprintf(scratch, sizeof scratch, "/tmp/test_offload_XXXXXX");
    return mkdtemp(scratch) != NULL ? 0 : 1;
}

static int tear_down(void **state) { return ft_remove_tree(scratch) == FT_OK ? 0 : 1; }

// ---- planned and metered ------------------------------------------------------------------------------------------------

enum { RUNS = FT_SANITIZED ? 2 : 6 }; // of every family

typedef struct tally {
    int optimizer, inputs, both, relative, trunk;
} tally;

static ft_plan planned(const tiny_run *t) {
    ft_config config;
    ft_plan plan;
    load_tiny_run(t, &config);
    if (ft_plan_run(&config, &(ft_plan_request){.budget_bytes = 0}, &plan) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    ft_config_free(&config);
    return plan;
}

static bool checkpoints(const tiny_run *t) {
    bool found = false;
    for (int i = 0; i < t->count; i++) found = found || strncmp(t->text[i], "train.gradient_checkpointing=", 29) == 0;
    return found;
}

// Under exactly the bytes that its plan reserves.
static void one_run(uint64_t seed, tally *sum) {
    static const char *const offloads[] = {"optimizer", "activations", "all", "activations"};
    tiny_run t;
    make_tiny_run(&t, scratch, seed);
    char dir[200];
    snprintf(dir, sizeof dir, "%s/run", t.dir);
    set(&t, "output.dir=%s", dir);
    set(&t, "device.name=cuda");
    set(&t, "train.max_steps=1");
    const uint64_t kind = (seed + seed / TINY_FAMILIES) % 4; // every family, whose number is the seed's too, meets all
    const char *offload = offloads[kind];
    if (kind != 0 && !checkpoints(&t)) set(&t, "train.gradient_checkpointing=%s", chance(&t, 70) ? "on" : "auto");
    if (kind != 0) set(&t, "model.freeze_layers=0"), set(&t, "train.parameters=all");
    if (seed % 3 == 1) adapt_tiny_run(&t);
    const bool trunk = seed % 3 == 1 && !t.family->other_modules; // there are frozen layers beside the adapters
    set(&t, "memory.offload=%s%s", trunk ? "trunk" : "", strcmp(offload, "all") == 0 ? trunk ? "+optimizer" : "optimizer" : trunk ? "" : "none");
    reset_driver(FAKE_LAZY, seed);
    const size_t others = planned(&t).memory.peak_pinned; // what is pinned but for inputs
    set(&t, "memory.offload=%s%s", trunk ? "trunk+" : "", offload);
    const ft_plan plan = planned(&t);
    set(&t, "memory.limit=%zu", plan.memory.peak_reserved);
    ft_config config;
    load_tiny_run(&t, &config);
    if (ft_train(&config, NULL) != FT_OK) fail_msg("seed %d: %s (%s)", (int)seed, ft_error_message(), ft_error_where());
    ft_config_free(&config);
    json_t *document = ft_plan_json(&plan), *said = json_object_get(document, "memory"), *metered = memory_of(dir, "memory");
    json_object_del(said, "outside_allocator_bytes");
    char *a = ft_json_line(said), *b = ft_json_line(metered);
    assert_string_equal(a, b);
    const char *really = plan.offloads_inputs ? offload : strcmp(offload, "all") == 0 ? "optimizer" : strcmp(offload, "activations") == 0 ? "none" : offload;
    char all[40];
    snprintf(all, sizeof all, "%s%s%s", trunk ? "trunk" : "", !trunk ? "" : strcmp(really, "none") == 0 ? "" : "+", trunk && strcmp(really, "none") == 0 ? "" : really);
    assert_string_equal(json_string_value(json_object_get(json_object_get(document, "resolved"), "offload")), all);
    assert_int_equal(plan.offloads_inputs, kind != 0 && plan.memory.peak_pinned > others);
    sum->trunk += plan.offloads_trunk;
    sum->optimizer += plan.offloads && !plan.offloads_inputs;
    sum->both += plan.offloads && plan.offloads_inputs;
    sum->inputs += plan.offloads_inputs && !plan.offloads;
    sum->relative += plan.offloads_inputs && t.family->relative != FT_RELATIVE_NONE;
    free(a);
    free(b);
    json_decref(document);
    json_decref(metered);
    const fake_books books = fake_read();
    assert_int_equal(books.misuses, 0);
    assert_int_equal(left(&books), 0);
    assert_int_equal(ft_remove_tree(t.dir), FT_OK);
}

static void test_planned_is_metered(void **state) {
    tally sum = {0};
    for (uint64_t seed = 1; seed <= RUNS * TINY_FAMILIES; seed++) one_run(seed, &sum);
    print_message("%d runs with AdamW's state on the host, %d with inputs, %d with both, %d with frozen layers, %d of the models are DeBERTa\n",
                  sum.optimizer, sum.inputs, sum.both, sum.trunk, sum.relative);
    const int few = FT_SANITIZED ? 3 : 1; // times fewer
    assert_true(sum.trunk >= 6 / few && sum.optimizer >= 6 / few && sum.inputs >= 6 / few && sum.both >= 3 / few && (FT_SANITIZED || sum.relative >= 1));
}

// ---- autofit ------------------------------------------------------------------------------------------------------------

enum { MIB = 1 << 20, MANY = 256, LENGTH = 32 };

static ft_plan plan_cut(int rows, int micro_batch, const char *offload, const char *checkpointing, size_t budget) {
    char option[4][64], path[160];
    snprintf(option[0], sizeof option[0], "memory.offload=%s", offload);
    snprintf(option[1], sizeof option[1], "train.gradient_checkpointing=%s", checkpointing);
    snprintf(option[2], sizeof option[2], "train.batch_size=%d", rows);
    snprintf(option[3], sizeof option[3], micro_batch > 0 ? "train.micro_batch=%d" : "train.micro_batch=auto", micro_batch);
    snprintf(path, sizeof path, "model.path=%s/model", scratch);
    const char *options[] = {path, "model.init=random", "data.max_length=32", "device.name=cuda", "train.precision=bf16",
                             option[0], option[1], option[2], option[3]};
    ft_config config;
    ft_plan plan;
    assert_int_equal(ft_config_load(&config, 0, NULL, sizeof options / sizeof options[0], options), FT_OK);
    const ft_plan_request request = {.budget_bytes = budget, .labels = 2};
    if (ft_plan_run(&config, &request, &plan) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    ft_config_free(&config);
    return plan;
}

static ft_plan plan_with(int rows, const char *offload, const char *checkpointing, size_t budget) {
    return plan_cut(rows, 0, offload, checkpointing, budget);
}

// A model of `layers`, wide enough that its state or the inputs of its layers are what a budget is about.
static void write_shape(int layers, int hidden) {
    char path[128];
    snprintf(path, sizeof path, "%s/model", scratch);
    if (!ft_path_exists(path)) assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/model/config.json", scratch);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"model_type\": \"bert\", \"vocab_size\": 4000, \"hidden_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": 4, "
               "\"intermediate_size\": %d, \"max_position_embeddings\": 64, \"type_vocab_size\": 2, \"hidden_act\": \"gelu\"}\n",
            hidden, layers, 4 * hidden);
    fclose(f);
}

// auto: nothing as long as smaller micro-batches or recomputation are faster; the host where nothing else fits.
static void test_autofit(void **state) {
    const size_t enough = (size_t)64 << 30;
    reset_driver(FAKE_LAZY, 0);
    write_shape(4, 512);
    ft_plan none = plan_with(MANY / 2, "none", "auto", enough), all = plan_with(MANY / 2, "auto", "auto", enough), host = plan_with(MANY / 2, "optimizer", "auto", enough);
    assert_true(none.fits && all.fits && !all.offloads && !all.autofit.chosen && all.memory.peak_reserved == none.memory.peak_reserved);
    const size_t state_bytes = host.memory.peak_pinned - none.memory.peak_pinned;
    assert_true(host.offloads && state_bytes > (size_t)130 * MIB && host.memory.peak_reserved + state_bytes < none.memory.peak_reserved + 32 * MIB);
    assert_true(host.step_seconds > none.step_seconds * 1.01 && host.step_seconds < none.step_seconds + 0.03); // 0.15 GB each way
    int without = 0, with = 0, neither = 0;
    const size_t beyond = none.memory.peak_reserved - state_bytes; // weights and one step
    const size_t budgets[] = {none.memory.peak_reserved - 6 * MIB, none.memory.peak_reserved - state_bytes / 2, beyond + 16 * MIB, beyond / 4};
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        ft_plan never = plan_with(MANY / 2, "none", "auto", budgets[i]), may = plan_with(MANY / 2, "auto", "auto", budgets[i]);
        assert_true(!never.offloads && may.fits >= never.fits && (!may.fits || may.memory.peak_reserved <= budgets[i]));
        if (may.fits && never.fits) assert_true(may.step_seconds <= never.step_seconds);
        host_bytes = 1 * MIB; // where the host has no room for state it is no choice
        ft_plan alone = plan_with(MANY / 2, "auto", "auto", budgets[i]);
        host_bytes = 0;
        assert_true(!alone.offloads && alone.fits == never.fits);
        *(may.fits ? may.offloads ? &with : &without : &neither) += 1;
        char text[FT_FITTING_TEXT];
        if (may.offloads) assert_non_null(strstr(ft_fitting_text(&may.autofit.choice, text), "on the host"));
    }
    print_message("%d budgets without the host, %d with it, %d too small\n", without, with, neither);
    assert_true(without > 0 && with > 0 && neither > 0);
}

// Inputs of layers: where micro-batches may not shrink and all layers are computed again, they are what can go; for nothing, as
// long as the link is faster than what is computed meanwhile.
static void test_inputs_are_fitted(void **state) {
    const size_t enough = (size_t)64 << 30;
    reset_driver(FAKE_LAZY, 0);
    write_shape(24, 64);
    const ft_plan kept = plan_with(MANY, "none", "on", enough), away = plan_with(MANY, "activations", "on", enough);
    const size_t one = (size_t)MANY * LENGTH * 64 * sizeof(float);
    assert_true(kept.fits && away.fits && away.offloads_inputs && !kept.offloads_inputs);
    // 23 inputs are kept for recomputation; the last of them stays, and of those that travel one is back at the peak.
    // Of the host's memory the other peak is in loading, when they are not there.
    const ft_plan few = plan_with(16, "none", "on", enough), few_away = plan_with(16, "activations", "on", enough);
    assert_int_equal(few_away.memory.peak_pinned - few.memory.peak_pinned, 22 * one * 16 / MANY);
    assert_true(away.memory.peak_pinned >= 22 * one && away.memory.peak_pinned <= 22 * one + kept.memory.peak_pinned);
    const size_t saved = kept.memory.peak_requested - away.memory.peak_requested;
    // With them there the peak is at the end of the backward pass, when all gradients have come.
    assert_true(saved + (size_t)kept.trained_parameters * sizeof(float) >= 20 * one && saved <= 22 * one);
    // Named, it switches on what it needs; left to autofit, it is taken where it is needed and the host has room for it.
    const ft_plan named = plan_with(MANY, "activations", "auto", enough);
    assert_true(named.checkpoint_every == 1 && named.memory.peak_reserved == away.memory.peak_reserved);
    const ft_plan automatic = plan_with(MANY, "auto", "auto", enough);
    assert_true(automatic.checkpoint_every == 0 && !automatic.offloads_inputs);
    const size_t between = away.memory.peak_reserved + (kept.memory.peak_reserved - away.memory.peak_reserved) / 2;
    assert_true(between < kept.memory.peak_reserved && !plan_cut(MANY, MANY, "none", "on", between).fits);
    const ft_plan needed = plan_cut(MANY, MANY, "auto", "on", between);
    assert_true(needed.fits && needed.offloads_inputs && needed.memory.peak_reserved <= between);
    host_bytes = 1 * MIB;
    const ft_plan alone = plan_cut(MANY, MANY, "auto", "on", between);
    host_bytes = 0;
    assert_true(!alone.fits && !alone.offloads_inputs);
    // What the link takes is beside what is computed: of few tokens nothing is seen, as each op takes its time to start; of many,
    // in rows so short that they are sooner computed than moved, the link is most of it.
    for (int many = 0; many < 2; many++) {
        const int rows = many ? 1 << 15 : 16;
        const double at_home = plan_with(rows, "none", "on", enough).step_seconds, there = plan_with(rows, "activations", "on", enough).step_seconds;
        const double link = 2 * 22 * (double)rows * LENGTH * 64 * sizeof(float) / ft_rates_of(&(ft_target){.backend = FT_BACKEND_CUDA}).link;
        print_message("%d rows: %.3f ms a step with inputs kept, %.3f with them on the host, %.3f ms on the link\n", rows, at_home * 1e3,
                      there * 1e3, link * 1e3);
        assert_true(there > at_home * (1 - 1e-9) && there < (at_home + link) * (1 + 1e-9));
        assert_true(many ? there > link && there > at_home * 1.1 : there < at_home * (1 + 1e-9));
    }
}

// What a run in need of memory on its device makes of its settings: nothing new goes to the host, where only what the run began with
// is reserved, and what is there takes no more of it. `every`: recomputation as autofit chose it for a run that left it to that.
static ft_autofit reduced(const char *offload, int every, size_t limit, size_t *pinned) {
    char path[160], option[64];
    snprintf(path, sizeof path, "model.path=%s/model", scratch);
    snprintf(option, sizeof option, "memory.offload=%s", offload);
    const char *options[] = {path, "model.init=random", "data.max_length=32", "device.name=cuda", "train.precision=bf16",
                             "train.batch_size=256", "memory.min_micro_batch=256", option}; // MANY: micro-batches stay whole
    ft_config config, asked, smaller;
    assert_int_equal(ft_config_load(&config, 0, NULL, sizeof options / sizeof options[0], options), FT_OK);
    asked = config;
    asked.train.gradient_checkpointing = every == 1 ? 1 : FT_AUTO;
    config.train.gradient_checkpointing = every;
    ft_device_facts facts;
    ft_device *device;
    ft_job job;
    ft_rehearsal r;
    ft_autofit fit;
    assert_int_equal(ft_device_look("cuda", 1, &facts), FT_OK);
    assert_int_equal(ft_plan_open(facts.name, facts.target, SIZE_MAX / 4, &device), FT_OK);
    assert_int_equal(ft_job_open(&config, &(ft_job_source){.without_weights = true, .without_data = true, .labels = 2}, &job), FT_OK);
    assert_int_equal(ft_job_tokenise(&job), FT_OK);
    if (ft_rehearse(&job, &config, device, SIZE_MAX / 4, &r) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    r.room.planned = ft_memory_read(r.room.memory);
    job.config = &asked;
    *pinned = r.room.planned.peak_pinned;
    assert_int_equal(ft_autofit_reduce(&r.room, limit, &smaller, &fit), FT_OK);
    assert_int_equal(ft_rehearsal_close(&r), FT_OK);
    ft_job_close(&job);
    ft_config_free(&config);
    return fit;
}

static void test_ladder_leaves_the_host(void **state) {
    const size_t enough = (size_t)64 << 30;
    size_t pinned;
    reset_driver(FAKE_LAZY, 0);
    write_shape(24, 64);
    const ft_plan kept = plan_with(MANY, "none", "on", enough), away = plan_with(MANY, "activations", "on", enough);
    assert_true(away.memory.peak_reserved < kept.memory.peak_reserved);
    assert_true(plan_with(MANY, "auto", "on", away.memory.peak_reserved).offloads_inputs); // before the run that is what fits
    assert_false(reduced("auto", 1, away.memory.peak_reserved, &pinned).chosen);
    // Every fourth layer's input is there; every layer's would fit, and be more.
    const ft_plan fourth = plan_with(MANY, "activations", "4", enough);
    assert_true(fourth.memory.peak_reserved > away.memory.peak_reserved && fourth.memory.peak_pinned < away.memory.peak_pinned);
    const ft_autofit fit = reduced("activations", 4, away.memory.peak_reserved, &pinned);
    assert_int_equal(pinned, fourth.memory.peak_pinned);
    assert_true(fit.ideal.reserved == fourth.memory.peak_reserved && fit.choice.pinned <= pinned);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planned_is_metered),
        cmocka_unit_test(test_autofit),
        cmocka_unit_test(test_inputs_are_fitted),
        cmocka_unit_test(test_ladder_leaves_the_host),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
