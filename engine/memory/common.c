// common.c - what all ranks of a run see: with one rank an allocation as any other.
#include "engine/memory/memory.h"

#include "kernels/ops/device.h"

ft_status ft_memory_alloc_common(ft_memory *memory, size_t bytes, ft_memory_category category, const char *site, void **data) {
    if (ft_memory_ranks_of(memory).ranks > 1) return ft_memory_share(memory, bytes, category, data);
    ft_device *device = ft_memory_device(memory);
    FT_TRY(ft_memory_alloc(memory, bytes, category, site, data));
    return device->functions->fill(device, *data, 0, bytes);
}
