// loop.c - the training loop: one optimizer step after the other, with logging, evaluation and checkpoints at the
// boundaries between them.
#include "engine/train/observer.h"
#include "engine/train/schedule.h"
#include "engine/train/stop.h"
#include "engine/train/trainer.h"
#include "engine/train/update.h"

#include "kernels/log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// What the sum of the losses of a step is divided by: its examples, or the weights of their classes (so that a class counts
// more, and not the step).
static double weight_of(const ft_trainer *t, int64_t first, int64_t last) {
    if (t->loss.class_weight == NULL || t->task != FT_TASK_SINGLE_LABEL) return (double)(last - first);
    const ft_dataset *data = &t->split[FT_SPLIT_TRAIN].data;
    double sum = 0;
    for (int64_t i = first; i < last; i++) sum += (double)t->loss.class_weight[data->label[ft_dataset_example(data, t->order[i])]];
    return sum;
}

// Brings the values of this step to the device, clears the gradients and computes what all micro-batches share.
static ft_status begin_step(ft_trainer *t, double weight) {
    const ft_config *c = t->config;
    const ft_schedule schedule = {.kind = c->train.lr_scheduler, .warmup_steps = t->plan.warmup_steps, .total_steps = t->plan.total_steps,
                                  .end = c->train.lr_end / c->train.learning_rate, .power = c->train.lr_power, .cycles = c->train.lr_cycles};
    double factor = ft_schedule_factor(&schedule, t->state.step - t->state.skipped_steps); // they do not advance it
    ft_step_state host = {.seed = (uint64_t)c->train.seed,
                          .step = (uint32_t)t->state.step,
                          .learning_rate = (float)(c->train.learning_rate * factor),
                          .loss_factor = (float)(1 / weight),
                          .loss_scale = 1};
    t->state.learning_rate = c->train.learning_rate * factor;
    const ft_device_functions *f = t->device->functions;
    FT_TRY(f->upload(t->device, t->step_state, &host, sizeof host));
    FT_TRY(f->sync(t->device)); // `host` goes out of scope
    FT_TRY(ft_update_scale_step(t->device, c, t->update_state, t->step_state));
    FT_TRY(f->fill(t->device, t->model.parameters.gradients, 0, (size_t)t->model.parameters.trainable * sizeof(float)));
    return ft_model_begin_step(&t->model, t->plan.capacity, t->step_state);
}

static ft_status diverged(const ft_trainer *t, double loss, const ft_update_state *update) {
    if (ft_update_scales_loss(t->config))
        ft_fail(FT_DIVERGED, NULL, "training diverged at step %lld: fp16 overflows at a loss scale of %g, loss %g", (long long)t->state.step + 1,
                (double)update->loss_scale * 2, loss);
    else
        ft_fail(FT_DIVERGED, NULL, "training diverged at step %lld: loss %g, gradient norm %g", (long long)t->state.step + 1, loss, update->norm);
    ft_hint("the state before this step is kept in checkpoints/; a smaller train.learning_rate or train.max_grad_norm usually helps%s",
            ft_update_scales_loss(t->config) ? ", and train.precision=bf16 does not overflow" : "");
    return FT_DIVERGED;
}

// A step that overflowed changed nothing; the next is scaled less. It counts, and its loss, where it has one, is as good as any.
static void book_skipped(ft_trainer *t, const ft_update_state *update) {
    t->state.skipped_steps++;
    ft_detail("step %lld   skipped: its gradients overflow fp16; the loss scale is %g now", (long long)t->state.step + 1,
              (double)update->loss_scale);
}

// Reads what the step computed and books it. FT_DIVERGED when loss or gradients are not finite, where no smaller loss scale
// can help: the update was skipped.
static ft_status end_step(ft_trainer *t, int64_t examples, double weight) {
    ft_update_state update;
    const ft_device_functions *f = t->device->functions;
    FT_TRY(f->download(t->device, t->host_losses, t->losses, (size_t)examples * sizeof(float)));
    FT_TRY(f->download(t->device, &update, t->update_state, sizeof update));
    FT_TRY(f->sync(t->device));
    double sum = 0;
    for (int64_t i = 0; i < examples; i++) sum += t->host_losses[i]; // in slot order, whatever the micro-batches were
    double loss = sum / weight;
    const bool taken = isfinite(loss) && update.finite;
    if (!taken && !(ft_update_scales_loss(t->config) && update.loss_scale >= FT_LEAST_LOSS_SCALE)) return diverged(t, loss, &update);
    if (taken) t->state.gradient_norm = update.norm;
    else book_skipped(t, &update);
    t->state.loss_scale = (double)update.loss_scale;
    t->state.step++;
    if (!isfinite(loss)) return FT_OK;
    t->state.last_loss = loss;
    t->state.loss_sum += loss;
    t->state.loss_steps++;
    return FT_OK;
}

// Of one optimizer step: examples [first, last) of the epoch's order.
typedef struct step_work {
    int64_t first, last, tokens;
    double weight;
} step_work;

