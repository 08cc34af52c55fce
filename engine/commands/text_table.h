// text_table.h - rows of texts for people, printed with columns as wide as their widest; columns of numbers to the right.
#ifndef FT_TEXT_TABLE_H
#define FT_TEXT_TABLE_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdio.h>

typedef struct ft_text_table {
    ft_arena *arena;
    const char **cells;
    int columns, count, capacity; // of cells
    bool failed;                  // out of memory
} ft_text_table;

void ft_text_table_cell(ft_text_table *table, const char *text); // in order, the heading first; NULL: out of memory
void ft_text_table_format(ft_text_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
void ft_text_clean(const char *text, FILE *out); // '?' for what would steer a terminal: a file's names, printed outside a table
ft_status ft_text_table_print(const ft_text_table *table, FILE *out);

#endif
