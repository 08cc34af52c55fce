// broken_pictures.h - pictures of a table that cannot be read: left out before anybody counts its rows, and named.
#ifndef FT_BROKEN_PICTURES_H
#define FT_BROKEN_PICTURES_H

#include "engine/data/input.h"

typedef struct ft_broken_picture {
    int64_t row; // of the table before
    const char *name, *error;
} ft_broken_picture;

typedef struct ft_broken_pictures {
    int64_t count;
    ft_broken_picture *list; // by row
    ft_arena arena;
} ft_broken_pictures;

// Reads every picture of the table as `input` (of ft_picture_input) would, and leaves out the rows of those that are
// FT_INVALID, with a warning each. What the other rows are known by (their lines) stays. No row may be left. path: as
// of ft_input_wanted.
ft_status ft_picture_input_leave_out(const ft_input *input, ft_table *table, const char *path,
                                     ft_broken_pictures *list);
void ft_broken_pictures_free(ft_broken_pictures *list); // {0} is fine

#endif
