// loop.c - trials begin while workers are idle and end as they come, until a stop rule, a signal or an error.
#include "hpo/study/disk.h"
#include "hpo/study/study.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/stop.h"
#include "hpo/search/gp/outlook.h"
#include "hpo/search/sampler.h"
#include "hpo/study/pausing.h"
#include "hpo/study/slots.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

// ---- stop rules -----------------------------------------------------------------------------------------------------

static bool reaches(bool maximize, double value, double target) { return maximize ? value >= target : value <= target; }

// Finished trials, those of them that completed, and how many came since the best one.
typedef struct counts {
    int64_t finished, completed, since_best;
    bool target;
} counts;

static counts count_trials(const ft_tuning *t) {
    const ft_trials *trials = &t->study->trials;
    const int64_t best = ft_tuning_best(t);
    counts c = {0};
    for (int64_t i = 0; i < trials->count; i++) {
        const ft_trial *trial = &trials->trial[i];
        if (!ft_trial_finished(trial->state)) continue;
        c.finished++;
        c.since_best += i > best;
        if (trial->state != FT_COMPLETE) continue;
        c.completed++;
        double target = t->options->target;
        bool counts_too = ft_trial_violation(trial) <= 0;
        c.target = c.target || (counts_too && !isnan(target) && reaches(trials->maximize[0], trial->values[0], target));
    }
    return c;
}

// study.no_improvement = auto: asked once for each number of finished trials.
static bool nothing_left(ft_tuning *t, int64_t finished) {
    ft_sampler_options options = ft_study_sampler_options(t->options);
    ft_gp_outlook outlook;
    if (finished == t->outlook_at) return false;
    t->outlook_at = finished;
    options.gp.seed = options.seed;
    options.gp.pending = options.constant_liar; // as hpo/report/belief.c has it, for the study's page and `study show`
    if (ft_gp_outlook_of(&t->study->trials, &options.gp, &outlook) != FT_OK) {
        ft_warn("whether better trials are to be expected is not known: %s", ft_error_message());
        ft_error_clear();
        return false;
    }
    if (!outlook.known || !outlook.stop) return false;
    ft_info("with %.1f%% no trial would be better than the best one by more than %.3g; expected are %.3g", 100 * outlook.enough,
            outlook.tolerance, outlook.gain);
    return true;
}

static const char *reason_to_stop(ft_tuning *t) {
    const ft_study_options *o = t->options;
    counts c = count_trials(t);
    if (ft_tuning_to_do(t) == 0) return "all trials are done";
    if (c.target) return "the target is reached";
    if (o->completed > 0 && c.completed >= o->completed) return "enough trials completed";
    if (o->no_improvement == FT_AUTO && c.completed > 0 && nothing_left(t, c.finished)) return "nothing better is to be expected";
    if (o->no_improvement > 0 && c.completed > 0 && c.since_best >= o->no_improvement)
        return "no better trial for long enough";
    return NULL;
}

// A trial hears of it between two steps, and saves then: as long as it was ever silent, for each.
bool ft_tuning_time_is_up(const ft_tuning *t) {
    static const double MARGIN = 2; // seconds
    const double now = ft_now();
    if (t->deadline > 0 && now + MARGIN + 2 * t->quiet >= t->deadline) return true;
    return t->options->timeout > 0 && now - t->started >= t->options->timeout;
}

// ---- the end of a trial ---------------------------------------------------------------------------------------------

// The study ends with the error that is set, the first one of several. What runs is no part of it: it is stopped and saved
// as by Ctrl-C, by the loop.
static void give_up(ft_tuning *t) {
    if (t->gives_up == FT_OK) {
        t->gives_up = ft_error_code();
        ft_error_save(&t->why);
    }
    ft_error_clear();
}

// As when something in the storage or in this process failed: what was to be written may be in the history in memory only,
// so that nothing is decided by that any more.
static void give_up_unsure(ft_tuning *t) {
    t->unsure = true;
    give_up(t);
}

