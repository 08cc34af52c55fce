#include "engine/text/byte_pairs.h"

#include "base/arena.h"
#include "base/utf8.h"
#include "engine/text/unicode/text_classes.h"

#include <stdlib.h>
#include <string.h>

// ---- words ---------------------------------------------------------------------------------------------------------
static const unsigned char ASCII_PATTERN[128] = {
    ['\t' ... '\r'] = FT_PATTERN_SPACE, [' '] = FT_PATTERN_SPACE,          ['0' ... '9'] = FT_PATTERN_NUMBER,
    ['A' ... 'Z'] = FT_PATTERN_LETTER,  ['a' ... 'z'] = FT_PATTERN_LETTER,
};

static inline int pattern_at(const unsigned char **p) {
    if (**p < 0x80) return ASCII_PATTERN[*(*p)++];
    return ft_char_pattern(ft_utf8_next(p));
}

static size_t contraction(const char *text, size_t length) {
    if (length >= 2 && memchr("stmd", text[1], 4) != NULL) return 2;
    if (length < 3) return 0;
    return (text[1] == 'r' && text[2] == 'e') || (text[1] == 'v' && text[2] == 'e') ||
                   (text[1] == 'l' && text[2] == 'l')
               ? 3
               : 0;
}

size_t ft_byte_level_word(const char *text, size_t length) {
    const unsigned char *start = (const unsigned char *)text, *end = start + length, *p = start, *last = start;
    if (*start == '\'') {
        size_t found = contraction(text, length);
        if (found > 0) return found;
    }
    int kind = pattern_at(&p);
    if (*start == ' ' && p < end) { // one space goes with the word behind it
        const unsigned char *behind = p;
        int next = pattern_at(&behind);
        if (next != FT_PATTERN_SPACE) kind = next, p = behind;
    }
    while (p < end) {
        const unsigned char *here = p;
        if (pattern_at(&p) != kind) {
            p = here;
            break;
        }
        last = here;
    }
    // Of several white-space characters the last one is left to the word behind them.
    if (kind == FT_PATTERN_SPACE && p < end && last > start) p = last;
    return (size_t)(p - start);
}

