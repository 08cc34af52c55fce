#include "engine/train/step/rehearsal.h"

#include "engine/model/gradients/gradients.h"
#include "engine/model/gradients/word_sums.h"
#include "engine/model/state/shards.h"
#include "engine/train/step/predict.h"
#include "engine/train/step/update.h"

#include <stdint.h>

ft_step_sizes ft_room_sizes(const ft_room *room) {
    const ft_run_plan *p = &room->plan;
    return (ft_step_sizes){.train = p->capacity,
                           .whole_steps = p->whole_steps,
                           .predict = room->eval_capacity,
                           .features = room->job->features.on,
                           .loss = room->job->loss,
                           .word_rows = room->job->word_rows,
                           .trunk_of = room->trunk,
                           .head_alone = room->head_alone,
                           .rows = p->step_rows,
                           .tokens = p->step_tokens};
}

static void fill_to(ft_batch *batch, ft_capacity capacity) {
    batch->tokens = capacity.tokens;
    batch->sequences = capacity.sequences;
    batch->longest = capacity.longest;
    batch->reads = capacity.reads;
    batch->most_reads = capacity.most_reads;
}

ft_status ft_rehearse_step(ft_model *model, const ft_config *config, const ft_step_sizes *sizes, ft_batch *batch, float *losses,
                           const ft_step_state *step, ft_update_state *update) {
    fill_to(batch, sizes->train);
    FT_TRY(ft_model_begin_step(model, sizes->train, step));
    FT_TRY(ft_model_train_batch(model, batch, sizes->train, step, ft_vector(losses, sizes->train.reads, FT_F32)));
    FT_TRY(ft_model_end_step(model, sizes->train, step));
    FT_TRY(ft_gradients_keep(&model->parameters));
    return ft_update_run(&model->parameters, config, ft_vector(losses, sizes->rows, FT_F32), step, update);
}

ft_status ft_rehearse_step_without_batches(ft_model *model, const ft_config *config, const ft_step_sizes *sizes, float *losses,
                                           const ft_step_state *step, ft_update_state *update) {
    FT_TRY(ft_model_begin_step(model, sizes->train, step));
    FT_TRY(ft_model_end_step(model, sizes->train, step));
    return ft_update_run(&model->parameters, config, ft_vector(losses, sizes->rows, FT_F32), step, update);
}

typedef struct recording {
    ft_device *device;
    ft_memory *memory;
    ft_model model;
    ft_batch_buffers batch;
    ft_word_sums words;
    void *losses, *step, *update;
} recording;

static ft_status record_training(recording *r, const ft_config *config, const ft_step_sizes *sizes) {
    FT_TRY(ft_model_keep_master(&r->model));
    FT_TRY(ft_model_prepare_training(&r->model, config->train.weight_decay));
    r->words.room = r->words.count = ft_word_sums_room(&r->model.parameters, sizes->tokens);
    r->model.parameters.words = &r->words;
    FT_TRY(ft_gradients_hold(&r->model.parameters, sizes->whole_steps));
    FT_TRY(ft_model_hold_inputs(&r->model, sizes->train));
    FT_TRY(ft_batch_buffers_create(&r->model, sizes->train, true, &r->batch));
    FT_TRY(ft_memory_alloc(r->memory, (size_t)sizes->rows * sizeof(float), FT_MEM_DATA, "losses", &r->losses));
    FT_TRY(ft_memory_alloc(r->memory, sizeof(ft_step_state), FT_MEM_DATA, "step state", &r->step));
    FT_TRY(ft_memory_alloc(r->memory, sizeof(ft_update_state), FT_MEM_OPTIMIZER, "update state", &r->update));
    FT_TRY(ft_rehearse_step(&r->model, config, sizes, &r->batch.device, r->losses, r->step, r->update));
    FT_TRY(ft_gradients_none(&r->model.parameters)); // as a step without a labelled row has it
    FT_TRY(ft_shards_collect(&r->model.parameters));
    ft_batch_buffers_free(&r->batch);
    return FT_OK;
}

static ft_status record(recording *r, ft_memory *memory, const ft_model_config *model_config, const ft_config *config, int32_t labels,
                        const ft_step_sizes *sizes) {
    const ft_device *real = ft_memory_device(memory);
    FT_TRY(ft_plan_open(real->name, real->target, SIZE_MAX / 4, &r->device));
    FT_TRY(ft_memory_create(r->device, 0, &r->memory));
    ft_memory_ranks ranks = ft_memory_ranks_of(memory);
    ranks.group = ranks.run = NULL;
    ft_memory_set_ranks(r->memory, ranks);
    ft_memory_record(r->memory);
    FT_TRY(ft_model_create_with(r->memory, model_config, config, labels, sizes->word_rows, sizes->trunk_of, sizes->head_alone, &r->model));
    FT_TRY(ft_model_set_loss(&r->model, &sizes->loss));
    ft_model_read_features(&r->model, sizes->features);
    FT_TRY(ft_model_hold_positions(&r->model, sizes->train, sizes->predict));
    if (sizes->train.tokens > 0) FT_TRY(record_training(r, config, sizes));
    if (sizes->predict.tokens > 0) FT_TRY(ft_predict_rehearse(&r->model, sizes->predict));
    if (sizes->trunk.tokens > 0) FT_TRY(ft_data_pass_rehearse(&r->model, sizes->trunk, FT_PASS_ROWS));
    if (sizes->generator.slots > 0) FT_TRY(ft_generator_rehearse(&r->model, &sizes->generator));
    return ft_memory_adopt(memory, r->memory);
}

static void close_recording(recording *r) {
    if (r->memory != NULL) {
        ft_batch_buffers_free(&r->batch);
        ft_memory_free(r->memory, r->losses);
        ft_memory_free(r->memory, r->step);
        ft_memory_free(r->memory, r->update);
        ft_model_free(&r->model);
    }
}

ft_status ft_lay_out_steps(ft_memory *memory, const ft_model_config *model_config, const ft_config *config, int32_t labels,
                           const ft_step_sizes *sizes) {
    recording r = {.device = NULL};
    ft_status status = record(&r, memory, model_config, config, labels, sizes);
    ft_error error; // the first error is the news, not what closing then finds
    if (status != FT_OK) ft_error_save(&error);
    close_recording(&r);
    ft_status closed = ft_memory_destroy(r.memory);
    ft_device_close(r.device);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}
