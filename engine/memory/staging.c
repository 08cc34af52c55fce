// staging.c - memory of the host for copies, from the device where that has its own; and copies wherever a tensor lies.
#include "engine/memory/memory.h"

#include <string.h>

ft_status ft_memory_alloc_staging(ft_memory *m, size_t bytes, const char *site, void **data) {
    const ft_device_functions *f = ft_memory_device(m)->functions;
    if (f->host_alloc != NULL) return ft_memory_alloc_pinned(m, bytes, site, data);
    FT_TRY(ft_memory_alloc(m, bytes, FT_MEM_DATA, site, data));
    ft_status status = f->fill(ft_memory_device(m), *data, 0, bytes);
    if (status == FT_OK) return FT_OK;
    ft_memory_free(m, *data);
    *data = NULL;
    return status;
}

void ft_memory_free_staging(ft_memory *m, void *data) {
    if (ft_device_queues(ft_memory_device(m))) ft_memory_free_pinned(m, data);
    else ft_memory_free(m, data);
}

static ft_status copy_on_host(ft_memory *m, void *to, const void *from, size_t bytes) {
    FT_TRY(ft_memory_device(m)->functions->sync(ft_memory_device(m)));
    memcpy(to, from, bytes);
    return FT_OK;
}

ft_status ft_memory_upload(ft_memory *m, void *to, const void *from_host, size_t bytes) {
    if (ft_memory_is_pinned(m, to)) return copy_on_host(m, to, from_host, bytes);
    return ft_memory_device(m)->functions->upload(ft_memory_device(m), to, from_host, bytes);
}

ft_status ft_memory_download(ft_memory *m, void *to_host, const void *from, size_t bytes) {
    if (ft_memory_is_pinned(m, from)) return copy_on_host(m, to_host, from, bytes);
    return ft_memory_device(m)->functions->download(ft_memory_device(m), to_host, from, bytes);
}
