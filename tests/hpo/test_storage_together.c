// Studies that several have open, and what is interrupted: nothing that returned is lost, no trial is given to two. Over every kind of database,
// as test_storage.c (storage_places.h).
#include "tests/hpo/storage_places.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static const ft_distribution dropout = {.kind = FT_FLOAT, .low = 0, .high = 0.5, .step = 0.1};

// ---- kill -----------------------------------------------------------------------------------------------------------

// Works until it is killed; tells the number of each trial as soon as the call that finished it has returned.
static void work(const char *path, int pipe) {
    ft_storage *storage;
    ft_stored *study;
    if (ft_storage_open(path, FT_STORAGE_WRITE, &storage) != FT_OK || ft_stored_open(storage, "s", &study) != FT_OK)
        _exit(1);
    for (;;) {
        int64_t n;
        ft_status status = ft_stored_ask(study, FT_RUNNING, &n);
        if (status == FT_OK) status = ft_stored_param(study, n, "dropout", &dropout, 0.1);
        if (status == FT_OK) status = ft_stored_report(study, n, 1, (double)n);
        if (status == FT_OK) status = ft_stored_finish(study, n, FT_COMPLETE, &(double){(double)n / 2}, 1);
        if (status != FT_OK || write(pipe, &n, sizeof n) != sizeof n) _exit(1);
    }
}

static int64_t kill_once(const char *path, useconds_t after) {
    int ends[2];
    int64_t n, last = -1;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) work(path, ends[1]);
    close(ends[1]);
    assert_int_equal(read(ends[0], &n, sizeof n), sizeof n); // it has begun
    last = n;
    usleep(after);
    kill(child, SIGKILL);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFSIGNALED(result));
    while (read(ends[0], &n, sizeof n) == sizeof n)
        last = n;
    close(ends[0]);
    return last;
}

static void killed_at_any_moment(void **state) {
    const char *path = scratch("killed.db");
    ft_storage *storage;
    ft_stored *study;
    ok(ft_storage_open(path, FT_STORAGE_CREATE, &storage));
    ok(ft_stored_create(storage, "s", 1, &(bool){false}, &study));
    ft_stored_close(study);
    ok(ft_storage_close(storage));
    srand(5);
    for (int round = 0; round < 12; round++) {
        int64_t last = kill_once(path, (useconds_t)(rand() % 15000));
        ok(ft_storage_open(path, round % 2 == 0 ? FT_STORAGE_READ : FT_STORAGE_WRITE, &storage));
        ok(ft_stored_open(storage, NULL, &study));
        assert_true(study->trials.count > last);
        int unfinished = 0; // at most one a kill: all others had been told
        for (int64_t i = 0; i <= last; i++) {
            const ft_trial *t = &study->trials.trial[i];
            if (t->state != FT_COMPLETE) {
                assert_int_equal(t->state, FT_RUNNING);
                assert_true(++unfinished <= round);
                continue;
            }
            assert_true(t->values[0] == (double)i / 2 && t->param_count == 1 && t->report_count == 1);
        }
        assert_int_equal(study->trials.trial[last].state, FT_COMPLETE);
        ft_stored_close(study);
        ok(ft_storage_close(storage));
        if (round % 2 != 0) assert_at_rest(path);
    }
}

// ---- several processes ----------------------------------------------------------------------------------------------

// In a child, where cmocka's assertions are out of place: says what failed and ends.
static void must(ft_status status) {
    if (status == FT_OK) return;
    fprintf(stderr, "process %d: %s\n", (int)getpid(), ft_error_message());
    _exit(1);
}

// Empties the queue, and adds a trial of its own after each; tells the numbers of both.
static void empty_queue(const char *path, int pipe) {
    ft_storage *storage;
    ft_stored *study;
    must(ft_storage_open(path, FT_STORAGE_WRITE, &storage));
    must(ft_stored_open(storage, "s", &study));
    for (;;) {
        int64_t numbers[2];
        must(ft_stored_pop(study, &numbers[0]));
        if (numbers[0] < 0) _exit(0);
        must(ft_stored_ask(study, FT_RUNNING, &numbers[1]));
        must(ft_stored_finish(study, numbers[0], FT_COMPLETE, &(double){1}, 1));
        if (write(pipe, numbers, sizeof numbers) != sizeof numbers) _exit(1);
    }
}

