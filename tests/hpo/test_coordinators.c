// Several coordinators on one study: no trial is lost or run twice whoever is killed, and each learns from all of them.
// Trials are this very program in another role (study_case.h).
#include "study_case.h"

#include "hpo/study/slots.h"

#include <stdlib.h>
#include <sys/file.h>

static long long number_in(const char *study, int64_t trial, const char *name) {
    char file[64];
    long long number = -1;
    snprintf(file, sizeof file, "trials/%05lld/%s", (long long)trial, name);
    FILE *in = fopen(in_study(study, file), "r");
    if (in == NULL) return -1;
    if (fscanf(in, "%lld", &number) != 1) number = -1;
    fclose(in);
    return number;
}

static int64_t size_in(const char *study, int64_t trial, const char *name) {
    char file[64];
    struct stat found;
    snprintf(file, sizeof file, "trials/%05lld/%s", (long long)trial, name);
    return stat(in_study(study, file), &found) == 0 ? (int64_t)found.st_size : 0;
}

static void wait_for(const char *path) {
    for (int i = 0; i < 3000 && !ft_path_exists(path); i++)
        pause_ms(10);
    assert_true(ft_path_exists(path));
}

// ---- two at once ----------------------------------------------------------------------------------------------------

static void test_two_share_a_study(void **state) {
    const char *const *more =
        MORE("study.parallel=2", "study.trials=30", "study.pruner=none", "data.label_column=1", "data.text_column=tells");
    pid_t first = tune_beside("share", 0, more), second = tune_beside("share", 0, more);
    if (end_of(first) != 0 || end_of(second) != 0) fail_msg("%s", last_error());
    all_well("share", 30); // and no trial more
    int64_t by[2] = {0};
    for (int64_t i = 0; i < 30; i++) {
        long long who = number_in("share", i, "coordinator");
        assert_true(who == first || who == second);
        by[who == second]++;
        assert_int_equal(size_in("share", i, "starts"), 1);
    }
    assert_true(by[0] > 0 && by[1] > 0);
    opened o = look("share");
    assert_string_equal(attribute(&o, FT_STUDY_ATTRIBUTE, "completed_trials"), "30");
    int64_t best = best_of(&o);
    for (int64_t i = 0; i < 30; i++) // of all trials one model is kept, whoever has trained it
        assert_int_equal(has("share", i, "model"), i == best);
    ft_config c;
    const char *file = in_study("share", "best.ini");
    ok(ft_study_config_load(&c, 1, &file, 0, NULL));
    int rate = ft_trials_find_name(o.trials, "train.learning_rate");
    assert_true(c.train.learning_rate == ft_trial_find_param(&o.trials->trial[best], rate)->value);
    ft_config_free(&c);
    leave(&o);
}

// Optuna's n_trials is each process's own; so is --add, where --trials is the study's.
static void test_each_adds_its_own(void **state) {
    const char *const *more = MORE("study.parallel=2", "study.pruner=none", "data.label_column=1", "data.text_column=tells");
    pid_t first = tune_beside("add", 7, more), second = tune_beside("add", 9, more);
    if (end_of(first) != 0 || end_of(second) != 0) fail_msg("%s", last_error());
    all_well("add", 16);
    int64_t by_first = 0;
    for (int64_t i = 0; i < 16; i++)
        by_first += number_in("add", i, "coordinator") == first;
    assert_int_equal(by_first, 7);
}

// A grid ends when its last point has, whoever tries that.
static void test_two_share_a_grid(void **state) {
    const char *const *more = MORE("study.parallel=2", "study.sampler=grid", "study.trials=0", "study.grid_points=5",
                                   "study.pruner=none", "data.label_column=1", "space.train.batch_size=choice(8, 16)",
                                   "space.train.weight_decay=0");
    pid_t first = tune_beside("grid", 0, more), second = tune_beside("grid", 0, more);
    if (end_of(first) != 0 || end_of(second) != 0) fail_msg("%s", last_error());
    all_well("grid", 10);
}

static void test_another_directory_is_refused(void **state) {
    if (test_storage() != NULL) skip(); // of several machines each may have its own
    char storage[300];
    snprintf(storage, sizeof storage, "study.storage=sqlite:///%s", in_scratch("all.db"));
    pid_t first = tune_beside("shared", 0, MORE("data.label_column=25", storage));
    wait_for("studies/shared/trials/00000/starts");
    assert_true(mkdir("elsewhere", 0777) == 0 && chdir("elsewhere") == 0);
    refuses("shared", MORE("data.label_column=25", storage), 2, "is running this study, from another directory");
    assert_false(ft_path_exists("studies"));
    tunes("another", 0, MORE("study.trials=1", storage)); // of the same file
    assert_int_equal(chdir(".."), 0);
    kill(first, SIGTERM);
    assert_int_equal(end_of(first), 143);
}

