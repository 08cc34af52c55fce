// pieces.c - normalised text to words, by the pre-tokenizer's steps, and words to ids, by the model.
#include "engine/text/tokenizer_parts.h"

#include "base/utf8.h"
#include "engine/text/unicode/unicode.h"

#include <string.h>

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

// ---- WordPiece -----------------------------------------------------------------------------------------------------
static ft_status word_pieces(const ft_tokenizer *t, const char *text, size_t length, ft_token_ids *out) {
    FT_TRY(ft_token_ids_reserve(out, length));
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

// ---- where tokens stand -----------------------------------------------------------------------------------------------

// Bytes of a word that a token of it stands for.
static size_t covered(const ft_tokenizer *t, int32_t id, bool first) {
    const char *token = t->vocabulary.token[id];
    size_t length = t->vocabulary.length[id], bytes = 0;
    if (t->kind == FT_MODEL_WORD_PIECE) return first ? length : length - strlen(t->prefix);
    if (t->byte_pairs.characters) return length == 6 && memcmp(token, "<0x", 3) == 0 ? 1 : length;
    for (size_t i = 0; i < length; i++) bytes += ((unsigned char)token[i] & 0xC0) != 0x80; // stand-ins of bytes
    return bytes;
}

static ft_status put_span(ft_form_spans *s, int64_t begin, int64_t end) {
    FT_TRY(ft_token_ids_reserve(&s->begin, 1));
    FT_TRY(ft_token_ids_reserve(&s->end, 1));
    s->begin.ids[s->begin.count++] = (int32_t)(begin > 0 ? begin : 0);
    s->end.ids[s->end.count++] = (int32_t)(end > 0 ? end : 0);
    return FT_OK;
}

// Of the ids from `from` on, which a word became. Those that do not tell stand for all of it.
static ft_status note_word(ft_encoder *e, const char *text, size_t length, size_t from) {
    ft_form_spans *s = e->spans;
    if (s == NULL) return FT_OK;
    const int64_t at = s->origin_at + (text - s->origin);
    size_t sum = 0, done = 0;
    for (size_t i = from; i < e->out->count; i++) sum += covered(e->t, e->out->ids[i], i == from);
    for (size_t i = from, n; i < e->out->count; i++, done += n) {
        n = covered(e->t, e->out->ids[i], i == from);
        FT_TRY(sum == length ? put_span(s, at + (int64_t)done, at + (int64_t)(done + n)) : put_span(s, at, at + (int64_t)length));
    }
    return FT_OK;
}

static ft_status byte_pairs_word(ft_encoder *e, const char *text, size_t length) {
    const size_t from = e->out->count;
    FT_TRY(ft_byte_pairs_word(&e->t->byte_pairs, text, length, e->out));
    return note_word(e, text, length, from);
}

static size_t character_bytes(char lead) {
    const unsigned char c = (unsigned char)lead;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

// space: the word's, which counts, but is not in `text`; tokens are given none of it. Of one that was put in front a token that is nothing else has
// the character behind it.
static ft_status unigram_word(ft_encoder *e, bool space, bool put_in_front, const char *text, size_t length) {
    ft_form_spans *s = e->spans;
    if (s != NULL) s->ends.count = 0;
    FT_TRY(ft_unigram_word(&e->t->unigram, space, text, length, &e->unigram, e->out));
    if (s == NULL) return FT_OK;
    const int64_t at = s->origin_at + (text - s->origin) - space;
    for (size_t i = 0; i < s->ends.count; i++) {
        const int64_t begin = i > 0 ? s->ends.ids[i - 1] : 0, end = s->ends.ids[i];
        const int64_t lone = put_in_front && end == space && length > 0 ? (int64_t)character_bytes(text[0]) : 0;
        FT_TRY(put_span(s, at + (begin > space ? begin : space), at + (end > space ? end : space) + lone));
    }
    return FT_OK;
}

// ---- the steps -----------------------------------------------------------------------------------------------------
static ft_status step(ft_encoder *e, size_t index, const char *text, size_t length, bool first);

static ft_status put(ft_text_buffer *out, const char *text, size_t length) {
    if (length == 0) return FT_OK; // an empty buffer has no place to copy to
    FT_TRY(ft_text_reserve(out, length));
    memcpy(out->data + out->count, text, length);
    out->count += length;
    return FT_OK;
}

// White space goes, or punctuation characters become pieces of their own, or both.
static ft_status by_kind(ft_encoder *e, size_t index, const char *text, size_t length, bool first) {
    ft_split_kind how = e->t->splits[index].kind;
    const unsigned char *begin = (const unsigned char *)text, *p = begin, *end = p + length, *start = p;
    while (p < end && e->out->count < e->limit) {
        const unsigned char *here = p;
        int kind = *p < 0x80 ? ASCII_KIND[*p] : -1;
        if (kind >= 0)
            p++;
        else
            kind = kind_of(ft_utf8_next(&p));
        if (kind == WORD || (kind == WHITE && how == FT_SPLIT_PUNCTUATION) ||
            (kind == PUNCTUATION && how == FT_SPLIT_WHITE))
            continue;
        if (here > start)
            FT_TRY(step(e, index + 1, (const char *)start, (size_t)(here - start), first && start == begin));
        if (kind == PUNCTUATION)
            FT_TRY(step(e, index + 1, (const char *)here, (size_t)(p - here), first && here == begin));
        start = p;
    }
    if (p == end && end > start)
        FT_TRY(step(e, index + 1, (const char *)start, (size_t)(end - start), first && start == begin));
    return FT_OK;
}

// From here on words are of the copy, whose first byte is that of `text` and `shift`.
static void look_at_copy(ft_encoder *e, const char *text, int shift) {
    if (e->spans == NULL) return;
    e->spans->origin_at += text - e->spans->origin + shift;
    e->spans->origin = e->prefixed.data;
}

static ft_status byte_level(ft_encoder *e, const ft_split *split, const char *text, size_t length) {
    if (split->prefix == FT_PREFIX_ALWAYS && text[0] != ' ') {
        e->prefixed.count = 0;
        FT_TRY(put(&e->prefixed, " ", 1));
        FT_TRY(put(&e->prefixed, text, length));
        look_at_copy(e, text, -1);
        text = e->prefixed.data, length = e->prefixed.count;
    }
    if (!split->divide) return byte_pairs_word(e, text, length);
    for (size_t at = 0, n; at < length && e->out->count < e->limit; at += n) {
        n = ft_byte_level_word(text + at, length - at);
        FT_TRY(byte_pairs_word(e, text + at, n));
    }
    return FT_OK;
}

static ft_status by_pattern(ft_encoder *e, size_t index, const char *text, size_t length, bool first) {
    for (size_t at = 0, n; at < length && e->out->count < e->limit; at += n) {
        n = ft_llama_word(text + at, length - at, e->t->splits[index].digits);
        FT_TRY(step(e, index + 1, text + at, n, first && at == 0));
    }
    return FT_OK;
}

static const char *find_text(const char *text, size_t length, const char *what, size_t bytes) {
    for (const char *p = text, *end = text + length; (p = memchr(p, what[0], (size_t)(end - p))) != NULL; p++)
        if ((size_t)(end - p) < bytes) return NULL;
        else if (memcmp(p, what, bytes) == 0) return p;
    return NULL;
}

// A text by itself, or with the piece before it or behind it; a second one that follows at once is a piece of its own.
static ft_status by_text(ft_encoder *e, size_t index, const char *text, size_t length, bool first) {
    const ft_split *split = &e->t->splits[index];
    const size_t bytes = strlen(split->text);
    size_t start = 0;
    for (size_t at = 0; at <= length && e->out->count < e->limit;) { // pieces begin at `start`; looked for from `at`
        const char *found = at < length ? find_text(text + at, length - at, split->text, bytes) : NULL;
        const size_t from = found != NULL ? (size_t)(found - text) : length, to = found != NULL ? from + bytes : length;
        const bool touches = found != NULL && from > at;
        const size_t end = touches && split->behavior == FT_SPLIT_WITH_PREVIOUS ? to : from;
        if (end > start) FT_TRY(step(e, index + 1, text + start, end - start, first && start == 0));
        if (found == NULL) return FT_OK;
        start = split->behavior == FT_SPLIT_REMOVED ? to : end;
        at = to;
        const bool next = split->behavior == FT_SPLIT_WITH_NEXT && to < length && !(length - to >= bytes && memcmp(text + to, split->text, bytes) == 0);
        if (next || start == to) continue;
        FT_TRY(step(e, index + 1, text + start, to - start, first && start == 0));
        start = to;
    }
    return FT_OK;
}

// A word of a model of characters, in the pieces that it may be cut into.
static ft_status characters(ft_encoder *e, const char *text, size_t length) {
    for (size_t at = 0, n; at < length && e->out->count < e->limit; at += n) {
        n = ft_marked_word(&e->t->byte_pairs, text + at, length - at);
        FT_TRY(byte_pairs_word(e, text + at, n));
    }
    return FT_OK;
}

static inline size_t space_at(const char *text, size_t left) {
    if (text[0] == ' ') return 1;
    return text[0] == FT_SPACE_MARK[0] && left >= 3 && memcmp(text, FT_SPACE_MARK, 3) == 0 ? 3 : 0;
}

// A piece as one word: its spaces stay inside.
static ft_status undivided(ft_encoder *e, bool space, const char *text, size_t length) {
    e->prefixed.count = 0;
    FT_TRY(ft_text_reserve(&e->prefixed, length));
    for (size_t i = 0, n; i < length; i += n) {
        n = space_at(text + i, length - i);
        e->prefixed.data[e->prefixed.count++] = n > 0 ? ' ' : text[i];
        if (n == 0) n = 1;
    }
    look_at_copy(e, text, 0);
    return unigram_word(e, space, space, e->prefixed.data, e->prefixed.count);
}

static ft_status metaspace(ft_encoder *e, const ft_split *split, const char *text, size_t length, bool first) {
    bool prefix = split->prefix == FT_PREFIX_ALWAYS || (split->prefix == FT_PREFIX_FIRST && first);
    size_t at = space_at(text, length);
    bool space = at > 0 || prefix;
    if (!split->divide) return undivided(e, space && at == 0, text, length);
    while (e->out->count < e->limit) { // text[at] is behind the word's space
        size_t end = at, next = 0;
        while (end < length && (next = space_at(text + end, length - end)) == 0)
            end++;
        FT_TRY(unigram_word(e, space, space && at == 0, text + at, end - at));
        if (end == length) break;
        at = end + next, space = true;
    }
    return FT_OK;
}

// For a model of characters: spaces are U+2581 there, not a flag of the word.
static ft_status marked(ft_encoder *e, const ft_split *split, const char *text, size_t length, bool first) {
    const bool prefix = split->prefix == FT_PREFIX_ALWAYS || (split->prefix == FT_PREFIX_FIRST && first);
    e->prefixed.count = 0;
    if (prefix && space_at(text, length) == 0) FT_TRY(put(&e->prefixed, FT_SPACE_MARK, 3));
    for (size_t at = 0, end; at < length; at = end + (end < length)) {
        const char *space = memchr(text + at, ' ', length - at);
        end = space != NULL ? (size_t)(space - text) : length;
        FT_TRY(put(&e->prefixed, text + at, end - at));
        if (space != NULL) FT_TRY(put(&e->prefixed, FT_SPACE_MARK, 3));
    }
    if (e->spans != NULL) e->spans->origin = e->prefixed.data, e->spans->origin_at = 0;
    if (!split->divide) return characters(e, e->prefixed.data, e->prefixed.count);
    const char *words = e->prefixed.data;
    for (size_t at = 0, end, count = e->prefixed.count; at < count && e->out->count < e->limit; at = end) {
        const char *next = find_text(words + at + 1, count - at - 1, FT_SPACE_MARK, 3);
        end = next != NULL ? (size_t)(next - words) : count;
        FT_TRY(characters(e, words + at, end - at));
    }
    return FT_OK;
}

// Moves on to byte `to` of what `text` became, each space being three bytes there; *at: of the text.
static void walk_to(const char *text, size_t length, int32_t to, size_t *copied, size_t *at) {
    while (*copied < (size_t)to && *at < length) *copied += text[(*at)++] == ' ' ? 3 : 1;
}

// Where tokens stand is known of the text with marks in it.
static ft_status marked_spaces(ft_encoder *e, const ft_split *split, const char *text, size_t length, bool first) {
    ft_form_spans *s = e->spans;
    if (s == NULL) return marked(e, split, text, length, first);
    const int64_t base = s->origin_at + (text - s->origin);
    const size_t from = s->begin.count;
    FT_TRY(marked(e, split, text, length, first));
    size_t made = 0, at = 0;
    for (size_t i = 0; i < length; i++) made += text[i] == ' ' ? 3 : 1;
    size_t copied = e->prefixed.count - made; // the mark that was put in front
    for (size_t i = from; i < s->begin.count; i++) {
        walk_to(text, length, s->begin.ids[i], &copied, &at);
        size_t end_copied = copied, end = at;
        walk_to(text, length, s->end.ids[i], &end_copied, &end);
        s->begin.ids[i] = (int32_t)(base + (int64_t)at);
        s->end.ids[i] = (int32_t)(base + (int64_t)end);
    }
    return FT_OK;
}

// text is not empty.
static ft_status step(ft_encoder *e, size_t index, const char *text, size_t length, bool first) {
    const ft_tokenizer *t = e->t;
    const ft_split *split = &t->splits[index];
    if (index == t->split_count) {
        const size_t from = e->out->count;
        if (t->kind == FT_MODEL_BYTE_PAIRS) return characters(e, text, length);
        FT_TRY(word_pieces(t, text, length, e->out));
        return note_word(e, text, length, from);
    }
    if (split->kind == FT_SPLIT_LLAMA) return by_pattern(e, index, text, length, first);
    if (split->kind == FT_SPLIT_TEXT) return by_text(e, index, text, length, first);
    if (split->kind != FT_SPLIT_BYTE_LEVEL && split->kind != FT_SPLIT_METASPACE) return by_kind(e, index, text, length, first);
    const char *origin = e->spans != NULL ? e->spans->origin : NULL;
    const int64_t origin_at = e->spans != NULL ? e->spans->origin_at : 0;
    if (split->kind == FT_SPLIT_BYTE_LEVEL) FT_TRY(byte_level(e, split, text, length));
    else FT_TRY((t->kind == FT_MODEL_BYTE_PAIRS ? marked_spaces : metaspace)(e, split, text, length, first));
    if (e->spans != NULL) e->spans->origin = origin, e->spans->origin_at = origin_at; // they may have looked at a copy
    return FT_OK;
}

ft_status ft_encode_piece(ft_encoder *e, const char *text, size_t length, bool first) {
    return length > 0 && e->out->count < e->limit ? step(e, 0, text, length, first) : FT_OK;
}
