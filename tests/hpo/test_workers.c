// Several workers: nothing is lost or doubled whatever befalls them, and the order of events decides all. Trials are
// this very program in another role (study_case.h).
// ctest: asan_part=0
#include "study_case.h"

#include "hpo/search/sampler.h"
#include "hpo/study/slots.h"
#include "tests/fixtures/sanitized.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

static const char *study_attribute(opened *o, const char *key) { return attribute(o, FT_STUDY_ATTRIBUTE, key); }

static void test_four_workers(void **state) {
    tunes("four", 0, MORE("study.parallel=4", "study.trials=24", "study.pruner=none", "data.label_column=0.5"));
    all_well("four", 24);
    opened o = look("four");
    assert_string_equal(study_attribute(&o, "completed_trials"), "24");
    assert_string_equal(study_attribute(&o, "oom_trials"), "0");
    int64_t start, finish, least = INT64_MAX, together = 0;
    for (int64_t i = 0; i < 24; i++) {
        double age;
        ok(ft_stored_heartbeat_age(o.study, i, &age)); // as Optuna stores them
        assert_true(age >= 0 && age < 300);
        ok(ft_stored_times(o.study, i, &start, &finish));
        if (finish < least) least = finish;
    }
    for (int64_t i = 0; i < 24; i++) {
        ok(ft_stored_times(o.study, i, &start, &finish));
        together += start < least;
    }
    assert_int_equal(together, 4); // had begun when the first one ended
    leave(&o);
}

// ---- the order decides ----------------------------------------------------------------------------------------------

typedef struct event {
    int64_t time, number;
    bool end;
} event;

static int by_time(const void *a, const void *b) {
    const event *x = a, *y = b;
    return x->time != y->time ? (x->time > y->time) - (x->time < y->time) : (int)y->end - (int)x->end;
}

// The study's own begins and ends, in their order, in a new history with the same seed.
static void replay(const char *name, const event *events, int64_t count, const opened *o) {
    char storage[64];
    const char *files[] = {in_scratch("tune.ini")}, *more[] = {"study.pruner=none", "study.trials=0"};
    ft_config config;
    ft_tuning t;
    ft_tuning_call call = {.study = name, .storage = storage};
    snprintf(storage, sizeof storage, "sqlite:///%s.db", name);
    ok(ft_study_config_load(&config, 1, files, 2, more));
    ft_log_set_level(FT_LOG_QUIET);
    ok(ft_tuning_open(&config, &call, &t));
    ft_slot slots[8] = {{.number = -1}}; // those that run are not to be taken up again
    t.slots = slots;
    t.slot_count = 8;
    for (int i = 0; i < 8; i++)
        slots[i].number = -1;
    for (int64_t i = 0; i < count; i++) {
        const ft_trial *trial = &o->trials->trial[events[i].number];
        if (events[i].end) {
            ok(ft_stored_finish(t.study, events[i].number, trial->state, trial->values, trial->value_count));
            ft_slots_of(&t, events[i].number)->number = -1;
            continue;
        }
        int64_t number;
        ok(ft_tuning_next(&t, &number));
        assert_int_equal(number, events[i].number);
        ft_slots_idle(&t)->number = number;
        const ft_trial *again = &t.study->trials.trial[number];
        assert_int_equal(again->param_count, trial->param_count);
        for (int k = 0; k < trial->param_count; k++) // not within a tolerance
            assert_memory_equal(&again->params[k].value, &trial->params[k].value, sizeof(double));
    }
    t.slots = NULL;
    t.slot_count = 0;
    ok(ft_tuning_close(&t));
    ft_config_free(&config);
}

static void test_a_recorded_order_replays(void **state) {
    event events[120];
    tunes("order", 0, MORE("study.parallel=3", "study.trials=40", "study.pruner=none", "data.label_column=0.2"));
    opened o = look("order");
    for (int64_t i = 0; i < 40; i++) {
        int64_t start, finish;
        ok(ft_stored_times(o.study, i, &start, &finish));
        events[2 * i] = (event){start, i, false};
        events[2 * i + 1] = (event){finish, i, true};
    }
    qsort(events, 80, sizeof *events, by_time);
    replay("again", events, 80, &o);
    leave(&o);
}

