// ctest: cost=40
// study.pruner = freeze_thaw: trials are paused and go on, every complete one with the values of one that was never
// stopped; the same study after kills and however fast the workers are; several workers; what is given up, and why;
// what cannot be paused is refused.
#include "tests/hpo/study_case.h"

#define FREEZES(...) MORE("study.pruner=freeze_thaw", "study.sampler=auto", __VA_ARGS__)

static int64_t evaluations(const opened *o) {
    int64_t count = 0;
    for (int64_t i = 0; i < o->trials->count; i++)
        count += o->trials->trial[i].report_count;
    return count;
}

static void check_values(const char *study) {
    opened o = look(study);
    for (int64_t i = 0; i < o.trials->count; i++) {
        const ft_trial *t = &o.trials->trial[i];
        double best = -INFINITY;
        for (int k = 0; k < t->report_count; k++) {
            if (t->reports[k].step != 10 * (k + 1))
                fail_msg("%s, trial %lld: evaluation %d at step %lld", study, (long long)i, k,
                         (long long)t->reports[k].step);
            const double value = undisturbed(&o, t, t->reports[k].step);
            if (!(fabs(t->reports[k].value - value) < 1e-8))
                fail_msg("%s, trial %lld: %g at step %d, not %g", study, (long long)i, t->reports[k].value,
                         10 * (k + 1), value);
            best = fmax(best, value);
        }
        if (t->state != FT_COMPLETE) continue;
        assert_int_equal(t->report_count, 6);
        if (t->values[0] != best) fail_msg("%s, trial %lld: %g, not %g", study, (long long)i, t->values[0], best);
    }
    leave(&o);
}

// How often workers took its trials up.
static int64_t starts(const char *study, int64_t trials) {
    int64_t count = 0;
    for (int64_t i = 0; i < trials; i++) {
        char name[64];
        struct stat file;
        snprintf(name, sizeof name, "trials/%05lld/starts", (long long)i);
        if (stat(in_study(study, name), &file) == 0) count += file.st_size;
    }
    return count;
}

// A trainer has come to its end when it is paused, makes evaluations more before it stops, or is stopped between two.
static void test_paused(void **state) {
    static const char *const studies[] = {"fast", "stubborn", "slow"},
                             *const ms[] = {"data.label_column=0", "data.label_column=2", "data.label_column=4"},
                             *const kinds[] = {"data.text_column=text", "data.text_column=stubborn",
                                               "data.text_column=text"};
    char *first = NULL;
    for (int i = 0; i < 3; i++) {
        tunes(studies[i], 0, FREEZES("study.trials=20", ms[i], kinds[i]));
        check_values(studies[i]);
        char *text = dump(studies[i]);
        if (first != NULL)
            same_lines(first, text), free(text);
        else
            first = text;
    }
    opened o = look("slow");
    const int64_t complete = count_state(&o, FT_COMPLETE), pruned = count_state(&o, FT_PRUNED);
    assert_int_equal(complete + pruned, 20); // nothing is left paused
    assert_true(complete >= 3 && pruned >= 5);
    assert_true(evaluations(&o) < 6 * 20 * 3 / 4);
    // The best one is among the complete ones, and good: 1 less what its last step lacks is all that there is.
    assert_true(o.trials->trial[best_of(&o)].values[0] > 0.85);
    assert_true(starts("slow", 20) > 24); // some went on later
    for (int64_t i = 0; i < 20; i++)
        assert_string_equal(attribute(&o, i, "total_steps"), "60");
    assert_non_null(strstr(attribute(&o, FT_STUDY_ATTRIBUTE, "ftengine:freeze_thaw"), "\"train.learning_rate\": "));
    for (int64_t i = 0; i < 20; i++)
        if (o.trials->trial[i].state == FT_PRUNED) assert_false(has("slow", i, "checkpoints"));
    leave(&o);
    free(first);
}

static void test_killed(void **state) {
    for (int kills = 0; kills < 8; kills++) {
        pid_t pid = tune_beside("killed", 0, FREEZES("study.trials=20", "data.label_column=2"));
        pause_ms(40 + 170 * kills);
        kill(pid, SIGKILL);
        end_of(pid);
    }
    tunes("killed", 0, FREEZES("study.trials=20", "data.label_column=2"));
    check_values("killed");
    char *a = dump("slow"), *b = dump("killed");
    same_lines(a, b);
    free(a), free(b);
}

static void test_several_workers(void **state) {
    tunes("crew", 0, FREEZES("study.trials=20", "study.parallel=3", "data.label_column=1", "device.threads=1"));
    check_values("crew");
    opened o = look("crew");
    assert_int_equal(count_state(&o, FT_COMPLETE) + count_state(&o, FT_PRUNED), 20);
    leave(&o);
    pid_t pid[2];
    for (int i = 0; i < 2; i++)
        pid[i] = tune_beside("two", 0, FREEZES("study.trials=16", "data.label_column=1"));
    for (int i = 0; i < 2; i++)
        if (end_of(pid[i]) != 0) fail_msg("coordinator %d: %s", i, last_error());
    check_values("two");
    o = look("two");
    assert_int_equal(count_state(&o, FT_COMPLETE) + count_state(&o, FT_PRUNED), 16);
    leave(&o);
}

