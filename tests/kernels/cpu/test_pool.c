// The pool: every task runs exactly once, on a thread number of its own, with its results visible afterwards.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/limits.h"
#include "kernels/cpu/pool.h"
#include "kernels/ops/backend.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST_TASKS = 1000 };
typedef struct count {
    int runs[MOST_TASKS]; // plain: the pool must order them
    int threads[MOST_TASKS];
    atomic_int busy[16];
    atomic_int overlaps;
} count;

static void run_task(void *context, int task, int thread) {
    count *c = context;
    if (atomic_fetch_add(&c->busy[thread], 1) != 0) atomic_fetch_add(&c->overlaps, 1);
    c->runs[task]++;
    c->threads[task] = thread;
    atomic_fetch_sub(&c->busy[thread], 1);
}

static void every_task_runs_once(void **unused) {
    static const int thread_counts[] = {1, 2, 3, 4, 9}, task_counts[] = {0, 1, 2, 3, 7, 100, MOST_TASKS};
    for (size_t t = 0; t < sizeof thread_counts / sizeof *thread_counts; t++) {
        ft_pool *pool;
        assert_int_equal(ft_pool_create(thread_counts[t], &pool), FT_OK);
        assert_int_equal(ft_pool_threads(pool), thread_counts[t]);
        for (size_t n = 0; n < sizeof task_counts / sizeof *task_counts; n++) {
            static count c;
            memset(&c, 0, sizeof c);
            for (int round = 1; round <= 20; round++) {
                ft_pool_run(pool, task_counts[n], run_task, &c);
                for (int task = 0; task < MOST_TASKS; task++) {
                    assert_int_equal(c.runs[task], task < task_counts[n] ? round : 0);
                    assert_in_range(c.threads[task], 0, thread_counts[t] - 1);
                }
            }
            assert_int_equal(atomic_load(&c.overlaps), 0);
        }
        ft_pool_destroy(pool);
    }
}

// The device's fill, which large pieces are shared out for: all of it and not a byte beside it.
static void fills(void **unused) {
    const size_t page = 2u << 20, sizes[] = {0, 1, 2 * page - 1, 2 * page, 4 * page + 3, 9 * page - 1}, room = 10 * page;
    unsigned char *block = malloc(room), *want = malloc(room);
    assert_true(block != NULL && want != NULL);
    for (int threads = 1; threads <= 5; threads += 2) {
        ft_device *device;
        assert_int_equal(ft_cpu_open(threads, NULL, &device), FT_OK);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            memset(block, 7, room);
            memset(want, 7, room);
            memset(want + 13, 0xab, sizes[i]);
            assert_int_equal(device->functions->fill(device, block + 13, 0xab, sizes[i]), FT_OK);
            assert_int_equal(memcmp(block, want, room), 0);
        }
        ft_device_close(device);
    }
    free(block);
    free(want);
}

static void add_one(void *context, int task, int thread) { ((long *)context)[task]++; }

// Short runs one after the other: a lost wake-up would hang here, a missed hand-over would miscount.
static void many_short_runs_lose_nothing(void **unused) {
    ft_pool *pool;
    assert_int_equal(ft_pool_create(4, &pool), FT_OK);
    long sums[5] = {0}, runs = 20000;
    for (long i = 0; i < runs; i++)
        ft_pool_run(pool, 1 + (int)(i % 5), add_one, sums);
    for (int task = 0; task < 5; task++)
        assert_int_equal(sums[task], runs / 5 * (5 - task));
    ft_pool_destroy(pool);
}

