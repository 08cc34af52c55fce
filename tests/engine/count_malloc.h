// count_malloc.h - every byte that this program takes from the host, by whatever way: malloc and its relatives, mmap.
// Included by one test program, whose definitions then stand in front of the C library's. What the C library takes for
// itself (stacks of threads, its own arenas' headers) is not seen. Off under sanitizers, which have allocators of their
// own.
#ifndef FT_COUNT_MALLOC_H
#define FT_COUNT_MALLOC_H

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNT_MALLOC 0
static inline size_t host_bytes(void) { return 0; }
static inline size_t host_peak(void) { return 0; }
static inline void host_peak_reset(void) {}
#else
#define COUNT_MALLOC 1
static _Atomic size_t host_live, host_most;

static void host_add(size_t bytes) {
    size_t live = atomic_fetch_add(&host_live, bytes) + bytes, most = atomic_load(&host_most);
    while (live > most && !atomic_compare_exchange_weak(&host_most, &most, live)) {}
}
static void *counted(void *p) {
    if (p != NULL) host_add(malloc_usable_size(p));
    return p;
}

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

void *malloc(size_t bytes) { return counted(__libc_malloc(bytes)); }
void *calloc(size_t count, size_t bytes) { return counted(__libc_calloc(count, bytes)); }
void free(void *p) {
    if (p != NULL) atomic_fetch_sub(&host_live, malloc_usable_size(p));
    __libc_free(p);
}
void *realloc(void *p, size_t bytes) {
    size_t before = p != NULL ? malloc_usable_size(p) : 0;
    void *q = __libc_realloc(p, bytes);
    if (q == NULL && bytes > 0) return NULL;
    atomic_fetch_sub(&host_live, before);
    return counted(q);
}
void *memalign(size_t alignment, size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }
void *aligned_alloc(size_t alignment, size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }
int posix_memalign(void **out, size_t alignment, size_t bytes) {
    void *p = counted(__libc_memalign(alignment, bytes));
    if (p == NULL) return ENOMEM;
    *out = p;
    return 0;
}
// Reserved addresses (PROT_NONE) are no memory; committing them is seen by mprotect.
void *mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset) {
    void *p = (void *)syscall(SYS_mmap, at, bytes, protection, flags, file, offset);
    if (p != MAP_FAILED && protection != PROT_NONE && file < 0) host_add(bytes);
    return p;
}
int mprotect(void *at, size_t bytes, int protection) {
    int result = (int)syscall(SYS_mprotect, at, bytes, protection);
    if (result == 0 && (protection & PROT_WRITE)) host_add(bytes);
    if (result == 0 && protection == PROT_NONE) atomic_fetch_sub(&host_live, bytes);
    return result;
}

static inline size_t host_bytes(void) { return atomic_load(&host_live); }
static inline size_t host_peak(void) { return atomic_load(&host_most); }
static inline void host_peak_reset(void) { atomic_store(&host_most, atomic_load(&host_live)); }
#endif
#endif
