#include "engine/train/step/sizes.h"

#include "base/arena.h"
#include "engine/model/gradients/gradients.h"

#include <stdlib.h>

typedef struct list {
    ft_batch_size *at;
    size_t count, capacity;
} list;

// Of the micro-batch that order[first .. first + count) makes, with its filling (ft_batch_fill_up).
static ft_batch_size size_of(const ft_step *step, int64_t first, int64_t count) {
    const ft_dataset *data = &step->room->job->split[FT_SPLIT_TRAIN].data;
    ft_batch_size size = {.sequences = count, .first = first, .count = count, .times = 1};
    for (int64_t i = first; i < first + count; i++)
        size.tokens += ft_dataset_length(data, step->order[i]);
    const int64_t over = step->buffers.bucket > 0 ? size.tokens % step->buffers.bucket : 0;
    if (over == 0) return size;
    size.tokens += step->buffers.bucket - over;
    size.sequences++; // one more than texts
    return size;
}

static ft_status note(list *l, ft_batch_size size) {
    for (size_t i = 0; i < l->count; i++)
        if (l->at[i].tokens == size.tokens && l->at[i].sequences == size.sequences) return l->at[i].times++, FT_OK;
    if (l->count == l->capacity) {
        const size_t capacity = l->capacity > 0 ? 2 * l->capacity : 64;
        ft_batch_size *grown = ft_realloc(l->at, capacity, sizeof *grown, "sizes of micro-batches");
        if (grown == NULL) return FT_NO_MEMORY;
        l->at = grown;
        l->capacity = capacity;
    }
    l->at[l->count++] = size;
    return FT_OK;
}

static ft_status first_order(ft_step *step) {
    const ft_room *room = step->room;
    if (step->order_epoch == 0) return FT_OK;
    ft_picture_feed_pause(step->feed); // it reads the order
    FT_TRY(ft_epoch_order(room->plan.order_seed, 0, room->job->split[FT_SPLIT_TRAIN].data.sequences, step->order));
    step->order_epoch = 0;
    return FT_OK;
}

static ft_status find(ft_step *step, list *l) {
    const ft_run_plan *plan = &step->room->plan;
    const ft_dataset *data = &step->room->job->split[FT_SPLIT_TRAIN].data;
    FT_TRY(first_order(step));
    for (int64_t i = 0; i < plan->steps_per_epoch && i < plan->total_steps; i++) {
        int64_t epoch, first, last;
        ft_run_plan_step(plan, i, &epoch, &first, &last);
        while (first < last) {
            const int64_t count = ft_batch_cut(data, step->order, first, last, plan->limits);
            FT_TRY(note(l, size_of(step, first, count)));
            first += count;
        }
    }
    return FT_OK;
}

ft_status ft_sizes_find(ft_step *step, ft_batch_size **sizes, size_t *count) {
    list l = {.at = NULL};
    const ft_status status = find(step, &l);
    *sizes = l.at;
    *count = l.count;
    return status;
}

ft_status ft_sizes_run(ft_step *step, const ft_batch_size *size) {
    ft_room *room = step->room;
    const ft_dataset *data = &room->job->split[FT_SPLIT_TRAIN].data;
    const ft_step_state state = {.seed = 1, .learning_rate = 0, .loss_factor = 1, .loss_scale = 1};
    const ft_device_functions *f = room->device->functions;
    FT_TRY(first_order(step));
    FT_TRY(f->upload(room->device, step->step_state, &state, sizeof state));
    FT_TRY(f->sync(room->device)); // `state` goes out of scope
    FT_TRY(ft_gradients_clear(&room->model.parameters));
    if (step->feed != NULL)
        FT_TRY(ft_picture_feed_take(step->feed, 0, step->order, room->plan.sequences, size->first, size->count));
    FT_TRY(ft_batch_buffers_load(&step->buffers, data, step->order, size->first, size->count, 0));
    const ft_batch *b = &step->buffers.device;
    if (b->reads == (b->filler > 0 ? FT_FILLER_READS : 0))
        return f->sync(room->device); // a step computes nothing of it either
    // A batch that was filled up has one sequence more than texts.
    const ft_tensor losses =
        ft_vector(step->batch_losses != NULL ? step->batch_losses : step->losses, b->reads, FT_F32);
    FT_TRY(ft_model_begin_step(&room->model, room->plan.capacity, step->step_state));
    FT_TRY(ft_model_train_batch(&room->model, b, room->plan.capacity, step->step_state, losses));
    FT_TRY(ft_model_end_step(&room->model, room->plan.capacity, step->step_state));
    return f->sync(room->device);
}
