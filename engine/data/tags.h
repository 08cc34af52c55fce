// tags.h - a tag for every word of a text.
//
// In a file a text has, beside its words (engine/text/words.h),
//   a list of tags    one for each word: "B-PER", "O", ... An empty one, "_" and "-100" are none: nothing is learned of that word
//   a list of spans   of characters: [0, 5, "PER"], or objects with start, end and label; also none. Each word that lies in a span, in part
//                     at least, is tagged: the first one B-PER, the others I-PER; all that lie in none O
// which the whole table has alike.
#ifndef FT_TAGS_H
#define FT_TAGS_H

#include "engine/data/labels.h"
#include "engine/text/words.h"

// The tags of a table and of another one (NULL: none), in the arena: names sorted by bytes, numbers by value (labels.h); of spans O and, of
// every label, B- and I-.
ft_status ft_tags_labels(const ft_table *table, const ft_table *other, const char *path, ft_arena *arena, ft_labels *labels);

// The tags of a row's words: tag [words->count], -1: it has none. FT_INVALID with file:line and the nearest tag for an unknown one,
// for other than one tag a word, and for spans that share a word, hold none or end behind the text.
ft_status ft_tags_of_row(const ft_labels *labels, const ft_table *table, const char *path, int64_t row, const ft_word_list *words, int32_t *tag);

#endif
