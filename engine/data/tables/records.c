#include "engine/data/tables/records.h"

#include "base/utf8.h"
#include "engine/data/tables/formats.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ft_status ft_fail_at(const char *file, int64_t line, int64_t column, const char *format, ...) {
    char where[512], message[512];
    if (column > 0) snprintf(where, sizeof where, "%s:%lld:%lld", file, (long long)line, (long long)column);
    else snprintf(where, sizeof where, "%s:%lld", file, (long long)line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return ft_fail(FT_INVALID, where, "%s", message);
}

void ft_records_open(ft_records *r, ft_format format, const char *file, char *data, size_t length, ft_arena *arena) {
    data[length] = '\0';
    if (format == FT_FORMAT_AUTO) format = ft_format_of_content(data, length);
    *r = (ft_records){
        .format = format, .file = file, .at = data, .end = data + length, .line_start = data, .line = 1, .arena = arena};
    r->delimiter = format == FT_FORMAT_CSV ? ft_csv_delimiter(data, length) : '\t';
}

void ft_records_close(ft_records *r) {
    ft_squad_close(r);
    free(r->cells);
    r->cells = NULL;
}

ft_status ft_records_add(ft_records *r, char *text, size_t length, int64_t line, int64_t column) {
    if (r->count == r->capacity) {
        int capacity = r->capacity > 0 ? 2 * r->capacity : 16;
        ft_cell *grown = ft_realloc(r->cells, (size_t)capacity, sizeof *grown, "the cells of a line");
        if (grown == NULL) return FT_NO_MEMORY;
        r->cells = grown;
        r->capacity = capacity;
    }
    r->cells[r->count++] = (ft_cell){text, length, line, column};
    return FT_OK;
}

static int64_t column_of(const ft_records *r, const char *at) { return at - r->line_start + 1; }

static void next_line(ft_records *r, char *start) {
    r->line_start = start;
    r->line++;
}

// ---- cells --------------------------------------------------------------------------------------------------------

// At an opening quote; doubled quotes become one, in place. Ends behind the closing quote.
static ft_status quoted_cell(ft_records *r) {
    int64_t line = r->line, column = column_of(r, r->at);
    char *text = r->at + 1, *in = text, *out = text;
    for (;; in++) {
        if (in == r->end) {
            ft_status status = ft_fail_at(r->file, line, column, "this quote is never closed");
            ft_hint("a quote inside a quoted cell is written twice; data.format = tsv takes quotes as text");
            return status;
        }
        if (*in == '"' && (in + 1 == r->end || in[1] != '"')) break;
        if (*in == '"') in++;
        *out++ = *in;
        if (*in == '\n') next_line(r, in + 1);
    }
    *out = '\0';
    r->at = in + 1;
    return ft_records_add(r, text, (size_t)(out - text), line, column);
}

// Up to the delimiter or the end of the line; the terminating NUL is set when what ends it has been looked at.
static ft_status plain_cell(ft_records *r, char *line_end) {
    char *text = r->at, *stop = text < line_end ? memchr(text, r->delimiter, (size_t)(line_end - text)) : NULL;
    r->at = stop != NULL ? stop : line_end;
    return ft_records_add(r, text, (size_t)(r->at - text), r->line, column_of(r, text));
}

static char *end_of_line(const ft_records *r) {
    char *stop = r->at < r->end ? memchr(r->at, '\n', (size_t)(r->end - r->at)) : NULL;
    if (stop == NULL) stop = r->end;
    return stop > r->at && stop[-1] == '\r' ? stop - 1 : stop; // one carriage return belongs to the end
}

// Past the newline of a line whose cells end at r->at.
static void pass_line_end(ft_records *r) {
    if (r->at < r->end && *r->at == '\r') *r->at++ = '\0';
    if (r->at == r->end) return;
    *r->at++ = '\0';
    next_line(r, r->at);
}

static ft_status behind_quotes(const ft_records *r) {
    ft_status status = ft_fail_at(r->file, r->line, column_of(r, r->at), "text behind a closing quote");
    ft_hint("a quote inside a quoted cell is written twice; data.format = tsv takes quotes as text");
    return status;
}

