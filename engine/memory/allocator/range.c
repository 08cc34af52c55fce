// range.c - segments that are virtual ranges: addresses for as much as the limit allows, memory behind them
// page by page. Free memory at the end of what is there grows into a larger block, where a buffer would have to be kept
// beside a new one; and whole pages (whole pieces, pieces.c) inside a free block go back to the device while their
// neighbours stay in use.
//
// A range begins as one hole. Memory fills a hole from its start, so that it joins a free block before it; it is given
// back from the end of a free block, so that between two live blocks there is a free part, a hole, and at most the end
// of a page.
#include "base/arena.h"
#include "engine/memory/allocator/internal.h"

#include <stdlib.h>

static void hole_list(ft_block *hole) {
    hole->state = FT_BLOCK_HOLE;
    hole->left = NULL;
    hole->right = hole->segment->holes;
    hole->segment->holes = hole;
}

static void hole_unlist(ft_block *hole) {
    ft_block **at = &hole->segment->holes;
    while (*at != hole)
        at = &(*at)->right;
    *at = hole->right;
    hole->right = NULL;
}

static size_t growth_cost(const ft_growth *g, bool tight) { return g->bytes + (tight ? g->kept : 0); }

// The growth into that hole. bytes == 0: the place is too small.
static ft_growth fill_hole(ft_block *hole, size_t size, int32_t pool) {
    ft_growth g = {.hole = hole};
    size_t have = 0;
    if (ft_block_usable(hole->previous, pool)) {
        g.left = hole->previous;
        have = g.left->size;
        g.kept = ft_run_first(g.left)->run_bytes;
    }
    g.bytes = ft_round_up(size - have, hole->segment->page);
    if (g.bytes <= hole->size) return g;
    if (!ft_block_usable(hole->next, pool) || have + hole->size + hole->next->size < size) return (ft_growth){0};
    g.bytes = hole->size;
    g.right = hole->next;
    g.kept += g.right->run_bytes; // behind a hole a run begins
    return g;
}

ft_growth ft_range_plan(const ft_allocator *a, size_t size, int32_t pool, int class, bool tight) {
    ft_growth best = {0}, fresh = {.bytes = ft_round_up(size, a->page)};
    for (const ft_segment *segment = a->first_segment; segment != NULL; segment = segment->next) {
        if (segment->class != class || segment->pool != pool) continue;
        for (ft_block *hole = segment->holes; hole != NULL; hole = hole->right) {
            ft_growth g = fill_hole(hole, size, pool);
            if (g.bytes == 0) continue;
            if (best.bytes > 0) {
                size_t cost = growth_cost(&g, tight), least = growth_cost(&best, tight);
                bool lower = best.hole->segment == segment && hole->offset < best.hole->offset;
                if (cost > least || (cost == least && !lower)) continue;
            }
            best = g;
        }
    }
    return best.bytes == 0 || (tight && fresh.bytes < growth_cost(&best, tight)) ? fresh : best;
}

// Addresses for a range: as many as the limit allows, for they cost nothing. Where they are scarce (RLIMIT_AS), what the plan of
// the same requests took, so that the range is as good as an endless one; without a plan a quarter of what is there, since
// others come for theirs. A range that gets full is followed by another.
static size_t addresses_for(const ft_allocator *a, size_t least, int class) {
    const ft_device_functions *device = a->device->functions;
    const size_t most = ft_round_up(a->options.limit, a->page);
    const size_t room = device->range_room != NULL ? device->range_room(a->device) : SIZE_MAX;
    if (room == SIZE_MAX) return most;
    const size_t wanted = a->expected[class] > 0 ? ft_round_up(a->expected[class], a->page) : room / 4 / a->page * a->page;
    return wanted < least ? least : wanted < most ? wanted : most;
}

// The range, smaller where so many addresses cannot be had: as large as the plan's, then for this one request.
static ft_status reserve(ft_allocator *a, size_t least, ft_segment *segment, void **base) {
    const ft_device_functions *device = a->device->functions;
    const size_t planned = ft_round_up(a->expected[segment->class], a->page),
                 smaller[] = {planned > least ? planned : least, least};
    size_t page; // known since ft_allocator_create
    ft_error before;
    ft_error_save(&before);
    ft_status status = device->range_reserve(a->device, segment->size, base, &page);
    for (int i = 0; i < 2 && status == FT_NO_MEMORY && device->range_room != NULL; i++) {
        if (smaller[i] >= segment->size) continue;
        ft_error_restore(&before);
        segment->size = smaller[i];
        status = device->range_reserve(a->device, segment->size, base, &page);
    }
    return status;
}

