// text_input.c - texts, and pairs of texts, as an input: a tokenizer, and what becomes of long texts.
#include "engine/data/text_input.h"

#include "engine/data/batch.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

void ft_texts_close(void *own) {
    ft_texts *t = own;
    if (t == NULL) return;
    ft_tokenizer_close(t->tokenizer);
    free(t);
}

ft_status ft_texts_open(const ft_input_request *request, void **own) {
    const ft_tokenizer_rules rules = request->rules == FT_TOKENIZE_AS_TRANSFORMERS ? FT_RULES_TRANSFORMERS : FT_RULES_FILES;
    ft_texts *t = ft_calloc(1, sizeof *t, "an input");
    if (t == NULL) return FT_NO_MEMORY;
    *own = t;
    FT_TRY(ft_tokenizer_open_lower(request->directory, rules, request->lower_case, &t->tokenizer));
    return ft_long_text_parse(request->truncation, "data.truncation", &t->rule);
}

ft_input_sizes ft_texts_sizes(const void *own) {
    const ft_texts *t = own;
    return (ft_input_sizes){.vocabulary = ft_tokenizer_vocabulary(t->tokenizer),
                            .longest = ft_tokenizer_max_length(t->tokenizer),
                            .windows = t->rule.kind == FT_LONG_WINDOWS};
}

const char *ft_texts_digest(const void *own) { return ft_tokenizer_digest(((const ft_texts *)own)->tokenizer); }
const char *const *ft_texts_files(const void *own) { return ft_tokenizer_files(((const ft_texts *)own)->tokenizer); }

static ft_status build(const void *own, const ft_input_wanted *w, ft_dataset *dataset, bool *from_cache) {
    const ft_texts *t = own;
    return ft_dataset_build(w->table, w->path, t->tokenizer, w->max_length, &t->rule, w->labels, w->cache_dir, dataset, from_cache);
}

int64_t ft_texts_length(const ft_dataset *data, int64_t sequence) { return data->offset[sequence + 1] - data->offset[sequence]; }

void ft_texts_fill(const ft_dataset *data, int64_t sequence, ft_batch *batch, int32_t row) {
    const int64_t first = data->offset[sequence], tokens = ft_texts_length(data, sequence);
    memcpy(batch->ids + row, data->ids + first, (size_t)tokens * sizeof *batch->ids);
    for (int64_t i = 0; i < tokens; i++) batch->token_type[row + i] = data->types != NULL ? data->types[first + i] : 0;
}

const ft_input_kind ft_text_input = {.name = "texts",
                                     .open = ft_texts_open,
                                     .close = ft_texts_close,
                                     .sizes = ft_texts_sizes,
                                     .digest = ft_texts_digest,
                                     .files = ft_texts_files,
                                     .build = build,
                                     .length = ft_texts_length,
                                     .fill = ft_texts_fill};
