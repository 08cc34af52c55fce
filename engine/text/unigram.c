#include "engine/text/unigram.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

// A piece as words are searched: U+2581 is one space. 0: cannot occur in a word (it holds a space of its own).
static size_t as_searched(const char *piece, size_t length, char *out) {
    size_t n = 0;
    for (size_t i = 0; i < length;) {
        if (piece[i] == ' ') return 0;
        bool mark = length - i >= 3 && memcmp(piece + i, FT_SPACE_MARK, 3) == 0;
        out[n++] = mark ? ' ' : piece[i];
        i += mark ? 3 : 1;
    }
    return n;
}

static int by_text(const void *a, const void *b) {
    const ft_trie_key *x = a, *y = b;
    int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
    if (order == 0) order = (x->length > y->length) - (x->length < y->length);
    return order != 0 ? order : (x->value > y->value) - (x->value < y->value);
}

ft_status ft_unigram_build(ft_unigram *u, const char *const *tokens, const uint32_t *lengths, double *scores,
                           int32_t count, int32_t unknown) {
    *u = (ft_unigram){.scores = scores, .count = count, .unknown = unknown, .behind_space = -1};
    size_t bytes = 1, used = 0, distinct = 0;
    double lowest = 0;
    for (int32_t id = 0; id < count; id++) {
        bytes += lengths[id];
        if (id == 0 || scores[id] < lowest) lowest = scores[id];
    }
    u->unknown_score = lowest - 10;
    ft_trie_key *keys = ft_calloc((size_t)count + 1, sizeof *keys, "a vocabulary");
    char *text = ft_calloc(bytes, 1, "a vocabulary"), *to = text;
    ft_status status = keys != NULL && text != NULL ? FT_OK : FT_NO_MEMORY;
    for (int32_t id = 0; status == FT_OK && id < count; id++) {
        size_t length = as_searched(tokens[id], lengths[id], to);
        if (length == 0) continue;
        keys[used++] = (ft_trie_key){to, length, id};
        to += length;
    }
    if (status == FT_OK) {
        if (used > 0) qsort(keys, used, sizeof *keys, by_text);
        for (size_t i = 0; i < used; i++) { // a later piece of the same text takes the earlier one's place
            if (distinct > 0 && keys[distinct - 1].length == keys[i].length &&
                memcmp(keys[distinct - 1].text, keys[i].text, keys[i].length) == 0)
                distinct--;
            keys[distinct++] = keys[i];
        }
        status = ft_trie_build(keys, distinct, &u->trie);
    }
    if (status == FT_OK) {
        int32_t node = u->trie.nodes[0].base + ' ';
        if (u->trie.nodes[node].parent == 0) u->behind_space = node;
    }
    free(keys);
    free(text);
    return status;
}

void ft_unigram_free(ft_unigram *u) {
    free(u->scores);
    ft_trie_free(&u->trie);
    *u = (ft_unigram){0};
}

int32_t ft_unigram_find(const ft_unigram *u, const char *text, size_t length) {
    const ft_trie_node *nodes = u->trie.nodes;
    int32_t at = 0;
    for (size_t i = 0; i < length; i++) {
        bool mark = length - i >= 3 && memcmp(text + i, FT_SPACE_MARK, 3) == 0;
        if (text[i] == ' ') return -1;
        int32_t next = nodes[at].base + (mark ? ' ' : (unsigned char)text[i]);
        if (nodes[next].parent != at) return -1;
        at = next;
        if (mark) i += 2;
    }
    return length > 0 ? nodes[at].value : -1;
}

static size_t character(const unsigned char *p) { return *p < 0x80 ? 1 : *p < 0xE0 ? 2 : *p < 0xF0 ? 3 : 4; }