static void each_trial_goes_to_one_process(void **state) {
    enum { QUEUE = 60, PROCESSES = 3 };
    const char *path = scratch("queue.db");
    ft_storage *storage;
    ft_stored *study;
    int64_t n, numbers[2];
    int ends[2], seen[2 * QUEUE] = {0}, result;
    ok(ft_storage_open(path, FT_STORAGE_CREATE, &storage));
    ok(ft_stored_create(storage, "s", 1, &(bool){false}, &study));
    for (int i = 0; i < QUEUE; i++)
        ok(ft_stored_enqueue(study, NULL, 0, &n));
    ft_stored_close(study);
    ok(ft_storage_close(storage));
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) empty_queue(path, ends[1]);
    }
    close(ends[1]);
    while (read(ends[0], numbers, sizeof numbers) == sizeof numbers)
        for (int i = 0; i < 2; i++) {
            assert_true(numbers[i] >= 0 && numbers[i] < 2 * QUEUE);
            seen[numbers[i]]++;
        }
    close(ends[0]);
    for (int i = 0; i < PROCESSES; i++) {
        assert_true(wait(&result) > 0);
        assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    }
    for (int i = 0; i < 2 * QUEUE; i++)
        assert_int_equal(seen[i], 1);
    ok(ft_storage_open(path, FT_STORAGE_WRITE, &storage));
    ok(ft_stored_open(storage, NULL, &study));
    assert_int_equal(study->trials.count, 2 * QUEUE);
    assert_int_equal(study->trials.finished, QUEUE);
    ft_stored_close(study);
    ok(ft_storage_close(storage));
    assert_at_rest(path);
}

// ---- round trips ----------------------------------------------------------------------------------------------------

// What a coordinator asks of the database for a trial that reports nothing.
static void one_trial(ft_stored *study, int params) {
    ft_storage *storage = study->storage;
    int64_t n;
    ok(ft_storage_begin(storage));
    ok(ft_stored_refresh(study));
    ok(ft_stored_pop(study, &n));
    assert_int_equal(n, -1);
    ok(ft_stored_ask(study, FT_RUNNING, &n));
    ok(ft_storage_claim_surely(storage, &(ft_claim){"trial", "s", n}));
    for (int i = 0; i < params; i++) {
        char name[24];
        snprintf(name, sizeof name, "p%d", i);
        ok(ft_stored_param(study, n, name, &dropout, 0.1));
    }
    ok(ft_stored_set_attribute(study, n, FT_USER_ATTRIBUTE, "directory", "\"trials/0\""));
    ok(ft_storage_commit(storage));
    ok(ft_storage_begin(storage));
    ok(ft_stored_refresh(study));
    ok(ft_stored_set_attribute(study, n, FT_USER_ATTRIBUTE, "status", "\"completed\""));
    ok(ft_stored_finish(study, n, FT_COMPLETE, &(double){0.5}, 1));
    ok(ft_storage_commit_releasing(storage, &(ft_claim){"trial", "s", n}));
}

static void a_trial_takes_few_round_trips(void **state) {
    enum { TRIALS = 20 };
    if (!in_postgres()) skip();
    ft_storage *storage, *other;
    ft_stored *study, *theirs;
    int64_t n;
    const char *path = scratch("trips.db");
    ok(ft_storage_open(path, FT_STORAGE_CREATE, &storage));
    ok(ft_stored_create(storage, "s", 1, &(bool){false}, &study));
    ok(ft_storage_open(path, FT_STORAGE_WRITE, &other));
    ok(ft_stored_open(other, "s", &theirs));
    ok(ft_stored_ask(theirs, FT_RUNNING, &n)); // somebody else is at work too
    ok(ft_stored_refresh(study));
    for (int params = 1; params <= 10; params += 9) {
        const uint64_t before = ft_storage_trips(storage);
        for (int i = 0; i < TRIALS; i++)
            one_trial(study, params);
        const double each = (double)(ft_storage_trips(storage) - before) / TRIALS;
        if (each > 5) fail_msg("%g round trips a trial of %d parameters", each, params);
    }
    // One look tells of everything, however much that is.
    const uint64_t before = ft_storage_trips(other);
    ok(ft_stored_refresh(theirs));
    assert_int_equal(theirs->trials.count, 2 * TRIALS + 1);
    assert_int_equal(ft_storage_trips(other) - before, 1);
    ok(ft_stored_refresh(theirs));
    assert_int_equal(ft_storage_trips(other) - before, 2);
    ft_stored_close(study);
    ft_stored_close(theirs);
    ok(ft_storage_close(storage));
    ok(ft_storage_close(other));
}

