// allocator.h - the caching allocator: blocks cut from segments of a device, kept for reuse. It knows bytes and streams;
// what the bytes are for is the meter's business (memory.h).
//
// Words. A segment is what the device gave (a buffer, or the committed part of a virtual range). A block is a piece of
// a segment, live or free; the blocks of a segment lie end to end. "Allocated" is the sum of the live blocks, "reserved"
// the sum of the segments, as users of such allocators know them.
//
// Invariants (ft_allocator_check tests them all):
//  1. Every block is a multiple of FT_ALLOCATOR_GRANULE bytes, at a multiple of FT_ALLOCATOR_GRANULE from a 256-byte aligned
//     segment start. A live block is at least as large as its request; without splitting limits it is exactly the
//     rounded request.
//  2. The blocks of a segment cover it without gap and overlap.
//  3. No two free neighbours of one stream in one segment: freeing merges at once.
//  4. allocated <= reserved <= limit; both equal the sums over blocks and segments.
//  5. A request of a class is only ever served from a segment of its class: requests up to FT_ALLOCATOR_SMALL from segments
//     of FT_ALLOCATOR_SMALL_SEGMENT bytes, larger ones from segments of their own size rounded up to FT_ALLOCATOR_ROUND.
//  6. Best fit: the smallest free block of the stream that is large enough; among equals the one with the lowest
//     address ORDER (segment number, then offset): addresses themselves never decide anything.
//  7. A free block larger than max_split_size is never split for a request that is smaller than max_split_size, nor
//     given whole to one, if it would waste more than FT_ALLOCATOR_SPLIT_WASTE; blocks are otherwise split whenever the
//     rest is at least one granule (small class) or FT_ALLOCATOR_LARGE_REST (large class).
//  8. Decisions depend on the sequence of calls and on the options alone: never on time, events or addresses. The same
//     sequence of calls from an allocator whose free segments were all released behaves the same every time.
//  9. When the limit or the device refuses a new segment, free segments are released first, oldest use first and no
//     more than needed (garbage_collection_threshold does so earlier), and the request is tried once more. A request
//     that fails leaves blocks and counters as they were, but for released free segments.
// 10. A block freed on a stream is reused by that stream alone, in its order, until ft_allocator_join.
#ifndef FT_ALLOCATOR_H
#define FT_ALLOCATOR_H

#include "kernels/backend.h"

enum {
    FT_ALLOCATOR_GRANULE = 512,
    FT_ALLOCATOR_SMALL = 1 << 20,          // largest request of the small class
    FT_ALLOCATOR_SMALL_SEGMENT = 2 << 20,
    FT_ALLOCATOR_ROUND = 2 << 20,          // segments of the large class are multiples of this
    FT_ALLOCATOR_LARGE_REST = 1 << 20,     // a smaller rest stays with its block
    FT_ALLOCATOR_SPLIT_WASTE = 20 << 20,
};

typedef struct ft_allocator_options {
    size_t limit;          // most that may be reserved; 0: the device's total_bytes
    size_t max_split_size; // bytes; 0: no limit (blocks of every size may be split)
    bool expandable_segments; // one growing virtual range a stream and class; FT_INVALID where the device has none
    double garbage_collection_threshold; // share of the limit above which free segments are released before a new one
                                         // is taken; 0: only when there is no other way
} ft_allocator_options;

typedef struct ft_allocator ft_allocator;
typedef struct ft_block ft_block;

typedef struct ft_allocator_counters {
    size_t allocated, reserved, peak_allocated, peak_reserved;
    size_t inactive_split; // free bytes in segments that also hold live blocks
    size_t largest_free;   // largest free block
    size_t segments, live_blocks;
    uint64_t device_allocations, device_frees, released_for_retry; // calls so far
} ft_allocator_counters;

ft_status ft_allocator_create(ft_device *device, const ft_allocator_options *options, ft_allocator **allocator);
void ft_allocator_close(ft_allocator *allocator); // gives every segment back, live blocks included; NULL is fine

// bytes == 0 gives a block of one granule. FT_NO_MEMORY without an error text from here (the meter writes it) when
// limit or device refuse: *by_limit (may be NULL) then says whether the limit did. Errors of the device other than
// FT_NO_MEMORY pass through.
ft_status ft_allocator_take(ft_allocator *allocator, size_t bytes, int stream, ft_block **block, bool *by_limit);
void ft_allocator_give(ft_allocator *allocator, ft_block *block); // NULL is fine
void *ft_allocator_data(const ft_block *block);
size_t ft_allocator_size(const ft_block *block); // rounded bytes

// Gives every segment without a live block back to the device (of an expandable range: every whole free page).
void ft_allocator_trim(ft_allocator *allocator);
// All streams have been synchronised with each other: free blocks may serve any stream from now on.
void ft_allocator_join(ft_allocator *allocator);
ft_allocator_counters ft_allocator_read(const ft_allocator *allocator);
// FT_FAILED naming the invariant that does not hold. For tests.
ft_status ft_allocator_check(const ft_allocator *allocator);

#endif
