// dataset.h - labelled text, tokenised once: ids of all examples in one array with offsets.
#ifndef FT_DATASET_H
#define FT_DATASET_H

#include "engine/text/tokenizer.h"
#include "kernels/arena.h"
#include "kernels/status.h"

#include <stdbool.h>
#include <stdint.h>

// A table of texts as read from a file: TSV, GLUE style, with a header line; no quoting. Rows are as in the file.
typedef struct ft_table {
    int64_t rows;
    const char **text;      // [rows], pointing into data
    size_t *text_length;
    const char **label;     // [rows]; NULL without a label column
    const char **id;        // [rows]; NULL unless an id column was asked for
    char *data;
    char sha256[65];        // of the file
    const char *text_column, *label_column; // names found
    ft_arena arena;
} ft_table;

typedef enum ft_table_label { FT_LABEL_REQUIRED, FT_LABEL_OPTIONAL, FT_LABEL_IGNORED } ft_table_label;

// `path` "-" reads standard input. text_column / label_column / id_column: a header name, "" = found by usual names
// (text: sentence, text, review, question, content...; label: label, labels, class, category, target...), id NULL = none.
// FT_INVALID with file:line: missing file, no header, unknown column (the header is listed), ragged rows, no rows, empty
// label. CRLF, a UTF-8 BOM and a missing last newline are accepted.
ft_status ft_table_read(const char *path, const char *text_column, const char *label_column, const char *id_column,
                        ft_table_label need, ft_table *table);
void ft_table_free(ft_table *table); // {0} is fine

// The label names of a classification task, in id order: all integers 0..n-1 keep their numbers, other labels are sorted
// (bytes). `names` live in `arena`.
typedef struct ft_labels {
    int count;
    const char **names;
} ft_labels;
ft_status ft_labels_from_table(const ft_table *table, ft_arena *arena, ft_labels *labels);

typedef struct ft_dataset {
    int64_t examples, tokens;
    int32_t *ids;        // [tokens], specials included
    int64_t *offset;     // [examples + 1]
    int32_t *label;      // [examples]; NULL when unlabelled
    int32_t longest;     // tokens of the longest example
    int64_t truncated;   // examples cut at max_length
    char sha256[65];     // of the file
} ft_dataset;

// Tokenises a table, or takes it from the cache (cache_dir: see data.cache_dir; NULL = none). The cache key is the
// SHA-256 of text column, tokenizer digest and max_length; a damaged cache file is ignored with a warning and rewritten.
// Labels not in `labels`: FT_INVALID with file, line and the nearest known label.
ft_status ft_dataset_build(const ft_table *table, const char *path, const ft_tokenizer *tokenizer, int max_length,
                           const ft_labels *labels, const char *cache_dir, ft_dataset *dataset, bool *from_cache);
void ft_dataset_free(ft_dataset *dataset); // {0} is fine

#endif