// Who asks for a trial and ends it without a look of his own, as `study ask` and `tell` do and studies in the benchmarks.
static void alone_it_takes_fewer(void **state) {
    enum { TRIALS = 20, PARAMS = 10 };
    if (!in_postgres()) skip();
    ft_storage *storage;
    ft_stored *study;
    int64_t n;
    ok(ft_storage_open(scratch("alone.db"), FT_STORAGE_CREATE, &storage));
    ok(ft_stored_create(storage, "s", 1, &(bool){false}, &study));
    ok(ft_stored_ask(study, FT_RUNNING, &n));
    ok(ft_stored_finish(study, n, FT_COMPLETE, &(double){1}, 1));
    const uint64_t before = ft_storage_trips(storage);
    for (int i = 0; i < TRIALS; i++) {
        ok(ft_storage_begin(storage));
        ok(ft_stored_ask(study, FT_RUNNING, &n));
        assert_int_equal(n, i + 1);
        for (int p = 0; p < PARAMS; p++) {
            char name[24];
            snprintf(name, sizeof name, "p%d", p);
            ok(ft_stored_param(study, n, name, &dropout, 0.1));
        }
        ok(ft_storage_commit(storage));
        ok(ft_stored_finish(study, n, FT_COMPLETE, &(double){0.5}, 1));
    }
    const double each = (double)(ft_storage_trips(storage) - before) / TRIALS;
    if (each > 3) fail_msg("%g round trips a trial", each);
    ft_stored_close(study);
    ok(ft_storage_close(storage));
}

// ---- groups ---------------------------------------------------------------------------------------------------------

// Turn by turn, without a look between: who finds that the other has added some takes the number behind them.
static void numbers_go_on_behind_others(void **state) {
    const char *path = scratch("numbers.db");
    ft_storage *file[2];
    ft_stored *study[2];
    int64_t n, next = 0;
    ok(ft_storage_open(path, FT_STORAGE_CREATE, &file[0]));
    ok(ft_stored_create(file[0], "s", 1, &(bool){false}, &study[0]));
    ok(ft_storage_open(path, FT_STORAGE_WRITE, &file[1]));
    ok(ft_stored_open(file[1], "s", &study[1]));
    for (const char *turn = "0011010111001"; *turn != '\0'; turn++) {
        ft_stored *mine = study[*turn - '0'];
        const bool group = next % 3 == 0;
        if (group) ok(ft_storage_begin(mine->storage));
        ok(ft_stored_ask(mine, next % 4 == 1 ? FT_WAITING : FT_RUNNING, &n));
        assert_int_equal(n, next);
        if (group) ok(ft_stored_param(mine, n, "dropout", &dropout, 0.2));
        if (group) ok(ft_storage_commit(mine->storage));
        next++;
    }
    for (int i = 0; i < 2; i++) {
        ok(ft_stored_refresh(study[i]));
        assert_int_equal(study[i]->trials.count, next);
        for (n = 0; n < next; n++) {
            assert_int_equal(study[i]->trials.trial[n].state, n % 4 == 1 ? FT_WAITING : FT_RUNNING);
            assert_int_equal(study[i]->trials.trial[n].param_count, n % 3 == 0);
        }
        ft_stored_close(study[i]);
        ok(ft_storage_close(file[i]));
    }
    assert_at_rest(path);
}

static void is_attribute(ft_stored *study, int64_t n, const char *key, const char *json) {
    ft_arena arena = {0};
    const char *found;
    ok(ft_stored_attribute(study, n, FT_USER_ATTRIBUTE, key, &arena, &found));
    assert_non_null(found);
    assert_string_equal(found, json);
    ft_arena_free(&arena);
}

