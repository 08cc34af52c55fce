// The pool: every task runs exactly once, on a thread number of its own, with its results visible afterwards.
#include "kernels/cpu/cores.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/limits.h"
#include "kernels/cpu/pool.h"
#include "kernels/ops/backend.h"

#include <pthread.h>
#include <sched.h>
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

// ---- a thread that is put off its core

static void stay_on(int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
}

// Two cores that this process may use; false: it has one.
static bool two_cores(const cpu_set_t *all, int cores[2]) {
    int found = 0;
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET(i, all)) cores[found++] = i;
    return found == 2;
}

typedef struct sitter {
    ft_seat seat;
    cpu_set_t all, after;
    int from, during, last;
    bool back;
    atomic_int stage; // 1: it has tasks and does not run; 2: it may run
} sitter;

static void *sit(void *argument) {
    sitter *s = argument;
    stay_on(s->from);
    ft_seat_take(&s->seat);
    assert_int_equal(sched_setaffinity(0, sizeof s->all, &s->all), 0);
    atomic_store(&s->stage, 1);
    while (atomic_load(&s->stage) == 1) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); // as one that waits for its turn: its clock stands still
    s->during = sched_getcpu();
    ft_seat_leave(&s->seat);
    ft_seat_return(&s->seat, s->back);
    assert_int_equal(sched_getaffinity(0, sizeof s->after, &s->after), 0);
    return NULL;
}

static void who_waits_gives_its_core(void **unused) {
    cpu_set_t all;
    int cores[2];
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (!two_cores(&all, cores)) skip();
    for (int back = 0; back < 2; back++) {
        pthread_t thread;
        sitter s = {.all = all, .from = cores[0], .back = back};
        ft_seat_init(&s.seat);
        assert_int_equal(ft_seat_bring(&s.seat), -1); // nobody sits there
        assert_int_equal(pthread_create(&thread, NULL, sit, &s), 0);
        stay_on(cores[1]);
        while (atomic_load(&s.stage) != 1) sched_yield();
        int from = -1;
        while (from < 0) from = ft_seat_bring(&s.seat); // it may be on its way to sleep
        assert_int_equal(from, cores[0]);
        assert_int_equal(ft_seat_bring(&s.seat), -1); // it has been brought
        atomic_store(&s.stage, 2);
        assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(s.during, cores[1]);
        assert_true(CPU_EQUAL(&s.after, &all)); // it may run anywhere again
        assert_int_equal(ft_seat_bring(&s.seat), -1);
    }
    ft_core_visit(cores[0]);
    for (int from = 0; from < 2; from++) { // the other one of two is not taken
        stay_on(cores[from]);
        cpu_set_t both;
        CPU_ZERO(&both);
        CPU_SET(cores[0], &both);
        CPU_SET(cores[1], &both);
        assert_int_equal(sched_setaffinity(0, sizeof both, &both), 0);
        ft_core_apart(&cores[from], 1);
        cpu_set_t left;
        assert_int_equal(sched_getaffinity(0, sizeof left, &left), 0);
        assert_true(CPU_EQUAL(&left, &both));
        ft_core_apart(cores, 2); // all are: it stays
        assert_int_equal(sched_getaffinity(0, sizeof left, &left), 0);
        assert_true(CPU_EQUAL(&left, &both));
        assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    }
    cpu_set_t now;
    assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
    assert_true(CPU_EQUAL(&now, &all));
}

static atomic_bool loop_ends;
static void *loop(void *core) {
    stay_on(*(int *)core);
    while (!atomic_load_explicit(&loop_ends, memory_order_relaxed)) {}
    return NULL;
}

typedef struct work {
    cpu_set_t seen[4];
    atomic_int sum;
} work;

static void work_a_while(void *context, int task, int thread) {
    work *w = context;
    volatile int n = 0;
    for (int i = 0; i < 20000; i++) n = n + 1;
    atomic_fetch_add(&w->sum, n / 20000);
    (void)sched_getaffinity(0, sizeof w->seen[thread], &w->seen[thread]);
}

// Beside a loop that keeps a core threads are moved, and moved back: no task is lost, and behind it every one may run where it could.
static void a_busy_core_costs_no_thread_its_cores(void **unused) {
    cpu_set_t all, now;
    int cores[2];
    pthread_t thread;
    ft_pool *pool;
    work w = {.sum = 0};
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (!two_cores(&all, cores)) skip();
    atomic_store(&loop_ends, false);
    assert_int_equal(pthread_create(&thread, NULL, loop, &cores[1]), 0);
    assert_int_equal(ft_pool_create(2, &pool), FT_OK);
    enum { RUNS = 600, TASKS = 9 };
    for (int run = 0; run < RUNS; run++) ft_pool_run(pool, TASKS, work_a_while, &w);
    atomic_store(&loop_ends, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&w.sum), RUNS * TASKS);
    for (int run = 0; run < 50; run++) { // the last mark is taken off at the end of a run
        ft_pool_run(pool, TASKS, work_a_while, &w);
        assert_int_equal(sched_getaffinity(0, sizeof now, &now), 0);
        if (CPU_EQUAL(&now, &all) && CPU_EQUAL(&w.seen[0], &all) && CPU_EQUAL(&w.seen[1], &all)) break;
    }
    assert_true(CPU_EQUAL(&now, &all));
    ft_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_gives_its_core),
        cmocka_unit_test(a_busy_core_costs_no_thread_its_cores),
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
