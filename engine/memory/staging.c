// staging.c - memory of the host for copies, from the device where that has its own.
#include "engine/memory/memory.h"

ft_status ft_memory_alloc_staging(ft_memory *m, size_t bytes, const char *site, void **data) {
    const ft_device_functions *f = ft_memory_device(m)->functions;
    if (f->host_alloc != NULL) return f->host_alloc(ft_memory_device(m), bytes, data);
    FT_TRY(ft_memory_alloc(m, bytes, FT_MEM_DATA, site, data));
    ft_status status = f->fill(ft_memory_device(m), *data, 0, bytes);
    if (status == FT_OK) return FT_OK;
    ft_memory_free(m, *data);
    *data = NULL;
    return status;
}

void ft_memory_free_staging(ft_memory *m, void *data) {
    const ft_device_functions *f = ft_memory_device(m)->functions;
    if (f->host_alloc != NULL) f->host_free(ft_memory_device(m), data);
    else ft_memory_free(m, data);
}
