// lock.c - what one process of several does alone, wherever it was started from: two names of one database are one file to
// the kernel.
//
// A claim is a byte far behind SQLite's own (0x40000000 and the next 511) and its file's end, locked through an open file
// description: it goes with the process however that ends, leaves no file behind, and other programs that use the database
// do not meet it. The descriptor must outlive SQLite's: closing any descriptor of a file drops all locks of the old kind
// that the process has on it, and those are SQLite's.
#include "hpo/storage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count) { // FNV-1a
    for (const unsigned char *p = bytes, *end = p + count; p < end; p++)
        hash = (hash ^ *p) * 0x100000001B3u;
    return hash;
}

// 2^60 places: that two of the claims of one file meet is as good as impossible.
static struct flock range_of(const ft_claim *claim, short type) {
    uint64_t hash = hash_bytes(0xCBF29CE484222325u, claim->what, strlen(claim->what) + 1);
    hash = hash_bytes(hash, claim->study, strlen(claim->study) + 1);
    hash = hash_bytes(hash, &claim->number, sizeof claim->number);
    return (struct flock){.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)((uint64_t)1 << 61 | hash >> 4),
                          .l_len = 1};
}

static ft_status open_lock(ft_storage *storage) {
    if (storage->lock < 0) storage->lock = open(storage->path, O_RDWR | O_CLOEXEC);
    if (storage->lock < 0) return ft_fail_errno(FT_FAILED, errno, storage->path, "cannot open the study database");
    return FT_OK;
}

ft_status ft_storage_claim(ft_storage *storage, const ft_claim *claim, ft_claim_kind kind, bool *got) {
    struct flock range = range_of(claim, kind == FT_CLAIM_ALONE ? F_WRLCK : kind == FT_CLAIM_SHARED ? F_RDLCK : F_UNLCK);
    FT_TRY(open_lock(storage));
    // Some file systems have no locks: SQLite could not do without either, so that is no reason to stop here.
    *got = fcntl(storage->lock, F_OFD_SETLK, &range) == 0 || (errno != EAGAIN && errno != EACCES);
    return FT_OK;
}

ft_status ft_storage_claimed(ft_storage *storage, const ft_claim *claim, bool *by_others) {
    struct flock range = range_of(claim, F_WRLCK);
    FT_TRY(open_lock(storage));
    *by_others = fcntl(storage->lock, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
    return FT_OK;
}
