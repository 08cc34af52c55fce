// Out of memory: every single request of short runs is refused once. Each time there is one clean error that names what
// was asked for and who holds the memory, the books are as they were, nothing leaks, and the hint names a setting that
// really fits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/plan/advice.h"
#include "engine/plan/plan.h"
#include "kernels/log.h"
#include "tiny_run.h"

// ---- the fault: request number `refuse_at` to the allocator is refused (--wrap, see tests/CMakeLists.txt) -----------------

static int64_t requests, refuse_at;
static bool real_device; // the plan back end's requests are not counted

ft_status __real_ft_allocator_take(ft_allocator *allocator, size_t bytes, int stream, ft_block **block, bool *by_limit);
ft_status __wrap_ft_allocator_take(ft_allocator *allocator, size_t bytes, int stream, ft_block **block, bool *by_limit);
ft_status __wrap_ft_allocator_take(ft_allocator *allocator, size_t bytes, int stream, ft_block **block, bool *by_limit) {
    if (real_device && ++requests == refuse_at) {
        *by_limit = false;
        return FT_NO_MEMORY;
    }
    return __real_ft_allocator_take(allocator, bytes, stream, block, by_limit);
}

// The forecast and the rehearsal inside a run are planning, not the run.
ft_status __real_ft_lay_out_steps(ft_memory *memory, const ft_model_config *model_config, const ft_config *config, int32_t labels,
                                  const ft_step_sizes *sizes);
ft_status __wrap_ft_lay_out_steps(ft_memory *memory, const ft_model_config *model_config, const ft_config *config, int32_t labels,
                                  const ft_step_sizes *sizes);
static bool in_layout;
ft_status __wrap_ft_lay_out_steps(ft_memory *memory, const ft_model_config *model_config, const ft_config *config, int32_t labels,
                                  const ft_step_sizes *sizes) {
    bool before = in_layout;
    in_layout = true;
    ft_status status = __real_ft_lay_out_steps(memory, model_config, config, labels, sizes);
    in_layout = before;
    return status;
}

ft_status __real_ft_trainer_forecast(ft_trainer *t);
ft_status __wrap_ft_trainer_forecast(ft_trainer *t);
ft_status __wrap_ft_trainer_forecast(ft_trainer *t) {
    in_layout = true;
    ft_status status = __real_ft_trainer_forecast(t);
    in_layout = false;
    return status;
}

// A refused request leaves the counters as they were.
ft_status __real_ft_memory_alloc(ft_memory *m, size_t bytes, ft_memory_category category, const char *site, void **data);
ft_status __wrap_ft_memory_alloc(ft_memory *m, size_t bytes, ft_memory_category category, const char *site, void **data);
ft_status __wrap_ft_memory_alloc(ft_memory *m, size_t bytes, ft_memory_category category, const char *site, void **data) {
    ft_memory_counters before = ft_memory_read(m);
    bool counted = real_device;
    real_device = counted && !in_layout;
    ft_status status = __real_ft_memory_alloc(m, bytes, category, site, data);
    real_device = counted;
    if (status == FT_NO_MEMORY) {
        ft_memory_counters after = ft_memory_read(m);
        assert_memory_equal(&before, &after, sizeof before);
        assert_null(*data);
    }
    return status;
}

static char scratch[64];
static int make_scratch(void **state) {
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(scratch, sizeof scratch, "%s/ft_oom_XXXXXX", base);
    ft_log_set_level(FT_LOG_SILENT);
    return mkdtemp(scratch) == NULL;
}
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

static ft_status run(tiny_run *t, int number, ft_memory_refusal *refusal) {
    int options = t->count;
    set(t, "output.dir=%s/run%d", t->dir, number);
    ft_config config;
    load_tiny_run(t, &config);
    t->count = options;
    real_device = true;
    ft_status status = ft_train(&config, refusal);
    real_device = false;
    ft_config_free(&config);
    return status;
}

