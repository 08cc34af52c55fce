// tokenise.c - a table of texts becomes a dataset: tokenised, or from the cache.
#include "engine/data/picture_set.h"
#include "engine/data/question_set.h"
#include "engine/data/dataset.h"

#include "base/files.h"
#include "base/spill.h"
#include "engine/data/labels/targets.h"
#include "engine/data/token_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// How a row becomes tokens. What a row gives goes behind what the data set has, whose arrays may be larger than memory.
typedef struct encoding {
    const ft_table *table;
    const ft_tokenizer *tokenizer;
    int max_length;
    ft_long_text rule;
    ft_token_ids all, types, lengths; // of the sequences of this row; types: of pairs
    ft_token_ids probe;
    int64_t tokens, sequences;           // that there is room for
    int32_t *example;                    // [sequences] of each sequence
} encoding;

static ft_status encode_head(const encoding *e, int64_t row, int max_length, ft_token_ids *ids, ft_token_ids *types) {
    const ft_table *t = e->table;
    if (t->pair == NULL) return ft_tokenizer_encode(e->tokenizer, t->text[row], t->text_length[row], max_length, ids);
    return ft_tokenizer_encode_pair(e->tokenizer, t->text[row], t->text_length[row], t->pair[row], t->pair_length[row], max_length,
                                    FT_TRUNCATE_LONGEST_FIRST, ids, types);
}

static ft_status add_length(ft_token_ids *lengths, int32_t length) {
    if (lengths->count == lengths->capacity) {
        size_t capacity = lengths->count + lengths->count / 2 + 64;
        int32_t *grown = ft_realloc(lengths->ids, capacity, sizeof *grown, "lengths of texts");
        if (grown == NULL) return FT_NO_MEMORY;
        lengths->ids = grown, lengths->capacity = capacity;
    }
    lengths->ids[lengths->count++] = length;
    return FT_OK;
}

// The usual rule has a way of its own, on which what lies behind the limit is never tokenised.
static ft_status one_sequence(encoding *e, int64_t row, bool *whole) {
    size_t before = e->all.count;
    FT_TRY(encode_head(e, row, e->max_length, &e->all, &e->types));
    size_t length = e->all.count - before;
    if (length > INT32_MAX) return ft_fail(FT_INVALID, NULL, "this text has more than %d tokens", INT32_MAX);
    FT_TRY(add_length(&e->lengths, (int32_t)length));
    *whole = true;
    // A text of exactly max_length tokens was cut if there is one more without the limit.
    if (e->max_length > 0 && length == (size_t)e->max_length) {
        e->probe.count = 0;
        FT_TRY(encode_head(e, row, e->max_length + 1, &e->probe, NULL));
        *whole = e->probe.count <= length;
    }
    return FT_OK;
}

// Tokenises one row.
static ft_status encode_row(encoding *e, int64_t row, ft_dataset *dataset) {
    const ft_table *t = e->table;
    const bool pair = t->pair != NULL;
    bool whole;
    e->all.count = e->types.count = e->lengths.count = 0;
    if (e->rule.kind == FT_LONG_HEAD) FT_TRY(one_sequence(e, row, &whole));
    else
        FT_TRY(ft_tokenizer_encode_long(e->tokenizer, t->text[row], t->text_length[row], pair ? t->pair[row] : NULL,
                                        pair ? t->pair_length[row] : 0, e->max_length, &e->rule, &e->all, pair ? &e->types : NULL,
                                        &e->lengths, &whole));
    for (size_t i = 0; i < e->lengths.count; i++) {
        if (e->lengths.ids[i] == 0) return ft_fail(FT_INVALID, NULL, "this text has no tokens");
        if (e->lengths.ids[i] > dataset->longest) dataset->longest = e->lengths.ids[i];
    }
    dataset->truncated += !whole;
    return FT_OK;
}

