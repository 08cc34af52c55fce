// question_input.c - questions as an input, each with the passage that answers it: a sequence a window of the passage (text/questions.h), of
// which all rows are read. The first answer is the one that is learned, as in run_qa; a window that does not hold it whole has its row 0, [CLS].
#include "engine/data/labels/answers.h"
#include "engine/data/batch.h"
#include "engine/data/input.h"
#include "engine/data/question_set.h"
#include "engine/data/text_input.h"
#include "engine/text/questions.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/spill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEGINS = 1, ENDS = 2 }; // bits of a row's label

typedef struct building {
    const ft_texts *texts;
    const ft_input_wanted *wanted;
    ft_question_tokens tokens;
    int64_t token_room, sequence_room;
    int64_t misplaced, misplaced_row, lost; // answers that are not where they should be, the first one's row; those in no window
    int32_t *example;
} building;

static ft_status make_room(building *b, ft_dataset *d) {
    const int64_t tokens = d->tokens + (int64_t)b->tokens.ids.count, sequences = d->sequences + (int64_t)b->tokens.lengths.count;
    if (tokens > b->token_room) {
        b->token_room = tokens + tokens / 4 + 64;
        FT_SPILL_GROW(d->ids, b->token_room, "tokenised text");
        FT_SPILL_GROW(d->types, b->token_room, "token types");
        if (b->wanted->labels != NULL) FT_SPILL_GROW(d->label, b->token_room, "answers");
    }
    if (sequences > b->sequence_room) {
        b->sequence_room = sequences + sequences / 4 + 64;
        FT_SPILL_GROW(d->offset, b->sequence_room + 1, "tokenised text");
        FT_SPILL_GROW(d->first_read, b->sequence_room + 1, "rows that are read");
        FT_SPILL_GROW(b->example, b->sequence_room, "windows");
    }
    return FT_OK;
}

// The rows of a window, tokens [first, first + count) of the question at hand, where the answer begins and ends; false: it is not in there.
static bool find_answer(const ft_question_tokens *t, size_t first, size_t count, const ft_answer_span *answer, size_t *begins, size_t *ends) {
    const int32_t *begin = t->begin.ids + first, *end = t->end.ids + first;
    size_t low = 0, high = count;
    while (low < count && begin[low] < 0) low++;
    while (high > low && begin[high - 1] < 0) high--;
    if (low == high || begin[low] > answer->begin || end[high - 1] < answer->end) return false;
    *begins = low;
    while (*begins + 1 < high && begin[*begins + 1] <= answer->begin) ++*begins;
    *ends = high - 1;
    while (*ends > low && end[*ends - 1] >= answer->end) --*ends;
    return true;
}

static void mark_windows(building *b, const ft_answer_span *answer, ft_dataset *d) {
    size_t at = 0;
    bool any = answer == NULL;
    for (size_t w = 0; w < b->tokens.lengths.count; w++) {
        const size_t count = (size_t)b->tokens.lengths.ids[w];
        int32_t *label = d->label + d->tokens + at;
        size_t begins = 0, ends = 0;
        memset(label, 0, count * sizeof *label);
        if (answer != NULL && find_answer(&b->tokens, at, count, answer, &begins, &ends)) any = true;
        label[begins] |= BEGINS;
        label[ends] |= ENDS;
        at += count;
    }
    b->lost += !any;
}

static ft_status take_answers(building *b, int64_t row, ft_dataset *d) {
    const ft_table *table = b->wanted->table;
    const char *cell = b->wanted->labels != NULL && table->label != NULL ? table->label[row] : "", *passage = table->pair[row];
    ft_answer_span answer, first;
    bool any = false;
    if (!ft_answers_are(cell)) {
        ft_fail(FT_INVALID, NULL, "\"%.60s\" is no list of answers", cell);
        ft_hint("\"answers\": {\"text\": [\"Ada\"], \"answer_start\": [12]}");
        return FT_INVALID;
    }
    while (ft_answers_next(&cell, passage, table->pair_length[row], &answer)) {
        if (!any) first = answer;
        any = true;
        if (!answer.there && b->misplaced++ == 0) b->misplaced_row = row;
        if (d->questions != NULL) FT_TRY(ft_question_set_answer(d->questions, row, answer.text, answer.length));
    }
    if (d->questions != NULL) d->questions->unanswerable += !any;
    if (d->label != NULL) mark_windows(b, any ? &first : NULL, d);
    return FT_OK;
}

static ft_status take_row(building *b, int64_t row, ft_dataset *d) {
    const ft_question_tokens *t = &b->tokens;
    FT_TRY(make_room(b, d));
    memcpy(d->ids + d->tokens, t->ids.ids, t->ids.count * sizeof *d->ids);
    for (size_t i = 0; i < t->ids.count; i++) {
        if (t->types.ids[i] < 0 || t->types.ids[i] > UINT8_MAX)
            return ft_fail(FT_INVALID, NULL, "the tokenizer gives token type %d", t->types.ids[i]);
        d->types[d->tokens + (int64_t)i] = (uint8_t)t->types.ids[i];
    }
    if (d->questions != NULL) FT_TRY(ft_question_set_tokens(d->questions, d->tokens, t->begin.ids, t->end.ids, t->ids.count));
    FT_TRY(take_answers(b, row, d));
    for (size_t i = 0; i < t->lengths.count; i++) {
        const int32_t length = t->lengths.ids[i];
        b->example[d->sequences] = (int32_t)row;
        d->offset[d->sequences + 1] = d->first_read[d->sequences + 1] = d->offset[d->sequences] + length;
        if (length > d->longest) d->longest = length;
        d->sequences++;
    }
    d->tokens += (int64_t)t->ids.count;
    d->truncated += t->lengths.count > 1;
    d->first_row[row + 1] = d->tokens;
    return FT_OK;
}