// 's 't 're 've 'm 'll 'd in any case; U+017F is the other small s.
static size_t any_contraction(const char *text, size_t length) {
    char lower[3] = {0};
    if (length >= 3 && (unsigned char)text[1] == 0xC5 && (unsigned char)text[2] == 0xBF) return 3;
    for (size_t i = 0; i < 3 && i < length; i++)
        lower[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
    return contraction(lower, length < 3 ? length : 3);
}

static const unsigned char *pass(const unsigned char *p, const unsigned char *end, int kind, int most) {
    for (const unsigned char *here = p; here < end && most > 0; most--) {
        if (pattern_at(&here) != kind) break;
        p = here;
    }
    return p;
}

static size_t llama_spaces(const unsigned char *start, const unsigned char *end) {
    const unsigned char *p = start, *last = start, *line = NULL;
    while (p < end) {
        const unsigned char *here = p;
        if (pattern_at(&p) != FT_PATTERN_SPACE) {
            p = here;
            break;
        }
        last = here;
        if (*here == '\n' || *here == '\r') line = p;
    }
    if (line != NULL) return (size_t)(line - start);
    // Of several white-space characters the last one is left to the word behind them.
    return (size_t)((p < end && last > start ? last : p) - start);
}

size_t ft_llama_word(const char *text, size_t length, int digits) {
    const unsigned char *start = (const unsigned char *)text, *end = start + length, *p = start;
    if (*start == '\'') {
        size_t found = any_contraction(text, length);
        if (found > 0) return found;
    }
    const int kind = pattern_at(&p);
    if (kind == FT_PATTERN_LETTER) return (size_t)(pass(p, end, FT_PATTERN_LETTER, INT32_MAX) - start);
    if (kind == FT_PATTERN_NUMBER) return (size_t)(pass(p, end, FT_PATTERN_NUMBER, digits - 1) - start);
    if (*start != '\n' && *start != '\r') { // one character of another kind goes with the letters behind it
        const unsigned char *letters = pass(p, end, FT_PATTERN_LETTER, INT32_MAX);
        if (letters > p) return (size_t)(letters - start);
    }
    const unsigned char *others = pass(*start == ' ' ? p : start, end, FT_PATTERN_OTHER, INT32_MAX);
    if (others == start || (*start == ' ' && others == p)) return llama_spaces(start, end);
    while (others < end && (*others == '\n' || *others == '\r'))
        others++;
    return (size_t)(others - start);
}

static const char MARK[] = "\xE2\x96\x81"; // U+2581, which stands for a space
enum { MARK_LENGTH = 3 };
static bool is_mark(const char *text, size_t length) { return length >= MARK_LENGTH && memcmp(text, MARK, MARK_LENGTH) == 0; }

size_t ft_marked_word(const ft_byte_pairs *m, const char *text, size_t length) {
    if (!m->cuts_at_marks) return length;
    size_t at = 0;
    while (is_mark(text + at, length - at))
        at += MARK_LENGTH;
    for (const char *next; at < length; at = (size_t)(next - text) + 1) {
        next = memchr(text + at, MARK[0], length - at);
        if (next == NULL) return length;
        if (is_mark(next, length - (size_t)(next - text))) return (size_t)(next - text);
    }
    return length;
}

// ---- merging -------------------------------------------------------------------------------------------------------
static inline const ft_pair_entry *find_pair(const ft_byte_pairs *m, int32_t first, int32_t second) {
    uint64_t key = (uint64_t)(uint32_t)first << 32 | (uint32_t)second;
    for (uint64_t at = key * UINT64_C(0x9E3779B97F4A7C15) >> 20;; at++) {
        const ft_pair_entry *e = &m->pairs[at & m->mask];
        if (e->key == key) return e;
        if (e->key == UINT64_MAX) return NULL;
    }
}

static const ft_pair_entry NO_PAIR = {UINT64_MAX, INT32_MAX, -1};
static inline const ft_pair_entry *pair_of(const ft_byte_pairs *m, int32_t first, int32_t second) {
    const ft_pair_entry *e = find_pair(m, first, second);
    return e != NULL ? e : &NO_PAIR;
}

// Words of few symbols: look for the best pair again after every merge.
enum { SHORT_WORD = 48 };
static size_t merge_short(const ft_byte_pairs *m, int32_t *ids, size_t count) {
    const ft_pair_entry *pairs[SHORT_WORD];
    for (size_t i = 0; i + 1 < count; i++)
        pairs[i] = pair_of(m, ids[i], ids[i + 1]);
    while (count > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < count; i++)
            if (pairs[i]->rank < pairs[best]->rank) best = i;
        if (pairs[best] == &NO_PAIR) break;
        ids[best] = pairs[best]->result;
        count--;
        memmove(ids + best + 1, ids + best + 2, (count - best - 1) * sizeof *ids);
        if (best + 1 < count) {
            memmove(pairs + best + 1, pairs + best + 2, (count - best - 2) * sizeof *pairs);
            pairs[best] = pair_of(m, ids[best], ids[best + 1]);
        }
        if (best > 0) pairs[best - 1] = pair_of(m, ids[best - 1], ids[best]);
    }
    return count;
}

// Long words: a heap of pairs by rank, then place. A pair that has changed since leaves its entry behind, unmatched.
typedef struct candidate {
    int32_t rank;
    uint32_t at;
} candidate;
typedef struct long_word {
    int32_t *ids;              // -1: joined to the one before
    uint32_t *before, *behind; // neighbours; the count: none
    candidate *heap;
    size_t heap_count, count;
} long_word;

static bool earlier(candidate a, candidate b) { return a.rank != b.rank ? a.rank < b.rank : a.at < b.at; }

