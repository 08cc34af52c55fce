// The verdict without the plan (engine/plan/outlook.h) is the plan's, and options that are said to change no byte of a plan change none.
// ctest: part=3
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/config/options.h"
#include "engine/plan/outlook.h"
#include "engine/plan/relevance.h"
#include "tests/fixtures/sanitized.h"
#include "tests/fixtures/tiny_run.h"

enum { RUNS = FT_SANITIZED ? 8 : 60, RELEVANCE_RUNS = FT_SANITIZED ? 4 : 40 };

static char scratch[64];

static int make_scratch(void **state) {
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(scratch, sizeof scratch, "%s/ft_outlook_XXXXXX", base);
    return mkdtemp(scratch) == NULL;
}
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

static void say(const tiny_run *t, const char *what) {
    print_error("%s\n", what);
    for (int i = 0; i < t->count; i++) print_error("  %s\n", t->text[i]);
}

static ft_status load(const tiny_run *t, ft_config *config) {
    const char *overrides[TINY_OVERRIDES];
    for (int i = 0; i < t->count; i++) overrides[i] = t->text[i];
    return ft_config_load(config, 0, NULL, t->count, overrides);
}

static ft_status plan(const tiny_run *t, const ft_plan_request *request, bool texts, ft_plan *out) {
    ft_config config;
    ft_status status = load(t, &config);
    if (status == FT_OK && !texts) config.data.train = config.data.validation = config.data.test = "", config.data.validation_split = 0;
    if (status == FT_OK) status = ft_plan_run(&config, request, out);
    ft_config_free(&config);
    return status;
}

// ---- the verdict --------------------------------------------------------------------------------------------------------

static int kinds[FT_OUTLOOK_KINDS];

static void add(const ft_plan *plan, ft_outlook *all) {
    const ft_outlook_kind kind = plan->not_supported ? FT_OUTLOOK_NOT_SUPPORTED
                                 : !plan->fits       ? FT_OUTLOOK_NEVER
                                 : plan->autofit.chosen ? FT_OUTLOOK_REFIT : FT_OUTLOOK_FIT;
    const size_t bytes = plan->autofit.chosen ? plan->autofit.ideal.reserved : plan->memory.peak_reserved;
    if (kind > all->kind) all->kind = kind;
    if (bytes > all->bytes) all->bytes = bytes;
    all->budget = plan->budget_bytes;
}

// Fold by fold and seed by seed.
static ft_status plan_each(const ft_config *config, const ft_plan_request *request, ft_outlook *all) {
    const int folds = config->data.folds > 0 ? (int)config->data.folds : 1, seeds = config->train.seeds.count > 0 ? config->train.seeds.count : 1;
    *all = (ft_outlook){.kind = FT_OUTLOOK_FIT};
    for (int f = 0; f < folds; f++)
        for (int i = 0; i < seeds; i++) {
            ft_config one = *config;
            ft_plan plan_of_one;
            if (config->data.folds > 0) one.data.fold = f + 1;
            if (config->train.seeds.count > 0) one.train.seed = config->train.seeds.values[i];
            one.train.seeds = (ft_int_list){0};
            FT_TRY(ft_plan_run(&one, request, &plan_of_one));
            add(&plan_of_one, all);
        }
    return FT_OK;
}

// Under a budget, with jobs that are kept from call to call.
static void compare(const tiny_run *t, size_t budget, const ft_card *card, ft_plan_jobs *jobs) {
    const ft_plan_request request = {.budget_bytes = budget, .card = card};
    ft_config config;
    ft_outlook outlook, want;
    assert_int_equal(load(t, &config), FT_OK);
    const ft_status planned = plan_each(&config, &request, &want), judged = ft_outlook_of(&config, &request, jobs, &outlook);
    ft_config_free(&config);
    assert_int_equal(planned, judged);
    if (planned != FT_OK) return;
    kinds[want.kind]++;
    if (outlook.kind == want.kind && outlook.bytes == want.bytes && outlook.budget == want.budget) return;
    say(t, "the plan's verdict is another one");
    fail_msg("budget %zu: kind %d, %zu bytes; the plans' %d, %zu bytes", budget, outlook.kind, outlook.bytes, want.kind, want.bytes);
}

