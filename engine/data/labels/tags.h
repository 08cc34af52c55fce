// tags.h - a tag for every word of a text.
//
// In a file a text has, beside its words (engine/text/words.h),
//   a list of tags    one for each word: "B-PER", "O", ... An empty one, "_" and "-100" are none: nothing is learned of that word
//   a list of spans   of characters: [0, 5, "PER"], or objects with start, end and label; also none. Each word that lies in a span, in part
//                     at least, is tagged: the first one B-PER, the others I-PER; all that lie in none O
// A table may have both. An empty list is one of spans where its text is plain or its table has spans.
#ifndef FT_TAGS_H
#define FT_TAGS_H

#include "engine/data/labels/labels.h"
#include "engine/text/words.h"

// The tags of a table and of another one (NULL: none), in the arena: names sorted by bytes, numbers by value (labels.h); of spans O and, of
// every label, B- and I-.
ft_status ft_tags_labels(const ft_table *table, const ft_table *other, const char *path, ft_arena *arena, ft_labels *labels);

// A table whose rows are given their tags. The counts grow with every row.
typedef struct ft_tag_source {
    const ft_labels *labels;
    ft_label_index index;
    const ft_table *table;
    const char *path;                  // of the file, for messages
    bool empty_is_spans;
    int64_t spans_read, spans_cutting; // those that were assigned, and those of them that begin or end inside a word
} ft_tag_source;
// Of what outlives it. FT_NO_MEMORY; to be closed then too.
ft_status ft_tags_open(const ft_labels *labels, const ft_table *table, const char *path, ft_tag_source *source);
void ft_tags_close(ft_tag_source *source); // {0} is fine

// The tags of a row's words: tag [words->count], -1: it has none. FT_INVALID with file:line and the nearest tag for an unknown one,
// for one of more than 255 bytes, for other than one tag a word, and for spans that share a word, hold none or end behind the text.
ft_status ft_tags_of_row(ft_tag_source *source, int64_t row, const ft_word_list *words, int32_t *tag);

#endif
