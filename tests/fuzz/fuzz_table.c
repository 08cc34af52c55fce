// Any bytes as a data file of any format, packing and encoding; what is accepted must hang together.
#include "base/spill.h"
#include "base/log.h"
#include "engine/data/tables/records.h"
#include "engine/data/tables/table.h"
#include "engine/data/labels/answers.h"
#include "engine/data/labels/tags.h"
#include "engine/data/labels/targets.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

// What is taken for targets is assigned without a refusal in its own table, and is in range.
static void check_targets(const ft_table *table, ft_label_kind kind) {
    ft_arena arena = {0};
    ft_labels labels = {.kind = kind, .separator = ","};
    if (ft_targets_labels(table, NULL, &arena, &labels) != FT_OK) {
        check(ft_error_message()[0] != '\0');
        ft_arena_free(&arena);
        return;
    }
    check(labels.count >= 1 && labels.kind == kind);
    if (kind == FT_LABELS_NUMBERS) {
        float *target = calloc((size_t)table->rows * (size_t)labels.count, sizeof *target);
        check(target != NULL);
        ft_status status = ft_targets_assign(&labels, table, "fuzz", target);
        check(status == FT_OK || status == FT_INVALID);
        for (int64_t i = 0; status == FT_OK && i < table->rows * labels.count; i++) check(isfinite(target[i]));
        free(target);
    } else {
        ft_label_sets sets;
        ft_status status = ft_targets_assign_sets(&labels, table, "fuzz", &sets);
        check(status == FT_OK || status == FT_INVALID);
        for (int64_t at = 0; status == FT_OK && at < sets.first[table->rows]; at++)
            check(sets.label[at] >= 0 && sets.label[at] < labels.count);
        ft_spill_free(sets.first);
        ft_spill_free(sets.label);
    }
    ft_arena_free(&arena);
}

// As a command reads it: words with tags, questions with answers, conversations, pictures.
static void read_task(char *data, size_t length, const ft_table_request *request) {
    ft_table table;
    const ft_status status = ft_table_parse(data, length, 1 << 20, "fuzz", request, &table);
    if (status != FT_OK) {
        check(status == FT_INVALID && ft_error_message()[0] != '\0' && table.data == NULL && table.text == NULL);
        return;
    }
    check(table.rows >= 1 && (!request->questions || table.pair != NULL));
    for (int64_t row = 0; row < table.rows; row++) {
        check(table.text[row][table.text_length[row]] == '\0' && (table.pair == NULL || table.pair[row][table.pair_length[row]] == '\0'));
        if (table.label != NULL) check(strlen(table.label[row]) < SIZE_MAX);
    }
    if (request->words && table.label != NULL) {
        ft_arena arena = {0};
        ft_labels labels = {.kind = FT_LABELS_TAGS};
        const ft_status collected = ft_tags_labels(&table, NULL, "fuzz", &arena, &labels);
        check(collected == FT_OK ? labels.count >= 1 : collected == FT_INVALID && ft_error_message()[0] != '\0');
        ft_arena_free(&arena);
    }
    for (int64_t row = 0; request->questions && table.label != NULL && row < table.rows; row++) {
        const char *cell = table.label[row];
        ft_answer_span answer;
        while (ft_answers_are(table.label[row]) && ft_answers_next(&cell, table.pair[row], table.pair_length[row], &answer))
            check(!answer.there || answer.length <= table.pair_length[row]);
    }
    ft_table_free(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (size == 0) return 0;
    ft_log_set_level(FT_LOG_SILENT);
    unsigned how = input[0];
    size_t length = size - 1;
    char *data = malloc(length + 1);
    check(data != NULL);
    memcpy(data, input + 1, length);
    static const char *const labels[] = {"", "c", "c, d"};
    if (how >= 216 && length > 0) { // what the texts are for, by their usual columns
        const ft_table_request task = {.empty_labels = how % 2 == 1, .text = "", .label = "", .plain = how / 8 % 2 == 1,
                                       .words = how / 2 % 4 == 0, .questions = how / 2 % 4 == 1, .language = how / 2 % 4 == 2,
                                       .prompts = how / 2 % 4 == 2, .pictures = how / 2 % 4 == 3,
                                       .need = (ft_table_label)(how / 16 % 3)};
        read_task(data, length, &task);
        return 0;
    }
    const ft_table_request request = {.empty_labels = how % 2 == 1, .format = (ft_format)(how % 5),
                                      .plain = how / 5 % 2 == 1,
                                      .text = how / 10 % 2 == 1 ? "" : "a",
                                      .pair = how / 20 % 2 == 1 ? NULL : "b",
                                      .label = labels[how / 40 % 3],
                                      .need = (ft_table_label)(how / 120 % 3)};
    ft_table table;
    ft_status status = ft_table_parse(data, length, 1 << 20, "fuzz", &request, &table);
    if (status != FT_OK) {
        check(status == FT_INVALID && ft_error_message()[0] != '\0' && table.data == NULL && table.text == NULL);
        return 0;
    }
    check(table.rows >= 1 && table.text_column != NULL && table.format != FT_FORMAT_AUTO);
    check((table.pair != NULL) == (request.pair != NULL && table.format != FT_FORMAT_TEXT));
    check(request.need != FT_LABEL_REQUIRED || table.label != NULL);
    for (int64_t row = 0; row < table.rows; row++) {
        check(table.text[row][table.text_length[row]] == '\0');
        if (table.pair != NULL) check(table.pair[row][table.pair_length[row]] == '\0');
        check(table.line[row] > (row > 0 ? table.line[row - 1] : 0));
        if (table.label == NULL) continue;
        size_t bytes = strlen(table.label[row]);
        check((bytes > 0 || table.label_lists || request.empty_labels) && (table.label_columns == 1 || table.label[row][bytes - 1] == FT_LIST_SEPARATOR));
    }
    if (table.label != NULL) {
        check_targets(&table, FT_LABELS_CLASSES);
        check_targets(&table, FT_LABELS_NUMBERS);
    }
    ft_table_free(&table);
    return 0;
}