// However much a group writes, whatever is in it, and what it writes twice: the order of parameters too.
static void what_a_group_writes_is_there(void **state) {
    enum { PARAMS = 150 };
    static const char *const odd[] = {"a \"quote\"", "back\\slash\\", "NULL", "{}", "comma, ", " ", "M\xC3\xBCller \xF0\x9F\x98\x80", "line\nbreak"};
    enum { ODD = sizeof odd / sizeof odd[0] };
    const char *path = scratch("groups.db");
    ft_storage *storage;
    ft_stored *study;
    int64_t n;
    char name[64];
    ok(ft_storage_open(path, FT_STORAGE_CREATE, &storage));
    ok(ft_stored_create(storage, "s", 1, &(bool){false}, &study));
    ok(ft_storage_begin(storage));
    ok(ft_stored_ask(study, FT_RUNNING, &n));
    for (int i = 0; i < PARAMS; i++) {
        snprintf(name, sizeof name, "p%d %s", i, odd[i % ODD]);
        ok(ft_stored_param(study, n, name, &dropout, 0.1 * (i % 6)));
        if (i % 40 == 0) ok(ft_stored_set_attribute(study, n, FT_USER_ATTRIBUTE, "count", i == 0 ? "0" : "[1, \"\\\\\"]"));
    }
    for (int i = 0; i < (int)ODD; i++) {
        ok(ft_stored_set_attribute(study, n, FT_USER_ATTRIBUTE, odd[i], "1"));
        ok(ft_stored_set_attribute(study, n, FT_USER_ATTRIBUTE, odd[i], "\"two\""));
    }
    is_attribute(study, n, odd[0], "\"two\""); // in the group too
    ok(ft_storage_commit(storage));
    ft_stored_close(study);
    ok(ft_storage_close(storage));
    ok(ft_storage_open(path, FT_STORAGE_READ, &storage));
    ok(ft_stored_open(storage, "s", &study));
    const ft_trial *trial = &study->trials.trial[n];
    assert_int_equal(trial->param_count, PARAMS);
    for (int i = 0; i < PARAMS; i++) {
        snprintf(name, sizeof name, "p%d %s", i, odd[i % ODD]);
        assert_string_equal(study->trials.names.name[trial->params[i].name], name);
        assert_true(trial->params[i].value == 0.1 * (i % 6));
    }
    for (int i = 0; i < (int)ODD; i++)
        is_attribute(study, n, odd[i], "\"two\"");
    is_attribute(study, n, "count", "[1, \"\\\\\"]");
    ft_stored_close(study);
    ok(ft_storage_close(storage));
}

// A group that writes to a trial that another has ended meanwhile: at its end at the latest it fails, with all of it.
static void a_group_fails_with_its_trial(void **state) {
    const char *path = scratch("ended.db");
    ft_storage *one, *two;
    ft_stored *mine, *theirs;
    int64_t n, other;
    ok(ft_storage_open(path, FT_STORAGE_CREATE, &one));
    ok(ft_stored_create(one, "s", 1, &(bool){false}, &mine));
    ok(ft_stored_ask(mine, FT_RUNNING, &n));
    ok(ft_stored_ask(mine, FT_RUNNING, &other));
    ok(ft_storage_open(path, FT_STORAGE_WRITE, &two));
    ok(ft_stored_open(two, "s", &theirs));
    ok(ft_stored_finish(theirs, n, FT_FAIL, NULL, 0));
    ok(ft_storage_begin(one));
    ok(ft_stored_set_attribute(mine, other, FT_USER_ATTRIBUTE, "k", "1"));
    ft_status status = ft_stored_param(mine, n, "dropout", &dropout, 0.1);
    if (status == FT_OK) status = ft_stored_set_attribute(mine, n, FT_USER_ATTRIBUTE, "k", "1");
    if (status == FT_OK) status = ft_storage_commit(one);
    refused(status, FT_FAILED, "by another process");
    ft_storage_rollback(one);
    ft_stored_close(mine);
    ok(ft_stored_open(one, "s", &mine)); // the connection is fit for use
    assert_int_equal(mine->trials.trial[n].state, FT_FAIL);
    assert_int_equal(mine->trials.trial[n].param_count, 0);
    ft_attribute *list;
    ft_arena arena = {0};
    int count;
    ok(ft_stored_attributes(mine, other, FT_USER_ATTRIBUTE, &arena, &list, &count));
    assert_int_equal(count, 0);
    ft_arena_free(&arena);
    ok(ft_stored_finish(mine, other, FT_COMPLETE, &(double){1}, 1));
    ft_stored_close(mine);
    ft_stored_close(theirs);
    ok(ft_storage_close(one));
    ok(ft_storage_close(two));
    assert_at_rest(path);
}

