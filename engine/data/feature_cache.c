#include "engine/data/feature_cache.h"

#include "base/files.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/spill.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".features"
static const char MAGIC[8] = {'F', 'T', 'F', 'E', 'A', 'T', 'U', 'R'};
enum { VERSION = 1, CHECKSUM_BYTES = 32, BYTE_ORDER_MARK = 0x01020304, PIECE = 1 << 20 };

typedef struct file_header {
    char magic[8];
    uint32_t version, byte_order;
    char key[64];
    int64_t rows, row_bytes;
    char pad[32];
} file_header;
_Static_assert(sizeof(file_header) == 128, "rows begin at a multiple of 64");

static file_header header_of(const ft_features *f) {
    file_header h = {.version = VERSION, .byte_order = BYTE_ORDER_MARK, .rows = f->rows, .row_bytes = (int64_t)f->row_bytes};
    memcpy(h.magic, MAGIC, sizeof h.magic);
    memcpy(h.key, f->key, sizeof h.key);
    return h;
}

static size_t data_bytes(const ft_features *f) { return (size_t)f->rows * f->row_bytes; }
size_t ft_features_bytes(const ft_features *f) { return sizeof(file_header) + data_bytes(f) + CHECKSUM_BYTES; }

static char *file_of(const char *directory, const ft_features *f, ft_arena *arena) {
    char name[sizeof f->key + sizeof SUFFIX];
    snprintf(name, sizeof name, "%s" SUFFIX, f->key);
    return ft_path_join(arena, directory, name);
}

// ---- reading ------------------------------------------------------------------------------------------------------------

static ft_status damaged(const char *what) { return ft_fail(FT_INVALID, NULL, "%s", what); }

static ft_status check(const ft_features *f, const void *map, size_t bytes) {
    const file_header want = header_of(f), *have = map;
    unsigned char checksum[CHECKSUM_BYTES];
    if (bytes < sizeof want) return damaged("it ends early");
    if (memcmp(have->magic, want.magic, sizeof want.magic) != 0) return damaged("it is no file of features");
    if (have->version != VERSION || have->byte_order != BYTE_ORDER_MARK) return damaged("it is of another version or machine");
    if (memcmp(have, &want, sizeof want) != 0) return damaged("it belongs to other texts, or to another model");
    if (bytes != ft_features_bytes(f)) return damaged("its size is wrong");
    ft_sha256_state hash;
    ft_sha256_begin(&hash);
    ft_sha256_add(&hash, map, bytes - CHECKSUM_BYTES);
    ft_sha256_end(&hash, checksum);
    return memcmp(checksum, (const char *)map + bytes - CHECKSUM_BYTES, CHECKSUM_BYTES) == 0 ? FT_OK : damaged("its checksum is wrong");
}

static ft_status map_file(const char *path, ft_features *f) {
    const void *map;
    size_t bytes;
    FT_TRY(ft_map_file(path, &map, &bytes));
    const ft_status status = check(f, map, bytes);
    if (status != FT_OK) {
        ft_unmap_file(map, bytes);
        return status;
    }
    f->map = map;
    f->map_bytes = bytes;
    f->data = (const char *)map + sizeof(file_header);
    return FT_OK;
}

ft_status ft_features_load(const char *directory, ft_features *f, bool *found) {
    ft_arena arena = {0};
    struct stat facts;
    *found = false;
    const char *path = file_of(directory, f, &arena);
    ft_status status = path == NULL ? FT_NO_MEMORY : FT_OK;
    if (path != NULL && lstat(path, &facts) == 0) {
        status = map_file(path, f);
        *found = status == FT_OK;
        if (*found) (void)utimensat(AT_FDCWD, path, NULL, 0); // it was used
        if (status != FT_OK && status != FT_NO_MEMORY) {
            ft_warn("the feature cache file %s is not used and will be made anew: %s", path, ft_error_message());
            ft_error_clear();
            status = FT_OK;
        }
    }
    ft_arena_free(&arena);
    return status;
}

// ---- making and writing ---------------------------------------------------------------------------------------------------

