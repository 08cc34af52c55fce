// forecast.c - the memory of a run, known before it starts: the run is rehearsed on the plan back end.
#include "engine/train/trainer.h"

#include "engine/model/staging.h"
#include "kernels/log.h"

#include <stdint.h>

// One micro-batch of an evaluation in the largest size, as ft_predict_dataset does it.
static ft_status rehearse_evaluation(ft_trainer *t) {
    ft_prediction p;
    ft_status status = ft_predict_open(&t->model, t->eval_capacity, &p);
    if (status == FT_OK) {
        p.buffers.device.tokens = t->eval_capacity.tokens;
        p.buffers.device.sequences = t->eval_capacity.sequences;
        p.buffers.device.longest = t->eval_capacity.longest;
        status = ft_model_predict_batch(&t->model, &p.buffers.device, t->eval_capacity,
                                        ft_matrix(p.logits, t->eval_capacity.sequences, t->model.labels, FT_F32));
    }
    ft_predict_close(&p);
    return status;
}

static ft_status rehearse_transfer(ft_trainer *t, ft_memory_phase phase) {
    ft_staging staging;
    ft_memory_set_phase(t->memory, phase);
    ft_status status = ft_staging_open(t->memory, &staging);
    ft_staging_close(&staging);
    return status;
}

// What a run does after it was opened, once: the allocator is free of history at the end of each stage, so that doing it
// a thousand times needs no more.
ft_status ft_trainer_rehearse(ft_trainer *t, bool validates) {
    ft_step_sizes sizes = ft_trainer_sizes(t);
    const bool tests = ft_trainer_evaluates(t, FT_SPLIT_TEST);
    validates = validates || ft_trainer_evaluates(t, FT_SPLIT_VALIDATION);
    FT_TRY(ft_rehearse_step(&t->model, t->config, &sizes, &t->buffers.device, t->losses, t->step_state, t->update_state));
    if (validates) FT_TRY(rehearse_evaluation(t));
    FT_TRY(rehearse_transfer(t, FT_PHASE_SAVE));                     // model and checkpoints
    if (tests && validates) FT_TRY(rehearse_transfer(t, FT_PHASE_LOAD)); // the best model comes back
    return tests ? rehearse_evaluation(t) : FT_OK;
}

// Another trainer like this one, on the plan back end and under the same limit.
static ft_status rehearse_like(ft_trainer *t, ft_trainer *other) {
    ft_trainer_source source = {.limit = ft_memory_limit(t->memory), .without_weights = true, .like = t};
    FT_TRY(ft_plan_open(t->device->name, t->device->target, SIZE_MAX / 4, &source.device));
    FT_TRY(ft_trainer_open(t->config, &source, other));
    return ft_trainer_rehearse(other, false);
}

ft_status ft_trainer_forecast(ft_trainer *t) {
    ft_trainer other = {.dir_lock = -1};
    ft_log_level level = ft_log_get_level();
    ft_log_set_level(FT_LOG_SILENT); // what training says while it opens is said once
    ft_status status = rehearse_like(t, &other);
    ft_log_set_level(level);
    if (status == FT_OK) t->planned = ft_memory_read(other.memory);
    if (status == FT_NO_MEMORY && other.memory != NULL) (void)ft_memory_refused(other.memory, &t->refusal);
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_trainer_close(&other);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}
