// Autofit: what is left at auto is chosen so that the run fits and is the fastest that does; the plan knows it to the byte,
// and the trained weights are those of the run with unlimited memory.
// ctest: part=1 asan_part=3 cost=995
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "engine/plan/plan.h"
#include "engine/train/train.h"
#include "tests/fixtures/sanitized.h"
#include "tests/fixtures/tiny_run.h"

#include <string.h>
#include <unistd.h>

static char scratch[64];

// Many thin layers: most of the memory is activations, and recomputation saves most of those.
static void deepen(tiny_run *t) {
    enlarge_tiny_run(t);
    FILE *f = file_in(t, "model/config.json");
    fprintf(f, "{\"model_type\": \"bert\", \"vocab_size\": %d, \"hidden_size\": 48, \"num_hidden_layers\": 9, "
               "\"num_attention_heads\": 4, \"intermediate_size\": 192, \"max_position_embeddings\": 128, \"type_vocab_size\": 2, "
               "\"hidden_act\": \"gelu\", \"pad_token_id\": 0}\n", TINY_WORDS + 5);
    fclose(f);
}

static ft_plan plan_of(const tiny_run *t, size_t budget) {
    ft_config config;
    ft_plan plan;
    load_tiny_run(t, &config);
    ft_status status = ft_plan_run(&config, &(ft_plan_request){.budget_bytes = budget}, &plan);
    if (status != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    ft_config_free(&config);
    return plan;
}

static bool in_fp32(const tiny_run *t) {
    bool fp32 = true;
    for (int i = 0; i < t->count; i++)
        if (strncmp(t->text[i], "train.precision=", 16) == 0) fp32 = strcmp(t->text[i] + 16, "fp32") == 0;
    return fp32;
}

// The same run with these settings by name. In 16 bits nothing inside of a layer is to choose.
static ft_plan plan_with(tiny_run *t, size_t budget, int64_t tokens, int64_t every, unsigned savings) {
    int options = t->count;
    if (in_fp32(t)) set(t, "memory.recompute_activation=%s", savings & FT_SAVE_ACTIVATION ? "true" : "false");
    if (in_fp32(t)) set(t, "memory.recompute_layernorm=%s", savings & FT_SAVE_NORMS ? "true" : "false");
    if (tokens != FT_AUTO) set(t, "train.micro_batch_tokens=%" PRId64, tokens);
    set(t, every == 0 ? "train.gradient_checkpointing=off" : every == 1 ? "train.gradient_checkpointing=on" : "train.gradient_checkpointing=%" PRId64, every);
    ft_plan plan = plan_of(t, budget);
    t->count = options;
    return plan;
}

// Trains under `limit` into `name`; the digest of the saved weights.
static void train(tiny_run *t, size_t limit, const char *name, char digest[65], ft_memory_counters *planned) {
    char dir[160], model[240];
    snprintf(dir, sizeof dir, "%s/%s", t->dir, name);
    int options = t->count;
    set(t, "output.dir=%s", dir);
    if (limit > 0) set(t, "memory.limit=%zu", limit);
    ft_config config;
    load_tiny_run(t, &config);
    t->count = options;
    if (ft_train(&config, NULL) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    const bool adapter = config.adapter.type != FT_ADAPTER_NONE;
    ft_config_free(&config);
    snprintf(model, sizeof model, "%s/%s", dir, adapter ? "adapter/adapter_model.safetensors" : "model/model.safetensors");
    assert_int_equal(ft_sha256_file(model, digest), FT_OK);
    if (planned == NULL) return;
    char path[240], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/run.json", dir);
    assert_int_equal(ft_read_file(path, 1 << 20, &text, &size), FT_OK);
    json_t *run = json_loadb(text, size, 0, NULL), *memory = json_object_get(run, "memory");
    assert_int_equal(json_integer_value(json_object_get(memory, "peak_reserved_bytes")), planned->peak_reserved);
    assert_int_equal(json_integer_value(json_object_get(memory, "peak_allocated_bytes")), planned->peak_allocated);
    assert_int_equal(json_integer_value(json_object_get(memory, "peak_requested_bytes")), planned->peak_requested);
    json_decref(run);
    free(text);
}

enum { MODELS = FT_SANITIZED ? 3 : 8 };

// Budgets from enough down to too little, on BERTs of random settings.
static void test_budgets(void **state) {
    int fitted = 0, refused = 0, recomputing = 0, norms = 0, without = 0;
    for (uint64_t seed = 500; seed < 500 + MODELS; seed++) {
        tiny_run t;
        make_tiny_run(&t, scratch, seed);
        deepen(&t);
        char whole[65], small[65];
        const ft_plan ideal = plan_of(&t, 0);
        const size_t enough = ideal.memory.peak_reserved;
        train(&t, 0, "whole", whole, NULL);
        for (int percent = 92; percent > 20; percent -= 20) {
            size_t limit = enough / 100 * (size_t)percent;
            ft_plan plan = plan_of(&t, limit);
            if (!plan.fits) {
                assert_int_equal(plan.memory.peak_reserved, enough);
                refused++;
                continue;
            }
            const ft_fitting *c = &plan.autofit.choice;
            assert_true(plan.autofit.chosen && plan.memory.peak_reserved <= limit && c->reserved == plan.memory.peak_reserved);
            assert_int_equal(plan.autofit.ideal.reserved, enough);
            ft_plan named = plan_with(&t, limit, c->micro_batch_tokens, c->gradient_checkpointing, c->savings);
            assert_true(named.fits && named.memory.peak_reserved == c->reserved);
            if (c->micro_batch_tokens != FT_AUTO)
                assert_false(plan_with(&t, limit, c->micro_batch_tokens + FT_FITTING_GRAIN, c->gradient_checkpointing, c->savings).fits);
            // Nor does what is as large and takes less time: without any one of the savings, or without recomputation.
            const unsigned chosen = c->savings & ~plan.autofit.ideal.savings;
            const int64_t size = c->micro_batch_tokens != FT_AUTO ? c->micro_batch_tokens : ideal.train.tokens; // by name, or smaller ones fit
            for (unsigned one = 1; one < FT_SAVINGS; one *= 2)
                if ((chosen & one) != 0) {
                    assert_false(plan_with(&t, limit, size, c->gradient_checkpointing, c->savings & ~one).fits);
                    without++;
                }
            if (c->gradient_checkpointing > 0) assert_false(plan_with(&t, limit, size, 0, c->savings).fits);
            // Longer stretches may take less time: then they do not fit.
            if (c->gradient_checkpointing > 0 && c->gradient_checkpointing < 8) {
                const ft_plan longer = plan_with(&t, limit, size, c->gradient_checkpointing + 1, c->savings);
                assert_true(!longer.fits || longer.step_seconds >= c->step_seconds * (1 - 1e-9));
            }
            char name[32];
            snprintf(name, sizeof name, "fitted%d", percent);
            train(&t, limit, name, small, &plan.memory);
            assert_string_equal(small, whole);
            fitted++;
            if (c->gradient_checkpointing > 0) recomputing++;
            if (c->savings & FT_SAVE_NORMS && !(plan.autofit.ideal.savings & FT_SAVE_NORMS)) norms++;
        }
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    print_message("%d fitted (%d by recomputation of layers, %d of norms), %d refused\n", fitted, recomputing, norms, refused);
    assert_true(fitted > 0 && refused > 0 && without > 0 && (recomputing > 0 || MODELS < 8)); // the first models are too shallow for it
}

// Every setting of the grid tried one by one: none that fits is faster.
static void test_fastest(void **state) {
    FT_PLAIN_ONLY();
    tiny_run t;
    make_tiny_run(&t, scratch, 600);
    deepen(&t);
    set(&t, "train.precision=fp32");
    set(&t, "train.residual=fp32");
    set(&t, "memory.recompute_activation=auto");
    set(&t, "memory.recompute_layernorm=auto");
    ft_plan whole = plan_of(&t, 0);
    assert_true(whole.keeps_activation && !whole.rebuilds_norms); // what is fastest
    int64_t least = whole.train.longest, most = whole.train.tokens;
    unsigned savings_seen = 0;
    for (int percent = 90; percent > 30; percent -= 20) {
        size_t limit = whole.memory.peak_reserved / 100 * (size_t)percent;
        ft_plan plan = plan_of(&t, limit);
        double best = 1e30;
        for (int64_t every = 0; every <= 8; every += every < 2 ? 1 : 3)
            for (int64_t tokens = least, number = 0;; tokens += 2 * FT_FITTING_GRAIN, number++) {
                const unsigned savings = (unsigned)number % 4; // of each its share of the sizes
                ft_plan one = plan_with(&t, limit, tokens < most ? tokens : FT_AUTO, every, savings);
                if (one.fits && one.step_seconds < best) best = one.step_seconds;
                if (tokens >= most) break;
            }
        savings_seen |= plan.autofit.choice.savings;
        if (plan.fits) assert_true(plan.autofit.choice.step_seconds <= best * (1 + 1e-3));
        else assert_true(best == 1e30);
    }
    assert_int_equal(savings_seen, FT_SAVE_ACTIVATION | FT_SAVE_NORMS);
    assert_int_equal(ft_remove_tree(t.dir), FT_OK);
}

// What is given by name stays as it is.
static void test_names_are_kept(void **state) {
    tiny_run t;
    make_tiny_run(&t, scratch, 601);
    deepen(&t);
    size_t limit = plan_of(&t, 0).memory.peak_reserved / 10 * 8;
    set(&t, "train.micro_batch=16");
    set(&t, "train.precision=fp32");
    set(&t, "train.residual=fp32");
    set(&t, "memory.recompute_activation=true");
    set(&t, "memory.recompute_layernorm=auto");
    ft_plan plan = plan_of(&t, plan_of(&t, 0).memory.peak_reserved / 100 * 95); // enough for what takes least time
    assert_true(plan.fits && plan.autofit.choice.gradient_checkpointing == 0 && plan.autofit.choice.savings == (FT_SAVE_ACTIVATION | FT_SAVE_NORMS));
    set(&t, "memory.recompute_layernorm=false");
    plan = plan_of(&t, limit);
    assert_true(plan.fits && plan.autofit.choice.gradient_checkpointing > 0 && plan.train.sequences == 16);
    set(&t, "train.gradient_checkpointing=off");
    assert_false(plan_of(&t, limit).fits);
    set(&t, "train.micro_batch=auto");
    plan = plan_of(&t, limit);
    assert_true(plan.fits && plan.autofit.choice.gradient_checkpointing == 0 && plan.checkpoint_every == 0);
    assert_int_equal(ft_remove_tree(t.dir), FT_OK);
}

// The form of frozen weights changes results: it is chosen where it was `auto` by name and where nothing else is enough, and then the most
// exact that fits. The run is the one with that form by name. (Wrong: the smallest form at once, a form where other settings do, a form
// that the saved adapter does not name.)
static void test_storage(void **state) {
    static const struct {
        const char *name;
        ft_keep keep;
    } forms[] = {{"precision", FT_KEEP_AS_READ}, {"bf16", FT_KEEP_BF16}, {"int8", FT_KEEP_INT8}, {"nf4", FT_KEEP_NF4}};
    enum { FORMS = sizeof forms / sizeof forms[0] };
    tiny_run t;
    make_tiny_run(&t, scratch, 602);
    deepen(&t);
    FILE *f = file_in(&t, "model/config.json"); // a trunk that is larger than its activations
    fprintf(f, "{\"model_type\": \"bert\", \"vocab_size\": %d, \"hidden_size\": 256, \"num_hidden_layers\": 3, "
               "\"num_attention_heads\": 4, \"intermediate_size\": 2048, \"max_position_embeddings\": 128, \"type_vocab_size\": 2, "
               "\"hidden_act\": \"gelu\", \"pad_token_id\": 0}\n", TINY_WORDS + 5);
    fclose(f);
    static const char *const fixed[] = {"train.precision=fp32", "train.residual=fp32", "adapter.type=lora", "model.freeze=none", "model.freeze_layers=0", "train.parameters=auto",
                                        "train.max_steps=3", "eval.strategy=no", "data.test="};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) set(&t, "%s", fixed[i]);
    size_t least[FORMS];
    const int options = t.count;
    for (int k = 0; k < FORMS; k++) {
        set(&t, "model.storage=%s", forms[k].name);
        const ft_plan whole = plan_of(&t, 0);
        least[k] = whole.memory.peak_reserved;
        for (int64_t every = 0; every <= 1; every++) {
            const ft_plan plan = plan_with(&t, 0, whole.train.longest, every, FT_SAVE_ACTIVATION | FT_SAVE_NORMS);
            if (plan.memory.peak_reserved < least[k]) least[k] = plan.memory.peak_reserved;
        }
        if (k > 0) assert_true(least[k] < least[k - 1]);
        t.count = options;
    }
    for (int k = 0; k < FORMS; k++) {
        char named[65], fitted[65], name[32];
        set(&t, "model.storage=auto");
        const ft_plan plan = plan_of(&t, least[k]);
        assert_true(plan.fits && plan.storage == forms[k].keep);
        assert_true(!plan.autofit.chosen || plan.autofit.choice.storage == forms[k].keep);
        snprintf(name, sizeof name, "auto-%d", k);
        train(&t, least[k], name, fitted, NULL);
        t.count = options;
        set(&t, "model.storage=%s", forms[k].name);
        snprintf(name, sizeof name, "named-%d", k);
        train(&t, 0, name, named, NULL);
        assert_string_equal(fitted, named);
        t.count = options;
    }
    set(&t, "model.storage=auto"); // and where nothing is frozen there is nothing to choose
    set(&t, "adapter.type=none");
    assert_false(plan_of(&t, least[0]).fits);
    assert_int_equal(ft_remove_tree(t.dir), FT_OK);
}

static int make_scratch(void **state) {
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(scratch, sizeof scratch, "%s/ft_autofit_XXXXXX", base);
    ft_log_set_level(FT_LOG_SILENT);
    return mkdtemp(scratch) == NULL;
}
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_budgets), cmocka_unit_test(test_fastest), cmocka_unit_test(test_names_are_kept),
                                       cmocka_unit_test(test_storage)};
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
