// forecast.c - the memory of a run, known before it starts: the run is rehearsed on the plan back end.
#include "engine/train/device_choice.h"
#include "engine/train/observer.h"
#include "engine/train/trainer.h"

#include "engine/model/staging.h"
#include "kernels/log.h"

#include <stdint.h>

static ft_status rehearse_load(ft_trainer *t) {
    ft_staging staging;
    ft_memory_set_phase(t->room.memory, FT_PHASE_LOAD);
    ft_status status = ft_staging_open(t->room.memory, &staging);
    ft_staging_close(&staging);
    return status;
}

// Model and checkpoints.
static ft_status rehearse_save(ft_trainer *t) {
    ft_row_window window;
    ft_memory_set_phase(t->room.memory, FT_PHASE_SAVE);
    ft_status status = ft_row_window_open(&t->room.model.absent, t->room.memory, &window);
    ft_row_window_close(&window);
    return status;
}

// What a run does after it was opened, once: the allocator is free of history at the end of each stage, so that doing it
// a thousand times needs no more.
ft_status ft_trainer_rehearse(ft_trainer *t, bool validates) {
    ft_step_sizes sizes = ft_trainer_sizes(t);
    const bool tests = ft_trainer_evaluates(t, FT_SPLIT_TEST);
    validates = validates || ft_trainer_evaluates(t, FT_SPLIT_VALIDATION);
    FT_TRY(ft_rehearse_step(&t->room.model, t->room.config, &sizes, &t->step.buffers.device, t->step.losses,
                            t->step.step_state, t->step.update_state));
    if (validates) FT_TRY(ft_predict_rehearse(&t->room.model, t->room.eval_capacity));
    FT_TRY(rehearse_save(t));
    if (tests && validates) FT_TRY(rehearse_load(t)); // the best model comes back
    return tests ? ft_predict_rehearse(&t->room.model, t->room.eval_capacity) : FT_OK;
}

ft_status ft_trainer_rehearse_like(const ft_trainer *t, const ft_config *config, size_t limit, ft_trainer *other) {
    ft_trainer_source source = {.limit = limit, .without_weights = true, .like = t, .without_data = t->job.without_data,
                                .other_steps = config != t->room.config};
    FT_TRY(ft_plan_open(t->room.device->name, t->room.device->target, SIZE_MAX / 4, &source.device));
    FT_TRY(ft_trainer_open(config, &source, other));
    return ft_trainer_rehearse(other, t->job.without_data && config->eval.strategy != FT_EVAL_NO);
}

// Tokens of an optimizer step of average length.
static double average_step(const ft_trainer *t) {
    const ft_dataset *data = &t->job.split[FT_SPLIT_TRAIN].data;
    double sequences = (double)(t->room.plan.effective_batch < t->room.plan.sequences ? t->room.plan.effective_batch
                                                                                      : t->room.plan.sequences);
    return t->job.without_data ? sequences * t->job.max_length : sequences * (double)data->tokens / (double)data->sequences;
}

// As many micro-batches of the largest size as hold an average step, and what a step does once.
ft_status ft_trainer_price(const ft_trainer *t, ft_trainer *planned, double *seconds) {
    ft_step_sizes sizes = ft_trainer_sizes(planned);
    double before = ft_plan_seconds(planned->room.device);
    FT_TRY(ft_rehearse_step(&planned->room.model, planned->room.config, &sizes, &planned->step.buffers.device,
                            planned->step.losses, planned->step.step_state, planned->step.update_state));
    double step = ft_plan_seconds(planned->room.device);
    FT_TRY(ft_rehearse_step_without_batches(&planned->room.model, planned->room.config, &sizes, planned->step.losses,
                                            planned->step.step_state, planned->step.update_state));
    double once = ft_plan_seconds(planned->room.device) - step;
    *seconds = once + (step - before - once) * average_step(t) / (double)sizes.train.tokens;
    return FT_OK;
}

static ft_status forecast(ft_trainer *t, size_t limit) {
    ft_trainer other = {.dir_lock = -1};
    ft_status status = ft_trainer_rehearse_like(t, t->room.config, limit, &other);
    if (status == FT_OK) t->room.planned = ft_memory_read(other.room.memory);
    if (status == FT_NO_MEMORY && other.room.memory != NULL) (void)ft_memory_refused(other.room.memory, &t->room.refusal);
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_trainer_close(&other);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

// The run as it was asked for does not fit: takes up what fits instead, if that was left to us.
static ft_status fit(ft_trainer *t, size_t limit) {
    ft_error error;
    ft_error_save(&error);
    ft_config fitted;
    ft_status status = ft_autofit_choose(t, limit, &fitted, &t->room.autofit);
    if (status != FT_OK || !t->room.autofit.chosen) {
        if (status == FT_NO_MEMORY || status == FT_OK) ft_error_restore(&error);
        return status == FT_OK ? FT_NO_MEMORY : status;
    }
    ft_autofit_take(t, &fitted, &t->room.autofit);
    t->room.refusal = (ft_memory_refusal){0};
    return forecast(t, limit);
}

static ft_status forecast_or_fit(ft_trainer *t, size_t limit) {
    ft_status status = forecast(t, limit);
    return status == FT_NO_MEMORY && t->room.refusal.by_limit ? fit(t, limit) : status;
}

// On an accelerator kernels and those of the library of products are loaded when they are first launched, beside the
// allocator: of what is free when a run is planned this much is not for tensors.
enum { LATER_CODE = 256 << 20 };

// memory.limit = auto is what is free now, for a run that may not wait for more and is alone in deciding.
static size_t limit_now(const ft_trainer *t, size_t all) {
    if (t->room.config->memory.limit != 0 || t->room.config->device.wait || ft_run_observer_of() != NULL) return all;
    const size_t graphs = ft_step_graphs_outside(t->room.config, t->room.device);
    const size_t room = ft_room_now(t->room.device), later = t->room.device->place[0] != '\0' ? LATER_CODE + graphs : 0;
    const size_t now = room > later ? room - later : 0;
    return now >= all ? all : now > 0 ? now : 1; // 0 would be no limit
}

ft_status ft_trainer_forecast(ft_trainer *t) {
    ft_log_level level = ft_log_get_level();
    ft_log_set_level(FT_LOG_SILENT); // what training says while it opens is said once
    size_t all;
    ft_status status = ft_trainer_most(t, &all);
    const size_t now = status == FT_OK ? limit_now(t, all) : 0;
    if (status == FT_OK) status = forecast_or_fit(t, now);
    if (status == FT_NO_MEMORY && now < all) { // nothing fits there: admission says who has the rest
        t->room.refusal = (ft_memory_refusal){0};
        t->room.autofit = (ft_autofit){.chosen = false};
        status = forecast_or_fit(t, all);
    }
    ft_log_set_level(level);
    return status;
}