// A study that ends by another rule leaves trials paused: RUNNING, as Optuna sees them, with their checkpoints. It can
// go on, and is as if nothing had been.
static void test_left_paused(void **state) {
    tunes("left", 0, FREEZES("study.trials=20", "study.completed=5", "data.label_column=4"));
    opened o = look("left");
    int64_t paused = 0;
    assert_int_equal(count_state(&o, FT_COMPLETE), 5);
    for (int64_t i = 0; i < o.trials->count; i++) {
        if (o.trials->trial[i].state != FT_RUNNING) continue;
        paused++;
        assert_true(o.trials->trial[i].report_count > 0);
        assert_true(has("left", i, "checkpoints"));
    }
    if (paused < 1) fail_msg("of %lld trials none is paused", (long long)o.trials->count);
    leave(&o);
    tunes("left", 0, FREEZES("study.trials=20"));
    char *a = dump("slow"), *b = dump("left");
    same_lines(a, b);
    free(a), free(b);
}

// Checkpoints of a few bytes take a block each, or none: a budget of one byte keeps none where they take some.
static void test_budget(void **state) {
    struct stat file;
    tunes("budget", 0, FREEZES("study.trials=12", "study.keep_pruned=1", "data.label_column=1"));
    check_values("budget");
    opened o = look("budget");
    assert_int_equal(count_state(&o, FT_COMPLETE) + count_state(&o, FT_PRUNED), 12);
    const int64_t complete = count_state(&o, FT_COMPLETE), started = starts("budget", 12);
    char name[64];
    snprintf(name, sizeof name, "trials/%05lld/run.json", (long long)best_of(&o));
    const bool blocks = stat(in_study("budget", name), &file) == 0 && file.st_blocks > 0;
    leave(&o);
    if (!blocks) skip();
    // Whoever is paused is gone, so that nobody is taken up a second time.
    if (started != 12 || complete < 3)
        fail_msg("%lld starts of 12 trials, of which %lld are complete", (long long)started, (long long)complete);
}

static void test_queue(void **state) {
    ft_storage *file;
    ft_stored *study;
    int64_t number;
    tunes("queue", 0, FREEZES("study.trials=20", "study.completed=3"));
    ok(ft_storage_open("studies/queue/study.db", FT_STORAGE_WRITE, &file));
    ok(ft_stored_open(file, NULL, &study));
    const ft_fixed_param fixed[] = {{"train.learning_rate", {.kind = FT_CHOICE_FLOAT, .number = 1e-4}},
                                    {"train.batch_size", {.kind = FT_CHOICE_INT, .integer = 16}},
                                    {"train.weight_decay", {.kind = FT_CHOICE_FLOAT, .number = 0}}};
    ok(ft_stored_enqueue(study, fixed, 3, &number));
    ft_stored_close(study);
    ok(ft_storage_close(file));
    tunes("queue", 0, FREEZES("study.trials=20"));
    check_values("queue");
    opened o = look("queue");
    const ft_trial *t = &o.trials->trial[number];
    assert_int_equal(t->state, FT_COMPLETE); // there is no better one
    assert_true(param_value(&o, t, "train.learning_rate") == 1e-4);
    assert_int_equal(best_of(&o), number);
    leave(&o);
}

// Trials that fail, and other samplers.
static void test_others(void **state) {
    static const struct {
        const char *study, *option;
        int64_t failed; // at least
    } cases[] = {{"fails", "data.text_column=fails-large", 1},
                 {"tpe", "study.sampler=tpe", 0},
                 {"grid", "study.sampler=quasi_random", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tunes(cases[i].study, 0, FREEZES("study.trials=14", "study.max_failures=0", cases[i].option));
        check_values(cases[i].study);
        opened o = look(cases[i].study);
        const int64_t failed = count_state(&o, FT_FAIL);
        assert_int_equal(count_state(&o, FT_COMPLETE) + count_state(&o, FT_PRUNED) + failed, 14);
        assert_true(failed >= cases[i].failed && count_state(&o, FT_COMPLETE) >= 1);
        leave(&o);
    }
    tunes("added", 5, FREEZES("study.max_failures=0")); // five that end
    opened o = look("added");
    assert_int_equal(count_state(&o, FT_COMPLETE) + count_state(&o, FT_PRUNED), 5);
    leave(&o);
}

static void test_refused(void **state) {
    refuses("none", FREEZES("study.objective=eval.accuracy, seconds.total"), 2,
            "one objective that every evaluation tells");
    refuses("none", FREEZES("data.folds=5", "data.validation="), 2, "freeze_thaw compares trials of one run each");
    refuses("none", FREEZES("train.seeds=1, 2"), 2, "hint: study.pruner=wilcoxon");
    refuses("none", FREEZES("study.learn_from=other"), 2, "hint: study.sampler=tpe");
    assert_false(ft_path_exists("studies/none"));
}

int main(int argc, char **argv) {
    be_a_worker(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paused),      cmocka_unit_test(test_killed),  cmocka_unit_test(test_several_workers),
        cmocka_unit_test(test_left_paused), cmocka_unit_test(test_budget),  cmocka_unit_test(test_queue),
        cmocka_unit_test(test_others),      cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, set_up_study, remove_scratch);
}
