#include "engine/train/ladder.h"

#include "base/log.h"
#include "base/stop.h"
#include "engine/train/fit/autofit.h"
#include "engine/train/room/device_choice.h"
#include "engine/train/room/observer.h"
#include "engine/train/trainer.h"
#include "kernels/devices/devices.h"

#include <stdio.h>
#include <string.h>

enum { ACTION = sizeof((ft_ladder_event *)NULL)->action };

typedef struct climb {
    ft_ladder_needs needs;
    ft_memory_refusal refusal; // the latest
    int rung;                  // tried next
    int64_t tries;
    double waiting;            // since when; 0: no wait yet
    bool quiet;                // what was done is known already
    char action[ACTION];
} climb;

// A rung. *done: the work can be tried again; else the next one is asked.
typedef ft_status rung(ft_trainer *t, climb *c, bool *done);

// ---- on the device that the run has ----------------------------------------------------------------------------------------

// A save needs a small window only: for that the arena goes, and comes again with the next step.
static ft_status release(ft_trainer *t, climb *c, bool *done) {
    c->rung++; // once
    if (c->needs == FT_LADDER_STATE && t->room.laid_out) {
        ft_step_drop_layout(&t->step);
        snprintf(c->action, sizeof c->action, "the arena of the steps is released until the next one");
    } else {
        ft_memory_trim(t->room.memory);
        snprintf(c->action, sizeof c->action, "what was cached is released, and it is tried again");
    }
    *done = true;
    return FT_OK;
}

// What the device may have left beside what it gave: it says so itself, but half of what it refused is the most to count on,
// since it may be in pieces, or gone by now.
static size_t room_beside(const ft_trainer *t, const ft_memory_refusal *r) {
    size_t unused = ft_device_free_bytes(t->room.device), half = r->bytes / 2;
    return unused > 0 && unused < half ? unused : half;
}

static ft_status reduce(ft_trainer *t, climb *c, bool *done) {
    ft_config config;
    ft_autofit fit;
    if (c->needs == FT_LADDER_STATE || !t->room.state_built) return FT_OK; // no micro-batch is involved
    ft_log_level level = ft_log_get_level();
    ft_log_set_level(FT_LOG_SILENT);
    ft_status status = ft_autofit_reduce(&t->room, c->refusal.reserved + room_beside(t, &c->refusal), &config, &fit);
    ft_log_set_level(level);
    if (status != FT_OK || !fit.chosen) return status;
    ft_step_drop_layout(&t->step);
    ft_autofit_take(&t->room, &config, &fit);
    const int64_t every = config.train.gradient_checkpointing;
    snprintf(c->action, sizeof c->action, "micro-batches of at most %d tokens%s", t->room.plan.texts.tokens,
             every == FT_AUTO || every == 0 ? "" : every == 1 ? ", recomputing every layer" : ", recomputing several layers at a time");
    if (config.memory.recompute_layernorm == FT_RECOMPUTE_TRUE)
        snprintf(c->action + strlen(c->action), sizeof c->action - strlen(c->action), ", making norms again");
    *done = true;
    return FT_OK;
}

// ---- another device, or later -------------------------------------------------------------------------------------------

static bool may_leave(const ft_trainer *t) {
    return t->room.device->place[0] != '\0' && strcmp(t->job.config->device.name, "auto") == 0 && ft_run_observer_of() == NULL;
}

static ft_status move_to(ft_trainer *t, climb *c, const char *name, bool *done) {
    ft_log_level level = ft_log_get_level();
    ft_log_set_level(FT_LOG_SILENT);
    const bool offloaded = ft_offloads_optimizer(t->room.config, t->room.device);
    ft_status status = ft_trainer_move(t, name);
    ft_log_set_level(level);
    if (status != FT_OK) return status;
    const bool alone = offloaded && !ft_device_queues(t->room.device); // there is no other memory to keep it in
    snprintf(c->action, sizeof c->action, "the run goes on on %s%s", t->room.device->name, alone ? ", where AdamW's state is now" : "");
    *done = true;
    return FT_OK;
}

// The one with most free memory of those that take the run.
static ft_status other_device(ft_trainer *t, climb *c, bool *done) {
    ft_offer offer = {.count = 0};
    if (!may_leave(t)) return FT_OK;
    FT_TRY(ft_offer_add_cuda(&offer));
    const ft_admission_request request = {.min_free = (size_t)t->room.config->device.min_free_memory};
    for (int i = 0; i < offer.count; i++)
        if (strcmp(offer.candidates[i].ledger, t->room.device->place) == 0) offer.candidates[i].trains = false;
    for (;;) {
        int best = ft_admission_choose(offer.count, offer.candidates, offer.free, &request);
        if (best < 0) return FT_OK;
        if (move_to(t, c, offer.candidates[best].name, done) == FT_OK) return FT_OK;
        offer.candidates[best].trains = false;
    }
}