// Every way to be fitted left open, and a few named.
static void open_up(tiny_run *t, uint64_t seed) {
    if (seed % 3 == 0) enlarge_tiny_run(t);
    set(t, "train.micro_batch=auto");
    set(t, "train.micro_batch_tokens=auto");
    if (seed % 4 != 1) set(t, "train.gradient_checkpointing=auto");
    if (seed % 5 == 2) set(t, "memory.offload=auto");
    if (seed % 7 == 3) set(t, "train.seeds=1, 2, 3");
    if (seed % 7 == 4) set(t, "data.validation=");
    if (seed % 7 == 4) set(t, "data.validation_split=0");
    if (seed % 7 == 4) set(t, "data.folds=3");
    if (seed % 7 == 4) set(t, "eval.strategy=epoch");
    if (seed % 11 == 5) set(t, "train.micro_batch=2");
}

static void test_verdict(void **state) {
    const ft_card *card;
    assert_int_equal(ft_card_find("4090", &card), FT_OK);
    ft_plan_jobs jobs = {.key = NULL};
    for (uint64_t seed = 0; seed < RUNS; seed++) {
        tiny_run t;
        ft_plan whole;
        make_tiny_run(&t, scratch, 1000 + seed);
        open_up(&t, seed);
        const ft_card *on = seed % 5 == 2 || seed % 2 == 1 ? card : NULL;
        if (plan(&t, &(ft_plan_request){.card = on, .budget_bytes = SIZE_MAX / 8}, true, &whole) != FT_OK) continue; // folds of few texts
        const size_t most = whole.memory.peak_reserved, budgets[] = {most, most - 1, most - most / 8, most / 2, most / 4, most / 16, 1};
        for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) compare(&t, budgets[i], on, &jobs);
    }
    ft_plan_jobs_close(&jobs);
    print_message("%d fit, %d refit, %d never\n", kinds[FT_OUTLOOK_FIT], kinds[FT_OUTLOOK_REFIT], kinds[FT_OUTLOOK_NEVER]);
    assert_true(kinds[FT_OUTLOOK_FIT] > 0 && kinds[FT_OUTLOOK_REFIT] > 0 && kinds[FT_OUTLOOK_NEVER] > 0);
}

static void test_not_supported(void **state) {
    const ft_card *card;
    assert_int_equal(ft_card_find("T4", &card), FT_OK);
    tiny_run t;
    ft_plan_jobs jobs = {.key = NULL};
    make_tiny_run(&t, scratch, 999);
    compare(&t, 0, card, &jobs);
    assert_int_equal(kinds[FT_OUTLOOK_NOT_SUPPORTED], 1);
    ft_plan_jobs_close(&jobs);
}

// ---- what changes nothing -----------------------------------------------------------------------------------------------

// Two values of each; where it counts whether one is 0, neither is.
static const char *const values[][3] = {
    {"model.hidden_dropout", "0.01", "0.3"},
    {"model.attention_dropout", "0", "0.3"},
    {"model.classifier_dropout", "0", "0.3"},
    {"model.head.activation", "relu", "gelu"},
    {"model.head.dropout", "0", "0.3"},
    {"train.focal_gamma", "1", "2"},
    {"train.label_smoothing", "0", "0.1"},
    {"train.layer_lr_decay", "1", "0.8"},
    {"train.epochs", "1", "4"},
    {"train.max_steps", "1", "50"},
    {"train.learning_rate", "0", "1e-3"},
    {"train.weight_decay", "0.01", "0.1"},
    {"train.adam_beta1", "0", "0.99"},
    {"train.adam_beta2", "0.9", "0.999"},
    {"train.adam_epsilon", "1e-8", "1e-6"},
    {"train.max_grad_norm", "0", "1"},
    {"train.lr_scheduler", "linear", "cosine"},
    {"train.lr_end", "0", "1e-8"},
    {"train.lr_power", "1", "2"},
    {"train.lr_cycles", "1", "3"},
    {"train.warmup_ratio", "0", "0.3"},
    {"train.warmup_steps", "0", "3"},
    {"train.seed", "1", "2"},
    {"train.data_seed", "1", "2"},
    {"train.drop_last", "false", "true"},
    {"train.patience", "0", "2"},
    {"train.min_delta", "0", "0.1"},
    {"train.logging_steps", "1", "9"},
    {"eval.steps", "1", "7"},
    {"eval.metric", "loss", "accuracy"},
    {"memory.timeline", "false", "true"},
    {"memory.on_oom", "ladder", "fail"},
    {"memory.min_micro_batch", "1", "3"},
    {"memory.max_retries", "0", "5"},
};
enum { VALUES = sizeof values / sizeof values[0] };