static void expect_words(const ft_memory_refusal *refusal) {
    char bytes[64];
    snprintf(bytes, sizeof bytes, "(%zu bytes)", refusal->bytes);
    const char *message = ft_error_message();
    if (strstr(message, "out of memory on cpu") == NULL || strstr(message, bytes) == NULL || strstr(message, " are reserved") == NULL)
        fail_msg("the error says: %s", message);
    assert_string_equal(ft_error_where(), refusal->site);
    if (refusal->reserved == 0) return; // nobody held anything yet
    assert_non_null(strstr(message, "in use: weights"));
    assert_true(ft_error_hint_count() >= 1);
    assert_non_null(strstr(ft_error_hint(0), "the largest holders are "));
}

static void test_every_request_refused(void **state) {
    int refused = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        tiny_run t;
        make_tiny_run(&t, scratch, seed);
        refuse_at = requests = 0;
        ft_memory_refusal refusal;
        assert_int_equal(run(&t, 0, &refusal), FT_OK);
        assert_int_equal(refusal.bytes, 0);
        int64_t all = requests;
        assert_true(all > 10);
        for (refuse_at = 1; refuse_at <= all; refuse_at++) {
            requests = 0;
            ft_status status = run(&t, (int)refuse_at, &refusal);
            assert_int_equal(status, FT_NO_MEMORY); // exit code 3
            expect_words(&refusal);
            refused++;
        }
        refuse_at = requests = 0;
        assert_int_equal(run(&t, (int)all + 1, &refusal), FT_OK); // and nothing stays behind in the process
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    print_message("%d requests refused\n", refused);
}

// The option=value words of a hint, as overrides.
static bool take_hint(tiny_run *t, const char *hint) {
    char words[512];
    snprintf(words, sizeof words, "%s", hint);
    bool any = false;
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        if (strchr(word, '=') == NULL) continue;
        set(t, "%s", word);
        any = true;
    }
    return any;
}

// Under limits between too little and enough: the advised setting completes under that very limit.
static void test_advice_fits(void **state) {
    int advised = 0, none = 0;
    for (uint64_t seed = 100; seed < 124; seed++) {
        tiny_run t;
        make_tiny_run(&t, scratch, seed);
        enlarge_tiny_run(&t);
        set(&t, "train.micro_batch=16"); // by name: what is left at auto would be fitted instead of refused
        set(&t, "train.gradient_checkpointing=off");
        ft_config config;
        ft_plan plan;
        load_tiny_run(&t, &config);
        assert_int_equal(ft_plan_run(&config, &(ft_plan_request){.budget_bytes = 0}, &plan), FT_OK);
        assert_true(plan.memory.peak_reserved > (size_t)8 << 20);
        set(&t, "memory.limit=%zu", plan.memory.peak_reserved - (size_t)pick(&t, 1, (int64_t)plan.memory.peak_reserved - (4 << 20)));
        ft_config_free(&config);
        ft_memory_refusal refusal;
        refuse_at = 0;
        assert_int_equal(run(&t, 0, &refusal), FT_NO_MEMORY);
        assert_true(refusal.by_limit);
        load_tiny_run(&t, &config);
        ft_advise(&config, &refusal);
        ft_config_free(&config);
        assert_int_equal(ft_error_code(), FT_NO_MEMORY); // still the first error
        const char *hint = ft_error_hint(ft_error_hint_count() - 1);
        if (strncmp(hint, "even ", 5) == 0) {
            none++;
        } else {
            assert_true(take_hint(&t, hint));
            if (run(&t, 1, &refusal) != FT_OK) fail_msg("advised \"%s\": %s", hint, ft_error_message());
            advised++;
        }
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    print_message("%d advised settings ran under the limit, %d had none\n", advised, none);
    assert_true(advised > 0 && none > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_request_refused), cmocka_unit_test(test_advice_fits)};
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
