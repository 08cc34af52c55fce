// unigram.h - SentencePiece's Unigram model as the tokenizers library runs it: the best-scoring way to cover a word.
#ifndef FT_UNIGRAM_H
#define FT_UNIGRAM_H

#include "engine/text/token_ids.h"
#include "engine/text/trie.h"

#include <stdbool.h>

#define FT_SPACE_MARK "\xE2\x96\x81" // U+2581, which SentencePiece writes for a space

// Words are searched with a space in place of U+2581: Metaspace makes the two one, and a space is one byte.
typedef struct ft_unigram {
    double *scores; // by id
    int32_t count;
    double unknown_score;
    int32_t unknown;
    ft_trie trie;
    int32_t behind_space; // the trie's node behind a space; -1: no piece begins with one
} ft_unigram;

typedef struct ft_unigram_cell { // the best way to get to a place in the word
    double score;
    uint32_t start; // of its last piece
    int32_t id;
} ft_unigram_cell;
enum { FT_UNIGRAM_CELLS = 128 }; // enough for most words
typedef struct ft_unigram_scratch {
    ft_unigram_cell first[FT_UNIGRAM_CELLS];
    ft_unigram_cell *more; // heap, for long words
    size_t capacity;
    ft_token_ids *ends;    // of each token that is appended to the ids, where in the word it ends, the space counted; NULL: not wanted
} ft_unigram_scratch;

// Builds the trie. tokens[id] (NULL or empty: none) are the pieces; of equal ones the last counts. `scores` is taken.
ft_status ft_unigram_build(ft_unigram *model, const char *const *tokens, const uint32_t *lengths, double *scores,
                           int32_t count, int32_t unknown);
void ft_unigram_free(ft_unigram *model);

// The id of exactly this piece (as the file writes it), or -1.
int32_t ft_unigram_find(const ft_unigram *model, const char *text, size_t length);

// Appends the ids of a word: of `text`, with a space before it if `space`. Valid UTF-8, no U+2581 in it; not empty.
ft_status ft_unigram_word(const ft_unigram *model, bool space, const char *text, size_t length,
                          ft_unigram_scratch *scratch, ft_token_ids *out);

#endif
