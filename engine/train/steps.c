#include "engine/train/steps.h"

#include "engine/train/observer.h"
#include "engine/train/schedule.h"
#include "engine/train/trainer.h"
#include "engine/train/update.h"
#include "kernels/arena.h"
#include "kernels/log.h"

#include <math.h>
#include <stdlib.h>

enum { ALIGN = 256 }; // of what is copied

static size_t aligned(size_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

// ---- memory -------------------------------------------------------------------------------------------------------------

static ft_status create_way(ft_trainer *t, int64_t examples, ft_step_on_its_way *w) {
    const size_t state = aligned(sizeof *w->state), update = aligned(sizeof *w->update);
    const size_t bytes = state + update + aligned((size_t)examples * sizeof(float));
    if (ft_device_queues(t->room.device)) FT_TRY(ft_memory_alloc_pinned(t->room.memory, bytes, "what a step comes to", &w->block));
    else if ((w->block = ft_calloc(1, bytes, "what a step comes to")) == NULL) return FT_NO_MEMORY;
    w->state = w->block;
    w->update = (ft_update_state *)((char *)w->block + state);
    w->losses = (float *)((char *)w->block + state + update);
    return t->room.device->functions->event_create(t->room.device, &w->done);
}

// Where a loss scale has steps skipped, the learning rate of a step depends on what came of the one before.
ft_status ft_steps_create(ft_trainer *t, int64_t examples) {
    t->step.steps.room = ft_device_queues(t->room.device) && !ft_update_scales_loss(t->room.config) ? FT_STEPS_ON_THE_WAY : 1;
    for (int i = 0; i < t->step.steps.room; i++) FT_TRY(create_way(t, examples, &t->step.steps.way[i]));
    return FT_OK;
}

void ft_steps_free(ft_trainer *t) {
    for (int i = 0; i < t->step.steps.room; i++) {
        ft_step_on_its_way *w = &t->step.steps.way[i];
        if (ft_device_queues(t->room.device)) ft_memory_free_pinned(t->room.memory, w->block);
        else free(w->block);
        t->room.device->functions->event_destroy(t->room.device, w->done);
    }
    t->step.steps = (ft_steps){.room = 0};
}

// ---- queueing -----------------------------------------------------------------------------------------------------------

// What the sum of the losses of a step is divided by: its examples, or the weights of their classes (so that a class counts
// more, and not the step).
static double weight_of(const ft_trainer *t, int64_t first, int64_t last) {
    const ft_dataset *data = &t->job.split[FT_SPLIT_TRAIN].data;
    if (t->job.loss.class_weight == NULL || data->label == NULL) return (double)(last - first);
    double sum = 0;
    for (int64_t i = first; i < last; i++) sum += (double)t->job.loss.class_weight[data->label[ft_dataset_example(data, t->step.order[i])]];
    return sum;
}

static double learning_rate_of(const ft_trainer *t, int64_t step) {
    const ft_config *c = t->room.config;
    const ft_schedule schedule = {.kind = c->train.lr_scheduler,
                                  .warmup_steps = t->room.plan.warmup_steps,
                                  .total_steps = t->room.plan.total_steps,
                                  .end = c->train.lr_end / c->train.learning_rate,
                                  .power = c->train.lr_power,
                                  .cycles = c->train.lr_cycles};
    return c->train.learning_rate * ft_schedule_factor(&schedule, step);
}

// Of one optimizer step: examples [first, last) of the epoch's order.
typedef struct step_work {
    int64_t step, first, last, tokens;
    double weight, learning_rate;
} step_work;

static ft_step_on_its_way *next_way(ft_steps *s) { return &s->way[(s->first + s->count) % s->room]; }

// Brings the values of this step to the device, clears the gradients and computes what all micro-batches share.
static ft_status begin(ft_trainer *t, const step_work *w) {
    const ft_device_functions *f = t->room.device->functions;
    ft_step_state *state = next_way(&t->step.steps)->state;
    *state = (ft_step_state){.seed = (uint64_t)t->room.config->train.seed,
                             .step = (uint32_t)w->step,
                             .learning_rate = (float)w->learning_rate,
                             .loss_factor = (float)(1 / w->weight),
                             .loss_scale = 1};
    FT_TRY(f->upload(t->room.device, t->step.step_state, state, sizeof *state));
    return ft_step_graphs_queue(t, (ft_step_shape){.part = FT_STEP_BEGIN});
}

// The present batch, whose losses belong to the places from `losses` on.
static ft_status train_batch(ft_trainer *t, float *losses, int64_t count) {
    const ft_batch *b = &t->step.buffers.device;
    if (t->step.batch_losses == NULL)
        return ft_model_train_batch(&t->room.model, b, t->room.plan.capacity, t->step.step_state, ft_vector(losses, count, FT_F32));
    FT_TRY(ft_step_graphs_queue(t, (ft_step_shape){.part = FT_STEP_BATCH, .slot = t->step.buffers.present, .sequences = b->sequences,
                                                   .tokens = b->tokens, .longest = b->longest, .filler = b->filler > 0}));
    return t->room.device->functions->copy(t->room.device, losses, t->step.batch_losses, (size_t)count * sizeof *losses);
}

// From cleared gradients to those of the whole effective batch: until then a step has changed nothing, and can begin again.
static ft_status gradients_of(ft_trainer *t, void *context) {
    step_work *w = context;
    const ft_dataset *data = &t->job.split[FT_SPLIT_TRAIN].data;
    w->tokens = 0;
    FT_TRY(begin(t, w));
    for (int64_t at = w->first; at < w->last;) {
        int64_t count = ft_batch_cut(data, t->step.order, at, w->last, t->room.plan.limits);
        FT_TRY(ft_batch_buffers_load(&t->step.buffers, data, t->step.order, at, count, (int32_t)(at - w->first)));
        t->step.queueing_seconds -= t->step.buffers.waited;
        FT_TRY(train_batch(t, t->step.losses + (at - w->first), count));
        w->tokens += t->step.buffers.device.tokens - t->step.buffers.device.filler;
        ft_run_alive(t, false);
        at += count;
    }
    return ft_step_graphs_queue(t, (ft_step_shape){.part = FT_STEP_END});
}

// Sends what the step came to on its way home.
static ft_status end(ft_trainer *t, const step_work *w) {
    const ft_device_functions *f = t->room.device->functions;
    ft_step_on_its_way *way = next_way(&t->step.steps);
    way->examples = w->last - w->first;
    way->tokens = w->tokens;
    way->weight = w->weight;
    way->learning_rate = w->learning_rate;
    FT_TRY(f->download(t->room.device, way->losses, t->step.losses, (size_t)way->examples * sizeof(float)));
    FT_TRY(f->download(t->room.device, way->update, t->step.update_state, sizeof *way->update));
    FT_TRY(f->event_record(t->room.device, way->done, FT_STREAM_COMPUTE));
    t->step.steps.count++;
    return FT_OK;
}

ft_status ft_steps_queue(ft_trainer *t) {
    step_work w = {.step = t->step.state.step + t->step.steps.count};
    const ft_dataset *data = &t->job.split[FT_SPLIT_TRAIN].data;
    int64_t epoch;
    ft_run_plan_step(&t->room.plan, w.step, &epoch, &w.first, &w.last);
    if (epoch != t->step.order_epoch) {
        FT_TRY(ft_epoch_order(t->room.plan.order_seed, epoch, data->sequences, t->step.order));
        t->step.order_epoch = epoch;
    }
    w.weight = weight_of(t, w.first, w.last);
    w.learning_rate = learning_rate_of(t, w.step - t->step.state.skipped_steps); // they do not advance it
    t->step.steps.held = false;
    if (t->step.steps.count == 0) {
        FT_TRY(ft_ladder_climb(t, FT_LADDER_LAYOUT, gradients_of, &w));
    } else {
        ft_status status = gradients_of(t, &w);
        // The ladder may move the run to another device, and what it did is noted behind the steps before it.
        if (status == FT_NO_MEMORY) return t->step.steps.held = true, FT_OK;
        FT_TRY(status);
    }
    FT_TRY(ft_step_graphs_queue(t, (ft_step_shape){.part = FT_STEP_UPDATE, .examples = w.last - w.first}));
    return end(t, &w);
}

// ---- booking ------------------------------------------------------------------------------------------------------------

static ft_status diverged(const ft_trainer *t, double loss, const ft_update_state *update) {
    if (ft_update_scales_loss(t->room.config))
        ft_fail(FT_DIVERGED, NULL, "training diverged at step %lld: fp16 overflows at a loss scale of %g, loss %g",
                (long long)t->step.state.step + 1, (double)update->loss_scale * 2, loss);
    else
        ft_fail(FT_DIVERGED, NULL, "training diverged at step %lld: loss %g, gradient norm %g",
                (long long)t->step.state.step + 1, loss, update->norm);
    ft_hint("the state before this step is kept in checkpoints/; a smaller train.learning_rate or train.max_grad_norm usually helps%s",
            ft_update_scales_loss(t->room.config) ? ", and train.precision=bf16 does not overflow" : "");
    return FT_DIVERGED;
}

// A step that overflowed changed nothing; the next is scaled less. It counts, and its loss, where it has one, is as good as any.
static void book_skipped(ft_trainer *t, const ft_update_state *update) {
    t->step.state.skipped_steps++;
    ft_detail("step %lld   skipped: its gradients overflow fp16; the loss scale is %g now", (long long)t->step.state.step + 1,
              (double)update->loss_scale);
}

ft_status ft_steps_book(ft_trainer *t) {
    ft_steps *s = &t->step.steps;
    const ft_step_on_its_way *w = &s->way[s->first];
    FT_TRY(t->room.device->functions->event_sync(t->room.device, w->done));
    ft_step_graphs_record(t);
    double sum = 0;
    for (int64_t i = 0; i < w->examples; i++) sum += w->losses[i]; // in slot order, whatever the micro-batches were
    const double loss = sum / w->weight;
    const bool taken = isfinite(loss) && w->update->finite;
    t->step.state.learning_rate = w->learning_rate;
    if (!taken && !(ft_update_scales_loss(t->room.config) && w->update->loss_scale >= FT_LEAST_LOSS_SCALE)) {
        s->count = 0;
        return diverged(t, loss, w->update);
    }
    s->first = (s->first + 1) % s->room;
    s->count--;
    if (taken) t->step.state.gradient_norm = w->update->norm;
    else book_skipped(t, w->update);
    if (taken) FT_TRY(ft_absent_rows_step(&t->room.model.absent, (float)w->learning_rate));
    t->step.state.loss_scale = (double)w->update->loss_scale;
    t->step.state.step++;
    t->step.state.tokens += w->tokens;
    if (!isfinite(loss)) return FT_OK;
    t->step.state.last_loss = loss;
    t->step.state.loss_sum += loss;
    t->step.state.loss_steps++;
    return FT_OK;
}
