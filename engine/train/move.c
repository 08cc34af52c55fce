// move.c - a run goes on on another device, from its last optimizer step.
#include "engine/train/device_history.h"
#include "engine/train/gemm_tuning.h"
#include "engine/train/stages.h"
#include "engine/train/trainer.h"

#include "kernels/devices.h"

#include <string.h>

// What of a trainer depends on where it runs.
typedef struct place {
    ft_device *device;
    ft_memory *memory;
    ft_ledger *reservation, *host_reservation;
    ft_config fitted;
    bool is_fitted;
    ft_autofit autofit;
    ft_run_plan plan;
    ft_batch_limits eval_limits;
    ft_capacity eval_capacity;
    size_t eval_extra;
    ft_memory_counters planned;
    ft_memory_refusal refusal;
    char gemm_tuning[FT_TUNING_HASH];
} place;

static place place_of(const ft_trainer *t) {
    place p = {.device = t->room.device,
               .memory = t->room.memory,
               .reservation = t->room.reservation,
               .host_reservation = t->room.host_reservation,
               .fitted = t->room.fitted,
               .is_fitted = t->room.config == &t->room.fitted,
               .autofit = t->room.autofit,
               .plan = t->room.plan,
               .eval_limits = t->room.eval_limits,
               .eval_capacity = t->room.eval_capacity,
               .eval_extra = t->room.eval_extra,
               .planned = t->room.planned,
               .refusal = t->room.refusal};
    memcpy(p.gemm_tuning, t->room.gemm_tuning, sizeof p.gemm_tuning);
    return p;
}

static void take_place(ft_trainer *t, const place *p) {
    t->room.device = p->device;
    t->room.memory = p->memory;
    t->room.reservation = p->reservation;
    t->room.host_reservation = p->host_reservation;
    t->room.fitted = p->fitted;
    t->room.config = p->is_fitted ? &t->room.fitted : t->job.config;
    t->room.autofit = p->autofit;
    t->room.plan = p->plan;
    t->room.eval_limits = p->eval_limits;
    t->room.eval_capacity = p->eval_capacity;
    t->room.eval_extra = p->eval_extra;
    t->room.planned = p->planned;
    t->room.refusal = p->refusal;
    memcpy(t->room.gemm_tuning, p->gemm_tuning, sizeof t->room.gemm_tuning);
}

static ft_status close_place(place *p) {
    ft_status status = ft_memory_destroy(p->memory);
    ft_ledger_close(p->host_reservation);
    ft_ledger_close(p->reservation);
    ft_device_close(p->device);
    return status;
}

// The run as it was asked for, on a device that it may have at once.
static ft_status plan_there(ft_trainer *t, const char *name) {
    const ft_config *c = t->job.config;
    t->room.device = NULL;
    t->room.memory = NULL;
    t->room.reservation = t->room.host_reservation = NULL;
    t->room.config = c;
    t->room.autofit = (ft_autofit){.chosen = false};
    t->room.refusal = (ft_memory_refusal){0};
    FT_TRY(ft_device_open(name, (int)c->device.threads, c->device.isa, &t->room.device, NULL));
    FT_TRY(ft_gemm_tuning_apply(c, t->room.device, t->room.gemm_tuning)); // a file of another chip makes this device none
    ft_memory_options options = {.allocator = ft_allocator_options_of(c, t->room.device, 0)};
    FT_TRY(ft_memory_create_with(t->room.device, &options, &t->room.memory));
    if (c->memory.timeline) FT_TRY(ft_memory_trace(t->room.memory));
    FT_TRY(ft_trainer_plan_steps(t));
    FT_TRY(ft_trainer_forecast(t));
    return ft_trainer_reserve(t, false);
}

ft_status ft_trainer_move(ft_trainer *t, const char *name) {
    place old = place_of(t);
    const ft_memory_counters earlier = t->earlier;
    const int64_t came_at = t->device_step;
    ft_status status = plan_there(t, name);
    place new = place_of(t);
    take_place(t, &old);
    if (status == FT_OK) status = ft_device_history_leave(t);
    if (status == FT_OK) {
        status = ft_trainer_carry_state(t);
        if (status != FT_OK) ft_device_history_stay(t, &earlier, came_at);
    }
    if (status != FT_OK) {
        ft_error error;
        ft_error_save(&error);
        (void)close_place(&new); // nothing was made there
        ft_error_restore(&error);
        return status;
    }
    ft_trainer_drop_layout(t);
    ft_trainer_drop_state(t);
    ft_memory_trace_continue(new.memory, old.memory);
    status = close_place(&old);
    take_place(t, &new);
    return status;
}
