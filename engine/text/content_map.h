// content_map.h - texts to the numbers of a list's items: a list of tens of thousands of added tokens is looked through by each of them.
// Inside of engine/text.
#ifndef FT_CONTENT_MAP_H
#define FT_CONTENT_MAP_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ft_content_map {
    struct ft_content_slot {
        const char *content; // NULL: free
        int32_t index;
    } *slot;
    size_t slots, count;
} ft_content_map; // {0} is empty

// -1: it is not there.
int32_t ft_content_map_find(const ft_content_map *map, const char *content);
// What is not there yet; `content` must outlive the map. FT_NO_MEMORY.
ft_status ft_content_map_add(ft_content_map *map, const char *content, int32_t index);
void ft_content_map_free(ft_content_map *map);

#endif
