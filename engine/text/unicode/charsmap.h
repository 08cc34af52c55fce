// charsmap.h - SentencePiece's precompiled character map: a double-array trie over byte strings and what they become.
#ifndef FT_CHARSMAP_H
#define FT_CHARSMAP_H

#include "base/arena.h"
#include "engine/text/unicode/normalize.h"

#include <stdint.h>

typedef struct ft_charsmap {
    const void *data; // as in the file; size bytes
    size_t size;
    const uint32_t *units;
    size_t unit_count;
    const char *strings; // NUL-terminated, one after the other
    size_t strings_length;
    signed char
        ascii[128]; // what an ASCII character alone becomes: itself or another one; -1: something longer or nothing
} ft_charsmap;

// Copies `data` into the arena and checks its outline. FT_INVALID at `where`.
ft_status ft_charsmap_open(ft_arena *arena, const void *data, size_t size, const char *where, ft_charsmap *map);
// Appends what `text` (valid UTF-8) becomes, the tokenizers library's way: cluster by cluster where a cluster is short,
// character by character elsewhere, and the SHORTEST entry that starts a cluster stands for all of it. *kept_start
// becomes false when the text's first cluster vanishes.
ft_status ft_charsmap_apply(const ft_charsmap *map, const char *text, size_t length, ft_text_buffer *out,
                            bool *kept_start);

#endif