static ft_status cut_line(ft_records *r) {
    r->count = 0;
    r->record_line = r->line;
    char *line_end = end_of_line(r);
    for (;;) {
        if (r->format == FT_FORMAT_CSV && r->at < line_end && *r->at == '"') {
            int64_t line = r->line;
            FT_TRY(quoted_cell(r));
            if (r->line != line || r->at > line_end) line_end = end_of_line(r);
            if (r->at < line_end && *r->at != r->delimiter) return behind_quotes(r);
        } else {
            FT_TRY(plain_cell(r, line_end));
        }
        if (r->at == line_end) break;
        *r->at++ = '\0';
    }
    ft_cell *last = &r->cells[r->count - 1];
    pass_line_end(r);
    last->text[last->length] = '\0';
    return FT_OK;
}

// ---- records ------------------------------------------------------------------------------------------------------

static bool only_empty_lines_left(const ft_records *r) {
    for (const char *c = r->at; c < r->end; c++)
        if (*c != '\n' && !(*c == '\r' && (c + 1 == r->end || c[1] == '\n'))) return false;
    return true;
}

static void skip_empty_lines(ft_records *r) {
    while (r->at < r->end && end_of_line(r) == r->at) pass_line_end(r);
}

static ft_status wrong_count(const ft_records *r, int columns) {
    const ft_cell *at = r->count > columns ? &r->cells[columns] : &r->cells[r->count - 1];
    int64_t column = at->column + (r->count > columns ? 0 : (int64_t)at->length);
    ft_status status = ft_fail_at(r->file, at->line, column, "this line has %d column%s, the header has %d", r->count,
                                  r->count == 1 ? "" : "s", columns);
    if (r->count > columns && r->format == FT_FORMAT_TSV)
        ft_hint("a text must not hold a tab: quotes do not protect it in TSV; data.format = csv reads quoted cells");
    else if (r->count > columns) ft_hint("a cell that holds '%c' is put in quotes", r->delimiter);
    return status;
}

ft_status ft_records_next(ft_records *r, int columns, bool *found) {
    if (r->format == FT_FORMAT_JSONL) return ft_json_record_next(r, found);
    if (r->format == FT_FORMAT_CONLL) return ft_conll_record_next(r, found);
    if (r->format == FT_FORMAT_SQUAD) return ft_squad_record_next(r, found);
    // With one column an empty line is an empty text: dropping it would shift the rows of predictions.
    if (columns > 1 && r->format == FT_FORMAT_CSV) skip_empty_lines(r);
    bool end = columns > 1 && r->at < r->end && (*r->at == '\n' || *r->at == '\r') && only_empty_lines_left(r);
    *found = r->at < r->end && !end;
    if (!*found) return FT_OK;
    FT_TRY(cut_line(r));
    return r->count == columns ? FT_OK : wrong_count(r, columns);
}

// ---- the header ---------------------------------------------------------------------------------------------------

static ft_status check_header_bytes(const ft_records *r) {
    char *end = end_of_line(r);
    size_t length = (size_t)(end - r->at);
    if (memchr(r->at, '\0', length) != NULL) return ft_fail_at(r->file, 1, 0, "a NUL byte in the header: this is no text file");
    if (ft_utf8_valid_prefix(r->at, length) != length) return ft_fail_at(r->file, 1, 0, "the header is not valid UTF-8");
    if (memchr(r->at, '\r', length) != NULL)
        return ft_fail_at(r->file, 1, 0, "lines end in a carriage return alone: convert them to newlines");
    return FT_OK;
}

// Without the blanks around it.
static char *trimmed(ft_cell *cell) {
    char *text = cell->text + strspn(cell->text, " ");
    for (size_t n = strlen(text); n > 0 && text[n - 1] == ' '; n--) text[n - 1] = '\0';
    return text;
}

ft_status ft_records_header(ft_records *r, int *count, const char *const **names) {
    if (r->format == FT_FORMAT_JSONL || r->format == FT_FORMAT_CONLL || r->format == FT_FORMAT_SQUAD) {
        FT_TRY((r->format == FT_FORMAT_JSONL   ? ft_json_record_keys
                : r->format == FT_FORMAT_CONLL ? ft_conll_record_keys
                                               : ft_squad_record_keys)(r));
        *count = r->key_count;
        *names = r->keys;
        return FT_OK;
    }
    FT_TRY(check_header_bytes(r));
    FT_TRY(cut_line(r));
    const char **list = ft_arena_alloc(r->arena, (size_t)r->count * sizeof *list);
    if (list == NULL) return FT_NO_MEMORY;
    bool any = false;
    for (int i = 0; i < r->count; i++) {
        list[i] = trimmed(&r->cells[i]);
        any = any || *list[i] != '\0';
    }
    *count = r->count;
    *names = list;
    return any ? FT_OK : ft_fail_at(r->file, 1, 0, "no header: the first line must name the columns");
}
