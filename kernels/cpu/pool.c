#include "kernels/cpu/pool.h"
#include "base/arena.h"
#include "base/context.h"
#include "kernels/cpu/cores.h"
#include "kernels/cpu/limits.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

// An idle thread spins first: the gaps between ops are short, and a wake-up costs 5 to 50 us. Then it offers its core
// to others but stays runnable for a while: two threads that sleep and wake each other in turn never run at once, so
// the kernel sees no reason to move one of them to the other core, and half the machine is lost. Then it sleeps.
//
// Who waits at the end of a run waits for tasks that others have begun. That is short, or one of them was put off its core in the middle of
// a task, for some milliseconds: then the waiting thread gives it its own core (cores.h). A worker returns to where it was as soon as its tasks
// are done, for between the ops the caller alone has work; and where the caller is the one that was put off, the worker goes there instead.
enum { FT_SPIN_NS = 30000, FT_YIELD_NS = 1000000, FT_JOIN_NS = 100000, FT_PAUSES_PER_CLOCK = 32 };

typedef struct ft_worker {
    // Tasks that are its own and not begun: the first of them, and << 32 behind the last. It takes from the front, idle ones from the end.
    _Alignas(64) atomic_uint_fast64_t range;
    ft_pool *pool;
    pthread_t thread;
    int index;
    ft_seat seat;
} ft_worker;

struct ft_pool {
    int threads, started;
    ft_context *starter; // that the workers work in
    bool crowded; // more threads than cores: waiting awake would keep a working thread from its core
    // The job. Written before `gate` is opened; only threads that came through it may read it, since only those are waited for before the
    // next job overwrites it.
    void (*fn)(void *context, int task, int thread);
    void *context;
    // Run number << 16 | threads that take part; 0 threads = leave. One word, so that a thread learns from the ticket
    // alone whether the job concerns it.
    _Alignas(64) atomic_uint_fast64_t ticket;
    // The same number << 32 | open << 31 | workers that are at the job. Who comes late, when all tasks are taken, finds it closed: nobody
    // waits for a thread that has no task.
    _Alignas(64) atomic_uint_fast64_t gate;
    _Alignas(64) atomic_int sleepers; // workers that sleep or are about to
    atomic_int caller_sleeps;
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    ft_worker workers[];
};

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static uint_fast64_t range_of(int first, int last) { return (uint_fast64_t)(uint32_t)last << 32 | (uint32_t)first; }
static int first_of(uint_fast64_t range) { return (int)(uint32_t)range; }
static int last_of(uint_fast64_t range) { return (int)(range >> 32); }

// The next task of one's own; -1: there is none. A task is begun once in a run, so that no range comes back while somebody has read it.
static int take_own(ft_worker *self) {
    uint_fast64_t range = atomic_load_explicit(&self->range, memory_order_relaxed);
    while (first_of(range) < last_of(range))
        if (atomic_compare_exchange_weak_explicit(&self->range, &range, range + 1, memory_order_relaxed, memory_order_relaxed)) return first_of(range);
    return -1;
}

// Half of what another one has not begun, from the far end, becomes one's own.
static bool steal(ft_worker *self, ft_worker *from) {
    uint_fast64_t range = atomic_load_explicit(&from->range, memory_order_relaxed);
    while (first_of(range) < last_of(range)) {
        const int last = last_of(range), middle = last - (last - first_of(range) + 1) / 2;
        if (!atomic_compare_exchange_weak_explicit(&from->range, &range, range_of(first_of(range), middle), memory_order_relaxed, memory_order_relaxed)) continue;
        atomic_store_explicit(&self->range, range_of(middle, last), memory_order_relaxed);
        return true;
    }
    return false;
}

// Until every task is taken.
static void run_tasks(ft_pool *pool, int active, int thread) {
    ft_worker *self = &pool->workers[thread];
    ft_seat_take(&self->seat);
    for (bool found = true; found;) {
        for (int task; (task = take_own(self)) >= 0;) pool->fn(pool->context, task, thread);
        found = false;
        for (int i = 1; i < active && !found; i++) found = steal(self, &pool->workers[(thread + i) % active]);
    }
    ft_seat_leave(&self->seat);
}

// One wait, from its start. wait_awake() passes a moment and says whether to look again; false: time to sleep.
typedef struct patience {
    long start, waited;
    int pauses;
} patience;
static bool wait_awake(const ft_pool *pool, patience *p, long most) {
    if (pool->crowded) return false;
    if (p->pauses++ < FT_PAUSES_PER_CLOCK) {
        pause_cpu();
        return true;
    }
    p->pauses = 0;
    long now = now_ns();
    if (p->start == 0) p->start = now;
    p->waited = now - p->start;
    if (p->waited > FT_SPIN_NS) sched_yield();
    return p->waited < most;
}

