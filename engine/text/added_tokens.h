// added_tokens.h - tokens that are cut out of the text before (or, if "normalized", after) it is normalised.
#ifndef FT_ADDED_TOKENS_H
#define FT_ADDED_TOKENS_H

#include "engine/text/trie.h"

#include <stdbool.h>

typedef struct ft_added_token {
    const char *content;
    size_t length;
    int32_t id;
    bool single_word;    // only where neither neighbour is a word character
    bool lstrip, rstrip; // swallows white space on that side
    bool normalized;     // matches normalised text
    bool special;
} ft_added_token;

// What is searched for in one go.
typedef struct ft_added_set {
    ft_trie trie; // value: index into tokens
    const ft_added_token *tokens;
    bool starts[256]; // bytes some token starts with
    int only_start;   // the one byte all tokens start with, or -1
    size_t count;
} ft_added_set;

// patterns[i] is how tokens[i] reads in the text; value -1: not of this set. Of equal patterns the first counts:
// special tokens before others, then in order. `tokens` is kept, `patterns` must outlive the call only.
ft_status ft_added_set_build(const ft_added_token *tokens, const ft_trie_key *patterns, size_t count,
                             ft_added_set *set);
void ft_added_set_free(ft_added_set *set);

// Walks over a text (valid UTF-8): first the piece before the token, then the token.
typedef struct ft_added_cursor {
    size_t search, done; // where the search goes on; up to where the text has been given out
} ft_added_cursor;
typedef struct ft_added_match {
    size_t start, end; // the piece of text before the token; start >= end: none
    int32_t id;        // -1: no token follows, the piece is the rest
} ft_added_match;
ft_added_match ft_added_next(const ft_added_set *set, const char *text, size_t length, ft_added_cursor *cursor);

#endif