static void heap_push(long_word *w, const ft_byte_pairs *m, uint32_t at) {
    if (at >= w->count || w->behind[at] >= w->count) return;
    const ft_pair_entry *e = find_pair(m, w->ids[at], w->ids[w->behind[at]]);
    if (e == NULL) return;
    candidate c = {e->rank, at};
    size_t i = w->heap_count++;
    for (; i > 0 && earlier(c, w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
}

static candidate heap_pop(long_word *w) {
    candidate top = w->heap[0], moved = w->heap[--w->heap_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < w->heap_count; i = child) {
        if (child + 1 < w->heap_count && earlier(w->heap[child + 1], w->heap[child])) child++;
        if (!earlier(w->heap[child], moved)) break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = moved;
    return top;
}

static ft_status merge_long(const ft_byte_pairs *m, int32_t *ids, size_t *count) {
    size_t n = *count;
    if (n >= UINT32_MAX / 4) return ft_fail(FT_INVALID, NULL, "a word of %zu bytes is too long", n);
    long_word w = {.ids = ids, .count = n};
    w.before = ft_calloc(n, 2 * sizeof *w.before, "a long word");
    w.heap = ft_calloc(3 * n, sizeof *w.heap, "a long word"); // at most two new pairs a merge
    if (w.before == NULL || w.heap == NULL) {
        free(w.before);
        free(w.heap);
        return FT_NO_MEMORY;
    }
    w.behind = w.before + n;
    for (size_t i = 0; i < n; i++) {
        w.before[i] = (uint32_t)(i > 0 ? i - 1 : n);
        w.behind[i] = (uint32_t)(i + 1);
    }
    for (size_t i = 0; i + 1 < n; i++)
        heap_push(&w, m, (uint32_t)i);
    while (w.heap_count > 0) {
        candidate c = heap_pop(&w);
        uint32_t second = ids[c.at] >= 0 ? w.behind[c.at] : (uint32_t)n;
        if (second >= n) continue;
        const ft_pair_entry *e = find_pair(m, ids[c.at], ids[second]);
        if (e == NULL || e->rank != c.rank) continue;
        ids[c.at] = e->result;
        ids[second] = -1;
        w.behind[c.at] = w.behind[second];
        if (w.behind[c.at] < n) w.before[w.behind[c.at]] = c.at;
        heap_push(&w, m, w.before[c.at]);
        heap_push(&w, m, c.at);
    }
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= 0) ids[left++] = ids[i];
    *count = left;
    free(w.before);
    free(w.heap);
    return FT_OK;
}

// Tokens of a character's bytes; 0 if one of them has none.
static size_t fall_back(const ft_byte_pairs *m, const char *bytes, size_t length, int32_t *ids) {
    for (size_t i = 0; i < length; i++)
        if ((ids[i] = m->bytes[(unsigned char)bytes[i]]) < 0) return 0;
    return length;
}

// Characters of a word: their tokens, or those of their bytes, or the unknown one, which (as the library does it) waits for
// the next character that has a token: bytes come before it.
static size_t characters_of(const ft_byte_pairs *m, const char *word, size_t length, int32_t *ids) {
    const unsigned char *p = (const unsigned char *)word, *end = p + length;
    size_t count = 0;
    bool waiting = false;
    while (p < end) {
        const char *start = (const char *)p;
        (void)ft_utf8_next(&p);
        const size_t bytes = (size_t)((const char *)p - start);
        const int32_t id = ft_trie_find(&m->symbols, start, bytes);
        if (id >= 0) {
            if (waiting) ids[count++] = m->unknown;
            waiting = false;
            ids[count++] = id;
            continue;
        }
        const size_t fallen = m->byte_fallback ? fall_back(m, start, bytes, ids + count) : 0;
        count += fallen;
        if (fallen > 0 || m->unknown < 0) continue;
        if (waiting && !m->fuse_unknown) ids[count++] = m->unknown;
        waiting = true;
    }
    if (waiting) ids[count++] = m->unknown;
    return count;
}

static size_t bytes_of(const ft_byte_pairs *m, const char *word, size_t length, int32_t *ids) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        int32_t id = m->bytes[(unsigned char)word[i]];
        bool fused = id < 0 && m->fuse_unknown && i > 0 && m->bytes[(unsigned char)word[i - 1]] < 0;
        if (id < 0) id = m->unknown;
        if (id >= 0 && !fused) ids[count++] = id;
    }
    return count;
}