// Several unknown characters in a row are one token, and that token is looked up once more as a whole.
static int32_t fused(const ft_unigram *u, bool space, const char *text, size_t start, size_t end) {
    const ft_trie_node *nodes = u->trie.nodes;
    int32_t at = 0;
    for (size_t i = start; i < end; i++) {
        unsigned char c = space && i == 0 ? ' ' : (unsigned char)text[i - space];
        int32_t next = nodes[at].base + c;
        if (nodes[next].parent != at) return u->unknown;
        at = next;
    }
    return nodes[at].value >= 0 ? nodes[at].value : u->unknown;
}

ft_status ft_unigram_word(const ft_unigram *u, bool space, const char *text, size_t length, ft_unigram_scratch *scratch,
                          ft_token_ids *out) {
    const ft_trie_node *nodes = u->trie.nodes;
    const unsigned char *bytes = (const unsigned char *)text;
    ft_unigram_cell *cells = scratch->first;
    size_t size = length + space;
    if (size >= FT_UNIGRAM_CELLS) {
        if (size >= UINT32_MAX) return ft_fail(FT_INVALID, NULL, "a word of %zu bytes is too long", length);
        if (size >= scratch->capacity) {
            ft_unigram_cell *more = ft_realloc(scratch->more, size + size / 2 + 1, sizeof *more, "a long word");
            if (more == NULL) return FT_NO_MEMORY;
            scratch->more = more, scratch->capacity = size + size / 2 + 1;
        }
        cells = scratch->more;
    }
    for (size_t i = 1; i <= size; i++)
        cells[i].id = -1;
    cells[0] = (ft_unigram_cell){0, 0, 0};
    // Places are counted with the space; text[0] is place `space`.
    for (size_t at = 0, step; at < size; at += step) {
        double here = cells[at].score;
        bool alone = false; // some piece is just this character
        size_t i = at;
        int32_t node = 0;
        step = space && at == 0 ? 1 : character(bytes + at - space);
        if (space && at == 0) {
            i = size;
            if (u->behind_space >= 0) {
                node = u->behind_space, i = 1;
                if (nodes[node].value >= 0) {
                    cells[1] = (ft_unigram_cell){u->scores[nodes[node].value], 0, nodes[node].value};
                    alone = true;
                }
            }
        }
        for (; i < size; i++) {
            int32_t next = nodes[node].base + bytes[i - space];
            if (nodes[next].parent != node) break;
            node = next;
            int32_t id = nodes[node].value;
            if (id < 0) continue;
            ft_unigram_cell *cell = &cells[i + 1];
            double score = u->scores[id] + here;
            if (cell->id < 0 || score > cell->score) *cell = (ft_unigram_cell){score, (uint32_t)at, id};
            alone = alone || i + 1 - at == step;
        }
        ft_unigram_cell *cell = &cells[at + step];
        double score = u->unknown_score + here;
        if (!alone && (cell->id < 0 || score > cell->score)) *cell = (ft_unigram_cell){score, (uint32_t)at, u->unknown};
    }
    FT_TRY(ft_token_ids_reserve(out, size));
    if (scratch->ends != NULL) FT_TRY(ft_token_ids_reserve(scratch->ends, size));
    int32_t *to = out->ids + out->count, *top = to + size, *first = top;
    int32_t *ends = scratch->ends != NULL ? scratch->ends->ids + scratch->ends->count : NULL;
    for (size_t end = size; end > 0;) {
        size_t start = cells[end].start;
        int32_t id = cells[end].id;
        if (id == u->unknown) {
            while (start > 0 && cells[start].id == u->unknown)
                start = cells[start].start;
            id = fused(u, space, text, start, end);
        }
        *--first = id;
        if (ends != NULL) ends[first - to] = (int32_t)end;
        end = start;
    }
    memmove(to, first, (size_t)(top - first) * sizeof *to);
    out->count += (size_t)(top - first);
    if (ends == NULL) return FT_OK;
    memmove(ends, ends + (first - to), (size_t)(top - first) * sizeof *ends);
    scratch->ends->count += (size_t)(top - first);
    return FT_OK;
}
