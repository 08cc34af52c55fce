#include "engine/train/fit/prediction.h"

#include "base/log.h"
#include "engine/model/state/staging.h"
#include "engine/train/fit/forecast.h"
#include "engine/train/fit/host_plan.h"
#include "engine/train/job/run_plan.h"
#include "engine/train/room/limit.h"
#include "engine/train/room/observer.h"
#include "engine/train/step/predict.h"
#include "engine/train/step/rehearsal.h"
#include "kernels/devices/devices.h"

#include <stdint.h>

// Without texts as many of them come together as there are tokens for, were each of so many: of shorter ones there are fewer.
enum { LEAST_TOKENS = 8 };

static ft_capacity capacity_of(ft_prediction_work *work) {
    if (!work->computes || (work->generator.slots > 0 && work->data == NULL)) return (ft_capacity){.tokens = 0};
    if (work->data != NULL) return ft_eval_capacity(work->data, work->limits);
    ft_batch_limits *l = &work->limits;
    if (l->max_tokens > 0) l->max_sequences = l->max_tokens / LEAST_TOKENS + 1;
    ft_capacity most = ft_eval_capacity_worst(*l, work->max_length, work->by_row);
    if (l->max_tokens == 0) return most;
    most.tokens = (int32_t)(l->max_tokens > work->max_length ? l->max_tokens : work->max_length);
    most.sequences = (int32_t)l->max_sequences;
    most.reads = work->by_row ? most.tokens : most.sequences;
    return most;
}

typedef struct rehearsal {
    ft_device *device;
    ft_memory *memory;
    ft_model model;
} rehearsal;

static ft_status rehearse_pass(rehearsal *r, const ft_room *room, const ft_prediction_work *work, ft_capacity capacity) {
    ft_step_sizes sizes = {.loss = work->loss};
    *(work->rows ? &sizes.trunk : &sizes.predict) = capacity;
    FT_TRY(ft_lay_out_steps(r->memory, work->model, room->config, work->labels, &sizes));
    return work->rows ? ft_data_pass_rehearse(&r->model, capacity, FT_PASS_ROWS) : ft_predict_rehearse(&r->model, capacity);
}

// Behind a pass, whose layout goes.
static ft_status rehearse_generator(rehearsal *r, const ft_room *room, const ft_prediction_work *work) {
    const ft_step_sizes sizes = {.loss = work->loss, .generator = work->generator};
    ft_memory_drop_layout(r->memory);
    ft_memory_trim(r->memory);
    FT_TRY(ft_lay_out_steps(r->memory, work->model, room->config, work->labels, &sizes));
    return ft_generator_rehearse(&r->model, &work->generator);
}

// What will be done, in its order: weights come, memory is laid out, a micro-batch is computed.
static ft_status rehearse(rehearsal *r, const ft_room *room, const ft_prediction_work *work, ft_capacity capacity, size_t limit) {
    const ft_device *real = room->device;
    FT_TRY(ft_plan_open(real->name, real->target, SIZE_MAX / 4, &r->device));
    const ft_memory_options options = {.allocator = ft_allocator_options_of(room->config, r->device, limit)};
    FT_TRY(ft_memory_create_with(r->device, &options, &r->memory));
    FT_TRY(ft_model_create(r->memory, work->model, room->config, work->labels, &r->model));
    FT_TRY(ft_model_set_loss(&r->model, &work->loss));
    ft_staging staging;
    ft_status status = ft_staging_open(r->memory, &staging);
    ft_staging_close(&staging);
    if (status == FT_OK && capacity.tokens > 0) status = rehearse_pass(r, room, work, capacity);
    return status == FT_OK && work->generator.slots > 0 ? rehearse_generator(r, room, work) : status;
}

