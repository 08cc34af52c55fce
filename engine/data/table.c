#include "engine/data/table.h"

#include "engine/config/config.h"
#include "engine/io/files.h"
#include "engine/text/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Usual names, best first: where a file has several of them, the earlier one is meant.
static const char *const TEXT_NAMES[] = {"sentence", "text",      "review",  "question", "content",
                                         "comment",  "tweet",     "message", "document", "snippet",
                                         "phrase",   "utterance", "query",   "body",     "title"};
static const char *const LABEL_NAMES[] = {"label",     "labels", "class",  "category",   "target",
                                          "sentiment", "intent", "rating", "gold_label", "topic"};
static const char *const ID_NAMES[] = {"id", "idx", "index", "guid", "sentence_id", "row_id"};
enum {
    NAMES_TEXT = sizeof TEXT_NAMES / sizeof *TEXT_NAMES,
    NAMES_LABEL = sizeof LABEL_NAMES / sizeof *LABEL_NAMES,
    NAMES_ID = sizeof ID_NAMES / sizeof *ID_NAMES
};

enum { NO_COLUMN = -1 };

typedef struct header {
    int count;
    const char **name;
    const char *file;
} header;

// The columns that are read.
typedef struct selection {
    int text, label, id;
} selection;

const char *ft_table_display(const char *path) { return strcmp(path, "-") == 0 ? "<stdin>" : path; }

