// torch_allocator_model.h - a model of the rules by which PyTorch's CUDACachingAllocator reuses memory, for comparisons
// on machines without a GPU. It is no PyTorch code: the rules are those its source and documentation publish (2.x),
// written anew. One stream, garbage collection off, max_split_size off.
//
//   - Sizes are multiples of 512 bytes. Up to 1 MiB: small pool, else large.
//   - A request takes the smallest free block of its pool, the lowest address among equals. A block is split when at
//     least 512 bytes (small) or more than 1 MiB (large) remain. Freed blocks merge with free neighbours of a segment.
//   - A new segment has 2 MiB (small), 20 MiB (1 to 10 MiB), or the size rounded up to 2 MiB.
//   - When the memory is used up, all wholly free segments are given back and the request is tried once more.
//   - expandable: each pool has one range, mapped in pages of 2 MiB (small) or 20 MiB (large); a free block at its end
//   is
//     used last, since it could grow; every block is split when at least 512 bytes remain. What this mode does when the
//     memory is used up is not modelled.
#ifndef FT_BENCH_TORCH_ALLOCATOR_MODEL_H
#define FT_BENCH_TORCH_ALLOCATOR_MODEL_H

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>
#include <stdlib.h>

typedef struct torch_block {
    struct torch_block *previous, *next; // in the segment
    size_t address, size;                // address: segments one after another, with a gap between
    int free_index;                      // among the free ones of the pool, -1: live
    bool large;
} torch_block;

typedef struct torch_pool {
    torch_block **free_blocks;
    int count, capacity;
    torch_block *end; // expandable: the last block of the range
} torch_pool;

typedef struct torch_model {
    bool expandable;
    size_t limit; // of reserved
    torch_pool pools[2];
    size_t next_address, allocated, reserved, peak_allocated, peak_reserved;
} torch_model;

static size_t torch_round(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

static ft_status torch_list(torch_model *m, torch_block *b) {
    torch_pool *p = &m->pools[b->large];
    if (p->count == p->capacity) {
        int capacity = p->capacity ? 2 * p->capacity : 256;
        torch_block **grown = ft_realloc(p->free_blocks, (size_t)capacity, sizeof *grown, "the model");
        if (grown == NULL) return FT_NO_MEMORY;
        p->free_blocks = grown;
        p->capacity = capacity;
    }
    b->free_index = p->count;
    p->free_blocks[p->count++] = b;
    return FT_OK;
}

static void torch_unlist(torch_model *m, torch_block *b) {
    torch_pool *p = &m->pools[b->large];
    torch_block *last = p->free_blocks[--p->count];
    last->free_index = b->free_index;
    p->free_blocks[b->free_index] = last;
    b->free_index = -1;
}

static torch_block *torch_find(const torch_model *m, size_t size, bool large) {
    const torch_pool *p = &m->pools[large];
    torch_block *best = NULL, *growing = NULL;
    for (int i = 0; i < p->count; i++) {
        torch_block *b = p->free_blocks[i];
        if (b->size < size) continue;
        if (m->expandable && b == p->end)
            growing = b;
        else if (best == NULL || b->size < best->size || (b->size == best->size && b->address < best->address))
            best = b;
    }
    return best != NULL ? best : growing;
}

// All segments that are free as a whole.
static void torch_release(torch_model *m) {
    for (int i = 0; i < 2 && !m->expandable; i++) {
        for (int k = m->pools[i].count; k-- > 0;) { // unlisting moves the last one here: it has been looked at
            torch_block *b = m->pools[i].free_blocks[k];
            if (b->previous != NULL || b->next != NULL) continue;
            torch_unlist(m, b);
            m->reserved -= b->size;
            free(b);
        }
    }
}

// New memory as a free, listed block.
static ft_status torch_grow(torch_model *m, size_t size, bool large, torch_block **out) {
    torch_pool *p = &m->pools[large];
    torch_block *last = m->expandable ? p->end : NULL, *b = last;
    bool extend = last != NULL && last->free_index >= 0;
    size_t bytes = !large                    ? (size_t)2 << 20
                   : size < (size_t)10 << 20 ? (size_t)20 << 20
                                             : torch_round(size, (size_t)2 << 20);
    if (m->expandable) {
        size_t page = (size_t)(large ? 20 : 2) << 20, needed = extend ? size - last->size : size;
        bytes = torch_round(needed, page); // the end of what is mapped lies on a page
    }
    if (bytes > m->limit - m->reserved) torch_release(m);
    if (bytes > m->limit - m->reserved) return FT_NO_MEMORY;
    if (!extend) {
        b = ft_calloc(1, sizeof *b, "the model");
        if (b == NULL) return FT_NO_MEMORY;
        b->large = large;
        b->previous = last;
        if (last != NULL) {
            last->next = b;
            b->address = last->address + last->size;
        } else {
            b->address = m->next_address;
            m->next_address += m->expandable ? (size_t)1 << 44 : bytes + 512;
        }
        FT_TRY(torch_list(m, b));
    }
    b->size += bytes;
    if (m->expandable) p->end = b;
    m->reserved += bytes;
    if (m->peak_reserved < m->reserved) m->peak_reserved = m->reserved;
    *out = b;
    return FT_OK;
}

static ft_status torch_take(torch_model *m, size_t bytes, torch_block **out) {
    size_t size = bytes > 0 ? torch_round(bytes, 512) : 512;
    bool large = size > (size_t)1 << 20;
    torch_block *b = torch_find(m, size, large);
    if (b == NULL) FT_TRY(torch_grow(m, size, large, &b));
    torch_unlist(m, b);
    size_t rest = b->size - size;
    if (large && !m->expandable ? rest > (size_t)1 << 20 : rest >= 512) {
        torch_block *r = ft_calloc(1, sizeof *r, "the model");
        if (r == NULL) return FT_NO_MEMORY;
        *r = (torch_block){.previous = b, .next = b->next, .address = b->address + size, .size = rest, .large = large};
        if (r->next != NULL) r->next->previous = r;
        b->next = r;
        b->size = size;
        if (m->pools[large].end == b) m->pools[large].end = r;
        FT_TRY(torch_list(m, r));
    }
    m->allocated += b->size;
    if (m->peak_allocated < m->allocated) m->peak_allocated = m->allocated;
    *out = b;
    return FT_OK;
}

// `b` swallows its free next neighbour.
static void torch_merge(torch_model *m, torch_block *b) {
    torch_block *next = b->next;
    if (next->free_index >= 0) torch_unlist(m, next);
    b->size += next->size;
    b->next = next->next;
    if (b->next != NULL) b->next->previous = b;
    if (m->pools[b->large].end == next) m->pools[b->large].end = b;
    free(next);
}

static ft_status torch_give(torch_model *m, torch_block *b) {
    m->allocated -= b->size;
    if (b->next != NULL && b->next->free_index >= 0) torch_merge(m, b);
    if (b->previous != NULL && b->previous->free_index >= 0) {
        torch_merge(m, b->previous);
        return FT_OK;
    }
    return torch_list(m, b);
}

// When every block has been given.
static void torch_close(torch_model *m) {
    torch_release(m);
    for (int i = 0; i < 2; i++) { // a range is one free block now
        for (int k = 0; k < m->pools[i].count; k++)
            free(m->pools[i].free_blocks[k]);
        free(m->pools[i].free_blocks);
    }
}

#endif
