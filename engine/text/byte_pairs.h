// byte_pairs.h - BPE: words are bytes (RoBERTa, ModernBERT) or characters (Gemma, mmBERT), the best-ranked neighbours join
// until none is left.
#ifndef FT_BYTE_PAIRS_H
#define FT_BYTE_PAIRS_H

#include "engine/text/token_ids.h"
#include "engine/text/trie.h"

#include <stdbool.h>

typedef struct ft_merge {
    int32_t first, second, result;
} ft_merge;

typedef struct ft_pair_entry {
    uint64_t key; // first << 32 | second; all ones: free
    int32_t rank, result;
} ft_pair_entry;

typedef struct ft_byte_pairs {
    // Words that merging turns into one token (most words of a text): looked up, not merged. With ignore_merges, which
    // some files set, all tokens are in it.
    ft_trie whole;
    int32_t bytes[256]; // token of a byte; -1: none. Of characters: "<0x0A>", for those without a token
    bool characters, byte_fallback;
    ft_trie symbols; // of characters: tokens of one
    // Of characters: no merge joins what ends otherwise to what begins with U+2581, so words may be cut in front of it.
    bool cuts_at_marks;
    ft_pair_entry *pairs;
    uint64_t mask; // size of `pairs` - 1, a power of two - 1
    size_t merge_count;
    int32_t unknown; // for bytes without a token; -1: they vanish
    bool fuse_unknown, ignore_merges;
} ft_byte_pairs;

// tokens[id] as the file writes them: with its 256 printable stand-ins for bytes, or as they are (characters). merges are in
// order of rank; of equal pairs the last counts. `unknown` and the flags but cuts_at_marks are to be set before.
ft_status ft_byte_pairs_build(ft_byte_pairs *model, const char *const *tokens, const uint32_t *lengths, int32_t count,
                              const ft_merge *merges, size_t merge_count);
void ft_byte_pairs_free(ft_byte_pairs *model);

// Appends the ids of a word (not empty).
ft_status ft_byte_pairs_word(const ft_byte_pairs *model, const char *word, size_t length, ft_token_ids *out);

// The bytes that a token's printable stand-ins mean, at most `length`; 0 if it holds a character that stands for none: no word can be it.
size_t ft_byte_level_bytes(const char *token, size_t length, char *out);

// Bytes of the first word of `text` (valid UTF-8, not empty) by GPT-2's pattern.
size_t ft_byte_level_word(const char *text, size_t length);
// The same by the pattern of Llama 3 (and of cl100k), with digits 3, and of Qwen2, with digits 1: the most digits of a word.
size_t ft_llama_word(const char *text, size_t length, int digits);
// Bytes of the first word of what a model of characters may merge alone: up to the next U+2581, if it cuts there.
size_t ft_marked_word(const ft_byte_pairs *model, const char *text, size_t length);

#endif
