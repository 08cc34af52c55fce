#include "engine/train/eval_budget.h"

typedef struct budget {
    const ft_trainer *t, *from;
    size_t step_bytes, step_live; // the arena of training, and what is alive in it
} budget;

// The arena that scopes of these sizes take on t's device. room: one of so many bytes is small enough; 0: none is.
static ft_status arena_of(const ft_trainer *t, const ft_step_sizes *sizes, size_t room, size_t *bytes, size_t *live) {
    ft_device *device;
    ft_memory *memory = NULL;
    FT_TRY(ft_plan_open(t->room.device->name, t->room.device->target, SIZE_MAX / 4, &device));
    ft_status status = ft_memory_create(device, 0, &memory);
    if (status == FT_OK) ft_memory_ask(memory, room);
    if (status == FT_OK) status = ft_lay_out_steps(memory, &t->job.model_config, t->room.config, t->job.labels.count, sizes);
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
static ft_status positions_of(const ft_trainer *t, ft_capacity evaluation, size_t *bytes) {
    ft_device *device;
    ft_memory *memory = NULL;
    ft_model model = {.memory = NULL};
    FT_TRY(ft_plan_open(t->room.device->name, t->room.device->target, SIZE_MAX / 4, &device));
    ft_status status = ft_memory_create(device, 0, &memory);
    if (status == FT_OK) status = ft_model_create(memory, &t->job.model_config, t->room.config, t->job.labels.count, &model);
    size_t before = status == FT_OK ? ft_memory_read(memory).allocated : 0;
    if (status == FT_OK) status = ft_model_hold_positions(&model, t->room.plan.capacity, evaluation);
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

static ft_step_sizes only_evaluation(const ft_trainer *t, ft_capacity capacity) {
    ft_step_sizes sizes = ft_trainer_sizes(t);
    sizes.train = (ft_capacity){0, 0, 0};
    sizes.predict = capacity;
    return sizes;
}

// The largest micro-batch of all evaluations.
static ft_capacity capacity_under(const budget *b, ft_batch_limits limits) {
    const ft_trainer *t = b->t;
    ft_capacity capacity = {0, 0, 0};
    if (t->job.without_data)
        return t->room.config->eval.strategy == FT_EVAL_NO ? capacity
                                                           : ft_eval_capacity_worst(limits, t->job.max_length);
    for (int s = FT_SPLIT_VALIDATION; s < FT_SPLITS; s++)
        if (ft_trainer_evaluates(t, (ft_split)s))
            capacity = ft_capacity_union(capacity, ft_eval_capacity(&b->from->job.split[s].data, limits));
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
    ft_step_sizes sizes = only_evaluation(b->t, out->capacity);
    return arena_of(b->t, &sizes, b->step_bytes, &out->bytes, &out->live);
}

static bool fits(const budget *b, const trial *one) { return one->bytes <= b->step_bytes && one->live <= b->step_live; }

// Bytes grow with tokens almost in a straight line: the next try is where it meets the step's arena, and every other time the
// middle, until the answer is known to a sixteenth.
static ft_status search(const budget *b, int64_t longest, trial *best) {
    trial high;
    int64_t most = b->t->room.plan.capacity.tokens > FT_EVAL_TOKENS ? b->t->room.plan.capacity.tokens : FT_EVAL_TOKENS;
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

ft_status ft_eval_budget(ft_trainer *t, const ft_trainer *from) {
    budget b = {.t = t, .from = from};
    const ft_config *c = t->room.config;
    const bool named = c->eval.batch_size != FT_AUTO || c->eval.batch_multiplier != FT_AUTO;
    t->room.eval_limits = named ? ft_eval_limits(c, t->room.plan.texts) : (ft_batch_limits){.max_tokens = 1};
    t->room.eval_capacity = capacity_under(&b, t->room.eval_limits);
    t->room.eval_extra = 0;
    if (t->room.eval_capacity.tokens == 0) return FT_OK;
    ft_step_sizes sizes = ft_trainer_sizes(t);
    sizes.predict = (ft_capacity){0, 0, 0};
    FT_TRY(arena_of(t, &sizes, 0, &b.step_bytes, &b.step_live));
    trial one = {.capacity = t->room.eval_capacity};
    if (!named) {
        FT_TRY(search(&b, t->room.eval_capacity.longest, &one));
        t->room.eval_limits = (ft_batch_limits){.max_tokens = one.tokens};
        t->room.eval_capacity = one.capacity;
    }
    if (named || !fits(&b, &one)) { // how much more, to the byte
        sizes = only_evaluation(t, one.capacity);
        FT_TRY(arena_of(t, &sizes, 0, &one.bytes, &one.live));
    }
    t->room.eval_extra = one.bytes > b.step_bytes ? one.bytes - b.step_bytes : 0;
    if (t->room.eval_capacity.longest <= t->room.plan.capacity.longest) return FT_OK;
    size_t with, without;
    FT_TRY(positions_of(t, t->room.eval_capacity, &with));
    FT_TRY(positions_of(t, (ft_capacity){0, 0, 0}, &without));
    t->room.eval_extra += with - without;
    return FT_OK;
}
