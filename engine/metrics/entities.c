#include "engine/metrics/entities.h"

#include "base/arena.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

// ---- tags ---------------------------------------------------------------------------------------------------------

// Bytes of the first character.
static size_t first_character(const char *name) {
    size_t n = 1;
    while (((unsigned char)name[n] & 0xC0) == 0x80) n++;
    return n;
}

static uint32_t letter_of(const char *name) {
    uint32_t letter = 0;
    for (size_t i = 0, n = first_character(name); i < n && i < 4; i++) letter = letter << 8 | (unsigned char)name[i];
    return letter; // of ASCII the character itself, of others a number of its own
}

// Behind the letter up to a "-", which is left out, and what is before it too; "_" where that leaves nothing.
static const char *lenient_type(const char *name) {
    const char *rest = name + first_character(name), *dash = strchr(rest, '-'), *type = dash != NULL ? dash + 1 : rest;
    return *type != '\0' ? type : "_";
}

// Without the "-" at both ends, put into `out`.
static const char *strict_type(const char *name, char *out) {
    const char *begin = name + first_character(name);
    begin += strspn(begin, "-");
    size_t length = strlen(begin);
    while (length > 0 && begin[length - 1] == '-') length--;
    memcpy(out, begin, length);
    out[length] = '\0';
    return length > 0 ? out : "_";
}

static ft_tag_scheme scheme_of(const ft_tag_set *set) {
    enum { B = 1, I = 2, O = 4, E = 8, S = 16, L = 32, U = 64 };
    unsigned letters = 0;
    for (int k = 0; k < set->count; k++) {
        const char *at = set->tag[k].letter < 128 ? strchr("BIOESLU", (int)set->tag[k].letter) : NULL;
        if (at == NULL) return FT_SCHEME_OTHER;
        letters |= 1u << (at - "BIOESLU");
    }
    const bool begins = letters & B, bilou = letters & (L | U), iobes = letters & (E | S);
    if (bilou && iobes) return FT_SCHEME_OTHER;
    if (!bilou && !iobes) return begins ? FT_SCHEME_IOB2 : FT_SCHEME_OTHER;
    if (iobes && !begins && (letters & S) == 0) return FT_SCHEME_IOE2;
    // A single entity alone, or what begins and what ends.
    if (letters == S || letters == U) return FT_SCHEME_IOBES;
    return begins ? FT_SCHEME_IOBES : FT_SCHEME_OTHER;
}

typedef struct named_type {
    const char *name;
    bool outside; // only of tags with the letter O
} named_type;

static int compare_types(const void *a, const void *b) {
    const named_type *x = a, *y = b;
    if (x->outside != y->outside) return x->outside - y->outside;
    return strcmp(x->name, y->name);
}

static int find_type(const ft_tag_set *set, const char *name) {
    for (int k = 0; k < set->type_count; k++)
        if (strcmp(set->types[k], name) == 0) return k;
    return -1;
}

// Each name once; one that some entity has is no outside one.
static int add_type(named_type *list, int count, const char *name, bool outside) {
    for (int k = 0; k < count; k++) {
        if (strcmp(list[k].name, name) != 0) continue;
        list[k].outside = list[k].outside && outside;
        return count;
    }
    list[count] = (named_type){name, outside};
    return count + 1;
}

static void list_types(const char *const *names, named_type *list, ft_tag_set *set) {
    char *strict = set->storage;
    for (int k = 0; k < set->count; k++) {
        const bool outside = names[k][0] == 'O';
        const size_t length = strlen(names[k]) + 1;
        memcpy(strict, names[k], length);
        set->type_count = add_type(list, set->type_count, lenient_type(strict), outside);
        set->type_count = add_type(list, set->type_count, strict_type(names[k], strict + length), outside);
        strict += 2 * length;
    }
    qsort(list, (size_t)set->type_count, sizeof *list, compare_types);
    for (int k = 0; k < set->type_count; k++) {
        set->types[k] = list[k].name;
        set->entity_types += !list[k].outside;
    }
}

ft_status ft_tag_set_open(const char *const *names, int count, ft_tag_set *set) {
    size_t bytes = 1;
    for (int k = 0; k < count; k++) bytes += 2 * (strlen(names[k]) + 1);
    *set = (ft_tag_set){.count = count,
                        .tag = ft_calloc((size_t)count, sizeof *set->tag, "tags"),
                        .types = ft_calloc(2 * (size_t)count, sizeof *set->types, "tags"),
                        .storage = ft_calloc(bytes, 1, "tags")};
    named_type *list = ft_calloc(2 * (size_t)count, sizeof *list, "tags");
    char *strict = ft_calloc(bytes, 1, "tags");
    const bool there = set->tag && set->types && set->storage && list && strict;
    if (there) list_types(names, list, set);
    for (int k = 0; there && k < count; k++)
        set->tag[k] = (ft_tag){.letter = letter_of(names[k]),
                               .type = find_type(set, lenient_type(names[k])),
                               .strict_type = find_type(set, strict_type(names[k], strict))};
    if (there) set->scheme = scheme_of(set);
    free(list);
    free(strict);
    if (there) return FT_OK;
    ft_tag_set_close(set);
    return FT_NO_MEMORY;
}

