// lines.c - plain text as a table: one text a line.
#include "engine/data/table.h"

#include "engine/io/files.h"

#include <string.h>

static int64_t count_lines(const char *data, size_t length) {
    int64_t lines = 0;
    for (size_t i = 0; i < length; i++) lines += data[i] == '\n';
    return lines + (length > 0 && data[length - 1] != '\n');
}

static ft_status split(ft_table *table, size_t length, const char *path) {
    const char *at = table->data, *end = table->data + length;
    if (length >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) at += 3;
    int64_t lines = count_lines(at, (size_t)(end - at));
    if (lines == 0) return ft_fail(FT_INVALID, ft_table_display(path), "no text: the file is empty");
    table->text = ft_arena_alloc(&table->arena, (size_t)lines * sizeof *table->text);
    table->text_length = ft_arena_alloc(&table->arena, (size_t)lines * sizeof *table->text_length);
    if (table->text == NULL || table->text_length == NULL) return FT_NO_MEMORY;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        size_t n = (size_t)(stop - at);
        table->text[table->rows] = at;
        table->text_length[table->rows++] = n > 0 && at[n - 1] == '\r' ? n - 1 : n;
        at = stop + (stop < end);
    }
    return ft_sha256(table->data, length, table->sha256);
}

ft_status ft_table_read_lines(const char *path, ft_table *table) {
    memset(table, 0, sizeof *table);
    size_t length;
    FT_TRY(ft_table_load(path, &table->data, &length));
    table->text_column = "text";
    ft_status status = split(table, length, path);
    if (status != FT_OK) ft_table_free(table);
    return status;
}
