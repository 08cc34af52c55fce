#include "engine/data/pictures/tar.h"

#include "base/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 512, LONGEST_NAME = 1 << 16 };

// A header, as it lies in the archive.
typedef struct header {
    char name[100], mode[8], owner[8], group[8], size[12], time[12], sum[8], kind, link[100], magic[6], version[2], owner_name[32], group_name[32],
        major[8], minor[8], prefix[155], rest[12];
} header;
_Static_assert(sizeof(header) == BLOCK, "a header is a block");

// What headers of other kinds say about the next member.
typedef struct about_next {
    const char *name; // NULL: its own
    int64_t size;     // -1: its own
} about_next;

// ---- bytes ------------------------------------------------------------------------------------------------------------------

ft_status ft_tar_bytes(int file, const char *path, int64_t offset, int64_t size, void *out) {
    for (int64_t done = 0; done < size;) {
        const ssize_t n = pread(file, (char *)out + done, (size_t)(size - done), offset + done);
        if (n > 0) done += n;
        else if (n == 0) return ft_fail(FT_INVALID, path, "the archive ends at byte %lld, inside a member: it is truncated", (long long)(offset + done));
        else if (errno != EINTR) return ft_fail_errno(FT_FAILED, errno, path, "cannot read the archive");
    }
    return FT_OK;
}

static bool begins_with(const unsigned char *bytes, const char *magic, size_t length) { return memcmp(bytes, magic, length) == 0; }

static ft_status refuse_packed(const char *path, const unsigned char *first) {
    const bool gzip = begins_with(first, "\x1F\x8B", 2), zstd = begins_with(first, "\x28\xB5\x2F\xFD", 4), xz = begins_with(first, "\xFD" "7zXZ", 5);
    if (!gzip && !zstd && !xz && !begins_with(first, "BZh", 3)) return FT_OK;
    ft_fail(FT_INVALID, path, "a packed archive: pictures are read from where they lie, and there they would not");
    ft_hint("unpack it first (%s), pictures are packed already", gzip ? "gunzip" : zstd ? "unzstd" : xz ? "unxz" : "bunzip2");
    return FT_INVALID;
}

ft_status ft_tar_open(const char *path, ft_tar *tar) {
    struct stat facts;
    unsigned char first[6] = {0};
    *tar = (ft_tar){.path = path, .file = -1};
    FT_TRY(ft_open_input(path, &tar->file));
    if (fstat(tar->file, &facts) != 0) return ft_fail_errno(FT_FAILED, errno, path, "cannot be looked at");
    tar->size = facts.st_size;
    if (tar->size < (int64_t)sizeof first) return ft_fail(FT_INVALID, path, tar->size == 0 ? "an empty file, not an archive" : "not a tar archive");
    FT_TRY(ft_tar_bytes(tar->file, path, 0, sizeof first, first));
    return refuse_packed(path, first);
}

void ft_tar_close(ft_tar *tar) {
    if (tar->file >= 0) close(tar->file);
    ft_arena_free(&tar->arena);
    *tar = (ft_tar){.file = -1};
}

// ---- headers ----------------------------------------------------------------------------------------------------------------

static ft_status fail_in(const ft_tar *tar, const char *name, const char *what) {
    char where[600];
    snprintf(where, sizeof where, "%.300s: %.250s", tar->path, name);
    return ft_fail(FT_INVALID, where, "%s", what);
}

static ft_status damaged(const ft_tar *tar) {
    return ft_fail(FT_INVALID, tar->path, tar->at == 0 ? "not a tar archive" : "a damaged archive: there is no header at byte %lld", (long long)tar->at);
}

// Octal digits with blanks around them, or, where the first bit is set, the number itself.
static bool read_number(const char *field, size_t length, int64_t *out) {
    const unsigned char *f = (const unsigned char *)field;
    *out = 0;
    if (f[0] & 0x80) {
        if (f[0] != 0x80) return false; // below zero, or beyond what anything has
        for (size_t i = 1; i < length; i++) {
            if (*out >> 54 != 0) return false;
            *out = *out << 8 | f[i];
        }
        return true;
    }
    size_t i = 0;
    while (i < length && f[i] == ' ') i++;
    for (; i < length && f[i] >= '0' && f[i] <= '7'; i++) *out = *out << 3 | (f[i] - '0'); // at most 12 digits
    return i == length || f[i] == ' ' || f[i] == '\0';
}

static bool is_zero(const header *h) {
    const char *bytes = (const char *)h;
    return bytes[0] == '\0' && memcmp(bytes, bytes + 1, BLOCK - 1) == 0;
}

// The sum of the bytes, those of the sum itself being blanks; old programs took them for signed.
static bool sum_fits(const header *h) {
    const unsigned char *bytes = (const unsigned char *)h;
    int64_t said, plain = 0, with_signs = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        const bool own = i >= offsetof(header, sum) && i < offsetof(header, kind);
        plain += own ? ' ' : bytes[i];
        with_signs += own ? ' ' : (signed char)bytes[i];
    }
    return read_number(h->sum, sizeof h->sum, &said) && (said == plain || said == with_signs);
}

static ft_status take_header(ft_tar *tar, header *h, int64_t *size, bool *end) {
    *end = false;
    if (tar->size - tar->at < BLOCK) {
        if (tar->at == 0) return damaged(tar);
        ft_fail(FT_INVALID, tar->path, "the archive ends at byte %lld without its end mark: it is truncated", (long long)tar->size);
        return FT_INVALID;
    }
    FT_TRY(ft_tar_bytes(tar->file, tar->path, tar->at, BLOCK, h));
    if (is_zero(h)) {
        *end = true;
        return FT_OK;
    }
    return sum_fits(h) && read_number(h->size, sizeof h->size, size) ? FT_OK : damaged(tar);
}

