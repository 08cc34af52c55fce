// groups.h - rows of a table that belong together: the documents of a query.
#ifndef FT_GROUPS_H
#define FT_GROUPS_H

#include "base/status.h"

#include <stdint.h>

// Those of group g are member[first[g] .. first[g + 1]), ascending. Groups are in the order of their first rows; arrays are of base/spill.h.
typedef struct ft_groups {
    int64_t count;
    int64_t *first;  // [count + 1]
    int32_t *member; // [rows]
} ft_groups;

// Rows of equal names are a group. rows < 2^31. Free it also on failure.
ft_status ft_groups_of(const char *const *name, int64_t rows, ft_groups *groups);
void ft_groups_free(ft_groups *groups); // {0} is fine

#endif
