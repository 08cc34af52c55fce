#include "kernels/cuda/driver/device.h"
#include "base/arena.h"
#include "kernels/cuda/driver/chips.h"

#include <stdio.h>
#include <stdlib.h>

ft_status ft_cuda_enter(ft_cuda *cuda) { return FT_CUDA(cuda->driver, context_set_current, cuda->context); }

ft_status ft_cuda_wait(ft_cuda *cuda) {
    FT_TRY(ft_cuda_enter(cuda));
    FT_TRY(FT_CUDA(cuda->driver, stream_synchronize, cuda->stream));
    return FT_CUDA(cuda->driver, stream_synchronize, cuda->copies);
}

void ft_cuda_keep(ft_cuda *cuda, ft_status status) {
    if (status != FT_OK && cuda->lost.code == FT_OK) ft_error_save(&cuda->lost);
}

static void cuda_close(ft_device *device) {
    ft_cuda *cuda = ft_cuda_of(device);
    if (cuda->kernels != NULL) cuda->close_kernels(cuda);
    // Errors have no reader any more: what could not be given back goes with the context.
    if (cuda->context != NULL) {
        bool idle = cuda->copies != NULL && ft_cuda_wait(cuda) == FT_OK;
        if (idle) (void)cuda->driver->stream_destroy(cuda->copies);
        if (idle || (cuda->stream != NULL && cuda->copies == NULL)) (void)cuda->driver->stream_destroy(cuda->stream);
        (void)cuda->driver->context_set_current(NULL);
        (void)cuda->driver->primary_context_release(cuda->handle);
    }
    ft_cuda_driver_close(cuda->owned_driver);
    free(cuda);
}

#define COMMON                                                                                                         \
    .buffer_alloc = ft_cuda_buffer_alloc, .buffer_free = ft_cuda_buffer_free, .upload = ft_cuda_upload,                \
    .download = ft_cuda_download, .copy = ft_cuda_copy, .fill = ft_cuda_fill, .sync = ft_cuda_sync,                    \
    .upload_beside = ft_cuda_upload_beside, .download_beside = ft_cuda_download_beside,                                \
    .event_create = ft_cuda_event_create,                                                                              \
    .event_destroy = ft_cuda_event_destroy, .event_record = ft_cuda_event_record, .stream_wait = ft_cuda_stream_wait,  \
    .event_sync = ft_cuda_event_sync, .event_query = ft_cuda_event_query,                                              \
    .graph_begin = ft_cuda_graph_begin, .graph_end = ft_cuda_graph_end,                                                \
    .graph_run = ft_cuda_graph_run, .graph_destroy = ft_cuda_graph_destroy, .host_alloc = ft_cuda_host_alloc,          \
    .host_free = ft_cuda_host_free, .close = cuda_close
static const ft_device_functions without_ranges = {COMMON};
static const ft_device_functions with_ranges = {
    COMMON,
    .range_reserve = ft_cuda_range_reserve,
    .range_commit = ft_cuda_range_commit,
    .range_decommit = ft_cuda_range_decommit,
    .range_release = ft_cuda_range_release,
};

ft_status ft_cuda_describe(ft_cuda *cuda, int ordinal) {
    ft_device *device = &cuda->device;
    ft_gpu chip;
    FT_TRY(ft_cuda_chip_read(cuda->driver, ordinal, &chip));
    FT_TRY(ft_cuda_chip_check(&chip));
    cuda->ordinal = chip.ordinal;
    cuda->handle = chip.handle;
    device->total_bytes = chip.total_bytes;
    device->target = (ft_target){
        .backend = FT_BACKEND_CUDA, .sm_count = chip.multiprocessors, .compute_capability = chip.capability};
    snprintf(cuda->name, sizeof cuda->name, "cuda:%d", ordinal);
    snprintf(device->place, sizeof device->place, "cuda-%s", chip.uuid);
    snprintf(device->description, sizeof device->description, "%s, sm_%d", chip.name, chip.capability);
    device->name = cuda->name;
    device->functions = &without_ranges;
    if (!chip.virtual_memory) return FT_OK;
    device->functions = &with_ranges;
    FT_TRY(ft_cuda_find_page(cuda));
    device->target.page_bytes = cuda->page;
    return FT_OK;
}

static ft_status open_streams(ft_cuda *cuda) {
    FT_TRY(FT_CUDA(cuda->driver, primary_context_retain, &cuda->context, cuda->handle));
    FT_TRY(ft_cuda_enter(cuda));
    FT_TRY(FT_CUDA(cuda->driver, stream_create, &cuda->stream, FT_CU_STREAM_NON_BLOCKING));
    return FT_CUDA(cuda->driver, stream_create, &cuda->copies, FT_CU_STREAM_NON_BLOCKING);
}

ft_status ft_cuda_open(const ft_cuda_driver *driver, int ordinal, const ft_op_table *ops, ft_device **device) {
    *device = NULL;
    ft_cuda *cuda = ft_calloc(1, sizeof *cuda, "CUDA device");
    if (cuda == NULL) return FT_NO_MEMORY;
    cuda->driver = driver;
    cuda->device.ops = ops;
    ft_status status = ft_cuda_describe(cuda, ordinal);
    if (status == FT_OK) status = open_streams(cuda);
    if (status != FT_OK) {
        cuda_close(&cuda->device);
        return status;
    }
    *device = &cuda->device;
    return FT_OK;
}
