#include "engine/text/words.h"

#include "base/arena.h"
#include "base/utf8.h"
#include "engine/text/tokenizer_parts.h"
#include "engine/text/unicode/text_classes.h"
#include "engine/text/unicode/unicode.h"

#include <stdlib.h>
#include <string.h>

// ---- words ----------------------------------------------------------------------------------------------------------

static ft_status add(ft_word_list *words, ft_word word) {
    if (words->count == words->capacity) {
        const size_t capacity = words->capacity + words->capacity / 2 + 64;
        ft_word *grown = ft_realloc(words->word, capacity, sizeof *grown, "the words of a text");
        if (grown == NULL) return FT_NO_MEMORY;
        words->word = grown;
        words->capacity = capacity;
    }
    words->word[words->count++] = word;
    return FT_OK;
}

// The character at `at`, and how many bytes it has; U+FFFD of one byte where it is ill-formed.
static uint32_t character(const char *text, size_t length, size_t at, size_t *bytes) {
    const unsigned char *p = (const unsigned char *)text + at, *next = p;
    const size_t lead = *p < 0x80 ? 1 : *p < 0xE0 ? 2 : *p < 0xF0 ? 3 : 4;
    *bytes = 1;
    if (*p < 0x80) return *p;
    if (lead > length - at || ft_utf8_valid_prefix(text + at, lead) != lead) return 0xFFFD;
    *bytes = lead;
    return ft_utf8_next(&next);
}

static ft_status members(const char *text, size_t length, ft_word_list *words) {
    int64_t characters = 0;
    ft_word word = {0};
    for (size_t at = 0, bytes; at < length; at += bytes) {
        (void)character(text, length, at, &bytes);
        if (text[at] == FT_WORD_END) {
            word.end = at;
            word.last = characters;
            FT_TRY(add(words, word));
            word = (ft_word){.begin = at + 1, .first = characters + 1};
        }
        characters++;
    }
    return FT_OK;
}

typedef enum kind { SPACE, LETTERS, ALONE } kind;

static kind kind_of(uint32_t code) {
    if (code == 0 || code == 0xFFFD) return ALONE;
    if (ft_char_pattern(code) == FT_PATTERN_SPACE) return SPACE;
    if (ft_char_flags(code) & FT_CHAR_CJK) return ALONE;
    return ft_char_pattern(code) != FT_PATTERN_OTHER || ft_char_is_word(code) ? LETTERS : ALONE; // a mark is of no pattern
}

static ft_status plain_text(const char *text, size_t length, ft_word_list *words) {
    int64_t characters = 0;
    kind before = SPACE;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        const kind now = kind_of(character(text, length, at, &bytes));
        if (now == ALONE || (now == LETTERS && before != LETTERS)) FT_TRY(add(words, (ft_word){.begin = at, .first = characters}));
        characters++;
        if (now != SPACE) words->word[words->count - 1].end = at + bytes, words->word[words->count - 1].last = characters;
        before = now;
    }
    return FT_OK;
}

ft_status ft_words_find(const char *text, size_t length, ft_word_list *words) {
    words->count = 0;
    return (ft_text_is_words(text, length) ? members : plain_text)(text, length, words);
}

// ---- tokens ---------------------------------------------------------------------------------------------------------

static ft_status push(ft_token_ids *list, int32_t value) {
    FT_TRY(ft_token_ids_reserve(list, 1));
    list->ids[list->count++] = value;
    return FT_OK;
}

// Special tokens stand for themselves, with no space in front.
static bool begins_with_added(const ft_tokenizer *t, const char *word, size_t bytes) {
    ft_added_cursor cursor = {0};
    const ft_added_match m = bytes > 0 ? ft_added_next(&t->raw, word, bytes, &cursor) : (ft_added_match){.id = -1};
    return m.id >= 0 && m.start == m.end;
}

static ft_status encode_word(const ft_tokenizer *t, const char *text, const ft_word *word, int32_t index, ft_word_tokens *out) {
    const size_t bytes = word->end - word->begin;
    if (bytes + 1 > out->room) {
        char *larger = ft_realloc(out->piece, 2 * bytes + 64, 1, "a word");
        if (larger == NULL) return FT_NO_MEMORY;
        out->piece = larger;
        out->room = 2 * bytes + 64;
    }
    out->piece[0] = ' ';
    memcpy(out->piece + 1, text + word->begin, bytes);
    const size_t skip = begins_with_added(t, text + word->begin, bytes);
    FT_TRY(ft_encode_text(t, out->piece + skip, bytes + 1 - skip, SIZE_MAX, &out->content));
    while (out->of.count < out->content.count) FT_TRY(push(&out->of, index));
    return FT_OK;
}

