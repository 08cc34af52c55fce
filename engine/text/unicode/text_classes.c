#include "engine/text/unicode/text_classes.h"

#include "base/utf8.h"
#include "engine/text/unicode/unicode.h"

#include "engine/text/unicode/text_tables.inc"

enum {
    OTHER,
    CR,
    LF,
    CONTROL,
    EXTEND,
    EXTEND_INDIC,
    LINKER,
    ZWJ,
    SPACING,
    PREPEND,
    L,
    V,
    T,
    LV,
    LVT,
    REGIONAL,
    PICTOGRAPH,
    CONSONANT,
    CLASSES
};
_Static_assert((int)CLASSES == (int)TEXT_GRAPHEME_CLASSES, "the tables know other grapheme classes");

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

static unsigned classes(uint32_t code) {
    return text_classes[text_pages[code / TEXT_BLOCK] * TEXT_BLOCK + code % TEXT_BLOCK];
}

int ft_char_pattern(uint32_t code) { return (int)(classes(code) >> 5 & 3); }
bool ft_char_is_mark(uint32_t code) { return classes(code) >> 7 != 0; }

// ---- grapheme clusters ---------------------------------------------------------------------------------------------
typedef struct cluster {
    int last;       // class of the last character
    int pictograph; // 1: a pictograph and extensions; 2: and a joiner behind them
    int indic;      // 1: a consonant and extensions; 2: a linker among them
    int flags;      // regional indicators at the end, modulo 2
} cluster;

static void extend(cluster *c, int class) {
    bool extension = class == EXTEND || class == EXTEND_INDIC || class == LINKER;
    c->pictograph = class == PICTOGRAPH ? 1
                    : class == ZWJ      ? 2 * (c->pictograph == 1)
                    : extension         ? c->pictograph % 2
                                        : 0;
    if (class == CONSONANT)
        c->indic = 1;
    else if (class == LINKER)
        c->indic = c->indic > 0 ? 2 : 0;
    else if (class != EXTEND_INDIC && class != ZWJ)
        c->indic = 0;
    c->flags = class == REGIONAL ? !c->flags : 0;
    c->last = class;
}

static bool joins(const cluster *c, int class) {
    int last = c->last;
    if (last == CR) return class == LF;
    if (last == LF || last == CONTROL || class == CR || class == LF || class == CONTROL) return false;
    if (class == EXTEND || class == EXTEND_INDIC || class == LINKER || class == ZWJ || class == SPACING) return true;
    if (last == PREPEND) return true;
    switch (class) {
    case L:
    case LV:
    case LVT: return last == L;
    case V: return last == L || last == V || last == LV;
    case T: return last == V || last == T || last == LV || last == LVT;
    case REGIONAL: return last == REGIONAL && c->flags;
    case PICTOGRAPH: return c->pictograph == 2;
    case CONSONANT: return c->indic == 2;
    default: return false;
    }
}

size_t ft_grapheme(const char *text, size_t length) {
    const unsigned char *start = (const unsigned char *)text, *end = start + length, *p = start;
    cluster c = {0};
    extend(&c, (int)(classes(ft_utf8_next(&p)) & 31));
    while (p < end) {
        const unsigned char *next = p;
        int class = (int)(classes(ft_utf8_next(&next)) & 31);
        if (!joins(&c, class)) break;
        extend(&c, class);
        p = next;
    }
    return (size_t)(p - start);
}

// ---- normal forms --------------------------------------------------------------------------------------------------
int ft_char_decompose_compatible(uint32_t code, uint32_t parts[FT_MOST_PARTS]) {
    size_t low = 0, high = COUNT(text_decompositions);
    while (low < high) {
        size_t middle = (low + high) / 2;
        const text_decomposition *d = &text_decompositions[middle];
        if (d->code == code) {
            for (int i = 0; i < d->length; i++)
                parts[i] = text_parts[d->start + i];
            return d->length;
        }
        if (d->code < code)
            low = middle + 1;
        else
            high = middle;
    }
    return ft_char_decompose(code, parts);
}

uint32_t ft_char_compose(uint32_t first, uint32_t second) {
    if (first >= 0x1100 && first < 0x1113 && second >= 0x1161 && second < 0x1176) // Hangul by arithmetic
        return 0xAC00 + ((first - 0x1100) * 21 + (second - 0x1161)) * 28;
    if (first >= 0xAC00 && first <= 0xD7A3 && (first - 0xAC00) % 28 == 0 && second > 0x11A7 && second < 0x11C3)
        return first + (second - 0x11A7);
    size_t low = 0, high = COUNT(text_compositions);
    while (low < high) {
        size_t middle = (low + high) / 2;
        const text_composition *c = &text_compositions[middle];
        if (c->first == first && c->second == second) return c->code;
        if (c->first < first || (c->first == first && c->second < second))
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}
