// picture_feed.h - the pictures of a training set as they stand in an epoch: read, changed (augment.h) and ready before
// the step wants them.
//
//     bytes = ft_picture_feed_bytes(&request);                    // a block of the caller's, planned like any other
//     FT_TRY(ft_picture_feed_open(&request, block, &feed));
//     FT_TRY(ft_picture_feed_take(feed, epoch, order, n, first, count));   // these are ready, and stay until the next
//     call batch.feed = feed;  FT_TRY(ft_batch_fill(&batch, data, order, first, count, slot));   // reads them
//     ft_picture_feed_label(feed, &batch, data);                  // the second labels of a batch that is mixed
//
// Threads make pictures in the order of the epoch, as far ahead as there are places; which thread makes one, and when,
// decides nothing. Without threads a picture is made when it is taken. Whoever takes is one thread.
//
// A batch of train.batch_size pictures is what MixUp and CutMix mix, each with the one before it and the first with the
// last, however micro-batches are cut: what they need is taken with them.
#ifndef FT_PICTURE_FEED_H
#define FT_PICTURE_FEED_H

#include "engine/data/augment/augment.h"
#include "engine/data/batch.h"

typedef struct ft_picture_feed ft_picture_feed;

typedef struct ft_picture_feed_request {
    ft_augment augment;
    int32_t height, width; // of the model's pictures
    uint64_t seed;
    int64_t batch; // pictures that are mixed with each other
    int32_t most;  // pictures of the largest micro-batch
    int workers;
    const ft_dataset *data; // not for ft_picture_feed_bytes
} ft_picture_feed_request;

// data.workers, of which `auto` means so many: before a run, and beside the steps of a GPU, or of a CPU.
typedef enum ft_picture_work_beside { FT_BESIDE_NOTHING, FT_BESIDE_GPU, FT_BESIDE_CPU } ft_picture_work_beside;
int ft_picture_workers(const ft_config *config, ft_picture_work_beside what);
size_t ft_picture_feed_bytes(const ft_picture_feed_request *request);
// What its threads take of the heap at once: pictures in their full size, which `data` has seen. Nothing without a
// crop.
size_t ft_picture_feed_heap_bytes(const ft_picture_feed_request *request);

// block: of ft_picture_feed_bytes, for as long as the feed is open. FT_FAILED: no threads could be had.
ft_status ft_picture_feed_open(const ft_picture_feed_request *request, void *block, ft_picture_feed **feed);
void ft_picture_feed_close(ft_picture_feed *feed); // NULL is fine; its threads have ended
// order: [n], of the epoch; read until the feed takes from another, is paused or closed. A picture that cannot be read
// any more: FT_INVALID with its file, when it is taken.
ft_status ft_picture_feed_take(ft_picture_feed *feed, int64_t epoch, const int32_t *order, int64_t n, int64_t first,
                               int64_t count);
// Until the next take nothing is read, the order included. NULL is fine.
void ft_picture_feed_pause(ft_picture_feed *feed);

// Picture i of those taken, and the one that it is mixed with; `mix` says how (share 1: not at all).
typedef struct ft_fed_picture {
    const uint8_t *pixels, *other;
    ft_box erased, other_erased;
    ft_mix mix;
} ft_fed_picture;
ft_fed_picture ft_picture_feed_at(const ft_picture_feed *feed, int64_t i);
// Of a batch of the pictures taken, which has room for them, or none at all.
void ft_picture_feed_label(const ft_picture_feed *feed, ft_batch *batch, const ft_dataset *data);

#endif
