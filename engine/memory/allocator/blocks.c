// blocks.c - blocks as such: their structs, cutting and merging, and the books that are kept on free ones.
#include "base/arena.h"
#include "engine/memory/allocator/internal.h"

#include <stdlib.h>

void ft_count_reserved(ft_allocator *a, size_t bytes) {
    ft_allocator_counters *c = &a->counters;
    c->device_allocations++;
    c->reserved += bytes;
    if (c->reserved > c->peak_reserved) c->peak_reserved = c->reserved;
}

void ft_count_released(ft_allocator *a, size_t bytes) {
    a->counters.device_frees++;
    a->counters.reserved -= bytes;
}

enum { CHUNK_BLOCKS = 64 };

struct ft_block_chunk {
    struct ft_block_chunk *next;
    ft_block blocks[CHUNK_BLOCKS];
};

ft_status ft_blocks_spare(ft_allocator *a, size_t count) {
    while (a->spare_count < count) {
        struct ft_block_chunk *chunk = ft_calloc(1, sizeof *chunk, "the allocator's blocks");
        if (chunk == NULL) return FT_NO_MEMORY;
        chunk->next = a->chunks;
        a->chunks = chunk;
        for (int i = 0; i < CHUNK_BLOCKS; i++)
            ft_block_drop(a, &chunk->blocks[i]);
    }
    return FT_OK;
}

void ft_blocks_free(ft_allocator *a) {
    while (a->chunks != NULL) {
        struct ft_block_chunk *chunk = a->chunks;
        a->chunks = chunk->next;
        free(chunk);
    }
}

ft_block *ft_block_new(ft_allocator *a, ft_segment *segment, size_t offset, size_t size) {
    ft_block *block = a->spare;
    a->spare = block->right;
    a->spare_count--;
    a->random ^= a->random << 13; // xorshift
    a->random ^= a->random >> 17;
    a->random ^= a->random << 5;
    *block = (ft_block){.segment = segment, .offset = offset, .size = size, .priority = a->random};
    return block;
}

void ft_block_drop(ft_allocator *a, ft_block *block) {
    block->segment = NULL;
    block->right = a->spare;
    a->spare = block;
    a->spare_count++;
}

ft_block *ft_block_cut(ft_allocator *a, ft_block *block, size_t size) {
    ft_block *rest = ft_block_new(a, block->segment, block->offset + size, block->size - size);
    rest->state = block->state;
    rest->pool = block->pool;
    rest->used = block->used;
    rest->previous = block;
    rest->next = block->next;
    if (rest->next != NULL) rest->next->previous = rest;
    block->next = rest;
    block->size = size;
    return rest;
}

void ft_block_join_next(ft_allocator *a, ft_block *block) {
    ft_block *next = block->next;
    block->size += next->size;
    if (block->used < next->used) block->used = next->used;
    block->next = next->next;
    if (block->next != NULL) block->next->previous = block;
    ft_block_drop(a, next);
}

static bool is_free(const ft_block *block) { return block != NULL && block->state == FT_BLOCK_FREE; }

bool ft_block_usable(const ft_block *block, int32_t pool) {
    return is_free(block) && (block->pool == pool || block->pool == FT_ANY_STREAM);
}

// inactive_split counts a segment's free bytes while it has live blocks: taken out before, put back after a change.
static void leave_inactive(ft_allocator *a, const ft_segment *segment) {
    if (segment->live > 0) a->counters.inactive_split -= segment->free;
}
static void enter_inactive(ft_allocator *a, const ft_segment *segment) {
    if (segment->live > 0) a->counters.inactive_split += segment->free;
}

void ft_segment_live(ft_allocator *a, ft_segment *segment, size_t live) {
    leave_inactive(a, segment);
    segment->live = live;
    enter_inactive(a, segment);
}

ft_block *ft_run_first(ft_block *block) {
    while (is_free(block->previous))
        block = block->previous;
    return block;
}