static ft_status fail_at(const char *file, int64_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));
static ft_status fail_at(const char *file, int64_t line, const char *format, ...) {
    char where[512], message[512];
    snprintf(where, sizeof where, "%s:%lld", file, (long long)line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return ft_fail(FT_INVALID, where, "%s", message);
}

// ---- the header ---------------------------------------------------------------------------------------------------

static void hint_columns(const header *columns) {
    char list[400] = "";
    size_t used = 0;
    for (int i = 0; i < columns->count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", columns->name[i]);
    for (char *c = list; *c != '\0'; c++) // the file may be no text at all, and this goes to a terminal
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    ft_hint("the header has %d column%s: %s%s", columns->count, columns->count == 1 ? "" : "s", list,
            used >= sizeof list ? "..." : "");
    if (columns->count == 1 && (strchr(list, ',') != NULL || strchr(list, ';') != NULL))
        ft_hint("columns are separated by tabs (TSV)");
}

static ft_status split_header(char *line, size_t length, const char *file, ft_arena *arena, header *columns) {
    if (memchr(line, '\0', length) != NULL) return fail_at(file, 1, "a NUL byte in the header: this is no text file");
    if (ft_utf8_valid_prefix(line, length) != length) return fail_at(file, 1, "the header is not valid UTF-8");
    if (memchr(line, '\r', length) != NULL)
        return fail_at(file, 1, "lines end in a carriage return alone: convert them to newlines");
    line[length] = '\0';
    columns->file = file;
    columns->count = 1;
    for (size_t i = 0; i < length; i++)
        columns->count += line[i] == '\t';
    columns->name = ft_arena_alloc(arena, (size_t)columns->count * sizeof *columns->name);
    if (columns->name == NULL) return FT_NO_MEMORY;
    bool any = false;
    for (int i = 0; i < columns->count; i++) {
        size_t width = strcspn(line, "\t"), end = width, skip = strspn(line, " ");
        char *next = line + width + 1;
        while (end > skip && line[end - 1] == ' ')
            end--;
        line[width] = line[end] = '\0';
        columns->name[i] = skip < end ? line + skip : "";
        any = any || skip < end;
        line = next;
    }
    return any ? FT_OK : fail_at(file, 1, "no header: the first line must name the columns");
}

static ft_status find_given(const header *columns, const char *name, const char *role, bool optional, int *column) {
    *column = NO_COLUMN;
    for (int i = 0; i < columns->count; i++) {
        if (strcmp(columns->name[i], name) != 0) continue;
        if (*column != NO_COLUMN) return fail_at(columns->file, 1, "two columns are named \"%s\"", name);
        *column = i;
    }
    if (*column != NO_COLUMN || optional) return FT_OK;
    ft_status status = fail_at(columns->file, 1, "no column \"%s\" for the %s", name, role);
    const char *near = ft_nearest(name, columns->count, columns->name);
    if (near != NULL) ft_hint("did you mean \"%s\"?", near);
    hint_columns(columns);
    return status;
}

static ft_status find_usual(const header *columns, const char *const *names, int count, const selection *taken,
                            int *column) {
    for (int n = 0; n < count; n++) {
        for (int i = 0; i < columns->count; i++) {
            if (strcasecmp(columns->name[i], names[n]) != 0) continue;
            if (i == taken->text || i == taken->label || i == taken->id) continue;
            return find_given(columns, columns->name[i], "", false, column); // refuses a name that stands there twice
        }
    }
    return FT_OK;
}

static ft_status fail_unfound(const header *columns, const char *role, const char *option) {
    ft_status status = fail_at(columns->file, 1, "no %s column found by its name", role);
    hint_columns(columns);
    if (option != NULL) ft_hint("name it with %s=NAME", option);
    return status;
}

static bool given(const char *name) { return name != NULL && *name != '\0'; }

// Columns named by the user come first, so that a usual name never takes one of them for something else.
static ft_status select_columns(const header *columns, const char *text, const char *label, const char *id,
                                ft_table_label need, selection *chosen) {
    *chosen = (selection){NO_COLUMN, NO_COLUMN, NO_COLUMN};
    bool label_wanted = need != FT_LABEL_IGNORED;
    if (given(text)) FT_TRY(find_given(columns, text, "text", false, &chosen->text));
    if (given(label) && label_wanted)
        FT_TRY(find_given(columns, label, "label", need == FT_LABEL_OPTIONAL, &chosen->label));
    if (given(id)) FT_TRY(find_given(columns, id, "id", false, &chosen->id));
    if (!given(text)) FT_TRY(find_usual(columns, TEXT_NAMES, NAMES_TEXT, chosen, &chosen->text));
    if (!given(label) && label_wanted) FT_TRY(find_usual(columns, LABEL_NAMES, NAMES_LABEL, chosen, &chosen->label));
    if (id != NULL && !given(id)) FT_TRY(find_usual(columns, ID_NAMES, NAMES_ID, chosen, &chosen->id));

    if (chosen->text == NO_COLUMN) return fail_unfound(columns, "text", "data.text_column");
    if (chosen->label == NO_COLUMN && need == FT_LABEL_REQUIRED)
        return fail_unfound(columns, "label", "data.label_column");
    if (chosen->id == NO_COLUMN && id != NULL) return fail_unfound(columns, "id", NULL);
    if (chosen->text == chosen->label) return fail_at(columns->file, 1, "text and label are the same column");
    return FT_OK;
}

// ---- the rows -----------------------------------------------------------------------------------------------------

static ft_status allocate_rows(ft_table *table, int64_t rows, const selection *chosen) {
    size_t count = (size_t)rows;
    table->text = ft_arena_alloc(&table->arena, count * sizeof *table->text);
    table->text_length = ft_arena_alloc(&table->arena, count * sizeof *table->text_length);
    if (table->text == NULL || table->text_length == NULL) return FT_NO_MEMORY;
    if (chosen->label != NO_COLUMN) {
        table->label = ft_arena_alloc(&table->arena, count * sizeof *table->label);
        if (table->label == NULL) return FT_NO_MEMORY;
    }
    if (chosen->id != NO_COLUMN) {
        table->id = ft_arena_alloc(&table->arena, count * sizeof *table->id);
        if (table->id == NULL) return FT_NO_MEMORY;
    }
    return FT_OK;
}

// A label or an id: a C string.
static ft_status plain_cell(const char *cell, size_t length, const char *role, const char *file, int64_t line,
                            const char **out) {
    if (memchr(cell, '\0', length) != NULL) return fail_at(file, line, "a NUL byte in the %s", role);
    if (ft_utf8_valid_prefix(cell, length) != length) return fail_at(file, line, "the %s is not valid UTF-8", role);
    *out = cell;
    return FT_OK;
}

// Cuts one line into its cells, in place: line[length] is writable and becomes a NUL.
static ft_status read_row(ft_table *table, char *line, size_t length, const header *columns, const selection *chosen) {
    int64_t row = table->rows, number = row + 2;
    char *end = line + length;
    *end = '\0';
    int cells = 0;
    for (char *cell = line, *next; cell != NULL; cell = next, cells++) {
        char *stop = memchr(cell, '\t', (size_t)(end - cell));
        next = stop != NULL ? stop + 1 : NULL;
        if (stop == NULL) stop = end;
        *stop = '\0';
        size_t width = (size_t)(stop - cell);
        if (cells == chosen->text) {
            table->text[row] = cell;
            table->text_length[row] = width;
        }
        if (cells == chosen->label) FT_TRY(plain_cell(cell, width, "label", columns->file, number, &table->label[row]));
        if (cells == chosen->id) FT_TRY(plain_cell(cell, width, "id", columns->file, number, &table->id[row]));
    }
    if (cells != columns->count) {
        ft_status status = fail_at(columns->file, number, "this line has %d column%s, the header has %d", cells,
                                   cells == 1 ? "" : "s", columns->count);
        if (cells > columns->count) ft_hint("a text must not hold a tab: quotes do not protect it in TSV");
        return status;
    }
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
        table->label = NULL;
        table->label_column = NULL;
        return FT_OK;
    }
    return fail_at(file, first + 2, "the label is empty");
}

// Ends of line: the newline, and one carriage return before it.
static char *line_end(char *line, char *end, char **next) {
    char *stop = memchr(line, '\n', (size_t)(end - line));
    *next = stop != NULL ? stop + 1 : end;
    if (stop == NULL) stop = end;
    return stop > line && stop[-1] == '\r' ? stop - 1 : stop;
}

static char *without_empty_lines(char *start, char *end) {
    while (end > start && end[-1] == '\n') {
        char *shorter = end - 1;
        if (shorter > start && shorter[-1] == '\r') shorter--;
        if (shorter > start && shorter[-1] != '\n') break; // this newline ends a line with something in it
        end = shorter;
    }
    return end;
}

static ft_status parse(ft_table *table, size_t length, const char *file, const char *text, const char *label,
                       const char *id, ft_table_label need) {
    char *at = table->data, *end = table->data + length;
    FT_TRY(ft_sha256(at, length, table->sha256));
    if (length >= 2 && (memcmp(at, "\xFF\xFE", 2) == 0 || memcmp(at, "\xFE\xFF", 2) == 0)) {
        ft_status status = fail_at(file, 1, "this file is UTF-16, not UTF-8");
        ft_hint("iconv -f UTF-16 -t UTF-8 converts it");
        return status;
    }
    if (length >= 3 && memcmp(at, "\xEF\xBB\xBF", 3) == 0) at += 3;
    if (at == end) return fail_at(file, 1, "the file is empty: no header, no rows");

    header columns;
    selection chosen;
    char *next;
    char *stop = line_end(at, end, &next);
    FT_TRY(split_header(at, (size_t)(stop - at), file, &table->arena, &columns));
    FT_TRY(select_columns(&columns, text, label, id, need, &chosen));
    table->text_column = columns.name[chosen.text];
    table->label_column = chosen.label != NO_COLUMN ? columns.name[chosen.label] : NULL;

    if (columns.count > 1) end = without_empty_lines(next, end);
    int64_t rows = 0;
    for (char *line = next, *after; line < end; line = after, rows++)
        line_end(line, end, &after);
    if (rows == 0) return fail_at(file, 2, "no rows behind the header");
    if (rows > INT32_MAX) return fail_at(file, (int64_t)INT32_MAX + 2, "more than 2147483647 rows");
    FT_TRY(allocate_rows(table, rows, &chosen));
    for (char *line = next, *after; line < end; line = after) {
        stop = line_end(line, end, &after);
        FT_TRY(read_row(table, line, (size_t)(stop - line), &columns, &chosen));
    }
    return table->label != NULL ? check_labels(table, file, need) : FT_OK;
}

ft_status ft_table_parse(char *data, size_t length, const char *name, const char *text_column, const char *label_column,
                         const char *id_column, ft_table_label need, ft_table *table) {
    memset(table, 0, sizeof *table);
    table->data = data;
    ft_status status = parse(table, length, name, text_column, label_column, id_column, need);
    if (status != FT_OK) ft_table_free(table);
    return status;
}

// ---- files --------------------------------------------------------------------------------------------------------

enum { STREAM_CHUNK = 1 << 16 };

static ft_status read_stream(FILE *stream, char **data, size_t *length) {
    size_t capacity = 0, used = 0;
    char *buffer = NULL;
    do {
        if (capacity - used < STREAM_CHUNK) {
            capacity = 2 * capacity + STREAM_CHUNK;
            char *larger = ft_realloc(buffer, capacity + 1, 1, "standard input");
            if (larger == NULL) {
                free(buffer);
                return FT_NO_MEMORY;
            }
            buffer = larger;
        }
        used += fread(buffer + used, 1, capacity - used, stream);
    } while (!feof(stream) && !ferror(stream));
    if (ferror(stream)) {
        int error = errno;
        free(buffer);
        return ft_fail_errno(FT_FAILED, error, "<stdin>", "cannot read standard input");
    }
    *data = buffer;
    *length = used;
    return FT_OK;
}

ft_status ft_table_load(const char *path, char **data, size_t *length) {
    if (strcmp(path, "-") == 0) return read_stream(stdin, data, length);
    return ft_read_file(path, SIZE_MAX / 2, data, length);
}

ft_status ft_table_read(const char *path, const char *text_column, const char *label_column, const char *id_column,
                        ft_table_label need, ft_table *table) {
    memset(table, 0, sizeof *table);
    char *data = NULL;
    size_t length = 0;
    FT_TRY(ft_table_load(path, &data, &length));
    return ft_table_parse(data, length, ft_table_display(path), text_column, label_column, id_column, need, table);
}

void ft_table_free(ft_table *table) {
    free(table->data);
    ft_arena_free(&table->arena);
    memset(table, 0, sizeof *table);
}
