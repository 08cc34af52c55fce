// move.c - a run goes on on another device, from its last optimizer step.
#include "engine/train/device_history.h"
#include "engine/train/fit/eval_budget.h"
#include "engine/train/fit/forecast.h"
#include "engine/train/step/attention_path.h"
#include "engine/train/trainer.h"

// The run as it was asked for, on a device that it may have at once. What it has begun with of frozen weights it keeps: anything else
// would be another run.
static ft_status plan_there(ft_trainer *t, const char *name, ft_room *there) {
    const ft_room *here = &t->room;
    FT_TRY(ft_room_open_on(here->job, name, there));
    ft_attention_tell(there->device, &here->job->model_config, there->config->train.precision);
    if (here->gemm_tuning[0] != '\0' && ft_gemm_tuning_is_auto(there->config)) {
        const char *own = ft_trainer_own_products(t);
        FT_TRY(own != NULL ? ft_gemm_tuning_own(own, there->device, there->gemm_tuning) : FT_NO_MEMORY);
    }
    if (here->state_built && there->config->model.storage == FT_KEEP_AUTO) {
        there->fitted = *there->config;
        there->fitted.model.storage = here->config->model.storage;
        there->config = &there->fitted;
    }
    there->head_alone = here->head_alone;
    FT_TRY(ft_room_plan_steps(there));
    FT_TRY(ft_room_forecast(there));
    FT_TRY(ft_room_check_host(there));
    return ft_room_reserve(there, false);
}

ft_status ft_trainer_move(ft_trainer *t, const char *name) {
    ft_room there;
    const ft_memory_counters earlier = t->earlier;
    const int64_t came_at = t->device_step;
    ft_status status = plan_there(t, name, &there);
    if (status == FT_OK) status = ft_device_history_leave(t);
    if (status == FT_OK) {
        status = ft_step_carry_state(&t->step);
        if (status != FT_OK) ft_device_history_stay(t, &earlier, came_at);
    }
    if (status != FT_OK) {
        ft_error error;
        ft_error_save(&error);
        (void)ft_room_close(&there); // nothing was made there
        ft_error_restore(&error);
        return status;
    }
    ft_step_drop_layout(&t->step);
    ft_step_drop_state(&t->step);
    ft_memory_trace_continue(there.memory, t->room.memory);
    return ft_room_replace(&t->room, &there);
}
