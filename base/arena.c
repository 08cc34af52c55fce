#include "base/arena.h"

#include "base/status.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024, ALIGN = 16 };

struct ft_arena_block {
    struct ft_arena_block *next;
    size_t used, size;
    _Alignas(ALIGN) unsigned char data[];
};

void *ft_arena_alloc(ft_arena *arena, size_t bytes) {
    if (bytes > SIZE_MAX / 2) {
        ft_fail_memory(bytes, "an arena");
        return NULL;
    }
    bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    struct ft_arena_block *b = arena->blocks;
    if (b == NULL || b->size - b->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        b = ft_calloc(1, sizeof *b + size, "an arena");
        if (b == NULL) return NULL;
        b->size = size;
        b->next = arena->blocks;
        arena->blocks = b;
    }
    void *p = b->data + b->used;
    b->used += bytes;
    return p;
}

void ft_arena_join(ft_arena *arena, ft_arena *other) {
    struct ft_arena_block **end = &arena->blocks;
    while (*end != NULL) end = &(*end)->next;
    *end = other->blocks;
    other->blocks = NULL;
}

char *ft_arena_strndup(ft_arena *arena, const char *text, size_t length) {
    char *p = ft_arena_alloc(arena, length + 1);
    if (p != NULL) memcpy(p, text, length);
    return p;
}

char *ft_arena_strdup(ft_arena *arena, const char *text) { return ft_arena_strndup(arena, text, strlen(text)); }

char *ft_arena_format(ft_arena *arena, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *p = length < 0 ? NULL : ft_arena_alloc(arena, (size_t)length + 1);
    if (p != NULL) vsnprintf(p, (size_t)length + 1, format, again);
    va_end(again);
    return p;
}

void ft_arena_free(ft_arena *arena) {
    for (struct ft_arena_block *b = arena->blocks, *next; b != NULL; b = next) {
        next = b->next;
        free(b);
    }
    arena->blocks = NULL;
}
