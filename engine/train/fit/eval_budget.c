#include "engine/train/fit/eval_budget.h"

#include "engine/train/job/features.h"
#include "engine/train/room/device_graphs.h"
#include "engine/train/step/rehearsal.h"
#include "kernels/devices/devices.h"

typedef struct budget {
    const ft_room *room;
    size_t step_bytes, step_live; // the arena of training, and what is alive in it
} budget;

// The arena that scopes of these sizes take in the room. enough: one of so many bytes is small enough; 0: none is.
static ft_status arena_of(const ft_room *room, const ft_step_sizes *sizes, size_t enough, size_t *bytes, size_t *live) {
    ft_device *device;
    ft_memory *memory = NULL;
    FT_TRY(ft_plan_open(room->device->name, room->device->target, SIZE_MAX / 4, &device));
    ft_status status = ft_memory_create(device, 0, &memory);
    if (status == FT_OK) ft_memory_ask(memory, enough);
    if (status == FT_OK) status = ft_lay_out_steps(memory, &room->job->model_config, room->config, room->job->labels.count, sizes);
    if (status == FT_OK) {
        ft_memory_counters c = ft_memory_read(memory);
        *bytes = c.arena_bytes;
        *live = c.arena_live_bytes;
    }
    ft_error error;
    ft_error_save(&error);
    ft_status closed = ft_memory_destroy(memory);
    ft_device_close(device);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

// What the projections of relative positions take for micro-batches of these sizes: they are no part of the arena, and grow with
// the longest text.
static ft_status positions_of(const ft_room *room, ft_capacity evaluation, size_t *bytes) {
    ft_device *device;
    ft_memory *memory = NULL;
    ft_model model = {.memory = NULL};
    FT_TRY(ft_plan_open(room->device->name, room->device->target, SIZE_MAX / 4, &device));
    ft_status status = ft_memory_create(device, 0, &memory);
    if (status == FT_OK) status = ft_model_create(memory, &room->job->model_config, room->config, room->job->labels.count, &model);
    size_t before = status == FT_OK ? ft_memory_read(memory).allocated : 0;
    if (status == FT_OK) status = ft_model_hold_positions(&model, room->plan.capacity, evaluation);
    if (status == FT_OK) *bytes = ft_memory_read(memory).allocated - before;
    ft_error error;
    ft_error_save(&error);
    ft_model_release_positions(&model);
    ft_model_free(&model);
    ft_status closed = ft_memory_destroy(memory);
    ft_device_close(device);
    if (status == FT_OK) return closed;
    ft_error_restore(&error);
    return status;
}

static ft_step_sizes only_evaluation(const ft_room *room, ft_capacity capacity) {
    ft_step_sizes sizes = ft_room_sizes(room);
    sizes.train = (ft_capacity){.tokens = 0};
    sizes.predict = capacity;
    return sizes;
}

// The largest micro-batch of all evaluations.
static ft_capacity capacity_under(const budget *b, ft_batch_limits limits) {
    const ft_room *room = b->room;
    ft_capacity capacity = {.tokens = 0};
    if (room->job->without_data)
        return room->config->eval.strategy == FT_EVAL_NO ? capacity
                                                           : ft_eval_capacity_worst(limits, ft_job_longest(room->job), ft_task_reads_rows(room->job->task));
    for (int s = FT_SPLIT_VALIDATION; s < FT_SPLITS; s++)
        if (ft_job_evaluates(room->job, (ft_split)s))
            capacity = ft_capacity_union(capacity, ft_eval_capacity(&room->job->split[s].data, limits));
    return capacity;
}

typedef struct trial {
    int64_t tokens; // of the limit
    ft_capacity capacity;
    size_t bytes, live;
} trial;

static ft_status try_tokens(const budget *b, int64_t tokens, trial *out) {
    out->tokens = tokens;
    out->capacity = capacity_under(b, (ft_batch_limits){.max_tokens = tokens});
    ft_step_sizes sizes = only_evaluation(b->room, out->capacity);
    return arena_of(b->room, &sizes, b->step_bytes, &out->bytes, &out->live);
}

static bool fits(const budget *b, const trial *one) { return one->bytes <= b->step_bytes && one->live <= b->step_live; }

// Bytes grow with tokens almost in a straight line: the next try is where it meets the step's arena, and every other time the
// middle, until the answer is known to a sixteenth.
static ft_status search(const budget *b, int64_t longest, trial *best) {
    trial high;
    int64_t most = b->room->plan.capacity.tokens > FT_EVAL_TOKENS ? b->room->plan.capacity.tokens : FT_EVAL_TOKENS;
    FT_TRY(try_tokens(b, most, &high));
    if (fits(b, &high)) return *best = high, FT_OK;
    FT_TRY(try_tokens(b, longest, best)); // a text cannot be cut: it is evaluated whatever it takes
    if (!fits(b, best)) return FT_OK;
    for (int round = 0; high.tokens - best->tokens > 1 + best->tokens / 16; round++) {
        const int64_t between = high.tokens - best->tokens;
        double share = 0.5;
        if (round % 2 == 0 && high.bytes > best->bytes)
            share = (double)(b->step_bytes - best->bytes) / (double)(high.bytes - best->bytes);
        int64_t next = best->tokens + (int64_t)(share * (double)between);
        if (next <= best->tokens) next = best->tokens + 1;
        if (next >= high.tokens) next = high.tokens - 1;
        trial one;
        FT_TRY(try_tokens(b, next, &one));
        *(fits(b, &one) ? best : &high) = one;
    }
    return FT_OK;
}

static ft_status plan_evaluations(ft_room *room) {
    budget b = {.room = room};
    const ft_config *c = room->config;
    const bool named = c->eval.batch_size != FT_AUTO || c->eval.batch_multiplier != FT_AUTO;
    room->eval_limits = named ? ft_eval_limits(c, room->plan.texts) : (ft_batch_limits){.max_tokens = 1};
    room->eval_capacity = capacity_under(&b, room->eval_limits);
    room->eval_extra = 0;
    if (room->eval_capacity.tokens == 0) return FT_OK;
    ft_step_sizes sizes = ft_room_sizes(room);
    sizes.predict = (ft_capacity){.tokens = 0};
    FT_TRY(arena_of(room, &sizes, 0, &b.step_bytes, &b.step_live));
    trial one = {.capacity = room->eval_capacity};
    if (!named) {
        FT_TRY(search(&b, room->eval_capacity.longest, &one));
        room->eval_limits = (ft_batch_limits){.max_tokens = one.tokens};
        room->eval_capacity = one.capacity;
    }
    if (named || !fits(&b, &one)) { // how much more, to the byte
        sizes = only_evaluation(room, one.capacity);
        FT_TRY(arena_of(room, &sizes, 0, &one.bytes, &one.live));
    }
    room->eval_extra = one.bytes > b.step_bytes ? one.bytes - b.step_bytes : 0;
    if (room->eval_capacity.longest <= room->plan.capacity.longest) return FT_OK;
    size_t with, without;
    FT_TRY(positions_of(room, room->eval_capacity, &with));
    FT_TRY(positions_of(room, (ft_capacity){.tokens = 0}, &without));
    room->eval_extra += with - without;
    return FT_OK;
}

// The largest micro-batch of the pass that makes features.
static ft_capacity trunk_capacity(const ft_room *room) {
    const ft_job *job = room->job;
    const ft_batch_limits limits = ft_trunk_limits(room->config);
    ft_capacity capacity = {.tokens = 0};
    if (!ft_job_lacks_features(job)) return capacity;
    if (job->without_data) return ft_eval_capacity_worst(limits, job->max_length, false);
    for (int i = 0; i < job->features.sets; i++) {
        const ft_feature_set *set = &job->features.set[i];
        for (int k = 0; k < set->parts && set->features.data == NULL; k++) {
            const ft_dataset texts = ft_job_texts(job, set->split[k]);
            capacity = ft_capacity_union(capacity, ft_eval_capacity(&texts, limits));
        }
    }
    return capacity;
}

ft_status ft_room_plan_steps(ft_room *room) {
    const ft_job *job = room->job;
    if (job->without_data) ft_run_plan_worst(room->config, ft_job_longest(job), ft_task_reads_rows(job->task), &room->plan);
    else FT_TRY(ft_run_plan_make(room->config, &job->split[FT_SPLIT_TRAIN].data, &room->plan));
    if (ft_step_graphs_wanted(room->config, room->device)) ft_run_plan_fill_up(&room->plan);
    room->plan.trunk = trunk_capacity(room);
    return plan_evaluations(room);
}
