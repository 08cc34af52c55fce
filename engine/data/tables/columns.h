// columns.h - which columns of a table are meant: those that were named, else those with usual names.
#ifndef FT_COLUMNS_H
#define FT_COLUMNS_H

#include "base/arena.h"
#include "base/status.h"
#include "engine/data/tables/table_request.h"

#include <stdbool.h>

typedef struct ft_columns {
    int count;
    const char *const *name;
    const char *file;
    bool numbered; // by where they stand, as CoNLL's: the first is the text, the last one the label
} ft_columns;

// FT_INVALID at file:1 with the header listed.
ft_status ft_columns_select(const ft_columns *columns, const ft_table_request *request, ft_arena *arena, ft_selection *chosen);
// Is there a column for the texts (and for the second ones, if they are named)? For telling a table from plain text.
bool ft_columns_have_text(const ft_columns *columns, const ft_table_request *request);

#endif