// From cleared gradients to those of the whole effective batch: until then a step has changed nothing, and can begin again.
static ft_status gradients_of(ft_trainer *t, void *context) {
    step_work *w = context;
    const ft_dataset *data = &t->split[FT_SPLIT_TRAIN].data;
    w->tokens = 0;
    FT_TRY(begin_step(t, w->weight));
    for (int64_t at = w->first; at < w->last;) {
        int64_t count = ft_batch_cut(data, t->order, at, w->last, t->plan.limits);
        FT_TRY(ft_batch_buffers_load(&t->buffers, data, t->order, at, count, (int32_t)(at - w->first)));
        FT_TRY(ft_model_train_batch(&t->model, &t->buffers.device, t->plan.capacity, t->step_state,
                                    ft_vector(t->losses + (at - w->first), count, FT_F32)));
        w->tokens += t->buffers.device.tokens;
        ft_run_alive(t, false);
        at += count;
    }
    return ft_model_end_step(&t->model, t->plan.capacity, t->step_state);
}

static ft_status train_step(ft_trainer *t) {
    int64_t epoch;
    step_work w;
    ft_run_plan_step(&t->plan, t->state.step, &epoch, &w.first, &w.last);
    const ft_dataset *data = &t->split[FT_SPLIT_TRAIN].data;
    if (epoch != t->order_epoch) {
        FT_TRY(ft_epoch_order(t->plan.order_seed, epoch, data->sequences, t->order));
        t->order_epoch = epoch;
    }
    w.weight = weight_of(t, w.first, w.last);
    FT_TRY(ft_ladder_climb(t, FT_LADDER_LAYOUT, gradients_of, &w));
    const int64_t examples = w.last - w.first;
    FT_TRY(ft_update_run(&t->model.parameters, t->config, ft_vector(t->losses, examples, FT_F32), t->step_state, t->update_state));
    FT_TRY(end_step(t, examples, w.weight));
    t->state.tokens += w.tokens;
    return FT_OK;
}

static bool evaluation_due(const ft_trainer *t) {
    const ft_config *c = t->config;
    if (!t->split[FT_SPLIT_VALIDATION].present || c->eval.strategy == FT_EVAL_NO) return false;
    if (t->state.step == t->plan.total_steps) return true;
    if (c->eval.strategy == FT_EVAL_STEPS) return t->state.step % c->eval.steps == 0;
    return t->state.step % t->plan.steps_per_epoch == 0;
}

// Work between two steps. *stop: early stopping.
static ft_status boundary(ft_trainer *t, bool *stop) {
    const ft_config *c = t->config;
    bool last = t->state.step == t->plan.total_steps, evaluate = evaluation_due(t);
    if (last || evaluate || (c->train.logging_steps > 0 && t->state.step % c->train.logging_steps == 0)) FT_TRY(ft_run_log_train(t));
    if (evaluate) {
        t->state.evaluation_pending = true;
        FT_TRY(ft_trainer_evaluate(t, stop));
        t->state.evaluation_pending = false;
    }
    bool save = c->output.save_steps > 0 && t->state.step % c->output.save_steps == 0;
    bool epoch_end = c->output.save_steps == 0 && t->state.step % t->plan.steps_per_epoch == 0;
    if ((save || epoch_end) && !last && !*stop) FT_TRY(ft_checkpoint_save(t));
    return FT_OK;
}

// Saves and reports a stop that a signal asked for.
static ft_status stop_here(ft_trainer *t, int signal_number) {
    if (!ft_run_keeps())
        return ft_fail(ft_stop_status(signal_number), NULL, "stopped for good at step %lld of %lld", (long long)t->state.step,
                       (long long)t->plan.total_steps);
    FT_TRY(ft_checkpoint_save(t));
    return ft_fail(ft_stop_status(signal_number), NULL, "stopped at step %lld of %lld, the state is saved in %s", (long long)t->state.step,
                   (long long)t->plan.total_steps, t->dir);
}

// The step that diverged changed no weight: what is there is the last good state, and is saved.
static ft_status keep_last_good(ft_trainer *t) {
    ft_error error;
    ft_error_save(&error);
    FT_TRY(ft_checkpoint_save(t));
    ft_error_restore(&error);
    return FT_DIVERGED;
}

ft_status ft_trainer_loop(ft_trainer *t) {
    bool stop = t->state.stopped_early, unfinished = t->state.evaluation_pending;
    while (!stop && (unfinished || t->state.step < t->plan.total_steps)) {
        if (!unfinished) {
            double before = ft_now();
            ft_status stepped = train_step(t);
            if (stepped == FT_DIVERGED) return keep_last_good(t);
            FT_TRY(stepped);
            t->state.seconds_train += ft_now() - before;
            ft_progress_step(t);
        }
        unfinished = false;
        ft_status status = boundary(t, &stop);
        int signal_number = ft_stop_signal();
        if (status == FT_INTERRUPTED || status == FT_TERMINATED) return stop_here(t, signal_number);
        FT_TRY(status);
        if (signal_number != 0 && !stop && t->state.step < t->plan.total_steps) return stop_here(t, signal_number);
    }
    return FT_OK;
}
