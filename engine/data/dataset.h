// dataset.h - labelled text, tokenised once: ids of all examples in one array with offsets.
#ifndef FT_DATASET_H
#define FT_DATASET_H

#include "engine/data/labels.h"
#include "engine/data/table.h"
#include "engine/text/tokenizer.h"
#include "kernels/arena.h"
#include "kernels/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_dataset {
    int64_t examples, tokens;
    int32_t *ids;      // [tokens], specials included
    uint8_t *types;    // [tokens] token types of pairs of texts; NULL: single texts, all 0
    int64_t *offset;   // [examples + 1]
    int32_t *label;    // [examples]; NULL when unlabelled
    float *target;     // [examples, targets] numbers instead of a label; NULL: none
    int32_t targets;
    int32_t longest;   // tokens of the longest example
    int64_t truncated; // examples cut at max_length
    char sha256[65];   // of the file
} ft_dataset;

// Tokenises a table (its texts, or its pairs of texts, of which the longer is cut first), or takes it from the cache
// (cache_dir: from ft_cache_directory; NULL = none). The cache key is the SHA-256 of the texts, tokenizer digest and
// max_length (<= 0: no truncation); a damaged cache file is ignored with a warning and rewritten, one that cannot be written
// is a warning.
// `labels` NULL: unlabelled; else see ft_labels_assign. path: the file, for messages. from_cache may be NULL.
ft_status ft_dataset_build(const ft_table *table, const char *path, const ft_tokenizer *tokenizer, int max_length,
                           const ft_labels *labels, const char *cache_dir, ft_dataset *dataset, bool *from_cache);
void ft_dataset_free(ft_dataset *dataset); // {0} is fine

// data.cache_dir to a directory: "" (or NULL) is $XDG_CACHE_HOME/ftengine/tokens, else ~/.cache/ftengine/tokens;
// "none", and "" without a home, give NULL; others are taken as they are. Nothing is created here.
ft_status ft_cache_directory(const char *configured, ft_arena *arena, const char **directory);

#endif