// ---- one that is gone -----------------------------------------------------------------------------------------------

// The other one, which would have nothing else to do, goes on with its trials from their checkpoints, at once.
static void test_the_dead_ones_trials_go_on(void **state) {
    static const int signals[] = {SIGKILL, SIGTERM};
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "dead" : "stopped";
        const char *const *more =
            MORE("study.parallel=2", "study.trials=2", "study.pruner=none", "data.label_column=30", "data.text_column=tells");
        pid_t first = tune_beside(name, 0, more);
        wait_for(in_study(name, "trials/00000/checkpoints/step"));
        wait_for(in_study(name, "trials/00001/checkpoints/step"));
        pid_t second = tune_beside(name, 0, more);
        pause_ms(100);
        kill(first, signals[i]);
        assert_int_equal(end_of(first), i == 0 ? -SIGKILL : 143);
        if (end_of(second) != 0) fail_msg("%s", last_error());
        all_well(name, 2);
        for (int64_t k = 0; k < 2; k++)
            assert_int_equal(number_in(name, k, "coordinator"), second);
    }
}

// Two coordinators and their workers, all killed at random moments, and workers that crash and hang besides.
static void test_soak(void **state) {
    enum { TRIALS = 60, ROUNDS = 400 };
    const char *const *more =
        MORE("study.parallel=3", "study.trials=60", "study.pruner=none", "data.text_column=faulty", "data.label_column=0.4",
             "study.heartbeat_timeout=0.5s", "study.max_retries=1000", "study.max_failures=0");
    unsigned seed = (unsigned)time(NULL);
    const char *given = getenv("KILL_SEED");
    if (given != NULL) seed = (unsigned)atoi(given);
    print_message("KILL_SEED=%u\n", seed);
    pid_t pid[2] = {tune_beside("soak", 0, more), tune_beside("soak", 0, more)};
    int kills = 0, done = 0;
    for (int i = 0; i < ROUNDS && done < 2; i++) {
        seed = seed * 1103515245u + 12345u;
        pause_ms(20 + (double)(seed >> 16) / 65536 * 200);
        const int which = (int)(seed >> 20 & 1);
        if (kills < 16 && pid[which] > 0) kill(pid[which], SIGKILL);
        for (int k = 0; k < 2; k++) {
            int status;
            if (pid[k] == 0 || waitpid(pid[k], &status, WNOHANG) != pid[k]) continue;
            if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
                fail_msg("exit code %d: %s", WEXITSTATUS(status), last_error());
            const bool ended = WIFEXITED(status);
            done += ended;
            kills += !ended;
            pid[k] = ended ? 0 : tune_beside("soak", 0, more);
        }
    }
    assert_int_equal(done, 2);
    assert_true(kills >= 4);
    all_well("soak", TRIALS);
    int64_t starts = 0;
    for (int64_t i = 0; i < TRIALS; i++)
        starts += size_in("soak", i, "starts");
    assert_true(starts > TRIALS);
}

// ---- what they know of each other -----------------------------------------------------------------------------------

typedef struct side {
    ft_config config;
    ft_tuning tuning;
    ft_slot slots[4];
} side;

static void open_side(side *s, const char *name, const char *const *more) {
    const char *files[] = {in_scratch("tune.ini")};
    ft_tuning_call call = {.study = name, .storage = test_storage()};
    int count = 0;
    while (more[count] != NULL)
        count++;
    ft_log_set_level(FT_LOG_QUIET);
    ok(ft_study_config_load(&s->config, 1, files, count, more));
    ok(ft_tuning_open(&s->config, &call, &s->tuning));
    for (int i = 0; i < 4; i++)
        s->slots[i] = (ft_slot){.number = -1, .worker.channel.socket = -1};
    s->tuning.slots = s->slots;
    s->tuning.slot_count = 4;
}

static void close_side(side *s) {
    for (int i = 0; i < 4; i++)
        ft_slots_end(&s->tuning, &s->slots[i]);
    s->tuning.slots = NULL;
    s->tuning.slot_count = 0;
    ok(ft_tuning_close(&s->tuning));
    ft_config_free(&s->config);
}

static int64_t begin(side *s) {
    int64_t number;
    ok(ft_tuning_next(&s->tuning, &number));
    if (number >= 0) ok(ft_slots_begin(&s->tuning, ft_slots_idle(&s->tuning), number));
    return number;
}

