// graphs.c - work of a CUDA device's compute stream, captured and replayed. An ft_graph is the driver's own, ready to run.
#include "kernels/cuda/driver/device.h"

static ft_cu_graph_exec of_driver(ft_graph *graph) { return (ft_cu_graph_exec)(void *)graph; }

ft_status ft_cuda_graph_begin(ft_device *device) {
    ft_cuda *cuda = ft_cuda_of(device);
    FT_TRY(ft_cuda_enter(cuda));
    // Other threads have runs of their own, whose calls are none of this graph's.
    return FT_CUDA(cuda->driver, capture_begin, cuda->stream, FT_CU_CAPTURE_THREAD_LOCAL);
}

ft_status ft_cuda_graph_end(ft_device *device, ft_graph **graph) {
    ft_cuda *cuda = ft_cuda_of(device);
    ft_cu_graph captured = NULL;
    ft_cu_graph_exec ready = NULL;
    *graph = NULL;
    FT_TRY(ft_cuda_enter(cuda));
    FT_TRY(FT_CUDA(cuda->driver, capture_end, cuda->stream, &captured));
    ft_status status = FT_CUDA(cuda->driver, graph_instantiate, &ready, captured, 0);
    (void)cuda->driver->graph_destroy(captured);
    FT_TRY(status);
    *graph = (ft_graph *)(void *)ready;
    return FT_OK;
}

ft_status ft_cuda_graph_run(ft_device *device, ft_graph *graph) {
    ft_cuda *cuda = ft_cuda_of(device);
    FT_TRY(ft_cuda_enter(cuda));
    return FT_CUDA(cuda->driver, graph_launch, of_driver(graph), cuda->stream);
}

void ft_cuda_graph_destroy(ft_device *device, ft_graph *graph) {
    ft_cuda *cuda = ft_cuda_of(device);
    if (graph == NULL) return;
    ft_error present;
    ft_error_save(&present);
    ft_cuda_keep(cuda, ft_cuda_wait(cuda));
    ft_cuda_keep(cuda, FT_CUDA(cuda->driver, graph_exec_destroy, of_driver(graph)));
    ft_error_restore(&present);
}
