// share.c - several coordinators on one study. What each does alone is a claim (storage.h), which the kernel takes
// back however a coordinator ends; so a trial whose coordinator is gone is taken up by another one at once, without a
// guess from the age of its heartbeat, and by one only.
//
//     study  NAME          shared by all that run it; alone: it is being deleted
//     home   NAME, inode   shared by all that have its runs in this directory; of a file, where there is one for all
//     trial  NAME, number  alone, by the one whose worker has the trial, until the worker has left it
//     memory NAME          shared by those of a machine with a trial that has reserved memory, or is trying to
//
// The directory itself is locked (flock) for what must not meet: opening the study, and tidying up after a trial.
#include "hpo/study/study.h"

#include "base/clock.h"
#include "base/files.h"
#include "engine/memory/ledger.h"
#include "hpo/study/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double PATIENCE = 3; // seconds: for a coordinator that opens the study, or somebody who deletes it
static const double MOMENT = 0.1; // that the child of a killed coordinator may live, with its claims

static void pause_a_moment(void) { nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL); }

// ---- the directory --------------------------------------------------------------------------------------------------

static bool lock_directory(int descriptor, double patience) {
    for (double last = ft_now() + patience;; pause_a_moment()) {
        if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true; // some file systems have none
        if (ft_now() > last) return false;
    }
}

static bool is_directory(int descriptor, const char *path) {
    struct stat open_one, named;
    return fstat(descriptor, &open_one) == 0 && stat(path, &named) == 0 && open_one.st_dev == named.st_dev &&
           open_one.st_ino == named.st_ino;
}

