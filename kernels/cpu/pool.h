// pool.h - the threads of one CPU device.
//
//     ft_pool_run(pool, rows, normalize_row, &job);    // normalize_row(&job, task, thread) for task in [0, rows)
//
// Tasks are dealt in contiguous ranges, and the caller works too. Who has done its own takes half of what another one has not begun, from the
// far end: a thread that is slow, or off its core, keeps nobody waiting but for the task that it is at. So an op has several tasks a
// thread (FT_POOL_PIECES), and which thread does which is not known. Idle threads
// spin and then yield for up to a millisecond (the ops of a step follow each other closely), then sleep, so that a
// waiting process leaves the machine to others. Where something else keeps a core they move out of each other's way (cores.h). A pool is used by one thread at a time, and a task must not start
// another run.
#ifndef FT_CPU_POOL_H
#define FT_CPU_POOL_H

#include "base/status.h"

#include <stdint.h>

enum { FT_POOL_MAX_THREADS = 1024 };
// Addresses of a thread's stack: tasks keep little there, and where addresses are limited (RLIMIT_AS, RLIMIT_DATA) the 8 MiB
// of a usual stack would count in full.
enum { FT_POOL_STACK_BYTES = 512 << 10 };

// Tasks of a thread, where an op cuts its work by the number of threads: with that many one that is a half as fast as the others costs a few
// percent, and the joints between them next to nothing.
enum { FT_POOL_PIECES = 4 };

typedef struct ft_pool ft_pool;

// Its threads work in the context that the caller is in (base/context.h), which outlives the pool.
ft_status ft_pool_create(int threads, ft_pool **pool);
void ft_pool_destroy(ft_pool *pool); // NULL is fine
int ft_pool_threads(const ft_pool *pool);
// Runs fn for every task and returns when all are done; what tasks wrote is then visible to the caller. thread lies in
// [0, threads), is 0 for the caller, and no two tasks run at once with the same number.
void ft_pool_run(ft_pool *pool, int tasks, void (*fn)(void *context, int task, int thread), void *context);

// Tasks for as many threads.
static inline int ft_pieces(int threads) { return threads > 1 ? threads * FT_POOL_PIECES : 1; }

// Part `index` of `parts` contiguous shares of [0, count), whose sizes differ by at most one grain; shares start at
// multiples of grain. For kernels that give each thread one range of rows or columns.
static inline void ft_share(int64_t count, int64_t grain, int parts, int index, int64_t *first, int64_t *last) {
    int64_t grains = (count + grain - 1) / grain;
    *first = grains * index / parts * grain;
    *last = grains * (index + 1) / parts * grain;
    if (*last > count) *last = count;
}

#endif
