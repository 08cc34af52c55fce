// Any bytes as a TSV table, in every way a table is asked for; what is accepted must hang together.
#include "engine/data/labels/labels.h"
#include "engine/data/tables/table.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

// A C string: the sanitizer sees one that does not end inside its block.
static void check_cell(const char *cell) { check(cell[strlen(cell)] == '\0'); }

static void check_labels(const ft_table *table) {
    ft_arena arena = {0};
    ft_labels labels;
    int32_t *id = calloc((size_t)table->rows, sizeof *id);
    check(id != NULL && ft_labels_from_table(table, &arena, &labels) == FT_OK);
    check(labels.count >= 1 && labels.missing >= 0 && labels.missing < labels.count);
    check(ft_labels_assign(&labels, table, "fuzz", id) == FT_OK);
    for (int64_t row = 0; row < table->rows; row++) {
        check(id[row] >= 0 && id[row] < labels.count);
        size_t same = strspn(table->label[row], labels.names[id[row]]); // "1.0" is the class "1"
        check(strcmp(labels.names[id[row]], table->label[row]) == 0 || same > 0);
    }
    free(id);
    ft_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (size == 0) return 0;
    unsigned how = input[0];
    size_t length = size - 1;
    char *data = malloc(length + 1);
    check(data != NULL);
    memcpy(data, input + 1, length);
    const char *text = how & 1 ? "" : "b", *label = how & 2 ? "" : "c", *id = how & 4 ? NULL : how & 8 ? "" : "a";
    ft_table_label need = (ft_table_label)(how / 16 % 3);
    ft_table table;
    const ft_table_request request = {.format = FT_FORMAT_TSV, .text = text, .label = label, .id = id, .need = need};
    ft_status status = ft_table_parse(data, length, 1 << 20, "fuzz", &request, &table);
    if (status != FT_OK) {
        check(status == FT_INVALID && ft_error_message()[0] != '\0' && table.data == NULL);
        return 0;
    }
    check(table.rows >= 1 && table.text_column != NULL);
    check((table.id != NULL) == (id != NULL));
    check(need != FT_LABEL_REQUIRED || table.label != NULL);
    check(need != FT_LABEL_IGNORED || table.label == NULL);
    for (int64_t row = 0; row < table.rows; row++) {
        check_cell(table.text[row]);
        check(table.line[row] > (row > 0 ? table.line[row - 1] : 1));
        check(table.text[row][table.text_length[row]] == '\0');
        check(memchr(table.text[row], '\t', table.text_length[row]) == NULL);
        check(memchr(table.text[row], '\n', table.text_length[row]) == NULL);
        if (table.id != NULL) check_cell(table.id[row]);
        if (table.label == NULL) continue;
        check_cell(table.label[row]);
        check(table.label[row][0] != '\0');
    }
    if (table.label != NULL) check_labels(&table);
    ft_table_free(&table);
    return 0;
}
