// Out of memory: every single request of short runs is refused, once, from then on, or because the device has become
// smaller. Each time the run either completes with the bits of an undisturbed one, or there is one clean error that names
// what was asked for and who holds the memory; the books are as they were, nothing leaks, and the hint names a setting that
// really fits.
// ctest: part=2 asan_part=2 cost=997
// ctest: wrap=ft_allocator_take,ft_memory_adopt,ft_memory_alloc,ft_run_log_train,ft_trainer_loop
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>

#include "base/json/json.h"
#include "engine/plan/advice.h"
#include "engine/plan/plan.h"
#include "engine/train/room/observer.h"
#include "engine/train/train.h"
#include "engine/train/trainer.h"
#include "base/log.h"
#include "base/stop.h"
#include "tests/fixtures/tiny_run.h"
#include "tests/fixtures/sanitized.h"

// ---- the faults: requests to the real device's allocator (--wrap, asked for above) ---------------------------------

static enum {
    NO_FAULT,
    ONCE,   // request number fault_at is refused
    THRICE, // and, behind the one that is tried again, the next two
    ONWARD, // and all that follow
    SHRUNK, // from it on nothing is given that makes the reserved bytes more than `capacity`
} fault;
static int64_t requests, fault_at;
static size_t capacity;
static bool on_real_device, refused_any;
static bool in_loop;
static int64_t loop_first, loop_last; // requests of the latest loop
static int stop_at; // this refusal in the loop comes with a Ctrl-C; 0: none does

ft_status __real_ft_allocator_take(ft_allocator *allocator, size_t bytes, int stream, ft_block **block, bool *by_limit);
ft_status __wrap_ft_allocator_take(ft_allocator *allocator, size_t bytes, int stream, ft_block **block, bool *by_limit);
ft_status __wrap_ft_allocator_take(ft_allocator *allocator, size_t bytes, int stream, ft_block **block, bool *by_limit) {
    if (!on_real_device) return __real_ft_allocator_take(allocator, bytes, stream, block, by_limit);
    requests++;
    bool refused = (fault == ONCE && requests == fault_at) ||
                   (fault == THRICE && (requests == fault_at || requests == fault_at + 2 || requests == fault_at + 3)) || (fault == ONWARD && requests >= fault_at);
    size_t before = ft_allocator_read(allocator).reserved;
    ft_status status = refused ? FT_NO_MEMORY : __real_ft_allocator_take(allocator, bytes, stream, block, by_limit);
    if (status == FT_OK && fault == SHRUNK && requests >= fault_at) {
        size_t after = ft_allocator_read(allocator).reserved;
        if (after <= before || after <= capacity) return FT_OK;
        ft_allocator_give(allocator, *block);
        ft_allocator_trim(allocator);
        refused = true;
    }
    if (!refused) return status;
    refused_any = true;
    if (in_loop && stop_at > 0 && --stop_at == 0) ft_stop_ask(ft_context_now(), SIGINT);
    *block = NULL;
    *by_limit = false;
    return FT_NO_MEMORY;
}

// Forecasts and rehearsals inside a run are planning, not the run.
static bool enter_real(ft_memory *m) {
    bool before = on_real_device;
    on_real_device = strstr(ft_memory_device(m)->description, ", planned") == NULL;
    return before;
}

// A refused request leaves the counters as they were.
ft_status __real_ft_memory_alloc(ft_memory *m, size_t bytes, ft_memory_category category, const char *site, void **data);
ft_status __wrap_ft_memory_alloc(ft_memory *m, size_t bytes, ft_memory_category category, const char *site, void **data);
ft_status __wrap_ft_memory_alloc(ft_memory *m, size_t bytes, ft_memory_category category, const char *site, void **data) {
    ft_memory_counters before = ft_memory_read(m);
    bool was = enter_real(m);
    ft_status status = __real_ft_memory_alloc(m, bytes, category, site, data);
    on_real_device = was;
    if (status == FT_NO_MEMORY) {
        ft_memory_counters after = ft_memory_read(m);
        if (fault == SHRUNK) before.reserved = after.reserved; // cached segments went
        assert_memory_equal(&before, &after, sizeof before);
        assert_null(*data);
    }
    return status;
}

ft_status __real_ft_memory_adopt(ft_memory *m, const ft_memory *recorded); // takes the arena
ft_status __wrap_ft_memory_adopt(ft_memory *m, const ft_memory *recorded);
ft_status __wrap_ft_memory_adopt(ft_memory *m, const ft_memory *recorded) {
    bool was = enter_real(m);
    ft_status status = __real_ft_memory_adopt(m, recorded);
    on_real_device = was;
    return status;
}