static void count_failure(ft_tuning *t, int64_t number, bool may_count) {
    bool counted = may_count && t->study->trials.trial[number].state == FT_FAIL;
    t->failures = counted ? t->failures + 1 : 0;
    int64_t most = t->options->max_failures;
    if (most == 0 || t->failures < most) return;
    ft_arena arena = {0};
    char *directory = ft_tuning_trial_directory(t, number, &arena);
    ft_fail(FT_FAILED, t->place.name, "%d trials in a row failed", t->failures);
    if (directory != NULL) ft_hint("see %s/log.txt; study.max_failures says how many are too many", directory);
    ft_arena_free(&arena);
    give_up(t);
}

static ft_status in_a_group(ft_tuning *t, ft_status (*write)(ft_tuning *t)) {
    ft_error error;
    FT_TRY(ft_storage_begin(t->storage));
    ft_status status = write(t);
    if (status == FT_OK) status = ft_storage_commit(t->storage);
    if (status == FT_OK) return FT_OK;
    ft_error_save(&error);
    ft_storage_rollback(t->storage);
    ft_error_restore(&error);
    return status;
}

// It is in the file; its slot is free.
static ft_status after(ft_tuning *t, int64_t number, bool failure_counts) {
    t->ran++;
    if (t->unsure) return FT_OK; // the next call tidies up, and counts
    FT_TRY(ft_tuning_tidy(t, false));
    ft_tuning_track(t, number);
    ft_display_finished(t, number);
    count_failure(t, number, failure_counts);
    return FT_OK;
}

static ft_status finish(ft_tuning *t, ft_slot *slot, const ft_trial_end *end) {
    bool retry;
    const int64_t number = slot->number;
    FT_TRY(ft_tuning_finish(t, number, end, &retry));
    ft_disk_note(t, slot->directory);
    ft_slots_end(t, slot);
    if (retry) {
        if (end->disk_full) return FT_OK; // told as a pause
        ft_info("trial %lld: %s; it goes on from its checkpoint", (long long)number,
                end->error[0] != '\0' ? end->error : "broken off");
        return FT_OK;
    }
    ft_disk_ended(t, number);
    bool memory = end->code == FT_NO_MEMORY && !end->gone, diverged = end->code == FT_DIVERGED && !end->gone;
    if (memory && !ft_tuning_foreseen(end)) ft_tuning_show_oom(t, number, end);
    return after(t, number, !memory && !diverged);
}

// A trial may have ended without anybody having been told: its worker or this process was killed just then. What a run left
// before the machine went down need not be whole: it did not wait for the disk.
static bool ended_before(const char *directory) {
    ft_arena arena = {0};
    json_t *run = NULL;
    const char *path = ft_path_join(&arena, directory, "run.json"), *status;
    bool ended_well = path != NULL && ft_boot_is_same(directory) && ft_json_load(path, &run) == FT_OK &&
                      (status = json_string_value(json_object_get(run, "status"))) != NULL &&
                      strcmp(status, "completed") == 0;
    json_decref(run);
    ft_arena_free(&arena);
    if (!ended_well) ft_error_clear();
    return ended_well;
}