static ft_status merge(const ft_byte_pairs *m, const char *word, size_t length, ft_token_ids *out) {
    FT_TRY(ft_token_ids_reserve(out, length + 4)); // a character that falls back is tried where its bytes would stand
    int32_t *ids = out->ids + out->count;
    size_t count = (m->characters ? characters_of : bytes_of)(m, word, length, ids);
    if (count > SHORT_WORD)
        FT_TRY(merge_long(m, ids, &count));
    else
        count = merge_short(m, ids, count);
    out->count += count;
    return FT_OK;
}

ft_status ft_byte_pairs_word(const ft_byte_pairs *m, const char *word, size_t length, ft_token_ids *out) {
    int32_t id = ft_trie_find(&m->whole, word, length);
    if (id < 0) return merge(m, word, length, out);
    FT_TRY(ft_token_ids_reserve(out, 1));
    out->ids[out->count++] = id;
    return FT_OK;
}

// ---- building ------------------------------------------------------------------------------------------------------
// The byte a printable stand-in means, -1 for none: the printable ones are themselves, the others are numbered from
// 256.
static int byte_of(uint32_t code) {
    static const unsigned char OTHERS[68] = {0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,
                                             14,  15,  16,  17,  18,  19,  20,  21,  22,  23,  24,  25,  26,  27,
                                             28,  29,  30,  31,  32,  127, 128, 129, 130, 131, 132, 133, 134, 135,
                                             136, 137, 138, 139, 140, 141, 142, 143, 144, 145, 146, 147, 148, 149,
                                             150, 151, 152, 153, 154, 155, 156, 157, 158, 159, 160, 173};
    if ((code >= 33 && code <= 126) || (code >= 161 && code <= 172) || (code >= 174 && code <= 255)) return (int)code;
    return code >= 256 && code < 256 + 68 ? OTHERS[code - 256] : -1;
}

size_t ft_byte_level_bytes(const char *token, size_t length, char *out) {
    const unsigned char *p = (const unsigned char *)token, *end = p + length;
    size_t n = 0;
    while (p < end) {
        int byte = byte_of(ft_utf8_next(&p));
        if (byte < 0) return 0;
        out[n++] = (char)byte;
    }
    return n;
}

static ft_status build_pairs(ft_byte_pairs *m, const ft_merge *merges, size_t count) {
    size_t size = 64;
    while (size < 3 * count)
        size *= 2;
    m->pairs = ft_calloc(size, sizeof *m->pairs, "merges");
    if (m->pairs == NULL) return FT_NO_MEMORY;
    m->mask = size - 1, m->merge_count = count;
    for (size_t i = 0; i < size; i++)
        m->pairs[i] = NO_PAIR;
    for (size_t i = 0; i < count; i++) {
        uint64_t key = (uint64_t)(uint32_t)merges[i].first << 32 | (uint32_t)merges[i].second;
        uint64_t at = key * UINT64_C(0x9E3779B97F4A7C15) >> 20;
        while (m->pairs[at & m->mask].key != UINT64_MAX && m->pairs[at & m->mask].key != key)
            at++;
        m->pairs[at & m->mask] = (ft_pair_entry){key, (int32_t)i, merges[i].result};
    }
    return FT_OK;
}

static ft_status build_whole(ft_byte_pairs *m, ft_trie_key *keys, size_t count) {
    size_t kept = 0;
    ft_token_ids ids = {0};
    ft_status status = FT_OK;
    for (size_t i = 0; i < count && status == FT_OK; i++) {
        ids.count = 0;
        status = merge(m, keys[i].text, keys[i].length, &ids);
        if (m->ignore_merges || (ids.count == 1 && ids.ids[0] == keys[i].value)) keys[kept++] = keys[i];
    }
    free(ids.ids);
    if (status != FT_OK) return status;
    return ft_trie_build(keys, kept, &m->whole);
}