// ---- claims ---------------------------------------------------------------------------------------------------------

// What is claimed with a group is there when it is committed, and given up behind another one, not before; a group that
// claims what somebody has is not committed.
static void claims_go_with_groups(void **state) {
    static const ft_claim trial = {"trial", "s", 0}, next = {"trial", "s", 1};
    const char *path = scratch("with_groups.db");
    ft_storage *one, *two;
    ft_stored *mine, *theirs;
    bool got, others;
    int64_t n;
    ok(ft_storage_open(path, FT_STORAGE_CREATE, &one));
    ok(ft_stored_create(one, "s", 1, &(bool){false}, &mine));
    ok(ft_storage_open(path, FT_STORAGE_WRITE, &two));
    ok(ft_stored_open(two, "s", &theirs));
    refused(ft_storage_claim_surely(one, &trial), FT_FAILED, "no group of changes");
    ok(ft_storage_begin(one));
    ok(ft_stored_ask(mine, FT_RUNNING, &n));
    ok(ft_storage_claim_surely(one, &trial));
    ok(ft_storage_commit(one));
    ok(ft_storage_claimed(two, &trial, &others));
    assert_true(others);
    ok(ft_storage_begin(one));
    ok(ft_stored_finish(mine, n, FT_COMPLETE, &(double){0.5}, 1));
    ok(ft_storage_commit_releasing(one, &trial));
    ok(ft_storage_claim(two, &trial, FT_CLAIM_ALONE, &got));
    assert_true(got);
    ok(ft_storage_claim(two, &next, FT_CLAIM_ALONE, &got));
    assert_true(got);
    ok(ft_stored_refresh(theirs));
    assert_int_equal(theirs->trials.trial[0].state, FT_COMPLETE);
    ok(ft_storage_begin(one));
    ok(ft_stored_ask(mine, FT_RUNNING, &n));
    ft_status status = ft_storage_claim_surely(one, &next);
    if (status == FT_OK) status = ft_storage_commit(one);
    refused(status, FT_FAILED, "another process holds");
    ft_storage_rollback(one);
    ft_stored_close(mine);
    ok(ft_stored_refresh(theirs));
    assert_int_equal(theirs->trials.count, 1);
    ft_stored_close(theirs);
    ok(ft_storage_close(one));
    ok(ft_storage_close(two));
}

static void claims_are_of_one_storage(void **state) {
    static const ft_claim trial = {"trial", "s", 7}, study = {"study", "s", 0};
    const char *path = scratch("claims.db");
    ft_storage *one, *two;
    bool got, others;
    ok(ft_storage_open(path, FT_STORAGE_CREATE, &one));
    ok(ft_storage_open(path, FT_STORAGE_WRITE, &two));
    ok(ft_storage_claim(one, &trial, FT_CLAIM_ALONE, &got));
    assert_true(got);
    ok(ft_storage_claim(two, &trial, FT_CLAIM_ALONE, &got));
    assert_false(got);
    ok(ft_storage_claimed(two, &trial, &others));
    assert_true(others);
    ok(ft_storage_claim(one, &study, FT_CLAIM_SHARED, &got));
    ok(ft_storage_claim(two, &study, FT_CLAIM_SHARED, &got));
    assert_true(got);
    ok(ft_storage_claim(two, &study, FT_CLAIM_ALONE, &got)); // what was claimed stays
    assert_false(got);
    ok(ft_storage_claim(one, &study, FT_CLAIM_ALONE, &got));
    assert_false(got);
    ok(ft_storage_claim(two, &study, FT_CLAIM_NONE, &got));
    ok(ft_storage_claim(one, &study, FT_CLAIM_ALONE, &got));
    assert_true(got);
    ok(ft_storage_claimed(two, &study, &others));
    assert_true(others);
    ok(ft_storage_claimed(one, &study, &others)); // its own is none of another
    assert_false(others);
    ok(ft_storage_claim(one, &study, FT_CLAIM_SHARED, &got));
    ok(ft_storage_claim(two, &study, FT_CLAIM_SHARED, &got));
    assert_true(got);
    ok(ft_storage_close(one));
    for (int i = 0; i < 100; i++) { // the server notices it in its own time
        ok(ft_storage_claim(two, &trial, FT_CLAIM_ALONE, &got));
        if (got) break;
        usleep(10000);
    }
    assert_true(got);
    ok(ft_storage_close(two));
}

