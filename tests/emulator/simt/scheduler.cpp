// scheduler.cpp - which thread of a block runs next. A thread runs until it waits for others, so that a kernel without
// barriers runs thread by thread; the order is what finds missing ones.
#include "tests/emulator/simt/scheduler.h"
#include "tests/emulator/simt/async_proxy.h"
#include "tests/emulator/simt/control.h"
#include "tests/emulator/simt/counts.h"
#include "tests/emulator/simt/shared_memory.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

namespace simt {

block_state block;
lane *current;

namespace {

enum { MOST_WARPS = MOST_THREADS / WARP };

// Under ThreadSanitizer neighbouring blocks run on different fibers: what they share without atomics is then a race.
#ifdef SIMT_TSAN
enum { LANE_SETS = 2 };
#else
enum { LANE_SETS = 1 };
#endif
lane *lane_sets[LANE_SETS];
unsigned lanes_ready[LANE_SETS]; // how many of a set have a stack
lane thread;                     // who called the launch

struct {
    const char *name;
    void (*kernel)(void *);
    void *arguments;
    bool faulted;
} launch_now;

// The block that runs. Bits are lanes of a warp, and warps of the block.
unsigned threads, alive, at_barrier;
site barrier_site;
unsigned runnable[MOST_WARPS], runnable_warps;
unsigned arrived[MOST_WARPS], gone[MOST_WARPS]; // at a warp operation; returned from the kernel
unsigned char ahead[MOST_WARPS];                // of SIMT_SKEWED: the warp with the largest runs first

// Marks for ThreadSanitizer: barriers use two in turn, as the last to leave one may come after the first at the next.
char launch_begins, launch_ends, barrier_marks[2], warp_marks[MOST_WARPS][2];

simt_order order;
bool order_known;
uint64_t random_state = 88172645463325252u;
char fault_text[512];
bool fault_expected;

unsigned random_number() {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return unsigned(random_state >> 16);
}

unsigned any_bit(unsigned bits) {
    for (unsigned skip = random_number() % unsigned(__builtin_popcount(bits)); skip > 0; skip--)
        bits &= bits - 1;
    return unsigned(__builtin_ctz(bits));
}
unsigned lowest_bit(unsigned bits) { return unsigned(__builtin_ctz(bits)); }
unsigned highest_bit(unsigned bits) { return 31 - unsigned(__builtin_clz(bits)); }

void order_from_environment() {
    const char *name = getenv("SIMT_ORDER"), *seed = getenv("SIMT_SEED");
    static const char *const names[] = {"forward", "reverse", "random", "skewed"};
    int found = 0;
    while (name != nullptr && found < SIMT_ORDERS && strcmp(name, names[found]) != 0)
        found++;
    if (found == SIMT_ORDERS) {
        fprintf(stderr, "simt: SIMT_ORDER=%s is not forward, reverse, random or skewed\n", name);
        abort();
    }
    simt_set_order(static_cast<simt_order>(found), seed != nullptr ? strtoull(seed, nullptr, 0) : 0);
}

// ---- who runs ---------------------------------------------------------------------------------------------------------

void go_to(lane &to) {
    lane *from = current;
    if (from == &to) return;
    current = &to;
    fiber_switch(from->stack, to.stack);
}

void make_runnable(unsigned number) {
    runnable[number / WARP] |= 1u << number % WARP;
    runnable_warps |= 1u << number / WARP;
}

void open_barrier() {
    at_barrier = 0;
    async_all_meet();
    for (unsigned i = 0; i < threads; i++)
        if (!block.lanes[i].done) make_runnable(i);
}

void run_next() {
    if (runnable_warps == 0) {
        if (alive == 0) return go_to(thread);
        unsigned i = 0;
        while (block.lanes[i].done)
            i++;
        current = &block.lanes[i];
        if (current->waits_for != nullptr) fault(current->where, "waits for %s", current->waits_for);
        fault(current->where, "waits for threads that never come (lanes %08x)", current->mask);
    }
    unsigned warp, number;
    switch (order) {
    case SIMT_FORWARD:
        warp = lowest_bit(runnable_warps);
        number = lowest_bit(runnable[warp]);
        break;
    case SIMT_REVERSE:
        warp = highest_bit(runnable_warps);
        number = highest_bit(runnable[warp]);
        break;
    case SIMT_RANDOM:
        warp = any_bit(runnable_warps);
        number = any_bit(runnable[warp]);
        break;
    default: // SIMT_SKEWED
        warp = lowest_bit(runnable_warps);
        for (unsigned other = warp + 1; other < MOST_WARPS; other++)
            if ((runnable_warps >> other & 1) != 0 && ahead[other] > ahead[warp]) warp = other;
        number = any_bit(runnable[warp]);
    }
    runnable[warp] &= ~(1u << number);
    if (runnable[warp] == 0) runnable_warps &= ~(1u << warp);
    go_to(block.lanes[warp * WARP + number]);
}

// What every fiber does for ever: its thread of one block after the other.
void thread_life() {
    fiber_begun();
    for (;;) {
        order_acquire(&launch_begins);
        launch_now.kernel(launch_now.arguments);
        order_release(&launch_ends);
        if (current->copy_count > 0) fault(current->where, "returns with cp.async copies that nobody waited for");
        current->done = true;
        alive--;
        gone[current->number / WARP] |= 1u << current->number % WARP;
        if (alive > 0 && at_barrier == alive) open_barrier(); // a barrier is for threads that have not returned
        run_next();
    }
}

// ---- blocks -----------------------------------------------------------------------------------------------------------

void prepare_lanes(unsigned set) {
    if (lane_sets[set] == nullptr) {
        lane_sets[set] = static_cast<lane *>(map_pages(sizeof(lane) * MOST_THREADS));
        for (unsigned i = 0; i < MOST_THREADS; i++)
            lane_sets[set][i].number = i;
    }
    for (; lanes_ready[set] < threads; lanes_ready[set]++)
        fiber_prepare(lane_sets[set][lanes_ready[set]].stack, thread_life);
}

void run_block(uint3 index, size_t shared) {
    block.index = index;
    block.dynamic_shared = shared_begin(shared);
    async_begin_block(threads, shared);
    memset(arrived, 0, sizeof arrived);
    memset(gone, 0, sizeof gone);
    at_barrier = 0;
    runnable_warps = 0;
    alive = threads;
    for (unsigned char &a : ahead)
        a = static_cast<unsigned char>(random_number());
    for (unsigned i = 0; i < threads; i++) {
        lane &l = block.lanes[i];
        l.index = {i % block.threads.x, i / block.threads.x % block.threads.y,
                   i / (block.threads.x * block.threads.y)};
        l.done = false;
        l.waits_for = nullptr;
        l.mask = l.meetings = l.barriers = l.warp_barriers = 0;
        l.first_copy = l.copy_count = l.copy_group = 0;
        make_runnable(i);
    }
    order_release(&launch_begins); // behind the mapping of memory, which ThreadSanitizer sees as a write
    current = &thread;
    run_next();
    if (launch_now.faulted) return;
    current = &thread;
#ifdef SIMT_COUNT
    count_block();
#endif
    const char *overrun = shared_check();
    if (overrun == nullptr) overrun = async_end_block();
    if (overrun != nullptr) {
        char text[256];
        snprintf(text, sizeof text, "%s: block (%u,%u,%u): %s", launch_now.name, index.x, index.y, index.z, overrun);
        keep_fault(text);
        launch_now.faulted = true;
    }
}

// After a fault the fibers stand anywhere: their stacks begin anew with the next launch.
void abandon_fibers() {
    for (unsigned set = 0; set < LANE_SETS; set++)
        for (; lanes_ready[set] > 0; lanes_ready[set]--)
            order_release_of(lane_sets[set][lanes_ready[set] - 1].stack, &launch_ends);
    memset(runnable, 0, sizeof runnable);
    runnable_warps = 0;
}

} // namespace

void keep_fault(const char *text) {
    snprintf(fault_text, sizeof fault_text, "%s", text);
    if (!fault_expected) fprintf(stderr, "simt: %s\n", text);
}

void fault(site where, const char *format, ...) {
    unseen_ends();
    char what[256], text[512];
    va_list values;
    va_start(values, format);
    vsnprintf(what, sizeof what, format, values);
    va_end(values);
    snprintf(text, sizeof text, "%s: block (%u,%u,%u) thread %u: %s, at %s:%d", launch_now.name, block.index.x,
             block.index.y, block.index.z, current->number, what, where.file != nullptr ? where.file : "the end",
             where.line);
    keep_fault(text);
    launch_now.faulted = true;
    // Not through go_to: `current` may have been set to the thread at fault, whose stack is not the one that runs.
    static lane nobody;
    current = &thread;
    fiber_switch(nobody.stack, thread.stack);
    __builtin_unreachable();
}

// ---- where threads wait -------------------------------------------------------------------------------------------------

void block_barrier(site where) {
    char *mark = &barrier_marks[current->barriers++ & 1];
    order_release(mark);
    if (at_barrier == 0)
        barrier_site = where;
    else if (barrier_site != where)
        fault(where, "__syncthreads while others of the block wait at %s:%d", barrier_site.file, barrier_site.line);
    current->where = where;
    current->mask = 0;
    current->meetings++;
    if (++at_barrier == alive) open_barrier();
    run_next();
    order_acquire(mark);
}

bool meet(unsigned mask, site where, void *record) {
    unsigned warp = current->number / WARP, mine = 1u << current->number % WARP, first = warp * WARP;
    unsigned absent = gone[warp] | (threads - first >= WARP ? 0 : ~0u << (threads - first));
    if ((mask & mine) == 0) fault(where, "a warp operation whose lanes %08x do not name the caller", mask);
    if ((mask & absent) != 0)
        fault(where, "a warp operation of lanes %08x, of which %08x do not exist or have returned", mask, mask & absent);
    current->record = record;
    current->meetings++;
    current->mask = mask;
    current->where = where;
    arrived[warp] |= mine;
    if ((arrived[warp] & mask) != mask) {
        run_next();
        return false;
    }
    for (unsigned i = 0; i < WARP; i++) {
        const lane &other = block.lanes[first + i];
        if ((mask >> i & 1) != 0 && (other.mask != mask || other.where != where))
            fault(where, "lane %u of this warp operation waits at %s:%d for lanes %08x, not %08x", i, other.where.file,
                  other.where.line, other.mask, mask);
    }
    return true;
}

void let_go(unsigned mask) {
    unsigned warp = current->number / WARP;
    arrived[warp] &= ~mask;
    runnable[warp] |= mask;
    runnable_warps |= 1u << warp;
    run_next();
}

void sleep(site where, const char *waits_for) {
    current->where = where;
    current->waits_for = waits_for;
    current->meetings++;
    run_next();
    current->waits_for = nullptr;
}
void wake(unsigned number) { make_runnable(number); }

void warp_barrier(unsigned mask, site where) {
    char *mark = &warp_marks[current->number / WARP][current->warp_barriers++ & 1];
    order_release(mark);
    if (meet(mask, where, nullptr)) let_go(mask);
    order_acquire(mark);
}

// ---- a launch -----------------------------------------------------------------------------------------------------------

bool run_grid(const char *name, dim3 grid, dim3 threads_of_block, size_t shared, void (*kernel)(void *), void *arguments) {
    if (!order_known) order_from_environment();
    threads = threads_of_block.x * threads_of_block.y * threads_of_block.z;
    launch_now = {name, kernel, arguments, false};
    block.threads = threads_of_block;
    block.grid = grid;
    fiber_adopt_thread(thread.stack);
#ifdef SIMT_COUNT
    count_launch(name);
#endif
    std::vector<size_t> blocks(size_t(grid.x) * grid.y * grid.z);
    std::iota(blocks.begin(), blocks.end(), size_t(0));
    if (order == SIMT_REVERSE)
        std::reverse(blocks.begin(), blocks.end());
    else if (order != SIMT_FORWARD)
        for (size_t i = blocks.size(); i > 1; i--)
            std::swap(blocks[i - 1], blocks[random_number() % i]);
    unsigned set = 0;
    for (size_t b : blocks) {
        prepare_lanes(set);
        block.lanes = lane_sets[set];
        set = (set + 1) % LANE_SETS;
        run_block({unsigned(b % grid.x), unsigned(b / grid.x % grid.y), unsigned(b / grid.x / grid.y)}, shared);
        if (launch_now.faulted) break;
    }
    if (launch_now.faulted) abandon_fibers();
    order_acquire(&launch_ends);
    return !launch_now.faulted;
}

int order_of_threads() {
    if (!order_known) order_from_environment();
    return order;
}
uint64_t seed_of_threads() { return uint64_t(random_number()) << 32 | random_number(); }

void order_all_blocks() { order_acquire(&launch_ends); }

} // namespace simt

void simt_set_order(simt_order order, uint64_t seed) {
    simt::order = order;
    simt::order_known = true;
    simt::random_state = 88172645463325252u ^ seed * 0x9E3779B97F4A7C15u;
    if (simt::random_state == 0) simt::random_state = 1;
}

const char *simt_fault(void) { return simt::fault_text; }
void simt_fault_clear(void) { simt::fault_text[0] = '\0'; }
void simt_expect_fault(bool expected) { simt::fault_expected = expected; }