static bool is_character(const char *text, size_t length) {
    size_t lead = 0;
    for (size_t i = 0; i < length; i++)
        lead += ((unsigned char)text[i] & 0xC0) != 0x80;
    return lead == 1;
}

// "<0x0A>": the byte; -1 for any other text.
static int byte_named(const char *token, size_t length) {
    static const char DIGITS[] = "0123456789ABCDEF";
    if (length != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>') return -1;
    const char *high = memchr(DIGITS, token[3], 16), *low = memchr(DIGITS, token[4], 16);
    return high != NULL && low != NULL ? (int)((high - DIGITS) * 16 + (low - DIGITS)) : -1;
}

static bool cuts_at_marks(const ft_byte_pairs *m, const char *const *tokens, const uint32_t *lengths, const ft_merge *merges, size_t count) {
    if (m->ignore_merges || ft_trie_find(&m->symbols, MARK, MARK_LENGTH) < 0) return false;
    for (size_t i = 0; i < count; i++) {
        const char *first = tokens[merges[i].first], *second = tokens[merges[i].second];
        const uint32_t length = lengths[merges[i].first];
        const bool behind = length >= MARK_LENGTH && is_mark(first + length - MARK_LENGTH, MARK_LENGTH);
        if (!behind && is_mark(second, lengths[merges[i].second])) return false;
    }
    return true;
}

static ft_status build_characters(ft_byte_pairs *m, const char *const *tokens, const uint32_t *lengths, int32_t count,
                                  const ft_merge *merges, size_t merge_count) {
    ft_trie_key *keys = ft_calloc((size_t)count + 1, sizeof *keys, "a vocabulary");
    if (keys == NULL) return FT_NO_MEMORY;
    size_t used = 0;
    for (int32_t id = 0; id < count; id++) {
        const int byte = byte_named(tokens[id], lengths[id]);
        if (byte >= 0) m->bytes[byte] = id;
        if (lengths[id] > 0 && is_character(tokens[id], lengths[id])) keys[used++] = (ft_trie_key){tokens[id], lengths[id], id};
    }
    ft_status status = build_pairs(m, merges, merge_count);
    if (status == FT_OK) status = ft_trie_build(keys, used, &m->symbols);
    used = 0;
    for (int32_t id = 0; id < count; id++)
        if (lengths[id] > 0) keys[used++] = (ft_trie_key){tokens[id], lengths[id], id};
    if (status == FT_OK) status = build_whole(m, keys, used);
    if (status == FT_OK) m->cuts_at_marks = cuts_at_marks(m, tokens, lengths, merges, merge_count);
    free(keys);
    return status;
}

ft_status ft_byte_pairs_build(ft_byte_pairs *m, const char *const *tokens, const uint32_t *lengths, int32_t count,
                              const ft_merge *merges, size_t merge_count) {
    size_t bytes = 1, used = 0;
    for (int32_t id = 0; id < count; id++)
        bytes += lengths[id];
    for (int i = 0; i < 256; i++)
        m->bytes[i] = -1;
    if (m->characters) return build_characters(m, tokens, lengths, count, merges, merge_count);
    ft_trie_key *keys = ft_calloc((size_t)count + 1, sizeof *keys, "a vocabulary");
    char *text = ft_calloc(bytes, 1, "a vocabulary"), *to = text;
    ft_status status = keys != NULL && text != NULL ? build_pairs(m, merges, merge_count) : FT_NO_MEMORY;
    for (int32_t id = 0; status == FT_OK && id < count; id++) {
        size_t length = ft_byte_level_bytes(tokens[id], lengths[id], to);
        if (length == 0) continue;
        if (length == 1) m->bytes[(unsigned char)*to] = id;
        keys[used++] = (ft_trie_key){to, length, id};
        to += length;
    }
    if (status == FT_OK) status = build_whole(m, keys, used);
    free(keys);
    free(text);
    return status;
}

void ft_byte_pairs_free(ft_byte_pairs *m) {
    ft_trie_free(&m->whole);
    ft_trie_free(&m->symbols);
    free(m->pairs);
    *m = (ft_byte_pairs){0};
}
