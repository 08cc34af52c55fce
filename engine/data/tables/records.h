// records.h - a text cut into records of cells, in place: TSV, CSV and JSON lines alike.
//
// TSV has no quoting, as GLUE's files and most others are written: quotes are part of the text. CSV is RFC 4180: cells may
// be quoted, then hold delimiters, newlines and doubled quotes. Of JSON lines every line is an object; the keys of the
// first one are the columns. A list of objects, and objects that go over several lines, are records too (json_values.c). CoNLL's columns are records of lists (conll_records.c), and are called 1, 2, ...
#ifndef FT_RECORDS_H
#define FT_RECORDS_H

#include "base/arena.h"
#include "base/status.h"
#include "engine/config/config.h"

#include <jansson.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct ft_cell {
    char *text; // NUL-terminated, in the text that is read or in the arena
    size_t length;
    int64_t line, column; // where it begins, in bytes from 1
} ft_cell;

// What separates the members of a JSON list in its cell; and of a member that is a span of a text, [0, 5, "PER"] or an object with start,
// end and label, what separates these three.
#define FT_LIST_SEPARATOR '\x1F'
#define FT_SPAN_SEPARATOR '\x1E'
// What the cell of a list or an object of JSON lines begins with, where messages may be (ft_records.language): no string of theirs does.
#define FT_JSON_CELL '\xFF'

typedef struct ft_records {
    ft_format format; // TSV, CSV, JSONL or CONLL
    bool words;       // a text may be a list of words
    bool questions;   // a value may be answers
    bool language;    // a value may be any JSON: its cell is FT_JSON_CELL and the text of it
    bool values;      // JSONL: no lines, but a list or objects over several lines (ft_json_is_values)
    bool in_list;     // of these, behind the [ of a list
    int64_t values_read;
    struct ft_squad *squad; // SQUAD: what is read (squad_records.c)
    char delimiter;
    const char *file; // for messages
    char *at, *end, *line_start;
    int64_t line; // of *at, from 1
    ft_cell *cells;
    int count, capacity; // of the record just read
    int64_t record_line; // where it begins
    // JSON lines, SQuAD's JSON and CoNLL's columns
    const char *const *keys; // the columns; NULL until they are known
    int key_count;
    const bool *wanted; // which of them are read, the others being empty; NULL: all
    ft_arena *arena;
} ft_records;

// data[length] is writable. format AUTO: by content.
void ft_records_open(ft_records *records, ft_format format, const char *file, char *data, size_t length, ft_arena *arena);
void ft_records_close(ft_records *records);
// The names of the columns: the first record, or the keys of the first object (which is read again as a record). The array
// and the names live as long as data and arena. FT_INVALID with file:line:column.
ft_status ft_records_header(ft_records *records, int *count, const char *const **names);
// The next record into `cells`. *found false: there is none. Empty lines at the end of a file of several columns are no
// records, nor are they anywhere in CSV and JSON lines. FT_INVALID with file:line:column for broken quoting, broken JSON,
// and a number of cells other than `columns`.
ft_status ft_records_next(ft_records *records, int columns, bool *found);

// FT_INVALID at file:line:column (column 0: file:line).
ft_status ft_fail_at(const char *file, int64_t line, int64_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// json_records.c
ft_status ft_json_record_keys(ft_records *records);
ft_status ft_json_record_next(ft_records *records, bool *found);
// json_values.c. Does a text begin with an object that ends in its first line; with a list of objects or texts; is it a list, or objects of which
// the first goes over several lines?
bool ft_json_is_line(const char *data, size_t length);
bool ft_json_is_list(const char *data, size_t length);
bool ft_json_is_values(const char *data, size_t length);
// The next object; a text of a list is {"text": it}. NULL: there is none left. record_line is where it begins.
ft_status ft_json_value_next(ft_records *records, json_t **object);
// conll_records.c
ft_status ft_conll_record_keys(ft_records *records);
ft_status ft_conll_record_next(ft_records *records, bool *found);
// squad_records.c
ft_status ft_squad_record_keys(ft_records *records);
ft_status ft_squad_record_next(ft_records *records, bool *found);
void ft_squad_close(ft_records *records);
// Answers, {"text": [...], "answer_start": [...]} or a list of such pairs, as a cell: FT_SPAN_SEPARATOR between a start and its text,
// FT_LIST_SEPARATOR behind each. NULL (an error is set): they are none.
char *ft_answers_cell(ft_arena *arena, const char *where, const json_t *answers);
// One more cell behind the last.
ft_status ft_records_add(ft_records *records, char *text, size_t length, int64_t line, int64_t column);

#endif
