// zip.h - entries of a ZIP archive that lies in memory (mapped), for archives whose entries are stored and not
// compressed: PyTorch writes its checkpoints so, in order that they can be mapped. Reading an entry copies nothing.
//
// Format: PKWARE's APPNOTE.TXT: the end record, its 64-bit form, the central directory, and before each entry its local
// header. Sizes are those of the central directory (the local ones are 0 where a data descriptor follows). No checksums
// are computed: that would read every weight twice.
//
// Nothing in the archive is believed: every record and every entry's data must lie in it. Wrong content is FT_INVALID,
// with the file and the byte where the record stands.
#ifndef FT_ZIP_H
#define FT_ZIP_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ft_zip_entry {
    const char *name; // in the archive, not terminated; bytes as they stand there
    size_t name_length;
    uint64_t header, size; // place of the local header; bytes of data
    uint16_t flags, method;
    size_t record; // where its record in the central directory stands
} ft_zip_entry;

typedef struct ft_zip {
    const unsigned char *data;
    size_t size, directory; // the central directory begins there
    const char *path;
    ft_zip_entry *entries; // by name; no name occurs twice
    int count;
    const char *first; // name of the first entry of the directory, first_length bytes
    size_t first_length;
} ft_zip;

bool ft_zip_is(const void *data, size_t size); // begins as an archive does
// `data` and `path` (for errors) must outlive the result; the list lives in `arena`.
ft_status ft_zip_read(const void *data, size_t size, const char *path, ft_arena *arena, ft_zip *zip);
// The data of the entry called `name`: NULL in *data when there is none. Compressed and encrypted ones are refused.
ft_status ft_zip_find(const ft_zip *zip, const char *name, size_t name_length, const unsigned char **data,
                      size_t *size);

#endif
