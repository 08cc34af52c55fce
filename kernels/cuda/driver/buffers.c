// buffers.c - plain memory of a CUDA device, and the copies into, out of and within it.
#include "kernels/cuda/driver/device.h"

#include <string.h>

ft_status ft_cuda_buffer_alloc(ft_device *device, size_t bytes, void **data) {
    ft_cuda *cuda = ft_cuda_of(device);
    *data = NULL;
    FT_TRY(ft_cuda_enter(cuda));
    ft_cu_address address = 0; // the driver aligns to 256 bytes at least
    FT_TRY(FT_CUDA(cuda->driver, mem_alloc, &address, bytes > 0 ? bytes : 1)); // which refuses none at all
    *data = (void *)(uintptr_t)address;
    return FT_OK;
}

void ft_cuda_buffer_free(ft_device *device, void *data, size_t bytes) {
    ft_cuda *cuda = ft_cuda_of(device);
    if (data == NULL) return;
    ft_error present;
    ft_error_save(&present);
    ft_cuda_keep(cuda, ft_cuda_wait(cuda));
    ft_cuda_keep(cuda, FT_CUDA(cuda->driver, mem_free, ft_cuda_address(data)));
    ft_error_restore(&present);
}

ft_status ft_cuda_upload(ft_device *device, void *to_device, const void *from_host, size_t bytes) {
    ft_cuda *cuda = ft_cuda_of(device);
    if (bytes == 0) return FT_OK;
    FT_TRY(ft_cuda_enter(cuda));
    return FT_CUDA(cuda->driver, copy_to_device, ft_cuda_address(to_device), from_host, bytes, cuda->stream);
}

ft_status ft_cuda_upload_beside(ft_device *device, void *to_device, const void *from_host, size_t bytes) {
    ft_cuda *cuda = ft_cuda_of(device);
    if (bytes == 0) return FT_OK;
    FT_TRY(ft_cuda_enter(cuda));
    return FT_CUDA(cuda->driver, copy_to_device, ft_cuda_address(to_device), from_host, bytes, cuda->copies);
}

ft_status ft_cuda_download(ft_device *device, void *to_host, const void *from_device, size_t bytes) {
    ft_cuda *cuda = ft_cuda_of(device);
    if (bytes == 0) return FT_OK;
    FT_TRY(ft_cuda_enter(cuda));
    return FT_CUDA(cuda->driver, copy_to_host, to_host, ft_cuda_address(from_device), bytes, cuda->stream);
}

ft_status ft_cuda_download_beside(ft_device *device, void *to_host, const void *from_device, size_t bytes) {
    ft_cuda *cuda = ft_cuda_of(device);
    if (bytes == 0) return FT_OK;
    FT_TRY(ft_cuda_enter(cuda));
    return FT_CUDA(cuda->driver, copy_to_host, to_host, ft_cuda_address(from_device), bytes, cuda->copies);
}

ft_status ft_cuda_copy(ft_device *device, void *to, const void *from, size_t bytes) {
    ft_cuda *cuda = ft_cuda_of(device);
    if (bytes == 0) return FT_OK;
    FT_TRY(ft_cuda_enter(cuda));
    return FT_CUDA(cuda->driver, copy_on_device, ft_cuda_address(to), ft_cuda_address(from), bytes, cuda->stream);
}

ft_status ft_cuda_fill(ft_device *device, void *data, int byte, size_t bytes) {
    ft_cuda *cuda = ft_cuda_of(device);
    if (bytes == 0) return FT_OK;
    FT_TRY(ft_cuda_enter(cuda));
    return FT_CUDA(cuda->driver, set_bytes, ft_cuda_address(data), (unsigned char)byte, bytes, cuda->stream);
}

ft_status ft_cuda_host_alloc(ft_device *device, size_t bytes, void **data) {
    ft_cuda *cuda = ft_cuda_of(device);
    *data = NULL;
    FT_TRY(ft_cuda_enter(cuda));
    FT_TRY(FT_CUDA(cuda->driver, host_alloc, data, bytes > 0 ? bytes : 1, 0));
    memset(*data, 0, bytes);
    return FT_OK;
}

void ft_cuda_host_free(ft_device *device, void *data) {
    ft_cuda *cuda = ft_cuda_of(device);
    if (data == NULL) return;
    ft_error present;
    ft_error_save(&present);
    ft_cuda_keep(cuda, ft_cuda_wait(cuda)); // a copy may be on its way
    ft_cuda_keep(cuda, FT_CUDA(cuda->driver, host_free, data));
    ft_error_restore(&present);
}

ft_status ft_cuda_sync(ft_device *device) {
    ft_cuda *cuda = ft_cuda_of(device);
    FT_TRY(ft_cuda_wait(cuda));
    if (cuda->lost.code == FT_OK) return FT_OK;
    ft_error_restore(&cuda->lost);
    cuda->lost.code = FT_OK;
    return ft_error_code();
}
