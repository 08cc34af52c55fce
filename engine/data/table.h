// table.h - texts and labels as they stand in a file.
#ifndef FT_TABLE_H
#define FT_TABLE_H

#include "kernels/arena.h"
#include "kernels/status.h"

#include <stdint.h>

// A table of texts as read from a file: TSV, GLUE style, with a header line; no quoting. Row r is on
// line r + 2 of the file.
typedef struct ft_table {
    int64_t rows;
    const char **text; // [rows], pointing into data
    size_t *text_length;
    const char **label; // [rows]; NULL without a label column, and when an optional one is empty throughout
    const char **id;    // [rows]; NULL unless an id column was asked for
    char *data;
    char sha256[65];                        // of the file
    const char *text_column, *label_column; // names found
    ft_arena arena;
} ft_table;

typedef enum ft_table_label { FT_LABEL_REQUIRED, FT_LABEL_OPTIONAL, FT_LABEL_IGNORED } ft_table_label;

// `path` "-" reads standard input. text_column / label_column / id_column: a header name, "" = found by usual names
// (text: sentence, text, review, question, content...; label: label, labels, class, category, target...), id NULL =
// none. FT_INVALID with file:line: missing file, no header, unknown column (the header is listed), ragged rows, no
// rows, empty label. CRLF, a UTF-8 BOM, a missing last newline and, with two or more columns, empty lines at the end
// are accepted. Quotes are part of the text. NUL bytes stay in texts (text_length counts them) and are refused
// elsewhere.
ft_status ft_table_read(const char *path, const char *text_column, const char *label_column, const char *id_column,
                        ft_table_label need, ft_table *table);
// The same from memory. Takes `data`: malloc()ed, length bytes and room for one more; freed with the table or on error.
ft_status ft_table_parse(char *data, size_t length, const char *name, const char *text_column, const char *label_column,
                         const char *id_column, ft_table_label need, ft_table *table);
// Plain text: every line is a text without a label. FT_INVALID when there is no line.
ft_status ft_table_read_lines(const char *path, ft_table *table);
void ft_table_free(ft_table *table); // {0} is fine
// The bytes of a file, or of standard input for "-"; malloc()ed with room for one more. For the readers above.
ft_status ft_table_load(const char *path, char **data, size_t *length);

// What messages call this path: itself, "<stdin>" for "-".
const char *ft_table_display(const char *path);

#endif
