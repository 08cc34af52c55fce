// grow.c - memory from the device and back to it: what a request does when no free block is large enough, how
// the limit and garbage_collection_threshold are kept, and what is given back first.
//
//     plan the growth -> within the limit, if all else that is free were given back? -> no: refused, nothing touched
//                     -> above the threshold or the limit? give back, oldest use first, and plan again
//                     -> ask the device -> refused? give back as much as is asked for, plan and ask again
#include "base/arena.h"
#include "engine/memory/allocator/internal.h"

#include <stdlib.h>

static size_t segment_bytes(size_t size, int class) {
    return class == FT_CLASS_SMALL ? FT_ALLOCATOR_SMALL_SEGMENT : ft_round_up(size, FT_ALLOCATOR_ROUND);
}

static ft_status buffer_grow(ft_allocator *a, size_t bytes, int32_t pool, int class, ft_block **block) {
    FT_TRY(ft_blocks_spare(a, 2)); // the block, and the rest that the request leaves of it
    ft_segment *segment = ft_calloc(1, sizeof *segment, "the allocator's segments");
    if (segment == NULL) return FT_NO_MEMORY;
    void *base = NULL;
    ft_status status = a->device->functions->buffer_alloc(a->device, bytes, &base);
    if (status != FT_OK) {
        free(segment);
        return status;
    }
    segment->base = base;
    segment->size = segment->committed = bytes;
    segment->pool = pool;
    segment->class = class;
    ft_segment_link(a, segment);
    ft_count_reserved(a, bytes);
    *block = segment->first = ft_block_new(a, segment, 0, bytes);
    (*block)->pool = pool;
    (*block)->used = ++a->clock;
    (*block)->state = FT_BLOCK_LOOSE;
    ft_block_list(a, *block);
    return FT_OK;
}

ft_status ft_run_release(ft_allocator *a, ft_block *first, size_t need, size_t *released) {
    ft_segment *segment = first->segment;
    if (segment->page > 0) return ft_range_shrink(a, first, need, released);
    *released = segment->size;
    for (ft_block *block = first, *next; block != NULL; block = next) {
        next = block->next;
        ft_block_unlist(a, block);
        if (next != NULL) next->previous = NULL; // the struct before it is gone
        ft_block_drop(a, block);
    }
    a->device->functions->buffer_free(a->device, segment->base, segment->size);
    ft_count_released(a, segment->size);
    ft_segment_unlink(a, segment);
    return FT_OK;
}

// Gives back `need` bytes or, where there is less, all; but nothing that the growth builds on.
static ft_status release_oldest(ft_allocator *a, size_t need, const ft_growth *growth, bool *any) {
    const ft_block *left = growth->left != NULL ? ft_run_first(growth->left) : NULL;
    *any = false;
    for (ft_block *first = a->oldest, *newer; first != NULL && need > 0; first = newer) {
        newer = first->newer;
        if (first == left || first == growth->right) continue; // what is right of a hole begins a run
        size_t released;
        FT_TRY(ft_run_release(a, first, need, &released));
        a->counters.released_for_retry++;
        need -= released < need ? released : need;
        *any = true;
    }
    return FT_OK;
}

ft_status ft_allocator_grow(ft_allocator *a, size_t size, int32_t pool, int class, ft_block **block, bool *by_limit) {
    const ft_allocator_counters *c = &a->counters;
    bool tight = false, released;
    for (;;) {
        ft_growth growth = {.bytes = segment_bytes(size, class)};
        if (a->options.expandable_segments) growth = ft_range_plan(a, size, pool, class, tight);
        size_t pinned = c->reserved - (a->releasable - growth.kept);
        if (pinned + growth.bytes > a->options.limit) {
            if (a->options.expandable_segments && !tight) {
                tight = true;
                continue;
            }
            *by_limit = true;
            return FT_NO_MEMORY;
        }
        size_t wanted = c->reserved + growth.bytes;
        if (wanted > a->collect_above) {
            FT_TRY(release_oldest(a, wanted - a->collect_above, &growth, &released));
            if (released) continue;
        }
        ft_error before;
        ft_error_save(&before);
        ft_status status = a->options.expandable_segments ? ft_range_grow(a, &growth, pool, class, block)
                                                          : buffer_grow(a, growth.bytes, pool, class, block);
        if (status != FT_NO_MEMORY) return status;
        FT_TRY(release_oldest(a, growth.bytes, &growth, &released));
        if (!released && (tight || growth.kept == 0)) return FT_NO_MEMORY; // with the device's or the host's reason
        if (!released) tight = true;
        ft_error_restore(&before); // a refusal that may have a remedy is none yet
    }
}