static ft_status rehearse_once(ft_room *room, const ft_prediction_work *work, ft_capacity capacity, size_t limit) {
    rehearsal r = {.device = NULL};
    ft_status status = rehearse(&r, room, work, capacity, limit);
    if (status == FT_OK) room->planned = ft_memory_read(r.memory);
    if (status == FT_NO_MEMORY && r.memory != NULL) (void)ft_memory_refused(r.memory, &room->refusal);
    ft_error error; // the first error is the news
    ft_error_save(&error);
    if (r.memory != NULL) ft_model_free(&r.model);
    ft_status closed = ft_memory_destroy(r.memory);
    ft_device_close(r.device);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

// Half as many texts that are gone on with, down to one, and half as many tokens of prompts at once, down to the longest.
static bool shrink_generator(ft_generator_sizes *g) {
    const int32_t tokens = g->tokens / 2 > g->longest ? g->tokens / 2 : g->longest;
    if (g->slots <= 1 && tokens == g->tokens) return false;
    g->slots = g->slots > 1 ? g->slots / 2 : 1;
    g->tokens = tokens;
    return true;
}

static bool shrink(ft_prediction_work *work, ft_capacity capacity) {
    const bool fewer_texts = shrink_generator(&work->generator), fewer_tokens = capacity.tokens > 0 && work->limits.max_tokens > capacity.longest;
    if (fewer_tokens) work->limits.max_tokens /= 2;
    return fewer_texts || fewer_tokens;
}

static void tell_refusal(const ft_room *room, const ft_prediction_work *work) {
    const bool writes = work->generator.slots > 0;
    ft_detail("out of memory, %s were refused: %lld %s at once", room->refusal.site, writes ? (long long)work->generator.slots : (long long)work->limits.max_tokens, writes ? "texts" : "tokens");
}

// Half as many tokens or texts at once as long as it does not fit, down to the longest text, or to one.
static ft_status fit(ft_room *room, ft_prediction_work *work, size_t limit, ft_capacity *capacity) {
    for (;;) {
        *capacity = capacity_of(work);
        room->refusal = (ft_memory_refusal){0};
        ft_status status = rehearse_once(room, work, *capacity, limit);
        if (status != FT_NO_MEMORY || !room->refusal.by_limit || room->config->memory.on_oom != FT_OOM_LADDER) return status;
        if (!shrink(work, *capacity)) return status;
        tell_refusal(room, work);
    }
}

static void plan_host(const ft_room *room, const ft_prediction_work *work, const ft_memory_counters *planned, ft_host_memory *out) {
    const bool of_host = !ft_device_queues(room->device);
    const ft_host_sources sources = {.held = work->held,
                                     .device = planned->peak_reserved,
                                     .planned = planned,
                                     .evaluation = work->host,
                                     .files = work->files < FT_FILES_MOST ? work->files : FT_FILES_MOST,
                                     .mapped = work->mapped,
                                     .threads = of_host ? room->device->target.threads : 1,
                                     .of_host = of_host};
    ft_host_sum(&sources, out);
}

static ft_status judge(ft_room *room, const ft_prediction_work *work) {
    ft_host_limits limits;
    plan_host(room, work, &room->planned, &room->host);
    ft_run_limits(&limits);
    const ft_host_verdict verdict = ft_host_judge(room->config, &room->host, &limits);
    if (verdict.fits) return FT_OK;
    room->refusal = (ft_memory_refusal){.bytes = verdict.need, .limit = verdict.limit, .planned = true};
    return ft_host_refuse(&verdict);
}

// What the process may have leaves too little for the device's memory, which is a part of it: the least that it takes is planned without a
// limit, and fits, or the limit is named.
static ft_status plan_least(ft_room *room, ft_prediction_work *work, ft_capacity *capacity) {
    if (work->limits.max_tokens > 0) work->limits.max_tokens = 1;
    while (shrink_generator(&work->generator)) continue;
    return fit(room, work, SIZE_MAX / 4, capacity);
}

ft_status ft_prediction_forecast(ft_room *room, ft_prediction_work *work, ft_capacity *capacity) {
    ft_budget *b = &room->budget;
    ft_host_memory others;
    const ft_batch_limits asked = work->limits;
    const ft_generator_sizes texts = work->generator;
    plan_host(room, work, &(ft_memory_counters){.requested = 0}, &others);
    ft_host_add_planning(&others);
    FT_TRY(ft_budget_find(room->config, room->device, ft_memory_limit(room->memory), ft_host_held(&others), b));
    const size_t most = b->most;
    ft_room_leave_host(room, &others);
    ft_status status = fit(room, work, b->now, capacity);
    if (status == FT_NO_MEMORY && room->refusal.by_limit && b->now < b->most) { // nothing fits there: admission says who has the rest
        work->limits = asked;
        work->generator = texts;
        status = fit(room, work, b->most, capacity);
    }
    if (status == FT_NO_MEMORY && room->refusal.by_limit && b->most < most) status = plan_least(room, work, capacity);
    FT_TRY(status);
    ft_memory_expect(room->memory, &room->planned);
    return judge(room, work);
}