// ---- a database that several make at once ---------------------------------------------------------------------------

static void several_make_the_tables(void **state) {
    enum { PROCESSES = 4 };
    const char *path = scratch("atonce.db");
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child > 0) continue;
        ft_storage *storage;
        must(ft_storage_open(path, FT_STORAGE_CREATE, &storage));
        must(ft_storage_close(storage));
        _exit(0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int result;
        assert_true(wait(&result) > 0);
        assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    }
}

// ---- what waits for the disk ----------------------------------------------------------------------------------------

static bool refuse_sync(unsigned call) {
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof rules / sizeof rules[0], rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// A disk that does not answer is met by a commit that waits for it, and by no other.
static int without_disk(const char *path) {
    ft_storage *storage;
    ft_stored *study;
    int64_t number;
    if (ft_storage_open(path, FT_STORAGE_CREATE, &storage) != FT_OK) return 1;
    if (ft_stored_create(storage, "disk", 1, &(bool){true}, &study) != FT_OK) return 2;
    if (!refuse_sync(SYS_fsync) || !refuse_sync(SYS_fdatasync)) return 77;
    if (ft_stored_ask(study, FT_RUNNING, &number) != FT_OK) return 3;
    if (ft_storage_full_sync(storage, true) != FT_OK) return 4;
    if (ft_stored_report(study, number, 1, 0.5) == FT_OK) return 5;
    if (ft_storage_full_sync(storage, false) != FT_OK) return 6;
    return ft_stored_report(study, number, 2, 0.5) == FT_OK ? 0 : 7;
}

// A journal's line that is not on the disk is not there: it failed, and nobody reads it.
static int journal_without_disk(const char *path) {
    ft_storage *storage;
    ft_stored *study;
    struct stat before, after;
    int64_t number;
    if (ft_storage_open(path, FT_STORAGE_CREATE, &storage) != FT_OK) return 1;
    if (ft_stored_create(storage, "disk", 1, &(bool){true}, &study) != FT_OK) return 2;
    if (!refuse_sync(SYS_fsync) || !refuse_sync(SYS_fdatasync)) return 77;
    if (stat(path + strlen("journal:"), &before) != 0) return 3;
    if (ft_stored_ask(study, FT_RUNNING, &number) == FT_OK) return 4;
    return stat(path + strlen("journal:"), &after) == 0 && after.st_size == before.st_size ? 0 : 5;
}

static void in_a_child(int (*without)(const char *path), const char *path) {
    int result;
    pid_t child = fork();
    if (child == 0) _exit(without(path));
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    if (WEXITSTATUS(result) == 77) skip();
    assert_int_equal(WEXITSTATUS(result), 0);
}

static void a_refused_disk_leaves_no_line(void **state) {
    if (!in_journal()) skip();
    in_a_child(journal_without_disk, scratch("refused.log"));
}

static void waits_for_the_disk_when_told(void **state) {
    if (!in_sqlite()) skip();
    in_a_child(without_disk, scratch("disk.db"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_any_moment),          cmocka_unit_test(each_trial_goes_to_one_process),
        cmocka_unit_test(waits_for_the_disk_when_told),  cmocka_unit_test(a_refused_disk_leaves_no_line),
        cmocka_unit_test(a_trial_takes_few_round_trips), cmocka_unit_test(claims_are_of_one_storage),
        cmocka_unit_test(several_make_the_tables),       cmocka_unit_test(claims_go_with_groups),
        cmocka_unit_test(alone_it_takes_fewer),          cmocka_unit_test(numbers_go_on_behind_others),
        cmocka_unit_test(what_a_group_writes_is_there),  cmocka_unit_test(a_group_fails_with_its_trial),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
