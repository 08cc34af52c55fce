// scheduler.h - one block at a time: its threads, where they wait for each other, and how a fault ends it.
#ifndef FT_SIMT_SCHEDULER_H
#define FT_SIMT_SCHEDULER_H

#include "tests/emulator/simt/fibers.h"

#include <cstddef>
#include <cstdint>
#include <vector_types.h>

namespace simt {

// A line of a kernel. As a default argument it is the line of the call.
struct site {
    const char *file;
    int line;
    static constexpr site here(const char *file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
    bool operator!=(const site &other) const { return line != other.line || file != other.file; }
};

// A cp.async that was issued and not waited for.
struct pending_copy {
    void *to;
    const void *from;
    bool valid; // else zeros are written
    unsigned group;
};

struct lane {
    fiber stack;
    uint3 index;
    unsigned number; // in the block
    bool done;
    // where it waits
    unsigned mask;
    site where;
    const char *waits_for; // in words; nullptr: other threads
    void *record;
    unsigned meetings;                // with others of its warp or block
    unsigned barriers, warp_barriers; // passed; which of two marks orders memory for ThreadSanitizer
    // copies in flight, oldest first
    enum { MOST_COPIES = 512 };
    pending_copy copies[MOST_COPIES];
    unsigned first_copy, copy_count, copy_group;
};

struct block_state {
    uint3 index;
    dim3 threads, grid;
    unsigned char *dynamic_shared;
    lane *lanes;
};
extern block_state block;
extern lane *current;

enum { WARP = 32, MOST_THREADS = 1024 };

// Ends the launch: the rest of it is not run. Called in a kernel.
[[noreturn]] void fault(site where, const char *format, ...) __attribute__((format(printf, 2, 3)));

void block_barrier(site where);
void warp_barrier(unsigned mask, site where);
// All lanes of `mask` meet, each with a record. True for the one that comes last: it works for all and then lets them go.
bool meet(unsigned mask, site where, void *record);
void let_go(unsigned mask);
// The running thread waits until another one wakes it.
void sleep(site where, const char *waits_for);
void wake(unsigned number);
void *shared_array(const void *place, size_t bytes, size_t alignment);

// The last lane to come runs work(records) over everybody's record (null: a lane that is not in the mask). As on the
// GPU this orders no memory, so that ThreadSanitizer sees a missing __syncwarp.
template <class R, class F> SIMT_NO_TSAN inline void collective(unsigned mask, site where, R &mine, F work) {
    if (!meet(mask, where, &mine)) return;
    const lane *warp = block.lanes + (current->number & ~unsigned(WARP - 1));
    R *records[WARP];
    for (unsigned i = 0; i < WARP; i++)
        records[i] = mask >> i & 1 ? static_cast<R *>(warp[i].record) : nullptr;
    work(records);
    let_go(mask);
}

// ---- for launch.cpp ---------------------------------------------------------------------------------------------------

// Runs all blocks. False after a fault; simt_fault() says which.
bool run_grid(const char *name, dim3 grid, dim3 threads, size_t shared, void (*kernel)(void *), void *arguments);
// The order that is set, and a number for what is drawn in it: another one at each call.
int order_of_threads();
uint64_t seed_of_threads();
// Keeps a fault that happened outside of a kernel.
void keep_fault(const char *text);

} // namespace simt
#endif
