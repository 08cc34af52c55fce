// table.h - texts and labels as they stand in a file.
#ifndef FT_TABLE_H
#define FT_TABLE_H

#include "base/arena.h"
#include "base/status.h"
#include "engine/data/tables/table_request.h"

#include <stdbool.h>
#include <stdint.h>

// A table of texts as read from a file: TSV or CSV with a header line, JSON lines, CoNLL's columns, or plain text. The arrays of rows are of
// base/spill.h. Whoever adds one adds it to ft_table_split (folds.c) too.
typedef struct ft_table {
    int64_t rows, capacity;
    const char **text; // [rows], pointing into data, the chunks or the arena
    size_t *text_length;
    const char **pair; // [rows]; NULL unless a second text was asked for
    size_t *pair_length;
    // [rows]; NULL without a label column, and when an optional one is empty throughout. The values of a list, or of
    // several label columns, are each followed by FT_LIST_SEPARATOR (records.h).
    const char **label;
    bool label_lists; // some labels are lists; then an empty one is a list of none
    const char **id; // [rows]; NULL unless an id column was asked for
    int64_t *line;   // [rows] of the file, where the row begins; from 1
    char *data;
    struct ft_chunks *chunks; // of texts, where the file is too large to be in memory; NULL: it is not
    char sha256[65]; // of the file as it is on disk
    ft_format format;
    char delimiter; // of CSV and TSV; '\0' of others
    const char *text_column, *pair_column, *label_column; // names found
    int label_columns;                                    // more than one: a list in label_column named them
    const char **label_column_name;                       // [label_columns]
    ft_arena arena;
} ft_table;

// `path` "-" reads standard input. Packing and encoding: source.h; quoting: records.h. FT_INVALID with file:line or
// file:line:column: missing file, no header, unknown column (the header is listed), ragged rows, no rows, empty label.
// CRLF, a missing last newline and, with two or more columns, empty lines at the end are accepted. NUL bytes stay in texts
// (text_length counts them) and are refused elsewhere.
// A file of FT_TABLE_LARGE bytes and more, or a packed one of an eighth of that, is read in pieces, and its texts are in scratch files
// (base/spill.h).
enum { FT_TABLE_LARGE = 32 << 20 };
ft_status ft_table_read(const char *path, const ft_table_request *request, ft_table *table);
// The same whatever its size, in pieces of about so many bytes. path: no pipe. large.c
ft_status ft_table_read_large(const char *path, const ft_table_request *request, size_t piece, ft_table *table);
// The same from memory. Takes `data`: malloc()ed, length bytes and room for one more; freed with the table or on error.
// most: bytes that packed data may unpack to.
ft_status ft_table_parse(char *data, size_t length, size_t most, const char *name, const ft_table_request *request,
                         ft_table *table);
// Texts without labels that the caller has in memory, and keeps while there is the table: [count] C strings in UTF-8. pair NULL: single
// texts. FT_INVALID: a text is not UTF-8; its number from 0 is in the message. memory.c
ft_status ft_table_of_texts(int64_t count, const char *const *text, const char *const *pair, const char *name, ft_table *table);
void ft_table_free(ft_table *table); // {0} is fine
// Frees the rows and keeps what is known of the file: its hash, format and columns, whose names stay where they are.
void ft_table_forget_rows(ft_table *table);
// Bytes of memory that go back to the system then.
size_t ft_table_rows_bytes(const ft_table *table);

// What the beginning of a text says about the rest of it, for who reads it in pieces (blocks.h). {0}: nothing is known yet.
typedef struct ft_table_layout {
    ft_format format;
    char delimiter;
    int columns; // 0: the header has not been read
    const char *const *names;
    bool *wanted;
    ft_selection chosen;
    bool usual_text, usual_label; // columns that are found by where they stand: another file may have others
    int64_t line; // where the next piece begins, from 1; 0: this is the first
    ft_arena arena;
} ft_table_layout;
void ft_table_layout_free(ft_table_layout *layout);
// A piece of a text in UTF-8 that ends behind a row. Takes `data` as ft_table_parse does. The layout outlives the table. `table` may have
// no rows.
ft_status ft_table_parse_piece(char *data, size_t length, const char *name, const ft_table_request *request,
                               ft_table_layout *layout, ft_table *table);
// The format of a text that begins so (the first line at least), in UTF-8.
ft_status ft_table_format(const ft_table_request *request, const char *name, const char *data, size_t length, ft_format *format);

// ---- for large.c
ft_status ft_table_room_for_row(ft_table *table, const ft_selection *chosen);
ft_status ft_table_name_columns(ft_table *table, const ft_table_layout *layout);
ft_status ft_table_check_rows(ft_table *table, const char *file, const ft_table_request *request);
void ft_table_free_chunks(ft_table *table);

// "path:line" of a row, for messages.
const char *ft_table_where(const ft_table *table, const char *path, int64_t row, char where[512]);

#endif
