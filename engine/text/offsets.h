// offsets.h - where in a text its tokens stand.
//
// As the offsets of the tokenizers library, but in bytes, and without the white space that a token begins or ends with. A token stands for
// whole characters: of one whose bytes are several tokens' each of them stands for all of it.
#ifndef FT_OFFSETS_H
#define FT_OFFSETS_H

#include "engine/text/tokenizer.h"

typedef struct ft_offsets {
    ft_token_ids ids;
    ft_token_ids begin, end; // of each id: bytes [begin, end) of the text; begin = end: white space, or nothing that is in the text
} ft_offsets;

// The ids of a text without the special tokens around it, as ft_tokenizer_encode has them. Replaces what was in `out`. FT_INVALID: the text is
// no UTF-8, or longer than 2 GiB.
ft_status ft_tokenizer_encode_offsets(const ft_tokenizer *tokenizer, const char *text, size_t length, ft_offsets *out);
void ft_offsets_free(ft_offsets *offsets); // {0} is fine

#endif
