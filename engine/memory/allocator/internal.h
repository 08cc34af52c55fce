// internal.h - the caching allocator's own view of its blocks; for its files, its tests, and nobody else.
//
//     requests.c  best fit, splitting, giving back
//     grow.c      memory from the device and back to it: limit, retry, garbage collection; buffers
//     range.c     the same for a virtual range that gets its memory page by page; pieces.c pages that go back together
//     blocks.c    what all of them do to blocks: cut, merge, list as free
//     tree.c      free blocks in order of size
//     check.c     the invariants
#ifndef FT_ALLOCATOR_INTERNAL_H
#define FT_ALLOCATOR_INTERNAL_H

#include "engine/memory/allocator/allocator.h"

#include <stdint.h>

enum { FT_CLASS_SMALL, FT_CLASS_LARGE, FT_CLASSES = FT_ALLOCATOR_CLASSES };
enum { FT_ANY_STREAM = 0 }; // the pool of free blocks that ft_allocator_join has made common property

typedef enum ft_block_state {
    FT_BLOCK_FREE,
    FT_BLOCK_LIVE,
    FT_BLOCK_HOLE,  // addresses of a virtual range without memory
    FT_BLOCK_LOOSE, // free and in no list: only inside of a function
} ft_block_state;

// A run is a stretch of free neighbours, which may belong to different streams and therefore are blocks of their own.
// For giving memory back to the device that makes no difference: it waits for all streams.

typedef struct ft_segment ft_segment;

struct ft_block {
    ft_segment *segment;
    size_t offset, size;       // bytes in the segment
    size_t requested;          // live: as asked for
    ft_block *previous, *next; // neighbours in the segment
    ft_block *left, *right;    // free: in the tree of its pool and class. Spare structs and holes: a list over right
    uint64_t used;             // clock of the last take or give that touched it
    ft_block *older, *newer;   // first block of a run with run_bytes > 0: in order of run_used
    size_t run_bytes;          // first block of a run: what could be given back to the device
    uint64_t run_used;         // first block of a run: last use of any of its blocks
    uint32_t priority;         // of the tree; random, fixed for life, decides nothing but its shape
    int32_t pool;              // index of the stream it serves, FT_ANY_STREAM when free and joined
    ft_block_state state;
};

struct ft_segment {
    ft_segment *previous, *next; // by number
    uint64_t number;             // counts up; starts anew when nothing is left
    char *base;
    size_t size;      // bytes of addresses
    size_t committed; // bytes with memory behind them; size but in a range
    size_t free;      // free bytes among them
    size_t live;      // live blocks
    ft_block *first;
    ft_block *holes; // of a range
    size_t page;     // of a range, else 0
    unsigned char *inside; // of a range with pieces, `table` pages: is that page inside of one, and not its first?
    size_t table;
    int32_t pool;    // the stream for which it was made
    int class;
};

typedef struct ft_stream_pool {
    int stream;
    ft_block *free[FT_CLASSES]; // trees
} ft_stream_pool;

struct ft_allocator {
    ft_device *device;
    ft_allocator_options options; // limit resolved
    size_t collect_above;         // bytes; garbage_collection_threshold x limit, or the limit
    size_t page;                  // of ranges, 0 without them
    size_t piece;                 // of ranges whose pages do not all go back one by one, else 0
    size_t extent[FT_CLASSES];    // largest of ranges so far
    size_t expected[FT_CLASSES];  // largest that will be; 0: nobody said
    ft_segment *first_segment, *last_segment;
    ft_stream_pool *pools;
    int32_t pool_count;
    ft_block *oldest, *newest; // runs of which something can be given back
    size_t releasable;         // bytes that would come of it
    ft_block *spare;           // unused structs
    size_t spare_count;
    struct ft_block_chunk *chunks;
    uint64_t next_number, clock;
    uint32_t random;
    ft_allocator_counters counters; // but for largest_free
};

static inline size_t ft_round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// ---- tree.c: by size, then segment number, then offset ----
void ft_tree_insert(ft_block **root, ft_block *block);
void ft_tree_remove(ft_block **root, ft_block *block);      // must be in it
ft_block *ft_tree_at_least(ft_block *root, size_t size);    // the first in order that is large enough, or NULL
bool ft_block_before(const ft_block *a, const ft_block *b); // the order

