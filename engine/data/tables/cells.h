// cells.h - a table written cell after cell: TSV, in which tabs and line ends become blanks, or CSV, in which what needs it is quoted.
#ifndef FT_CELLS_H
#define FT_CELLS_H

#include "engine/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct ft_cell_writer {
    FILE *out; // its error flag says whether all was written
    ft_format format; // TSV or CSV
    bool begun;       // the row has a cell
} ft_cell_writer;

void ft_write_cell(ft_cell_writer *writer, const char *text, size_t length);
void ft_write_text(ft_cell_writer *writer, const char *text); // that ends with a NUL
void ft_write_number(ft_cell_writer *writer, double value, int decimals);
void ft_end_row(ft_cell_writer *writer);

#endif