ft_status ft_features_make(ft_features *f) {
    if (f->own == NULL) f->own = ft_spill_calloc((size_t)f->rows, f->row_bytes, "features of texts");
    return f->own != NULL ? FT_OK : FT_NO_MEMORY;
}

typedef struct old_file {
    char *path;
    uint64_t bytes;
    struct timespec used;
} old_file;

static bool is_older(const old_file *a, const old_file *b) {
    return a->used.tv_sec != b->used.tv_sec ? a->used.tv_sec < b->used.tv_sec : a->used.tv_nsec < b->used.tv_nsec;
}

// The one of the directory, but for `path`, that was not used for longest; *all: bytes of all of them.
static bool oldest(const char *directory, const char *path, ft_arena *arena, old_file *out, uint64_t *all) {
    DIR *d = opendir(directory);
    bool found = false;
    *all = 0;
    if (d == NULL) return false;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        const size_t length = strlen(e->d_name), end = sizeof SUFFIX - 1;
        struct stat facts;
        if (length != 64 + end || strcmp(e->d_name + 64, SUFFIX) != 0) continue;
        old_file one = {.path = ft_path_join(arena, directory, e->d_name)};
        if (one.path == NULL || strcmp(one.path, path) == 0 || lstat(one.path, &facts) != 0) continue;
        one.bytes = (uint64_t)facts.st_size;
        one.used = facts.st_mtim;
        *all += one.bytes;
        if (!found || is_older(&one, out)) *out = one;
        found = true;
    }
    closedir(d);
    return found;
}

// Others may remove at the same time: what is gone is gone.
static void make_room(const char *directory, const char *path, uint64_t limit, uint64_t need, ft_arena *arena) {
    old_file old = {.path = NULL};
    uint64_t all;
    while (oldest(directory, path, arena, &old, &all) && all + need > limit)
        if (unlink(old.path) != 0 && errno != ENOENT) return;
}

static ft_status put(FILE *stream, ft_sha256_state *hash, const void *data, size_t bytes) {
    for (size_t at = 0, piece; at < bytes; at += piece) {
        piece = bytes - at < PIECE ? bytes - at : PIECE;
        if (fwrite((const char *)data + at, 1, piece, stream) != piece) return ft_fail_errno(FT_FAILED, errno, NULL, "cannot write");
        ft_sha256_add(hash, (const char *)data + at, piece);
    }
    return FT_OK;
}

static ft_status write_file(FILE *stream, const ft_features *f) {
    const file_header header = header_of(f);
    unsigned char checksum[CHECKSUM_BYTES];
    ft_sha256_state hash, unused;
    ft_sha256_begin(&hash);
    ft_sha256_begin(&unused);
    ft_status status = put(stream, &hash, &header, sizeof header);
    if (status == FT_OK) status = put(stream, &hash, f->data, data_bytes(f));
    ft_sha256_end(&hash, checksum);
    if (status == FT_OK) status = put(stream, &unused, checksum, sizeof checksum);
    ft_sha256_end(&unused, checksum);
    return status;
}

static ft_status store(const char *directory, int64_t limit, const ft_features *f, ft_arena *arena) {
    ft_atomic_file file = {0};
    char *path = file_of(directory, f, arena);
    if (path == NULL) return FT_NO_MEMORY;
    FT_TRY(ft_make_directories(directory));
    make_room(directory, path, (uint64_t)limit, ft_features_bytes(f), arena);
    FT_TRY(ft_atomic_open(&file, path));
    const ft_status status = write_file(file.stream, f);
    if (status == FT_OK) return ft_atomic_commit(&file);
    ft_atomic_abort(&file);
    return status;
}

void ft_features_store(const char *directory, int64_t limit, const ft_features *f) {
    ft_arena arena = {0};
    if (store(directory, limit, f, &arena) != FT_OK) {
        ft_warn("what the frozen model makes of the texts is not kept in %s: %s", directory, ft_error_message());
        ft_error_clear();
    }
    ft_arena_free(&arena);
}

void ft_features_free(ft_features *f) {
    ft_spill_free(f->own);
    ft_unmap_file(f->map, f->map_bytes);
    *f = (ft_features){.rows = 0};
}