// ---- blocks.c ----
// At least so many structs are at hand afterwards. FT_NO_MEMORY with the host's error text.
ft_status ft_blocks_spare(ft_allocator *a, size_t count);
void ft_blocks_free(ft_allocator *a);
ft_block *ft_block_new(ft_allocator *a, ft_segment *segment, size_t offset, size_t size); // one must be spare
void ft_block_drop(ft_allocator *a, ft_block *block);                                     // back to the spare ones
// Cuts a block that is not listed after `size` bytes; the new block behind it is of the same kind. One must be spare.
ft_block *ft_block_cut(ft_allocator *a, ft_block *block, size_t size);
// `block` grows over its next neighbour, whose struct is dropped. Neither is listed.
void ft_block_join_next(ft_allocator *a, ft_block *block);
// A loose block becomes a free one in its tree and its run (a free block becomes loose).
void ft_block_list(ft_allocator *a, ft_block *block);
void ft_block_unlist(ft_allocator *a, ft_block *block);
// A loose block becomes free memory of its pool: merges with the free neighbours that its pool may use, and is listed.
ft_block *ft_block_settle(ft_allocator *a, ft_block *block);
bool ft_block_usable(const ft_block *block, int32_t pool);    // free, and of that pool or of any; NULL is not
ft_block *ft_run_first(ft_block *block);                      // of the run of a free block
size_t ft_run_releasable(const ft_block *first);              // computed; run_bytes keeps it
void ft_segment_link(ft_allocator *a, ft_segment *segment);   // numbers it
void ft_segment_unlink(ft_allocator *a, ft_segment *segment); // and frees the struct
void ft_segment_live(ft_allocator *a, ft_segment *segment, size_t live); // sets the number of live blocks

// ---- grow.c ----
// A free, listed block of at least `size` bytes for that pool and class, made with new memory; one struct stays spare.
ft_status ft_allocator_grow(ft_allocator *a, size_t size, int32_t pool, int class, ft_block **block, bool *by_limit);
// Gives the segment that a run covers, or the highest whole pieces of a run in a range, no more than `need` asks for,
// back to the device. *released: bytes.
ft_status ft_run_release(ft_allocator *a, ft_block *first, size_t need, size_t *released);
// Memory went to (came from) the device.
void ft_count_reserved(ft_allocator *a, size_t bytes);
void ft_count_released(ft_allocator *a, size_t bytes);

// ---- range.c ----
typedef struct ft_growth {
    size_t bytes;           // new memory it takes
    size_t kept;            // releasable bytes of the runs of left and right: must stay for it
    ft_block *hole;         // is filled from its start; NULL: a new range is needed
    ft_block *left, *right; // free neighbours that become part of the block, or NULL
} ft_growth;

// The place for `size` bytes that needs the least new memory; `tight`: the one that leaves most for others to give
// back.
ft_growth ft_range_plan(const ft_allocator *a, size_t size, int32_t pool, int class, bool tight);
// `growth` is a plan for the state as it is. FT_NO_MEMORY: nothing has changed.
ft_status ft_range_grow(ft_allocator *a, const ft_growth *growth, int32_t pool, int class, ft_block **block);
ft_status ft_range_shrink(ft_allocator *a, ft_block *first, size_t need, size_t *released);
void ft_range_close(ft_allocator *a, ft_segment *segment); // live blocks or not

// ---- pieces.c ----
// Pages up to offset `end` can be committed afterwards. FT_NO_MEMORY with the host's error text.
ft_status ft_pieces_spare(const ft_allocator *a, ft_segment *segment, size_t end);
void ft_pieces_commit(const ft_allocator *a, ft_segment *segment, size_t offset, size_t bytes);
void ft_pieces_decommit(ft_segment *segment, size_t offset, size_t bytes);
bool ft_pieces_cut(const ft_segment *segment, size_t page); // does the same piece lie on both sides of the page's start?
// The nearest offset between two pieces, from there on or up to there.
size_t ft_pieces_up(const ft_segment *segment, size_t offset);
size_t ft_pieces_down(const ft_segment *segment, size_t offset);

#endif
