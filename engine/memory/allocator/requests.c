// requests.c - requests: the best free block, what of it is handed out, and what happens when it comes back.
#include "base/arena.h"
#include "engine/memory/allocator/internal.h"
#include "kernels/ops/range_pieces.h"

#include <assert.h>
#include <stdlib.h>

// Sums of sizes stay far from overflow.
static const size_t largest_limit = SIZE_MAX / 8;

// ---- life of an allocator ---------------------------------------------------------------------------------------

static ft_status check_options(const ft_device *device, const ft_allocator_options *o) {
    if (o->max_split_size > 0 && o->max_split_size < FT_ALLOCATOR_SMALL_SEGMENT)
        return ft_fail(FT_INVALID, "max_split_size", "must be 0 (no limit) or at least %d bytes, got %zu",
                       FT_ALLOCATOR_SMALL_SEGMENT, o->max_split_size);
    if (!(o->garbage_collection_threshold >= 0 && o->garbage_collection_threshold < 1))
        return ft_fail(FT_INVALID, "garbage_collection_threshold", "must be at least 0 and less than 1, got %g",
                       o->garbage_collection_threshold);
    if (!o->expandable_segments) return FT_OK;
    if (device->functions->range_reserve == NULL)
        return ft_fail(FT_INVALID, "expandable_segments", "the device %s has no virtual ranges", device->name);
    if (o->max_split_size > 0) // the free end of a range is one block: unsplit, it would serve a single request
        return ft_fail(FT_INVALID, "max_split_size", "does not go with expandable_segments: set one of them");
    return FT_OK;
}

// The page is needed before the first range: growth is judged by it.
static ft_status find_page(ft_allocator *a) {
    void *base;
    FT_TRY(a->device->functions->range_reserve(a->device, FT_ALLOCATOR_ROUND, &base, &a->page));
    a->device->functions->range_release(a->device, base, FT_ALLOCATOR_ROUND);
    if (a->page == 0 || a->page % FT_ALLOCATOR_GRANULE != 0)
        return ft_fail(FT_INVALID, "expandable_segments", "pages of %zu bytes on the device %s, not multiples of %d",
                       a->page, a->device->name, FT_ALLOCATOR_GRANULE);
    a->piece = ft_range_piece(&a->device->target, a->page);
    return FT_OK;
}

// The index of the stream's pool, made on first use; -1 with the error set when the host has no memory.
static int32_t find_pool(ft_allocator *a, int stream) {
    for (int32_t i = FT_ANY_STREAM + 1; i < a->pool_count; i++)
        if (a->pools[i].stream == stream) return i;
    ft_stream_pool *grown = ft_realloc(a->pools, (size_t)a->pool_count + 1, sizeof *grown, "the allocator's streams");
    if (grown == NULL) return -1;
    a->pools = grown;
    a->pools[a->pool_count] = (ft_stream_pool){.stream = stream};
    return a->pool_count++;
}

ft_status ft_allocator_create(ft_device *device, const ft_allocator_options *options, ft_allocator **allocator) {
    *allocator = NULL;
    FT_TRY(check_options(device, options));
    ft_allocator *a = ft_calloc(1, sizeof *a, "the allocator");
    if (a == NULL) return FT_NO_MEMORY;
    a->device = device;
    a->options = *options;
    a->random = 2463534242u;
    size_t limit = options->limit > 0 ? options->limit : device->total_bytes;
    if (limit > largest_limit) limit = largest_limit;
    double threshold = options->garbage_collection_threshold;
    a->options.limit = limit;
    a->collect_above = threshold > 0 ? (size_t)((double)limit * threshold) : limit;
    ft_status status = find_pool(a, 0) < 0 ? FT_NO_MEMORY : FT_OK; // FT_ANY_STREAM, whose number is never looked at
    if (status == FT_OK && options->expandable_segments) status = find_page(a);
    if (status != FT_OK) {
        ft_allocator_close(a);
        return status;
    }
    *allocator = a;
    return FT_OK;
}

void ft_allocator_close(ft_allocator *a) {
    if (a == NULL) return;
    while (a->first_segment != NULL) {
        ft_segment *segment = a->first_segment;
        if (segment->page > 0)
            ft_range_close(a, segment);
        else
            a->device->functions->buffer_free(a->device, segment->base, segment->size);
        ft_segment_unlink(a, segment);
    }
    ft_blocks_free(a);
    free(a->pools);
    free(a);
}

// ---- take and give ----------------------------------------------------------------------------------------------

// Invariant 7: may this block serve that request at all?
static bool spared(const ft_allocator *a, const ft_block *block, size_t size) {
    size_t most = a->options.max_split_size;
    return most > 0 && block->size > most && size < most && block->size - size > FT_ALLOCATOR_SPLIT_WASTE;
}

