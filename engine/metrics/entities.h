// entities.h - from the tags of a text's words to the entities that they spell, as seqeval reads them.
//
// A tag is a letter (B, I, E, S, O, ...) and a type behind it: B-PER. Two readings of a sequence of tags:
//   lenient   seqeval's default, which is that of conlleval.pl: whatever could be an entity is one, an I- without a B- too
//   strict    only what the scheme allows: of IOB2 a B- and the I- of its type behind it, of IOE2, IOBES and BILOU what ends as it should
#ifndef FT_ENTITIES_H
#define FT_ENTITIES_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// Which scheme the letters of all tags are of; OTHER: none that a strict reading is known of.
typedef enum ft_tag_scheme { FT_SCHEME_OTHER = 0, FT_SCHEME_IOB2, FT_SCHEME_IOE2, FT_SCHEME_IOBES } ft_tag_scheme; // IOBES: and BILOU

typedef struct ft_tag {
    uint32_t letter;           // the first character; strictly read, L and U are E and S
    int32_t type, strict_type; // index into types
} ft_tag;

typedef struct ft_tag_set {
    int count;
    ft_tag *tag;         // [count]
    const char **types;  // [type_count] sorted by bytes; those that only tags with the letter O have stand behind the others
    int type_count, entity_types;
    ft_tag_scheme scheme;
    char *storage;
} ft_tag_set;

// names [count], not empty.
ft_status ft_tag_set_open(const char *const *names, int count, ft_tag_set *set);
void ft_tag_set_close(ft_tag_set *set); // {0} is fine

// Words [first, last] of a text.
typedef struct ft_entity {
    int32_t first, last, type;
} ft_entity;

// The entities of tags [count], ids below set->count, by where they end; how many. found: room for count + 1. strict: with a scheme that
// is known.
int64_t ft_entities(const ft_tag_set *set, bool strict, const int32_t *tags, int64_t count, ft_entity *found);

// The tag of a word's further tokens: I-X behind B-X where there is one, else the same (label_all_tokens in the example scripts of
// transformers).
int32_t ft_tag_inside(const ft_tag_set *set, int32_t tag);

#endif