// The data of a header that speaks of the next one.
static ft_status take_data(ft_tar *tar, int64_t size, char **data) {
    if (size > LONGEST_NAME) return ft_fail(FT_INVALID, tar->path, "a damaged archive: a name of %lld bytes", (long long)size);
    *data = ft_arena_alloc(&tar->arena, (size_t)size + 1);
    return *data != NULL ? ft_tar_bytes(tar->file, tar->path, tar->at + BLOCK, size, *data) : FT_NO_MEMORY;
}

static ft_status damaged_record(const ft_tar *tar) {
    return ft_fail(FT_INVALID, tar->path, "a damaged archive: what is said of a member at byte %lld", (long long)tar->at);
}

// "LENGTH KEY=VALUE\n", one behind the other; LENGTH is that of the whole record.
static ft_status take_records(ft_tar *tar, char *data, int64_t size, about_next *next) {
    for (char *at = data, *end = data + size; at < end && *at != '\0';) {
        char *key;
        const long length = strtol(at, &key, 10);
        if (key == at || *key != ' ' || length < key - at + 4 || length > end - at || at[length - 1] != '\n') return damaged_record(tar);
        key++;
        char *value = memchr(key, '=', (size_t)(at + length - key));
        if (value == NULL) return damaged_record(tar);
        *value++ = '\0';
        at[length - 1] = '\0';
        if (strncmp(key, "GNU.sparse.", 11) == 0) return fail_in(tar, next->name != NULL ? next->name : "a member", "a sparse file, which is not supported");
        if (strcmp(key, "path") == 0) next->name = value;
        if (strcmp(key, "size") == 0) {
            char *behind;
            next->size = strtoll(value, &behind, 10);
            if (*behind != '\0' || behind == value || next->size < 0) return damaged_record(tar);
        }
        at += length;
    }
    return FT_OK;
}

// Does a header speak of the member behind it? Then what it says is taken.
static ft_status take_about_next(ft_tar *tar, const header *h, int64_t size, about_next *next, bool *about) {
    char *data = NULL;
    *about = h->kind == 'L' || h->kind == 'x' || h->kind == 'g' || h->kind == 'K';
    if (h->kind != 'L' && h->kind != 'x') return FT_OK; // what holds for all is neither a name nor a size
    FT_TRY(take_data(tar, size, &data));
    if (h->kind == 'L') next->name = data;
    return h->kind == 'x' ? take_records(tar, data, size, next) : FT_OK;
}

// ---- members ----------------------------------------------------------------------------------------------------------------

static const char *name_of(ft_tar *tar, const header *h) {
    const bool posix = memcmp(h->magic, "ustar\0", 6) == 0, prefixed = posix && h->prefix[0] != '\0';
    return prefixed ? ft_arena_format(&tar->arena, "%.*s/%.*s", (int)sizeof h->prefix, h->prefix, (int)sizeof h->name, h->name)
                    : ft_arena_strndup(&tar->arena, h->name, strnlen(h->name, sizeof h->name));
}

// Takes "./" away from the beginning, and looks for what leaves.
static ft_status check_name(const ft_tar *tar, const char **name) {
    while (strncmp(*name, "./", 2) == 0) *name += 2 + strspn(*name + 2, "/");
    if ((*name)[0] == '\0') return fail_in(tar, "?", "a member without a name");
    if ((*name)[0] == '/') return fail_in(tar, *name, "the path of a member begins at the root: it leaves the archive");
    for (const char *part = *name; part != NULL; part = strchr(part, '/')) {
        part += part != *name;
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) return fail_in(tar, *name, "the path of a member goes up (..): it leaves the archive");
    }
    return FT_OK;
}

static ft_status refuse_kind(const ft_tar *tar, const char *name, char kind) {
    switch (kind) {
    case '1':
    case '2': return fail_in(tar, name, "a link, which is not supported: archives of samples have files alone");
    case 'S': return fail_in(tar, name, "a sparse file, which is not supported");
    case '3':
    case '4':
    case '6': return fail_in(tar, name, "a device or a pipe, which is not supported");
    default: return fail_in(tar, name, "a member of an unknown kind");
    }
}

ft_status ft_tar_next(ft_tar *tar, ft_tar_member *member, bool *found) {
    about_next next = {.size = -1};
    ft_arena_free(&tar->arena);
    for (*found = false;;) {
        header h;
        int64_t size = 0;
        bool end, about;
        FT_TRY(take_header(tar, &h, &size, &end));
        if (end && (next.name != NULL || next.size >= 0)) return damaged_record(tar);
        if (end) return FT_OK;
        FT_TRY(take_about_next(tar, &h, size, &next, &about));
        const char *name = next.name != NULL ? next.name : about ? "" : name_of(tar, &h);
        if (name == NULL) return FT_NO_MEMORY;
        if (!about && next.size >= 0) size = next.size;
        const bool file = h.kind == '0' || h.kind == '\0' || h.kind == '7', slashed = name[0] != '\0' && name[strlen(name) - 1] == '/';
        const bool directory = h.kind == '5' || (h.kind == '\0' && slashed); // the old tar has no kind for them
        const int64_t offset = tar->at + BLOCK;
        if (size > tar->size - offset) return fail_in(tar, name, "the archive ends inside this member: it is truncated");
        if (!about && !file && !directory) return refuse_kind(tar, name, h.kind);
        if (!about && !directory) FT_TRY(check_name(tar, &name));
        tar->at = offset + (size + BLOCK - 1) / BLOCK * BLOCK;
        if (about) continue;
        next = (about_next){.size = -1};
        *member = (ft_tar_member){.name = name, .offset = offset, .size = size};
        *found = file && !directory;
        if (*found) return FT_OK;
    }
}
