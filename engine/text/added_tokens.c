#include "engine/text/added_tokens.h"

#include "base/arena.h"
#include "base/utf8.h"
#include "engine/text/unicode/unicode.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b) {
    const ft_trie_key *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
    if (order == 0) order = (x->length > y->length) - (x->length < y->length);
    return order != 0 ? order : (x->value > y->value) - (x->value < y->value);
}

// Of several keys of one text the first by value.
static size_t keep_first(ft_trie_key *keys, size_t count) {
    size_t kept = 0;
    if (count > 0) qsort(keys, count, sizeof *keys, by_text);
    for (size_t i = 0; i < count; i++) {
        const ft_trie_key *last = kept > 0 ? &keys[kept - 1] : NULL;
        if (last == NULL || last->length != keys[i].length || memcmp(last->text, keys[i].text, keys[i].length) != 0) keys[kept++] = keys[i];
    }
    return kept;
}

ft_status ft_added_set_build(const ft_added_token *tokens, const ft_trie_key *patterns, size_t count,
                             ft_added_set *set) {
    *set = (ft_added_set){.tokens = tokens, .only_start = -1};
    ft_trie_key *keys = ft_calloc(count + 1, sizeof *keys, "added tokens");
    if (keys == NULL) return FT_NO_MEMORY;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (patterns[i].value < 0) continue;
        keys[used] = patterns[i];
        keys[used++].value = (int32_t)(tokens[i].special ? i : count + i); // special ones come first
    }
    used = keep_first(keys, used);
    for (size_t i = 0; i < used; i++)
        if (keys[i].value >= (int32_t)count) keys[i].value -= (int32_t)count;
    int different = 0;
    for (size_t i = 0; i < used; i++) {
        unsigned char first = (unsigned char)keys[i].text[0];
        different += !set->starts[first];
        set->starts[first] = true;
        set->only_start = different == 1 ? first : -1;
    }
    set->count = used;
    ft_status status = ft_trie_build(keys, used, &set->trie);
    free(keys);
    return status;
}

void ft_added_set_free(ft_added_set *set) {
    ft_trie_free(&set->trie);
    *set = (ft_added_set){0};
}

// The character that ends at text[at] (at > 0), and where it starts.
static uint32_t before(const char *text, size_t at, size_t *start) {
    do
        at--;
    while (((unsigned char)text[at] & 0xC0) == 0x80);
    const unsigned char *p = (const unsigned char *)text + at;
    *start = at;
    return ft_utf8_next(&p);
}

static bool stands_alone(const char *text, size_t length, size_t start, size_t end) {
    size_t ignored;
    if (start > 0 && ft_char_is_word(before(text, start, &ignored))) return false;
    const unsigned char *p = (const unsigned char *)text + end;
    return end == length || !ft_char_is_word(ft_utf8_next(&p));
}

ft_added_match ft_added_next(const ft_added_set *set, const char *text, size_t length, ft_added_cursor *cursor) {
    size_t at = cursor->search;
    while (set->count > 0 && at < length) {
        if (set->only_start >= 0) {
            const char *found = memchr(text + at, set->only_start, length - at);
            if (found == NULL) break;
            at = (size_t)(found - text);
        } else if (!set->starts[(unsigned char)text[at]]) {
            at++;
            continue;
        }
        int32_t index;
        size_t matched = ft_trie_longest(&set->trie, text + at, length - at, &index);
        if (matched == 0) {
            at++;
            continue;
        }
        const ft_added_token *token = &set->tokens[index];
        size_t start = at, end = at + matched;
        at = end; // the search goes on behind the match itself, also if it is refused or swallows white space
        if (token->single_word && !stands_alone(text, length, start, end)) continue;
        if (token->lstrip) {
            size_t previous;
            while (start > 0 && (ft_char_flags(before(text, start, &previous)) & FT_CHAR_WHITE))
                start = previous;
        }
        if (token->rstrip) {
            const unsigned char *p = (const unsigned char *)text + end, *next = p;
            while (p < (const unsigned char *)text + length && (ft_char_flags(ft_utf8_next(&next)) & FT_CHAR_WHITE))
                p = next;
            end = (size_t)(p - (const unsigned char *)text);
        }
        ft_added_match match = {cursor->done, start, token->id};
        cursor->search = at, cursor->done = end;
        return match;
    }
    ft_added_match rest = {cursor->done, length, -1};
    cursor->search = cursor->done = length;
    return rest;
}
