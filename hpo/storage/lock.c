// lock.c - one coordinator a study, wherever it was started from: two names of one database are one file to the kernel.
//
// The lock is a byte far behind SQLite's own (0x40000000 and the next 511), of an open file description: it goes with
// the process however that ends, leaves no file behind, and other programs that use the database do not meet it. The
// descriptor must outlive SQLite's: closing any descriptor of a file drops all locks of the old kind that the process
// has on it, and those are SQLite's.
#include "hpo/storage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 3000, PAUSE_MS = 20 };

// Studies of one file are run side by side: each has a byte of its own, found from its name.
static off_t byte_of(const char *name) {
    uint64_t hash = 0xCBF29CE484222325u; // FNV-1a
    for (const unsigned char *p = (const unsigned char *)name; *p != '\0'; p++)
        hash = (hash ^ *p) * 0x100000001B3u;
    return (off_t)((uint64_t)1 << 61 | hash >> 4);
}

static bool try_lock(int descriptor, const char *name) {
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte_of(name), .l_len = 1};
    // Some file systems have no locks: SQLite could not do without either, so that is no reason to stop here.
    return fcntl(descriptor, F_OFD_SETLK, &range) == 0 || (errno != EAGAIN && errno != EACCES);
}

ft_status ft_storage_lock(ft_storage *storage, const char *name, bool patient, bool *locked) {
    *locked = true;
    if (storage->lock < 0) storage->lock = open(storage->path, O_RDWR | O_CLOEXEC);
    if (storage->lock < 0) return ft_fail_errno(FT_FAILED, errno, storage->path, "cannot open the study database");
    // When a kill meets a coordinator between fork and exec, its child still has the lock for a moment.
    for (int waited = 0; !(*locked = try_lock(storage->lock, name)) && patient && waited < PATIENCE_MS;
         waited += PAUSE_MS)
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    return FT_OK;
}
