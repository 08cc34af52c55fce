#include "engine/data/dataset.h"

#include "engine/data/targets.h"
#include "engine/data/token_cache.h"
#include "engine/io/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A text, or the two texts of a pair.
static ft_status encode(const ft_table *table, int64_t row, const ft_tokenizer *tokenizer, int max_length, ft_token_ids *ids,
                        ft_token_ids *types) {
    const char *text = table->text[row];
    size_t length = table->text_length[row];
    if (table->pair == NULL) return ft_tokenizer_encode(tokenizer, text, length, max_length, ids);
    return ft_tokenizer_encode_pair(tokenizer, text, length, table->pair[row], table->pair_length[row], max_length,
                                    FT_TRUNCATE_LONGEST_FIRST, ids, types);
}

typedef struct encoding {
    ft_token_ids all, types; // of the rows so far; types: of pairs
    ft_token_ids probe;
} encoding;

// Tokenises one row behind those so far.
static ft_status encode_row(const ft_table *table, int64_t row, const ft_tokenizer *tokenizer, int max_length, encoding *e,
                            ft_dataset *dataset) {
    ft_token_ids *all = &e->all, *probe = &e->probe;
    size_t before = all->count;
    FT_TRY(encode(table, row, tokenizer, max_length, all, &e->types));
    size_t length = all->count - before;
    if (length == 0) return ft_fail(FT_INVALID, NULL, "this text has no tokens");
    if (length > INT32_MAX) return ft_fail(FT_INVALID, NULL, "this text has more than 2147483647 tokens");
    if ((int32_t)length > dataset->longest) dataset->longest = (int32_t)length;
    // A text of exactly max_length tokens was cut if there is one more without the limit.
    if (max_length > 0 && length == (size_t)max_length) {
        probe->count = 0;
        FT_TRY(encode(table, row, tokenizer, max_length + 1, probe, NULL));
        if (probe->count > length) dataset->truncated++;
    }
    dataset->offset[row + 1] = (int64_t)all->count;
    return FT_OK;
}

// The arrays as they stay for the whole run: growing by doubling leaves up to half of them unused.
static ft_status keep(encoding *e, bool paired, ft_dataset *dataset) {
    int32_t *fitted = ft_realloc(e->all.ids, e->all.count, sizeof *e->all.ids, "tokenised text");
    if (fitted == NULL) return FT_NO_MEMORY;
    e->all.ids = NULL;
    dataset->ids = fitted;
    dataset->tokens = (int64_t)e->all.count;
    if (!paired) return FT_OK;
    if (e->types.count != e->all.count)
        return ft_fail(FT_FAILED, NULL, "%zu token types for %zu tokens", e->types.count, e->all.count);
    dataset->types = ft_calloc(e->types.count, 1, "token types");
    if (dataset->types == NULL) return FT_NO_MEMORY;
    for (size_t i = 0; i < e->types.count; i++) {
        if (e->types.ids[i] < 0 || e->types.ids[i] > UINT8_MAX)
            return ft_fail(FT_INVALID, NULL, "the tokenizer gives token type %d", e->types.ids[i]);
        dataset->types[i] = (uint8_t)e->types.ids[i];
    }
    return FT_OK;
}

static ft_status tokenise(const ft_table *table, const char *path, const ft_tokenizer *tokenizer, int max_length,
                          ft_dataset *dataset) {
    dataset->offset = ft_calloc((size_t)table->rows + 1, sizeof *dataset->offset, "tokenised text");
    if (dataset->offset == NULL) return FT_NO_MEMORY;
    encoding e = {0};
    ft_status status = FT_OK;
    for (int64_t row = 0; row < table->rows && status == FT_OK; row++) {
        status = encode_row(table, row, tokenizer, max_length, &e, dataset);
        char where[512];
        if (status == FT_INVALID) ft_error_where_default("%s", ft_table_where(table, path, row, where));
    }
    if (status == FT_OK) status = keep(&e, table->pair != NULL, dataset);
    free(e.all.ids);
    free(e.types.ids);
    free(e.probe.ids);
    return status;
}

static ft_status fill(const ft_table *table, const char *path, const ft_tokenizer *tokenizer, int max_length,
                      const ft_labels *labels, const char *cache_dir, ft_dataset *dataset, bool *from_cache) {
    dataset->examples = table->rows;
    memcpy(dataset->sha256, table->sha256, sizeof dataset->sha256);
    // Before the texts: a wrong label is then known at once.
    if (labels != NULL && table->label != NULL && labels->task > FT_TASK_SINGLE_LABEL) {
        dataset->targets = labels->count;
        dataset->target = ft_calloc((size_t)table->rows * (size_t)labels->count, sizeof *dataset->target, "targets");
        if (dataset->target == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_targets_assign(labels, table, path, dataset->target));
    } else if (labels != NULL && table->label != NULL) {
        dataset->label = ft_calloc((size_t)table->rows, sizeof *dataset->label, "labels");
        if (dataset->label == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_labels_assign(labels, table, path, dataset->label));
    }
    if (cache_dir == NULL) return tokenise(table, path, tokenizer, max_length, dataset);

    ft_token_cache_want want;
    ft_token_cache_want_of(table, tokenizer, max_length, &want);
    FT_TRY(ft_token_cache_load(cache_dir, &want, dataset, from_cache));
    if (*from_cache) return FT_OK;
    FT_TRY(tokenise(table, path, tokenizer, max_length, dataset));
    ft_token_cache_store(cache_dir, &want, dataset);
    return FT_OK;
}

ft_status ft_dataset_build(const ft_table *table, const char *path, const ft_tokenizer *tokenizer, int max_length,
                           const ft_labels *labels, const char *cache_dir, ft_dataset *dataset, bool *from_cache) {
    memset(dataset, 0, sizeof *dataset);
    bool found = false;
    ft_status status = fill(table, path, tokenizer, max_length, labels, cache_dir, dataset, &found);
    if (status != FT_OK) ft_dataset_free(dataset);
    if (from_cache != NULL) *from_cache = found;
    return status;
}

void ft_dataset_free(ft_dataset *dataset) {
    free(dataset->ids);
    free(dataset->types);
    free(dataset->target);
    free(dataset->offset);
    free(dataset->label);
    memset(dataset, 0, sizeof *dataset);
}

ft_status ft_cache_directory(const char *configured, ft_arena *arena, const char **directory) {
    *directory = NULL;
    if (configured != NULL && strcmp(configured, "none") == 0) return FT_OK;
    if (configured != NULL && *configured != '\0') {
        *directory = ft_arena_strdup(arena, configured);
        return *directory != NULL ? FT_OK : FT_NO_MEMORY;
    }
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL && *cache == '/') // the XDG rules: a relative path is as none
        *directory = ft_arena_format(arena, "%s/ftengine/tokens", cache);
    else if (home != NULL && *home != '\0')
        *directory = ft_arena_format(arena, "%s/.cache/ftengine/tokens", home);
    else
        return FT_OK;
    return *directory != NULL ? FT_OK : FT_NO_MEMORY;
}
