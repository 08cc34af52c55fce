// study_disk.c - a disk that is nearly full pauses a study: no trial begins while there is less room than it may need.
#include "hpo/study.h"

#include "engine/memory/memory.h"
#include "engine/train/trainer.h"
#include "kernels/log.h"

#include <fts.h>
#include <stdlib.h>
#include <sys/statvfs.h>

static const uint64_t LEAST = 64 << 20; // before the first trial has shown what it needs
static const double TELL_EVERY = 60;    // seconds

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

bool ft_disk_has_room(ft_tuning *t) {
    struct statvfs disk;
    const double now = ft_now();
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
