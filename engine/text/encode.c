// encode.c - text to ids: cut out added tokens, normalise what is between them, split into words, match pieces.
#include "engine/text/tokenizer_parts.h"

#include "engine/text/unicode.h"
#include "engine/text/utf8.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef struct encoder {
    const ft_tokenizer *t;
    ft_token_ids *out;
    size_t limit; // out->count at which the rest of the text no longer matters
    ft_text_buffer text;
} encoder;

enum { WORD, WHITE, PUNCTUATION };

static inline int kind_of(uint32_t code) {
    unsigned flags = ft_char_flags(code);
    return flags & FT_CHAR_WHITE ? WHITE : flags & FT_CHAR_PUNCTUATION ? PUNCTUATION : WORD;
}

// ASCII at a glance: the general table is two look-ups and a call away.
static const unsigned char ASCII_KIND[128] = {
    ['\t' ... '\r'] = WHITE,     [' '] = WHITE,
    ['!' ... '/'] = PUNCTUATION, [':' ... '@'] = PUNCTUATION,
    ['[' ... '`'] = PUNCTUATION, ['{' ... '~'] = PUNCTUATION,
};

static ft_status reserve(ft_token_ids *out, size_t more) {
    if (out->capacity - out->count >= more) return FT_OK;
    size_t capacity = out->count + out->count / 2 + more + 32;
    int32_t *ids = ft_realloc(out->ids, capacity, sizeof *ids, "token ids");
    if (ids == NULL) return FT_NO_MEMORY;
    out->ids = ids, out->capacity = capacity;
    return FT_OK;
}

static ft_status word(encoder *e, const char *text, size_t length) {
    const ft_tokenizer *t = e->t;
    ft_token_ids *out = e->out;
    FT_TRY(reserve(out, length));
    int32_t *to = out->ids + out->count, value = 0;
    int64_t characters = (int64_t)length;
    if (characters > t->longest_word) {
        characters = 0;
        for (size_t i = 0; i < length; i++)
            characters += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    size_t at = characters <= t->longest_word ? ft_trie_longest(&t->vocabulary.words, text, length, &value) : 0;
    if (at > 0) *to++ = value;
    while (at > 0 && at < length) {
        size_t step = ft_trie_longest(&t->vocabulary.pieces, text + at, length - at, &value);
        if (step > 0) *to++ = value;
        at = step > 0 ? at + step : 0;
    }
    if (at == 0) { // one part that no piece covers makes the whole word unknown
        to = out->ids + out->count;
        *to++ = t->unknown;
    }
    out->count = (size_t)(to - out->ids);
    return FT_OK;
}

// Normalised text to words.
static ft_status split(encoder *e, const char *text, size_t length) {
    const unsigned char *p = (const unsigned char *)text, *end = p + length, *start = p;
    while (p < end && e->out->count < e->limit) {
        const unsigned char *here = p;
        int kind = *p < 0x80 ? ASCII_KIND[*p] : -1;
        if (kind >= 0)
            p++;
        else
            kind = kind_of(ft_utf8_next(&p));
        if (kind == WORD) continue;
        if (here > start) FT_TRY(word(e, (const char *)start, (size_t)(here - start)));
        if (kind == PUNCTUATION) FT_TRY(word(e, (const char *)here, (size_t)(p - here)));
        start = p;
    }
    if (p == end && end > start) FT_TRY(word(e, (const char *)start, (size_t)(end - start)));
    return FT_OK;
}

static ft_status push(encoder *e, int32_t id) {
    FT_TRY(reserve(e->out, 1));
    e->out->ids[e->out->count++] = id;
    return FT_OK;
}

// A stretch of text without raw added tokens.
static ft_status plain(encoder *e, const char *text, size_t length) {
    const ft_tokenizer *t = e->t;
    if (t->normalized.count > 0) { // they may stand anywhere in the normalised form, so all of it is needed
        e->text.count = 0;
        FT_TRY(ft_normalize(&t->normalizer, text, length, &e->text));
        ft_added_cursor cursor = {0};
        while (cursor.done < e->text.count && e->out->count < e->limit) {
            ft_added_match m = ft_added_next(&t->normalized, e->text.data, e->text.count, &cursor);
            if (m.start < m.end) FT_TRY(split(e, e->text.data + m.start, m.end - m.start));
            if (m.id >= 0) FT_TRY(push(e, m.id));
        }
        return FT_OK;
    }
    // In stretches that end before a space: bounded memory, and nothing is done beyond the limit.
    for (size_t at = 0, next; at < length && e->out->count < e->limit; at = next) {
        next = length - at > 2048 ? at + 2048 : length;
        while (next < length && text[next] != ' ')
            next++;
        e->text.count = 0;
        FT_TRY(ft_normalize(&t->normalizer, text + at, next - at, &e->text));
        FT_TRY(split(e, e->text.data, e->text.count));
    }
    return FT_OK;
}

static ft_status encode_valid(encoder *e, const char *text, size_t length) {
    ft_added_cursor cursor = {0};
    while (cursor.done < length && e->out->count < e->limit) {
        ft_added_match m = ft_added_next(&e->t->raw, text, length, &cursor);
        if (m.start < m.end) FT_TRY(plain(e, text + m.start, m.end - m.start));
        if (m.id >= 0) FT_TRY(push(e, m.id));
    }
    return FT_OK;
}

ft_status ft_tokenizer_encode(const ft_tokenizer *t, const char *text, size_t length, int max_length,
                              ft_token_ids *out) {
    char first[4096]; // most texts need no heap
    size_t begin = out->count, around = (size_t)t->before_count + (size_t)t->after_count;
    if (max_length > 0 && (size_t)max_length < around)
        return ft_fail(FT_INVALID, NULL, "max_length %d leaves no room for the %zu special tokens", max_length, around);
    FT_TRY(reserve(out, around));
    for (int i = 0; i < t->before_count; i++)
        out->ids[out->count++] = t->before[i];
    size_t room = max_length > 0 ? (size_t)max_length - around : SIZE_MAX - out->count;
    encoder e = {.t = t, .out = out, .limit = out->count + room};
    e.text = (ft_text_buffer){.data = first, .capacity = sizeof first, .kept = true};
    ft_status status;
    if (ft_utf8_valid_prefix(text, length) == length)
        status = encode_valid(&e, text, length);
    else {
        char *repaired;
        status = ft_utf8_repair(text, length, &repaired, &length);
        if (status == FT_OK) {
            status = encode_valid(&e, repaired, length);
            free(repaired);
        }
    }
    ft_text_release(&e.text);
    if (status == FT_OK) {
        if (out->count > e.limit) out->count = e.limit;
        status = reserve(out, (size_t)t->after_count);
    }
    if (status != FT_OK) {
        out->count = begin; // nothing is appended by a call that fails
        return status;
    }
    for (int i = 0; i < t->after_count; i++)
        out->ids[out->count++] = t->after[i];
    return FT_OK;
}
