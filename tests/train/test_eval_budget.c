// What an evaluation takes at once: by default no byte more than a training step has, as much as fits there, and beyond that
// what was asked for, its price known. What it finds does not depend on any of it.
// ctest: cost=992
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/log.h"
#include "engine/plan/plan.h"
#include "engine/train/fit/eval_budget.h"
#include "tests/fixtures/sanitized.h"
#include "tests/fixtures/tiny_run.h"

static char scratch[64];
static int make_scratch(void **state) {
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(scratch, sizeof scratch, "%s/ft_eval_budget_XXXXXX", base);
    ft_log_set_level(FT_LOG_SILENT);
    return mkdtemp(scratch) == NULL;
}
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

static ft_plan plan_of(const tiny_run *t) {
    ft_config config;
    ft_plan plan;
    load_tiny_run(t, &config);
    if (ft_plan_run(&config, &(ft_plan_request){.budget_bytes = (size_t)1 << 40}, &plan) != FT_OK)
        fail_msg("%s (%s)", ft_error_message(), ft_error_where());
    ft_config_free(&config);
    return plan;
}

// The same with one more option.
static ft_plan plan_with(tiny_run *t, const char *option) {
    int options = t->count;
    if (strchr(option, ' ') != NULL) { // two
        char first[TINY_TEXT];
        snprintf(first, sizeof first, "%.*s", (int)(strchr(option, ' ') - option), option);
        set(t, "%s", first);
        option = strchr(option, ' ') + 1;
    }
    set(t, "%s", option);
    ft_plan plan = plan_of(t);
    t->count = options;
    return plan;
}

static void make(tiny_run *t, uint64_t seed) {
    make_tiny_run(t, scratch, seed);
    if (seed % 3 == 0) enlarge_tiny_run(t);
    set(t, "data.validation_split=0");
    set(t, "data.validation=%s/dev.tsv", t->dir);
    set(t, "data.test=");
    set(t, "eval.strategy=epoch");
    set(t, "eval.batch_size=auto");
    set(t, "eval.batch_multiplier=auto");
    set(t, "memory.active_vocabulary=off"); // rows that only evaluations read are data of theirs, and no matter of sizes
}

// Arena and tables of positions, which are held by a run throughout.
static size_t held_by(const ft_plan *plan) {
    size_t bytes = plan->memory.arena_bytes;
    for (int i = 0; i < plan->site_count; i++)
        if (strcmp(plan->sites[i].site, "position projections") == 0) bytes += plan->sites[i].bytes;
    return bytes;
}
static size_t extra_of(const ft_plan *without, const ft_plan *with) { return held_by(with) - held_by(without); }

static void test_never_above_a_step(void **state) {
    FT_PLAIN_ONLY();
    int more = 0, beyond = 0, larger = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        tiny_run t;
        make(&t, seed);
        ft_plan without = plan_with(&t, "eval.strategy=no"), with = plan_of(&t);
        assert_int_equal(without.eval.tokens, 0);
        assert_int_equal(extra_of(&without, &with), with.eval_extra);
        if (with.eval_extra > 0) { // a text that needs more than the micro-batches of training
            assert_true(with.eval.tokens == with.eval.longest || with.eval.longest > with.train.longest);
            beyond++;
        } else {
            assert_int_equal(with.memory.peak_allocated, without.memory.peak_allocated);
            assert_int_equal(with.memory.peak_reserved, without.memory.peak_reserved);
        }
        if (with.eval.tokens > with.train.tokens) larger++;
        ft_plan forced = plan_with(&t, seed % 2 ? "eval.batch_multiplier=7" : "eval.batch_size=40");
        assert_int_equal(extra_of(&without, &forced), forced.eval_extra);
        if (forced.eval_extra > 0) more++;
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    print_message("%d of 60 take more at once than training, %d have a text that needs more, %d need more when forced\n", larger, beyond, more);
    assert_true(larger > 20 && more > 10 && beyond < 20);
}

// A sixteenth more would not have fitted.
static void test_as_much_as_fits(void **state) {
    int bounded = 0;
    for (uint64_t seed = 300; seed < 312; seed += 3) {
        tiny_run t;
        make(&t, seed);
        write_texts(&t, "dev.tsv", 400, 60, 2);
        ft_plan plan = plan_of(&t);
        assert_int_equal(plan.eval_extra, 0);
        assert_true(plan.eval.tokens >= plan.train.tokens && plan.eval.tokens <= FT_EVAL_TOKENS);
        ft_plan forced = plan;
        for (int sequences = plan.eval.sequences; forced.eval.tokens < plan.eval.tokens * 9 / 8 && sequences < 400; sequences++) {
            char option[48];
            snprintf(option, sizeof option, "eval.batch_size=%d", sequences);
            forced = plan_with(&t, option);
        }
        if (forced.eval.tokens >= plan.eval.tokens * 9 / 8) {
            assert_true(forced.eval_extra > 0);
            bounded++;
        }
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    assert_true(bounded > 0);
}

// Lines of metrics.jsonl that have an evaluation, and predictions.jsonl.
static void findings(const tiny_run *t, const char *run, char *out, size_t size) {
    char path[256], line[4096], digest[65];
    size_t at = 0;
    snprintf(path, sizeof path, "%s/%s/metrics.jsonl", t->dir, run);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL)
        if (strstr(line, "eval_loss") != NULL) at += (size_t)snprintf(out + at, size - at, "%s", line);
    fclose(f);
    snprintf(path, sizeof path, "%s/%s/predictions.jsonl", t->dir, run);
    assert_int_equal(ft_sha256_file(path, digest), FT_OK);
    at += (size_t)snprintf(out + at, size - at, "%s\n", digest);
    assert_true(at < size);
}

static void test_same_bits(void **state) {
    static const char *const ways[] = {"eval.batch_multiplier=auto", "eval.batch_size=1", "eval.batch_size=7", "eval.batch_multiplier=5"};
    for (uint64_t seed = 700; seed < (FT_SANITIZED ? 707 : 721); seed++) { // every family thrice
        tiny_run t;
        make(&t, seed);
        char expected[20000], got[20000];
        for (int way = 0; way < 4; way++) {
            int options = t.count;
            char run[16];
            snprintf(run, sizeof run, "run%d", way);
            set(&t, "output.dir=%s/%s", t.dir, run);
            set(&t, "%s", ways[way]);
            ft_config config;
            load_tiny_run(&t, &config);
            t.count = options;
            if (ft_train(&config, NULL) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
            ft_config_free(&config);
            findings(&t, run, way == 0 ? expected : got, sizeof got);
            if (way > 0) assert_string_equal(got, expected);
        }
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_never_above_a_step), cmocka_unit_test(test_as_much_as_fits),
                                       cmocka_unit_test(test_same_bits)};
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