size_t ft_run_releasable(const ft_block *first) {
    const ft_segment *segment = first->segment;
    const ft_block *last = first;
    while (is_free(last->next))
        last = last->next;
    if (segment->page == 0) return first->previous == NULL && last->next == NULL ? segment->size : 0;
    const size_t begin = ft_pieces_up(segment, first->offset), end = ft_pieces_down(segment, last->offset + last->size);
    return end > begin ? end - begin : 0;
}

static void run_enter(ft_allocator *a, ft_block *first) {
    first->run_bytes = ft_run_releasable(first);
    if (first->run_bytes == 0) return;
    a->releasable += first->run_bytes;
    first->run_used = 0;
    for (const ft_block *block = first; is_free(block); block = block->next)
        if (first->run_used < block->used) first->run_used = block->used;
    ft_block *older = a->newest; // what was just used goes to the end at once; only leftovers of older runs walk
    while (older != NULL && older->run_used > first->run_used)
        older = older->older;
    first->older = older;
    first->newer = older != NULL ? older->newer : a->oldest;
    *(first->newer != NULL ? &first->newer->older : &a->newest) = first;
    *(older != NULL ? &older->newer : &a->oldest) = first;
}

static void run_leave(ft_allocator *a, ft_block *first) {
    if (first->run_bytes == 0) return;
    a->releasable -= first->run_bytes;
    *(first->older != NULL ? &first->older->newer : &a->oldest) = first->newer;
    *(first->newer != NULL ? &first->newer->older : &a->newest) = first->older;
    first->older = first->newer = NULL;
    first->run_bytes = 0;
}

void ft_block_list(ft_allocator *a, ft_block *block) {
    ft_segment *segment = block->segment;
    ft_tree_insert(&a->pools[block->pool].free[segment->class], block);
    leave_inactive(a, segment);
    segment->free += block->size;
    enter_inactive(a, segment);
    if (is_free(block->previous)) run_leave(a, ft_run_first(block->previous));
    if (is_free(block->next)) run_leave(a, block->next);
    block->state = FT_BLOCK_FREE;
    run_enter(a, ft_run_first(block));
}

void ft_block_unlist(ft_allocator *a, ft_block *block) {
    ft_segment *segment = block->segment;
    ft_tree_remove(&a->pools[block->pool].free[segment->class], block);
    leave_inactive(a, segment);
    segment->free -= block->size;
    enter_inactive(a, segment);
    run_leave(a, ft_run_first(block));
    block->state = FT_BLOCK_LOOSE;
    if (is_free(block->previous)) run_enter(a, ft_run_first(block->previous));
    if (is_free(block->next)) run_enter(a, block->next);
}

ft_block *ft_block_settle(ft_allocator *a, ft_block *block) {
    if (ft_block_usable(block->next, block->pool)) {
        ft_block_unlist(a, block->next);
        ft_block_join_next(a, block);
    }
    if (ft_block_usable(block->previous, block->pool)) {
        ft_block *previous = block->previous;
        ft_block_unlist(a, previous);
        previous->pool = block->pool;
        ft_block_join_next(a, previous);
        block = previous;
    }
    ft_block_list(a, block);
    return block;
}

void ft_segment_link(ft_allocator *a, ft_segment *segment) {
    segment->number = a->next_number++;
    segment->previous = a->last_segment;
    *(segment->previous != NULL ? &segment->previous->next : &a->first_segment) = segment;
    a->last_segment = segment;
    a->counters.segments++;
}

void ft_segment_unlink(ft_allocator *a, ft_segment *segment) {
    *(segment->previous != NULL ? &segment->previous->next : &a->first_segment) = segment->next;
    *(segment->next != NULL ? &segment->next->previous : &a->last_segment) = segment->previous;
    a->counters.segments--;
    if (a->first_segment == NULL) a->next_number = 0; // an empty allocator has no past
    free(segment->inside);
    free(segment);
}
