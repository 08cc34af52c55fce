// torch_archive.h - writes a ZIP archive as torch.save does (stored entries, here without the 64-bit records), so that
// a test can put any pickle into it.
#ifndef TORCH_ARCHIVE_H
#define TORCH_ARCHIVE_H

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct archive_entry {
    const char *name;
    const void *data;
    size_t size;
    int method, flags;
} archive_entry;

static inline void little(FILE *out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        putc(i < 8 ? (int)(value >> 8 * i & 0xFF) : 0, out);
}

static inline void write_archive(const char *path, const archive_entry *entries, int count) {
    FILE *out = fopen(path, "wb");
    assert(out != NULL);
    long at[16];
    for (int i = 0; i < count; i++) {
        const archive_entry *e = &entries[i];
        at[i] = ftell(out);
        little(out, 0x04034b50, 4), little(out, 20, 2), little(out, (uint64_t)e->flags, 2),
            little(out, (uint64_t)e->method, 2);
        little(out, 0, 8), little(out, e->size, 4), little(out, e->size, 4), little(out, strlen(e->name), 2),
            little(out, 0, 2);
        fputs(e->name, out);
        fwrite(e->data, 1, e->size, out);
    }
    long directory = ftell(out);
    for (int i = 0; i < count; i++) {
        const archive_entry *e = &entries[i];
        little(out, 0x02014b50, 4), little(out, 20, 2), little(out, 20, 2), little(out, (uint64_t)e->flags, 2);
        little(out, (uint64_t)e->method, 2), little(out, 0, 8), little(out, e->size, 4), little(out, e->size, 4);
        little(out, strlen(e->name), 2), little(out, 0, 12), little(out, (uint64_t)at[i], 4);
        fputs(e->name, out);
    }
    long end = ftell(out);
    little(out, 0x06054b50, 4), little(out, 0, 4), little(out, (uint64_t)count, 2), little(out, (uint64_t)count, 2);
    little(out, (uint64_t)(end - directory), 4), little(out, (uint64_t)directory, 4), little(out, 0, 2);
    assert(fclose(out) == 0);
}

#endif
