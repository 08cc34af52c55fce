// Rows of features on disk: what is stored comes back to the byte, what is damaged or another's is noticed and made anew, the directory
// stays below its bound and loses what was not used for longest, and writers that race or are killed leave nothing that is believed.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/log.h"
#include "engine/data/feature_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 128, ROWS = 7, ROW_BYTES = 12, ANY = 1 << 30 };
static char scratch[64];

static int make_scratch(void **state) {
    strcpy(scratch, "/tmp/ft_features_XXXXXX");
    ft_log_set_level(FT_LOG_SILENT);
    return mkdtemp(scratch) == NULL;
}
static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

static const char *new_directory(void) {
    static int number;
    static char path[96];
    snprintf(path, sizeof path, "%s/%d/deep", scratch, number++);
    return path;
}

static ft_features of(char letter, int64_t rows) {
    ft_features f = {.rows = rows, .row_bytes = ROW_BYTES};
    memset(f.key, letter, 64);
    return f;
}

static ft_features filled(char letter, int64_t rows) {
    ft_features f = of(letter, rows);
    assert_int_equal(ft_features_make(&f), FT_OK);
    for (int64_t i = 0; i < rows * ROW_BYTES; i++) ((char *)f.own)[i] = (char)(i * 7 + letter);
    f.data = f.own;
    return f;
}

static void path_of(const char *directory, char letter, char out[256]) {
    char key[65] = "";
    memset(key, letter, 64);
    snprintf(out, 256, "%s/%s.features", directory, key);
}

static bool loads(const char *directory, char letter, int64_t rows) {
    ft_features f = of(letter, rows), want = filled(letter, rows);
    bool found;
    assert_int_equal(ft_features_load(directory, &f, &found), FT_OK);
    assert_int_equal(f.data != NULL, found);
    if (found) assert_memory_equal(f.data, want.data, (size_t)rows * ROW_BYTES);
    ft_features_free(&f);
    ft_features_free(&want);
    return found;
}

static void store(const char *directory, char letter, int64_t rows, int64_t limit) {
    ft_features f = filled(letter, rows);
    ft_features_store(directory, limit, &f);
    ft_features_free(&f);
}

static void comes_back(void **state) {
    const char *directory = new_directory();
    assert_false(loads(directory, 'a', ROWS)); // no directory yet
    for (int64_t rows = 0; rows < 3000000; rows = rows * 40 + 1) { // nothing, one, several pieces of a write
        store(directory, 'a', rows, ANY);
        assert_true(loads(directory, 'a', rows));
        assert_false(loads(directory, 'b', rows));
    }
}

// Every byte counts: of the header, of the rows, of the checksum; and so does the length.
static void damage_is_noticed(void **state) {
    const char *directory = new_directory();
    char path[256];
    const long size = HEADER + ROWS * ROW_BYTES + 32;
    path_of(directory, 'a', path);
    for (long at = 0; at < size; at++) {
        store(directory, 'a', ROWS, ANY);
        FILE *f = fopen(path, "r+");
        assert_non_null(f);
        fseek(f, at, SEEK_SET);
        const int byte = fgetc(f);
        fseek(f, at, SEEK_SET);
        fputc(byte ^ 0x10, f);
        fclose(f);
        if (loads(directory, 'a', ROWS)) fail_msg("byte %ld may be anything", at);
    }
    static const long lengths[] = {0, 5, HEADER - 1, HEADER, HEADER + 3, HEADER + ROWS * ROW_BYTES, HEADER + ROWS * ROW_BYTES + 31};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        store(directory, 'a', ROWS, ANY);
        assert_int_equal(truncate(path, lengths[i]), 0);
        assert_false(loads(directory, 'a', ROWS));
    }
    store(directory, 'a', ROWS, ANY);
    assert_int_equal(truncate(path, size + 1), 0);
    assert_false(loads(directory, 'a', ROWS));
    store(directory, 'a', ROWS, ANY); // and then it is made anew
    assert_true(loads(directory, 'a', ROWS));
}

