// arena.h - many small host allocations with one lifetime, freed together. For names, tables and parsed files; tensors
// come from engine/memory. Zeroed memory; NULL on failure with the error set (FT_NO_MEMORY).
#ifndef FT_ARENA_H
#define FT_ARENA_H

#include "base/heap.h"

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

#endif
