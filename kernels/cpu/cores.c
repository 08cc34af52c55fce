#include "kernels/cpu/cores.h"

#include <pthread.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

void ft_seat_init(ft_seat *seat) {
    atomic_init(&seat->thread, 0);
    atomic_init(&seat->clock, 0);
    atomic_init(&seat->busy, -1);
    atomic_init(&seat->last, -1);
    atomic_init(&seat->claimed, false);
    atomic_init(&seat->home, -1);
}

#ifdef __linux__
void ft_seat_take(ft_seat *seat) {
    const int core = sched_getcpu();
    clockid_t clock;
    if (core != atomic_load_explicit(&seat->last, memory_order_relaxed))
        atomic_store_explicit(&seat->last, core, memory_order_relaxed);
    if (pthread_getcpuclockid(pthread_self(), &clock) != 0) return; // nobody moves it
    // not gettid(): glibc has it since 2.30, and wheels run from 2.28 on
    atomic_store_explicit(&seat->thread, (int)syscall(SYS_gettid), memory_order_relaxed);
    atomic_store_explicit(&seat->clock, clock, memory_order_relaxed);
    atomic_store_explicit(&seat->busy, core, memory_order_release);
}

// Sequentially consistent here and in ft_seat_bring: either this thread finds below that it was moved, or who moves it
// finds that it has left.
void ft_seat_leave(ft_seat *seat) { atomic_store(&seat->busy, -1); }

static void go_to(int core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    (void)sched_setaffinity(0, sizeof one, &one); // refused: it stays where it is
}

void ft_seat_return(ft_seat *seat, bool back) {
    if (atomic_load(&seat->home) < 0) return;
    const int home = atomic_exchange(&seat->home, -1);
    if (home < 0) return;
    const cpu_set_t cores = seat->cores;
    if (back) go_to(home);
    (void)sched_setaffinity(0, sizeof cores, &cores); // it had these: they are not refused
    atomic_store(&seat->claimed, false);
}

// The clock of a thread that waits for its turn stands still.
static bool runs(const ft_seat *seat) {
    enum { LOOK_NS = 20000 };
    const clockid_t clock = atomic_load_explicit(&seat->clock, memory_order_relaxed);
    struct timespec before, after, begun, now;
    if (clock_gettime(clock, &before) != 0 || clock_gettime(CLOCK_MONOTONIC, &begun) != 0) return true;
    do {
        if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return true;
    } while ((now.tv_sec - begun.tv_sec) * 1000000000L + now.tv_nsec - begun.tv_nsec < LOOK_NS);
    return clock_gettime(clock, &after) != 0 || after.tv_sec != before.tv_sec || after.tv_nsec != before.tv_nsec;
}

int ft_seat_bring(ft_seat *seat) {
    const int mine = sched_getcpu(), theirs = atomic_load_explicit(&seat->busy, memory_order_acquire);
    const pid_t thread = atomic_load_explicit(&seat->thread, memory_order_relaxed);
    cpu_set_t one;
    if (mine < 0 || mine >= CPU_SETSIZE || theirs < 0 || theirs == mine || runs(seat)) return -1;
    if (atomic_exchange(&seat->claimed, true)) return -1;
    CPU_ZERO(&one);
    CPU_SET(mine, &one);
    if (sched_getaffinity(thread, sizeof seat->cores, &seat->cores) != 0 || !CPU_ISSET(mine, &seat->cores) ||
        sched_setaffinity(thread, sizeof one, &one) != 0) {
        atomic_store(&seat->claimed, false);
        return -1;
    }
    const cpu_set_t cores = seat->cores;
    atomic_store(&seat->home, theirs);
    if (atomic_load(&seat->busy) >= 0 || atomic_exchange(&seat->home, -1) < 0) return theirs;
    (void)sched_setaffinity(thread, sizeof cores, &cores); // it was done meanwhile
    atomic_store(&seat->claimed, false);
    return -1;
}

void ft_core_visit(int core) {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0 || !CPU_ISSET(core, &cores)) return;
    go_to(core);
    (void)sched_setaffinity(0, sizeof cores, &cores);
}
int ft_core(void) { return sched_getcpu(); }

void ft_core_apart(const int *taken, int count) {
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0) return;
    for (int i = 0; i < count; i++)
        if (taken[i] >= 0 && taken[i] < CPU_SETSIZE) CPU_CLR(taken[i], &cores);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cores)) {
            ft_core_visit(i);
            return;
        }
}
#else
int ft_core(void) { return -1; }
void ft_core_apart(const int *taken, int count) {}
void ft_seat_take(ft_seat *seat) {}
void ft_seat_leave(ft_seat *seat) {}
void ft_seat_return(ft_seat *seat, bool back) {}
int ft_seat_bring(ft_seat *seat) { return -1; }
void ft_core_visit(int core) {}
#endif