void ft_tag_set_close(ft_tag_set *set) {
    free(set->tag);
    free(set->types);
    free(set->storage);
    *set = (ft_tag_set){0};
}

int32_t ft_tag_inside(const ft_tag_set *set, int32_t tag) {
    const ft_tag *from = &set->tag[tag];
    for (int32_t k = 0; from->letter == 'B' && k < set->count; k++)
        if (set->tag[k].letter == 'I' && set->tag[k].type == from->type) return k;
    return tag;
}

// ---- the lenient reading --------------------------------------------------------------------------------------------

static bool is(uint32_t letter, const char *letters) { return letter != 0 && letter < 128 && strchr(letters, (int)letter) != NULL; }

// Is the entity that `prev` belongs to over?
static bool lenient_end(ft_tag prev, ft_tag tag) {
    if (is(prev.letter, "ES")) return true;
    if (is(prev.letter, "BI") && is(tag.letter, "BSO")) return true;
    return !is(prev.letter, "O.") && prev.type != tag.type;
}

static bool lenient_start(ft_tag prev, ft_tag tag) {
    if (is(tag.letter, "BS")) return true;
    if (is(prev.letter, "ESO") && is(tag.letter, "EI")) return true;
    return !is(tag.letter, "O.") && prev.type != tag.type;
}

static int64_t lenient(const ft_tag_set *set, const int32_t *tags, int64_t count, ft_entity *found) {
    // In front of the first word the type is none, behind the last one that of a plain O.
    enum { NONE = -1, PLAIN = -2 };
    int32_t plain = PLAIN;
    for (int k = 0; k < set->type_count; k++)
        if (strcmp(set->types[k], "_") == 0) plain = k;
    ft_tag prev = {.letter = 'O', .type = NONE};
    int64_t entities = 0, begin = 0;
    for (int64_t i = 0; i <= count; i++) {
        const ft_tag tag = i < count ? set->tag[tags[i]] : (ft_tag){.letter = 'O', .type = plain};
        if (lenient_end(prev, tag)) found[entities++] = (ft_entity){(int32_t)begin, (int32_t)(i - 1), prev.type};
        if (lenient_start(prev, tag)) begin = i;
        prev = tag;
    }
    return entities;
}

// ---- the strict reading ---------------------------------------------------------------------------------------------

static ft_tag strictly(const ft_tag_set *set, const int32_t *tags, int64_t count, int64_t i) {
    if (i < 0 || i >= count) return (ft_tag){.letter = 'O', .strict_type = -1};
    ft_tag tag = set->tag[tags[i]];
    if (tag.letter == 'L') tag.letter = 'E';
    if (tag.letter == 'U') tag.letter = 'S';
    return tag;
}

static bool strict_start(ft_tag_scheme scheme, ft_tag prev, ft_tag tag) {
    if (scheme == FT_SCHEME_IOB2) return tag.letter == 'B';
    if (scheme == FT_SCHEME_IOBES) return is(tag.letter, "BS");
    return is(tag.letter, "IE") && (is(prev.letter, "OE") || prev.strict_type != tag.strict_type);
}

static bool strict_inside(ft_tag_scheme scheme, ft_tag prev, ft_tag tag) {
    if (prev.strict_type != tag.strict_type) return false;
    if (scheme == FT_SCHEME_IOB2) return is(prev.letter, "BI") && tag.letter == 'I';
    return is(prev.letter, scheme == FT_SCHEME_IOBES ? "BI" : "I") && is(tag.letter, "IE");
}

static bool strict_end(ft_tag_scheme scheme, ft_tag last) {
    return scheme == FT_SCHEME_IOB2 || is(last.letter, scheme == FT_SCHEME_IOBES ? "ES" : "E");
}

static int64_t strict(const ft_tag_set *set, const int32_t *tags, int64_t count, ft_entity *found) {
    int64_t entities = 0;
    for (int64_t i = 0; i < count;) {
        const ft_tag tag = strictly(set, tags, count, i);
        if (!strict_start(set->scheme, strictly(set, tags, count, i - 1), tag)) {
            i++;
            continue;
        }
        int64_t end = i + 1;
        while (end < count && strict_inside(set->scheme, strictly(set, tags, count, end - 1), strictly(set, tags, count, end))) end++;
        if (strict_end(set->scheme, strictly(set, tags, count, end - 1)))
            found[entities++] = (ft_entity){(int32_t)i, (int32_t)(end - 1), tag.strict_type};
        i = end;
    }
    return entities;
}

int64_t ft_entities(const ft_tag_set *set, bool strictly_read, const int32_t *tags, int64_t count, ft_entity *found) {
    return (strictly_read ? strict : lenient)(set, tags, count, found);
}
