#include "engine/files/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    END64 = 0x06064b50,
    LOCATOR64 = 0x07064b50,
    LOCAL_BYTES = 30,
    CENTRAL_BYTES = 46,
    END_BYTES = 22,
    END64_BYTES = 56,
    LOCATOR64_BYTES = 20,
    LONGEST_COMMENT = 65535,
    SIZES64 = 1, // the extra field with 64-bit numbers
    ENCRYPTED = 1,
    STORED = 0
};

static uint64_t number(const unsigned char *at, int bytes) {
    uint64_t out = 0;
    for (int i = bytes - 1; i >= 0; i--)
        out = out << 8 | at[i];
    return out;
}

static ft_status fail_at(const ft_zip *z, uint64_t at, const char *what) {
    char where[512];
    snprintf(where, sizeof where, "%.*s, byte %llu", (int)sizeof where - 40, z->path, (unsigned long long)at);
    return ft_fail(FT_INVALID, where, "%s", what);
}

bool ft_zip_is(const void *data, size_t size) { return size >= 4 && number(data, 4) == LOCAL; }

// ---- where the central directory is -------------------------------------------------------------------------------

typedef struct directory {
    uint64_t at, bytes, entries;
} directory;

// The end record stands last, but for a comment of its own whose length it tells.
static ft_status find_end(const ft_zip *z, size_t *end) {
    size_t least = z->size > END_BYTES + LONGEST_COMMENT ? z->size - END_BYTES - LONGEST_COMMENT : 0;
    for (size_t at = z->size >= END_BYTES ? z->size - END_BYTES + 1 : 0; at-- > least;) {
        const unsigned char *p = z->data + at;
        if (number(p, 4) == END && at + END_BYTES + number(p + 20, 2) == z->size) return *end = at, FT_OK;
    }
    ft_fail(FT_INVALID, z->path, "the archive has no end record in its %zu bytes", z->size);
    ft_hint("the file was probably cut off: a download or a copy that did not finish");
    return FT_INVALID;
}

// Numbers that do not fit into the end record stand in the 64-bit one, which PyTorch always writes.
static ft_status read_end64(const ft_zip *z, size_t end, directory *d) {
    if (end < LOCATOR64_BYTES || number(z->data + end - LOCATOR64_BYTES, 4) != LOCATOR64) return FT_OK;
    size_t locator = end - LOCATOR64_BYTES;
    uint64_t at = number(z->data + locator + 8, 8);
    if (locator < END64_BYTES || at > locator - END64_BYTES || number(z->data + at, 4) != END64)
        return fail_at(z, locator, "the locator of the 64-bit end record points at none");
    const unsigned char *p = z->data + at;
    *d = (directory){.entries = number(p + 32, 8), .bytes = number(p + 40, 8), .at = number(p + 48, 8)};
    return FT_OK;
}

static ft_status find_directory(const ft_zip *z, directory *d) {
    size_t end;
    FT_TRY(find_end(z, &end));
    const unsigned char *p = z->data + end;
    *d = (directory){.entries = number(p + 10, 2), .bytes = number(p + 12, 4), .at = number(p + 16, 4)};
    FT_TRY(read_end64(z, end, d));
    if (d->at > end || d->bytes > end - d->at)
        return fail_at(z, end, "the end record places the directory outside of the archive");
    if (d->entries > d->bytes / CENTRAL_BYTES)
        return fail_at(z, end, "the end record counts more entries than its directory has room for");
    return FT_OK;
}

// ---- entries ------------------------------------------------------------------------------------------------------

// 64-bit numbers stand in an extra field, those and only those whose 32-bit place says "see there", in this order.
static ft_status read_sizes64(const ft_zip *z, const unsigned char *extra, size_t length, ft_zip_entry *e,
                              uint64_t stored) {
    enum { SEE_THERE = -1 };
    const uint32_t see = (uint32_t)SEE_THERE;
    bool need_size = e->size == see, need_stored = stored == see, need_header = e->header == see;
    if (!need_size && !need_stored && !need_header) return FT_OK;
    for (size_t at = 0; length - at >= 4;) {
        size_t tag = (size_t)number(extra + at, 2), bytes = (size_t)number(extra + at + 2, 2);
        at += 4;
        if (bytes > length - at) break;
        if (tag == SIZES64) {
            size_t wanted = 8 * ((size_t)need_size + need_stored + need_header);
            if (bytes < wanted) break;
            const unsigned char *p = extra + at;
            if (need_size) e->size = number(p, 8), p += 8;
            if (need_stored) p += 8;
            if (need_header) e->header = number(p, 8);
            return FT_OK;
        }
        at += bytes;
    }
    return fail_at(z, e->record, "the entry lacks the 64-bit sizes that it announces");
}

