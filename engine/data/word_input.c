// word_input.c - the words of texts as an input, each with a tag of its own: the rows of their first tokens are read (or of all of them,
// where a training set asks for it).
#include "engine/data/batch.h"
#include "engine/data/input.h"
#include "engine/data/labels/tags.h"
#include "engine/data/text_input.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/spill.h"

#include <stdlib.h>
#include <string.h>

typedef struct building {
    const ft_texts *texts;
    const ft_input_wanted *wanted;
    ft_word_list words;
    ft_word_tokens tokens;
    ft_tag_source source;
    int32_t *tag; // [words]
    size_t tags;
    int64_t token_room, sequence_room, read_room;
    int64_t all_words, read_words, reads;
    int32_t *example;
} building;

static ft_status make_room(building *b, ft_dataset *d) {
    const int64_t tokens = d->tokens + (int64_t)b->tokens.ids.count, sequences = d->sequences + (int64_t)b->tokens.lengths.count,
                  reads = b->reads + (int64_t)b->tokens.position.count;
    if (tokens > b->token_room) {
        b->token_room = tokens + tokens / 4 + 64;
        FT_SPILL_GROW(d->ids, b->token_room, "tokenised text");
    }
    if (sequences > b->sequence_room) {
        b->sequence_room = sequences + sequences / 4 + 64;
        FT_SPILL_GROW(d->offset, b->sequence_room + 1, "tokenised text");
        FT_SPILL_GROW(d->first_read, b->sequence_room + 1, "rows that are read");
        FT_SPILL_GROW(b->example, b->sequence_room, "windows");
    }
    if (reads > b->read_room || b->read_room == 0) {
        b->read_room = reads + reads / 4 + 64;
        FT_SPILL_GROW(d->read_position, b->read_room, "rows that are read");
        FT_SPILL_GROW(d->read_word, b->read_room, "rows that are read");
        if (b->wanted->labels != NULL) FT_SPILL_GROW(d->label, b->read_room, "tags");
    }
    return FT_OK;
}

static ft_status find_tags(building *b, int64_t row) {
    const ft_input_wanted *w = b->wanted;
    if (w->labels == NULL) return FT_OK;
    if (b->words.count > b->tags || b->tag == NULL) {
        int32_t *grown = ft_realloc(b->tag, 2 * b->words.count + 64, sizeof *grown, "tags");
        if (grown == NULL) return FT_NO_MEMORY;
        b->tag = grown;
        b->tags = 2 * b->words.count + 64;
    }
    return ft_tags_of_row(&b->source, row, &b->words, b->tag);
}

// Of the rows that are read those whose words have a tag, behind those that are there.
static void take_reads(building *b, int32_t first, int32_t count, ft_dataset *d) {
    const ft_word_tokens *t = &b->tokens;
    int32_t before = -1;
    for (int32_t i = first; i < first + count; i++) {
        const int32_t word = t->word.ids[i];
        const bool further = i > 0 && t->word.ids[i - 1] == word;
        if (b->wanted->labels != NULL && b->tag[word] < 0) continue;
        if (d->label != NULL) d->label[b->reads] = further && b->wanted->inside != NULL ? b->wanted->inside[b->tag[word]] : b->tag[word];
        d->read_position[b->reads] = t->position.ids[i];
        d->read_word[b->reads++] = word;
        b->read_words += word != before;
        before = word;
    }
}

static ft_status take_row(building *b, int64_t row, ft_dataset *d) {
    FT_TRY(make_room(b, d));
    memcpy(d->ids + d->tokens, b->tokens.ids.ids, b->tokens.ids.count * sizeof *d->ids);
    int32_t read = 0;
    for (size_t i = 0; i < b->tokens.lengths.count; i++) {
        const int32_t length = b->tokens.lengths.ids[i], reads = b->tokens.reads.ids[i];
        b->example[d->sequences] = (int32_t)row;
        d->offset[d->sequences + 1] = d->offset[d->sequences] + length;
        d->first_read[d->sequences] = b->reads;
        take_reads(b, read, reads, d);
        d->first_read[d->sequences + 1] = b->reads;
        read += reads;
        if (length > d->longest) d->longest = length;
        d->sequences++;
    }
    d->tokens += (int64_t)b->tokens.ids.count;
    d->truncated += !b->tokens.whole;
    for (size_t i = 0; i < b->words.count; i++) b->all_words += b->wanted->labels == NULL || b->tag[i] >= 0;
    d->first_row[row + 1] = b->reads;
    return FT_OK;
}