// After a pause the threads sleep; the next run must wake them.
static void sleeping_threads_wake_up(void **unused) {
    ft_pool *pool;
    assert_int_equal(ft_pool_create(2, &pool), FT_OK);
    for (int i = 1; i <= 20; i++) {
        long sums[2] = {0};
        struct timespec pause = {0, 2000000};
        nanosleep(&pause, NULL);
        ft_pool_run(pool, 2, add_one, sums);
        assert_true(sums[0] == 1 && sums[1] == 1);
    }
    ft_pool_destroy(pool);
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void idle_threads_do_not_burn_the_processor(void **unused) {
    ft_pool *pool;
    assert_int_equal(ft_pool_create(4, &pool), FT_OK);
    long sums[4] = {0};
    ft_pool_run(pool, 4, add_one, sums);
    double before = cpu_seconds();
    struct timespec pause = {0, 300000000};
    nanosleep(&pause, NULL);
    assert_true(cpu_seconds() - before < 0.1);
    ft_pool_destroy(pool);
}

static atomic_int signal_thread_is_main;
static pid_t main_thread;
static void on_signal(int number) { atomic_store(&signal_thread_is_main, gettid() == main_thread ? 1 : -1); }

static void signals_reach_the_main_thread_only(void **unused) {
    ft_pool *pool;
    main_thread = gettid();
    assert_int_equal(ft_pool_create(4, &pool), FT_OK);
    struct sigaction action = {.sa_handler = on_signal}, old;
    sigset_t none;
    sigaction(SIGTERM, &action, &old);
    pthread_sigmask(SIG_SETMASK, NULL, &none);
    assert_false(sigismember(&none, SIGTERM)); // creating the pool left the caller's own mask alone
    for (int i = 0; i < 20; i++) {
        atomic_store(&signal_thread_is_main, 0);
        kill(getpid(), SIGTERM);
        while (atomic_load(&signal_thread_is_main) == 0)
            usleep(100);
        assert_int_equal(atomic_load(&signal_thread_is_main), 1);
    }
    sigaction(SIGTERM, &old, NULL);
    ft_pool_destroy(pool);
}

static void impossible_thread_counts_are_refused(void **unused) {
    ft_pool *pool;
    assert_int_equal(ft_pool_create(0, &pool), FT_INVALID);
    assert_null(pool);
    assert_int_equal(ft_pool_create(FT_POOL_MAX_THREADS + 1, &pool), FT_INVALID);
    assert_null(pool);
    ft_pool_destroy(NULL);
}

static void shares_cover_everything_once(void **unused) {
    for (int64_t total = 0; total <= 100; total++)
        for (int grain = 1; grain <= 9; grain += 4)
            for (int parts = 1; parts <= 7; parts++) {
                int64_t expected = 0;
                for (int i = 0; i < parts; i++) {
                    int64_t first, last;
                    ft_share(total, grain, parts, i, &first, &last);
                    assert_true(first == expected || first >= last);
                    if (first < last) assert_int_equal(first % grain, 0);
                    if (last > expected) expected = last;
                }
                assert_int_equal(expected, total);
            }
}

static void the_environment_sets_the_number_of_threads(void **unused) {
    unsetenv("OMP_NUM_THREADS");
    int all = ft_usable_threads();
    assert_in_range(all, 1, FT_POOL_MAX_THREADS);
    setenv("OMP_NUM_THREADS", "3", 1);
    assert_int_equal(ft_usable_threads(), 3);
    setenv("OMP_NUM_THREADS", "5,2", 1);
    assert_int_equal(ft_usable_threads(), 5);
    setenv("OMP_NUM_THREADS", "none", 1);
    assert_int_equal(ft_usable_threads(), all);
    unsetenv("OMP_NUM_THREADS");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(fills),
        cmocka_unit_test(many_short_runs_lose_nothing),
        cmocka_unit_test(sleeping_threads_wake_up),
        cmocka_unit_test(idle_threads_do_not_burn_the_processor),
        cmocka_unit_test(signals_reach_the_main_thread_only),
        cmocka_unit_test(impossible_thread_counts_are_refused),
        cmocka_unit_test(shares_cover_everything_once),
        cmocka_unit_test(the_environment_sets_the_number_of_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
