#include "engine/text/unicode/unicode.h"

#include <stddef.h>

#include "engine/text/unicode/unicode_tables.inc"

_Static_assert((int)UNICODE_RANKS == (int)FT_CHAR_RANKS, "the tables know another number of combining classes");

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

unsigned ft_char_flags(uint32_t code) {
    return unicode_flags[unicode_pages[code / UNICODE_BLOCK] * UNICODE_BLOCK + code % UNICODE_BLOCK];
}

int ft_char_decompose(uint32_t code, uint32_t parts[4]) {
    if (code >= 0xAC00 && code <= 0xD7A3) { // Hangul syllables by arithmetic
        uint32_t s = code - 0xAC00;
        parts[0] = 0x1100 + s / 588, parts[1] = 0x1161 + s % 588 / 28, parts[2] = 0x11A7 + s % 28;
        return s % 28 != 0 ? 3 : 2;
    }
    size_t low = 0, high = COUNT(unicode_decompositions);
    while (low < high) {
        size_t middle = (low + high) / 2;
        const unicode_decomposition *d = &unicode_decompositions[middle];
        if (d->code == code) {
            for (int i = 0; i < d->length; i++)
                parts[i] = unicode_parts[d->start + i];
            return d->length;
        }
        if (d->code < code)
            low = middle + 1;
        else
            high = middle;
    }
    parts[0] = code;
    return 1;
}

int ft_char_lower(uint32_t code, uint32_t parts[2]) {
    size_t low = 0, high = COUNT(unicode_lowers);
    while (low < high) {
        size_t middle = (low + high) / 2;
        const unicode_lower *l = &unicode_lowers[middle];
        if (l->code == code) {
            parts[0] = l->first, parts[1] = l->second;
            return l->second != 0 ? 2 : 1;
        }
        if (l->code < code)
            low = middle + 1;
        else
            high = middle;
    }
    parts[0] = code;
    return 1;
}

static uint32_t find_range(const unicode_range *ranges, size_t count, uint32_t code) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && ranges[low].first <= code ? ranges[low].value : 0;
}

int ft_char_combining_rank(uint32_t code) { return (int)find_range(unicode_combining, COUNT(unicode_combining), code); }
bool ft_char_is_word(uint32_t code) { return find_range(unicode_words, COUNT(unicode_words), code) != 0; }
