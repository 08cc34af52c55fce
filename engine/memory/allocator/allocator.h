// allocator.h - the caching allocator: blocks cut from segments of a device, kept for reuse. It knows bytes and
// streams; what the bytes are for is the meter's business (memory.h).
//
// Words. A segment is what the device gave (a buffer, or the committed part of a virtual range). A block is a piece of
// a segment, live or free; the blocks of a segment lie end to end. "Allocated" is the sum of the live blocks,
// "reserved" the sum of the segments, as users of such allocators know them.
//
// Invariants (ft_allocator_check tests what a state can show of them):
//  1. Every block is a multiple of FT_ALLOCATOR_GRANULE bytes, at a multiple of it from a 256-byte aligned segment
//     start. A live block is at least as large as its request; it is larger than the rounded request only by what 7
//     keeps together.
//  2. The blocks of a segment cover it without gap and overlap. (A virtual range has holes among them: whole pages of
//     addresses without memory, which count nowhere. Where pages come in pieces, kernels/ops/range_pieces.h, a piece is
//     there as a whole or not at all; one that has a byte in use is there, and counts.)
//  3. No two free neighbours of one stream in one segment: freeing merges at once.
//  4. allocated <= reserved <= limit; both equal the sums over blocks and segments.
//  5. A request of a class is only ever served from a segment of its class: requests up to FT_ALLOCATOR_SMALL from
//     segments of FT_ALLOCATOR_SMALL_SEGMENT bytes, larger ones from segments of their own size rounded up to
//     FT_ALLOCATOR_ROUND. A range grows by whole pages, no more than the request lacks.
//  6. Best fit: the smallest free block of the stream that is large enough; among equals the one with the lowest
//     address ORDER (segment number, then offset): addresses themselves never decide anything. A range grows where that
//     takes the fewest new pages, the lowest place among equals.
//  7. A free block larger than max_split_size is never split for a request that is smaller than max_split_size, nor
//     given whole to one, if it would waste more than FT_ALLOCATOR_SPLIT_WASTE; blocks are otherwise split whenever the
//     rest is at least one granule (small class, and ranges) or FT_ALLOCATOR_LARGE_REST (large class).
//  8. Decisions depend on the sequence of calls and on the options alone: never on time, events or addresses. The same
//     sequence of calls from an allocator whose free segments were all released behaves the same every time.
//  9. When the limit or the device refuses new memory, free segments (of ranges: whole free pages or pieces, from the end
//     of a block) are released first, oldest use first and no more than needed (garbage_collection_threshold does so
//     earlier), and the request is tried again, until it is met or nothing is left to release. What would not help is
//     not released: a limit that refuses even without any free segment refuses at once. A request that fails leaves
//     blocks and counters as they were, but for released free segments.
// 10. A block freed on a stream is reused by that stream alone, in its order, until ft_allocator_join. Joined memory
//     belongs to every stream; it falls to the one whose freed block merges with it. Memory goes back to the device
//     whatever streams freed it: the device's buffer_free and range_decommit wait for work that is queued.
#ifndef FT_ALLOCATOR_H
#define FT_ALLOCATOR_H

#include "kernels/ops/device.h"

enum {
    FT_ALLOCATOR_GRANULE = 512,
    FT_ALLOCATOR_SMALL = 1 << 20,          // largest request of the small class
    FT_ALLOCATOR_SMALL_SEGMENT = 2 << 20,
    FT_ALLOCATOR_ROUND = 2 << 20,          // segments of the large class are multiples of this
    FT_ALLOCATOR_LARGE_REST = 1 << 20,     // a smaller rest stays with its block
    FT_ALLOCATOR_SPLIT_WASTE = 20 << 20,
    FT_ALLOCATOR_CLASSES = 2, // small and large requests
};

typedef struct ft_allocator_options {
    size_t limit;          // most that may be reserved; 0: the device's total_bytes
    size_t max_split_size; // bytes, >= FT_ALLOCATOR_SMALL_SEGMENT; 0: no limit (blocks of every size may be split)
    bool expandable_segments; // one growing virtual range a stream and class (a second one when its addresses run
                              // out); FT_INVALID where the device has none, and with max_split_size
    double garbage_collection_threshold; // [0, 1): share of the limit above which free segments are released before a
                                         // new one is taken; 0: only when there is no other way
} ft_allocator_options;

typedef struct ft_allocator ft_allocator;
typedef struct ft_block ft_block;

typedef struct ft_allocator_counters {
    size_t allocated, reserved, peak_allocated, peak_reserved;
    size_t inactive_split; // free bytes in segments that also hold live blocks
    size_t largest_free;   // largest free block
    size_t segments, live_blocks;
    uint64_t device_allocations, device_frees, released_for_retry; // done so far; the last are among the frees
} ft_allocator_counters;

ft_status ft_allocator_create(ft_device *device, const ft_allocator_options *options, ft_allocator **allocator);
void ft_allocator_close(ft_allocator *allocator); // gives every segment back, live blocks included; NULL is fine

// bytes == 0 gives a block of one granule. FT_NO_MEMORY when limit or device refuse: *by_limit (may be NULL) then says
// whether the limit did. No error text is made here (the meter writes it): after the limit there is none, after the
// device its own, after the host - no memory for bookkeeping - ft_calloc's. Other errors of the device pass through.
ft_status ft_allocator_take(ft_allocator *allocator, size_t bytes, int stream, ft_block **block, bool *by_limit);
void ft_allocator_give(ft_allocator *allocator, ft_block *block); // NULL is fine
void *ft_allocator_data(const ft_block *block);
size_t ft_allocator_size(const ft_block *block); // rounded bytes

// Gives every segment without a live block back to the device (of an expandable range: every whole free page or piece).
void ft_allocator_trim(ft_allocator *allocator);
// Of the ranges for small and for large requests: where the last page that was ever committed ended.
const size_t *ft_allocator_extent(const ft_allocator *allocator);
// What a plan of the same requests saw of that: where addresses are scarce, ranges are made so large.
void ft_allocator_expect(ft_allocator *allocator, const size_t extent[FT_ALLOCATOR_CLASSES]);
// All streams have been synchronised with each other: free blocks may serve any stream from now on.
void ft_allocator_join(ft_allocator *allocator);
ft_allocator_counters ft_allocator_read(const ft_allocator *allocator);
// FT_FAILED naming the invariant that does not hold. For tests.
ft_status ft_allocator_check(const ft_allocator *allocator);

#endif
