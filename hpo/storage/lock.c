// lock.c - what one process of several does alone, wherever it was started from: two names of one database are one file
// to the kernel.
//
// In a file a claim is a byte far behind SQLite's own (0x40000000 and the next 511) and its file's end, locked through
// an open file description: it goes with the process however that ends, leaves no file behind, and other programs that
// use the database do not meet it. The descriptor must outlive SQLite's: closing any descriptor of a file drops all
// locks of the old kind that the process has on it, and those are SQLite's.
#include "hpo/storage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count) { // FNV-1a
    for (const unsigned char *p = bytes, *end = p + count; p < end; p++)
        hash = (hash ^ *p) * 0x100000001B3u;
    return hash;
}

uint64_t ft_claim_hash(const ft_claim *claim) {
    uint64_t hash = hash_bytes(0xCBF29CE484222325u, claim->what, strlen(claim->what) + 1);
    hash = hash_bytes(hash, claim->study, strlen(claim->study) + 1);
    return hash_bytes(hash, &claim->number, sizeof claim->number);
}

// 2^60 places: that two of the claims of one file meet is as good as impossible.
static struct flock range_of(const ft_claim *claim, short type) {
    const uint64_t hash = ft_claim_hash(claim);
    return (struct flock){.l_type = type,
                          .l_whence = SEEK_SET,
                          .l_start = (off_t)((uint64_t)1 << 61 | hash >> 4),
                          .l_len = 1};
}

const char *ft_network_disk(const char *path) {
    static const struct {
        uint32_t type;
        const char *name;
    } networks[] = {{0x6969, "NFS"},      {0x517B, "SMB"},        {0xFF534D42, "CIFS"},
                    {0xFE534D42, "SMB"},  {0x5346414F, "AFS"},    {0x0BD00BD0, "Lustre"},
                    {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"}, {0x00C36400, "Ceph"}};
    struct statfs disk;
    ft_arena arena = {0};
    const char *directory = path, *slash = strrchr(path, '/');
    if (access(path, F_OK) != 0)
        directory = slash == NULL ? "." : ft_arena_strndup(&arena, path, (size_t)(slash - path) + 1);
    const bool known = directory != NULL && statfs(directory, &disk) == 0;
    ft_arena_free(&arena);
    for (size_t i = 0; known && i < sizeof networks / sizeof networks[0]; i++)
        if ((uint32_t)disk.f_type == networks[i].type) return networks[i].name;
    return NULL;
}

static ft_status open_lock(ft_storage *storage) {
    if (storage->lock < 0) storage->lock = open(storage->path, O_RDWR | O_CLOEXEC);
    if (storage->lock < 0) return ft_fail_errno(FT_FAILED, errno, storage->path, "cannot open the study database");
    return FT_OK;
}

ft_status ft_sqlite_claim(ft_storage *storage, const ft_claim *claim, ft_claim_kind kind, bool *got) {
    struct flock range = range_of(claim, kind == FT_CLAIM_ALONE ? F_WRLCK : kind == FT_CLAIM_SHARED ? F_RDLCK : F_UNLCK);
    FT_TRY(open_lock(storage));
    // Some file systems have no locks: SQLite could not do without either, so that is no reason to stop here.
    *got = fcntl(storage->lock, F_OFD_SETLK, &range) == 0 || (errno != EAGAIN && errno != EACCES);
    return FT_OK;
}

ft_status ft_sqlite_claimed(ft_storage *storage, const ft_claim *claim, bool *by_others) {
    struct flock range = range_of(claim, F_WRLCK);
    FT_TRY(open_lock(storage));
    *by_others = fcntl(storage->lock, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
    return FT_OK;
}