static ft_status read_entry(const ft_zip *z, size_t end, size_t *at, ft_zip_entry *e) {
    if (end - *at < CENTRAL_BYTES || number(z->data + *at, 4) != CENTRAL)
        return fail_at(z, *at, "no entry of the archive's directory stands here");
    const unsigned char *p = z->data + *at;
    size_t name = (size_t)number(p + 28, 2), extra = (size_t)number(p + 30, 2), comment = (size_t)number(p + 32, 2);
    if (name + extra + comment > end - *at - CENTRAL_BYTES)
        return fail_at(z, *at, "the entry is longer than the archive's directory");
    *e = (ft_zip_entry){.name = (const char *)p + CENTRAL_BYTES,
                        .name_length = name,
                        .header = number(p + 42, 4),
                        .size = number(p + 24, 4),
                        .flags = (uint16_t)number(p + 8, 2),
                        .method = (uint16_t)number(p + 10, 2),
                        .record = *at};
    FT_TRY(read_sizes64(z, p + CENTRAL_BYTES + name, extra, e, number(p + 20, 4)));
    *at += CENTRAL_BYTES + name + extra + comment;
    return FT_OK;
}

static int compare(const void *a, const void *b) {
    const ft_zip_entry *x = a, *y = b;
    size_t shorter = x->name_length < y->name_length ? x->name_length : y->name_length;
    int order = memcmp(x->name, y->name, shorter);
    return order != 0 ? order : (x->name_length > y->name_length) - (x->name_length < y->name_length);
}

ft_status ft_zip_read(const void *data, size_t size, const char *path, ft_arena *arena, ft_zip *z) {
    *z = (ft_zip){.data = data, .size = size, .path = path};
    directory d;
    FT_TRY(find_directory(z, &d));
    z->directory = (size_t)d.at;
    if (d.entries > INT32_MAX) return fail_at(z, d.at, "too many entries");
    z->entries = ft_arena_alloc(arena, ((size_t)d.entries + 1) * sizeof *z->entries);
    if (z->entries == NULL) return FT_NO_MEMORY;
    size_t at = z->directory, end = z->directory + (size_t)d.bytes;
    for (uint64_t i = 0; i < d.entries; i++)
        FT_TRY(read_entry(z, end, &at, &z->entries[z->count++]));
    if (z->count > 0) z->first = z->entries[0].name, z->first_length = z->entries[0].name_length;
    qsort(z->entries, (size_t)z->count, sizeof *z->entries, compare);
    for (int i = 1; i < z->count; i++) // which of the two is meant depends on the reader
        if (compare(&z->entries[i - 1], &z->entries[i]) == 0)
            return fail_at(z, z->entries[i].record, "the archive has two entries of the same name");
    return FT_OK;
}

ft_status ft_zip_find(const ft_zip *z, const char *name, size_t name_length, const unsigned char **data, size_t *size) {
    const ft_zip_entry wanted = {.name = name, .name_length = name_length};
    const ft_zip_entry *e = bsearch(&wanted, z->entries, (size_t)z->count, sizeof *z->entries, compare);
    *data = NULL;
    *size = 0;
    if (e == NULL) return FT_OK;
    if (e->flags & ENCRYPTED) return fail_at(z, e->record, "the entry is encrypted");
    if (e->method != STORED) {
        fail_at(z, e->record, "the entry is compressed, and weights are stored as they are");
        ft_hint("this is no file of torch.save: it was packed again by another program");
        return FT_INVALID;
    }
    if (z->directory < LOCAL_BYTES || e->header > z->directory - LOCAL_BYTES || number(z->data + e->header, 4) != LOCAL)
        return fail_at(z, e->record, "the entry points at no data");
    const unsigned char *p = z->data + e->header;
    size_t start = (size_t)e->header + LOCAL_BYTES, names = (size_t)number(p + 26, 2),
           extra = (size_t)number(p + 28, 2);
    if (names + extra > z->directory - start || e->size > z->directory - start - names - extra)
        return fail_at(z, e->header, "the entry reaches beyond the data of the archive");
    *data = z->data + start + names + extra;
    *size = (size_t)e->size;
    return FT_OK;
}
