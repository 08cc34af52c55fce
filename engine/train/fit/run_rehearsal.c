#include "engine/train/fit/run_rehearsal.h"

#include "engine/train/fit/eval_budget.h"
#include "engine/train/job/features.h"
#include "engine/train/step/predict.h"
#include "engine/train/step/rehearsal.h"
#include "engine/train/step/trunk_pass.h"

#include "engine/model/gradients/gradients.h"
#include "engine/model/state/shards.h"
#include "engine/model/state/staging.h"
#include "kernels/devices/devices.h"

#include <stdint.h>

static ft_status rehearse_load(ft_room *room) {
    ft_staging staging;
    if (ft_memory_is_guest(room->memory)) return FT_OK; // rank 0 loads and saves
    ft_memory_set_phase(room->memory, FT_PHASE_LOAD);
    ft_status status = ft_staging_open(room->memory, &staging);
    ft_staging_close(&staging);
    return status;
}

// Model and checkpoints.
static ft_status rehearse_save(ft_room *room) {
    ft_row_window window;
    if (ft_memory_is_guest(room->memory)) return FT_OK;
    ft_memory_set_phase(room->memory, FT_PHASE_SAVE);
    FT_TRY(ft_shards_collect(&room->model.parameters));
    ft_shards_release(&room->model.parameters);
    ft_status status = ft_row_window_open(&room->model.absent, room->memory, &window);
    ft_row_window_close(&window);
    if (status != FT_OK || !room->model.parameters.deals) return status;
    void *moments; // of other ranks, for a checkpoint
    status = ft_memory_alloc(room->memory, (size_t)FT_STAGING_FLOATS * sizeof(float), FT_MEM_COMMUNICATION, "moments of other ranks", &moments);
    ft_memory_free(room->memory, moments);
    ft_memory_trim(room->memory);
    return status;
}

// What a run does after it was opened, once: the allocator is free of history at the end of each stage, so that doing it
// a thousand times needs no more.
static ft_status rehearse_stages(ft_rehearsal *r) {
    ft_room *room = &r->room;
    const ft_job *job = room->job;
    const ft_step_sizes sizes = ft_room_sizes(room);
    const bool tests = ft_job_evaluates(job, FT_SPLIT_TEST);
    const bool assumed = job->without_data && room->config->eval.strategy != FT_EVAL_NO; // an evaluation without a file for it
    const bool validates = assumed || ft_job_evaluates(job, FT_SPLIT_VALIDATION);
    FT_TRY(ft_rehearse_step(&room->model, room->config, &sizes, &r->step.buffers.device, r->step.losses, r->step.step_state,
                            r->step.update_state));
    if (validates) FT_TRY(ft_predict_rehearse(&room->model, room->eval_capacity));
    FT_TRY(rehearse_save(room));
    if (tests && validates) FT_TRY(rehearse_load(room)); // the best model comes back
    return tests ? ft_predict_rehearse(&room->model, room->eval_capacity) : FT_OK;
}

// The pass that makes features has a state with all of the model, which then goes.
static ft_status rehearse_features(ft_rehearsal *r) {
    if (ft_job_lacks_features(r->room.job)) {
        FT_TRY(ft_step_build_state(&r->step));
        FT_TRY(ft_trunk_pass_rehearse(&r->room));
    }
    ft_step_leave_trunk(&r->step);
    return FT_OK;
}

static ft_status build_and_rehearse(ft_rehearsal *r) {
    FT_TRY(rehearse_features(r));
    FT_TRY(ft_step_build_state(&r->step));
    FT_TRY(ft_step_build_layout(&r->step));
    return rehearse_stages(r);
}

ft_status ft_rehearse(const ft_job *job, const ft_config *config, ft_device *device, size_t limit, ft_rehearsal *r) {
    ft_step_init(&r->step, &r->room, config);
    FT_TRY(ft_room_open_plan(job, config, device, limit, &r->room));
    FT_TRY(ft_room_plan_steps(&r->room));
    return build_and_rehearse(r);
}

