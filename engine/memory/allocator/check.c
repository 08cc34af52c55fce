// check.c - the invariants of allocator.h, as far as a state can show them, and the books behind them.
#include "engine/memory/allocator/internal.h"

typedef struct sums {
    size_t allocated, reserved, inactive_split, segments, live_blocks, free_blocks, releasable, runs;
} sums;

#define FAIL(number, ...) return ft_fail(FT_FAILED, "allocator invariant " number, __VA_ARGS__)
#define BOOKS(...) return ft_fail(FT_FAILED, "allocator books", __VA_ARGS__)

static bool multiple(size_t n, size_t unit) { return n % unit == 0; }

static ft_status check_block(const ft_allocator *a, const ft_segment *s, const ft_block *b) {
    if (b->state == FT_BLOCK_LOOSE) BOOKS("a block at %zu is loose", b->offset);
    if (b->size == 0 || !multiple(b->size, FT_ALLOCATOR_GRANULE) || !multiple(b->offset, FT_ALLOCATOR_GRANULE))
        FAIL("1", "segment %ju has a block of %zu bytes at %zu", (uintmax_t)s->number, b->size, b->offset);
    if (b->state == FT_BLOCK_HOLE) {
        if (s->page == 0 || !multiple(b->offset, s->page) || !multiple(b->size, s->page))
            FAIL("2", "segment %ju has a hole of %zu bytes at %zu", (uintmax_t)s->number, b->size, b->offset);
        if (b->next != NULL && b->next->state == FT_BLOCK_HOLE)
            FAIL("3", "segment %ju has two holes side by side at %zu", (uintmax_t)s->number, b->next->offset);
        for (size_t at = b->offset; at <= b->offset + b->size && at / s->page < s->table; at += s->page)
            if (ft_pieces_cut(s, at / s->page))
                FAIL("2", "segment %ju has half a piece at %zu, where a hole is", (uintmax_t)s->number, at);
        return FT_OK;
    }
    if (b->state == FT_BLOCK_FREE) {
        bool free_next = b->next != NULL && b->next->state == FT_BLOCK_FREE;
        if (free_next && (b->pool == FT_ANY_STREAM || ft_block_usable(b->next, b->pool)))
            FAIL("3", "segment %ju has two free blocks side by side at %zu", (uintmax_t)s->number, b->next->offset);
        return FT_OK;
    }
    size_t size = b->requested > 0 ? ft_round_up(b->requested, FT_ALLOCATOR_GRANULE) : FT_ALLOCATOR_GRANULE;
    if (b->size < size) FAIL("1", "%zu bytes were asked for, the block has %zu", b->requested, b->size);
    if ((size > FT_ALLOCATOR_SMALL) != (s->class == FT_CLASS_LARGE))
        FAIL("5", "%zu bytes lie in a segment of the other class", b->requested);
    size_t most = a->options.max_split_size, rest = b->size - size;
    bool whole = most > 0 && b->size > most && size < most;
    size_t allowed = whole ? FT_ALLOCATOR_SPLIT_WASTE : FT_ALLOCATOR_LARGE_REST - 1;
    if (s->page > 0 || s->class == FT_CLASS_SMALL) allowed = 0;
    if (rest > allowed) FAIL("7", "a block of %zu bytes serves a request of %zu", b->size, b->requested);
    return FT_OK;
}

static ft_status check_segment(const ft_allocator *a, const ft_segment *s, sums *out) {
    size_t at = 0, holes = 0, free_bytes = 0, live = 0, listed = 0;
    if ((uintptr_t)s->base % 256 != 0) FAIL("1", "segment %ju begins at %p", (uintmax_t)s->number, (void *)s->base);
    const ft_block *previous = NULL;
    for (const ft_block *b = s->first; b != NULL; previous = b, b = b->next) {
        if (b->segment != s || b->previous != previous)
            BOOKS("a block at %zu has other neighbours than it knows", b->offset);
        if (b->offset != at)
            FAIL("2", "segment %ju: a block begins at %zu, the one before ends at %zu", (uintmax_t)s->number, b->offset,
                 at);
        FT_TRY(check_block(a, s, b));
        at += b->size;
        switch (b->state) {
        case FT_BLOCK_HOLE: holes += b->size; break;
        case FT_BLOCK_FREE:
            free_bytes += b->size;
            out->free_blocks++;
            if (previous != NULL && previous->state == FT_BLOCK_FREE) break; // within a run
            if (b->run_bytes != ft_run_releasable(b)) BOOKS("the run at %zu counts %zu bytes", b->offset, b->run_bytes);
            out->releasable += b->run_bytes;
            out->runs += b->run_bytes > 0;
            break;
        case FT_BLOCK_LIVE:
            live++;
            out->allocated += b->size;
            break;
        case FT_BLOCK_LOOSE: break; // refused above
        }
    }
    if (at != s->size) FAIL("2", "segment %ju has %zu bytes, its blocks %zu", (uintmax_t)s->number, s->size, at);
    for (const ft_block *hole = s->holes; hole != NULL; hole = hole->right) {
        if (hole->state != FT_BLOCK_HOLE || hole->segment != s)
            BOOKS("a block at %zu is listed as a hole", hole->offset);
        listed += hole->size;
    }
    if (listed != holes) BOOKS("%zu bytes of holes are listed, %zu are there", listed, holes);
    if (s->committed != s->size - holes || s->free != free_bytes || s->live != live)
        BOOKS("segment %ju counts %zu committed, %zu free bytes, %zu live blocks", (uintmax_t)s->number, s->committed,
              s->free, s->live);
    size_t rounded = s->class == FT_CLASS_SMALL ? FT_ALLOCATOR_SMALL_SEGMENT : ft_round_up(s->size, FT_ALLOCATOR_ROUND);
    if (s->page == 0 && s->size != rounded)
        FAIL("5", "segment %ju has %zu bytes, its class %zu", (uintmax_t)s->number, s->size, rounded);
    out->reserved += s->committed;
    if (live > 0) out->inactive_split += free_bytes;
    out->live_blocks += live;
    out->segments++;
    return FT_OK;
}

