// feature_cache.h - what a frozen trunk made of sequences, a row each, on disk and found by content. One file a key, "<key>.features":
//
//   header (128 bytes) | rows, [rows, row_bytes] | SHA-256 of all bytes before (32 bytes)
//
// in the byte order of the machine, which the header tells. A file is believed only when its size, key and checksum fit. Writers
// replace files whole: several may race, each of them writes the same content. The files of a directory are bounded together; who
// needs room removes those that were not used for longest. A removed file stays with those who have it mapped.
#ifndef FT_FEATURE_CACHE_H
#define FT_FEATURE_CACHE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ft_features {
    char key[65];     // hex: of all that decides about the rows; "": unknown
    int64_t rows;
    size_t row_bytes;
    const void *data; // [rows, row_bytes]; NULL: they are not there yet
    void *own;        // where they are made (base/spill.h); NULL: nowhere
    const void *map;  // the file that they are in; NULL: none
    size_t map_bytes;
} ft_features;

size_t ft_features_bytes(const ft_features *features); // of the file
// Those of that key from the directory: data is set. *found false: there is no such file, or, after a warning, none to believe. Only
// FT_NO_MEMORY fails.
ft_status ft_features_load(const char *directory, ft_features *features, bool *found);
// Room for them in `own`, to be filled. Then data is own, for whoever has filled it to set.
ft_status ft_features_make(ft_features *features);
// `data` into the directory, which is made; the features there take no more than `limit` bytes. What goes wrong is a warning: the run
// has its rows.
void ft_features_store(const char *directory, int64_t limit, const ft_features *features);
void ft_features_free(ft_features *features); // {0} is fine

#endif