static ft_status build_row(building *b, int64_t row, ft_dataset *d) {
    const ft_input_wanted *w = b->wanted;
    const ft_table *t = w->table;
    if (d->questions != NULL) FT_TRY(ft_question_set_passage(d->questions, row, t->pair[row], t->pair_length[row]));
    FT_TRY(ft_tokenizer_encode_question(b->texts->tokenizer, t->text[row], t->text_length[row], t->pair[row], t->pair_length[row], w->max_length,
                                        &b->texts->rule, &b->tokens));
    return take_row(b, row, d);
}

static ft_status keep(building *b, ft_dataset *d) {
    const ft_input_wanted *w = b->wanted;
    char where[512];
    if (d->sequences > INT32_MAX) return ft_fail(FT_INVALID, w->path, "more than %d sequences", INT32_MAX);
    FT_SPILL_GROW(d->ids, d->tokens, "tokenised text");
    FT_SPILL_GROW(d->types, d->tokens, "token types");
    FT_SPILL_GROW(d->offset, d->sequences + 1, "tokenised text");
    FT_SPILL_GROW(d->first_read, d->sequences + 1, "rows that are read");
    if (d->label != NULL) FT_SPILL_GROW(d->label, d->tokens, "answers");
    if (d->sequences > d->examples) {
        d->example = b->example;
        b->example = NULL;
        FT_SPILL_GROW(d->example, d->sequences, "windows");
    }
    ft_dataset_settle(d);
    if (b->misplaced > 0)
        ft_warn("%lld answer%s %s not in the context where \"answer_start\" says, the first one at %s%s%s: as in transformers the characters there are "
                "learned; starts count characters (code points), not bytes", (long long)b->misplaced, b->misplaced == 1 ? "" : "s", 
                b->misplaced == 1 ? "is" : "are", ft_table_where(w->table, w->path, b->misplaced_row, where), w->table->id != NULL ? ", id " : "",
                w->table->id != NULL ? w->table->id[b->misplaced_row] : "");
    if (b->lost > 0)
        ft_warn("%lld of %lld answers of %s are whole in no window: their questions are learned as if they had none; a longer data.max_length, or "
                "data.truncation = windows(N) with a larger N, has more of them", (long long)b->lost, (long long)d->examples, w->path);
    return FT_OK;
}

static ft_status build_all(building *b, ft_dataset *d) {
    const ft_input_wanted *w = b->wanted;
    if (w->table->pair == NULL) return ft_fail(FT_INVALID, "data.text_pair", "questions stand beside the contexts that answer them");
    if (b->texts->rule.kind != FT_LONG_WINDOWS) {
        ft_fail(FT_INVALID, "data.truncation", "contexts are read in windows: an answer may stand anywhere");
        ft_hint("windows, or windows(128) that overlap by 128 tokens (called doc_stride elsewhere)");
        return FT_INVALID;
    }
    d->examples = w->table->rows;
    memcpy(d->sha256, w->table->sha256, sizeof d->sha256);
    if (!w->learned) FT_TRY(ft_question_set_open(d->examples, &d->questions));
    FT_SPILL_GROW(d->first_row, d->examples + 1, "rows that are read");
    FT_SPILL_GROW(d->offset, 1, "tokenised text");
    FT_SPILL_GROW(d->first_read, 1, "rows that are read");
    d->first_row[0] = d->offset[0] = d->first_read[0] = 0;
    for (int64_t row = 0; row < w->table->rows; row++) {
        ft_status status = build_row(b, row, d);
        char where[512];
        if (status == FT_INVALID)
            ft_error_where_default("%s%s%s", ft_table_where(w->table, w->path, row, where), w->table->id != NULL ? ", id " : "",
                                   w->table->id != NULL ? w->table->id[row] : "");
        FT_TRY(status);
    }
    return keep(b, d);
}

// Without a cache: every run tokenises its questions anew.
static ft_status build(const void *own, const ft_input_wanted *wanted, ft_dataset *dataset, bool *from_cache) {
    building b = {.texts = own, .wanted = wanted};
    *dataset = (ft_dataset){.examples = 0};
    if (from_cache != NULL) *from_cache = false;
    ft_status status = build_all(&b, dataset);
    if (status != FT_OK) ft_dataset_free(dataset);
    ft_question_tokens_free(&b.tokens);
    ft_spill_free(b.example);
    return status;
}

const ft_input_kind ft_question_input = {.name = "questions",
                                         .open = ft_texts_open,
                                         .close = ft_texts_close,
                                         .sizes = ft_texts_sizes,
                                         .digest = ft_texts_digest,
                                         .files = ft_texts_files,
                                         .build = build,
                                         .length = ft_texts_length,
                                         .fill = ft_texts_fill};
