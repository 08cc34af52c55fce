// long_text.h - what stays of a text that has more tokens than fit (data.truncation).
//
//   head       its beginning, as everywhere by default
//   tail       its end
//   head_tail  a quarter from its beginning, the rest from its end (Sun et al. 2019, "How to fine-tune BERT for text
//              classification": 128 and 382 of 510)
//   windows    all of it, in sequences of its own, each of which begins with the last `overlap` tokens of the one before it;
//              the last one may be shorter. These are the tokenizers library's return_overflowing_tokens with stride = overlap
//
// Every sequence has the special tokens of the model. Of a pair the longer text is cut first, until both are equally long, and
// each text that is cut keeps its beginning, its end, or both. Windows are of the longer text only (of equally long ones the
// second); the shorter one stands in each of them, whole if it takes at most half the room, else cut to half at its end.
#ifndef FT_LONG_TEXT_H
#define FT_LONG_TEXT_H

#include "engine/text/tokenizer.h"

#include <stdbool.h>

typedef enum ft_long_text_kind { FT_LONG_HEAD = 0, FT_LONG_TAIL, FT_LONG_HEAD_TAIL, FT_LONG_WINDOWS } ft_long_text_kind;
typedef struct ft_long_text {
    ft_long_text_kind kind;
    int32_t overlap; // of windows, in tokens of the text; -1: a quarter of a window
} ft_long_text;

// "head", "tail", "head_tail", "windows", "windows(64)". FT_INVALID, WHERE `where`, for all else.
ft_status ft_long_text_parse(const char *text, const char *where, ft_long_text *rule);
// FT_INVALID when windows of max_length tokens would not get ahead with this overlap.
ft_status ft_long_text_check(const ft_long_text *rule, const ft_tokenizer *tokenizer, bool paired, int max_length);

// Appends the sequences that stand for a text, or for a pair: ids to out->ids, token types to types->ids (NULL: not wanted),
// and to lengths->ids how many tokens each of them has. *whole: nothing was left out and it is one sequence.
// max_length <= 0: no limit. A rule that ft_long_text_check refuses is FT_INVALID; nothing is appended by a call that fails.
ft_status ft_tokenizer_encode_long(const ft_tokenizer *tokenizer, const char *text, size_t length, const char *pair,
                                   size_t pair_length, int max_length, const ft_long_text *rule, ft_token_ids *out,
                                   ft_token_ids *types, ft_token_ids *lengths, bool *whole);

#endif
