// study_disk.c - a full disk pauses a study. While it is nearly full no trial begins. When it is too full for what the
// study itself writes, the history in memory may be another one than the file's; so the study is closed, and opened again as
// after a kill.
#include "hpo/study.h"

#include "engine/memory/memory.h"
#include "engine/train/stop.h"
#include "engine/train/trainer.h"
#include "kernels/log.h"

#include <fts.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <time.h>

static const uint64_t LEAST = 64 << 20; // before the first trial has shown what it needs
static const double TELL_EVERY = 60;    // seconds
static const double SETTLE = 1;         // seconds after a trial that found no room: of a quota nobody else knows
static const double SOONEST = 0.25, LATEST = 10; // seconds until a study is opened again

void ft_disk_note(ft_tuning *t, const char *directory) {
    char *const roots[] = {(char *)directory, NULL};
    FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    uint64_t bytes = 0;
    for (FTSENT *entry; tree != NULL && (entry = fts_read(tree)) != NULL;)
        if (entry->fts_info == FTS_F) bytes += (uint64_t)entry->fts_statp->st_blocks * 512;
    if (tree != NULL) fts_close(tree);
    if (bytes > t->trial_disk) t->trial_disk = bytes;
}

// For each trial that runs and one more twice what the largest has left so far: a model is written beside the old one.
static uint64_t wanted(const ft_tuning *t) {
    if (t->config->study.min_free_disk > 0) return (uint64_t)t->config->study.min_free_disk;
    uint64_t each = 2 * t->trial_disk;
    return (each > LEAST ? each : LEAST) * (uint64_t)(ft_slots_running(t) + 1);
}

void ft_disk_was_full(ft_tuning *t) { t->disk_was_full = ft_now(); }

bool ft_disk_has_room(ft_tuning *t) {
    struct statvfs disk;
    const double now = ft_now();
    if (t->disk_was_full > 0 && now - t->disk_was_full < SETTLE) return false;
    if (statvfs(t->directory, &disk) != 0) return true; // writing will tell
    const uint64_t room = (uint64_t)disk.f_bavail * disk.f_frsize, want = wanted(t);
    if (room >= want) {
        if (t->paused > 0) ft_info("going on: there is room on the disk");
        t->paused = 0;
        return true;
    }
    if (t->paused == 0 || now - t->paused > TELL_EVERY) {
        char has[24], needs[24];
        t->paused = now;
        ft_warn("paused: %s is free for %s, and a trial may need %s (study.min_free_disk); free some space, or stop "
                "with Ctrl-C",
                ft_bytes_text((size_t)room, has), t->place.directory, ft_bytes_text((size_t)want, needs));
    }
    return false;
}

// ---- a study that cannot write ------------------------------------------------------------------------------------------

static ft_status open_and_run(const ft_config *config, ft_tuning_call *call) {
    ft_error error;
    ft_tuning tuning;
    ft_status status = ft_tuning_open(config, call, &tuning);
    if (status == FT_OK) {
        status = ft_tuning_run(&tuning);
        call->ran = tuning.ran;
        call->failures = tuning.failures;
    }
    ft_error_save(&error);
    const ft_status closed = ft_tuning_close(&tuning);
    if (status == FT_OK) return closed;
    ft_error_restore(&error); // what went wrong first is the news
    return status;
}

// FT_OK: it may be tried again. Else the error that is to be told.
static ft_status wait_for_room(const ft_config *config, const ft_tuning_call *call, double seconds) {
    const double end = ft_now() + seconds;
    ft_error error;
    ft_error_save(&error);
    while (ft_now() < end && ft_stop_signal() == 0) {
        if (config->study.timeout > 0 && ft_now() - call->started >= config->study.timeout) {
            ft_error_restore(&error);
            return error.code;
        }
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); // a signal ends it early
    }
    ft_error_clear();
    if (ft_stop_signal() == 0) return FT_OK;
    return ft_fail(ft_stop_status(ft_stop_signal()), NULL, "stopped while the disk was full; the same command goes on");
}

ft_status ft_tune(const ft_config *config, const ft_tuning_call *asked) {
    ft_tuning_call call = *asked;
    double pause = SOONEST, told = 0;
    for (const double first = ft_now();;) {
        const double began = ft_now();
        ft_status status = open_and_run(config, &call);
        if (status == FT_OK || !ft_error_disk_full()) return status;
        const double now = ft_now();
        call.started = first;
        pause = now - began > LATEST ? SOONEST : pause;
        if (told == 0 || now - told > TELL_EVERY || now - began > LATEST) {
            told = now;
            ft_warn("paused: %s (%s); free some space, or stop with Ctrl-C", ft_error_message(), ft_error_where());
        }
        FT_TRY(wait_for_room(config, &call, pause));
        pause = 2 * pause < LATEST ? 2 * pause : LATEST;
    }
}
