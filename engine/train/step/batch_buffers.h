// batch_buffers.h - micro-batches on their way to the device: while one is computed, the next is filled in memory of the
// host and copied beside it.
//
//     FT_TRY(ft_batch_buffers_load(&buffers, data, order, first, count, slot));
//     FT_TRY(ft_model_train_batch(model, &buffers.device, ...));   // and so on, with the next load
//
// Two slots where the device works through queues, one where everything happens at once (the CPU). The rules, told to
// the device by two events a slot: the host writes a slot's staging block when its last copy has ended; a copy begins when
// what was queued with the slot's last batch has; computing begins when the copy has ended. The host therefore waits in
// load() only when it is two batches ahead, and the device then has work.
#ifndef FT_BATCH_BUFFERS_H
#define FT_BATCH_BUFFERS_H

#include "engine/data/picture_feed.h"
#include "engine/model/model.h"

enum { FT_BATCH_SLOTS = 2 };

typedef struct ft_batch_slot {
    void *staging_block, *device_block;
    ft_batch staging, device;
    ft_event *copied; // the batch is there
    ft_event *used;   // everything that reads it has run
} ft_batch_slot;

typedef struct ft_batch_buffers {
    ft_memory *memory;
    int32_t longest; // of the capacity
    int32_t *space;  // on the host, to put the tokens of a batch in order; NULL: no order is wanted
    ft_batch_slot slot[FT_BATCH_SLOTS];
    int slots;
    int present;     // the slot of the last load
    int32_t bucket;  // batches are filled up to multiples of so many tokens; 0: they are not
    const ft_picture_feed *feed; // of pictures as they stand in this epoch, taken before they are loaded; NULL: as they lie there. Not the buffers'
    double waited;   // seconds of the last load until the device had left its slot
    ft_batch device; // that slot's: what ops are given until the next load
} ft_batch_buffers;

// Bound once for the largest batch of `model`, which may count positions its own way. trains: with what gradients need.
ft_status ft_batch_buffers_create(const ft_model *model, ft_capacity capacity, bool trains, ft_batch_buffers *buffers);
void ft_batch_buffers_free(ft_batch_buffers *buffers); // {0} is fine
// Fills a batch (see ft_batch_fill) and sends it off. What is queued from now on finds it in buffers->device; what was
// queued before still has the last one.
ft_status ft_batch_buffers_load(ft_batch_buffers *buffers, const ft_dataset *data, const int32_t *order, int64_t first,
                                int64_t count, int32_t first_slot);

#endif
