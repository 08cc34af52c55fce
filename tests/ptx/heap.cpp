// heap.cpp - malloc and its kin, which keep books of their blocks and fill them with NaN. glibc's do the work.
#include "tests/ptx/heap.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <new>

extern "C" {
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);
}

namespace ptx {
namespace {

// Of the books themselves.
template <class T> struct unwatched {
    using value_type = T;
    unwatched() = default;
    template <class U> unwatched(const unwatched<U> &) {}
    T *allocate(size_t count) {
        void *room = __libc_malloc(count * sizeof(T));
        if (room == nullptr) throw std::bad_alloc();
        return static_cast<T *>(room);
    }
    void deallocate(T *room, size_t) { __libc_free(room); }
    template <class U> bool operator==(const unwatched<U> &) const { return true; }
    template <class U> bool operator!=(const unwatched<U> &) const { return false; }
};
using books =
    std::map<uint64_t, uint64_t, std::less<uint64_t>, unwatched<std::pair<const uint64_t, uint64_t>>>; // begins, ends

alignas(books) unsigned char room[sizeof(books)];
books *blocks; // in `room`, from the first block on, and for good
std::atomic_flag busy = ATOMIC_FLAG_INIT;
std::atomic<int> away{0};

struct turn {
    turn() {
        while (busy.test_and_set(std::memory_order_acquire)) {
        }
    }
    ~turn() { busy.clear(std::memory_order_release); }
};

void *keep(void *block, size_t bytes, bool is_new) {
    if (block == nullptr || away != 0) return block;
    if (is_new) memset(block, 0xff, bytes);
    turn mine;
    if (blocks == nullptr) blocks = new (room) books;
    (*blocks)[uint64_t(block)] = uint64_t(block) + bytes;
    return block;
}
void drop(void *block) {
    turn mine;
    if (blocks != nullptr) blocks->erase(uint64_t(block));
}

} // namespace

bool heap_is_watched() { return blocks != nullptr; }

bool heap_block(uint64_t address, uint64_t *begin, uint64_t *end) {
    turn mine;
    auto next = blocks->upper_bound(address);
    if (next == blocks->begin()) return false;
    --next;
    if (address >= next->second) return false;
    *begin = next->first, *end = next->second;
    return true;
}

own_heap::own_heap() { away++; }
own_heap::~own_heap() { away--; }

} // namespace ptx

#define FT_WATCHED extern "C" __attribute__((visibility("default")))
FT_WATCHED void *malloc(size_t bytes) { return ptx::keep(__libc_malloc(bytes), bytes, true); }
FT_WATCHED void *calloc(size_t count, size_t bytes) {
    return ptx::keep(__libc_calloc(count, bytes), count * bytes, false);
}
FT_WATCHED void *realloc(void *block, size_t bytes) {
    if (block != nullptr) ptx::drop(block);
    return ptx::keep(__libc_realloc(block, bytes), bytes, false);
}
FT_WATCHED void *memalign(size_t alignment, size_t bytes) {
    return ptx::keep(__libc_memalign(alignment, bytes), bytes, true);
}
FT_WATCHED void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
FT_WATCHED int posix_memalign(void **block, size_t alignment, size_t bytes) {
    void *found = memalign(alignment, bytes);
    if (found == nullptr) return ENOMEM;
    *block = found;
    return 0;
}
FT_WATCHED void free(void *block) {
    if (block == nullptr) return;
    ptx::drop(block);
    __libc_free(block);
}
