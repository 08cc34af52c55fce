// study.worker_trials: a worker goes after so many trials, and another takes its place; without it one stays. Finds a
// coordinator that never replaces one, that counts the trials of a slot or of the study instead of the process's, or
// that loses a trial with it.
#include "study_case.h"

static long worker_of(const char *name, int64_t trial) {
    char file[64];
    long pid = 0;
    snprintf(file, sizeof file, "trials/%05lld/worker", (long long)trial);
    FILE *in = fopen(in_study(name, file), "r");
    if (in == NULL || fscanf(in, "%ld", &pid) != 1)
        fail_msg("trial %lld does not say who its worker was", (long long)trial);
    fclose(in);
    return pid;
}

static void all_complete(const char *name, int64_t trials) {
    opened o = look(name);
    assert_int_equal(o.trials->count, trials);
    for (int64_t i = 0; i < trials; i++)
        if (o.trials->trial[i].state != FT_COMPLETE)
            fail_msg("trial %lld: %s", (long long)i, attribute(&o, i, "error"));
    leave(&o);
}

static void test_a_worker_stays(void **state) {
    tunes("lasting", 0, MORE("study.trials=7", "study.pruner=none", "data.text_column=tells"));
    for (int i = 1; i < 7; i++)
        assert_int_equal(worker_of("lasting", i), worker_of("lasting", 0));
}

static void test_three_trials_each(void **state) {
    tunes("three", 0, MORE("study.trials=8", "study.pruner=none", "data.text_column=tells", "study.worker_trials=3"));
    all_complete("three", 8);
    for (int i = 1; i < 8; i++)
        assert_int_equal(worker_of("three", i) == worker_of("three", i - 1), i % 3 != 0);
}

static void test_one_trial_each_in_three_slots(void **state) {
    tunes("one", 0,
          MORE("study.trials=12", "study.pruner=none", "data.text_column=tells", "study.worker_trials=1",
               "study.parallel=3"));
    all_complete("one", 12);
    for (int i = 0; i < 12; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(worker_of("one", i), worker_of("one", k));
}

int main(int argc, char **argv) {
    be_a_worker(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_worker_stays),
        cmocka_unit_test(test_three_trials_each),
        cmocka_unit_test(test_one_trial_each_in_three_slots),
    };
    return cmocka_run_group_tests(tests, set_up_study, remove_scratch);
}
