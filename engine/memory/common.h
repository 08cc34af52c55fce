// common.h - buffers that all ranks of a run see (memory.h): which there are, and what they take. Of a meter (memory.c), which locks.
#ifndef FT_MEMORY_COMMON_H
#define FT_MEMORY_COMMON_H

#include "engine/memory/memory.h"

typedef struct ft_common {
    ft_memory_ranks ranks;
    struct ft_common_buffer *list;
    size_t count, capacity;
} ft_common;

// For several ranks; a collective where they have a group. Rank 0 alone counts: `counters`.
ft_status ft_common_take(ft_common *common, ft_device *device, ft_memory_counters *counters, size_t bytes, ft_memory_category category, void **data);
// False: it is no such buffer.
bool ft_common_free(ft_common *common, ft_device *device, ft_memory_counters *counters, const void *data);
// Frees the list, and what is still in it: then FT_FAILED, else `status`.
ft_status ft_common_end(ft_common *common, ft_device *device, ft_memory_counters *counters, ft_status status);

#endif