ft_status __real_ft_trainer_loop(ft_trainer *t);
ft_status __wrap_ft_trainer_loop(ft_trainer *t);
ft_status __wrap_ft_trainer_loop(ft_trainer *t) {
    in_loop = true;
    loop_first = requests + 1;
    ft_status status = __real_ft_trainer_loop(t);
    in_loop = false;
    loop_last = requests;
    return status;
}

// A move that nothing forces, behind a step.
static int moves;
ft_status __real_ft_run_log_train(ft_trainer *t);
ft_status __wrap_ft_run_log_train(ft_trainer *t);
ft_status __wrap_ft_run_log_train(ft_trainer *t) {
    if (moves > 0) {
        const ft_device *before = t->room.device;
        assert_int_equal(ft_trainer_move(t, "cpu"), FT_OK);
        assert_ptr_not_equal(t->room.device, before);
        moves--;
    }
    return __real_ft_run_log_train(t);
}

// ---- runs -------------------------------------------------------------------------------------------------------------------

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
    requests = 0;
    refused_any = false;
    ft_status status = ft_train(&config, refusal);
    ft_config_free(&config);
    return status;
}

enum { EVERY = FT_SANITIZED ? 11 : 5, LARGE_RUNS = FT_SANITIZED ? 3 : 8 };

static int64_t every_so_many(void) { // FT_OOM_EVERY=1: all of them
    const char *text = getenv("FT_OOM_EVERY");
    return text != NULL && atoi(text) > 0 ? atoi(text) : EVERY;
}

static json_t *read_json(const char *dir, int number, const char *name) {
    char path[256];
    json_t *json;
    snprintf(path, sizeof path, "%s/run%d/%s", dir, number, name);
    assert_int_equal(ft_json_load(path, &json), FT_OK);
    return json;
}

// What a run found out: all of metrics.jsonl but speeds and refusals. *refusals: lines of those.
static char *findings(const tiny_run *t, int number, int *refusals) {
    char path[256], line[4096];
    snprintf(path, sizeof path, "%s/run%d/metrics.jsonl", t->dir, number);
    FILE *f = fopen(path, "r");
    json_t *all = json_array();
    *refusals = 0;
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL) {
        json_t *one;
        assert_int_equal(ft_json_parse(line, strlen(line), path, &one), FT_OK);
        json_object_del(one, "tokens_per_second");
        if (json_object_get(one, "out_of_memory") == NULL) assert_int_equal(json_array_append_new(all, one), 0);
        else json_decref(one), ++*refusals;
    }
    fclose(f);
    char *text = ft_json_line(all);
    json_decref(all);
    assert_non_null(text);
    return text;
}

static void expect_same_model(const tiny_run *t, int number) {
    static const char *const files[] = {"model/model.safetensors", "predictions.jsonl"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char a[256], b[256], digest_a[65], digest_b[65];
        snprintf(a, sizeof a, "%s/run0/%s", t->dir, files[i]);
        snprintf(b, sizeof b, "%s/run%d/%s", t->dir, number, files[i]);
        assert_int_equal(ft_path_exists(a), ft_path_exists(b));
        if (!ft_path_exists(a)) continue;
        assert_int_equal(ft_sha256_file(a, digest_a), FT_OK);
        assert_int_equal(ft_sha256_file(b, digest_b), FT_OK);
        assert_string_equal(digest_a, digest_b);
    }
}

// The run did what run 0 did, to the bit, and says what was refused on its way.
static void expect_same(const tiny_run *t, int number) {
    int none, refusals;
    char *expected = findings(t, 0, &none), *got = findings(t, number, &refusals);
    assert_string_equal(got, expected);
    free(expected);
    free(got);
    expect_same_model(t, number);
    json_t *json = read_json(t->dir, number, "run.json");
    size_t listed = json_array_size(json_object_get(json, "memory_retries"));
    assert_int_equal(none, 0);
    assert_int_equal(listed, refusals);
    assert_int_equal(refused_any, refusals > 0);
    json_decref(json);
}

