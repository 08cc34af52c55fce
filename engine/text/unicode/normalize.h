// normalize.h - BertNormalizer: clean, space out CJK, decompose and drop accents, lower-case; in this order.
#ifndef FT_NORMALIZE_H
#define FT_NORMALIZE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

// Bytes that grow. Starts on storage of the caller's (kept = true: not ours to free), which short texts never outgrow.
typedef struct ft_text_buffer {
    char *data;
    size_t count, capacity;
    bool kept;
} ft_text_buffer;
ft_status ft_text_reserve(ft_text_buffer *buffer, size_t more); // room for `more` bytes behind count
void ft_text_release(ft_text_buffer *buffer);

typedef struct ft_normalizer {
    bool clean, space_cjk, strip_accents, lower_case; // all false: text passes unchanged
    unsigned char ascii[128];                         // what each ASCII character becomes; 0x80: nothing
} ft_normalizer;
ft_normalizer ft_normalizer_make(bool clean, bool space_cjk, bool strip_accents, bool lower_case);

// Appends the normal form of `text` (valid UTF-8). The forms of two texts may be joined iff one of them meets the other
// with an ASCII character that is not dropped: such a character keeps combining marks apart.
ft_status ft_normalize(const ft_normalizer *normalizer, const char *text, size_t length, ft_text_buffer *out);

#endif