// ---- faults ---------------------------------------------------------------------------------------------------------

static void test_a_hang_costs_one_retry(void **state) {
    tunes("hangs", 0,
          MORE("study.parallel=2", "study.trials=4", "study.pruner=none", "data.text_column=hangs",
               "study.heartbeat_timeout=0.6s"));
    all_well("hangs", 4);
    opened o = look("hangs");
    for (int64_t i = 0; i < 4; i++) {
        assert_string_equal(attribute(&o, i, "retries"), "1");
        assert_non_null(strstr(attribute(&o, i, "retried_after"), "no sign of life for"));
    }
    leave(&o);
}

// One that has its turn takes its memory at once, unless it is alone and device.wait lets it wait for other programs.
static void test_a_hang_in_its_turn_costs_one_retry(void **state) {
    tunes("entering", 0,
          MORE("study.parallel=2", "study.trials=2", "study.pruner=none", "data.text_column=hangs-entering",
               "study.heartbeat_timeout=0.6s"));
    all_well("entering", 2);
    opened o = look("entering");
    for (int64_t i = 0; i < 2; i++)
        assert_string_equal(attribute(&o, i, "retries"), "1");
    leave(&o);
}

static void test_a_trial_that_had_ended_is_taken(void **state) {
    tunes("late", 0,
          MORE("study.parallel=2", "study.trials=4", "study.pruner=none", "data.text_column=dies-late",
               "study.max_retries=0"));
    all_well("late", 4);
}

static void test_a_crash_leaves_its_stack(void **state) {
    refuses("crashes", MORE("study.parallel=2", "study.trials=3", "data.text_column=crashes", "study.max_retries=1"), 1,
            "no trial completed");
    opened o = look("crashes");
    assert_int_equal(count_state(&o, FT_FAIL), 3);
    for (int64_t i = 0; i < 3; i++) {
        assert_string_equal(attribute(&o, i, "retries"), "1");
#if FT_SANITIZED
        assert_non_null(strstr(attribute(&o, i, "error"), "the worker ended with exit code")); // it says more itself
#else
        assert_string_equal(attribute(&o, i, "error"), "\"killed by signal 11\"");
        assert_non_null(strstr(attribute(&o, i, "error_traceback"), "crashed; the stack:"));
#endif
    }
    leave(&o);
}

static void test_diverged_is_not_tried_again(void **state) {
    refuses("diverged", MORE("study.parallel=2", "study.trials=6", "data.text_column=diverges"), 1,
            "no trial completed");
    opened o = look("diverged");
    assert_int_equal(count_state(&o, FT_FAIL), 6);
    assert_string_equal(attribute(&o, 3, "retries"), "");
    assert_string_equal(attribute(&o, 3, "error"), "\"training diverged\"");
    leave(&o);
}

static void test_failures_end_the_study(void **state) {
    refuses("gives-up",
            MORE("study.parallel=2", "data.text_column=fails", "study.max_retries=0", "study.max_failures=3"), 1,
            "3 trials in a row failed");
    opened o = look("gives-up");
    assert_true(count_state(&o, FT_FAIL) >= 3 && count_state(&o, FT_FAIL) + count_state(&o, FT_RUNNING) <= 4);
    leave(&o);
}

// What runs beside the trials that failed has done nothing: it saves, and goes on at the next call.
static void test_who_gives_up_saves_what_runs(void **state) {
    refuses("saves",
            MORE("study.parallel=4", "study.trials=12", "data.text_column=fails-beside", "data.label_column=10",
                 "study.pruner=none", "study.max_retries=0", "study.max_failures=1"),
            1, "1 trials in a row failed");
    opened o = look("saves");
    int64_t begun = 0;
    for (int64_t i = 0; i < o.trials->count; i++) {
        char file[64];
        snprintf(file, sizeof file, "trials/%05lld/starts", (long long)i);
        if (o.trials->trial[i].state != FT_RUNNING || !ft_path_exists(in_study("saves", file))) continue;
        begun++;
        if (!has("saves", i, "checkpoints") || !has("saves", i, "run.json"))
            fail_msg("trial %lld was not saved", (long long)i);
    }
    assert_true(begun > 0);
    leave(&o);
    tunes("saves", 0,
          MORE("study.parallel=4", "study.trials=12", "data.text_column=fails-beside", "study.pruner=none",
               "study.max_retries=0", "study.max_failures=0"));
}

