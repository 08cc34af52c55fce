// Contexts: what one thread says, is asked to stop, or keeps does not reach another that works in a context of its own; threads of a
// pool work in that of their starter.
// ctest: tsan=run
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/status.h"
#include "base/stop.h"
#include "kernels/cpu/pool.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { ROUNDS = 2000, TASKS = 8 };

// What one user of the engine gets to see.
typedef struct user {
    const char *name;
    ft_context context;
    pthread_mutex_t lock; // lines come from its pool's threads too
    int infos, warnings, strange;
    pthread_barrier_t *together;
    int stopped_at; // the round in which it saw that it shall stop; 0: it did not
} user;

static void take_line(void *owner, const char *text) {
    user *u = owner;
    char info[64], warning[64];
    snprintf(info, sizeof info, "info of %s", u->name);
    snprintf(warning, sizeof warning, "warning: %s", u->name);
    pthread_mutex_lock(&u->lock);
    if (strcmp(text, info) == 0) u->infos++;
    else if (strcmp(text, warning) == 0) u->warnings++;
    else u->strange++;
    pthread_mutex_unlock(&u->lock);
}

static void open_user(user *u, const char *name, pthread_barrier_t *together) {
    *u = (user){.name = name, .together = together};
    pthread_mutex_init(&u->lock, NULL);
    ft_context_init(&u->context);
    u->context.sink = (ft_log_sink){take_line, u};
}

static void close_user(user *u) {
    ft_context_free(&u->context);
    pthread_mutex_destroy(&u->lock);
}

static void say(void *context, int task, int thread) {
    const user *u = context;
    ft_info("info of %s", u->name);
    ft_warn("%s", u->name);
}

static void *work(void *argument) {
    user *u = argument;
    ft_context *before = ft_context_enter(&u->context);
    ft_pool *pool;
    if (before != NULL || ft_context_now() != &u->context || ft_pool_create(3, &pool) != FT_OK) return "cannot begin";
    ft_stop_begin();
    pthread_barrier_wait(u->together);
    for (int round = 1; round <= ROUNDS && u->stopped_at == 0; round++) {
        ft_log_set_level(round % 2 == 0 ? FT_LOG_NORMAL : FT_LOG_QUIET); // the other one's lines are counted too
        ft_pool_run(pool, TASKS, say, u);
        if (ft_stop_signal() != 0) u->stopped_at = round;
    }
    ft_pool_destroy(pool);
    ft_context_enter(before);
    return NULL;
}

// Two work at the same time, and one of them is asked to stop.
static void test_two_do_not_meet(void **state) {
    pthread_barrier_t together;
    pthread_barrier_init(&together, NULL, 3);
    user a, b;
    open_user(&a, "a", &together);
    open_user(&b, "b", &together);
    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, work, &a), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, work, &b), 0);
    pthread_barrier_wait(&together); // both have begun
    assert_int_equal(ft_stop_ask(&a.context, SIGTERM), 0);
    assert_int_equal(ft_stop_ask(&a.context, SIGINT), SIGTERM); // a second one learns of the first
    for (int i = 0; i < 2; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_in_range(a.stopped_at, 1, ROUNDS);
    assert_int_equal(b.stopped_at, 0);
    assert_int_equal(ft_stop_signal(), 0); // nor was the program asked
    assert_int_equal(a.warnings, a.stopped_at * TASKS);
    assert_int_equal(a.infos, a.stopped_at / 2 * TASKS);
    assert_int_equal(b.warnings, ROUNDS * TASKS);
    assert_int_equal(b.infos, ROUNDS / 2 * TASKS);
    assert_int_equal(a.strange + b.strange, 0);
    close_user(&a);
    close_user(&b);
    pthread_barrier_destroy(&together);
}

static int forgotten;
static void forget(void *value) { forgotten += *(int *)value; }
static int heard;
static void hear(ft_context *context) { heard += context == ft_context_now(); }

static void test_what_a_context_holds(void **state) {
    static int thing = 3;
    ft_context *program = ft_context_now(), mine;
    ft_context_init(&mine);
    mine.kept[FT_CONTEXT_LAYOUTS].value = &thing;
    mine.kept[FT_CONTEXT_LAYOUTS].forget = forget;
    mine.begins = hear;
    ft_log_set_level(FT_LOG_VERBOSE);
    assert_null(ft_context_enter(&mine));
    assert_ptr_equal(ft_context_now(), &mine);
    assert_int_equal(ft_log_get_level(), FT_LOG_NORMAL);
    ft_stop_ask(&mine, SIGINT);
    assert_int_equal(ft_stop_status(ft_stop_signal()), FT_INTERRUPTED);
    ft_stop_begin(); // other work: it is heard of, and not stopped
    assert_int_equal(heard, 1);
    assert_int_equal(ft_stop_signal(), 0);
    assert_ptr_equal(ft_context_enter(NULL), &mine);
    assert_ptr_equal(ft_context_now(), program);
    assert_int_equal(ft_log_get_level(), FT_LOG_VERBOSE);
    assert_int_equal(forgotten, 0);
    ft_context_free(&mine);
    assert_int_equal(forgotten, 3);
    ft_log_set_level(FT_LOG_NORMAL);
}

// Lines of any length, and errors with their hints, without what a terminal would obey.
static char taken[4][3000];
static int lines;
static void keep_line(void *owner, const char *text) { snprintf(taken[lines++], sizeof taken[0], "%s", text); }

static void test_lines(void **state) {
    char longest[2500];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    ft_context mine;
    ft_context_init(&mine);
    mine.sink.line = keep_line;
    ft_context *before = ft_context_enter(&mine);
    ft_warn("%s", longest);
    ft_detail("not said");
    ft_status_line("a sink is no terminal");
    ft_fail(FT_INVALID, "a\033file", "no\nmore");
    ft_hint("try");
    ft_log_error();
    ft_error_clear();
    ft_context_enter(before);
    ft_context_free(&mine);
    assert_int_equal(lines, 3);
    assert_memory_equal(taken[0], "warning: xxx", 12);
    assert_int_equal(strlen(taken[0]), 9 + sizeof longest - 1);
    assert_string_equal(taken[1], "ftengine: error: no?more (a?file)");
    assert_string_equal(taken[2], "  hint: try");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_do_not_meet), cmocka_unit_test(test_what_a_context_holds),
                                       cmocka_unit_test(test_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
