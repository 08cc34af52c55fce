// json.h - what the meter saw, as run.json and the planner tell it (INTERFACE.md).
#ifndef FT_MEMORY_JSON_H
#define FT_MEMORY_JSON_H

#include "engine/memory/memory.h"

#include <jansson.h>

// The object "memory". *failed is set when the host has no memory.
json_t *ft_memory_json(const ft_memory_counters *counters, size_t outside_bytes, bool *failed);
// The array "sites": who was alive at the peak.
json_t *ft_sites_json(const ft_memory_use *uses, int count, bool *failed);

#endif