// Another program queues what nobody can read: nothing can begin any more, and what runs is saved.
static void test_an_error_saves_what_runs(void **state) {
    const char *const *more = MORE("study.parallel=3", "study.trials=12", "study.pruner=none", "data.label_column=20",
                                   "space.train.max_steps=choice(30, 1000)", "space.train.weight_decay=0");
    unlink(in_scratch("error"));
    pid_t pid = tune_beside("unreadable", 0, more);
    for (int i = 0; i < 3000 && !has("unreadable", 0, "starts"); i++)
        pause_ms(10);
    ft_storage *file;
    ft_stored *study;
    int64_t number;
    ok(ft_storage_open(in_study("unreadable", "study.db"), FT_STORAGE_WRITE, &file));
    ok(ft_stored_open(file, NULL, &study));
    ok(ft_storage_begin(file));
    ok(ft_stored_ask(study, FT_WAITING, &number));
    ok(ft_stored_set_attribute(study, number, FT_SYSTEM_ATTRIBUTE, "fixed_params", "3"));
    ok(ft_storage_commit(file));
    ft_stored_close(study);
    ok(ft_storage_close(file));
    assert_int_equal(end_of(pid), 2);
    if (strstr(last_error(), "no JSON object") == NULL) fail_msg("%s", last_error());
    opened o = look("unreadable");
    int64_t saved = 0;
    for (int64_t i = 0; i < o.trials->count; i++) {
        if (o.trials->trial[i].state != FT_RUNNING) continue;
        assert_true(has("unreadable", i, "checkpoints") && has("unreadable", i, "run.json"));
        saved++;
    }
    assert_true(saved > 0);
    assert_int_equal(o.trials->trial[number].state, FT_WAITING);
    leave(&o);
}

static pid_t child_of(pid_t pid, int which) {
    char path[64];
    long child = 0;
    snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", (long)pid, (long)pid);
    FILE *in = fopen(path, "r");
    for (int i = 0; in != NULL && i <= which; i++)
        if (fscanf(in, "%ld", &child) != 1) child = 0;
    if (in != NULL) fclose(in);
    return (pid_t)child;
}

static void test_workers_are_replaced(void **state) {
    pid_t pid = tune_beside("replaced", 0,
                            MORE("study.parallel=3", "study.trials=30", "study.pruner=none", "data.label_column=1",
                                 "study.max_retries=100"));
    unsigned seed = (unsigned)time(NULL);
    print_message("KILL_SEED=%u\n", seed);
    int kills = 0, status;
    for (int i = 0; i < 12; i++) {
        seed = seed * 1103515245u + 12345u;
        pause_ms(10 + (seed >> 16) % 60);
        pid_t worker = waitpid(pid, &status, WNOHANG) == 0 ? child_of(pid, (int)(seed >> 24) % 3) : 0;
        if (worker > 0) kills += kill(worker, SIGKILL) == 0;
        if (worker == 0 && kill(pid, 0) != 0) break;
    }
    assert_true(kills > 0);
    if (waitpid(pid, &status, 0) != pid || status != 0) fail_msg("status %d: %s", status, last_error());
    all_well("replaced", 30);
}

// ---- a study in this process ----------------------------------------------------------------------------------------

typedef struct own_study {
    ft_config config;
    ft_tuning tuning;
    ft_slot slot;
    int64_t number; // of its only trial, which is in the slot
} own_study;

static void open_own(own_study *s, const char *name) {
    const char *files[] = {in_scratch("tune.ini")}, *more[] = {"study.pruner=none"};
    ft_tuning_call call = {.study = name};
    ft_log_set_level(FT_LOG_QUIET);
    ok(ft_study_config_load(&s->config, 1, files, 1, more));
    ok(ft_tuning_open(&s->config, &call, &s->tuning));
    s->slot = (ft_slot){.number = -1, .worker.channel.socket = -1};
    s->tuning.slots = &s->slot;
    s->tuning.slot_count = 1;
    ok(ft_tuning_next(&s->tuning, &s->number));
    ok(ft_tuning_prepare(&s->tuning, s->number));
    ok(ft_slots_begin(&s->tuning, &s->slot, s->number));
}

