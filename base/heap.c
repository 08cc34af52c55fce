#include "base/heap.h"

#include "base/context.h"
#include "base/status.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <malloc/malloc.h>
#define malloc_usable_size malloc_size
#else
#include <malloc.h>
#endif

// So much is asked for before the watch looks again: a look costs microseconds.
enum { LOOK_AT = FT_HEAP_LARGE };

// What the process holds that no file gives back, and the private addresses that it may write to, both of /proc/self/statm. The second
// grows when memory is asked for, the first when it is touched.
static bool look(size_t *held, size_t *data) {
    char text[160];
    unsigned long long resident, shared, private;
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    if (sscanf(text, "%*u %llu %llu %*u %*u %llu", &resident, &shared, &private) != 3) return false;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *held = (size_t)(resident > shared ? resident - shared : 0) * page;
    *data = (size_t)private * page;
    return true;
}

void ft_heap_watch_begin(size_t limit, const char *limit_name) {
    ft_heap_watch *w = &ft_context_now()->heap;
    size_t held = 0, data = 0;
    if (!look(&held, &data)) limit = 0; // a system without /proc
    w->limit_name = limit_name;
    atomic_store(&w->held, held);
    atomic_store(&w->data, data);
    atomic_store(&w->most, held);
    atomic_store(&w->unseen, 0);
    atomic_store(&w->limit, limit);
}

void ft_heap_watch_end(void) { atomic_store(&ft_context_now()->heap.limit, 0); }

static void note_most(ft_heap_watch *w, size_t bytes) {
    for (size_t most = atomic_load(&w->most); bytes > most && !atomic_compare_exchange_weak(&w->most, &most, bytes);) {
    }
}

// What was asked for since the watch began is taken for touched.
static bool asks_for(ft_heap_watch *w, size_t more, size_t *all) {
    size_t held, data;
    atomic_store(&w->unseen, 0);
    if (!look(&held, &data)) return false;
    const size_t before = atomic_load(&w->held), from = atomic_load(&w->data), grown = data > from ? data - from : 0;
    *all = before + grown > held ? before + grown : held;
    *all = more < SIZE_MAX - *all ? *all + more : SIZE_MAX;
    return true;
}

size_t ft_heap_watch_most(void) {
    ft_heap_watch *w = &ft_context_now()->heap;
    size_t all;
    if (atomic_load(&w->limit) == 0) return 0;
    if (asks_for(w, 0, &all)) note_most(w, all);
    return atomic_load(&w->most);
}

bool ft_heap_expect(size_t bytes, const char *what) {
    ft_heap_watch *w = &ft_context_now()->heap;
    const size_t limit = atomic_load_explicit(&w->limit, memory_order_relaxed);
    if (limit == 0) return true;
    const size_t unseen = atomic_fetch_add_explicit(&w->unseen, bytes, memory_order_relaxed);
    size_t all;
    if ((unseen < LOOK_AT && bytes < LOOK_AT - unseen) || !asks_for(w, bytes, &all)) return true;
    if (all <= limit) {
        note_most(w, all);
        return true;
    }
    ft_fail(FT_NO_MEMORY, w->limit_name, "does not fit: with %zu bytes for %s the process would hold %zu, of %zu that it may", bytes, what, all,
            limit);
    return false;
}

void *ft_calloc(size_t count, size_t size, const char *what) {
    size_t bytes;
    if (!__builtin_mul_overflow(count, size, &bytes) && !ft_heap_expect(bytes, what)) return NULL;
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (p == NULL) ft_fail_memory((unsigned long long)count * size, what);
    return p;
}

// A large block has pages of its own, which move without a copy; of a small one there are two for a moment.
static size_t more_than(void *old, size_t bytes) {
    const size_t had = malloc_usable_size(old);
    return had < FT_HEAP_LARGE ? bytes : bytes > had ? bytes - had : 0;
}

void *ft_realloc(void *old, size_t count, size_t size, const char *what) {
    size_t bytes;
    const bool overflows = __builtin_mul_overflow(count, size, &bytes);
    if (!overflows && !ft_heap_expect(more_than(old, bytes), what)) return NULL;
    void *p = overflows ? NULL : realloc(old, bytes ? bytes : 1);
    if (p == NULL) ft_fail_memory((unsigned long long)count * size, what);
    return p;
}

size_t ft_heap_large_bytes(const void *block) {
    const size_t bytes = malloc_usable_size((void *)block);
    return bytes >= FT_HEAP_LARGE ? bytes : 0;
}

#ifdef __GLIBC__
#pragma weak mallinfo2 // of glibc 2.33: a wheel may run with an older one, and counts as elsewhere then
// Where the process has another malloc (preloaded, or a sanitizer's), glibc's own has never been used: its first function makes it ready
// without a lock, and two threads that do so at once end in an abort when the second of them ends.
static pthread_mutex_t glibc_heap = PTHREAD_MUTEX_INITIALIZER;
#endif

void ft_heap_trim(void) {
#ifdef __GLIBC__
    pthread_mutex_lock(&glibc_heap);
    (void)malloc_trim(0);
    pthread_mutex_unlock(&glibc_heap);
#endif
}

size_t ft_heap_free_bytes(void) {
#ifdef __GLIBC__
    pthread_mutex_lock(&glibc_heap);
    const size_t bytes = mallinfo2 != NULL ? mallinfo2().fordblks : 0;
    pthread_mutex_unlock(&glibc_heap);
    return bytes;
#else
    return 0;
#endif
}

void *ft_heap_malloc(size_t bytes) { return ft_heap_expect(bytes, "JSON") ? malloc(bytes) : NULL; }
