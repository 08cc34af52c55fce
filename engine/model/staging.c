#include "engine/model/staging.h"

ft_status ft_staging_open(ft_memory *memory, ft_staging *staging) {
    void *data;
    *staging = (ft_staging){.memory = memory};
    FT_TRY(ft_memory_alloc_staging(memory, (size_t)FT_STAGING_FLOATS * sizeof(float), "staging of tensors", &data));
    staging->data = data;
    return FT_OK;
}

// The window goes back to the device as well: what follows finds the allocator as if it had never been.
void ft_staging_close(ft_staging *staging) {
    if (staging->memory == NULL) return;
    ft_memory_free_staging(staging->memory, staging->data);
    ft_memory_trim(staging->memory);
    *staging = (ft_staging){.memory = NULL};
}

ft_status ft_staging_upload(ft_staging *staging, float *to, int64_t count, ft_staging_source source, void *context) {
    ft_device *device = ft_memory_device(staging->memory);
    for (int64_t first = 0; first < count; first += FT_STAGING_FLOATS) {
        int64_t piece = count - first < FT_STAGING_FLOATS ? count - first : FT_STAGING_FLOATS;
        FT_TRY(source(context, first, piece, staging->data));
        FT_TRY(device->functions->upload(device, to + first, staging->data, (size_t)piece * sizeof(float)));
        FT_TRY(device->functions->sync(device)); // the window is used again
    }
    return FT_OK;
}

ft_status ft_staging_download(ft_staging *staging, const float *from, int64_t count) {
    ft_device *device = ft_memory_device(staging->memory);
    FT_TRY(device->functions->download(device, staging->data, from, (size_t)count * sizeof(float)));
    return device->functions->sync(device);
}
