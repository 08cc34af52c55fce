// conll_records.c - CoNLL's columns as records: a word a line with its columns, an empty line behind every sentence. A record is a
// sentence; each of its cells is the list of one column's values.
#include "engine/data/tables/records.h"

#include <stdio.h>
#include <string.h>

static const char *end_of(const ft_records *r, const char *at) {
    const char *stop = memchr(at, '\n', (size_t)(r->end - at));
    return stop != NULL ? stop : r->end;
}

static bool is_blank(const char *at, const char *end) {
    while (at < end && strchr(" \t\r", *at) != NULL && *at != '\0') at++;
    return at == end;
}

// Columns are separated by tabs where the line has one, so that a word may hold spaces; else by runs of spaces. The next of a line;
// false behind the last one.
static bool next_column(const char **at, const char *end, bool tabs, const char **begin, const char **stop) {
    if (*at > end) return false;
    const char *p = *at;
    while (!tabs && p < end && *p == ' ') p++;
    if (!tabs && p == end) return false;
    *begin = p;
    while (p < end && *p != (tabs ? '\t' : ' ')) p++;
    *stop = p;
    *at = p + 1;
    return true;
}

static const char *trimmed_end(const char *at, const char *end) {
    while (end > at && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t')) end--;
    return end;
}

static int columns_of(const char *at, const char *end) {
    const bool tabs = memchr(at, '\t', (size_t)(end - at)) != NULL;
    const char *begin, *stop;
    int count = 0;
    while (next_column(&at, end, tabs, &begin, &stop)) count++;
    return count;
}

// Between sentences: empty lines, marks of documents, and what CoNLL-U and its like say about a sentence: "# id ...", "# text = ...".
static bool is_between(const char *at, const char *end) {
    if (is_blank(at, end) || (end - at >= 10 && memcmp(at, "-DOCSTART-", 10) == 0)) return true;
    if (end - at < 2 || memcmp(at, "# ", 2) != 0) return false;
    const size_t length = (size_t)(end - at);
    return memmem(at, length, " = ", 3) != NULL || (length >= 5 && memcmp(at, "# id ", 5) == 0) ||
           (length >= 8 && memcmp(at, "# newdoc", 8) == 0) || (length >= 8 && memcmp(at, "# newpar", 8) == 0);
}

static void pass_line(ft_records *r) {
    const char *end = end_of(r, r->at);
    r->at = (char *)(end < r->end ? end + 1 : end);
    r->line_start = r->at;
    r->line++;
}

static bool find_sentence(ft_records *r) {
    while (r->at < r->end && is_between(r->at, end_of(r, r->at))) pass_line(r);
    return r->at < r->end;
}

ft_status ft_conll_record_keys(ft_records *r) {
    if (!find_sentence(r)) return ft_fail_at(r->file, 1, 0, "the file is empty: no sentences");
    const char *end = trimmed_end(r->at, end_of(r, r->at));
    const int count = columns_of(r->at, end);
    const char **keys = ft_arena_alloc(r->arena, (size_t)count * sizeof *keys);
    if (keys == NULL) return FT_NO_MEMORY;
    for (int i = 0; i < count; i++)
        if ((keys[i] = ft_arena_format(r->arena, "%d", i + 1)) == NULL) return FT_NO_MEMORY;
    r->keys = keys;
    r->key_count = count;
    return FT_OK;
}

// Of CoNLL-U: lines of several words at once (1-2) and of words that were left out (1.1) stand beside the sentence.
static bool is_beside(const ft_records *r, const char *at, const char *end) {
    if (r->key_count != 10) return false;
    const size_t digits = strspn(at, "0123456789");
    return digits > 0 && at + digits < end && (at[digits] == '-' || at[digits] == '.');
}

static ft_status check_line(const ft_records *r, const char *end) {
    const int count = columns_of(r->at, end);
    if (count == r->key_count && memchr(r->at, '\0', (size_t)(end - r->at)) == NULL && memchr(r->at, FT_LIST_SEPARATOR, (size_t)(end - r->at)) == NULL)
        return FT_OK;
    if (count == r->key_count) return ft_fail_at(r->file, r->line, 0, "a control character (NUL or 0x1F) in a column");
    ft_status status = ft_fail_at(r->file, r->line, 0, "this line has %d column%s, the first one of the file %d", count, count == 1 ? "" : "s",
                                  r->key_count);
    ft_hint("a word a line, its columns separated by tabs or spaces, and an empty line between sentences");
    return status;
}

// Bytes from r->at to the end of the sentence; every line of it is checked.
static ft_status measure(const ft_records *at, size_t *bytes) {
    ft_records r = *at;
    while (r.at < r.end && !is_blank(r.at, end_of(&r, r.at))) {
        const char *end = trimmed_end(r.at, end_of(&r, r.at));
        if (!is_beside(&r, r.at, end)) FT_TRY(check_line(&r, end));
        pass_line(&r);
    }
    *bytes = (size_t)(r.at - at->at);
    return FT_OK;
}

static char *put_column(char *out, const char *at, const char *end, int column) {
    const bool tabs = memchr(at, '\t', (size_t)(end - at)) != NULL;
    const char *begin = at, *stop = at;
    for (int i = 0; i <= column && next_column(&at, end, tabs, &begin, &stop);) i++;
    memcpy(out, begin, (size_t)(stop - begin));
    out += stop - begin;
    *out++ = FT_LIST_SEPARATOR;
    return out;
}

// The values of one column, each with the list separator behind it.
static ft_status column_cell(ft_records *r, int column, size_t bytes) {
    char *cell = ft_arena_alloc(r->arena, bytes + 2); // a line has a separator for its end
    if (cell == NULL) return FT_NO_MEMORY;
    char *out = cell;
    ft_records line = *r;
    for (const char *stop = r->at + bytes; line.at < stop; pass_line(&line)) {
        const char *end = trimmed_end(line.at, end_of(&line, line.at));
        if (!is_beside(r, line.at, end)) out = put_column(out, line.at, end, column);
    }
    *out = '\0';
    return ft_records_add(r, cell, (size_t)(out - cell), r->line, 0);
}

ft_status ft_conll_record_next(ft_records *r, bool *found) {
    *found = find_sentence(r);
    if (!*found) return FT_OK;
    size_t bytes;
    FT_TRY(measure(r, &bytes));
    r->count = 0;
    r->record_line = r->line;
    for (int i = 0; i < r->key_count; i++) {
        if (r->wanted != NULL && !r->wanted[i]) FT_TRY(ft_records_add(r, r->end, 0, r->line, 0));
        else FT_TRY(column_cell(r, i, bytes));
    }
    for (const char *stop = r->at + bytes; r->at < stop;) pass_line(r);
    return FT_OK;
}
