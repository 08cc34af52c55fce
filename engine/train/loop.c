// loop.c - the training loop: one optimizer step after the other, with logging, evaluation and checkpoints at the
// boundaries between them.
#include "engine/train/room/observer.h"
#include "engine/train/ladder.h"
#include "engine/train/run_end.h"
#include "engine/train/step/steps.h"
#include "engine/train/trainer.h"

#include "base/log.h"
#include "base/stop.h"
#include "kernels/devices/devices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool evaluation_due(const ft_trainer *t, int64_t step) {
    if (!t->job.split[FT_SPLIT_VALIDATION].present || t->room.config->eval.strategy == FT_EVAL_NO) return false;
    return step == t->room.plan.total_steps || ft_run_evaluates_at(t, step);
}

static bool checkpoint_due(const ft_trainer *t, int64_t step) {
    const int64_t every = t->room.config->output.save_steps > 0 ? t->room.config->output.save_steps : t->room.plan.steps_per_epoch;
    return step % every == 0 && step != t->room.plan.total_steps;
}

// Behind these steps somebody looks at the device: nothing may be on its way.
static bool is_boundary(const ft_trainer *t, int64_t step) {
    return step == t->room.plan.total_steps || evaluation_due(t, step) || checkpoint_due(t, step);
}

// After the first step a process has from the driver what it needs beside its allocator: context, kernels, workspaces of libraries.
static void look_at_device(ft_trainer *t) {
    const size_t unused = ft_device_free_bytes(t->room.device);
    t->device_used = t->room.device->total_bytes > unused ? t->room.device->total_bytes - unused : 0;
    t->device_used_reserved = ft_memory_read(t->room.memory).reserved;
}

typedef struct step_piece {
    ft_step_work *work;
    void *context;
} step_piece;

static ft_status do_piece(ft_trainer *t, void *context) {
    const step_piece *p = context;
    return p->work(&t->step, p->context);
}

static ft_status climb(void *run, ft_step_work *work, void *context) {
    return ft_ladder_climb(run, FT_LADDER_LAYOUT, do_piece, &(step_piece){work, context});
}

// Books one step, and queues as many before it as have nothing between them. A signal queues none any more.
ft_status ft_trainer_step(ft_trainer *t, bool queues) {
    const ft_steps *s = &t->step.steps;
    double before = ft_now();
    while (s->count == 0 ||
           (queues && s->count < s->room && !s->held && !is_boundary(t, t->step.state.step + s->count) && ft_stop_signal() == 0))
        FT_TRY(ft_steps_queue(&t->step, climb, t));
    t->step.queueing_seconds += ft_now() - before;
    FT_TRY(ft_steps_book(&t->step));
    if (t->device_used == 0 && ft_device_queues(t->room.device)) look_at_device(t);
    t->step.state.seconds_train += ft_now() - before;
    ft_deadline_took_step(t, before);
    return FT_OK;
}

// Work between two steps. *stop: early stopping.
static ft_status boundary(ft_trainer *t, bool *stop) {
    const ft_config *c = t->room.config;
    const int64_t step = t->step.state.step;
    const bool last = step == t->room.plan.total_steps, evaluate = evaluation_due(t, step), scheduled = ft_run_evaluates_at(t, step);
    const bool logs = scheduled || (c->train.logging_steps > 0 && step % c->train.logging_steps == 0);
    if (logs) FT_TRY(ft_run_log_train(t));
    if (last && !scheduled) ft_run_end_note(t);
    if (last && !logs) FT_TRY(ft_run_log_train(t));
    if (evaluate) {
        t->step.state.evaluation_pending = true;
        FT_TRY(ft_trainer_evaluate(t, stop));
        t->step.state.evaluation_pending = false;
        t->deadline.evaluated = t->step.state.step;
    }
    if (checkpoint_due(t, t->step.state.step) && !*stop) FT_TRY(ft_checkpoint_save(t));
    return FT_OK;
}

// Saves and reports a stop that a signal asked for.
static ft_status stop_here(ft_trainer *t, int signal_number) {
    if (!ft_run_keeps())
        return ft_fail(ft_stop_status(signal_number), NULL, "stopped for good at step %lld of %lld", (long long)t->step.state.step,
                       (long long)t->room.plan.total_steps);
    FT_TRY(ft_checkpoint_save(t));
    return ft_fail(ft_stop_status(signal_number), NULL, "stopped at step %lld of %lld, the state is saved in %s",
                   (long long)t->step.state.step, (long long)t->room.plan.total_steps, t->dir);
}

// The step that diverged changed no weight: what is there is the last good state, and is saved.
static ft_status keep_last_good(ft_trainer *t) {
    ft_error error;
    ft_error_save(&error);
    FT_TRY(ft_checkpoint_save(t));
    ft_error_restore(&error);
    return FT_DIVERGED;
}

static ft_status end_in_time(ft_trainer *t) {
    const ft_status status = ft_deadline_end(t);
    return status == FT_INTERRUPTED || status == FT_TERMINATED ? stop_here(t, ft_stop_signal()) : status;
}

ft_status ft_trainer_loop(ft_trainer *t) {
    bool stop = t->step.state.stopped_early, unfinished = t->step.state.evaluation_pending;
    while (!stop && (unfinished || t->step.state.step < t->room.plan.total_steps)) {
        if (!unfinished) {
            const bool late = ft_deadline_is_near(t, checkpoint_due(t, t->step.state.step + 1));
            if (late && t->step.steps.count == 0) return end_in_time(t);
            ft_status stepped = ft_trainer_step(t, !late);
            if (stepped == FT_DIVERGED) return keep_last_good(t);
            // In the ladder, which climbs only with nothing on its way: the step begins again in the resumed run.
            if (stepped == FT_INTERRUPTED || stepped == FT_TERMINATED) return stop_here(t, ft_stop_signal());
            FT_TRY(stepped);
            ft_progress_step(t);
        }
        unfinished = false;
        ft_status status = boundary(t, &stop);
        int signal_number = ft_stop_signal();
        if (status == FT_INTERRUPTED || status == FT_TERMINATED) return stop_here(t, signal_number);
        FT_TRY(status);
        if (signal_number != 0 && t->step.steps.count > 0) continue; // they have happened: booked like the others
        if (signal_number != 0 && !stop && t->step.state.step < t->room.plan.total_steps) return stop_here(t, signal_number);
    }
    return FT_OK;
}
