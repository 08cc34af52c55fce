#include "engine/data/tables/table.h"

#include "base/files.h"
#include "base/sha256.h"
#include "base/spill.h"
#include "base/utf8.h"
#include "engine/data/tables/blocks.h"
#include "engine/data/tables/columns.h"
#include "engine/data/tables/formats.h"
#include "engine/data/tables/kinds.h"
#include "engine/data/tables/parquet.h"
#include "engine/data/tables/records.h"
#include "engine/data/tables/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    PIECE = 4 << 20, // bytes of a large file that are in memory
    FEW = 1 << 15    // rows
};

const char *ft_table_where(const ft_table *table, const char *path, int64_t row, char where[512]) {
    snprintf(where, 512, "%.480s:%lld", ft_source_display(path), (long long)table->line[row]);
    return where;
}

// ---- rows that grow -----------------------------------------------------------------------------------------------

ft_status ft_table_room_for_row(ft_table *table, const ft_selection *chosen) {
    if (table->rows < table->capacity) return FT_OK;
    const int64_t before = table->capacity, capacity = before < FEW ? 2 * before + 256 : before + before / 4; // what is not used is planned too
    FT_SPILL_GROW(table->text, capacity, "the rows of a table");
    FT_SPILL_GROW(table->text_length, capacity, "the rows of a table");
    FT_SPILL_GROW(table->line, capacity, "the rows of a table");
    if (chosen->pair != FT_NO_COLUMN) {
        FT_SPILL_GROW(table->pair, capacity, "the rows of a table");
        FT_SPILL_GROW(table->pair_length, capacity, "the rows of a table");
    }
    if (chosen->label_count > 0) FT_SPILL_GROW(table->label, capacity, "the rows of a table");
    if (chosen->id != FT_NO_COLUMN) FT_SPILL_GROW(table->id, capacity, "the rows of a table");
    table->capacity = capacity;
    return FT_OK;
}

// ---- cells --------------------------------------------------------------------------------------------------------

static bool is_list(const ft_cell *cell) { return cell->length > 0 && cell->text[cell->length - 1] == FT_LIST_SEPARATOR; }

static ft_status text_cell(const ft_records *r, const ft_cell *cell, const char **text, size_t *length) {
    if (r->questions && memchr(cell->text, '\0', cell->length) != NULL) return ft_fail_at(r->file, cell->line, 0, "a NUL byte in the text");
    if (r->format == FT_FORMAT_JSONL && is_list(cell) && !r->words && !r->language)
        return ft_fail_at(r->file, cell->line, cell->column, "the text is a list, not a string");
    *text = cell->text;
    *length = cell->length;
    return FT_OK;
}

// A label or an id: a C string.
static ft_status plain_cell(const ft_records *r, const ft_cell *cell, const char *role, const char **out) {
    if (memchr(cell->text, '\0', cell->length) != NULL)
        return ft_fail_at(r->file, cell->line, cell->column, "a NUL byte in the %s", role);
    if (ft_utf8_valid_prefix(cell->text, cell->length) != cell->length)
        return ft_fail_at(r->file, cell->line, cell->column, "the %s is not valid UTF-8", role);
    // Lists, which only JSON has, are told by it.
    if (r->format != FT_FORMAT_JSONL && r->format != FT_FORMAT_CONLL && r->format != FT_FORMAT_SQUAD && memchr(cell->text, FT_LIST_SEPARATOR, cell->length) != NULL)
        return ft_fail_at(r->file, cell->line, cell->column, "the control character 0x%02X in the %s", FT_LIST_SEPARATOR, role);
    *out = cell->text;
    return FT_OK;
}

// The values of several columns, each followed by the separator.
static ft_status label_cells(ft_table *table, const ft_records *r, const ft_selection *chosen, const char **out) {
    size_t bytes = 1, at = 0;
    for (int i = 0; i < chosen->label_count; i++) {
        const ft_cell *cell = &r->cells[chosen->label[i]];
        FT_TRY(plain_cell(r, cell, "label", out));
        if (cell->length == 0)
            return ft_fail_at(r->file, cell->line, cell->column, "the label \"%.100s\" is empty", table->label_column_name[i]);
        if (strchr(cell->text, FT_LIST_SEPARATOR) != NULL)
            return ft_fail_at(r->file, cell->line, cell->column, "a list in one of several label columns");
        bytes += cell->length + 1;
    }
    char *joined = ft_arena_alloc(&table->arena, bytes);
    if (joined == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < chosen->label_count; i++) {
        const ft_cell *cell = &r->cells[chosen->label[i]];
        memcpy(joined + at, cell->text, cell->length);
        at += cell->length;
        joined[at++] = FT_LIST_SEPARATOR;
    }
    *out = joined;
    return FT_OK;
}