// A good file under another's name, other sizes, what is no file at all.
static void what_is_anothers(void **state) {
    const char *directory = new_directory();
    char a[256], b[256];
    path_of(directory, 'a', a);
    path_of(directory, 'b', b);
    store(directory, 'a', ROWS, ANY);
    assert_int_equal(rename(a, b), 0);
    assert_false(loads(directory, 'b', ROWS));
    store(directory, 'a', ROWS, ANY);
    assert_false(loads(directory, 'a', ROWS - 1));
    unlink(b);
    assert_int_equal(mkfifo(b, 0600), 0);
    assert_false(loads(directory, 'b', ROWS)); // and nobody waits for its writer
    unlink(b);
    assert_int_equal(mkdir(b, 0700), 0);
    assert_false(loads(directory, 'b', ROWS));
    store(directory, 'b', ROWS, ANY); // cannot be: a warning, no failure
    store("/proc/nobody/writes/here", 'a', ROWS, ANY);
}

static void set_age(const char *directory, char letter, int seconds) {
    char path[256];
    const time_t then = time(NULL) - seconds;
    path_of(directory, letter, path);
    assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[]){{.tv_sec = then}, {.tv_sec = then}}, 0), 0);
}

static void the_bound_holds(void **state) {
    const char *directory = new_directory();
    const int64_t one = HEADER + ROWS * ROW_BYTES + 32;
    char other[256];
    store(directory, 'a', ROWS, ANY);
    store(directory, 'b', ROWS, ANY);
    store(directory, 'c', ROWS, ANY);
    snprintf(other, sizeof other, "%s/%s", directory, "something.tokens");
    FILE *f = fopen(other, "w");
    assert_non_null(f);
    fclose(f);
    set_age(directory, 'a', 100);
    set_age(directory, 'b', 200);
    set_age(directory, 'c', 300);
    assert_true(loads(directory, 'c', ROWS)); // used: b is the oldest now
    ft_features held = of('b', ROWS);
    bool found;
    assert_int_equal(ft_features_load(directory, &held, &found), FT_OK); // b is the youngest
    set_age(directory, 'b', 200);
    store(directory, 'd', ROWS, 3 * one);
    assert_true(loads(directory, 'a', ROWS) && loads(directory, 'c', ROWS) && loads(directory, 'd', ROWS));
    assert_false(loads(directory, 'b', ROWS));
    ft_features want = filled('b', ROWS);
    assert_memory_equal(held.data, want.data, ROWS * ROW_BYTES); // who has it keeps it
    ft_features_free(&held);
    ft_features_free(&want);
    store(directory, 'd', ROWS, one); // again, and only that fits
    assert_true(loads(directory, 'd', ROWS));
    assert_false(loads(directory, 'a', ROWS) || loads(directory, 'c', ROWS));
    assert_true(ft_path_exists(other)); // not ours
}

static void race(const char *directory, int seed) {
    for (int i = 0; i < 60; i++) {
        const char letter = (char)('a' + (i + seed) % 3);
        if (loads(directory, letter, 500 * ROWS)) continue;
        store(directory, letter, 500 * ROWS, 14 * 500 * ROWS * ROW_BYTES / 10); // room for one: all remove each other's
    }
}

// loads() compares every byte.
static void several_at_once(void **state) {
    const char *directory = new_directory();
    pid_t child[4];
    for (int i = 0; i < 4; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            race(directory, i);
            _exit(0);
        }
    }
    for (int i = 0; i < 4; i++) {
        int status;
        waitpid(child[i], &status, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static int entries(const char *directory) {
    char command[160];
    int count = -1;
    snprintf(command, sizeof command, "ls -A %s | wc -l", directory);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &count), 1);
    pclose(f);
    return count;
}

static void killed_while_it_writes(void **state) {
    enum { MANY = 400000 };
    const char *directory = new_directory();
    int killed = 0;
    for (int i = 0; i < 25; i++) {
        const pid_t child = fork();
        if (child == 0) {
            store(directory, 'a', MANY, ANY);
            _exit(0);
        }
        usleep((useconds_t)(i * 2500));
        kill(child, SIGKILL);
        int status;
        waitpid(child, &status, 0);
        killed += WIFSIGNALED(status);
        (void)loads(directory, 'a', MANY); // whole, or not there
    }
    assert_true(killed > 0);
    store(directory, 'a', MANY, ANY);
    assert_true(loads(directory, 'a', MANY));
    assert_int_equal(entries(directory), 1); // what the killed left is gone
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),      cmocka_unit_test(damage_is_noticed), cmocka_unit_test(what_is_anothers),
        cmocka_unit_test(the_bound_holds), cmocka_unit_test(several_at_once),   cmocka_unit_test(killed_while_it_writes),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
