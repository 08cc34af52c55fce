#include "base/spill.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/pace.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// In front of the array, in the same block.
typedef struct header {
    size_t bytes;  // with the header
    int mapped;    // it is a file
    int file;      // -1: closed
    ft_pace pace;
    char pad[40];
} header;
_Static_assert(sizeof(header) == 64, "the array begins at a multiple of 64");

static header *header_of(const void *array) { return (header *)((char *)(uintptr_t)array - sizeof(header)); }

static void *array_of(header *h) { return (char *)h + sizeof *h; }

static int with_header(size_t count, size_t size, size_t *bytes) {
    if (size != 0 && count > (SIZE_MAX - sizeof(header)) / size) return -1;
    *bytes = count * size + sizeof(header);
    return 0;
}

// NULL: there is no place for it. The error is not set.
static header *map_new(size_t bytes) {
    int file;
    ft_error before;
    ft_error_save(&before);
    const ft_status status = ft_scratch_file(NULL, &file);
    ft_error_restore(&before);
    if (status != FT_OK) return NULL;
    header *h = fallocate(file, 0, 0, (off_t)bytes) == 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
    if (h == MAP_FAILED) {
        close(file);
        return NULL;
    }
    // Else a page that is touched brings up to some MiB of its neighbours (read_ahead_kb), of every array: where there is little room they
    // push each other out before they are used, and nothing gets on.
    (void)madvise(h, bytes, MADV_RANDOM);
    *h = (header){.bytes = bytes, .mapped = 1, .file = file};
    return h;
}

static header *allocate(size_t bytes, const char *what) {
    header *h = bytes > FT_SPILL_FROM ? map_new(bytes) : NULL;
    if (h != NULL) return h;
    h = ft_calloc(1, bytes, what);
    if (h != NULL) *h = (header){.bytes = bytes, .file = -1};
    return h;
}

void *ft_spill_calloc(size_t count, size_t size, const char *what) {
    size_t bytes;
    if (with_header(count, size, &bytes) != 0) {
        ft_fail_memory(SIZE_MAX, what);
        return NULL;
    }
    header *h = allocate(bytes, what);
    return h != NULL ? array_of(h) : NULL;
}

// The file first where it grows, the mapping first where it shrinks: no page is ever behind the end.
static header *resize_mapped(header *h, size_t bytes) {
    const int file = h->file;
    const size_t old = h->bytes;
    if (file < 0) return NULL;
    if (bytes > old) {
        sync_file_range(file, 0, (off_t)old, SYNC_FILE_RANGE_WRITE);
        if (fallocate(file, 0, (off_t)old, (off_t)(bytes - old)) != 0) return NULL;
    }
    header *moved = mremap(h, old, bytes, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) return NULL;
    if (bytes < old) (void)!ftruncate(file, (off_t)bytes);
    moved->bytes = bytes;
    return moved;
}

void *ft_spill_realloc(void *old, size_t count, size_t size, const char *what) {
    size_t bytes;
    if (with_header(count, size, &bytes) != 0) {
        ft_fail_memory(SIZE_MAX, what);
        return NULL;
    }
    if (old == NULL) return ft_spill_calloc(count, size, what);
    header *h = header_of(old), *moved;
    if (h->mapped && bytes > FT_SPILL_FROM) { // one that shrinks is on the heap again: where it lies follows from its size alone
        moved = resize_mapped(h, bytes);
        if (moved != NULL) return array_of(moved);
    } else if (!h->mapped && (bytes <= FT_SPILL_FROM || bytes <= h->bytes)) {
        moved = ft_realloc(h, 1, bytes, what);
        if (moved == NULL) return NULL;
        moved->bytes = bytes;
        return array_of(moved);
    }
    moved = allocate(bytes, what);
    if (moved == NULL) return NULL;
    memcpy(array_of(moved), old, (bytes < h->bytes ? bytes : h->bytes) - sizeof *h);
    ft_spill_free(old);
    return array_of(moved);
}

void ft_spill_written(void *array, size_t bytes) {
    header *h = array != NULL ? header_of(array) : NULL;
    if (h != NULL && h->mapped && h->file >= 0) ft_pace_written(&h->pace, h->file, (int64_t)(bytes + sizeof *h));
}

void ft_spill_settle(void *array) {
    header *h = array != NULL ? header_of(array) : NULL;
    if (h == NULL || !h->mapped || h->file < 0) return;
    sync_file_range(h->file, 0, (off_t)h->bytes, SYNC_FILE_RANGE_WRITE);
    close(h->file);
    h->file = -1;
}

void ft_spill_free(void *array) {
    if (array == NULL) return;
    header *h = header_of(array);
    if (!h->mapped) {
        free(h);
        return;
    }
    const int file = h->file;
    munmap(h, h->bytes);
    if (file >= 0) close(file);
}

size_t ft_spill_host_bytes(const void *array) { return array != NULL && !header_of(array)->mapped ? header_of(array)->bytes : 0; }