static bool tell(side *s, int64_t number, int64_t step, double value) {
    bool pruned;
    json_t *line = json_pack("{s:I, s:f}", "step", (json_int_t)step, "eval_accuracy", value);
    ft_slot *slot = ft_slots_of(&s->tuning, number);
    ok(ft_tuning_judge(&s->tuning, slot, line, &pruned));
    json_decref(line);
    if (pruned) ft_slots_end(&s->tuning, slot);
    return pruned;
}

static void complete(side *s, int64_t number, double value) {
    ok(ft_stored_finish(s->tuning.study, number, FT_COMPLETE, &value, 1));
    ft_slots_end(&s->tuning, ft_slots_of(&s->tuning, number));
}

// The value that a trial reports: of its parameters and the step alone.
static double value_of(const side *s, int64_t number, int64_t step) {
    const ft_trials *trials = &s->tuning.study->trials;
    const ft_trial_param *rate = ft_trial_find_param(&trials->trial[number], ft_trials_find_name(trials, "train.learning_rate"));
    double off = log10(rate->value) + 4;
    return 1 - 0.1 * off * off - 0.3 * exp(-(double)step / 3) + 0.01 * sin((double)(number * 7 + step));
}

// One order of beginnings, reports and ends, told to one coordinator alone or to two in turns: the same trials to the bit,
// with the same verdicts. So whoever is asked knows what the other's trials are, are trying and have reported.
static char *play(const char *name, const char *pruner, const char *option, const char *sampler, int coordinators) {
    enum { STEPS = 9 };
    const int events = test_storage() != NULL ? 300 : 900; // of a server each is several round trips
    side s[2];
    char which[64], how[64];
    int64_t step[2000] = {0};
    snprintf(which, sizeof which, "study.pruner=%s", pruner);
    snprintf(how, sizeof how, "study.sampler=%s", sampler);
    const char *const more[] = {which, option, how, "study.trials=0", "study.startup_trials=6", NULL}; // no random ones soon
    for (int i = 0; i < coordinators; i++)
        open_side(&s[i], name, more);
    uint32_t state = 1;
    for (int event = 0; event < events; event++) {
        state = state * 1664525u + 1013904223u;
        const int place = (int)(state >> 24) % 4;
        side *owner = &s[coordinators == 1 ? 0 : place & 1]; // of two each has half of the places
        ft_slot *slot = &owner->slots[place];
        if (slot->number < 0) {
            int64_t number;
            ok(ft_tuning_next(&owner->tuning, &number));
            assert_true(number >= 0 && number < 2000);
            ok(ft_slots_begin(&owner->tuning, slot, number));
            continue;
        }
        const int64_t number = slot->number;
        step[number]++;
        if (tell(owner, number, step[number], value_of(owner, number, step[number]))) continue;
        if (step[number] == STEPS) complete(owner, number, value_of(owner, number, STEPS));
    }
    for (int i = 0; i < coordinators; i++)
        close_side(&s[i]);
    return dump(name);
}

static void test_an_order_replays(void **state) {
    static const char *const pruners[][3] = {{"none", "study.pruner_patience=0", "tpe"},
                                             {"median", "study.pruner_startup_trials=3", "auto"},
                                             {"halving", "study.pruner_min_resource=1", "auto"},
                                             {"halving", "study.pruner_min_resource=auto", "tpe"},
                                             {"hyperband", "study.pruner_max_resource=9", "tpe"},
                                             {"hyperband", "study.pruner_max_resource=auto", "tpe"},
                                             {"none", "study.group=true", "tpe"}, // draws what some trials do not ask for
                                             {"none", "study.quasi_startup=true", "cmaes"}};
    for (size_t i = 0; i < sizeof pruners / sizeof pruners[0]; i++) {
        // Hyperband's brackets come from the study's name, which is the last part of the path.
        char one[64], two[64];
        const char between = test_storage() != NULL ? '-' : '/';
        // One database has no two studies of a name, and what is the same in every kind need not be shown six times.
        if (between == '-' && i != 1 && i != 3) continue;
        snprintf(one, sizeof one, "alone%c%s-%zu", between, pruners[i][0], i);
        snprintf(two, sizeof two, "beside%c%s-%zu", between, pruners[i][0], i);
        char *a = play(one, pruners[i][0], pruners[i][1], pruners[i][2], 1), *b = play(two, pruners[i][0], pruners[i][1], pruners[i][2], 2);
        assert_true(strlen(a) > 1000);
        assert_int_equal(strstr(a, "PRUNED") != NULL, strcmp(pruners[i][0], "none") != 0);
        same_lines(a, b);
        free(a), free(b);
    }
}