// Invariant 7: is what the request leaves of the block a block of its own?
static bool splits(const ft_allocator *a, const ft_block *block, size_t size) {
    size_t rest = block->size - size, most = a->options.max_split_size;
    if (most > 0 && block->size > most && size < most) return false;
    if (block->segment->class == FT_CLASS_SMALL || block->segment->page > 0) return rest >= FT_ALLOCATOR_GRANULE;
    return rest >= FT_ALLOCATOR_LARGE_REST;
}

static ft_block *best_fit(const ft_allocator *a, size_t size, int32_t pool, int class) {
    ft_block *own = ft_tree_at_least(a->pools[pool].free[class], size);
    ft_block *common = ft_tree_at_least(a->pools[FT_ANY_STREAM].free[class], size);
    ft_block *best = own == NULL || (common != NULL && ft_block_before(common, own)) ? common : own;
    return best != NULL && spared(a, best, size) ? NULL : best; // the larger ones would waste even more
}

ft_status ft_allocator_take(ft_allocator *a, size_t bytes, int stream, ft_block **block, bool *by_limit) {
    bool ignored;
    if (by_limit == NULL) by_limit = &ignored;
    *block = NULL;
    *by_limit = false;
    if (bytes > a->options.limit) {
        *by_limit = true;
        return FT_NO_MEMORY;
    }
    size_t size = bytes > 0 ? ft_round_up(bytes, FT_ALLOCATOR_GRANULE) : FT_ALLOCATOR_GRANULE;
    int class = size <= FT_ALLOCATOR_SMALL ? FT_CLASS_SMALL : FT_CLASS_LARGE;
    int32_t pool = find_pool(a, stream);
    if (pool < 0) return FT_NO_MEMORY;
    FT_TRY(ft_blocks_spare(a, 1)); // for the rest: from here on only growth can fail, and it leaves one spare
    ft_block *found = best_fit(a, size, pool, class);
    if (found == NULL) FT_TRY(ft_allocator_grow(a, size, pool, class, &found, by_limit));
    ft_block_unlist(a, found);
    found->used = ++a->clock;
    if (splits(a, found, size)) ft_block_list(a, ft_block_cut(a, found, size));
    found->state = FT_BLOCK_LIVE;
    found->pool = pool;
    found->requested = bytes;
    ft_segment_live(a, found->segment, found->segment->live + 1);
    ft_allocator_counters *c = &a->counters;
    c->live_blocks++;
    c->allocated += found->size;
    if (c->allocated > c->peak_allocated) c->peak_allocated = c->allocated;
    *block = found;
    return FT_OK;
}

void ft_allocator_give(ft_allocator *a, ft_block *block) {
    if (block == NULL) return;
    assert(block->segment != NULL && block->state == FT_BLOCK_LIVE);
    a->counters.live_blocks--;
    a->counters.allocated -= block->size;
    ft_segment_live(a, block->segment, block->segment->live - 1);
    block->state = FT_BLOCK_LOOSE;
    block->used = ++a->clock;
    ft_block_settle(a, block);
}

void *ft_allocator_data(const ft_block *block) { return block->segment->base + block->offset; }
size_t ft_allocator_size(const ft_block *block) { return block->size; }

// ---- the rest ---------------------------------------------------------------------------------------------------

void ft_allocator_trim(ft_allocator *a) {
    ft_error before;
    ft_error_save(&before);
    for (ft_block *first = a->oldest, *newer; first != NULL; first = newer) {
        newer = first->newer;
        size_t released;
        // Only a host without memory for a struct can refuse: the run stays cached.
        if (ft_run_release(a, first, SIZE_MAX, &released) != FT_OK) ft_error_restore(&before);
    }
}

const size_t *ft_allocator_extent(const ft_allocator *a) { return a->extent; }

void ft_allocator_expect(ft_allocator *a, const size_t extent[FT_ALLOCATOR_CLASSES]) {
    for (int i = 0; i < FT_CLASSES; i++) a->expected[i] = extent[i];
}

void ft_allocator_join(ft_allocator *a) {
    for (ft_segment *segment = a->first_segment; segment != NULL; segment = segment->next) {
        for (ft_block *block = segment->first; block != NULL; block = block->next) {
            if (block->state != FT_BLOCK_FREE || block->pool == FT_ANY_STREAM) continue;
            ft_block_unlist(a, block);
            block->pool = FT_ANY_STREAM;
            block = ft_block_settle(a, block);
        }
    }
}

ft_allocator_counters ft_allocator_read(const ft_allocator *a) {
    ft_allocator_counters counters = a->counters;
    for (int32_t i = 0; i < a->pool_count; i++) {
        for (int class = 0; class < FT_CLASSES; class ++) {
            const ft_block *block = a->pools[i].free[class];
            while (block != NULL && block->right != NULL)
                block = block->right;
            if (block != NULL && block->size > counters.largest_free) counters.largest_free = block->size;
        }
    }
    return counters;
}
