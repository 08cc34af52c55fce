// text_input.c - texts, and pairs of texts, as an input: a tokenizer, and what becomes of long texts.
#include "engine/data/batch.h"
#include "engine/data/input.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

typedef struct texts {
    ft_tokenizer *tokenizer;
    ft_long_text rule;
} texts;

static void close_texts(void *own) {
    texts *t = own;
    if (t == NULL) return;
    ft_tokenizer_close(t->tokenizer);
    free(t);
}

static ft_status open_texts(const ft_input_request *request, void **own) {
    const ft_tokenizer_rules rules = request->rules == FT_TOKENIZE_AS_TRANSFORMERS ? FT_RULES_TRANSFORMERS : FT_RULES_FILES;
    texts *t = ft_calloc(1, sizeof *t, "an input");
    if (t == NULL) return FT_NO_MEMORY;
    *own = t;
    FT_TRY(ft_tokenizer_open_rules(request->directory, rules, &t->tokenizer));
    return ft_long_text_parse(request->truncation, "data.truncation", &t->rule);
}

static ft_input_sizes sizes(const void *own) {
    const texts *t = own;
    return (ft_input_sizes){.vocabulary = ft_tokenizer_vocabulary(t->tokenizer),
                            .longest = ft_tokenizer_max_length(t->tokenizer),
                            .windows = t->rule.kind == FT_LONG_WINDOWS};
}

static const char *digest(const void *own) { return ft_tokenizer_digest(((const texts *)own)->tokenizer); }
static const char *const *files(const void *own) { return ft_tokenizer_files(((const texts *)own)->tokenizer); }

static ft_status build(const void *own, const ft_input_wanted *w, ft_dataset *dataset, bool *from_cache) {
    const texts *t = own;
    return ft_dataset_build(w->table, w->path, t->tokenizer, w->max_length, &t->rule, w->labels, w->cache_dir, dataset, from_cache);
}

static int64_t length(const ft_dataset *data, int64_t sequence) { return data->offset[sequence + 1] - data->offset[sequence]; }

static void fill(const ft_dataset *data, int64_t sequence, ft_batch *batch, int32_t row) {
    const int64_t first = data->offset[sequence], tokens = length(data, sequence);
    memcpy(batch->ids + row, data->ids + first, (size_t)tokens * sizeof *batch->ids);
    for (int64_t i = 0; i < tokens; i++) batch->token_type[row + i] = data->types != NULL ? data->types[first + i] : 0;
}

const ft_input_kind ft_text_input = {.name = "texts",
                                     .open = open_texts,
                                     .close = close_texts,
                                     .sizes = sizes,
                                     .digest = digest,
                                     .files = files,
                                     .build = build,
                                     .length = length,
                                     .fill = fill};