static ft_status make_room(encoding *e, ft_dataset *d) {
    const int64_t tokens = d->tokens + (int64_t)e->all.count, sequences = d->sequences + (int64_t)e->lengths.count;
    if (tokens > e->tokens) {
        e->tokens = tokens + tokens / 4 + 64;
        FT_SPILL_GROW(d->ids, e->tokens, "tokenised text");
        if (e->table->pair != NULL) FT_SPILL_GROW(d->types, e->tokens, "token types");
    }
    if (sequences > e->sequences) {
        e->sequences = sequences + sequences / 4 + 64;
        FT_SPILL_GROW(d->offset, e->sequences + 1, "tokenised text");
        if (e->rule.kind == FT_LONG_WINDOWS) FT_SPILL_GROW(e->example, e->sequences, "windows");
    }
    return FT_OK;
}

// Puts the tokens of a row behind those of the rows before.
static ft_status take_row(encoding *e, int64_t row, ft_dataset *d) {
    FT_TRY(make_room(e, d));
    memcpy(d->ids + d->tokens, e->all.ids, e->all.count * sizeof *d->ids);
    if (e->table->pair != NULL && e->types.count != e->all.count)
        return ft_fail(FT_FAILED, NULL, "%zu token types for %zu tokens", e->types.count, e->all.count);
    for (size_t i = 0; e->table->pair != NULL && i < e->types.count; i++) {
        if (e->types.ids[i] < 0 || e->types.ids[i] > UINT8_MAX)
            return ft_fail(FT_INVALID, NULL, "the tokenizer gives token type %d", e->types.ids[i]);
        d->types[d->tokens + (int64_t)i] = (uint8_t)e->types.ids[i];
    }
    d->tokens += (int64_t)e->all.count;
    for (size_t i = 0; i < e->lengths.count; i++) {
        if (e->example != NULL) e->example[d->sequences] = (int32_t)row;
        d->offset[d->sequences + 1] = d->offset[d->sequences] + e->lengths.ids[i];
        d->sequences++;
    }
    ft_spill_written(d->ids, (size_t)d->tokens * sizeof *d->ids);
    ft_spill_written(d->types, (size_t)d->tokens);
    ft_spill_written(d->offset, (size_t)d->sequences * sizeof *d->offset);
    return FT_OK;
}

// The arrays as they stay for the whole run: what they could still grow by is given back.
static ft_status keep(encoding *e, ft_dataset *d) {
    FT_SPILL_GROW(d->ids, d->tokens, "tokenised text");
    FT_SPILL_GROW(d->offset, d->sequences + 1, "tokenised text");
    if (d->types != NULL) FT_SPILL_GROW(d->types, d->tokens, "token types");
    if (d->sequences > d->examples) {
        d->example = e->example;
        e->example = NULL;
        FT_SPILL_GROW(d->example, d->sequences, "windows");
    }
    ft_dataset_settle(d);
    return FT_OK;
}

static ft_status tokenise_rows(encoding *e, const char *path, ft_dataset *d) {
    FT_SPILL_GROW(d->offset, 1, "tokenised text");
    d->offset[0] = 0;
    for (int64_t row = 0; row < e->table->rows; row++) {
        ft_status status = encode_row(e, row, d);
        if (status == FT_OK) status = take_row(e, row, d);
        char where[512];
        if (status == FT_INVALID) ft_error_where_default("%s", ft_table_where(e->table, path, row, where));
        FT_TRY(status);
    }
    // An order of sequences is of 32-bit numbers.
    if (d->sequences > INT32_MAX) return ft_fail(FT_INVALID, path, "more than %d sequences", INT32_MAX);
    return keep(e, d);
}

static ft_status tokenise(encoding *e, const char *path, ft_dataset *dataset) {
    ft_status status = tokenise_rows(e, path, dataset);
    free(e->all.ids);
    free(e->types.ids);
    free(e->lengths.ids);
    free(e->probe.ids);
    ft_spill_free(e->example);
    return status;
}