static ft_status to_cpu(ft_trainer *t, climb *c, bool *done) { return may_leave(t) ? move_to(t, c, "cpu", done) : FT_OK; }

// Not a run of a study: its silence would be taken for a hang, and its neighbours may hold what it waits for. It ends, out of
// memory, which is a result.
static ft_status wait(ft_trainer *t, climb *c, bool *done) {
    const ft_config *o = t->room.config;
    if (ft_run_observer_of() != NULL) return FT_OK;
    const double elapsed = c->waiting > 0 ? ft_now() - c->waiting : 0;
    if (c->needs == FT_LADDER_STATE && ft_stop_signal() != 0) return FT_OK; // who asked for a stop is not kept waiting
    if (!o->device.wait || (o->device.wait_timeout > 0 && elapsed >= o->device.wait_timeout)) return FT_OK;
    c->quiet = c->waiting > 0;
    if (!c->quiet) {
        c->waiting = ft_now();
        snprintf(c->action, sizeof c->action, "waiting for memory on %s", t->room.device->name);
    }
    double pause = o->device.check_interval;
    if (o->device.wait_timeout > 0 && pause > o->device.wait_timeout - elapsed) pause = o->device.wait_timeout - elapsed;
    c->tries--; // a wait has an end of its own
    *done = true;
    return ft_admission_pause(pause);
}

// ---- climbing -----------------------------------------------------------------------------------------------------------

static rung *const rungs[] = {release, reduce, other_device, wait, to_cpu};
enum { RUNGS = sizeof rungs / sizeof rungs[0] };

static ft_status note(ft_trainer *t, const climb *c) {
    char bytes[24];
    ft_ladder *l = &t->ladder;
    ft_ladder_event e = {.step = t->step.state.step, .bytes = c->refusal.bytes, .reserved = c->refusal.reserved};
    memcpy(e.site, c->refusal.site, sizeof e.site);
    memcpy(e.action, c->action, sizeof e.action);
    ft_warn("out of memory at step %lld, %s for %s were refused: %s", (long long)e.step, ft_bytes_text(e.bytes, bytes), e.site, e.action);
    l->all++;
    if (l->count < FT_LADDER_EVENTS) l->events[l->count++] = e;
    return t->metrics_file != NULL ? ft_run_log_refusal(t, &e) : FT_OK; // those of the start come when it is opened
}

static ft_status next_rung(ft_trainer *t, climb *c, bool *done) {
    *done = false;
    c->quiet = false;
    if (c->tries++ >= t->room.config->memory.max_retries) return FT_OK;
    for (; c->rung < RUNGS; c->rung++) {
        ft_status status = rungs[c->rung](t, c, done);
        // A signal ends work that the resumed run does again; what is being saved is what that run needs.
        if ((status == FT_INTERRUPTED || status == FT_TERMINATED) && c->needs != FT_LADDER_STATE) return status;
        if (status != FT_OK) *done = false; // a rung that breaks is none
        if (*done) return c->quiet ? FT_OK : note(t, c);
    }
    return FT_OK;
}

// FT_OK: try again. Else the error is that of the refusal.
static ft_status step_down(ft_trainer *t, climb *c) {
    ft_error error;
    bool done;
    ft_error_save(&error);
    ft_status status = next_rung(t, c, &done);
    if (status != FT_OK || done) return status;
    ft_error_restore(&error);
    if (t->ladder.all > 0 && c->action[0] != '\0') ft_hint("tried before that (memory.on_oom): %s", c->action);
    return FT_NO_MEMORY;
}

static ft_status attempt(ft_trainer *t, ft_ladder_needs needs, ft_ladder_work *work, void *context) {
    FT_TRY(ft_step_build_state(&t->step));
    if (needs == FT_LADDER_LAYOUT) FT_TRY(ft_step_build_layout(&t->step));
    return work != NULL ? work(t, context) : FT_OK;
}

ft_status ft_ladder_climb(ft_trainer *t, ft_ladder_needs needs, ft_ladder_work *work, void *context) {
    climb c = {.needs = needs};
    for (;;) {
        ft_memory_forget_refusal(t->room.memory);
        ft_status status = attempt(t, needs, work, context);
        // Of several ranks one alone has nothing to try: all have to cut a batch alike. They end, and can go on.
        if (status != FT_NO_MEMORY || t->room.config->memory.on_oom == FT_OOM_FAIL || t->room.ranks != NULL) return status;
        if (!ft_memory_refused(t->room.memory, &c.refusal) || c.refusal.by_limit) return status; // the host's, or a plan that was wrong
        FT_TRY(step_down(t, &c));
    }
}