static bool same_plan(const ft_plan *a, const ft_plan *b) {
    return memcmp(&a->memory, &b->memory, sizeof a->memory) == 0 && a->fits == b->fits && a->autofit.chosen == b->autofit.chosen;
}

static void try_option(tiny_run *t, int at, bool texts, const ft_plan_request *request, int *compared) {
    const int options = t->count;
    ft_plan first, second;
    for (int k = 1; k <= 2; k++) {
        t->count = options;
        set(t, "%s=%s", values[at][0], values[at][k]);
        // What goes with no other task or loss is refused for one value: there is nothing to compare.
        if (plan(t, request, texts, k == 1 ? &first : &second) != FT_OK) return (void)(t->count = options);
    }
    if (!same_plan(&first, &second)) {
        say(t, "another plan");
        fail_msg("%s = %s or %s changes the plan: %zu or %zu bytes", values[at][0], values[at][1], values[at][2], first.memory.peak_allocated,
                 second.memory.peak_allocated);
    }
    t->count = options;
    ++*compared;
}

static void test_irrelevant(void **state) {
    const ft_card *card;
    int compared[VALUES] = {0};
    assert_int_equal(ft_card_find("4090", &card), FT_OK);
    for (uint64_t seed = 0; seed < RELEVANCE_RUNS; seed++) {
        tiny_run t;
        ft_plan whole;
        make_tiny_run(&t, scratch, 2000 + seed);
        if (t.count > TINY_OVERRIDES - 4) continue;
        if (seed % 3 == 0) set(&t, "memory.offload=%s", seed % 2 ? "optimizer" : "auto");
        const bool texts = seed % 2 == 0;
        ft_plan_request request = {.card = seed % 3 == 0 || seed % 4 == 1 ? card : NULL, .budget_bytes = SIZE_MAX / 8};
        if (plan(&t, &request, texts, &whole) != FT_OK) continue;
        if (seed % 4 > 1) request.budget_bytes = whole.memory.peak_reserved / 4 * 3; // fitted, or refused
        for (int at = 0; at < VALUES; at++) {
            const ft_relevance relevance = ft_option_relevance(ft_option_find(values[at][0]));
            if (relevance == FT_RELEVANT_WITH_TEXTS && texts) continue;
            try_option(&t, at, texts, &request, &compared[at]);
        }
    }
    for (int at = 0; at < VALUES; at++)
        if (compared[at] == 0) fail_msg("%s was never tried", values[at][0]);
}

// The list is complete, and what is on it is an option; what decides about memory is not on it.
static void test_list(void **state) {
    int listed = 0;
    for (int i = 0; i < ft_option_count(); i++) listed += ft_option_relevance(i) != FT_RELEVANT;
    assert_int_equal(listed, VALUES);
    for (int at = 0; at < VALUES; at++) {
        assert_true(ft_option_find(values[at][0]) >= 0);
        if (ft_option_relevance(ft_option_find(values[at][0])) == FT_RELEVANT) fail_msg("%s is not listed", values[at][0]);
    }
    static const char *const matter[] = {"model.path", "model.head.hidden", "data.max_length", "train.batch_size", "train.precision", "memory.limit"};
    for (size_t i = 0; i < sizeof matter / sizeof matter[0]; i++) assert_int_equal(ft_option_relevance(ft_option_find(matter[i])), FT_RELEVANT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_supported),
        cmocka_unit_test(test_verdict),
        cmocka_unit_test(test_irrelevant),
        cmocka_unit_test(test_list),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
