#include "tests/emulator/simt/fibers.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SIMT_TSAN
#include <sanitizer/tsan_interface.h>
// (in the runtime, not in its header; reads go with it)
extern "C" void AnnotateIgnoreWritesBegin(const char *file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char *file, int line);
#endif

#ifndef __x86_64__
#error "the emulator switches stacks in x86-64 assembly"
#endif

// Saves what a function must preserve, and returns on the other stack. A `ret` instead of a jump keeps the processor's
// prediction of returns in step: a third faster.
extern "C" void simt_switch(void **save, void *to);
asm(".text\n"
    ".globl simt_switch\n"
    ".type simt_switch, @function\n"
    "simt_switch:\n"
    "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
    "    ret\n"
    ".size simt_switch, .-simt_switch\n");

namespace simt {

void *map_pages(size_t bytes) {
    void *data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data != MAP_FAILED) return data;
    perror("simt: mmap");
    abort();
}

void fill_bytes(void *data, int byte, size_t bytes) {
    asm volatile("rep stosb" : "+D"(data), "+c"(bytes) : "a"(byte) : "memory");
}

void fiber_prepare(fiber &f, void (*entry)()) {
    constexpr size_t GUARD = 4096; // below a stack: an overflow faults
    if (f.stack == nullptr) {
        f.stack = static_cast<char *>(map_pages(STACK_BYTES));
        mprotect(f.stack, GUARD, PROT_NONE);
    }
    allow(f.stack + GUARD, STACK_BYTES - GUARD);
    // As if simt_switch had been called from nowhere with `entry` to return to: 16 bytes aligned behind that return.
    void **end = reinterpret_cast<void **>(f.stack + STACK_BYTES);
    end[-1] = nullptr;
    end[-2] = reinterpret_cast<void *>(entry);
    for (int i = 3; i <= 8; i++)
        end[-i] = nullptr;
    f.top = end - 8;
    f.asan_fake_stack = nullptr;
#ifdef SIMT_TSAN
    if (f.tsan != nullptr) __tsan_destroy_fiber(f.tsan);
    f.tsan = __tsan_create_fiber(0);
#endif
}

#ifdef __SANITIZE_ADDRESS__
static const void *thread_stack;
static size_t thread_stack_bytes;
#endif

void fiber_adopt_thread(fiber &f) {
#ifdef SIMT_TSAN
    f.tsan = __tsan_get_current_fiber();
#endif
    f.stack = nullptr;
}

void fiber_switch(fiber &from, fiber &to) {
#ifdef SIMT_TSAN
    __tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);
#endif
#ifdef __SANITIZE_ADDRESS__
    bool fiber = to.stack != nullptr;
    __sanitizer_start_switch_fiber(&from.asan_fake_stack, fiber ? to.stack : thread_stack,
                                   fiber ? STACK_BYTES : thread_stack_bytes);
#endif
    simt_switch(&from.top, to.top);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(from.asan_fake_stack, nullptr, nullptr);
#endif
}

// The first fiber is switched to from the thread's own stack: that is how its place becomes known.
void fiber_begun() {
#ifdef __SANITIZE_ADDRESS__
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (thread_stack == nullptr) {
        thread_stack = bottom;
        thread_stack_bytes = bytes;
    }
#endif
}

void order_release([[maybe_unused]] void *mark) {
#ifdef SIMT_TSAN
    __tsan_release(mark);
#endif
}

void order_release_of([[maybe_unused]] const fiber &f, [[maybe_unused]] void *mark) {
#ifdef SIMT_TSAN
    void *self = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(f.tsan, __tsan_switch_to_fiber_no_sync); // in name only: the stack stays
    __tsan_release(mark);
    __tsan_switch_to_fiber(self, __tsan_switch_to_fiber_no_sync);
#endif
}

void order_acquire([[maybe_unused]] void *mark) {
#ifdef SIMT_TSAN
    __tsan_acquire(mark);
#endif
}

#ifdef SIMT_TSAN
static int unseen_depth;
unseen::unseen() {
    unseen_depth++;
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
unseen::~unseen() {
    unseen_depth--;
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}
void unseen_ends() {
    for (; unseen_depth > 0; unseen_depth--)
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
}
#else
unseen::unseen() {}
unseen::~unseen() {}
void unseen_ends() {}
#endif

void forbid([[maybe_unused]] const void *data, [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
    __asan_poison_memory_region(data, bytes);
#endif
}

void allow([[maybe_unused]] const void *data, [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(data, bytes);
#endif
}

} // namespace simt
