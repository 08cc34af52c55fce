// name_set.h - the different names among many. The set keeps pointers, not copies.
#ifndef FT_NAME_SET_H
#define FT_NAME_SET_H

#include "base/status.h"

#include <stddef.h>

typedef struct ft_name_set {
    const char **slot; // [slots], a power of two, or 0; NULL: free
    size_t slots, count;
} ft_name_set; // {0} is empty

// The name of the set that has the same bytes; NULL: there is none.
const char *ft_name_set_find(const ft_name_set *set, const char *name);
// Adds a name that is not in it. It lives as long as the set.
ft_status ft_name_set_add(ft_name_set *set, const char *name);
void ft_name_set_free(ft_name_set *set); // {0} is fine

#endif
