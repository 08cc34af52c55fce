// fibers.h - stacks that are switched by hand, and the sanitizers told about it.
#ifndef FT_SIMT_FIBERS_H
#define FT_SIMT_FIBERS_H

#include <cstddef>

// SIMT_TSAN: the kernels are compiled for ThreadSanitizer. The emulator's own files are not: their bookkeeping is shared
// by all fibers without locks, and it is no race.
// SIMT_COUNT: they are compiled for counts.h, which is called as ThreadSanitizer would be.
#if defined SIMT_TSAN || defined SIMT_COUNT
#define SIMT_NO_TSAN __attribute__((no_sanitize("thread")))
#else
#define SIMT_NO_TSAN
#endif
#ifdef SIMT_COUNT
#define SIMT_COUNTED_HERE __attribute__((no_sanitize("thread"), noinline)) // by what it says, not by its loads and stores
#else
#define SIMT_COUNTED_HERE
#endif

namespace simt {

struct fiber {
    void *top; // saved stack pointer
    char *stack;
    void *tsan;            // ThreadSanitizer's name for it
    void *asan_fake_stack; // AddressSanitizer's
};

constexpr size_t STACK_BYTES = 256 << 10;

// Gives f a stack on which `entry` begins at the first switch to it. Of a fiber that was left in the middle, the stack is
// taken again.
void fiber_prepare(fiber &f, void (*entry)());
void fiber_adopt_thread(fiber &f); // the stack that runs now
void fiber_switch(fiber &from, fiber &to);
void fiber_begun(); // the first thing that `entry` does

// Of a fiber that is left in the middle and never runs again: what it did is ordered before acquire, too.
void order_release_of(const fiber &f, void *mark);
// "What happened before release happens before what comes behind acquire", for ThreadSanitizer.
void order_release(void *mark);
void order_acquire(void *mark);

// The emulator's own heap and memcpy, which ThreadSanitizer sees where it does not see their callers. A fault ends it, too; a switch
// may not come between.
struct unseen {
    unseen();
    ~unseen();
};
void unseen_ends();

// For AddressSanitizer.
void forbid(const void *data, size_t bytes);
void allow(const void *data, size_t bytes);

void *map_pages(size_t bytes);                        // neither sanitizer takes it for the heap
void fill_bytes(void *data, int byte, size_t bytes); // like memset, which ThreadSanitizer would see

} // namespace simt
#endif
