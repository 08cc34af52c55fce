// events.c - points in the streams of a CUDA device. An ft_event is the driver's own event.
#include "kernels/cuda/driver/device.h"

static ft_cu_event of_driver(ft_event *event) { return (ft_cu_event)(void *)event; }

static ft_cu_stream find(const ft_cuda *cuda, ft_stream_kind stream) {
    return stream == FT_STREAM_COPY ? cuda->copies : cuda->stream;
}

ft_status ft_cuda_event_create(ft_device *device, ft_event **event) {
    ft_cuda *cuda = ft_cuda_of(device);
    ft_cu_event made = NULL;
    *event = NULL;
    FT_TRY(ft_cuda_enter(cuda));
    FT_TRY(FT_CUDA(cuda->driver, event_create, &made, FT_CU_EVENT_DISABLE_TIMING)); // a time would cost a write
    *event = (ft_event *)(void *)made;
    return FT_OK;
}

void ft_cuda_event_destroy(ft_device *device, ft_event *event) {
    ft_cuda *cuda = ft_cuda_of(device);
    if (event == NULL) return;
    ft_error present;
    ft_error_save(&present);
    ft_status status = ft_cuda_enter(cuda);
    if (status == FT_OK) status = FT_CUDA(cuda->driver, event_destroy, of_driver(event));
    ft_cuda_keep(cuda, status);
    ft_error_restore(&present);
}

ft_status ft_cuda_event_record(ft_device *device, ft_event *event, ft_stream_kind stream) {
    ft_cuda *cuda = ft_cuda_of(device);
    FT_TRY(ft_cuda_enter(cuda));
    return FT_CUDA(cuda->driver, event_record, of_driver(event), find(cuda, stream));
}

ft_status ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event) {
    ft_cuda *cuda = ft_cuda_of(device);
    FT_TRY(ft_cuda_enter(cuda));
    return FT_CUDA(cuda->driver, stream_wait_event, find(cuda, stream), of_driver(event), FT_CU_EVENT_WAIT_DEFAULT);
}

ft_status ft_cuda_event_sync(ft_device *device, ft_event *event) {
    ft_cuda *cuda = ft_cuda_of(device);
    FT_TRY(ft_cuda_enter(cuda));
    return FT_CUDA(cuda->driver, event_synchronize, of_driver(event));
}

ft_status ft_cuda_event_query(ft_device *device, ft_event *event, bool *happened) {
    ft_cuda *cuda = ft_cuda_of(device);
    *happened = false;
    FT_TRY(ft_cuda_enter(cuda));
    const int result = cuda->driver->event_query(of_driver(event));
    if (result == FT_CU_NOT_READY) return FT_OK;
    if (result != FT_CU_SUCCESS) return ft_cuda_fail(cuda->driver, ft_cuda_symbol_event_query, result);
    *happened = true;
    return FT_OK;
}