static void forget(const tiny_run *t, int number) {
    char path[256];
    snprintf(path, sizeof path, "%s/run%d", t->dir, number);
    if (ft_path_exists(path)) assert_int_equal(ft_remove_tree(path), FT_OK);
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

// Runs of the first seeds are as they are drawn; of the others every way to recompute inside of a layer, with the rows of the word
// table that the texts touch, is named: as drawn most of them are in 16 bits, where there is nothing to name.
enum { DRAWN = 6, NAMED = 4 };
static void make_run(tiny_run *t, uint64_t seed) {
    make_tiny_run(t, scratch, seed);
    if (seed <= DRAWN) return;
    set(t, "train.precision=fp32");
    set(t, "train.residual=fp32");
    set(t, "memory.recompute_activation=%s", seed % 2 ? "true" : "false");
    set(t, "memory.recompute_layernorm=%s", seed / 2 % 2 ? "true" : "false");
    set(t, "memory.active_vocabulary=auto");
    set(t, "model.freeze=none");
    set(t, "model.freeze_layers=0");
    set(t, "train.parameters=all");
}

// memory.on_oom = fail, and the ladder when nothing is given any more: the error, exit code 3.
static void test_every_request_refused(void **state) {
    int64_t errors = 0, possible = 0;
    for (uint64_t seed = 1; seed <= DRAWN + NAMED; seed++)
        for (int ladder = 0; ladder < 2; ladder++) {
            tiny_run t;
            make_run(&t, seed);
            set(&t, "memory.on_oom=%s", ladder ? "ladder" : "fail");
            fault = NO_FAULT;
            ft_memory_refusal refusal;
            assert_int_equal(run(&t, 0, &refusal), FT_OK);
            assert_int_equal(refusal.bytes, 0);
            int64_t all = requests;
            assert_true(all > 10);
            possible += all;
            fault = ladder ? ONWARD : ONCE;
            for (fault_at = 1 + (int64_t)seed % every_so_many(); fault_at <= all; fault_at += every_so_many()) {
                assert_int_equal(run(&t, (int)fault_at, &refusal), FT_NO_MEMORY); // exit code 3
                expect_words(&refusal);
                forget(&t, (int)fault_at);
                errors++;
            }
            fault = NO_FAULT;
            assert_int_equal(run(&t, (int)all + 1, &refusal), FT_OK); // and nothing stays behind in the process
            assert_int_equal(ft_remove_tree(t.dir), FT_OK);
        }
    print_message("%" PRId64 " runs of %" PRId64 " requests ended with the error\n", errors, possible);
}

// A refusal that does not last: the run goes on as if nothing had been.
static void test_every_request_refused_once(void **state) {
    int64_t runs = 0, possible = 0;
    for (uint64_t seed = 1; seed <= DRAWN + NAMED; seed++) {
        tiny_run t;
        make_run(&t, seed);
        fault = NO_FAULT;
        ft_memory_refusal refusal;
        assert_int_equal(run(&t, 0, &refusal), FT_OK);
        int64_t all = requests;
        possible += all;
        fault = ONCE;
        for (fault_at = 1 + (int64_t)seed % every_so_many(); fault_at <= all; fault_at += every_so_many()) {
            if (run(&t, (int)fault_at, &refusal) != FT_OK)
                fail_msg("seed %" PRIu64 ", request %" PRId64 ": %s (%s)", seed, fault_at, ft_error_message(), ft_error_where());
            assert_int_equal(refusal.bytes, 0);
            assert_true(refused_any);
            expect_same(&t, (int)fault_at);
            forget(&t, (int)fault_at);
            runs++;
        }
        fault = NO_FAULT;
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    print_message("%" PRId64 " runs of %" PRId64 " requests went on after a refusal\n", runs, possible);
}

// The device is smaller than it was, from any request on: smaller micro-batches and recomputation, the same bits.
static void test_less_from_any_request_on(void **state) {
    int completed = 0, failed = 0, changed = 0;
    for (uint64_t seed = 200; seed < 200 + LARGE_RUNS; seed++) {
        tiny_run t;
        make_tiny_run(&t, scratch, seed);
        enlarge_tiny_run(&t);
        set(&t, "data.validation=%s/dev.tsv", t.dir);
        set(&t, "data.validation_split=0");
        set(&t, "data.test=%s/test.tsv", t.dir);
        set(&t, "eval.strategy=steps");
        set(&t, "eval.steps=1");
        set(&t, "output.save_steps=1");
        set(&t, "train.max_steps=3");
        fault = NO_FAULT;
        ft_memory_refusal refusal;
        assert_int_equal(run(&t, 0, &refusal), FT_OK);
        int64_t all = requests;
        json_t *json = read_json(t.dir, 0, "run.json");
        size_t peak = (size_t)json_integer_value(json_object_get(json_object_get(json, "memory"), "peak_reserved_bytes"));
        json_decref(json);
        fault = SHRUNK;
        for (fault_at = 1 + (int64_t)seed % every_so_many(); fault_at <= all; fault_at += every_so_many()) {
            capacity = peak / 100 * (size_t)pick(&t, 25, 99);
            ft_status status = run(&t, (int)fault_at, &refusal);
            if (status == FT_OK) {
                expect_same(&t, (int)fault_at);
                completed++;
                if (refused_any) changed++;
            } else {
                assert_int_equal(status, FT_NO_MEMORY);
                expect_words(&refusal);
                failed++;
            }
            forget(&t, (int)fault_at);
        }
        fault = NO_FAULT;
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    print_message("%d runs completed, %d of them after refusals, %d ended with the error\n", completed, changed, failed);
    assert_true(changed > 0 && failed > 0);
}

// Ctrl-C while the ladder is at work. Where memory comes back, the stop is at the step or the evaluation that it was for, and
// the resumed run ends with the bits of an undisturbed one; where it does not, not even for the checkpoint, the run ends as
// out of memory: no wait is ended by the signal as if the state had been saved.
static void test_stops_in_the_ladder(void **state) {
    int resumed = 0, failed = 0;
    for (uint64_t seed = 400; seed < 400 + LARGE_RUNS; seed++) {
        tiny_run t;
        make_tiny_run(&t, scratch, seed);
        enlarge_tiny_run(&t);
        set(&t, "data.validation=%s/dev.tsv", t.dir);
        set(&t, "data.validation_split=0");
        set(&t, "eval.strategy=steps");
        set(&t, "eval.steps=2");
        set(&t, "train.max_steps=3");
        set(&t, "device.wait=true");
        set(&t, "device.check_interval=1s");
        fault = NO_FAULT;
        ft_memory_refusal refusal;
        assert_int_equal(run(&t, 0, &refusal), FT_OK);
        const int64_t first = loop_first, last = loop_last; // few: steps ask for nothing
        for (int lasting = 0; lasting < 2; lasting++)
            for (int64_t at = first; at <= last; at++) {
                const int number = (int)at;
                fault = lasting ? ONWARD : THRICE; // a save's, which drops the arena, and then that: the ladder plans smaller micro-batches
                fault_at = at;
                stop_at = lasting ? 1 : 3;
                ft_status status = run(&t, number, &refusal);
                const bool stopped = stop_at == 0;
                fault = NO_FAULT;
                stop_at = 0;
                if (stopped && lasting) {
                    assert_int_equal(status, FT_NO_MEMORY);
                    failed++;
                } else if (stopped && status == FT_INTERRUPTED) {
                    assert_non_null(strstr(ft_error_message(), "the state is saved in"));
                    set(&t, "output.exists=resume");
                    if (run(&t, number, &refusal) != FT_OK) fail_msg("resumed: %s (%s)", ft_error_message(), ft_error_where());
                    t.count--;
                    expect_same_model(&t, number);
                    resumed++;
                }
                forget(&t, number);
            }
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
    print_message("%d runs were resumed, %d ended with the error\n", resumed, failed);
    assert_true(resumed > 0 && failed > 0);
}

static json_int_t number_at(const json_t *object, const char *first, const char *second) {
    const json_t *value = json_object_get(object, first);
    return json_integer_value(second != NULL ? json_object_get(value, second) : value);
}

// run.json tells its three devices apart: steps that follow each other, and each with its own plan, which was kept to. The one
// that it ended on has what a run has that was never anywhere else.
static void expect_three_devices(const tiny_run *t) {
    json_t *alone = read_json(t->dir, 0, "run.json"), *moved = read_json(t->dir, 1, "run.json");
    const json_t *left = json_object_get(moved, "earlier_devices"), *device;
    json_int_t step = 0;
    size_t i;
    assert_null(json_object_get(alone, "earlier_devices"));
    assert_int_equal(json_array_size(left), 2);
    json_array_foreach(left, i, device) {
        assert_string_equal(json_string_value(json_object_get(device, "device")), "cpu");
        assert_int_equal(number_at(device, "first_step", NULL), step);
        assert_true(number_at(device, "last_step", NULL) > step);
        step = number_at(device, "last_step", NULL);
        assert_true(number_at(device, "memory", "peak_reserved_bytes") > 0);
        assert_true(number_at(device, "memory", "peak_reserved_bytes") <= number_at(device, "planned", "peak_reserved_bytes"));
        assert_true(json_array_size(json_object_get(device, "sites")) > 0);
    }
    assert_int_equal(number_at(moved, "memory", "peak_reserved_bytes"), number_at(alone, "memory", "peak_reserved_bytes"));
    json_decref(alone);
    json_decref(moved);
}

// The timeline is that of all three on one clock.
static void expect_one_timeline(const tiny_run *t) {
    json_t *trace = read_json(t->dir, 1, "memory_timeline.json");
    const json_t *events = json_object_get(trace, "traceEvents"), *event;
    json_int_t process = 0;
    double last = 0;
    size_t i;
    json_array_foreach(events, i, event) {
        if (strcmp(json_string_value(json_object_get(event, "ph")), "C") != 0) continue;
        assert_true(number_at(event, "pid", NULL) >= process && json_number_value(json_object_get(event, "ts")) >= last);
        process = number_at(event, "pid", NULL);
        last = json_number_value(json_object_get(event, "ts"));
    }
    assert_int_equal(process, 3);
    json_decref(trace);
}

// A run that goes on on another device, twice, from where it is: every family thrice, in every precision there is.
static void test_moves(void **state) {
    for (uint64_t seed = 301; seed <= 321; seed++) {
        tiny_run t;
        make_tiny_run(&t, scratch, seed);
        set(&t, "train.logging_steps=1");
        set(&t, "train.max_steps=4");
        set(&t, "memory.timeline=true");
        fault = NO_FAULT;
        ft_memory_refusal refusal;
        for (int number = 0; number < 2; number++) {
            moves = 2 * number;
            if (run(&t, number, &refusal) != FT_OK) fail_msg("%s (%s)", ft_error_message(), ft_error_where());
        }
        assert_int_equal(moves, 0);
        expect_same(&t, 1);
        expect_three_devices(&t);
        expect_one_timeline(&t);
        assert_int_equal(ft_remove_tree(t.dir), FT_OK);
    }
}

// ---- a run that a study watches ---------------------------------------------------------------------------------------------

static int silent_signs, logged_signs; // of a step

static void count_sign(void *context, int64_t step, int64_t total_steps, size_t reserved_bytes, bool logged) {
    if (step >= 0) ++*(logged ? &logged_signs : &silent_signs);
}
static ft_status take_turn(void *context, size_t bytes, bool full, bool *alone) {
    *alone = true;
    return FT_OK;
}
static void note_entry(void *context, const struct ft_candidate *where) {}
static ft_run_observer watcher = {.name = "Trial 1 - ", .alive = count_sign, .turn = take_turn, .entered = note_entry};

// It gives signs of life between its log lines, however rare those are, or the study would take it for one that hangs.
static void test_a_watched_run_is_not_silent(void **state) {
    tiny_run t;
    make_tiny_run(&t, scratch, 401);
    set(&t, "train.logging_steps=1000");
    set(&t, "train.max_steps=3");
    fault = NO_FAULT;
    silent_signs = logged_signs = 0;
    ft_memory_refusal refusal;
    ft_run_observe(&watcher);
    ft_status status = run(&t, 0, &refusal);
    ft_run_observe(NULL);
    assert_int_equal(status, FT_OK);
    assert_true(silent_signs > 0 && logged_signs > 0);
    assert_int_equal(ft_remove_tree(t.dir), FT_OK);
}

// It does not wait in the middle of its training, whatever device.wait is: that would be such a silence.
static void test_a_watched_run_does_not_wait(void **state) {
    tiny_run t;
    make_tiny_run(&t, scratch, 402);
    set(&t, "device.wait=true");
    set(&t, "device.wait_timeout=0.3s");
    set(&t, "device.check_interval=0.1s");
    ft_memory_refusal refusal;
    fault = NO_FAULT;
    assert_int_equal(run(&t, 0, &refusal), FT_OK);
    fault = ONWARD;
    fault_at = requests / 2;
    for (int watched = 0; watched < 2; watched++) {
        ft_run_observe(watched ? &watcher : NULL);
        ft_status status = run(&t, 1 + watched, &refusal);
        ft_run_observe(NULL);
        assert_int_equal(status, FT_NO_MEMORY);
        bool waited = false;
        for (int i = 0; i < ft_error_hint_count(); i++) waited = waited || strstr(ft_error_hint(i), "waiting for memory") != NULL;
        assert_int_equal(waited, !watched);
    }
    fault = NO_FAULT;
    assert_int_equal(ft_remove_tree(t.dir), FT_OK);
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
        fault = NO_FAULT;
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_request_refused), cmocka_unit_test(test_every_request_refused_once),
                                       cmocka_unit_test(test_less_from_any_request_on), cmocka_unit_test(test_stops_in_the_ladder),
                                       cmocka_unit_test(test_moves),
                                       cmocka_unit_test(test_a_watched_run_is_not_silent), cmocka_unit_test(test_a_watched_run_does_not_wait),
                                       cmocka_unit_test(test_advice_fits)};
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