// A study that was refused removes the directories that it made, perhaps while others wait for them.
ft_status ft_tuning_open_directory(ft_tuning *t) {
    for (;;) {
        FT_TRY(ft_make_directories(t->directory));
        t->lock = open(t->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (t->lock < 0 && errno == ENOENT) continue;
        if (t->lock < 0) return ft_fail_errno(FT_FAILED, errno, t->directory, "cannot open the study's directory");
        if (!lock_directory(t->lock, 10 * PATIENCE))
            return ft_fail(FT_FAILED, t->place.directory, "another process keeps the study's directory locked");
        if (is_directory(t->lock, t->directory)) return FT_OK;
        close(t->lock);
        t->lock = -1;
    }
}

bool ft_tuning_lock_directory(ft_tuning *t, bool longer) { return lock_directory(t->lock, longer ? 10 * PATIENCE : PATIENCE); }

void ft_tuning_unlock_directory(ft_tuning *t) { flock(t->lock, LOCK_UN); }

// ---- the study ------------------------------------------------------------------------------------------------------

static ft_claim home_of(const ft_tuning *t) {
    struct stat file = {0};
    (void)fstat(t->lock, &file); // it is open
    // On a network disk, where a journal may be, each machine gives the disk a number of its own.
    if (!t->place.remote && strcmp(t->place.scheme, "journal:") == 0) file.st_dev = 0;
    return (ft_claim){"home", t->place.name, (int64_t)((uint64_t)file.st_dev << 40 ^ (uint64_t)file.st_ino)};
}

// The trials of a study have their directories in one place: coordinators elsewhere would neither find what a trial has
// left nor know whose model to keep.
static ft_status runs_elsewhere(const ft_tuning *t) {
    ft_fail(FT_INVALID, t->place.directory, "another `ftengine tune` is running this study, from another directory");
    ft_hint("where that one was started, the same command helps it; `ftengine study show %s` looks at it meanwhile",
            t->place.name);
    return FT_INVALID;
}

static ft_claim opening_of(const ft_tuning *t) { return (ft_claim){"opening", t->place.name, 0}; }

// Of several machines each may have a directory of its own: what a dead one leaves then begins anew elsewhere.
static ft_status join_remote(ft_tuning *t, const ft_claim *study) {
    bool got, turn = false;
    const ft_claim opening = opening_of(t);
    for (const double end = ft_now() + 10 * PATIENCE;; pause_a_moment()) {
        if (!turn)
            FT_TRY(ft_storage_claim(t->storage, &opening, FT_CLAIM_ALONE, &turn)); // that they do not both make it
        if (turn) FT_TRY(ft_storage_claim(t->storage, study, FT_CLAIM_SHARED, &got));
        if (turn && got) return FT_OK;
        if (ft_now() > end) return ft_fail(FT_FAILED, t->place.name, "another process opens or deletes this study");
    }
}

void ft_tuning_joined(ft_tuning *t) {
    bool got;
    const ft_claim opening = opening_of(t);
    if (ft_storage_is_remote(t->storage) && ft_storage_claim(t->storage, &opening, FT_CLAIM_NONE, &got) != FT_OK)
        ft_error_clear();
}

ft_status ft_tuning_join(ft_tuning *t) {
    bool got, others;
    const ft_claim study = ft_claim_of_study(t->place.name), home = home_of(t);
    if (ft_storage_is_remote(t->storage)) return join_remote(t, &study);
    FT_TRY(ft_storage_claim(t->storage, &home, FT_CLAIM_SHARED, &got));
    const double began = ft_now();
    for (; ft_now() < began + PATIENCE; pause_a_moment()) {
        // Of two that open a study in two directories at the same moment the second sees the first.
        FT_TRY(ft_storage_claim(t->storage, &study, FT_CLAIM_ALONE, &got));
        if (got) return ft_storage_claim(t->storage, &study, FT_CLAIM_SHARED, &got);
        FT_TRY(ft_storage_claimed(t->storage, &home, &others));
        // One that was killed just now is no company: its trials come before new ones.
        if (!others || ft_now() < began + MOMENT) continue;
        FT_TRY(ft_storage_claim(t->storage, &study, FT_CLAIM_SHARED, &got));
        if (got) return FT_OK;
    }
    return runs_elsewhere(t);
}

// ---- trials ---------------------------------------------------------------------------------------------------------

static ft_claim claim_of(const ft_tuning *t, int64_t number) { return (ft_claim){"trial", t->study->name, number}; }

ft_status ft_tuning_claim(ft_tuning *t, int64_t number, bool *got) {
    const ft_claim claim = claim_of(t, number);
    return ft_storage_claim(t->storage, &claim, FT_CLAIM_ALONE, got);
}

ft_status ft_tuning_claim_surely(ft_tuning *t, int64_t number) {
    const ft_claim claim = claim_of(t, number);
    return ft_storage_claim_surely(t->storage, &claim);
}

ft_status ft_tuning_commit_released(ft_tuning *t, int64_t number) {
    const ft_claim claim = claim_of(t, number);
    return ft_storage_commit_releasing(t->storage, &claim);
}

ft_status ft_tuning_claimed(ft_tuning *t, int64_t number, bool *by_others) {
    const ft_claim claim = claim_of(t, number);
    return ft_storage_claimed(t->storage, &claim, by_others);
}

void ft_tuning_release(ft_tuning *t, int64_t number) {
    bool got;
    const ft_claim claim = claim_of(t, number);
    if (ft_storage_claim(t->storage, &claim, FT_CLAIM_NONE, &got) != FT_OK) ft_error_clear(); // it has none then
}

ft_status ft_tuning_count_running(ft_tuning *t, int64_t *elsewhere, int64_t *left) {
    *elsewhere = *left = 0;
    for (int64_t i = 0; i < t->study->trials.count; i++) {
        bool others;
        if (t->study->trials.trial[i].state != FT_RUNNING || ft_slots_of(t, i) != NULL || !ft_tuning_is_ours(t, i)) continue;
        FT_TRY(ft_tuning_claimed(t, i, &others));
        *(others ? elsewhere : left) += 1;
    }
    return FT_OK;
}

int64_t ft_tuning_to_do(const ft_tuning *t) {
    if (t->add > 0) return t->ran < t->add ? t->add - t->ran : 0;
    if (t->goal == 0) return -1;
    int64_t finished = 0;
    for (int64_t i = 0; i < t->study->trials.count; i++)
        finished += ft_trial_finished(t->study->trials.trial[i].state);
    return finished < t->goal ? t->goal - finished : 0;
}

// ---- memory ---------------------------------------------------------------------------------------------------------

// A machine's memory is its own: of a study that others work on too it is claimed beside the ledgers, and no server is
// asked.
static ft_status open_machine(ft_tuning *t) {
    ft_arena arena = {0};
    const char *directory;
    unsigned mode;
    ft_status status = ft_ledger_directory(&arena, &directory, &mode);
    const char *path = status == FT_OK ? ft_path_join(&arena, directory, "claims") : NULL;
    if (status == FT_OK) status = path != NULL ? ft_claim_file_open(path, mode, &t->machine) : FT_NO_MEMORY;
    ft_arena_free(&arena);
    return status;
}

ft_status ft_tuning_claim_memory(ft_tuning *t, bool holds, bool *others) {
    bool got;
    const bool remote = ft_storage_is_remote(t->storage);
    const ft_claim_kind kind = holds ? FT_CLAIM_SHARED : FT_CLAIM_NONE;
    const ft_claim memory = {remote ? ft_storage_path(t->storage) : "memory", t->study->name, 0};
    *others = false;
    if (remote && t->machine == NULL) FT_TRY(open_machine(t));
    if (holds != t->memory_claimed)
        FT_TRY(remote ? ft_claim_file_claim(t->machine, &memory, kind, &got)
                      : ft_storage_claim(t->storage, &memory, kind, &got));
    t->memory_claimed = holds;
    if (!holds) return FT_OK;
    return remote ? ft_claim_file_claimed(t->machine, &memory, others)
                  : ft_storage_claimed(t->storage, &memory, others);
}