// A trial has left its worker, or lost it.
static ft_status ended(ft_tuning *t, ft_slot *slot, const ft_trial_end *end) {
    bool pruned = false;
    const int64_t number = slot->number;
    t->refused = 0;
    if (t->unsure) { // the next call finds it as it is, and what it has told
        ft_slots_end(t, slot);
        return FT_OK;
    }
    const bool saved = !end->gone && (end->code == FT_INTERRUPTED || end->code == FT_TERMINATED);
    if (!slot->pruned && !slot->paused) FT_TRY(ft_slots_drain(t, slot, &pruned));
    if (slot->pruned || pruned) {
        ft_slots_end(t, slot);
        return after(t, number, false);
    }
    if (slot->paused) { // what it came to since is found when it goes on
        ft_disk_note(t, slot->directory);
        ft_slots_end(t, slot);
        return FT_OK;
    }
    if (!end->gone && end->code == FT_NO_DEVICE) { // not the trial's fault: it waits as it is
        ft_slots_end(t, slot);
        ft_fail(FT_NO_DEVICE, NULL, "trial %lld: %s", (long long)number, end->error);
        ft_hint("the same command goes on with it; device.wait=true waits until there is room");
        give_up(t);
        return FT_OK;
    }
    if (end->gone && ended_before(slot->directory)) return finish(t, slot, &(ft_trial_end){.error = ""});
    if (!saved && !(end->gone && slot->leaving)) return finish(t, slot, end);
    if (!slot->leaving) { // not by us: the machine is going down, or a person did it
        t->outside = true;
        ft_info("trial %lld was stopped from outside and is saved", (long long)number);
    }
    ft_slots_end(t, slot);
    return FT_OK;
}

// ---- the begin of a trial -------------------------------------------------------------------------------------------

static ft_status try_to_begin(ft_tuning *t, ft_slot *slot, int64_t number) {
    ft_status status = ft_tuning_prepare(t, number);
    if (status == FT_INVALID) { // these values do not go together: a result, though not one to learn from
        char error[512];
        snprintf(error, sizeof error, "%s (%s)", ft_error_message(), ft_error_where());
        ft_error_clear();
        FT_TRY(ft_tuning_fail(t, number, "invalid", error));
        ft_tuning_release(t, number);
        return after(t, number, true);
    }
    FT_TRY(status);
    FT_TRY(ft_slots_begin(t, slot, number));
    // It needs no worker.
    if (ended_before(slot->directory)) return ended(t, slot, &(ft_trial_end){.error = ""});
    FT_TRY(ft_boot_mark(slot->directory));
    return ft_slots_run(t, slot);
}

// One that could not begin is in no slot, and nobody's: it stays as it is in the file.
static ft_status begin(ft_tuning *t, ft_slot *slot, int64_t number) {
    ft_status status = try_to_begin(t, slot, number);
    if (status == FT_OK) return FT_OK;
    ft_error error;
    ft_error_save(&error);
    ft_slots_end(t, slot);
    ft_tuning_release(t, number);
    ft_error_restore(&error);
    return status;
}

// ---- the loop -------------------------------------------------------------------------------------------------------

static ft_status stopped(ft_tuning *t) {
    int signal_number = ft_stop_signal() != 0 ? ft_stop_signal() : SIGTERM;
    int64_t elsewhere, left;
    ft_status status = ft_stop_status(signal_number);
    FT_TRY(ft_tuning_count_running(t, &elsewhere, &left));
    ft_fail(status, NULL, "stopped; `ftengine tune --study %s` goes on%s", t->place.name,
            left == 0   ? ""
            : left == 1 ? " with the trial that was running"
                        : " with the trials that were running");
    return status;
}

// A server is asked once a second whether others have left something, or are done.
static bool was_refused_just_now(const ft_tuning *t) {
    return t->refused > 0 && ft_storage_is_remote(t->storage) && ft_now() - t->refused < 1;
}

static ft_status begin_trials(ft_tuning *t) {
    for (ft_slot *slot; (slot = ft_slots_idle(t)) != NULL;) {
        int64_t number;
        if (was_refused_just_now(t)) return FT_OK;
        if (!t->asks) FT_TRY(ft_stored_refresh(t->study)); // else the end of the trial before has looked
        t->refused = ft_now();
        t->stopped_by = reason_to_stop(t);
        // Trials that end without a worker leave the slot idle: the stops are looked at between them too.
        if (t->stopped_by != NULL || ft_stop_signal() != 0 || t->gives_up != FT_OK || ft_tuning_time_is_up(t)) return FT_OK;
        if (!ft_disk_has_room(t)) return FT_OK;
        FT_TRY(ft_tuning_next(t, &number));
        if (number < 0) return FT_OK;
        t->refused = 0;
        FT_TRY(begin(t, slot, number));
        ft_disk_goes_on(t);
    }
    return FT_OK;
}

