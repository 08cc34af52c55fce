// memory.c - a table of texts that no file has.
#include "engine/data/tables/table.h"

#include "base/spill.h"
#include "base/utf8.h"

#include <string.h>

static ft_status take(const char *name, const char *what, int64_t row, const char *text, const char **out, size_t *length) {
    if (text == NULL) return ft_fail(FT_INVALID, name, "%s %lld is missing", what, (long long)row);
    *out = text;
    *length = strlen(text);
    if (ft_utf8_valid_prefix(text, *length) == *length) return FT_OK;
    return ft_fail(FT_INVALID, name, "%s %lld is not UTF-8", what, (long long)row);
}

static ft_status fill(int64_t count, const char *const *text, const char *const *pair, const char *name, ft_table *table) {
    FT_SPILL_GROW(table->text, count + 1, "the rows of a table");
    FT_SPILL_GROW(table->text_length, count + 1, "the rows of a table");
    FT_SPILL_GROW(table->line, count + 1, "the rows of a table");
    if (pair != NULL) FT_SPILL_GROW(table->pair, count + 1, "the rows of a table");
    if (pair != NULL) FT_SPILL_GROW(table->pair_length, count + 1, "the rows of a table");
    for (int64_t i = 0; i < count; i++) {
        FT_TRY(take(name, "text", i, text[i], &table->text[i], &table->text_length[i]));
        if (pair != NULL) FT_TRY(take(name, "second text", i, pair[i], &table->pair[i], &table->pair_length[i]));
        table->line[i] = i;
    }
    table->rows = table->capacity = count;
    return FT_OK;
}

ft_status ft_table_of_texts(int64_t count, const char *const *text, const char *const *pair, const char *name, ft_table *table) {
    *table = (ft_table){.format = FT_FORMAT_TEXT, .text_column = "text", .pair_column = pair != NULL ? "pair" : NULL};
    if (count < 0 || count >= INT32_MAX) return ft_fail(FT_INVALID, name, "%lld texts at a time; from 0 to 2147483646", (long long)count);
    const ft_status status = fill(count, text, pair, name, table);
    if (status != FT_OK) ft_table_free(table);
    return status;
}
