#include "engine/report/page_texts.h"

#include "base/files.h"
#include "engine/data/tables/blocks.h"
#include "engine/data/tables/formats.h"

#include <string.h>

enum { PIECE = 1 << 20 };

// At most so many bytes of a text, cut between characters.
static const char *shortened(const ft_table *t, int64_t row, ft_arena *arena) {
    const char *second = t->pair != NULL ? t->pair[row] : NULL;
    char *whole = ft_arena_format(arena, "%.*s%s%.*s", FT_PAGE_TEXT_BYTES + 4, t->text[row], second != NULL ? " | " : "",
                                  second != NULL ? FT_PAGE_TEXT_BYTES : 0, second != NULL ? second : "");
    if (whole == NULL || strlen(whole) <= FT_PAGE_TEXT_BYTES) return whole;
    size_t end = FT_PAGE_TEXT_BYTES;
    while (end > 0 && ((unsigned char)whole[end] & 0xC0) == 0x80) end--;
    memcpy(whole + end, "...", 4);
    return whole;
}

static ft_status take_rows(const ft_table *t, int64_t first, int count, ft_page_text *texts, ft_arena *arena, int *found) {
    for (int k = 0; k < count; k++) {
        const int64_t row = texts[k].id - first;
        if (row < 0 || row >= t->rows) continue;
        texts[k].text = shortened(t, row, arena);
        if (texts[k].text == NULL) return FT_NO_MEMORY;
        ++*found;
    }
    return FT_OK;
}

static ft_status read_rows(const char *path, const ft_table_request *request, int count, ft_page_text *texts, ft_arena *arena) {
    ft_blocks blocks;
    ft_status status = ft_blocks_open(path, request, PIECE, &blocks);
    int64_t first = 0;
    bool more = true;
    for (int found = 0; status == FT_OK && found < count;) {
        ft_table table;
        status = ft_blocks_next(&blocks, &table, &more);
        if (status != FT_OK || !more) break;
        status = take_rows(&table, first, count, texts, arena, &found);
        first += table.rows;
        ft_table_free(&table);
    }
    ft_blocks_close(&blocks);
    return status;
}

static const char *text_of(const json_t *data, const char *key) { return json_string_value(json_object_get(data, key)); }

ft_status ft_page_find_texts(const ft_run_record *run, const char *split, int count, ft_page_text *texts, ft_arena *arena,
                             const char **why) {
    const json_t *data = json_object_get(json_object_get(run->run, "data"), split);
    const char *path = text_of(data, "path"), *hash = text_of(data, "sha256"), *text = text_of(data, "text_column"),
               *pair = text_of(data, "pair_column"), *format = ft_run_option(run, "data.format");
    char now[65];
    *why = NULL;
    if (path == NULL || hash == NULL || text == NULL || count == 0) return FT_OK; // a run that has not ended, or an old one
    if (ft_sha256_file(path, now) != FT_OK) *why = "Its texts are not shown: the file cannot be read any more.";
    else if (strcmp(hash, now) != 0) *why = "Its texts are not shown: the file was changed since.";
    if (*why != NULL) return ft_error_clear(), FT_OK;
    ft_table_request request = {.text = text, .pair = pair, .need = FT_LABEL_IGNORED};
    if (format != NULL) ft_format_from_name(format, &request.format);
    return read_rows(path, &request, count, texts, arena);
}