static ft_status write_beats(ft_tuning *t) {
    FT_TRY(ft_stored_refresh(t->study));
    for (int64_t i = 0; ft_tuning_pauses(t) && i < t->study->trials.count; i++) // paused ones live too
        if (t->study->trials.trial[i].state == FT_RUNNING && ft_slots_of(t, i) == NULL && ft_tuning_is_ours(t, i))
            FT_TRY(ft_stored_heartbeat(t->study, i));
    for (int i = 0; i < t->slot_count; i++) {
        const int64_t number = t->slots[i].number;
        if (number >= 0 && t->study->trials.trial[number].state == FT_RUNNING)
            FT_TRY(ft_stored_heartbeat(t->study, number));
    }
    return FT_OK;
}

// By Optuna's programs a RUNNING trial is taken for dead when it has not said for a while that it lives.
static ft_status beat(ft_tuning *t) {
    enum { BEAT_SECONDS = 15 };
    double now = ft_now();
    if (now - t->beat < BEAT_SECONDS) return FT_OK;
    t->beat = now;
    return in_a_group(t, write_beats);
}

static ft_status attend(ft_tuning *t) {
    FT_TRY(ft_slots_wait(t, 0.25, ended));
    FT_TRY(beat(t));
    ft_display_trials(t);
    return FT_OK;
}

static ft_status one_round(ft_tuning *t) {
    FT_TRY(ft_slots_turns(t));
    return attend(t);
}

// The trials save, and go on at the next call. One that was through just in time is taken, while what is stored is known. A second Ctrl-C ends this
// process, and with it the workers. An error of the storage keeps nobody from saving: it is told afterwards.
static void stop_trials(ft_tuning *t) {
    enum { PATIENCE = 120 }; // seconds, with errors; a trial that does not stop has no more either
    const double end = ft_now() + PATIENCE;
    for (int i = 0; i < t->slot_count; i++)
        if (!t->slots[i].leaving) ft_slots_leave(&t->slots[i]);
    while (ft_slots_running(t) > 0) {
        if (attend(t) == FT_OK) continue; // it is nobody's turn any more
        give_up_unsure(t);
        if (ft_now() > end) return;
    }
}

static ft_status loop(ft_tuning *t) {
    for (;;) {
        bool late = ft_tuning_time_is_up(t);
        if (t->gives_up != FT_OK || ft_stop_signal() != 0 || t->outside || late) {
            stop_trials(t);
            if (t->gives_up != FT_OK) {
                ft_error_restore(&t->why);
                return t->gives_up;
            }
            if (ft_stop_signal() != 0 || !late) return stopped(t);
            t->stopped_by = "the time is up";
            return FT_OK;
        }
        if (begin_trials(t) != FT_OK) {
            give_up_unsure(t);
            continue;
        }
        if (ft_slots_running(t) == 0 && t->stopped_by != NULL) return FT_OK;
        if (one_round(t) != FT_OK) give_up_unsure(t);
    }
}

ft_status ft_tuning_run(ft_tuning *t) {
    FT_TRY(ft_tuning_tidy(t, false));
    FT_TRY(ft_slots_open(t));
    ft_display_start(t);
    ft_status status = loop(t);
    if (status == FT_OK) status = ft_tuning_tidy(t, true); // another coordinator's trial may have been the last one
    ft_status_line("%s", "");
    ft_error error;
    ft_error_save(&error);
    ft_slots_close(t);
    if (status != FT_OK) {
        ft_error_restore(&error);
        return status;
    }
    FT_TRY(ft_display_end(t));
    if (count_trials(t).completed > 0) return FT_OK;
    if (strcmp(t->stopped_by, "the time is up") == 0) return FT_OK;
    return ft_fail(FT_FAILED, t->place.name, "no trial completed");
}
