// heap.h - blocks of the plain heap, with the error set on failure, and a watch over what a stage of the program takes of it.
//
// Memory that is not there is seen by a system when pages are touched, long after they were asked for: then it kills. So a stage whose need
// nobody knows before it has run - files are read, texts become tokens - is watched: whatever asks for much is told before it does that the
// process would hold more than it may. And what was asked for at most is what a plan counts, so that the same is never refused that was planned.
#ifndef FT_HEAP_H
#define FT_HEAP_H

#include <stdbool.h>
#include <stddef.h>

// count*size is checked for overflow. On failure NULL, and the error is set ("out of host memory (N bytes for WHAT)").
void *ft_calloc(size_t count, size_t size, const char *what);
void *ft_realloc(void *old, size_t count, size_t size, const char *what); // on failure the old block stays valid
// A block of so many bytes has pages of its own (the program says so to the C library), which go back to the system when it is freed.
enum { FT_HEAP_LARGE = 256 << 10 };
size_t ft_heap_large_bytes(const void *block); // of the heap, NULL is fine: what goes back with it
// Memory that was freed goes back to the system, as far as it lies in whole pages: behind a stage that took much.
void ft_heap_trim(void);
// Bytes that were freed and whose addresses the heap keeps, for they lie below what is in use: the next requests are served from them, and
// take no further addresses. 0 where the C library does not say.
size_t ft_heap_free_bytes(void);

// The present context (context.h) is watched from now on; one watch at a time: the last that was begun. limit: bytes that the process may
// hold, SIZE_MAX: they are only counted. limit_name: what is set to it, for messages; it stays valid.
void ft_heap_watch_begin(size_t limit, const char *limit_name);
void ft_heap_watch_end(void);
size_t ft_heap_watch_most(void); // that it held or had asked for so far; 0: there is no watch
// For who takes memory in another way (a library, a sort): false, with the error set, if that is too much.
bool ft_heap_expect(size_t bytes, const char *what);

// For a library that is told where its memory comes from (Jansson). The error is set only by a watch.
void *ft_heap_malloc(size_t bytes);

#endif
