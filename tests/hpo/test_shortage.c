// The machine runs short. Of disk space for a while: nothing is lost, nothing is doubled, nobody has to do anything but make
// room. SQLite is told how many pages a file may have, which gives the errors of a full disk. Of memory: that is a result.
// benchmarks/search/soak.py fills a real disk and has the kernel refuse memory. The study's database is locked, moved or removed.
// ctest: asan_part=3
#include "study_case.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <sys/statvfs.h>

// While the file `refused` is there: a transaction with a report is taken back, once.
static bool reports;

static void note_report(void *unused, int what, const char *database, const char *table, sqlite3_int64 row) {
    (void)unused, (void)what, (void)database, (void)row;
    reports |= strcmp(table, "trial_intermediate_values") == 0;
}

static int refuse_report(void *unused) {
    (void)unused;
    const bool refused = reports && unlink(in_scratch("refused")) == 0;
    reports = false;
    return refused;
}

// While the file `full` is there, every connection that is opened may write a file of as many pages as it says, and leaves a
// byte in `openings`.
static int limit_pages(sqlite3 *db, char **message, const struct sqlite3_api_routines *unused) {
    char sql[64];
    int pages = 0;
    (void)message;
    (void)unused;
    sqlite3_update_hook(db, note_report, NULL);
    sqlite3_commit_hook(db, refuse_report, NULL);
    FILE *in = fopen(in_scratch("full"), "r");
    if (in == NULL) return SQLITE_OK;
    must(fscanf(in, "%d", &pages) == 1 && fclose(in) == 0);
    FILE *out = fopen(in_scratch("openings"), "a");
    must(out != NULL && fputc('x', out) == 'x' && fclose(out) == 0);
    snprintf(sql, sizeof sql, "PRAGMA max_page_count = %d", pages);
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

// What is free, in the study's directory: in MiB what the file `free` says, where there is one. In place of the system's.
int statvfs(const char *path, struct statvfs *disk) {
    unsigned long mib;
    FILE *in = fopen(in_scratch("free"), "r");
    if (in == NULL) {
        *disk = (struct statvfs){.f_frsize = 1 << 20, .f_bavail = 1 << 20};
        return 0;
    }
    must(fscanf(in, "%lu", &mib) == 1 && fclose(in) == 0);
    *disk = (struct statvfs){.f_frsize = 1 << 20, .f_bavail = mib};
    return 0;
}

// Shorter than the program's: what comes after it is what is tested. In place of SQLite's.
static int wait_a_little(void *unused, int times) {
    (void)unused;
    pause_ms(1);
    return times < 100;
}

int sqlite3_busy_timeout(sqlite3 *db, int ms) { return sqlite3_busy_handler(db, ms > 0 ? wait_a_little : NULL, NULL); }

static int set_up(void **state) {
    if (set_up_study(state) != 0) return 1;
    return sqlite3_auto_extension((void (*)(void))limit_pages) == SQLITE_OK ? 0 : 1;
}

enum { SOME = 29 }; // pages: the tables, and a few of the trials

static void fill(int pages) {
    char text[16];
    snprintf(text, sizeof text, "%d\n", pages);
    unlink(in_scratch("openings"));
    unlink(in_scratch("error"));
    write_file("full", text);
}

// Until it has tried often enough to have met the full disk and come again.
static void wait_for_openings(pid_t pid, off_t count) {
    struct stat openings = {0};
    for (int i = 0; i < 3000 && openings.st_size < count; i++) {
        if (waitpid(pid, NULL, WNOHANG) != 0) fail_msg("it has ended: %s", last_error());
        pause_ms(10);
        if (stat(in_scratch("openings"), &openings) != 0) openings.st_size = 0;
    }
    assert_true(openings.st_size >= count);
}

static void completes(const char *name, int64_t trials) {
    opened o = look(name);
    assert_int_equal(o.trials->count, trials);
    for (int64_t i = 0; i < trials; i++) {
        assert_int_equal(o.trials->trial[i].state, FT_COMPLETE);
        assert_string_equal(attribute(&o, i, "retries"), "");
    }
    leave(&o);
}

enum { ATTEMPTS = 16 };

static int read_attempts(const char *name, double moment[ATTEMPTS]) {
    int count = 0;
    FILE *in = fopen(in_study(name, "attempts"), "r");
    while (in != NULL && count < ATTEMPTS && fscanf(in, "%lf", &moment[count]) == 1)
        count++;
    if (in != NULL) fclose(in);
    return count;
}

static void wait_for_attempts(const char *name, int count, double moment[ATTEMPTS]) {
    for (int i = 0; i < 3000 && read_attempts(name, moment) < count; i++)
        pause_ms(10);
    assert_int_equal(read_attempts(name, moment), count);
}

// A training that cannot be saved costs hours, each time: there are ever longer pauses between two of them, whatever is free in
// the study's directory, for that was not enough, or not the disk. Until there is clearly more.
static void test_a_trial_without_room_is_no_treadmill(void **state) {
    double moment[ATTEMPTS];
    write_file("free", "1000");
    unlink(in_scratch("error"));
    pid_t pid = tune_beside("treadmill", 0, MORE("study.trials=1", "study.max_retries=0", "data.text_column=no-room",
                                              "study.timeout=1m")); // nobody stays behind when this fails
    wait_for_attempts("treadmill", 4, moment);
    assert_true(moment[1] - moment[0] >= 1 && moment[2] - moment[1] >= 2 && moment[3] - moment[2] >= 4);
    FILE *made = fopen(in_study("treadmill", "made"), "w");
    assert_true(made != NULL && fclose(made) == 0);
    // More and more, for it is not known when the coordinator has heard of the fourth one.
    for (int mib = 1100; mib < 31100 && read_attempts("treadmill", moment) < 5; mib += 100, pause_ms(100)) {
        char text[16];
        snprintf(text, sizeof text, "%d\n", mib);
        write_file("free.tmp", text);
        assert_int_equal(rename(in_scratch("free.tmp"), "free"), 0); // the current directory is the scratch one
    }
    assert_int_equal(read_attempts("treadmill", moment), 5);
    assert_true(moment[4] - moment[3] < 8); // the fourth pause
    const int code = end_of(pid);
    if (code != 0) fail_msg("exit code %d: %s", code, last_error());
    unlink(in_scratch("free"));
    completes("treadmill", 1);
}

// What it found is no reason to give it up, however often.
static void test_a_trial_without_room_is_tried_again(void **state) {
    tunes("trial", 0, MORE("study.trials=2", "study.pruner=none", "study.max_retries=0", "data.text_column=full-disk"));
    completes("trial", 2);
}

static void goes_on(const char *name, int pages, int64_t add) {
    fill(pages);
    pid_t pid = tune_beside(name, add, MORE("study.parallel=3", "study.trials=24", "study.pruner=none", "data.label_column=0.2"));
    wait_for_openings(pid, 3);
    unlink(in_scratch("full"));
    const int code = end_of(pid);
    if (code != 0) fail_msg("exit code %d: %s", code, last_error());
    completes(name, add > 0 ? add : 24);
}

static void test_a_study_that_cannot_write_goes_on(void **state) {
    goes_on("made-later", 1, 0); // there is not even room for the tables
    goes_on("stopped-amid", SOME, 0);
    goes_on("counts-its-own", SOME, 30); // across all its openings
}

static void test_a_pause_ends_with_a_signal(void **state) {
    fill(SOME);
    pid_t pid = tune_beside("signal", 0, MORE("study.trials=24", "study.pruner=none"));
    wait_for_openings(pid, 3);
    kill(pid, SIGINT);
    assert_int_equal(end_of(pid), FT_INTERRUPTED);
    unlink(in_scratch("full"));
    tunes("signal", 0, MORE("study.trials=24", "study.pruner=none"));
    completes("signal", 24);
}

static void test_a_pause_ends_with_the_time(void **state) {
    fill(1); // with more it might have its time over before it has met the full disk, which is a good end
    refuses("time", MORE("study.trials=24", "study.pruner=none", "study.timeout=2s"), 1, "No space left on device");
    unlink(in_scratch("full"));
}

static void test_a_pause_of_a_study_with_results_ends_well(void **state) {
    struct stat openings;
    fill(SOME);
    tunes("time-later", 0, MORE("study.trials=24", "study.pruner=none", "study.timeout=4s"));
    ok(stat(in_scratch("openings"), &openings) == 0 && openings.st_size >= 2 ? FT_OK : FT_FAILED); // it has met it
    unlink(in_scratch("full"));
    opened o = look("time-later");
    assert_true(count_state(&o, FT_COMPLETE) > 0 && count_state(&o, FT_COMPLETE) < 24);
    leave(&o);
}

// ---- the database ---------------------------------------------------------------------------------------------------------

#define ORDERLY "study.trials=24", "study.pruner=none", "data.label_column=0.2"

// Begun, with some trials at their end; `name` is what it is called then.
static pid_t begun(const char *name) {
    unlink(in_scratch("error"));
    pid_t pid = tune_beside(name, 0, MORE(ORDERLY));
    for (int64_t complete = 0; complete < 3; pause_ms(5)) {
        if (waitpid(pid, NULL, WNOHANG) != 0) fail_msg("it has ended: %s", last_error());
        if (!has(name, 3, "run.json")) continue; // then it is whole, and can be looked at
        opened o = look(name);
        complete = count_state(&o, FT_COMPLETE);
        leave(&o);
    }
    return pid;
}

static void same_as_undisturbed(const char *name) {
    tunes(name, 0, MORE(ORDERLY)); // goes on, or has nothing to do
    if (!ft_path_exists(in_study("undisturbed", "study.db"))) tunes("undisturbed", 0, MORE(ORDERLY));
    char *whole = dump("undisturbed"), *other = dump(name);
    same_lines(whole, other);
    free(whole), free(other);
}

static void test_a_locked_database_pauses_the_study(void **state) {
    sqlite3 *db;
    pid_t pid = begun("locked");
    ok(sqlite3_open(in_study("locked", "study.db"), &db) == SQLITE_OK ? FT_OK : FT_FAILED);
    ok(sqlite3_exec(db, "PRAGMA busy_timeout = 10000; BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK ? FT_OK : FT_FAILED);
    fill(100000); // counts who opens it from now on
    wait_for_openings(pid, 3);
    ok(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK ? FT_OK : FT_FAILED);
    sqlite3_close(db);
    const int code = end_of(pid);
    if (code != 0) fail_msg("exit code %d: %s", code, last_error());
    unlink(in_scratch("full"));
    same_as_undisturbed("locked");
}

// Those behind it are in the trial's file when the study has to stop: none of them is stored in its place.
static void test_a_report_that_is_not_stored(void **state) {
    for (int i = 0; i < 4; i++) {
        write_file("refused", "");
        refuses("unstored", MORE("study.trials=24", "study.pruner=none"), FT_FAILED, "the study database cannot be used");
        assert_false(ft_path_exists(in_scratch("refused")));
    }
    same_as_undisturbed("unstored");
}

static void ends_by_an_error(pid_t pid, const char *message, const char *hint) {
    const int code = end_of(pid);
    if (code != FT_FAILED) fail_msg("exit code %d", code);
    if (strstr(last_error(), message) == NULL || strstr(last_error(), hint) == NULL)
        fail_msg("'%s' lacks '%s' or '%s'", last_error(), message, hint);
}

static void put_back(const char *name, const char *from) {
    char file[300];
    snprintf(file, sizeof file, "%s", in_study(name, from));
    assert_int_equal(rename(file, in_study(name, "study.db")), 0);
}

static void test_a_database_that_is_moved_away(void **state) {
    char file[300];
    pid_t pid = begun("moved");
    snprintf(file, sizeof file, "%s", in_study("moved", "study.db"));
    assert_int_equal(rename(file, in_study("moved", "kept.db")), 0);
    ends_by_an_error(pid, "the study database was moved to ", "/kept.db while it was in use");
    assert_false(ft_path_exists(in_study("moved", "study.db.saved")));
    put_back("moved", "kept.db");
    same_as_undisturbed("moved");
}

static void test_a_database_that_is_removed(void **state) {
    pid_t pid = begun("removed");
    assert_int_equal(unlink(in_study("removed", "study.db")), 0);
    ends_by_an_error(pid, "the study database was removed while it was in use", "/study.db.saved; move it there");
    put_back("removed", "study.db.saved");
    opened o = look("removed");
    assert_true(count_state(&o, FT_COMPLETE) >= 3);
    leave(&o);
    same_as_undisturbed("removed");
}

// Before it was known what the trial needs: it was no plan that did not fit.
static void test_memory_that_the_host_refuses(void **state) {
    static const char *const present[] = {"oom_error",        "error_message",    "error_traceback",
                                          "peak_memory_gb",   "oom_config"};
    tunes("host", 0, MORE("study.trials=8", "study.pruner=none", "study.memory_policy=prune", "data.text_column=host-memory"));
    opened o = look("host");
    const int batch = ft_trials_find_name(o.trials, "train.batch_size");
    int ooms = 0;
    for (int64_t i = 0; i < 8; i++) {
        const ft_trial *t = &o.trials->trial[i];
        if (ft_trial_find_param(t, batch)->value < 2) continue;
        ooms++;
        assert_int_equal(t->state, FT_PRUNED);
        assert_true(ft_trial_violation(t) > 0);
        assert_string_equal(attribute(&o, i, "status"), "\"oom\"");
        assert_string_equal(attribute(&o, i, "oom"), "true");
        assert_string_equal(attribute(&o, i, "peak_memory_bytes"), "4096");
        for (size_t k = 0; k < sizeof present / sizeof present[0]; k++)
            if (attribute(&o, i, present[k])[0] == '\0') fail_msg("trial %lld has no %s", (long long)i, present[k]);
    }
    char count[24];
    snprintf(count, sizeof count, "%d", ooms);
    assert_true(ooms > 0 && ooms < 8);
    assert_string_equal(attribute(&o, FT_STUDY_ATTRIBUTE, "oom_trials"), count);
    leave(&o);
}

int main(int argc, char **argv) {
    be_a_worker(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_trial_without_room_is_no_treadmill),
        cmocka_unit_test(test_a_trial_without_room_is_tried_again),
        cmocka_unit_test(test_a_study_that_cannot_write_goes_on),
        cmocka_unit_test(test_a_pause_ends_with_a_signal),
        cmocka_unit_test(test_a_pause_ends_with_the_time),
        cmocka_unit_test(test_a_pause_of_a_study_with_results_ends_well),
        cmocka_unit_test(test_a_locked_database_pauses_the_study),
        cmocka_unit_test(test_a_report_that_is_not_stored),
        cmocka_unit_test(test_a_database_that_is_moved_away),
        cmocka_unit_test(test_a_database_that_is_removed),
        cmocka_unit_test(test_memory_that_the_host_refuses),
    };
    return cmocka_run_group_tests(tests, set_up, remove_scratch);
}
