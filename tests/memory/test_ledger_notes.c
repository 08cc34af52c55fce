// Notes beside reservations: whoever holds one says what its run does, and who looks reads that and nothing else. Finds
// notes of an earlier owner of a slot, torn ones, those of a slot beside, a lock that is forgotten, a path that ends in
// the middle of a record, and a pipe or link of that name that makes somebody wait or write elsewhere.
#include "tests/fixtures/config_case.h"

#include "engine/memory/ledger_notes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int set_up(void **state) {
    if (make_scratch(state) != 0) return 1;
    return setenv("FTENGINE_LEDGER_DIR", scratch_dir, 1);
}

static ft_ledger *opened(const char *name) {
    ft_ledger *ledger;
    ok(ft_ledger_open(&(ft_ledger_device){.name = name, .capacity = 1000}, &ledger));
    return ledger;
}

static ft_ledger *entered(const char *name, size_t bytes) {
    ft_ledger *ledger = opened(name);
    ft_ledger_state state;
    bool in;
    ok(ft_ledger_enter(ledger, bytes, 0, &state, &in));
    assert_true(in);
    return ledger;
}

static ft_ledger_note note_of(const char *run, int64_t step) {
    ft_ledger_note n = {
        .step = step, .steps = 9000000000, .allocated = 123, .reserved = 456, .left = 7.5, .at = 1795530885};
    snprintf(n.run, sizeof n.run, "%s", run);
    snprintf(n.doing, sizeof n.doing, "evaluates");
    return n;
}

// What a stranger reads of the reservation of so many bytes; "" where nothing is said.
static const char *read_of(const char *name, size_t bytes, ft_ledger_note *n) {
    static char run[400];
    ft_ledger *ledger = opened(name);
    ft_ledger_state state;
    ok(ft_ledger_read(ledger, &state));
    run[0] = '\0';
    for (int i = 0; i < state.count; i++)
        if (state.reservations[i].bytes == bytes && ft_ledger_note_read(ledger, &state.reservations[i], n))
            snprintf(run, sizeof run, "%s", n->run);
    ft_ledger_close(ledger);
    return run;
}

static void test_what_is_written_is_read(void **state) {
    ft_ledger_note n;
    ft_ledger *a = entered("two", 100), *b = entered("two", 200);
    assert_string_equal(read_of("two", 100, &n), "");
    const ft_ledger_note first = note_of("/runs/a b\nc", 41), second = note_of("/runs/second", 42);
    ft_ledger_note_write(a, &first);
    ft_ledger_note_write(b, &second);
    assert_string_equal(read_of("two", 100, &n), "/runs/a b\nc"); // who shows it cleans it
    assert_true(n.step == 41 && n.steps == 9000000000 && n.allocated == 123 && n.reserved == 456 && n.left == 7.5 &&
                n.at == 1795530885);
    assert_string_equal(n.doing, "evaluates");
    assert_string_equal(read_of("two", 200, &n), "/runs/second");
    char path[sizeof n.run], text[sizeof n.run];
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    snprintf(text, sizeof text, "%s", path);
    const ft_ledger_note longest = note_of(path, INT64_MAX);
    ft_ledger_note_write(a, &longest);
    assert_string_equal(read_of("two", 100, &n), text);
    assert_true(n.step == INT64_MAX);
    ft_ledger_close(a);
    assert_string_equal(read_of("two", 200, &n), "/runs/second");
    ft_ledger_close(b);
}

static void test_a_slot_has_another_owner(void **state) {
    ft_ledger_note n;
    const pid_t child = fork();
    if (child == 0) { // dies with its reservation and its note
        ft_ledger *ledger = entered("again", 100);
        const ft_ledger_note dead = note_of("/runs/dead", 1);
        ft_ledger_note_write(ledger, &dead);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ft_ledger *ledger = entered("again", 300); // the same slot
    assert_string_equal(read_of("again", 300, &n), "");
    const ft_ledger_note mine = note_of("/runs/mine", 2);
    ft_ledger_note_write(ledger, &mine);
    assert_string_equal(read_of("again", 300, &n), "/runs/mine");
    ft_ledger_leave(ledger);
    ft_ledger_note_write(ledger, &mine); // without a reservation: nothing
    ft_ledger_note_write(NULL, &mine);
    ft_ledger_close(ledger);
}

static void test_a_torn_note_is_none(void **state) {
    ft_ledger_note n;
    ft_ledger *ledger = entered("torn", 100);
    const ft_ledger_note mine = note_of("/runs/whole", 3);
    ft_ledger_note_write(ledger, &mine);
    const char *path = in_scratch("torn.notes");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    for (off_t at = 0; at < st.st_size; at += 7) { // wherever it is damaged
        char byte, other;
        int file = open(path, O_RDWR);
        assert_int_equal(pread(file, &byte, 1, at), 1);
        other = (char)(byte ^ 1);
        assert_int_equal(pwrite(file, &other, 1, at), 1);
        assert_string_equal(read_of("torn", 100, &n), "");
        assert_int_equal(pwrite(file, &byte, 1, at), 1);
        close(file);
    }
    assert_string_equal(read_of("torn", 100, &n), "/runs/whole");
    assert_int_equal(truncate(path, st.st_size - 1), 0);
    assert_string_equal(read_of("torn", 100, &n), "");
    ft_ledger_close(ledger);
}

static void test_what_is_no_file(void **state) {
    ft_ledger_note n;
    const ft_ledger_note mine = note_of("/runs/mine", 3);
    assert_int_equal(mkfifo(in_scratch("pipe.notes"), 0666), 0);
    assert_int_equal(symlink("elsewhere", in_scratch("link.notes")), 0);
    static const char *const names[] = {"pipe", "link"};
    for (int i = 0; i < 2; i++) {
        ft_ledger *ledger = entered(names[i], 100);
        ft_ledger_note_write(ledger, &mine);
        assert_string_equal(read_of(names[i], 100, &n), "");
        ft_ledger_close(ledger);
    }
    assert_int_not_equal(access(in_scratch("elsewhere"), F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_a_slot_has_another_owner),
        cmocka_unit_test(test_a_torn_note_is_none),
        cmocka_unit_test(test_what_is_no_file),
    };
    return cmocka_run_group_tests(tests, set_up, remove_scratch);
}
