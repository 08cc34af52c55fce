// labels.h - the classes of a task: names and their ids.
#ifndef FT_LABELS_H
#define FT_LABELS_H

#include "engine/data/tables/table.h"

// What a text is given: one class, any number of classes, numbers, a tag for every word (tags.h), answers (answers.h), or nothing: of every token
// the next one.
typedef enum ft_label_kind {
    FT_LABELS_CLASS = 0, FT_LABELS_CLASSES, FT_LABELS_NUMBERS, FT_LABELS_TAGS, FT_LABELS_ANSWERS, FT_LABELS_NEXT_TOKENS
} ft_label_kind;

// The label names of a classification task, in id order: all integers 0..n-1 keep their numbers, other labels are sorted
// (bytes). Whole numbers may be written 1.0. Integers from 0 with gaps also keep their numbers if at least half of
// 0..largest occur: the missing classes exist without an example (a rare class absent from a small training file). `names`
// live in `arena`.
typedef struct ft_labels {
    int count;
    const char **names;
    int missing; // classes without a row in the table; worth a warning
    ft_label_kind kind;    // of CLASSES and NUMBERS see targets.h
    const char *separator; // of several names in one cell
    bool grouped;          // of NUMBERS: relevances from 0 to 1, judged by query (ft_dataset.groups)
} ft_labels;
// The classes of examples that may have several: those of example i are label[first[i] .. first[i + 1]), ascending.
typedef struct ft_label_sets {
    int64_t *first; // [examples + 1]
    int32_t *label;
} ft_label_sets;
ft_status ft_labels_from_table(const ft_table *table, ft_arena *arena, ft_labels *labels);
// The same with the classes that only `other` has (NULL: none): a class that is missing from the training file can be
// judged, if not learned. But a label in words that is nearly one of the training file's is FT_INVALID, with its place.
ft_status ft_labels_from_tables(const ft_table *train, const ft_table *other, const char *path, ft_arena *arena, ft_labels *labels);

// The id of every row's label: id [table->rows]. FT_INVALID with file:line and the nearest known label for one that is
// not in `labels`; path names the file in it. Where all names are the placeholders LABEL_0, LABEL_1, ... of a model
// without names, a number is an id.
ft_status ft_labels_assign(const ft_labels *labels, const ft_table *table, const char *path, int32_t *id);
// The ids of labels by their names, for who looks up many: made once, and then a look-up compares as many names as their number has binary
// digits. It points to `labels`.
typedef struct ft_label_index {
    const ft_labels *labels;
    struct ft_label_entry *entry; // [count], by bytes
    int count;                    // of different names
    bool numbers;                 // all are placeholders: a number is an id
} ft_label_index; // {0} is empty, and knows none
ft_status ft_label_index_make(const ft_labels *labels, ft_label_index *index); // FT_NO_MEMORY; free it then too
int ft_label_index_find(const ft_label_index *index, const char *label);       // as ft_labels_assign finds it; -1: unknown
void ft_label_index_free(ft_label_index *index);                               // {0} is fine

#endif