// The documents of each query: of one name in the column of ids, else of one first text.
static ft_status group(const ft_table *table, const char *path, ft_dataset *dataset) {
    char where[512];
    for (int64_t row = 0; row < table->rows; row++) {
        if (dataset->target[row] >= 0 && dataset->target[row] <= 1) continue;
        ft_fail(FT_INVALID, ft_table_where(table, path, row, where), "the relevance is %g, a number from 0 to 1 is needed", (double)dataset->target[row]);
        ft_hint("grades are divided by the largest: no order, and no metric, changes with it");
        return FT_INVALID;
    }
    return ft_groups_of(table->id != NULL ? table->id : table->text, table->rows, &dataset->groups);
}

ft_status ft_dataset_take_labels(ft_dataset *dataset, const ft_labels *labels, const ft_table *table, const char *path) {
    if (labels != NULL && table->label != NULL) dataset->targets = labels->kind != FT_LABELS_CLASS ? labels->count : 0;
    if (labels != NULL && table->label != NULL && labels->kind == FT_LABELS_CLASSES) {
        FT_TRY(ft_targets_assign_sets(labels, table, path, &dataset->sets));
    } else if (labels != NULL && table->label != NULL && labels->kind == FT_LABELS_NUMBERS) {
        dataset->target = ft_spill_calloc((size_t)table->rows * (size_t)labels->count, sizeof *dataset->target, "targets");
        if (dataset->target == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_targets_assign(labels, table, path, dataset->target));
        if (labels->grouped) FT_TRY(group(table, path, dataset));
    } else if (labels != NULL && table->label != NULL) {
        dataset->label = ft_spill_calloc((size_t)table->rows, sizeof *dataset->label, "labels");
        if (dataset->label == NULL) return FT_NO_MEMORY;
        FT_TRY(ft_labels_assign(labels, table, path, dataset->label));
    }
    return FT_OK;
}

static ft_status fill(encoding *e, const char *path, const ft_labels *labels, const char *cache_dir, ft_dataset *dataset,
                      bool *from_cache) {
    const ft_table *table = e->table;
    dataset->examples = table->rows;
    memcpy(dataset->sha256, table->sha256, sizeof dataset->sha256);
    FT_TRY(ft_dataset_take_labels(dataset, labels, table, path)); // before the texts: a wrong label is then known at once
    FT_TRY(ft_long_text_check(&e->rule, e->tokenizer, table->pair != NULL, e->max_length));
    if (cache_dir == NULL) return tokenise(e, path, dataset);

    ft_token_cache_want want;
    ft_token_cache_want_of(table, e->tokenizer, e->max_length, &e->rule, &want);
    FT_TRY(ft_token_cache_load(cache_dir, &want, dataset, from_cache));
    if (*from_cache) return FT_OK;
    FT_TRY(tokenise(e, path, dataset));
    bool stored, mapped;
    ft_token_cache_store(cache_dir, &want, dataset, &stored);
    // What lies in scratch files would lie on the disk twice: from here on it is read where the next run will find it.
    if (stored && ft_spill_host_bytes(dataset->ids) == 0 && ft_token_cache_load(cache_dir, &want, dataset, &mapped) != FT_OK)
        ft_error_clear(); // no addresses for both: it stays where it is
    return FT_OK;
}

ft_status ft_dataset_build(const ft_table *table, const char *path, const ft_tokenizer *tokenizer, int max_length,
                           const ft_long_text *rule, const ft_labels *labels, const char *cache_dir, ft_dataset *dataset,
                           bool *from_cache) {
    memset(dataset, 0, sizeof *dataset);
    bool found = false;
    encoding e = {.table = table, .tokenizer = tokenizer, .max_length = max_length};
    if (rule != NULL) e.rule = *rule;
    ft_status status = fill(&e, path, labels, cache_dir, dataset, &found);
    if (status != FT_OK) ft_dataset_free(dataset);
    if (from_cache != NULL) *from_cache = found;
    return status;
}

const float *ft_dataset_target(const ft_dataset *data, int64_t example, float *room) {
    if (data->target != NULL) return data->target + example * data->targets;
    if (data->sets.first == NULL) return NULL;
    memset(room, 0, (size_t)data->targets * sizeof *room);
    for (int64_t at = data->sets.first[example]; at < data->sets.first[example + 1]; at++) room[data->sets.label[at]] = 1;
    return room;
}

