// cores.h - the threads of a pool where something else keeps a core: none shares its core with another one of them, and
// one that was put off its core in the middle of a task gets that of one that has nothing to do but wait for it.
//
// The kernel may leave two of them on one core for good: it sees three threads that want to run, on two cores, and as
// they are is as good to it as any other way. Half of the other core is then given away. So a thread that begins where
// another one works goes elsewhere.
//
// Beside other work on a core the kernel gives a thread its share in turns of milliseconds, as long as many ops of a
// step take. Who waits for it has a core of its own that is idle meanwhile, and the kernel moves a thread there only
// after a while, if at all. So the one that waits brings it over, and gives its core away.
//
// Measured beside a busy loop on one of two cores, as the cost beyond the share that the loop leaves: 1.36 as the kernel has
// it, 1.15 with both (benchmarks/results/shared_machine.md); in two rounds of another reading 1.21 apart alone beside 1.13.
//
// The threads of one op, by themselves: `busy` where they work, -1 where they do not. Linux; elsewhere nothing is
// moved, and it takes as long as it takes. A system that refuses (seccomp) is no failure: nothing is moved either.
#ifndef FT_CPU_CORES_H
#define FT_CPU_CORES_H

#include <stdatomic.h>
#include <stdbool.h>

#ifdef __linux__
#include <sched.h>
#endif

typedef struct ft_seat {
    atomic_int thread, clock; // who it is, and of the time that it has run
    atomic_int busy;          // the core on which its tasks were begun; -1: it has none
    atomic_int last;          // the core on which it began with tasks last; -1: nobody knows
    atomic_bool claimed;      // somebody is about to move it
    atomic_int home;          // the core that it was brought from; -1: it was not
#ifdef __linux__
    cpu_set_t cores; // where it may run; while it is claimed
#endif
} ft_seat;

void ft_seat_init(ft_seat *seat);
// The calling thread begins with tasks, which it holds until ft_seat_leave. One system call, and stores.
void ft_seat_take(ft_seat *seat);
void ft_seat_leave(ft_seat *seat); // it has none any more
// Behind that, where it may have been brought here: it may run anywhere again. back: after a turn on the core that it
// was brought from.
void ft_seat_return(ft_seat *seat, bool back);
// Brings a thread that is at work and does not run to the core of the calling one, which then has to give it away.
// Takes some 20 us, to see whether it runs. The core that it was on; -1: it was not moved.
int ft_seat_bring(ft_seat *seat);
// The core that the calling thread is on; -1: nobody knows.
int ft_core(void);
// The calling thread moves to that core, and may go on anywhere from there.
void ft_core_visit(int core);
// The same, to one that it may run on and that is not among these. There is none: it stays.
void ft_core_apart(const int *taken, int count);

#endif
