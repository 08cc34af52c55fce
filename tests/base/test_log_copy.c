// Copies of messages in files: lines from before the file is known are kept, --quiet keeps none from it and silence
// all, an error that is told later is in it, and contexts do not mix. Finds a copy that loses the beginning, has what
// rehearsals say, is of the whole process, is closed before its error is told, or stays open for what others say.
// ctest: tsan=run
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/log.h"
#include "base/log_copy.h"
#include "base/status.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char scratch[64];

static int make_scratch(void **state) {
    snprintf(scratch, sizeof scratch, "/tmp/ft-log-XXXXXX");
    return mkdtemp(scratch) == NULL;
}

static int remove_scratch(void **state) { return ft_remove_tree(scratch) != FT_OK; }

typedef struct file_path {
    char path[128];
} file_path;
static file_path in_scratch(const char *file) {
    file_path n;
    snprintf(n.path, sizeof n.path, "%s/%s", scratch, file);
    return n;
}

static void nowhere(void *owner, const char *text) { ++*(int *)owner; }

// The file's lines without their times, which every one but an empty one must have.
static char *lines_of(const char *path) {
    static char text[1 << 16];
    char line[512];
    FILE *in = fopen(path, "r");
    text[0] = '\0';
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        int year, month, day, hour, minute, second, used = 0;
        if (strcmp(line, "\n") == 0)
            used = 0;
        else if (sscanf(line, "%4d-%2d-%2d %2d:%2d:%2d%n", &year, &month, &day, &hour, &minute, &second, &used) != 6 ||
                 used != 19 || strncmp(line + used, "  ", 2) != 0)
            fail_msg("a line without its time: %s", line);
        else
            used += 2;
        strcat(text, line + used);
    }
    if (in != NULL) fclose(in);
    return text;
}

typedef struct user {
    ft_context context;
    int shown; // lines that reached the sink
} user;

static ft_context *enter(user *u) {
    u->shown = 0;
    ft_context_init(&u->context);
    u->context.sink = (ft_log_sink){nowhere, &u->shown};
    return ft_context_enter(&u->context);
}

static void leave(user *u, ft_context *before) {
    ft_context_enter(before);
    ft_context_free(&u->context);
}

static void test_what_is_in_it(void **state) {
    user u;
    ft_context *before = enter(&u);
    const file_path one = in_scratch("one.log");
    const char *path = one.path;
    ft_info("nobody copies this");
    ft_log_copy *copy = ft_log_copy_begin();
    ft_info("before %d", 1);
    ft_log_set_level(FT_LOG_QUIET);
    ft_info("quiet");
    ft_warn("as ever");
    ft_log_set_level(FT_LOG_SILENT);
    ft_info("silent");
    ft_warn("silent");
    ft_log_set_level(FT_LOG_NORMAL);
    ft_detail("not asked for");
    ft_log_copy_to(copy, path);
    assert_string_equal(lines_of(path), "before 1\nquiet\nwarning: as ever\n");
    ft_info("%s", "");
    ft_info("behind");
    ft_log_copy_end(copy, true);
    ft_info("nobody copies this");
    assert_string_equal(lines_of(path), "before 1\nquiet\nwarning: as ever\n\nbehind\n");
    assert_int_equal(u.shown, 6); // what is quiet is in the file alone
    copy = ft_log_copy_begin();   // again: behind what is there
    ft_log_copy_to(copy, path);
    ft_info("again");
    ft_log_copy_end(copy, true);
    assert_string_equal(lines_of(path), "before 1\nquiet\nwarning: as ever\n\nbehind\nagain\n");
    leave(&u, before);
}

static void test_one_inside_another(void **state) {
    user u;
    ft_context *before = enter(&u);
    ft_log_copy *all = ft_log_copy_begin();
    ft_log_copy_to(all, in_scratch("all.log").path);
    for (int i = 1; i <= 2; i++) {
        char name[16];
        snprintf(name, sizeof name, "run-%d.log", i);
        ft_log_copy *own = ft_log_copy_begin();
        ft_info("run %d", i);
        ft_log_copy_to(own, in_scratch(name).path);
        ft_log_copy_end(own, true);
    }
    ft_info("both");
    ft_log_copy_end(all, true);
    assert_string_equal(lines_of(in_scratch("all.log").path), "run 1\nrun 2\nboth\n");
    assert_string_equal(lines_of(in_scratch("run-2.log").path), "run 2\n");
    leave(&u, before);
}

static void test_the_error_is_in_it(void **state) {
    user u;
    ft_context *before = enter(&u);
    ft_log_copy *all = ft_log_copy_begin(), *own = ft_log_copy_begin();
    ft_log_copy_to(all, in_scratch("failed-all.log").path);
    ft_log_copy_to(own, in_scratch("failed.log").path);
    ft_fail(FT_FAILED, "here", "no");
    ft_log_copy_end(own, false);
    ft_log_copy_end(all, false);
    ft_hint("found later");
    ft_log_error();
    ft_info("of something else");
    ft_error_clear();
    const char *expected = "ftengine: error: no (here)\n  hint: found later\n";
    assert_string_equal(lines_of(in_scratch("failed.log").path), expected);
    assert_string_equal(lines_of(in_scratch("failed-all.log").path), expected);
    own = ft_log_copy_begin(); // failed, and nobody tells: the next one has the lines
    ft_log_copy_to(own, in_scratch("failed.log").path);
    ft_log_copy_end(own, false);
    ft_log_copy *next = ft_log_copy_begin();
    ft_info("of the next");
    ft_log_copy_end(next, true);
    assert_string_equal(lines_of(in_scratch("failed.log").path), expected);
    ft_log_copy_begin(); // left to the context
    leave(&u, before);
}

static void test_no_file(void **state) {
    user u;
    ft_context *before = enter(&u);
    ft_log_copy *copy = ft_log_copy_begin();
    ft_info("one");
    ft_log_copy_to(copy, in_scratch("no/such/directory.log").path);
    ft_info("two");
    ft_log_copy_end(copy, true);
    ft_log_copy_to(NULL, in_scratch("never.log").path); // without memory for a copy
    ft_log_copy_end(NULL, true);
    assert_int_equal(u.shown, 2);
    leave(&u, before);
}

// ---- threads --------------------------------------------------------------------------------------------------------

enum { LINES = 300 };

static void *say(void *argument) {
    user u;
    const char *name = argument;
    ft_context *before = enter(&u);
    ft_log_copy *copy = ft_log_copy_begin();
    for (int i = 0; i < LINES; i++) {
        if (i == LINES / 2) ft_log_copy_to(copy, in_scratch(name).path);
        ft_info("%s", name);
    }
    ft_log_copy_end(copy, true);
    leave(&u, before);
    return NULL;
}

static void test_contexts_do_not_mix(void **state) {
    static char *const names[] = {"a.log", "b.log"};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, say, names[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 2; i++) {
        char expected[8 * LINES] = "";
        for (int k = 0; k < LINES; k++)
            strcat(strcat(expected, names[i]), "\n");
        assert_string_equal(lines_of(in_scratch(names[i]).path), expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_in_it),       cmocka_unit_test(test_one_inside_another),
        cmocka_unit_test(test_the_error_is_in_it),  cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_contexts_do_not_mix),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
