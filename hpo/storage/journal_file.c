// journal_file.c - the journal's file: who may append, reading on, appending. The lock is a file beside it, FILE.lock,
// which Optuna makes as a symbolic link or by opening it exclusively; either keeps the other out. One that nobody has
// given up for half a minute, in which the journal did not change, is of a process that was killed. Of one of ours on a
// disk of this machine that is known at once: its link says whose it is, and while it lives it has a claim besides.
#include "hpo/storage/journal.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const double GRACE = 30, PATIENCE = 40; // seconds: Optuna's; for others that are at work

// ---- the lock -------------------------------------------------------------------------------------------------------

static bool is_ours(const ft_journal *j) {
    struct stat link;
    return j->locked && lstat(j->lock_file, &link) == 0 && link.st_dev == j->lock_device &&
           link.st_ino == j->lock_inode;
}

// Renamed first: of two that break a lock at the same time one finds nothing, and removes no new one.
static void remove_lock(const ft_journal *j) {
    ft_arena arena = {0};
    const char *away = ft_arena_format(&arena, "%s%ld-%p.rename", j->lock_file, (long)getpid(), (const void *)j);
    if (away != NULL && rename(j->lock_file, away) == 0) unlink(away);
    ft_arena_free(&arena);
}

static ft_claim claim_of_lock(void) { return (ft_claim){"journal", "lock", 0}; }

// As a path that no other program writes: ".//NAME".
static const char *link_target(ft_storage *storage) {
    const char *slash = strrchr(storage->path, '/');
    snprintf(storage->journal->target, sizeof storage->journal->target, ".//%s",
             slash != NULL ? slash + 1 : storage->path);
    return storage->journal->target;
}

// We have the claim, so that whoever made the link has it no more.
static bool is_left_behind(const ft_journal *j) {
    char target[sizeof j->target] = "";
    const ssize_t length = j->claimed ? readlink(j->lock_file, target, sizeof target - 1) : -1;
    return length > 0 && strcmp(target, j->target) == 0;
}

static void give_claim_up(ft_storage *storage) {
    bool got;
    const ft_claim claim = claim_of_lock();
    if (storage->journal->claimed && ft_sqlite_claim(storage, &claim, FT_CLAIM_NONE, &got) != FT_OK) ft_error_clear();
    storage->journal->claimed = false;
}

static ft_status note_lock(ft_storage *storage) {
    ft_journal *j = storage->journal;
    struct stat link;
    if (lstat(j->lock_file, &link) != 0)
        return ft_fail_errno(FT_FAILED, errno, j->lock_file, "cannot look at the lock");
    j->lock_device = link.st_dev;
    j->lock_inode = link.st_ino;
    j->locked = true;
    return FT_OK;
}

static ft_status lock(ft_storage *storage) {
    ft_journal *j = storage->journal;
    const ft_claim claim = claim_of_lock();
    struct timespec seen = {0};
    double pause = 0.001, since = ft_now();
    for (const double end = ft_now() + PATIENCE; ft_now() < end;) {
        struct stat file;
        bool may = true;
        if (j->local && !j->claimed) FT_TRY(ft_sqlite_claim(storage, &claim, FT_CLAIM_ALONE, &may));
        j->claimed = j->local && may;
        if (may && symlink(link_target(storage), j->lock_file) == 0) return note_lock(storage);
        if (!may) errno = EEXIST;
        if (errno != EEXIST)
            return ft_fail_errno(FT_FAILED, errno, j->lock_file, "cannot make the lock of the journal");
        if (is_left_behind(j)) {
            remove_lock(j);
            continue;
        }
        // Of a link it is the journal itself that is looked at: as long as somebody writes it, nobody is dead.
        if (stat(j->lock_file, &file) != 0 && lstat(j->lock_file, &file) != 0) file.st_mtim = seen;
        if (file.st_mtim.tv_sec != seen.tv_sec || file.st_mtim.tv_nsec != seen.tv_nsec) {
            seen = file.st_mtim;
            since = ft_now();
        }
        if (may && ft_now() - since > GRACE) {
            remove_lock(j);
            since = ft_now();
            continue;
        }
        nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * pause)}, NULL);
        pause = pause < 0.1 ? 2 * pause : pause;
    }
    ft_fail(FT_FAILED, storage->path, "other processes have kept the journal locked for too long (%s)", j->lock_file);
    ft_error_is_locked();
    return FT_FAILED;
}

ft_status ft_journal_lock(ft_storage *storage) {
    ft_status status = lock(storage);
    if (status != FT_OK) give_claim_up(storage);
    return status;
}

