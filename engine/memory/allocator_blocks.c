// allocator_blocks.c - blocks as such: their structs, cutting and merging, and the books that are kept on free ones.
#include "engine/memory/allocator_internal.h"
#include "kernels/arena.h"

#include <stdlib.h>

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

bool ft_block_usable(const ft_block *block, int32_t pool) {
    return block != NULL && block->state == FT_BLOCK_FREE && (block->pool == pool || block->pool == FT_ANY_STREAM);
}

size_t ft_block_releasable(const ft_block *block) {
    const ft_segment *segment = block->segment;
    if (segment->page == 0) return block->size == segment->size ? block->size : 0;
    size_t begin = ft_round_up(block->offset, segment->page);
    size_t end = (block->offset + block->size) / segment->page * segment->page;
    return end > begin ? end - begin : 0;
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

void ft_block_list(ft_allocator *a, ft_block *block) {
    ft_segment *segment = block->segment;
    ft_tree_insert(&a->pools[block->pool].free[segment->class], block);
    leave_inactive(a, segment);
    segment->free += block->size;
    enter_inactive(a, segment);
    size_t releasable = ft_block_releasable(block);
    if (releasable == 0) return;
    a->releasable += releasable;
    ft_block *older = a->newest; // a block just used goes to the end at once; only leftovers of older ones walk
    while (older != NULL && older->used > block->used)
        older = older->older;
    block->older = older;
    block->newer = older != NULL ? older->newer : a->oldest;
    *(block->newer != NULL ? &block->newer->older : &a->newest) = block;
    *(older != NULL ? &older->newer : &a->oldest) = block;
}

void ft_block_unlist(ft_allocator *a, ft_block *block) {
    ft_segment *segment = block->segment;
    ft_tree_remove(&a->pools[block->pool].free[segment->class], block);
    leave_inactive(a, segment);
    segment->free -= block->size;
    enter_inactive(a, segment);
    size_t releasable = ft_block_releasable(block);
    if (releasable == 0) return;
    a->releasable -= releasable;
    *(block->older != NULL ? &block->older->newer : &a->oldest) = block->newer;
    *(block->newer != NULL ? &block->newer->older : &a->newest) = block->older;
    block->older = block->newer = NULL;
}

ft_block *ft_block_settle(ft_allocator *a, ft_block *block) {
    block->state = FT_BLOCK_FREE;
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
    free(segment);
}
