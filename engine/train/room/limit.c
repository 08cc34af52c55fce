#include "engine/train/room/limit.h"

size_t ft_limit_of(const ft_config *c, size_t device_bytes) {
    if (c->memory.limit >= 0) return (size_t)c->memory.limit;
    return (size_t)((double)device_bytes * 1e-6 * (double)-c->memory.limit);
}

ft_allocator_options ft_allocator_options_of(const ft_config *c, const ft_device *device, size_t limit) {
    bool expandable = c->memory.expandable_segments == FT_RANGES_ON;
    if (c->memory.expandable_segments == FT_RANGES_AUTO)
        expandable = device->functions->range_reserve != NULL && c->memory.max_split_size == 0;
    return (ft_allocator_options){.limit = limit != 0 ? limit : ft_limit_of(c, device->total_bytes),
                                  .max_split_size = (size_t)c->memory.max_split_size,
                                  .expandable_segments = expandable,
                                  .garbage_collection_threshold = c->memory.garbage_collection_threshold};
}
