// limit.h - the options of memory as the allocator of a device takes them.
#ifndef FT_TRAIN_LIMIT_H
#define FT_TRAIN_LIMIT_H

#include "engine/config/config.h"
#include "engine/memory/memory.h"

// What memory.limit comes to on a device of so many bytes; 0: all of them.
size_t ft_limit_of(const ft_config *config, size_t device_bytes);
// The knobs of the allocator on a device. limit: overrides memory.limit unless it is 0.
ft_allocator_options ft_allocator_options_of(const ft_config *config, const ft_device *device, size_t limit);

#endif
