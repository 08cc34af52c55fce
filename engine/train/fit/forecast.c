#include "engine/train/fit/forecast.h"

#include "base/log.h"
#include "engine/train/fit/autofit.h"
#include "engine/train/fit/host_plan.h"
#include "engine/train/fit/run_rehearsal.h"
#include "engine/train/room/observer.h"
#include "kernels/devices/cost.h"
#include "kernels/devices/devices.h"

static ft_status find_price(ft_room *room, ft_rehearsal *r) {
    const ft_run_observer *observer = ft_run_observer_of();
    if (observer == NULL || observer->priced == NULL) return FT_OK;
    room->price.threads = ft_cost_threads(&room->device->target) * (room->ranks != NULL ? room->ranks->ranks : 1);
    return ft_rehearsal_work(r, &room->price.seconds, &room->price.work);
}

static ft_status forecast(ft_room *room, size_t limit) {
    ft_rehearsal r;
    ft_status status = ft_rehearse_again(room, room->config, limit, &r);
    if (status == FT_OK) {
        room->planned = ft_memory_read(r.room.memory);
        ft_memory_expect(room->memory, &room->planned);
        ft_host_plan(&r.room, &room->planned, room->planned.peak_reserved + room->planned.peak_common, 0, &room->host);
        status = find_price(room, &r);
    }
    if (status == FT_NO_MEMORY && r.room.memory != NULL) (void)ft_memory_refused(r.room.memory, &room->refusal);
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_rehearsal_close(&r);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

// The run as it was asked for does not fit: takes up what fits instead, if that was left to us.
static ft_status fit(ft_room *room, size_t limit) {
    ft_error error;
    ft_error_save(&error);
    ft_config fitted;
    ft_status status = ft_autofit_choose(room, limit, &fitted, &room->autofit);
    if (status != FT_OK || !room->autofit.chosen) {
        if (status == FT_NO_MEMORY || status == FT_OK) ft_error_restore(&error);
        return status == FT_OK ? FT_NO_MEMORY : status;
    }
    ft_autofit_take(room, &fitted, &room->autofit);
    room->refusal = (ft_memory_refusal){0};
    return forecast(room, limit);
}

static ft_status forecast_or_fit(ft_room *room, size_t limit) {
    ft_status status = forecast(room, limit);
    return status == FT_NO_MEMORY && room->refusal.by_limit ? fit(room, limit) : status;
}

// What the process may have leaves too little for the device's memory, which is a part of it: the least that it takes is planned without a
// limit, and fits, or the limit is named (ft_room_check_host).
static ft_status plan_least(ft_room *room) {
    ft_config fitted;
    room->refusal = (ft_memory_refusal){0};
    FT_TRY(ft_autofit_least(room, room->budget.most, &fitted, &room->autofit));
    if (room->autofit.chosen) ft_autofit_take(room, &fitted, &room->autofit);
    return forecast(room, SIZE_MAX / 4);
}

ft_status ft_room_forecast_as(const ft_room *room, const ft_config *config, ft_memory_counters *planned, ft_host_memory *host) {
    const ft_log_level level = ft_log_get_level();
    ft_rehearsal r;
    ft_log_set_level(FT_LOG_SILENT);
    const ft_status status = ft_rehearse_again(room, config, SIZE_MAX / 4, &r);
    if (status == FT_OK) {
        *planned = ft_memory_read(r.room.memory);
        ft_host_plan(&r.room, planned, planned->peak_reserved, 0, host);
    }
    ft_error error;
    ft_error_save(&error);
    const ft_status closed = ft_rehearsal_close(&r);
    ft_log_set_level(level);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

ft_status ft_room_forecast_rest(const ft_room *room, ft_memory_counters *planned, ft_host_memory *host) {
    return ft_room_forecast_as(room, room->config, planned, host);
}

// What the process will hold beside the allocator of a CPU, with what planning leaves behind: it was not planned yet.
static void plan_others(const ft_room *room, ft_host_memory *others) {
    *others = (ft_host_memory){.peak = 0};
    if (room->device->place[0] != '\0') return;
    ft_host_plan(room, &(ft_memory_counters){.requested = 0}, 0, 0, others);
    ft_host_add_planning(others);
}

// What is left to autofit is fitted to what the process may have, too.
void ft_room_leave_host(ft_room *room, const ft_host_memory *others) {
    ft_budget *b = &room->budget;
    ft_host_limits limits;
    if (room->config->memory.limit != 0 || room->device->place[0] != '\0') return;
    ft_run_limits(&limits);
    const size_t beside = ft_host_room(room->config, others, &limits);
    if (beside < b->most) b->most = beside > 0 ? beside : 1; // 0 would be no limit
    if (b->most < b->now) b->now = b->most;
}

// Ranks with a device each take what the one has that has least, so that all fit the run alike.
static ft_status agree_on_budget(ft_room *room) {
    ft_budget *b = &room->budget;
    size_t values[FT_RANKS_VALUES] = {b->most, b->now, b->host, b->pinned};
    if (room->ranks == NULL || !room->plan.apart) return FT_OK;
    FT_TRY(ft_ranks_least(room->ranks, FT_RANKS_VALUES, values));
    b->most = values[0], b->now = values[1], b->host = values[2], b->pinned = values[3];
    return FT_OK;
}

// Where nothing had to be chosen for frozen weights, what is in force says so: a resumed run is held to it.
static void settle_storage(ft_room *room) {
    if (room->config->model.storage != FT_KEEP_AUTO) return;
    if (room->config != &room->fitted) room->fitted = *room->config;
    room->fitted.model.storage = FT_KEEP_AS_READ;
    room->config = &room->fitted;
}

ft_status ft_room_forecast(ft_room *room) {
    ft_log_level level = ft_log_get_level();
    ft_log_set_level(FT_LOG_SILENT); // what training says while it opens is said once
    ft_budget *b = &room->budget;
    ft_host_memory others;
    plan_others(room, &others);
    ft_status status = ft_budget_find(room->config, room->device, ft_memory_limit(room->memory), ft_host_held(&others), b);
    if (status == FT_OK) status = agree_on_budget(room);
    const size_t most = b->most;
    if (status == FT_OK) ft_room_leave_host(room, &others);
    if (status == FT_OK) status = forecast_or_fit(room, b->now);
    if (status == FT_NO_MEMORY && b->now < b->most) { // nothing fits there: admission says who has the rest
        room->refusal = (ft_memory_refusal){0};
        room->autofit = (ft_autofit){.chosen = false};
        status = forecast_or_fit(room, b->most);
    }
    if (status == FT_NO_MEMORY && room->refusal.by_limit && b->most < most) status = plan_least(room);
    ft_log_set_level(level);
    if (status == FT_OK) settle_storage(room);
    return status;
}
