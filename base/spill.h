// spill.h - arrays that may be larger than memory: a small one is on the heap, a large one in a file without a name that is mapped. The
// system writes its pages out and takes them back when memory is short, so that they end nobody's process.
//
// The file lies in $TMPDIR, else in /var/tmp, has its room on the disk from the start, and is gone with the array or the process. Where
// none can be made an array is on the heap, however large. Order pays: pages that were just used are in memory.
#ifndef FT_SPILL_H
#define FT_SPILL_H

#include <stddef.h>

enum { FT_SPILL_FROM = 8 << 20 }; // bytes

// Zeros. NULL with the error set, as ft_calloc. Such arrays are changed and freed by the functions here alone.
void *ft_spill_calloc(size_t count, size_t size, const char *what);
// To count * size bytes, of which those that are new have any values; it may move. old NULL: a new array. On failure the old one stays.
void *ft_spill_realloc(void *old, size_t count, size_t size, const char *what);

// The same for an array that a variable names, in a function that returns a status.
#define FT_SPILL_GROW(array, capacity, what)                                                                           \
    do {                                                                                                               \
        void *grown_ = ft_spill_realloc(array, (size_t)(capacity), sizeof *(array), what);                             \
        if (grown_ == NULL) return FT_NO_MEMORY;                                                                       \
        array = grown_;                                                                                                \
    } while (0)
// Its first `bytes` bytes were written, in order, and are not written again: in a file they go to the disk by and by (pace.h).
void ft_spill_written(void *array, size_t bytes);
// It will not grow any more: its descriptor is closed, and its pages begin to be written.
void ft_spill_settle(void *array);
void ft_spill_free(void *array);              // NULL is fine
size_t ft_spill_host_bytes(const void *array); // of memory that is really taken: 0 in a file; NULL is fine

#endif
