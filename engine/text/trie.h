// trie.h - longest match of byte strings: a double-array trie, one table look-up a byte.
#ifndef FT_TRIE_H
#define FT_TRIE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ft_trie_node {
    int32_t base;   // the child by byte c is at base + c ...
    int32_t parent; // ... if it names this node as its parent
    int32_t value;  // -1: no key ends here
} ft_trie_node;
typedef struct ft_trie {
    ft_trie_node *nodes; // 256 more than any base: a look-up needs no bounds check
    int32_t count;
} ft_trie;

typedef struct ft_trie_key {
    const char *text;
    size_t length; // at least 1
    int32_t value; // >= 0
} ft_trie_key;

// Sorts `keys`. No two may be equal.
ft_status ft_trie_build(ft_trie_key *keys, size_t count, ft_trie *trie);
void ft_trie_free(ft_trie *trie);

// Length of the longest key that starts `text` and its value; 0 if none does.
static inline size_t ft_trie_longest(const ft_trie *trie, const char *text, size_t length, int32_t *value) {
    const ft_trie_node *nodes = trie->nodes;
    size_t best = 0;
    int32_t at = 0;
    for (size_t i = 0; i < length; i++) {
        int32_t next = nodes[at].base + (unsigned char)text[i];
        if (nodes[next].parent != at) break;
        at = next;
        if (nodes[at].value >= 0) {
            *value = nodes[at].value;
            best = i + 1;
        }
    }
    return best;
}

// The value of exactly this key, or -1.
static inline int32_t ft_trie_find(const ft_trie *trie, const char *text, size_t length) {
    int32_t value = -1;
    return length > 0 && ft_trie_longest(trie, text, length, &value) == length ? value : -1;
}

#endif