// Tokens [begin, end) of the text stand in the sequence; of those [own, own_end) are read there.
typedef struct piece {
    size_t begin, end;
} piece;
typedef struct sequence {
    piece part[2];
    size_t own, own_end;
    bool every;
} sequence;

static ft_status put_part(const sequence *s, piece part, size_t start, ft_word_tokens *out) {
    for (size_t i = part.begin; i < part.end; i++) {
        const bool first = i == 0 || out->of.ids[i] != out->of.ids[i - 1];
        if (i >= s->own && i < s->own_end && (first || s->every)) {
            FT_TRY(push(&out->position, (int32_t)(out->ids.count - start)));
            FT_TRY(push(&out->word, out->of.ids[i]));
        }
        FT_TRY(push(&out->ids, out->content.ids[i]));
    }
    return FT_OK;
}

static ft_status put_sequence(const ft_template *frame, const sequence *s, ft_word_tokens *out) {
    const size_t start = out->ids.count, reads = out->position.count;
    for (size_t i = 0; i < frame->count; i++) {
        if (frame->items[i].id >= 0) {
            FT_TRY(push(&out->ids, frame->items[i].id));
            continue;
        }
        for (int k = 0; k < 2; k++) FT_TRY(put_part(s, s->part[k], start, out));
    }
    if (out->ids.count - start > INT32_MAX) return ft_fail(FT_INVALID, NULL, "this text has more than %d tokens", INT32_MAX);
    FT_TRY(push(&out->lengths, (int32_t)(out->ids.count - start)));
    return push(&out->reads, (int32_t)(out->position.count - reads));
}

static ft_status put_windows(const ft_template *frame, size_t room, const ft_long_text *rule, bool every, ft_word_tokens *out) {
    const size_t count = out->content.count, overlap = rule->overlap >= 0 ? (size_t)rule->overlap : room / 4;
    if (overlap >= room) return ft_fail(FT_INVALID, "data.truncation", "windows of %zu tokens cannot overlap by %zu", room, overlap);
    const size_t step = room - overlap;
    for (size_t at = 0, end = 0; end < count; at += step) {
        end = count - at > room ? at + room : count;
        // In the middle of what two windows share the one ends and the other begins to be read.
        const sequence s = {.part = {{at, end}, {0, 0}}, .own = at > 0 ? at + overlap / 2 : 0,
                            .own_end = end < count ? at + step + overlap / 2 : count, .every = every};
        FT_TRY(put_sequence(frame, &s, out));
    }
    return FT_OK;
}

ft_status ft_tokenizer_encode_words(const ft_tokenizer *t, const char *text, const ft_word_list *words, int max_length,
                                    const ft_long_text *rule, bool every, ft_word_tokens *out) {
    ft_token_ids *const lists[] = {&out->ids, &out->lengths, &out->reads, &out->position, &out->word, &out->content, &out->of};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) lists[i]->count = 0;
    if (words->count > INT32_MAX) return ft_fail(FT_INVALID, NULL, "a text of more than %d words", INT32_MAX);
    size_t room;
    FT_TRY(ft_encode_room(t, false, max_length, &room));
    for (size_t i = 0; i < words->count; i++) FT_TRY(encode_word(t, text, &words->word[i], (int32_t)i, out));
    const size_t count = out->content.count;
    out->whole = count <= room;
    sequence s = {.part = {{0, count}, {0, 0}}, .own_end = count, .every = every};
    if (out->whole) return put_sequence(&t->single, &s, out);
    if (rule->kind == FT_LONG_WINDOWS) return put_windows(&t->single, room, rule, every, out);
    const size_t head = rule->kind == FT_LONG_HEAD ? room : rule->kind == FT_LONG_TAIL ? 0 : (room + 2) / 4;
    s.part[0] = (piece){0, head};
    s.part[1] = (piece){count - (room - head), count};
    return put_sequence(&t->single, &s, out);
}

void ft_word_tokens_free(ft_word_tokens *tokens) {
    free(tokens->ids.ids);
    free(tokens->lengths.ids);
    free(tokens->reads.ids);
    free(tokens->position.ids);
    free(tokens->word.ids);
    free(tokens->content.ids);
    free(tokens->of.ids);
    free(tokens->piece);
    *tokens = (ft_word_tokens){.piece = NULL};
}