static ft_status take_row(ft_table *table, const ft_records *r, const ft_selection *chosen) {
    int64_t row = table->rows;
    if (row == INT32_MAX) return ft_fail_at(r->file, r->record_line, 0, "more than 2147483647 rows");
    FT_TRY(ft_table_room_for_row(table, chosen));
    table->line[row] = r->record_line;
    FT_TRY(text_cell(r, &r->cells[chosen->text], &table->text[row], &table->text_length[row]));
    if (chosen->pair != FT_NO_COLUMN) FT_TRY(text_cell(r, &r->cells[chosen->pair], &table->pair[row], &table->pair_length[row]));
    if (chosen->label_count == 1) FT_TRY(plain_cell(r, &r->cells[chosen->label[0]], "label", &table->label[row]));
    if (chosen->label_count > 1) FT_TRY(label_cells(table, r, chosen, &table->label[row]));
    table->label_lists =
        table->label_lists || chosen->label_count > 1 || (chosen->label_count == 1 && is_list(&r->cells[chosen->label[0]]));
    if (chosen->id != FT_NO_COLUMN) FT_TRY(plain_cell(r, &r->cells[chosen->id], "id", &table->id[row]));
    table->rows++;
    return FT_OK;
}

// An optional label column without any label is no label column; a few empty labels are a mistake.
static ft_status check_labels(ft_table *table, const char *file, ft_table_label need) {
    int64_t empty = 0, first = 0;
    for (int64_t i = table->rows - 1; i >= 0; i--) {
        if (*table->label[i] != '\0') continue;
        empty++;
        first = i;
    }
    if (empty == 0) return FT_OK;
    if (empty == table->rows && need == FT_LABEL_OPTIONAL) {
        ft_spill_free(table->label);
        table->label = NULL;
        table->label_column = NULL;
        table->label_columns = 0;
        return FT_OK;
    }
    ft_status status = ft_fail_at(file, table->line[first], 0, "the label is empty (column \"%.100s\")", table->label_column);
    if (empty > 1) ft_hint("so it is in %lld rows", (long long)empty);
    return status;
}

// ---- a whole table ------------------------------------------------------------------------------------------------

