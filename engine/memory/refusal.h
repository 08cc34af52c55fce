// refusal.h - the words for a request that could not be met. Internal to engine/memory.
#ifndef FT_REFUSAL_H
#define FT_REFUSAL_H

#include "engine/memory/meter.h"

// Sets the error (FT_NO_MEMORY): what was asked for, where, on which device, the limit, use by category, and as a hint the
// three largest holders. arena_bytes: of the steps' arena, 0 when there is none yet.
ft_status ft_refusal_error(const ft_meter *meter, const char *device, const ft_memory_refusal *refusal, size_t arena_bytes);

#endif