static int core_of(const ft_worker *worker) { return atomic_load_explicit(&worker->seat.last, memory_order_relaxed); }

// Not on the core of one before it (cores.h).
static void keep_apart(const ft_pool *pool, const ft_worker *self) {
    const int core = ft_core();
    bool alone = true;
    for (int i = 0; i < self->index && alone; i++) alone = core < 0 || core_of(&pool->workers[i]) != core;
    if (alone || pool->crowded) return;
    int taken[FT_POOL_MAX_THREADS], count = 0;
    for (int i = 0; i < pool->threads; i++)
        if (i != self->index) taken[count++] = core_of(&pool->workers[i]);
    ft_core_apart(taken, count);
}

// Waits until the ticket differs from `seen`.
static uint_fast64_t next_ticket(ft_pool *pool, uint_fast64_t seen) {
    uint_fast64_t ticket;
    patience p = {0};
    for (long until = FT_JOIN_NS; wait_awake(pool, &p, FT_YIELD_NS);) {
        ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
        if (ticket != seen) return ticket;
        if (p.pauses != 0 || p.waited < until) continue;
        until += FT_JOIN_NS;
        const int core = ft_seat_bring(&pool->workers[0].seat);
        if (core >= 0) ft_core_visit(core);
    }
    // Sequentially consistent on both sides: either this thread sees the new ticket here, or ft_pool_run sees the
    // sleeper.
    pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while ((ticket = atomic_load(&pool->ticket)) == seen)
        pthread_cond_wait(&pool->work, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->mutex);
    return ticket;
}

enum { FT_GATE_RUN = 32 };
#define FT_GATE_OPEN ((uint_fast64_t)1 << 31)
static uint_fast64_t at_job(uint_fast64_t gate) { return gate & (FT_GATE_OPEN - 1); }

static bool enter(ft_pool *pool, uint_fast64_t run) {
    const uint_fast64_t open = (run & 0xFFFFFFFF) << FT_GATE_RUN | FT_GATE_OPEN;
    uint_fast64_t gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);
    while ((gate & ~(FT_GATE_OPEN - 1)) == open)
        if (atomic_compare_exchange_weak_explicit(&pool->gate, &gate, gate + 1, memory_order_acquire, memory_order_relaxed)) return true;
    return false;
}

static void leave(ft_pool *pool) {
    const uint_fast64_t left = atomic_fetch_sub(&pool->gate, 1) - 1;
    if (at_job(left) > 0 || (left & FT_GATE_OPEN) != 0 || !atomic_load(&pool->caller_sleeps)) return;
    pthread_mutex_lock(&pool->mutex);
    pthread_cond_signal(&pool->done);
    pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *argument) {
    ft_worker *self = argument;
    ft_pool *pool = self->pool;
    ft_context_enter(pool->starter);
    uint_fast64_t seen = 1; // what ft_pool_create stores: a first run may come before this thread gets here
    for (;;) {
        seen = next_ticket(pool, seen);
        int active = (int)(seen & 0xFFFF);
        if (active == 0) return NULL;
        if (self->index < active) keep_apart(pool, self);
        if (self->index >= active || !enter(pool, seen >> 16)) continue;
        run_tasks(pool, active, self->index);
        leave(pool);
        ft_seat_return(&self->seat, true);
    }
}

static void announce(ft_pool *pool, uint_fast64_t run, int active) {
    atomic_store(&pool->ticket, run << 16 | (uint_fast64_t)active);
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->work);
        pthread_mutex_unlock(&pool->mutex);
    }
}

// A worker that does not run gets the core of the calling thread.
static bool bring_one(ft_pool *pool) {
    for (int i = 1; i < pool->threads; i++)
        if (ft_seat_bring(&pool->workers[i].seat) >= 0) return true;
    return false;
}

// Behind it nobody is at the job, and nobody comes to it.
static void close_gate(ft_pool *pool) {
    patience p = {0};
    if (at_job(atomic_fetch_and(&pool->gate, ~FT_GATE_OPEN)) == 0) return;
    for (long until = FT_JOIN_NS; at_job(atomic_load_explicit(&pool->gate, memory_order_acquire)) > 0;) {
        if (wait_awake(pool, &p, until)) continue;
        if (pool->crowded || until > FT_YIELD_NS || bring_one(pool)) break;
        until += FT_JOIN_NS;
    }
    pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_sleeps, 1);
    while (at_job(atomic_load(&pool->gate)) > 0)
        pthread_cond_wait(&pool->done, &pool->mutex);
    atomic_store(&pool->caller_sleeps, 0);
    pthread_mutex_unlock(&pool->mutex);
}