ft_status ft_rehearse_again(const ft_room *room, const ft_config *config, size_t limit, ft_rehearsal *r) {
    ft_device *device;
    *r = (ft_rehearsal){.room.job = NULL};
    ft_step_init(&r->step, &r->room, config);
    FT_TRY(ft_plan_open(room->device->name, room->device->target, SIZE_MAX / 4, &device));
    FT_TRY(ft_room_open_plan(room->job, config, device, limit, &r->room));
    r->room.trunk = room->trunk;
    if (config != room->config) {
        FT_TRY(ft_room_plan_steps(&r->room));
    } else {
        r->room.plan = room->plan;
        r->room.eval_limits = room->eval_limits;
        r->room.eval_capacity = room->eval_capacity;
        r->room.eval_extra = room->eval_extra;
    }
    return build_and_rehearse(r);
}

ft_status ft_rehearsal_close(ft_rehearsal *r) {
    ft_step_close(&r->step);
    return ft_room_close(&r->room);
}

// Tokens of an optimizer step of average length, on one rank.
static double average_step(const ft_room *room) {
    const ft_job *job = room->job;
    const ft_dataset *data = &job->split[FT_SPLIT_TRAIN].data;
    double sequences = (double)(room->plan.effective_batch < room->plan.sequences ? room->plan.effective_batch : room->plan.sequences);
    if (room->plan.ranks > 1) sequences /= room->plan.ranks; // which compute beside each other
    if (job->features.on) return sequences; // a row each
    return job->without_data ? sequences * job->max_length : sequences * (double)data->tokens / (double)data->sequences;
}

// What is counted on the room's device.
typedef struct counted {
    double seconds, products;
    ft_plan_work work;
} counted;

static counted count(const ft_device *device) {
    return (counted){ft_plan_seconds(device), ft_plan_product_seconds(device), ft_plan_work_of(device)};
}

// Of a step that took from `before` to `step`, and what it does once from there to `end`.
static double average(double before, double step, double end, double batches) {
    const double once = end - step;
    return once + (step - before - once) * batches;
}

// As many micro-batches of the largest size as hold an average step, and what a step does once.
static ft_status price(ft_rehearsal *r, counted *all) {
    ft_room *room = &r->room;
    ft_step *s = &r->step;
    const ft_step_sizes sizes = ft_room_sizes(room);
    const counted a = count(room->device);
    FT_TRY(ft_rehearse_step(&room->model, room->config, &sizes, &s->buffers.device, s->losses, s->step_state, s->update_state));
    const counted b = count(room->device);
    FT_TRY(ft_rehearse_step_without_batches(&room->model, room->config, &sizes, s->losses, s->step_state, s->update_state));
    const counted c = count(room->device);
    const double batches = average_step(room) / (double)sizes.train.tokens;
    all->seconds = average(a.seconds, b.seconds, c.seconds, batches);
    all->products = (b.products - a.products) * batches;
    all->work = (ft_plan_work){.occupied = average(a.work.occupied, b.work.occupied, c.work.occupied, batches),
                               .computing = average(a.work.computing, b.work.computing, c.work.computing, batches),
                               .moving = average(a.work.moving, b.work.moving, c.work.moving, batches),
                               .starting = average(a.work.starting, b.work.starting, c.work.starting, batches),
                               .travelling = average(a.work.travelling, b.work.travelling, c.work.travelling, batches)};
    return FT_OK;
}

ft_status ft_rehearsal_price(ft_rehearsal *r, double *seconds, double *products) {
    counted all;
    FT_TRY(price(r, &all));
    *seconds = all.seconds;
    if (products != NULL) *products = all.products;
    return FT_OK;
}

ft_status ft_rehearsal_work(ft_rehearsal *r, double *seconds, ft_plan_work *work) {
    counted all;
    FT_TRY(price(r, &all));
    *seconds = all.seconds;
    *work = all.work;
    return FT_OK;
}

ft_status ft_rehearsal_backward(ft_rehearsal *r, ft_backward_notes *notes, double *seconds) {
    ft_room *room = &r->room;
    const ft_step_sizes sizes = ft_room_sizes(room);
    room->model.parameters.notes = notes;
    ft_status status = ft_rehearse_step(&room->model, room->config, &sizes, &r->step.buffers.device, r->step.losses, r->step.step_state, r->step.update_state);
    room->model.parameters.notes = NULL;
    return status == FT_OK ? ft_rehearsal_price(r, seconds, NULL) : status;
}
