// arena.h - many small host allocations with one lifetime, freed together. For names, tables and parsed files; tensors
// come from engine/memory. Zeroed memory; NULL on failure with the error set (FT_NO_MEMORY).
#ifndef FT_ARENA_H
#define FT_ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct ft_arena {
    struct ft_arena_block *blocks; // newest first
} ft_arena; // {0} is an empty arena

void *ft_arena_alloc(ft_arena *arena, size_t bytes); // aligned to 16
char *ft_arena_strdup(ft_arena *arena, const char *text);
char *ft_arena_strndup(ft_arena *arena, const char *text, size_t length);
char *ft_arena_format(ft_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ft_arena_free(ft_arena *arena); // frees all; the arena is empty and can be used again
void ft_arena_join(ft_arena *arena, ft_arena *other); // what is in `other` belongs to `arena` from now on

// Plain heap, with the error set on failure ("out of host memory (N bytes for WHAT)"). count*size is checked for overflow.
// Memory that was freed goes back to the system, as far as it lies in whole pages: behind a stage that took much.
void ft_heap_trim(void);
void *ft_calloc(size_t count, size_t size, const char *what);
// realloc to count*size bytes; on failure the old block stays valid.
void *ft_realloc(void *old, size_t count, size_t size, const char *what);

#endif