void ft_pool_run(ft_pool *pool, int tasks, void (*fn)(void *context, int task, int thread), void *context) {
    if (tasks <= 0) return;
    const int active = tasks < pool->threads ? tasks : pool->threads;
    if (active == 1) {
        for (int task = 0; task < tasks; task++) fn(context, task, 0);
        return;
    }
    pool->fn = fn;
    pool->context = context;
    for (int i = 0; i < active; i++)
        atomic_store_explicit(&pool->workers[i].range, range_of((int)((int64_t)tasks * i / active), (int)((int64_t)tasks * (i + 1) / active)), memory_order_relaxed);
    const uint_fast64_t run = (atomic_load_explicit(&pool->ticket, memory_order_relaxed) >> 16) + 1;
    atomic_store_explicit(&pool->gate, (run & 0xFFFFFFFF) << FT_GATE_RUN | FT_GATE_OPEN, memory_order_release);
    announce(pool, run, active);
    run_tasks(pool, active, 0);
    close_gate(pool);
    ft_seat_return(&pool->workers[0].seat, false);
}

static int start_workers(ft_pool *pool) {
    pthread_attr_t small;
    int error = pthread_attr_init(&small);
    if (error) return error;
    // Signals belong to the main thread: workers inherit a full mask.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_attr_setstacksize(&small, FT_POOL_STACK_BYTES);
    for (int i = 1; i < pool->threads && !error; i++) {
        pool->workers[i].pool = pool;
        pool->workers[i].index = i;
        error = pthread_create(&pool->workers[i].thread, &small, worker_main, &pool->workers[i]);
        if (!error) pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&small);
    return error;
}

// A stack that RLIMIT_AS or RLIMIT_DATA refuses looks like a process too many (EAGAIN).
static bool stack_was_refused(void) {
    ft_host_limits limits;
    ft_memory_limits(&limits);
    for (int i = 0; i < limits.count; i++) {
        const ft_host_limit *l = &limits.list[i];
        if ((l->kind == FT_LIMIT_ADDRESSES || l->kind == FT_LIMIT_DATA) && l->left < 2 * (size_t)FT_POOL_STACK_BYTES) return true;
    }
    return false;
}

ft_status ft_pool_create(int threads, ft_pool **out) {
    *out = NULL;
    if (threads < 1 || threads > FT_POOL_MAX_THREADS)
        return ft_fail(FT_INVALID, "threads", "must be 1 to %d, got %d", FT_POOL_MAX_THREADS, threads);
    size_t bytes = (sizeof(ft_pool) + (size_t)threads * sizeof(ft_worker) + 63) / 64 * 64;
    ft_pool *pool = aligned_alloc(64, bytes);
    if (!pool) return ft_fail_memory(bytes, "threads");
    pool->threads = threads;
    pool->starter = ft_context_now();
    pool->started = 0;
    for (int i = 0; i < threads; i++) {
        atomic_init(&pool->workers[i].range, 0);
        ft_seat_init(&pool->workers[i].seat);
    }
    pool->crowded = threads > sysconf(_SC_NPROCESSORS_ONLN);
    atomic_init(&pool->ticket, 1);
    atomic_init(&pool->gate, 0);
    atomic_init(&pool->sleepers, 0);
    atomic_init(&pool->caller_sleeps, 0);
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    const int error = start_workers(pool);
    if (error) {
        int started = pool->started;
        ft_pool_destroy(pool);
        if (error == ENOMEM || stack_was_refused()) {
            ft_fail_memory(FT_POOL_STACK_BYTES, "a thread's stack");
            ft_hint("%d of %d threads were started: device.threads=%d, or a higher limit (ulimit -v, ulimit -d)", started + 1, threads,
                    started + 1);
            return FT_NO_MEMORY;
        }
        return ft_fail_errno(FT_FAILED, error, "threads", "could start only %d of %d threads", started + 1, threads);
    }
    *out = pool;
    return FT_OK;
}

void ft_pool_destroy(ft_pool *pool) {
    if (!pool) return;
    announce(pool, (atomic_load_explicit(&pool->ticket, memory_order_relaxed) >> 16) + 1, 0);
    for (int i = 1; i <= pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->done);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

int ft_pool_threads(const ft_pool *pool) { return pool->threads; }
