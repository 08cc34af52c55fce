#include "engine/train/step/batch_buffers.h"

#include "engine/train/job/run_plan.h"
#include "base/clock.h"
#include "kernels/ops/embedding.h"

#include <string.h>

static bool is_trained(const ft_model *model, int table) { return table >= 0 && model->parameters.list[table].trainable; }

static unsigned orders_of(const ft_model *model, bool trains) {
    if (!trains || !ft_embedding_order_wanted(&model->device->target)) return 0;
    return (is_trained(model, model->word) || ft_model_trains_patch_vectors(model) ? FT_ORDER_WORDS : 0) | (is_trained(model, model->position) ? FT_ORDER_POSITIONS : 0) |
           (is_trained(model, model->token_type) ? FT_ORDER_TYPES : 0);
}

static ft_batch_format format_of(const ft_model *model, ft_capacity capacity, bool trains) {
    const unsigned orders = orders_of(model, trains);
    return (ft_batch_format){.sequences = capacity.sequences,
                             .tokens = capacity.tokens,
                             .reads = capacity.reads,
                             .most_reads = capacity.most_reads,
                             .targets = model->targets,
                             .position_padding = model->reads_features ? -1 : model->position_padding,
                             .reads_last = model->last_pooling && !model->reads_features,
                             .orders = model->reads_features ? 0 : orders,
                             .patch_numbers = model->reads_features ? 0 : ft_model_patch_numbers(model),
                             .patch_type = model->dtype,
                             .mixed = trains && model->loss.mixes,
                             .pieces = !model->reads_features && model->first_and_mean,
                             .feature_bytes = model->reads_features ? ft_model_feature_bytes(model) : 0};
}

static ft_status create_slot(const ft_model *model, const ft_batch_format *format, ft_batch_slot *s) {
    ft_device *device = model->device;
    FT_TRY(ft_memory_alloc(model->memory, ft_batch_bytes(format), FT_MEM_DATA, "batch", &s->device_block));
    ft_batch_bind(&s->staging, s->staging_block, format);
    if (model->absent.word_rows != NULL && !model->reads_features) s->staging.row_of = model->absent.word_rows->row_of;
    ft_batch_bind(&s->device, s->device_block, format);
    FT_TRY(device->functions->event_create(device, &s->copied));
    FT_TRY(device->functions->event_create(device, &s->used));
    // The allocator gives out again what queued work may still use: no copy before that has run.
    return device->functions->event_record(device, s->used, FT_STREAM_COMPUTE);
}

ft_status ft_batch_buffers_create(const ft_model *model, ft_capacity capacity, bool trains, ft_batch_buffers *b) {
    const ft_batch_format format = format_of(model, capacity, trains);
    *b = (ft_batch_buffers){.memory = model->memory, .longest = capacity.longest, .slots = ft_device_queues(model->device) ? FT_BATCH_SLOTS : 1};
    // The host first, which may refuse: then nothing of the device is there yet, and a scope that fails has nothing to free.
    for (int i = 0; i < b->slots; i++) // zeros: the gaps travel too
        FT_TRY(ft_memory_alloc_staging(model->memory, ft_batch_bytes(&format), "staging of a batch", &b->slot[i].staging_block));
    if (format.orders != 0)
        FT_TRY(ft_memory_alloc_staging(model->memory, (size_t)capacity.tokens * sizeof *b->space, "staging of a batch's orders", (void **)&b->space));
    for (int i = 0; i < b->slots; i++) FT_TRY(create_slot(model, &format, &b->slot[i]));
    b->device = b->slot[0].device;
    return FT_OK;
}

void ft_batch_buffers_free(ft_batch_buffers *b) {
    if (b->memory == NULL) return;
    ft_device *device = ft_memory_device(b->memory);
    for (int i = 0; i < b->slots; i++) {
        ft_batch_slot *s = &b->slot[i];
        ft_memory_free_staging(b->memory, s->staging_block);
        ft_memory_free(b->memory, s->device_block);
        device->functions->event_destroy(device, s->copied);
        device->functions->event_destroy(device, s->used);
    }
    ft_memory_free_staging(b->memory, b->space);
    memset(b, 0, sizeof *b);
}

ft_status ft_batch_buffers_load(ft_batch_buffers *b, const ft_dataset *data, const int32_t *order, int64_t first, int64_t count,
                                int32_t first_slot) {
    ft_device *device = ft_memory_device(b->memory);
    const ft_device_functions *f = device->functions;
    FT_TRY(f->event_record(device, b->slot[b->present].used, FT_STREAM_COMPUTE)); // all that reads it is queued by now
    b->present = (b->present + 1) % b->slots;
    ft_batch_slot *s = &b->slot[b->present];
    const double before = ft_now();
    FT_TRY(ft_memory_wait(b->memory, s->copied));
    b->waited = ft_now() - before;
    s->staging.feed = b->feed;
    FT_TRY(ft_batch_fill(&s->staging, data, order, first, count, first_slot));
    if (b->feed != NULL) ft_picture_feed_label(b->feed, &s->staging, data);
    if (b->bucket > 0) FT_TRY(ft_batch_fill_up(&s->staging, b->bucket, b->longest));
    ft_batch_put_in_order(&s->staging, b->space);
    s->device.filler = s->staging.filler;
    s->device.sequences = s->staging.sequences;
    s->device.reads = s->staging.reads;
    s->device.most_reads = s->staging.most_reads;
    s->device.tokens = s->staging.tokens;
    s->device.longest = s->staging.longest;
    const size_t bytes = ft_batch_bytes(&s->staging.format);
    FT_TRY(f->stream_wait(device, FT_STREAM_COPY, s->used));
    FT_TRY(f->upload_beside(device, s->device_block, s->staging_block, bytes));
    FT_TRY(f->event_record(device, s->copied, FT_STREAM_COPY));
    FT_TRY(f->stream_wait(device, FT_STREAM_COMPUTE, s->copied));
    b->device = s->device;
    return FT_OK;
}
