// control.h - how a test steers the emulator and asks it what went wrong. Plain C: tests and the fake driver include it.
//
// A launch runs at once, unless a queue was set: then it becomes work of the stream that was named.
// SIMT_LOST=NAME: a fault; launches whose name begins so do nothing, and nobody hears of it; NAME:N: the N-th of them alone.
// SIMT_STALE=NAME: a fault; in launches of this name tensor copies bring nothing to an mbarrier behind its first phase, as to buffers that are filled again;
// NAME:N as above.
// Without a call the order is what the environment says: SIMT_ORDER=forward|reverse|random|skewed, SIMT_SEED=number.
#ifndef FT_SIMT_CONTROL_H
#define FT_SIMT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// In which order threads run that could run next. Blocks follow: first to last, last to first, shuffled.
typedef enum simt_order {
    SIMT_FORWARD, // lowest thread first
    SIMT_REVERSE, // highest first
    SIMT_RANDOM,  // any
    SIMT_SKEWED,  // one warp far ahead of the others, any lane in it
} simt_order;
enum { SIMT_ORDERS = 4 };
void simt_set_order(simt_order order, uint64_t seed);

// What the last launch that went wrong did, with kernel, block, thread and line; "" when none did since it was cleared.
// After a fault the rest of that launch is not run.
const char *simt_fault(void);
void simt_fault_clear(void);
// Faults are also written to stderr, unless the test makes them on purpose.
void simt_expect_fault(bool expected);

// How many launches of this name have run.
uint64_t simt_launches(const char *name);
// How many threads have arrived at mbarriers so far, in all launches (of the emulator's own: nvcc's texts count elsewhere).
uint64_t simt_arrivals(void);

// Who takes launches: a stream's queue, which calls run(job) later, exactly once, and then drop(job); or only drop(job).
// Returns 0, or an error of the driver's. run gives false after a fault.
typedef int simt_queue_function(void *stream, bool (*run)(void *job), void (*drop)(void *job), void *job);
void simt_set_queue(simt_queue_function *queue);

#ifdef __cplusplus
}
#endif
#endif