// Nobody takes up a trial that another one has, and one that is left is taken by one of them.
static void test_a_trial_has_one_owner(void **state) {
    side a, b;
    const char *const more[] = {"study.trials=3", "study.pruner=none", NULL};
    open_side(&a, "owner", more);
    open_side(&b, "owner", more);
    assert_int_equal(begin(&a), 0);
    assert_int_equal(begin(&b), 1);
    assert_int_equal(begin(&a), 2);
    assert_int_equal(begin(&a), -1); // that makes three
    assert_int_equal(begin(&b), -1);
    ft_slots_end(&a.tuning, ft_slots_of(&a.tuning, 0)); // it was broken off, and is to be tried again
    assert_int_equal(begin(&b), 0);
    assert_int_equal(begin(&a), -1);
    complete(&b, 0, 0.5);
    ft_slots_end(&b.tuning, ft_slots_of(&b.tuning, 1));
    assert_int_equal(begin(&a), 1);
    complete(&a, 1, 0.5);
    complete(&a, 2, 0.5);
    assert_int_equal(begin(&b), -1);
    assert_int_equal(ft_tuning_to_do(&b.tuning), 0);
    close_side(&a);
    close_side(&b);
}

// Nor does it keep one that it could not begin.
static void test_a_failed_beginning_is_released(void **state) {
    side a, b;
    bool by_others;
    int64_t number;
    const char *const more[] = {"study.trials=2", "study.pruner=none", NULL};
    open_side(&a, "released", more);
    open_side(&b, "released", more);
    ok(ft_stored_ask(b.tuning.study, FT_WAITING, &number));
    ok(ft_stored_set_attribute(b.tuning.study, number, FT_SYSTEM_ATTRIBUTE, "fixed_params", "3")); // no object
    assert_int_equal(ft_tuning_next(&a.tuning, &number), FT_INVALID);
    assert_int_equal(number, -1);
    ok(ft_tuning_claimed(&b.tuning, 0, &by_others));
    assert_false(by_others);
    ft_error_clear();
    close_side(&a);
    close_side(&b);
}

// The worker of one that was killed may still be dying. The trial waits for that, the study does not.
static void test_a_held_directory_is_waited_for(void **state) {
    side a;
    char directory[300];
    const char *const more[] = {"study.trials=2", "study.pruner=none", NULL};
    open_side(&a, "held", more);
    assert_int_equal(begin(&a), 0);
    ok(ft_tuning_prepare(&a.tuning, 0));
    ft_slots_end(&a.tuning, ft_slots_of(&a.tuning, 0));
    snprintf(directory, sizeof directory, "%s", in_study("held", "trials/00000"));
    const int held = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(held >= 0 && flock(held, LOCK_EX | LOCK_NB) == 0);
    const time_t began = time(NULL);
    assert_int_equal(begin(&a), 1); // there is another one to run
    assert_int_equal(begin(&a), -1);
    complete(&a, 1, 0.5);
    assert_int_equal(begin(&a), -1);
    assert_true(time(NULL) - began < 5);
    close(held);
    assert_int_equal(begin(&a), 0);
    complete(&a, 0, 0.5);
    close_side(&a);
}

// Somebody else's memory is waited for as one's own, and nobody's is not.
static void test_memory_of_the_other(void **state) {
    side a, b;
    bool others;
    const char *const more[] = {"study.trials=3", "study.pruner=none", NULL};
    open_side(&a, "memory", more);
    open_side(&b, "memory", more);
    ok(ft_tuning_claim_memory(&a.tuning, true, &others));
    assert_false(others);
    ok(ft_tuning_claim_memory(&b.tuning, true, &others));
    assert_true(others);
    ok(ft_tuning_claim_memory(&a.tuning, true, &others));
    assert_true(others);
    ok(ft_tuning_claim_memory(&a.tuning, false, &others));
    ok(ft_tuning_claim_memory(&b.tuning, true, &others));
    assert_false(others);
    close_side(&a);
    close_side(&b);
}

int main(int argc, char **argv) {
    be_a_worker(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_share_a_study),
        cmocka_unit_test(test_each_adds_its_own),
        cmocka_unit_test(test_two_share_a_grid),
        cmocka_unit_test(test_another_directory_is_refused),
        cmocka_unit_test(test_the_dead_ones_trials_go_on),
        cmocka_unit_test(test_soak),
        cmocka_unit_test(test_an_order_replays),
        cmocka_unit_test(test_a_trial_has_one_owner),
        cmocka_unit_test(test_a_failed_beginning_is_released),
        cmocka_unit_test(test_a_held_directory_is_waited_for),
        cmocka_unit_test(test_memory_of_the_other),
    };
    return cmocka_run_group_tests(tests, set_up_study, remove_scratch);
}
