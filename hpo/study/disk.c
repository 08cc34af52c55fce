// disk.c - a full disk pauses a study. While it is nearly full no trial begins. When it is too full for what the
// study itself writes, the history in memory may be another one than the file's; so the study is closed, and opened
// again as after a kill. So it is when another process keeps its database locked, and when the server that has it is
// gone.
#include "hpo/study/disk.h"
#include "hpo/study/study.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/url.h"
#include "engine/memory/memory.h"
#include "engine/track/notice.h"
#include "engine/track/notify.h"
#include "engine/track/follow.h"
#include "engine/track/tracker.h"
#include "hpo/study/slots.h"

#include <fts.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

static const uint64_t LEAST = 64 << 20; // before the first trial has shown what it needs
static const double TELL_EVERY = 60;    // seconds
static const double SETTLE = 1, LONGEST = 600; // seconds after a trial that found no room, at first and at most
static const double SOONEST = 0.25, LATEST = 10; // seconds until a study is opened again

uint64_t ft_disk_bytes(const char *directory) {
    char *const roots[] = {(char *)directory, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    uint64_t bytes = 0;
    for (FTSENT *entry; tree != NULL && (entry = fts_read(tree)) != NULL;)
        if (entry->fts_info == FTS_F) bytes += (uint64_t)entry->fts_statp->st_blocks * 512;
    if (tree != NULL) fts_close(tree);
    return bytes;
}

void ft_disk_note(ft_tuning *t, const char *directory) {
    const uint64_t bytes = ft_disk_bytes(directory);
    if (bytes > t->trial_disk) t->trial_disk = bytes;
}

// For each trial that runs and one more twice what the largest has left so far: a model is written beside the old one.
static uint64_t wanted(const ft_tuning *t) {
    if (t->options->min_free_disk > 0) return (uint64_t)t->options->min_free_disk;
    uint64_t each = 2 * t->trial_disk;
    return (each > LEAST ? each : LEAST) * (uint64_t)(ft_slots_running(t) + 1);
}

static bool free_bytes(const ft_tuning *t, uint64_t *room) {
    struct statvfs disk;
    if (statvfs(t->directory, &disk) != 0) return false;
    *room = (uint64_t)disk.f_bavail * disk.f_frsize;
    return true;
}

// What it had written of the file for which there was no room is removed by now, so that what is free may look like plenty; and
// of a quota, or of another disk, nothing is known here at all.
void ft_disk_was_full(ft_tuning *t, int64_t number, const char *error) {
    ft_full_disk *full = &t->full;
    uint64_t room = UINT64_MAX; // then the pause alone counts
    (void)free_bytes(t, &room);
    const bool first = full->since == 0, again = full->tried;
    if (first || again) full->pause = first ? SETTLE : fmin(2 * full->pause, LONGEST);
    *full = (ft_full_disk){.trial = number, .since = ft_now(), .pause = full->pause, .room = room};
    if (!first && !again) return; // one of those that ran at the same time, and met the same
    if (t->paused == 0) ft_tuning_tell(t, "study.paused", error[0] != '\0' ? error : "no space on the disk", number);
    t->paused = full->since;
    ft_warn("paused: trial %lld: %s; it is tried again when more is free for %s, or after %.0f s; free some space, or stop with "
            "Ctrl-C", (long long)number, error[0] != '\0' ? error : "no space on the disk", t->place.directory, full->pause);
}

void ft_disk_ended(ft_tuning *t, int64_t number) {
    if (t->full.trial == number) t->full = (ft_full_disk){.since = 0};
}

void ft_disk_goes_on(ft_tuning *t) {
    t->full.tried = t->full.since > 0;
    if (t->paused == 0) return;
    t->paused = 0;
    ft_info("going on after a pause");
}

static bool waits_after_full(const ft_full_disk *full, bool known, uint64_t room, double now) {
    if (full->since == 0 || full->tried || now - full->since >= full->pause) return false;
    const bool more = known && full->room < UINT64_MAX && room >= full->room + LEAST;
    return !more || now - full->since < SETTLE;
}

bool ft_disk_has_room(ft_tuning *t) {
    uint64_t room = 0;
    const double now = ft_now();
    const bool known = free_bytes(t, &room);
    if (waits_after_full(&t->full, known, room, now)) return false;
    const uint64_t want = wanted(t);
    if (!known || room >= want) return true; // else writing will tell
    if (t->paused == 0 || now - t->paused > TELL_EVERY) {
        char has[24], needs[24];
        if (t->paused == 0) ft_tuning_tell(t, "study.paused", "the disk is nearly full", -1);
        t->paused = now;
        ft_warn("paused: %s is free for %s, and a trial may need %s (study.min_free_disk); free some space, or stop "
                "with Ctrl-C",
                ft_bytes_text((size_t)room, has), t->place.directory, ft_bytes_text((size_t)want, needs));
    }
    return false;
}

// ---- a study that cannot write ------------------------------------------------------------------------------------------

static void start_tracker(const ft_tuning *t, struct ft_tracker **tracker) {
    if (t->storage_given)
        ft_tracker_start(t->config, t->place.name, t->place.shown, tracker);
    else ft_tracker_start(t->config, t->directory, NULL, tracker);
}

static ft_status open_and_run(const ft_config *config, ft_tuning_call *call) {
    ft_error error;
    ft_tuning tuning;
    ft_status status = ft_tuning_open(config, call, &tuning);
    if (status == FT_OK) {
        call->opened = true;
        tuning.paused = call->paused; // until a trial begins, which is in the file then
        tuning.notifier = call->notifier;
        if (call->tracker == NULL) start_tracker(&tuning, &call->tracker);
        status = ft_tuning_run(&tuning);
        ft_tuning_tell_end(&tuning, status);
        call->paused = tuning.paused;
        call->ran = tuning.ran;
        call->failures = tuning.failures;
    }
    ft_error_save(&error);
    const ft_status closed = ft_tuning_close(&tuning);
    if (status == FT_OK) return closed;
    ft_error_restore(&error); // what went wrong first is the news
    return status;
}

static bool time_is_up(const ft_config *config, const ft_tuning_call *call) {
    const double timeout = ft_study_options_of(config)->timeout;
    if (call->deadline > 0 && ft_now() >= call->deadline) return true;
    return timeout > 0 && ft_now() - call->started >= timeout;
}

// FT_OK: it may be tried again. When the time is up too, once: the study can perhaps be opened, and end as ever.
static ft_status wait_for_room(const ft_config *config, const ft_tuning_call *call, double seconds) {
    const double end = ft_now() + seconds;
    const bool locked = ft_error_locked();
    ft_error_clear();
    while (ft_now() < end && ft_stop_signal() == 0 && !time_is_up(config, call))
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); // a signal ends it early
    if (ft_stop_signal() == 0) return FT_OK;
    return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped while %s; the same command goes on",
                   locked ? "the study database could not be used" : "the disk was full");
}

