#include "engine/metrics/squad_text.h"

#include "base/arena.h"
#include "base/utf8.h"
#include "engine/text/unicode/text_classes.h"
#include "engine/text/unicode/unicode.h"

#include <stdlib.h>
#include <string.h>

static bool is_punctuation(uint32_t c) { return c < 0x80 && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)c) != NULL && c != 0; }
static bool is_space(uint32_t c) { return (c >= 0x1C && c <= 0x1F) || ft_char_pattern(c) == FT_PATTERN_SPACE; }
static bool is_word(uint32_t c) { return ft_char_pattern(c) == FT_PATTERN_LETTER || ft_char_pattern(c) == FT_PATTERN_NUMBER; }
static bool is_ignored(uint32_t c) { return ft_char_is_mark(c) || c == '\'' || c == '.' || c == ':' || c == 0xAD || c == 0xB7 || c == 0x2019; }

// Is there a letter next to text[at], what has no say in it left out? way: -1 in front of `at`, 1 from `at` on.
static bool letter_beside(const char *text, size_t length, size_t at, int way) {
    for (;;) {
        const unsigned char *p = (const unsigned char *)text + at;
        if (way > 0 ? at >= length : at == 0) return false;
        if (way < 0)
            do at--;
            while (((unsigned char)text[at] & 0xC0) == 0x80);
        p = (const unsigned char *)text + at;
        const uint32_t c = ft_utf8_next(&p);
        if (way > 0) at = (size_t)(p - (const unsigned char *)text);
        if (!is_ignored(c)) return ft_char_pattern(c) == FT_PATTERN_LETTER;
    }
}

static ft_status reserve(ft_squad_text *out, size_t bytes) {
    if (bytes <= out->capacity) return FT_OK;
    char *grown = ft_realloc(out->text, 2 * bytes + 64, 1, "an answer");
    if (grown == NULL) return FT_NO_MEMORY;
    out->text = grown;
    out->capacity = 2 * bytes + 64;
    return FT_OK;
}

// Small letters without punctuation.
static ft_status lower(const char *text, size_t length, ft_squad_text *out) {
    const unsigned char *p = (const unsigned char *)text, *end = p + length;
    FT_TRY(reserve(out, 4 * length + 8)); // one character becomes two at most
    out->length = 0;
    while (p < end) {
        const size_t at = (size_t)(p - (const unsigned char *)text);
        uint32_t c = ft_utf8_next(&p), parts[2] = {c, 0};
        int count = 1;
        if (c == 0x3A3) {
            const size_t behind = (size_t)(p - (const unsigned char *)text);
            parts[0] = letter_beside(text, length, at, -1) && !letter_beside(text, length, behind, 1) ? 0x3C2 : 0x3C3; // the last letter of a word
        } else {
            count = ft_char_lower(c, parts);
        }
        for (int i = 0; i < count; i++)
            if (!is_punctuation(parts[i])) out->length += ft_utf8_put(parts[i], out->text + out->length);
    }
    return FT_OK;
}

static size_t article(const char *text, size_t left) {
    static const char *const articles[] = {"a", "an", "the"};
    for (size_t i = 0; i < 3; i++) {
        const size_t n = strlen(articles[i]);
        if (n > left || memcmp(text, articles[i], n) != 0) continue;
        const unsigned char *p = (const unsigned char *)text + n;
        if (n == left || !is_word(ft_utf8_next(&p))) return n;
    }
    return 0;
}

// Articles become a space, in place.
static void drop_articles(ft_squad_text *t) {
    bool inside = false; // of a word
    for (size_t at = 0; at < t->length;) {
        const unsigned char *p = (const unsigned char *)t->text + at;
        const size_t n = inside ? 0 : article(t->text + at, t->length - at);
        if (n > 0) {
            memset(t->text + at, ' ', n);
            at += n;
            continue;
        }
        inside = is_word(ft_utf8_next(&p));
        at = (size_t)(p - (const unsigned char *)t->text);
    }
}

static ft_status add_word(ft_squad_text *t, size_t begin, size_t end) {
    if (t->words == t->word_capacity) {
        ft_squad_word *grown = ft_realloc(t->word, 2 * t->words + 16, sizeof *grown, "words of an answer");
        if (grown == NULL) return FT_NO_MEMORY;
        t->word = grown;
        t->word_capacity = 2 * t->words + 16;
    }
    t->word[t->words++] = (ft_squad_word){t->text + begin, end - begin};
    return FT_OK;
}

static int by_text(const void *a, const void *b) {
    const ft_squad_word *x = a, *y = b;
    const int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

// One space between words, in place.
static ft_status split(ft_squad_text *t) {
    size_t to = 0, begin = 0;
    bool in_word = false;
    t->words = 0;
    for (size_t at = 0, n; at < t->length; at += n) {
        const unsigned char *p = (const unsigned char *)t->text + at;
        const bool space = is_space(ft_utf8_next(&p));
        n = (size_t)(p - (const unsigned char *)t->text) - at;
        if (space) {
            if (in_word) FT_TRY(add_word(t, begin, to));
        } else {
            if (!in_word) {
                if (to > 0) t->text[to++] = ' ';
                begin = to;
            }
            memmove(t->text + to, t->text + at, n);
            to += n;
        }
        in_word = !space;
    }
    if (in_word) FT_TRY(add_word(t, begin, to));
    t->length = to;
    if (t->words > 0) qsort(t->word, t->words, sizeof *t->word, by_text);
    return FT_OK;
}

ft_status ft_squad_plain(const char *text, size_t length, ft_squad_text *out) {
    FT_TRY(lower(text, length, out));
    drop_articles(out);
    return split(out);
}

void ft_squad_text_free(ft_squad_text *t) {
    free(t->text);
    free(t->word);
    *t = (ft_squad_text){.text = NULL};
}

bool ft_squad_equal(const ft_squad_text *a, const ft_squad_text *b) {
    return a->length == b->length && (a->length == 0 || memcmp(a->text, b->text, a->length) == 0);
}

double ft_squad_f1(const ft_squad_text *said, const ft_squad_text *truth, bool version_2) {
    size_t same = 0;
    if (version_2 && (said->words == 0 || truth->words == 0)) return said->words == truth->words;
    for (size_t i = 0, k = 0; i < said->words && k < truth->words;) {
        const int order = by_text(&said->word[i], &truth->word[k]);
        same += order == 0;
        i += order <= 0;
        k += order >= 0;
    }
    if (same == 0) return 0;
    const double precision = (double)same / (double)said->words, recall = (double)same / (double)truth->words;
    return 2 * precision * recall / (precision + recall);
}
