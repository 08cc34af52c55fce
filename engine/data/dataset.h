// dataset.h - labelled text, tokenised once: ids of all sequences in one array with offsets.
//
// An example is a text (or a pair) with its label: what is counted, judged and predicted. A sequence is what a model sees at
// once: one for every example, but of long texts cut into windows (text/long_text.h) several, one behind the other.
#ifndef FT_DATASET_H
#define FT_DATASET_H

#include "base/arena.h"
#include "base/status.h"
#include "engine/data/labels/labels.h"
#include "engine/data/tables/groups.h"
#include "engine/data/tables/table.h"
#include "engine/text/long_text.h"
#include "engine/text/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

struct ft_input_kind;

// The arrays are of base/spill.h, large ones in files, or in the file of the token cache.
typedef struct ft_dataset {
    const struct ft_input_kind *input; // the kind of its sequences (input.h); what follows of tokens is of texts
    int64_t examples, sequences, tokens;
    int32_t *ids;      // [tokens], specials included
    uint8_t *types;    // [tokens] token types of pairs of texts; NULL: single texts, all 0
    int64_t *offset;   // [sequences + 1]
    int32_t *example;  // [sequences] which example each is of, ascending; NULL: as many sequences as examples, one each
    int32_t *label;    // [ft_dataset_rows]; NULL when unlabelled
    // Where several rows of a sequence are read, each with a label of its own (words.h); all NULL: the first row of each is.
    int64_t *first_read;    // [sequences + 1] of all reads the first of each sequence
    int64_t *first_row;     // [examples + 1] and of each example
    int32_t *read_position; // [reads] in its sequence, ascending; NULL: all of them are, in order
    int32_t *read_word;     // [reads] which word of its text; NULL: they are no words
    // Of questions (question_set.h): what answers are made and judged of; NULL where they are only learned. The labels of their rows are
    // marks: bit 0 where the answer begins, bit 1 where it ends.
    struct ft_question_set *questions;
    struct ft_picture_set *pictures; // whose rows are patches (picture_set.h); NULL: they are tokens, and ids are there
    int32_t targets;   // outputs of a task whose labels are no single class; 0: it is one
    float *target;     // [examples, targets] numbers instead of a label; NULL: none
    ft_label_sets sets; // any number of classes instead of a label; first NULL: none
    ft_groups groups;  // of a ranking the documents of each query, among examples; count 0: none
    int32_t longest;   // tokens of the longest sequence
    int64_t truncated; // examples that do not fit max_length: cut, or in windows
    char sha256[65];   // of the file
    // From the cache: ids, types, offset and example lie here, read-only; NULL: they are of base/spill.h.
    void *file;        // [file_bytes]
    size_t file_bytes;
    bool file_mapped;  // else on the heap
    bool reads_in_file; // label, first_read, first_row (which is first_read) and read_position lie there too
    int64_t moved, first_moved; // of language: prompts whose last tokens are others where the completion follows, and the first of them
    // Of one that is read as features (feature_cache.h): what the head reads of every sequence, rows that are its owner's.
    const void *feature;        // NULL: none, or not made yet
    size_t feature_bytes;       // of a row
    const int32_t *feature_row; // [sequences] which row is whose; NULL: they are in order
} ft_dataset;

// How many of its rows are read of a sequence.
static inline int64_t ft_dataset_reads(const ft_dataset *data, int64_t sequence) {
    return data->first_read != NULL ? data->first_read[sequence + 1] - data->first_read[sequence] : 1;
}
// What is labelled, judged and predicted one by one: examples, or the rows of theirs that are read.
static inline int64_t ft_dataset_rows(const ft_dataset *data) {
    return data->first_row != NULL ? data->first_row[data->examples] : data->examples;
}

// What figures are means over: queries, where examples are documents of them.
static inline int64_t ft_dataset_judged(const ft_dataset *data) { return data->groups.count > 0 ? data->groups.count : data->examples; }

static inline int64_t ft_dataset_example(const ft_dataset *data, int64_t sequence) {
    return data->example != NULL ? data->example[sequence] : sequence;
}

// Tokens of a sequence, also where its rows are features.
static inline int64_t ft_dataset_tokens(const ft_dataset *data, int64_t sequence) { return data->offset[sequence + 1] - data->offset[sequence]; }

// The numbers of an example, or 0 and 1 for its classes, in `room` [targets] or where they lie; NULL: it has none.
const float *ft_dataset_target(const ft_dataset *data, int64_t example, float *room);
// count[class] grows by how many examples are of it.
void ft_dataset_count_classes(const ft_dataset *data, int64_t *count);
// Its arrays do not grow any more (base/spill.h).
void ft_dataset_settle(ft_dataset *data);
// Bytes of memory that a data set takes: those of its arrays that are not in files.
size_t ft_dataset_host_bytes(const ft_dataset *data);

// Tokenises a table (its texts, or its pairs of texts), or takes it from the cache (cache_dir: from ft_cache_directory; NULL
// = none). Texts of more than max_length tokens (<= 0: no limit) are treated as `rule` says (NULL: head). The cache key is the
// SHA-256 of the texts, tokenizer digest, max_length and rule; a damaged cache file is ignored with a warning and rewritten,
// one that cannot be written is a warning.
// `labels` NULL: unlabelled; else see ft_labels_assign. path: the file, for messages. from_cache may be NULL.
ft_status ft_dataset_build(const ft_table *table, const char *path, const ft_tokenizer *tokenizer, int max_length,
                           const ft_long_text *rule, const ft_labels *labels, const char *cache_dir, ft_dataset *dataset,
                           bool *from_cache);
// The labels of a table, of a task that has one a text, or numbers or classes; `labels` NULL, or a table without any: none. FT_INVALID with
// file:line.
ft_status ft_dataset_take_labels(ft_dataset *dataset, const ft_labels *labels, const ft_table *table, const char *path);
void ft_dataset_free(ft_dataset *dataset); // {0} is fine
void ft_dataset_free_tokens(ft_dataset *dataset); // ids, types, offset and example alone, and what else lies in their file
void ft_dataset_free_reads(ft_dataset *dataset);  // label, first_read, first_row and read_position alone

// data.cache_dir to a directory: "" (or NULL) is $XDG_CACHE_HOME/ftengine/tokens, else ~/.cache/ftengine/tokens;
// "none", and "" without a home, give NULL; others are taken as they are. Nothing is created here.
ft_status ft_cache_directory(const char *configured, ft_arena *arena, const char **directory);

#endif