// The study is closed, so that nothing is known of it but that.
static void tell_of_pause(const ft_tuning_call *call) {
    char text[700];
    ft_error error;
    if (call->notifier == NULL) return;
    ft_error_save(&error);
    snprintf(text, sizeof text, "%.100s is paused: %.500s", call->study != NULL ? call->study : "a study", error.message);
    ft_notify(call->notifier, ft_notice("study.paused", text));
    ft_error_restore(&error);
}

static bool is_remote(const ft_config *config, const ft_tuning_call *call) {
    return ft_url_is_postgres(call->storage != NULL ? call->storage : ft_study_options_of(config)->storage);
}

static bool gives_up(const ft_config *config, const ft_tuning_call *call, double away) {
    return is_remote(config, call) && away > ft_study_options_of(config)->reconnect;
}

static ft_status tune(const ft_config *config, ft_tuning_call *call) {
    double pause = SOONEST, gone = 0; // since when it cannot be used
    for (const double first = ft_now();;) {
        const double began = ft_now();
        const bool opened = call->opened;
        call->opened = false;
        ft_status status = open_and_run(config, call);
        const bool used = call->opened;
        call->opened |= opened;
        if (status == FT_OK || (!ft_error_disk_full() && !ft_error_locked())) return status;
        const bool locked = ft_error_locked();
        const double now = ft_now();
        if (gone == 0 || used) gone = now;
        if (locked && gives_up(config, call, now - gone)) return status;
        call->started = first;
        pause = now - began > LATEST ? SOONEST : pause;
        if (time_is_up(config, call)) { // as for any study, unless nothing has come of it
            if (call->ran == 0) return status;
            ft_info("the time is up, and %s: %s (%s)", locked ? "the study cannot be used" : "the disk is full",
                    ft_error_message(), ft_error_where());
            ft_error_clear();
            return FT_OK;
        }
        if (call->paused == 0 || now - call->paused > TELL_EVERY) {
            if (call->paused == 0) tell_of_pause(call);
            call->paused = now;
            ft_warn("paused: %s (%s); %s, or stop with Ctrl-C", ft_error_message(), ft_error_where(),
                    locked ? "it goes on when that ends" : "free some space");
        }
        FT_TRY(wait_for_room(config, call, pause));
        pause = 2 * pause < LATEST ? 2 * pause : LATEST;
    }
}

ft_status ft_tune(const ft_config *config, const ft_tuning_call *asked) {
    ft_tuning_call call = *asked;
    FT_TRY(ft_follow_check(config));
    FT_TRY(ft_notifier_open(config, &call.notifier));
    const ft_status status = tune(config, &call);
    ft_error error;
    ft_error_save(&error);
    ft_tracker_end(call.tracker);
    ft_notifier_close(call.notifier);
    ft_error_restore(&error);
    return status;
}