void ft_dataset_count_classes(const ft_dataset *data, int64_t *count) {
    const bool marks = data->first_read != NULL && data->read_position == NULL; // which are no classes
    for (int64_t i = 0; i < ft_dataset_rows(data) && data->label != NULL && !marks; i++) count[data->label[i]]++;
    const int64_t all = data->sets.first != NULL ? data->sets.first[data->examples] : 0;
    for (int64_t at = 0; at < all; at++) count[data->sets.label[at]]++;
}

void ft_dataset_settle(ft_dataset *d) {
    if (d->file == NULL) {
        ft_spill_settle(d->ids);
        ft_spill_settle(d->types);
        ft_spill_settle(d->offset);
        ft_spill_settle(d->example);
    }
    if (!d->reads_in_file) {
        ft_spill_settle(d->label);
        ft_spill_settle(d->first_read);
        ft_spill_settle(d->first_row);
        ft_spill_settle(d->read_position);
    }
    ft_spill_settle(d->read_word);
    ft_question_set_settle(d->questions);
    ft_spill_settle(d->target);
    ft_spill_settle(d->sets.first);
    ft_spill_settle(d->sets.label);
}

size_t ft_dataset_host_bytes(const ft_dataset *d) {
    const size_t tokens = d->file != NULL ? (d->file_mapped ? 0 : d->file_bytes)
                                          : ft_spill_host_bytes(d->ids) + ft_spill_host_bytes(d->types) +
                                                ft_spill_host_bytes(d->offset) + ft_spill_host_bytes(d->example);
    const size_t reads = d->reads_in_file ? 0 : ft_spill_host_bytes(d->first_read) + ft_spill_host_bytes(d->first_row) + ft_spill_host_bytes(d->read_position) +
                                                    ft_spill_host_bytes(d->label);
    return tokens + reads + ft_question_set_host_bytes(d->questions) + ft_picture_set_host_bytes(d->pictures) +
           ft_spill_host_bytes(d->read_word) + ft_spill_host_bytes(d->target) + ft_spill_host_bytes(d->sets.first) +
           ft_spill_host_bytes(d->sets.label) + ft_spill_host_bytes(d->groups.first) + ft_spill_host_bytes(d->groups.member);
}

void ft_dataset_free_reads(ft_dataset *d) {
    if (!d->reads_in_file) {
        ft_spill_free(d->label);
        ft_spill_free(d->first_read);
        ft_spill_free(d->first_row);
        ft_spill_free(d->read_position);
    }
    d->reads_in_file = false;
    d->label = d->read_position = NULL;
    d->first_read = d->first_row = NULL;
}

void ft_dataset_free_tokens(ft_dataset *d) {
    if (d->reads_in_file) ft_dataset_free_reads(d);
    if (d->file == NULL) {
        ft_spill_free(d->ids);
        ft_spill_free(d->types);
        ft_spill_free(d->offset);
        ft_spill_free(d->example);
    } else if (d->file_mapped) {
        munmap(d->file, d->file_bytes);
    } else {
        free(d->file);
    }
    d->ids = d->example = NULL;
    d->types = NULL;
    d->offset = NULL;
    d->file = NULL;
    d->file_bytes = 0;
}

void ft_dataset_free(ft_dataset *d) {
    ft_dataset_free_tokens(d);
    ft_dataset_free_reads(d);
    ft_spill_free(d->read_word);
    ft_question_set_free(d->questions);
    ft_picture_set_free(d->pictures);
    ft_spill_free(d->target);
    ft_spill_free(d->sets.first);
    ft_spill_free(d->sets.label);
    ft_groups_free(&d->groups);
    memset(d, 0, sizeof *d);
}

ft_status ft_cache_directory(const char *configured, ft_arena *arena, const char **directory) {
    *directory = NULL;
    if (configured != NULL && strcmp(configured, "none") == 0) return FT_OK;
    if (configured != NULL && *configured != '\0') {
        *directory = ft_arena_strdup(arena, configured);
        return *directory != NULL ? FT_OK : FT_NO_MEMORY;
    }
    return ft_user_cache(arena, "tokens", directory);
}