static void close_own(own_study *s) {
    ft_worker_process_kill(&s->slot.worker);
    ft_worker_process_collect(&s->slot.worker);
    ft_slots_end(&s->tuning, &s->slot);
    s->tuning.slots = NULL;
    s->tuning.slot_count = 0;
    ok(ft_tuning_close(&s->tuning));
    ft_config_free(&s->config);
}

// Its worker may still be saving.
static void test_a_pruned_trial_is_tidied_when_it_has_left(void **state) {
    own_study s;
    char checkpoints[5000];
    open_own(&s, "leaving");
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", s.slot.directory);
    must(mkdir(checkpoints, 0777) == 0);
    ok(ft_stored_finish(s.tuning.study, s.number, FT_PRUNED, NULL, 0));
    ok(ft_tuning_tidy(&s.tuning, false));
    assert_true(ft_path_exists(checkpoints));
    ft_slots_end(&s.tuning, &s.slot);
    ok(ft_tuning_tidy(&s.tuning, false));
    assert_false(ft_path_exists(checkpoints));
    close_own(&s);
}

// The kernel tells of a failed write once: what the disk has refused is written again, not asked for a second time.
static void test_what_did_not_reach_the_disk_is_written_again(void **state) {
    own_study s;
    bool retry;
    struct rlimit limit, less;
    open_own(&s, "unsynced");
    assert_int_equal(chdir(s.slot.directory), 0);
    write_run("completed", 60, 0.5);
    for (int i = 0; i < 60; i++) // deeper than there are descriptors
        assert_true(mkdir("d", 0777) == 0 && chdir("d") == 0);
    assert_int_equal(chdir(scratch_dir), 0);
    must(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    less = limit;
    const int next = dup(0);
    less.rlim_cur = (rlim_t)next + 20;
    must(close(next) == 0 && setrlimit(RLIMIT_NOFILE, &less) == 0);
    ft_status status = ft_tuning_finish(&s.tuning, s.number, &(ft_trial_end){.error = ""}, &retry);
    must(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    ok(status);
    assert_true(retry);
    assert_false(has("unsynced", 0, "run.json"));
    assert_int_equal(s.tuning.study->trials.trial[0].state, FT_RUNNING);
    close_own(&s);
    tunes("unsynced", 0, MORE("study.trials=1", "study.pruner=none"));
    all_well("unsynced", 1);
}

static void test_a_deaf_worker_is_replaced(void **state) {
    own_study s;
    open_own(&s, "deaf");
    ok(ft_worker_process_start(s.tuning.directory, 0, &s.slot.worker));
    const pid_t deaf = s.slot.worker.pid;
    must(kill(deaf, SIGSTOP) == 0 && shutdown(s.slot.worker.channel.socket, SHUT_WR) == 0);
    ok(ft_slots_run(&s.tuning, &s.slot));
    assert_true(s.slot.worker.pid > 0 && s.slot.worker.pid != deaf && kill(deaf, 0) != 0);
    assert_int_equal(ft_error_code(), FT_OK);
    close_own(&s);
}

// ---- after a power cut ----------------------------------------------------------------------------------------------

// Trials do not wait for the disk. What one had left before the machine went down may be empty, or tell of a model that
// is; so it goes on from its checkpoint. What a coordinator has left that was only killed is taken.
static void test_what_an_earlier_boot_left_is_not_taken(void **state) {
    static const char *const names[] = {"killed-here", "cut-off"};
    const char *const *more = MORE("study.trials=1", "study.pruner=none");
    for (int cut = 0; cut < 2; cut++) {
        own_study s;
        char path[5000];
        open_own(&s, names[cut]);
        snprintf(path, sizeof path, "%s/", s.slot.directory);
        assert_int_equal(chdir(path), 0);
        assert_false(ft_boot_is_same("."));
        ok(ft_boot_mark("."));
        assert_true(ft_boot_is_same("."));
        write_run("completed", 60, 0.5);
        ok(ft_boot_mark("."));
        close_own(&s);
        if (cut) { // a minute ago, says the clock, which was set since
            static const char other[] = "01234567-89ab-4cde-8f01-23456789abcd\n";
            ok(ft_atomic_write("boot", other, sizeof other - 1));
            assert_int_equal(truncate("config.ini", 0), 0);
        }
        assert_int_equal(chdir(scratch_dir), 0);
        tunes(names[cut], 0, more);
        assert_int_equal(has(names[cut], 0, "starts"), cut);
        if (cut) all_well(names[cut], 1);
        assert_int_equal(has(names[cut], 0, "run.json"), true);
    }
}

// ---- memory ---------------------------------------------------------------------------------------------------------

static void test_out_of_memory_is_a_result(void **state) {
    tunes(
        "oom", 0,
        MORE("study.parallel=2", "study.trials=12", "study.pruner=none", "data.text_column=oom", "data.max_length=24"));
    opened o = look("oom");
    int batch = ft_trials_find_name(o.trials, "train.batch_size");
    int64_t ooms = 0;
    for (int64_t i = 0; i < 12; i++) {
        const ft_trial *t = &o.trials->trial[i];
        double size = (double[]){8, 16, 32}[(int)ft_trial_find_param(t, batch)->value];
        assert_int_equal(t->state, size > 10 ? FT_PRUNED : FT_COMPLETE);
        if (size <= 10) continue;
        ooms++;
        assert_true(t->value_count == 0 && fabs(ft_trial_violation(t) - (size - 10) / 10) < 1e-12);
        assert_string_equal(attribute(&o, i, "oom"), "true");
        assert_string_equal(attribute(&o, i, "status"), "\"oom\"");
        assert_string_equal(attribute(&o, i, "oom_error"), "\"out of memory (layer 3)\"");
        assert_non_null(strstr(attribute(&o, i, "oom_config"),
                               size == 16
                                   ? "\"batch_size\":16,\"grad_accum\":1,\"max_length\":24,\"effective_batch_size\":16"
                                   : "\"effective_batch_size\":32"));
        assert_non_null(strstr(attribute(&o, i, "error_traceback"), "ftengine: error: out of memory (layer 3)"));
        assert_true(attribute(&o, i, "peak_memory_gb")[0] != '\0' && attribute(&o, i, "peak_memory_bytes")[0] != '\0');
    }
    char count[24];
    snprintf(count, sizeof count, "%lld", (long long)ooms);
    assert_string_equal(study_attribute(&o, "oom_trials"), count);
    assert_string_equal(study_attribute(&o, "pruned_trials"), count);
    assert_true(ooms > 0 && ooms < 12);
    leave(&o);
}

static void test_what_cannot_fit_is_not_begun(void **state) {
    static const char *const policies[] = {"fit", "constrain", "prune"};
    for (int p = 0; p < 3; p++) {
        char policy[64];
        snprintf(policy, sizeof policy, "study.memory_policy=%s", policies[p]);
        tunes(policies[p], 0,
              MORE(policy, "study.parallel=2", "study.trials=10", "study.pruner=none", "data.text_column=too-large"));
        opened o = look(policies[p]);
        int batch = ft_trials_find_name(o.trials, "train.batch_size"), large = 0;
        for (int64_t i = 0; i < 10; i++) {
            const ft_trial *t = &o.trials->trial[i];
            bool fits = ft_trial_find_param(t, batch)->value < 2;
            assert_int_equal(t->state, fits ? FT_COMPLETE : FT_PRUNED);
            if (fits) continue;
            large++;
            assert_string_equal(attribute(&o, i, "status"), "\"does_not_fit\"");
            assert_string_equal(attribute(&o, i, "oom"), "");
            assert_string_equal(attribute(&o, i, "memory.needed_bytes"), "32000");
            assert_true(fabs(ft_trial_violation(t) - (p == 2 ? 0 : 0.6)) < 1e-12);
        }
        assert_true(large > 0 && large < 10);
        assert_string_equal(study_attribute(&o, "oom_trials"), "0");
        leave(&o);
        // What is at auto is the planner's to choose only where that is asked for.
        ft_config c;
        char file[64];
        snprintf(file, sizeof file, "studies/%s/trials/00000/config.ini", policies[p]);
        const char *path = file;
        ok(ft_study_config_load(&c, 1, &path, 0, NULL));
        assert_true(p == 0 ? c.train.micro_batch == FT_AUTO : c.train.micro_batch == c.train.batch_size);
        ft_config_free(&c);
    }
}

// Large trials and small ones, of which only some have room together: nobody fails for want of room, and nobody waits
// while the others go on and on.
static void test_large_trials_get_their_turn(void **state) {
    enum { TRIALS = 60 };
    int64_t planned[TRIALS], entered[TRIALS], together = 0, line = 0, most = 0;
    setenv("FTENGINE_LEDGER_DIR", in_scratch("ledger"), 1);
    tunes("room", 0,
          MORE("study.parallel=7", "study.trials=60", "study.pruner=none", "data.text_column=room",
               "data.label_column=0.5", "study.sampler=random",
               "space.train.batch_size=choice(8, 9, 10, 11, 12, 13, 14, 32)", "space.train.weight_decay=0"));
    all_well("room", TRIALS);
    FILE *in = fopen(in_study("room", "room"), "r");
    assert_non_null(in);
    char what[16];
    long long number, bytes;
    for (; fscanf(in, "%15s %lld %lld", what, &number, &bytes) == 3; line++) {
        assert_true(number >= 0 && number < TRIALS && bytes <= 40000);
        (what[0] == 'p' ? planned : entered)[number] = line;
        together += what[0] == 'e' && bytes > 30000;
    }
    fclose(in);
    assert_int_equal(line, 2 * TRIALS);
    for (int i = 0; i < TRIALS; i++) {
        int64_t passed = 0;
        for (int k = 0; k < TRIALS; k++)
            passed += planned[k] > planned[i] && entered[k] < entered[i];
        if (passed > most) most = passed;
    }
    print_message("passed %lld times\n", (long long)most);
    assert_true(most <= 5); // four, and one whose message was slower than its line
    assert_true(together > 0);
}

static void test_a_bar_of_memory(void **state) {
    char text[300];
    bool entered;
    ft_ledger *ledger;
    ft_ledger_state found;
    ft_slot slots[3] = {{.state = FT_SLOT_TRAINING}, {.state = FT_SLOT_WAITING}, {.state = FT_SLOT_TRAINING}};
    ft_tuning t = {.slots = slots, .slot_count = 3};
    setenv("FTENGINE_LEDGER_DIR", in_scratch("bars"), 1);
    for (int i = 0; i < 3; i++)
        slots[i].place = (ft_candidate){.name = "there", .ledger = "bar", .capacity = 10 << 20};
    ft_display_memory(&t, text, sizeof text);
    assert_string_equal(text, "  there [----------] 0B of 10.0MiB"); // once for all that are there
    ok(ft_ledger_open(&(ft_ledger_device){.name = "bar", .capacity = 10 << 20}, &ledger));
    ok(ft_ledger_enter(ledger, 7 << 20, 0, &found, &entered));
    assert_true(entered);
    ft_display_memory(&t, text, sizeof text);
    assert_string_equal(text, "  there [#######---] 7.0MiB of 10.0MiB");
    slots[2].place = (ft_candidate){.name = "elsewhere", .ledger = "other", .capacity = 2 << 20};
    ft_display_memory(&t, text, sizeof text);
    assert_non_null(strstr(text, "7.0MiB of 10.0MiB  elsewhere [----------] "));
    slots[0].state = slots[2].state = FT_SLOT_PLANNING; // nobody is anywhere
    ft_display_memory(&t, text, sizeof text);
    assert_string_equal(text, "");
    ft_ledger_close(ledger);
}

// The limit is beyond every disk: the study waits, as long as it may.
static void test_a_full_disk_pauses(void **state) {
    tunes("disk", 0, MORE("study.min_free_disk=1000000GiB", "study.timeout=0.5s"));
    opened o = look("disk");
    assert_int_equal(o.trials->count, 0);
    leave(&o);
    tunes("disk", 0, MORE("study.min_free_disk=1KiB", "study.trials=2", "study.pruner=none"));
    all_well("disk", 2);
}

// ---- all of it at once ----------------------------------------------------------------------------------------------

// Workers that die, crash, fail and hang at random moments, and a coordinator that is killed again and again.
static void test_soak(void **state) {
    const char *const *more =
        MORE("study.parallel=4", "study.trials=60", "study.pruner=none", "data.text_column=faulty",
             "data.label_column=0.2", "study.heartbeat_timeout=0.5s", "study.max_retries=1000");
    unsigned seed = (unsigned)time(NULL);
    const char *given = getenv("KILL_SEED");
    if (given != NULL) seed = (unsigned)atoi(given);
    print_message("KILL_SEED=%u\n", seed);
    int code = -1, kills = 0;
    for (int i = 0; i < 60 && code != 0; i++) {
        pid_t pid = tune_beside("soak", 0, more);
        seed = seed * 1103515245u + 12345u;
        if (i < 10) {
            pause_ms(20 + (double)(seed >> 16) / 65536 * 400);
            kill(pid, SIGKILL);
        }
        code = end_of(pid);
        kills += code == -SIGKILL;
        if (code != 0 && code != -SIGKILL) fail_msg("exit code %d: %s", code, last_error());
    }
    assert_true(code == 0 && kills >= 3);
    all_well("soak", 60);
    int64_t retries = 0;
    opened o = look("soak");
    for (int64_t i = 0; i < 60; i++)
        retries += atoll(attribute(&o, i, "retries"));
    assert_true(retries > 0);
    leave(&o);
}

static void test_stopped_and_continued(void **state) {
    const char *const *more = MORE("study.parallel=3", "study.trials=12", "study.pruner=none", "data.label_column=2");
    int code = -1, stops = 0;
    for (int i = 0; i < 40 && code != 0; i++) {
        pid_t pid = tune_beside("stops", 0, more);
        if (i < 5) {
            pause_ms(150);
            kill(pid, i % 2 == 0 ? SIGINT : SIGTERM);
        }
        code = end_of(pid);
        if (code == -SIGINT || code == -SIGTERM) continue; // it had hardly begun
        stops += code == 130 || code == 143;
        if (code != 0 && code != 130 && code != 143) fail_msg("exit code %d: %s", code, last_error());
    }
    assert_true(code == 0 && stops >= 2);
    all_well("stops", 12);
}

int main(int argc, char **argv) {
    be_a_worker(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_workers),
        cmocka_unit_test(test_a_recorded_order_replays),
        cmocka_unit_test(test_a_hang_costs_one_retry),
        cmocka_unit_test(test_a_hang_in_its_turn_costs_one_retry),
        cmocka_unit_test(test_a_trial_that_had_ended_is_taken),
        cmocka_unit_test(test_a_crash_leaves_its_stack),
        cmocka_unit_test(test_diverged_is_not_tried_again),
        cmocka_unit_test(test_failures_end_the_study),
        cmocka_unit_test(test_who_gives_up_saves_what_runs),
        cmocka_unit_test(test_an_error_saves_what_runs),
        cmocka_unit_test(test_workers_are_replaced),
        cmocka_unit_test(test_a_pruned_trial_is_tidied_when_it_has_left),
        cmocka_unit_test(test_what_did_not_reach_the_disk_is_written_again),
        cmocka_unit_test(test_a_deaf_worker_is_replaced),
        cmocka_unit_test(test_what_an_earlier_boot_left_is_not_taken),
        cmocka_unit_test(test_out_of_memory_is_a_result),
        cmocka_unit_test(test_what_cannot_fit_is_not_begun),
        cmocka_unit_test(test_large_trials_get_their_turn),
        cmocka_unit_test(test_a_bar_of_memory),
        cmocka_unit_test(test_a_full_disk_pauses),
        cmocka_unit_test(test_soak),
        cmocka_unit_test(test_stopped_and_continued),
    };
    return cmocka_run_group_tests(tests, set_up_study, remove_scratch);
}