void ft_journal_unlock(ft_storage *storage) {
    ft_journal *j = storage->journal;
    if (is_ours(j)) remove_lock(j);
    j->locked = false;
    give_claim_up(storage);
}

// ---- reading --------------------------------------------------------------------------------------------------------

static ft_status apply_line(ft_storage *storage, const char *line) {
    ft_journal *j = storage->journal;
    char where[512];
    ft_arena arena = {0};
    ft_journal_change change;
    json_t *root = NULL;
    snprintf(where, sizeof where, "%.480s:%lld", storage->path, (long long)j->lines + 1);
    ft_status status = ft_journal_parse(line, where, &arena, &root, &change);
    if (status == FT_OK) status = ft_journal_apply(&j->state, &change, where);
    json_decref(root);
    ft_arena_free(&arena);
    if (status == FT_OK) j->lines++;
    return status;
}

// Its last line may not be whole yet: then it is left for later.
static ft_status apply_lines(ft_storage *storage, char *data, size_t length) {
    ft_journal *j = storage->journal;
    for (char *at = data, *end = data + length, *stop; (stop = memchr(at, '\n', (size_t)(end - at))) != NULL;
         at = stop + 1) {
        *stop = '\0';
        FT_TRY(apply_line(storage, at));
        j->read += stop + 1 - at;
    }
    return FT_OK;
}

static ft_status read_from(ft_storage *storage, int file, size_t length) {
    ft_journal *j = storage->journal;
    char *data = ft_calloc(length + 1, 1, "a journal");
    if (data == NULL) return FT_NO_MEMORY;
    size_t got = 0;
    while (got < length) {
        const ssize_t n = pread(file, data + got, length - got, j->read + (off_t)got);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        got += (size_t)n;
    }
    ft_status status = memchr(data, '\0', got) == NULL
                           ? apply_lines(storage, data, got)
                           : ft_fail(FT_INVALID, storage->path, "not a journal of studies: it holds a NUL");
    free(data);
    return status;
}

ft_status ft_journal_read_on(ft_storage *storage) {
    ft_journal *j = storage->journal;
    struct stat now;
    const int file = open(storage->path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &now) != 0) {
        ft_status status = ft_fail_errno(FT_FAILED, errno, storage->path, "cannot read the journal");
        if (file >= 0) close(file);
        return status;
    }
    ft_status status = FT_OK;
    if (now.st_size < j->read || (j->inode != 0 && j->inode != now.st_ino))
        status = ft_fail(FT_FAILED, storage->path, "the journal was replaced while it was in use");
    else if (now.st_size > j->read)
        status = read_from(storage, file, (size_t)(now.st_size - j->read));
    j->inode = now.st_ino;
    close(file);
    return status;
}

// ---- appending ------------------------------------------------------------------------------------------------------

static ft_status write_all(ft_storage *storage, int file, const char *text, size_t length) {
    struct stat now;
    ft_journal *j = storage->journal;
    if (fstat(file, &now) != 0) return ft_fail_errno(FT_FAILED, errno, storage->path, "cannot look at the journal");
    // A process that was killed while it wrote has left a piece of a line, which no reader takes.
    if (now.st_size > j->read && ftruncate(file, j->read) != 0)
        return ft_fail_errno(FT_FAILED, errno, storage->path, "cannot mend the journal");
    size_t done = 0;
    while (done < length) {
        const ssize_t n = write(file, text + done, length - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) break;
        done += (size_t)n;
    }
    if (done == length && fsync(file) == 0) return FT_OK;
    // What failed is not there. Where even that fails, a piece of a line is mended by who writes next.
    const int error = errno;
    if (ftruncate(file, j->read) != 0) ft_warn("%s: what could not be written may stand there all the same", storage->path);
    return ft_fail_errno(FT_FAILED, error, storage->path, "cannot write the journal");
}

ft_status ft_journal_append(ft_storage *storage, const char *text, size_t length) {
    ft_journal *j = storage->journal;
    if (!is_ours(j)) {
        ft_fail(FT_FAILED, storage->path, "another process took the lock of the journal away, as of a dead one");
        ft_error_is_locked();
        return FT_FAILED;
    }
    const int file = open(storage->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0) return ft_fail_errno(FT_FAILED, errno, storage->path, "cannot write the journal");
    ft_status status = write_all(storage, file, text, length);
    close(file);
    if (status == FT_OK) j->read += (off_t)length;
    return status;
}
