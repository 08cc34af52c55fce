// device.h - memory and streams of one CUDA device, behind the functions of kernels/ops/device.h. The kernels' module brings the op
// table; what is here needs the driver alone.
//
//     FT_TRY(ft_cuda_open(driver, 0, ops, &device));
//     FT_TRY(device->functions->buffer_alloc(device, bytes, &data));
//     ft_device_close(device);
//
// Copies and fills are queued on the device's compute stream, those beside it on its copy stream. Freeing and decommitting
// wait for both, so that nothing queued can touch what is gone. These two cannot fail towards their caller: the first error of one is kept, and sync reports
// it.
#ifndef FT_CUDA_DEVICE_H
#define FT_CUDA_DEVICE_H

#include "kernels/cuda/driver/driver.h"
#include "kernels/ops/device.h"

typedef struct ft_cuda_range ft_cuda_range;
typedef struct ft_cuda_kernels ft_cuda_kernels; // kernels.h

// Who makes products with an epilogue: what was measured to be the fastest, cuBLASLt and a pass behind it, or our own kernel (product.h).
typedef enum ft_product_way { FT_PRODUCTS_MEASURED, FT_PRODUCTS_LIBRARY, FT_PRODUCTS_OWN } ft_product_way;

typedef struct ft_cuda ft_cuda;
struct ft_cuda {
    ft_device device; // first: an ft_device of this back end is an ft_cuda
    const ft_cuda_driver *driver;
    ft_cuda_driver *owned_driver; // closed with the device; NULL: somebody else's
    ft_cuda_kernels *kernels;     // NULL: no op is run
    void (*close_kernels)(ft_cuda *cuda);
    int ordinal, handle; // its number, and the driver's name for it
    ft_cu_context context;
    ft_cu_stream stream, copies; // where it computes, and where it copies from the host
    size_t page;           // of ranges; 0 where the chip has none
    ft_cuda_range *ranges; // reserved
    ft_error lost;         // the first error of a call that could not return it; code FT_OK: none
    char name[16];         // "cuda:0"
    bool warpgroups;       // attention on them is right on this GPU (kernels/devices/self_check.h)
    bool disentangled_warpgroups; // and so are the backward passes of disentangled attention
    bool disentangled_forward_warpgroups; // and so is its forward pass
    bool no_tensor_memory; // FTENGINE_ATTENTION=tcgen05 is not followed on this GPU: `remark` has told why
    ft_product_way products; // FTENGINE_PRODUCTS
    bool own_products, checked_products; // our own products with epilogues are right on this GPU (kernels/devices/product_check.h); that was looked at
    char remark[512];      // what whoever opened it should tell people; "": nothing
    char product_remark[512]; // the same, when matrix products are measured or chosen
};

static inline ft_cuda *ft_cuda_of(ft_device *device) { return (ft_cuda *)device; }

// Retains the device's primary context. `driver` must outlive the device. ops: its op table, called with this device;
// it may be NULL where no op is run. FT_NO_DEVICE for a chip that is not there or too old.
ft_status ft_cuda_open(const ft_cuda_driver *driver, int ordinal, const ft_op_table *ops, ft_device **device);

// What the chip is - device's name, description, target, bytes and functions -, before anything is taken from it; of `cuda`
// only the driver is read.
ft_status ft_cuda_describe(ft_cuda *cuda, int ordinal);

// ---- for the files here -----------------------------------------------------------------------------------------

// Makes the device's context the calling thread's: before every other call of the driver.
ft_status ft_cuda_enter(ft_cuda *cuda);
// Enters and waits for both streams.
ft_status ft_cuda_wait(ft_cuda *cuda);
// Keeps the present error if `status` is one and none is kept yet.
void ft_cuda_keep(ft_cuda *cuda, ft_status status);

// ranges.c: functions of the table
ft_status ft_cuda_range_reserve(ft_device *device, size_t bytes, void **base, size_t *page);
ft_status ft_cuda_range_commit(ft_device *device, void *base, size_t offset, size_t bytes);
void ft_cuda_range_decommit(ft_device *device, void *base, size_t offset, size_t bytes);
void ft_cuda_range_release(ft_device *device, void *base, size_t bytes);
ft_status ft_cuda_find_page(ft_cuda *cuda); // fills cuda->page
// buffers.c: likewise
ft_status ft_cuda_buffer_alloc(ft_device *device, size_t bytes, void **data);
void ft_cuda_buffer_free(ft_device *device, void *data, size_t bytes);
ft_status ft_cuda_upload(ft_device *device, void *to_device, const void *from_host, size_t bytes);
ft_status ft_cuda_download(ft_device *device, void *to_host, const void *from_device, size_t bytes);
ft_status ft_cuda_copy(ft_device *device, void *to, const void *from, size_t bytes);
ft_status ft_cuda_fill(ft_device *device, void *data, int byte, size_t bytes);
ft_status ft_cuda_sync(ft_device *device);
ft_status ft_cuda_host_alloc(ft_device *device, size_t bytes, void **data);
void ft_cuda_host_free(ft_device *device, void *data);
ft_status ft_cuda_upload_beside(ft_device *device, void *to_device, const void *from_host, size_t bytes);
ft_status ft_cuda_download_beside(ft_device *device, void *to_host, const void *from_device, size_t bytes);
// events.c: likewise
ft_status ft_cuda_event_create(ft_device *device, ft_event **event);
void ft_cuda_event_destroy(ft_device *device, ft_event *event);
ft_status ft_cuda_event_record(ft_device *device, ft_event *event, ft_stream_kind stream);
ft_status ft_cuda_stream_wait(ft_device *device, ft_stream_kind stream, ft_event *event);
ft_status ft_cuda_event_sync(ft_device *device, ft_event *event);
ft_status ft_cuda_event_query(ft_device *device, ft_event *event, bool *happened);
// graphs.c: likewise
ft_status ft_cuda_graph_begin(ft_device *device);
ft_status ft_cuda_graph_end(ft_device *device, ft_graph **graph);
ft_status ft_cuda_graph_run(ft_device *device, ft_graph *graph);
void ft_cuda_graph_destroy(ft_device *device, ft_graph *graph);

static inline ft_cu_address ft_cuda_address(const void *data) { return (ft_cu_address)(uintptr_t)data; }

#endif