ft_status ft_table_name_columns(ft_table *table, const ft_table_layout *l) {
    const ft_selection *chosen = &l->chosen;
    table->text_column = l->usual_text ? "" : l->names[chosen->text];
    table->pair_column = chosen->pair != FT_NO_COLUMN ? l->names[chosen->pair] : NULL;
    table->label_columns = chosen->label_count;
    table->label_column_name =
        ft_arena_alloc(&table->arena, ((size_t)chosen->label_count + 1) * sizeof *table->label_column_name);
    if (table->label_column_name == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < chosen->label_count; i++) {
        const char *name = l->names[chosen->label[i]];
        table->label_column_name[i] = name;
        table->label_column = l->usual_label ? "" : i == 0 ? name : ft_arena_format(&table->arena, "%s, %s", table->label_column, name);
        if (table->label_column == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

static ft_status wanted_columns(ft_table_layout *l) {
    const ft_selection *chosen = &l->chosen;
    l->wanted = ft_arena_alloc(&l->arena, (size_t)l->columns + 1);
    if (l->wanted == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < chosen->label_count; i++) l->wanted[chosen->label[i]] = true;
    l->wanted[chosen->text] = true;
    if (chosen->pair != FT_NO_COLUMN) l->wanted[chosen->pair] = true;
    if (chosen->id != FT_NO_COLUMN) l->wanted[chosen->id] = true;
    return FT_OK;
}

static ft_status read_header(ft_records *r, const ft_table_request *request, ft_table_layout *l) {
    ft_columns columns = {.file = r->file};
    FT_TRY(ft_records_header(r, &columns.count, &columns.name));
    const char **names = ft_arena_alloc(&l->arena, (size_t)columns.count * sizeof *names);
    if (names == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < columns.count; i++) // they lie in the text, or in the table's arena
        if ((names[i] = ft_arena_strdup(&l->arena, columns.name[i])) == NULL) return FT_NO_MEMORY;
    columns.name = names;
    columns.numbered = r->format == FT_FORMAT_CONLL;
    l->usual_text = columns.numbered && (request->text == NULL || request->text[0] == '\0');
    l->usual_label = columns.numbered && (request->label == NULL || request->label[0] == '\0');
    FT_TRY(ft_columns_select(&columns, request, &l->arena, &l->chosen));
    l->columns = columns.count;
    l->names = names;
    return wanted_columns(l);
}

static ft_status read_rows(ft_table *table, ft_records *r, const ft_table_request *request, ft_table_layout *l) {
    if (l->columns == 0) FT_TRY(read_header(r, request, l));
    r->keys = l->names;
    r->key_count = l->columns;
    r->wanted = l->wanted;
    FT_TRY(ft_table_name_columns(table, l));
    for (bool found = true;;) {
        FT_TRY(ft_records_next(r, l->columns, &found));
        if (!found) return FT_OK;
        FT_TRY(take_row(table, r, &l->chosen));
    }
}

// Every line is a text; so is an empty one between others.
static ft_status read_lines(ft_table *table, char *at, char *end, int64_t line) {
    const ft_selection chosen = {.pair = FT_NO_COLUMN, .id = FT_NO_COLUMN};
    table->text_column = "text";
    *end = '\0';
    for (; at < end; line++) {
        char *stop = memchr(at, '\n', (size_t)(end - at)), *next = stop != NULL ? stop + 1 : end;
        if (stop == NULL) stop = end;
        if (stop > at && stop[-1] == '\r') stop--;
        FT_TRY(ft_table_room_for_row(table, &chosen));
        table->text[table->rows] = at;
        table->text_length[table->rows] = (size_t)(stop - at);
        table->line[table->rows] = line;
        table->rows++;
        *stop = '\0';
        at = next;
    }
    return FT_OK;
}

// Where anything may be plain text: JSON lines begin like an object, tables have a header with a column for the text and
// another one.
static ft_status format_or_plain(const ft_table_request *request, const char *file, const char *data, size_t length,
                                 ft_format *format) {
    *format = ft_format_of_content(data, length);
    if (*format == FT_FORMAT_JSONL && (data[0] == '{' || ft_json_is_list(data, length))) return FT_OK;
    const char *stop = memchr(data, '\n', length);
    size_t line = stop != NULL ? (size_t)(stop - data) : length;
    if (*format != FT_FORMAT_JSONL && line > 0) {
        ft_arena arena = {0};
        char *copy = ft_arena_strndup(&arena, data, line);
        if (copy == NULL) return FT_NO_MEMORY;
        ft_records r;
        ft_columns columns = {.file = file};
        ft_records_open(&r, *format, file, copy, strlen(copy), &arena);
        bool table = ft_records_header(&r, &columns.count, &columns.name) == FT_OK && columns.count > 1 &&
                     ft_columns_have_text(&columns, request);
        ft_records_close(&r);
        ft_arena_free(&arena);
        ft_error_clear(); // a first line that is no header is no mistake here
        if (table) return FT_OK;
    }
    *format = FT_FORMAT_TEXT;
    return FT_OK;
}

// Of words with tags there are no other columns than CoNLL's, whatever a file is called.
static ft_format words_format(const ft_table_request *request, ft_format named, const char *data, size_t length) {
    if (ft_format_of_content(data, length) == FT_FORMAT_JSONL && (data[0] != '[' || ft_json_is_list(data, length))) return FT_FORMAT_JSONL;
    return request->plain && named == FT_FORMAT_AUTO && !ft_content_is_tagged(data, length) ? FT_FORMAT_TEXT : FT_FORMAT_CONLL;
}

ft_status ft_table_format(const ft_table_request *request, const char *name, const char *data, size_t length, ft_format *format) {
    *format = request->format;
    if (*format == FT_FORMAT_AUTO) *format = ft_format_of_name(name);
    if (request->words && (*format == FT_FORMAT_AUTO || *format == FT_FORMAT_TSV)) {
        *format = words_format(request, *format, data, length);
        return FT_OK;
    }
    if (request->questions && *format == FT_FORMAT_AUTO && ft_content_is_squad(data, length)) {
        *format = FT_FORMAT_SQUAD;
        return FT_OK;
    }
    if (*format != FT_FORMAT_AUTO) return FT_OK;
    if ((request->plain || request->language) && !request->questions) return format_or_plain(request, name, data, length, format);
    *format = ft_format_of_content(data, length);
    return FT_OK;
}

static ft_status begin(const ft_table *table, size_t length, const char *file, const ft_table_request *request, ft_table_layout *l) {
    l->line = 1;
    if (length == 0) {
        if (request->plain || request->format == FT_FORMAT_TEXT) return ft_fail(FT_INVALID, file, "no text: the file is empty");
        return ft_fail_at(file, 1, 0, "the file is empty: no header, no rows");
    }
    FT_TRY(ft_table_format(request, file, table->data, length, &l->format));
    if (l->format == FT_FORMAT_CSV) l->delimiter = ft_csv_delimiter(table->data, length);
    if (l->format != FT_FORMAT_TEXT) return FT_OK;
    if (request->need == FT_LABEL_REQUIRED && !request->language) return ft_fail(FT_INVALID, file, "plain text has no labels");
    if (request->id != NULL) return ft_fail(FT_INVALID, file, "plain text has no column of ids");
    if (request->pair != NULL && *request->pair != '\0') return ft_fail(FT_INVALID, file, "plain text has no second texts");
    return FT_OK;
}

static ft_status parse_piece(ft_table *table, size_t length, const char *file, const ft_table_request *request, ft_table_layout *l) {
    if (l->line == 0) FT_TRY(begin(table, length, file, request, l));
    table->format = l->format;
    if (l->format == FT_FORMAT_TEXT) {
        FT_TRY(read_lines(table, table->data, table->data + length, l->line));
        l->line += table->rows;
        return FT_OK;
    }
    ft_records records;
    ft_records_open(&records, l->format, file, table->data, length, &table->arena);
    records.line = l->line;
    if (l->format == FT_FORMAT_CSV) records.delimiter = l->delimiter;
    records.values = records.format == FT_FORMAT_JSONL && l->line == 1 && ft_json_is_values(table->data, length);
    records.words = request->words;
    records.questions = request->questions;
    records.language = request->language;
    if (l->format != FT_FORMAT_JSONL && l->format != FT_FORMAT_CONLL && l->format != FT_FORMAT_SQUAD) table->delimiter = records.delimiter;
    ft_status status = read_rows(table, &records, request, l);
    l->line = records.line;
    ft_records_close(&records);
    return status;
}

ft_status ft_table_parse_piece(char *data, size_t length, const char *name, const ft_table_request *request,
                               ft_table_layout *layout, ft_table *table) {
    memset(table, 0, sizeof *table);
    table->data = data;
    ft_status status = parse_piece(table, length, name, request, layout);
    if (status != FT_OK) ft_table_free(table);
    return status;
}

ft_status ft_table_check_rows(ft_table *table, const char *file, const ft_table_request *request) {
    if (table->rows == 0 && table->format == FT_FORMAT_SQUAD) return ft_fail(FT_INVALID, file, "no questions");
    if (table->rows == 0 && table->format == FT_FORMAT_CONLL) return ft_fail_at(file, 1, 0, "no sentences");
    if (table->rows == 0) return ft_fail_at(file, 2, 0, "no rows behind the header");
    return table->label != NULL && !request->empty_labels && !table->label_lists ? check_labels(table, file, request->need) : FT_OK;
}

void ft_table_layout_free(ft_table_layout *layout) {
    ft_arena_free(&layout->arena);
    *layout = (ft_table_layout){0};
}

static ft_status parse(ft_table *table, size_t length, size_t most, const char *file, const ft_table_request *request) {
    ft_encoding encoding = FT_ENCODING_UNKNOWN;
    ft_table_layout layout = {0};
    FT_TRY(ft_sha256(table->data, length, table->sha256));
    FT_TRY(ft_refuse_kind(file, table->data, length));
    FT_TRY(ft_source_unpack(file, most, &table->data, &length));
    FT_TRY(ft_source_to_utf8(file, &encoding, &table->data, &length));
    ft_status status = parse_piece(table, length, file, request, &layout);
    ft_arena_join(&table->arena, &layout.arena); // the names of the columns
    FT_TRY(status);
    return ft_table_check_rows(table, file, request);
}

ft_status ft_table_parse(char *data, size_t length, size_t most, const char *name, const ft_table_request *request,
                         ft_table *table) {
    memset(table, 0, sizeof *table);
    table->data = data;
    ft_status status = parse(table, length, most, name, request);
    if (status != FT_OK) ft_table_free(table);
    return status;
}

// A file of which much, or much more, would be in memory: packed texts are several times their file.
static bool is_large(const char *path) {
    struct stat facts;
    char first[8];
    if (strcmp(path, "-") == 0 || stat(path, &facts) != 0 || !S_ISREG(facts.st_mode)) return false;
    if (facts.st_size >= FT_TABLE_LARGE) return true;
    FILE *file = facts.st_size >= FT_TABLE_LARGE / 8 ? fopen(path, "rbe") : NULL;
    if (file == NULL) return false;
    const size_t got = fread(first, 1, sizeof first, file);
    const bool packed = ft_source_packing(first, got) != FT_CODING_NONE || ft_is_parquet(first, got);
    fclose(file);
    return packed;
}

// Of a file that is not its own rows: all of these at once.
static ft_status read_rows_whole(const char *path, const ft_table_request *request, ft_table *table) {
    unsigned char digest[32];
    ft_sha256_state hash;
    ft_blocks blocks;
    bool found;
    ft_sha256_begin(&hash);
    ft_status status = ft_blocks_open(path, request, SIZE_MAX, &blocks);
    blocks.hash = &hash;
    if (status == FT_OK) status = ft_blocks_next(&blocks, table, &found);
    if (status == FT_OK) {
        ft_sha256_end(&hash, digest);
        ft_sha256_hex(digest, table->sha256);
        ft_arena_join(&table->arena, &blocks.layout.arena); // the names of the columns
        status = ft_table_check_rows(table, path, request);
    }
    if (status != FT_OK) ft_table_free(table);
    ft_blocks_close(&blocks);
    return status;
}

ft_status ft_table_read(const char *path, const ft_table_request *request, ft_table *table) {
    memset(table, 0, sizeof *table);
    const bool words = request->format == FT_FORMAT_CONLL || request->words || request->questions; // rows need not end with a line
    if (!words && is_large(path)) return ft_table_read_large(path, request, PIECE, table);
    if (ft_file_is_parquet(path)) return read_rows_whole(path, request, table);
    char *data = NULL;
    size_t length = 0;
    FT_TRY(ft_refuse_address(path));
    FT_TRY(ft_source_load(path, &data, &length));
    return ft_table_parse(data, length, SIZE_MAX / 4, ft_source_display(path), request, table);
}

void ft_table_forget_rows(ft_table *table) {
    ft_spill_free(table->text);
    ft_spill_free(table->text_length);
    ft_spill_free(table->pair);
    ft_spill_free(table->pair_length);
    ft_spill_free(table->label);
    ft_spill_free(table->id);
    ft_spill_free(table->line);
    free(table->data);
    ft_table_free_chunks(table);
    table->text = table->pair = table->label = table->id = NULL;
    table->text_length = table->pair_length = NULL;
    table->line = NULL;
    table->data = NULL;
    table->rows = table->capacity = 0;
}

size_t ft_table_rows_bytes(const ft_table *t) {
    const void *const arrays[] = {t->text, t->text_length, t->pair, t->pair_length, t->label, t->id, t->line};
    size_t bytes = ft_heap_large_bytes(t->data);
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        const size_t own = ft_spill_host_bytes(arrays[i]);
        if (own >= FT_HEAP_LARGE) bytes += own;
    }
    return bytes;
}

void ft_table_free(ft_table *table) {
    ft_table_forget_rows(table);
    ft_arena_free(&table->arena);
    memset(table, 0, sizeof *table);
}