// Another range for that pool and class, all hole and not yet linked. The limit bounds every request, so each fits in a
// fresh range.
static ft_status range_open(ft_allocator *a, size_t bytes, int32_t pool, int class, ft_segment **out) {
    ft_segment *segment = ft_calloc(1, sizeof *segment, "the allocator's segments");
    if (segment == NULL) return FT_NO_MEMORY;
    *segment = (ft_segment){.size = addresses_for(a, bytes, class), .page = a->page, .pool = pool, .class = class};
    void *base = NULL;
    ft_status status = reserve(a, bytes, segment, &base);
    if (status != FT_OK) {
        free(segment);
        return status;
    }
    segment->base = base;
    segment->first = ft_block_new(a, segment, 0, segment->size);
    hole_list(segment->first);
    *out = segment;
    return FT_OK;
}

ft_status ft_range_grow(ft_allocator *a, const ft_growth *growth, int32_t pool, int class, ft_block **block) {
    FT_TRY(ft_blocks_spare(a, 3)); // the block of a new range, the rest of the hole, the rest that the request leaves
    ft_segment *fresh = NULL;
    ft_block *hole = growth->hole;
    if (hole == NULL) {
        FT_TRY(range_open(a, growth->bytes, pool, class, &fresh));
        hole = fresh->first;
    }
    ft_segment *segment = hole->segment;
    ft_status status = ft_pieces_spare(a, segment, hole->offset + growth->bytes);
    if (status == FT_OK)
        status = a->device->functions->range_commit(a->device, segment->base, hole->offset, growth->bytes);
    if (status != FT_OK) {
        if (fresh != NULL) {
            a->device->functions->range_release(a->device, fresh->base, fresh->size);
            ft_block_drop(a, hole);
            free(fresh->inside);
            free(fresh);
        }
        return status;
    }
    if (fresh != NULL) ft_segment_link(a, fresh);
    ft_pieces_commit(a, segment, hole->offset, growth->bytes);
    segment->committed += growth->bytes;
    ft_count_reserved(a, growth->bytes);
    size_t *extent = &a->extent[class];
    if (hole->offset + growth->bytes > *extent) *extent = hole->offset + growth->bytes;
    hole_unlist(hole);
    if (growth->bytes < hole->size) hole_list(ft_block_cut(a, hole, growth->bytes));
    hole->state = FT_BLOCK_LOOSE;
    hole->pool = pool;
    hole->used = ++a->clock;
    *block = ft_block_settle(a, hole);
    return FT_OK;
}

ft_status ft_range_shrink(ft_allocator *a, ft_block *first, size_t need, size_t *released) {
    FT_TRY(ft_blocks_spare(a, 2)); // the hole, and the part of a page behind it
    ft_segment *segment = first->segment;
    size_t begin = ft_pieces_up(segment, first->offset), end = begin + first->run_bytes;
    if (need < first->run_bytes) begin = ft_pieces_down(segment, end - ft_round_up(need, segment->page));
    const size_t bytes = end - begin;
    a->device->functions->range_decommit(a->device, segment->base, begin, bytes);
    ft_pieces_decommit(segment, begin, bytes);
    segment->committed -= bytes;
    ft_count_released(a, bytes);
    *released = bytes;

    ft_block *hole = first;
    while (hole->offset + hole->size <= begin)
        hole = hole->next;
    ft_block_unlist(a, hole);
    if (hole->offset < begin) {
        ft_block *before = hole;
        hole = ft_block_cut(a, before, begin - before->offset);
        ft_block_list(a, before);
    }
    while (hole->offset + hole->size < end) {
        ft_block *next = hole->next;
        ft_block_unlist(a, next);
        if (next->offset + next->size > end) ft_block_list(a, ft_block_cut(a, next, end - next->offset));
        ft_block_join_next(a, hole);
    }
    if (hole->offset + hole->size > end) ft_block_list(a, ft_block_cut(a, hole, end - hole->offset));
    if (hole->next != NULL && hole->next->state == FT_BLOCK_HOLE) {
        hole_unlist(hole->next);
        ft_block_join_next(a, hole);
    }
    if (hole->previous != NULL && hole->previous->state == FT_BLOCK_HOLE) {
        hole = hole->previous;
        hole_unlist(hole);
        ft_block_join_next(a, hole);
    }
    hole_list(hole);
    if (segment->committed == 0) { // addresses alone would keep a number, and with it a past
        ft_block_drop(a, hole);
        a->device->functions->range_release(a->device, segment->base, segment->size);
        ft_segment_unlink(a, segment);
    }
    return FT_OK;
}

void ft_range_close(ft_allocator *a, ft_segment *segment) {
    const ft_device_functions *device = a->device->functions;
    size_t begin = 0; // of a stretch with memory; holes begin and end with pages
    for (const ft_block *block = segment->first; block != NULL; block = block->next) {
        if (block->state != FT_BLOCK_HOLE) continue;
        if (block->offset > begin) device->range_decommit(a->device, segment->base, begin, block->offset - begin);
        begin = block->offset + block->size;
    }
    if (segment->size > begin) device->range_decommit(a->device, segment->base, begin, segment->size - begin);
    device->range_release(a->device, segment->base, segment->size);
}