static ft_status build_row(building *b, int64_t row, ft_dataset *d) {
    const ft_input_wanted *w = b->wanted;
    const char *text = w->table->text[row];
    FT_TRY(ft_words_find(text, w->table->text_length[row], &b->words));
    FT_TRY(find_tags(b, row));
    FT_TRY(ft_tokenizer_encode_words(b->texts->tokenizer, text, &b->words, w->max_length, &b->texts->rule, w->inside != NULL, &b->tokens));
    return take_row(b, row, d);
}

static ft_status keep(building *b, ft_dataset *d) {
    if (d->sequences > INT32_MAX) return ft_fail(FT_INVALID, b->wanted->path, "more than %d sequences", INT32_MAX);
    FT_SPILL_GROW(d->ids, d->tokens, "tokenised text");
    FT_SPILL_GROW(d->offset, d->sequences + 1, "tokenised text");
    FT_SPILL_GROW(d->first_read, d->sequences + 1, "rows that are read");
    FT_SPILL_GROW(d->read_position, b->reads + 1, "rows that are read");
    FT_SPILL_GROW(d->read_word, b->reads + 1, "rows that are read");
    if (d->label != NULL) FT_SPILL_GROW(d->label, b->reads + 1, "tags");
    if (d->sequences > d->examples) {
        d->example = b->example;
        b->example = NULL;
        FT_SPILL_GROW(d->example, d->sequences, "windows");
    }
    ft_dataset_settle(d);
    const int64_t lost = b->all_words - b->read_words;
    if (b->wanted->labels != NULL && b->reads == 0) return ft_fail(FT_INVALID, b->wanted->path, "no word has a tag and a token");
    if (b->source.spans_cutting > 0)
        ft_warn("%lld of %lld spans of %s begin or end inside a word: they count characters (code points), not bytes",
                (long long)b->source.spans_cutting, (long long)b->source.spans_read, b->wanted->path);
    if (lost > 0)
        ft_warn("%lld of %lld words of %s are left out: what is cut has no row (data.truncation = windows keeps all), nor have characters that "
                "the tokenizer drops", (long long)lost, (long long)b->all_words, b->wanted->path);
    return FT_OK;
}

static ft_status build_all(building *b, ft_dataset *d) {
    const ft_input_wanted *w = b->wanted;
    if (w->table->pair != NULL) return ft_fail(FT_INVALID, "data.text_pair", "words with tags stand in single texts");
    d->examples = w->table->rows;
    memcpy(d->sha256, w->table->sha256, sizeof d->sha256);
    FT_TRY(ft_long_text_check(&b->texts->rule, b->texts->tokenizer, false, w->max_length));
    if (w->labels != NULL) FT_TRY(ft_tags_open(w->labels, w->table, w->path, &b->source));
    FT_SPILL_GROW(d->first_row, d->examples + 1, "rows that are read");
    d->first_row[0] = 0;
    FT_SPILL_GROW(d->offset, 1, "tokenised text");
    d->offset[0] = 0;
    for (int64_t row = 0; row < w->table->rows; row++) {
        ft_status status = build_row(b, row, d);
        char where[512];
        if (status == FT_INVALID) ft_error_where_default("%s", ft_table_where(w->table, w->path, row, where));
        FT_TRY(status);
    }
    return keep(b, d);
}

// Without a cache: every run tokenises its words anew.
static ft_status build(const void *own, const ft_input_wanted *wanted, ft_dataset *dataset, bool *from_cache) {
    building b = {.texts = own, .wanted = wanted};
    *dataset = (ft_dataset){.examples = 0};
    if (from_cache != NULL) *from_cache = false;
    ft_status status = build_all(&b, dataset);
    if (status != FT_OK) ft_dataset_free(dataset);
    ft_tags_close(&b.source);
    ft_word_tokens_free(&b.tokens);
    free(b.words.word);
    free(b.tag);
    ft_spill_free(b.example);
    return status;
}

const ft_input_kind ft_word_input = {.name = "words",
                                     .open = ft_texts_open,
                                     .close = ft_texts_close,
                                     .sizes = ft_texts_sizes,
                                     .digest = ft_texts_digest,
                                     .files = ft_texts_files,
                                     .build = build,
                                     .length = ft_texts_length,
                                     .fill = ft_texts_fill};