// Order of sizes and of priorities, in a walk over the tree; *last is the block before in the order.
static ft_status check_tree(const ft_block *b, int32_t pool, int class, const ft_block **last, size_t *count) {
    if (b == NULL) return FT_OK;
    FT_TRY(check_tree(b->left, pool, class, last, count));
    if (b->state != FT_BLOCK_FREE || b->pool != pool || b->segment->class != class)
        FAIL("10", "a block at %zu is listed where it does not belong", b->offset);
    if (*last != NULL && !ft_block_before(*last, b)) FAIL("6", "a block of %zu bytes is out of order", b->size);
    if ((b->left != NULL && b->left->priority > b->priority) || (b->right != NULL && b->right->priority > b->priority))
        BOOKS("the tree over a block of %zu bytes has lost its shape", b->size);
    *last = b;
    ++*count;
    return check_tree(b->right, pool, class, last, count);
}

ft_status ft_allocator_check(const ft_allocator *a) {
    sums found = {0};
    const ft_segment *previous = NULL;
    for (const ft_segment *s = a->first_segment; s != NULL; previous = s, s = s->next) {
        if (s->previous != previous || s->number >= a->next_number ||
            (previous != NULL && previous->number >= s->number))
            BOOKS("segment %ju is out of order", (uintmax_t)s->number);
        FT_TRY(check_segment(a, s, &found));
    }
    size_t count = 0;
    for (int32_t i = 0; i < a->pool_count; i++) {
        for (int class = 0; class < FT_CLASSES; class ++) {
            const ft_block *last = NULL;
            FT_TRY(check_tree(a->pools[i].free[class], i, class, &last, &count));
        }
    }
    if (count != found.free_blocks) FAIL("6", "%zu free blocks are listed, %zu are there", count, found.free_blocks);
    size_t listed = 0;
    for (const ft_block *b = a->oldest; b != NULL; b = b->newer, listed++) {
        if (b->state != FT_BLOCK_FREE || b->run_bytes == 0) BOOKS("nothing at %zu could be released", b->offset);
        uint64_t used = 0;
        for (const ft_block *part = b; part != NULL && part->state == FT_BLOCK_FREE; part = part->next)
            if (used < part->used) used = part->used;
        bool ordered = b->newer != NULL ? b->newer->older == b && b->newer->run_used >= used : a->newest == b;
        if (used != b->run_used || !ordered) FAIL("9", "the run at %zu is out of the order of use", b->offset);
    }
    const ft_allocator_counters *c = &a->counters;
    if (listed != found.runs || a->releasable != found.releasable)
        BOOKS("%zu bytes in %zu runs count as releasable, %zu in %zu are", a->releasable, listed, found.releasable,
              found.runs);
    if (c->allocated != found.allocated || c->reserved != found.reserved)
        FAIL("4", "counted %zu allocated, %zu reserved; there are %zu and %zu", c->allocated, c->reserved,
             found.allocated, found.reserved);
    if (c->allocated > c->reserved || c->reserved > a->options.limit || c->peak_allocated < c->allocated ||
        c->peak_reserved < c->reserved || c->peak_reserved > a->options.limit)
        FAIL("4", "%zu allocated (peak %zu), %zu reserved (peak %zu), limit %zu", c->allocated, c->peak_allocated,
             c->reserved, c->peak_reserved, a->options.limit);
    if (c->inactive_split != found.inactive_split || c->segments != found.segments ||
        c->live_blocks != found.live_blocks)
        BOOKS("counted %zu inactive bytes, %zu segments, %zu live blocks; there are %zu, %zu, %zu", c->inactive_split,
              c->segments, c->live_blocks, found.inactive_split, found.segments, found.live_blocks);
    return FT_OK;
}
