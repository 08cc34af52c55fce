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
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

// Some file systems have no locks: SQLite could not do without either, so that is no reason to stop here.
static bool claim_byte(int file, const ft_claim *claim, ft_claim_kind kind) {
    struct flock range = range_of(claim, kind == FT_CLAIM_ALONE    ? F_WRLCK
                                         : kind == FT_CLAIM_SHARED ? F_RDLCK
                                                                   : F_UNLCK);
    return fcntl(file, F_OFD_SETLK, &range) == 0 || (errno != EAGAIN && errno != EACCES);
}

static bool byte_is_claimed(int file, const ft_claim *claim) {
    struct flock range = range_of(claim, F_WRLCK);
    return fcntl(file, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;
}

static ft_status open_lock(ft_storage *storage) {
    if (storage->lock < 0) storage->lock = open(storage->path, O_RDWR | O_CLOEXEC);
    if (storage->lock < 0) return ft_fail_errno(FT_FAILED, errno, storage->path, "cannot open the study database");
    return FT_OK;
}

ft_status ft_sqlite_claim(ft_storage *storage, const ft_claim *claim, ft_claim_kind kind, bool *got) {
    FT_TRY(open_lock(storage));
    *got = claim_byte(storage->lock, claim, kind);
    return FT_OK;
}

ft_status ft_sqlite_claimed(ft_storage *storage, const ft_claim *claim, bool *by_others) {
    FT_TRY(open_lock(storage));
    *by_others = byte_is_claimed(storage->lock, claim);
    return FT_OK;
}

// ---- a file of its own ----------------------------------------------------------------------------------------------

struct ft_claim_file {
    int descriptor;
    unsigned mode;
    char path[];
};

// The file that the path names now: a cleaner of /tmp may have removed the one that was opened. Nothing is claimed in
// that one any more that others would meet.
static ft_status open_current(ft_claim_file *file) {
    struct stat there;
    if (file->descriptor >= 0 && fstat(file->descriptor, &there) == 0 && there.st_nlink > 0) return FT_OK;
    if (file->descriptor >= 0) close(file->descriptor);
    // Not made before it is missed: in a directory like /tmp, O_CREAT is refused for a file that is another user's.
    const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;
    file->descriptor = open(file->path, flags);
    if (file->descriptor < 0 && errno == ENOENT)
        file->descriptor = open(file->path, flags | O_CREAT, (mode_t)file->mode);
    return file->descriptor >= 0 ? FT_OK
                                 : ft_fail_errno(FT_FAILED, errno, file->path, "cannot open the file of claims");
}

ft_status ft_claim_file_open(const char *path, unsigned mode, ft_claim_file **out) {
    const size_t length = strlen(path) + 1;
    ft_claim_file *file = *out = malloc(sizeof *file + length);
    if (file == NULL) return ft_fail_memory(length, "a file of claims");
    *file = (ft_claim_file){.descriptor = -1, .mode = mode};
    memcpy(file->path, path, length);
    ft_status status = open_current(file);
    if (status == FT_OK) return FT_OK;
    free(file);
    *out = NULL;
    return status;
}

void ft_claim_file_close(ft_claim_file *file) {
    if (file == NULL) return;
    if (file->descriptor >= 0) close(file->descriptor);
    free(file);
}

ft_status ft_claim_file_claim(ft_claim_file *file, const ft_claim *claim, ft_claim_kind kind, bool *got) {
    FT_TRY(open_current(file));
    *got = claim_byte(file->descriptor, claim, kind);
    return FT_OK;
}

ft_status ft_claim_file_claimed(ft_claim_file *file, const ft_claim *claim, bool *by_others) {
    FT_TRY(open_current(file));
    *by_others = byte_is_claimed(file->descriptor, claim);
    return FT_OK;
}
