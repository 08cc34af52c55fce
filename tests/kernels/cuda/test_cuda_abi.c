// Our own declarations of the CUDA driver against NVIDIA's header, where the machine has one: every type, number, name
// and parameter list. Skipped elsewhere.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cuda/driver/driver.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #ours)
#define SAME_FIELD(ours, our_field, theirs, their_field)                                                               \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&                                       \
                       sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field),                           \
                   #ours "." #our_field)
#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)

SAME_SIZE(ft_cu_uuid, CUuuid);
SAME_SIZE(ft_cu_location, CUmemLocation);
SAME_FIELD(ft_cu_location, type, CUmemLocation, type);
SAME_FIELD(ft_cu_location, id, CUmemLocation, id);
SAME_SIZE(ft_cu_memory, CUmemAllocationProp);
SAME_FIELD(ft_cu_memory, type, CUmemAllocationProp, type);
SAME_FIELD(ft_cu_memory, shareable, CUmemAllocationProp, requestedHandleTypes);
SAME_FIELD(ft_cu_memory, location, CUmemAllocationProp, location);
SAME_FIELD(ft_cu_memory, windows_attributes, CUmemAllocationProp, win32HandleMetaData);
SAME_FIELD(ft_cu_memory, flags, CUmemAllocationProp, allocFlags);
SAME_SIZE(ft_cu_access, CUmemAccessDesc);
SAME_FIELD(ft_cu_access, location, CUmemAccessDesc, location);
SAME_FIELD(ft_cu_access, rights, CUmemAccessDesc, flags);
SAME_SIZE(ft_cu_tensor_map, CUtensorMap);
_Static_assert(_Alignof(ft_cu_tensor_map) >= 64, "cuTensorMapEncodeTiled demands it; NVIDIA's header says 128 since CUDA 13");

SAME_NUMBER(FT_CU_SUCCESS, CUDA_SUCCESS);
SAME_NUMBER(FT_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(FT_CU_STUB_LIBRARY, CUDA_ERROR_STUB_LIBRARY);
SAME_NUMBER(FT_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME_NUMBER(FT_CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME_NUMBER(FT_CU_SYSTEM_DRIVER_MISMATCH, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME_NUMBER(FT_CU_LOCATION_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_NUMBER(FT_CU_MEMORY_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_NUMBER(FT_CU_ACCESS_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_NUMBER(FT_CU_GRANULARITY_MINIMUM, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_NUMBER(FT_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_NUMBER(FT_CU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME_NUMBER(FT_CU_EVENT_WAIT_DEFAULT, CU_EVENT_WAIT_DEFAULT);
SAME_NUMBER(FT_CU_CAPTURE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME_NUMBER(FT_CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_NUMBER(FT_CU_TENSOR_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME_NUMBER(FT_CU_TENSOR_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME_NUMBER(FT_CU_TENSOR_SWIZZLE_128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME_NUMBER(FT_CU_TENSOR_L2_256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME_NUMBER(FT_CU_ATTRIBUTE_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_NUMBER(FT_CU_ATTRIBUTE_PCI_BUS, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
SAME_NUMBER(FT_CU_ATTRIBUTE_PCI_DEVICE, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
SAME_NUMBER(FT_CU_ATTRIBUTE_PCI_DOMAIN, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
SAME_NUMBER(FT_CU_ATTRIBUTE_CAPABILITY_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(FT_CU_ATTRIBUTE_CAPABILITY_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_NUMBER(FT_CU_ATTRIBUTE_VIRTUAL_MEMORY, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);

// With their types under our names the parameter lists must be theirs. (An enum of theirs is an unsigned int here.)
#define ft_cu_context CUcontext
#define ft_cu_stream CUstream
#define ft_cu_event CUevent
#define ft_cu_graph CUgraph
#define ft_cu_graph_exec CUgraphExec
#define ft_cu_memory CUmemAllocationProp
#define ft_cu_uuid CUuuid
#define ft_cu_access CUmemAccessDesc
#define ft_cu_tensor_map CUtensorMap
#define ft_cu_address CUdeviceptr
#define ft_cu_handle CUmemGenericAllocationHandle
#define FT_CUDA_CALL(field, symbol, parameters)                                                                        \
    _Static_assert(__builtin_types_compatible_p(CUresult parameters, __typeof__(symbol)), #symbol);
#include "kernels/cuda/driver/driver.def"
#undef FT_CUDA_CALL

// The names that their header gives to its calls, and the names that we look up.
#define NAME(call) NAME_OF(call)
#define NAME_OF(call) #call
static const struct {
    const char *ours, *theirs;
} names[] = {
    {ft_cuda_symbol_device_get_count, NAME(cuDeviceGetCount)},
    {ft_cuda_symbol_device_get, NAME(cuDeviceGet)},
    {ft_cuda_symbol_device_get_name, NAME(cuDeviceGetName)},
    {ft_cuda_symbol_device_get_uuid, NAME(cuDeviceGetUuid_v2)}, // NVIDIA's header has both names
    {ft_cuda_symbol_device_get_attribute, NAME(cuDeviceGetAttribute)},
    {ft_cuda_symbol_device_total_mem, NAME(cuDeviceTotalMem)},
    {ft_cuda_symbol_primary_context_retain, NAME(cuDevicePrimaryCtxRetain)},
    {ft_cuda_symbol_primary_context_release, NAME(cuDevicePrimaryCtxRelease)},
    {ft_cuda_symbol_context_set_current, NAME(cuCtxSetCurrent)},
    {ft_cuda_symbol_stream_create, NAME(cuStreamCreate)},
    {ft_cuda_symbol_stream_destroy, NAME(cuStreamDestroy)},
    {ft_cuda_symbol_stream_synchronize, NAME(cuStreamSynchronize)},
    {ft_cuda_symbol_stream_wait_event, NAME(cuStreamWaitEvent)},
    {ft_cuda_symbol_event_create, NAME(cuEventCreate)},
    {ft_cuda_symbol_event_destroy, NAME(cuEventDestroy)},
    {ft_cuda_symbol_event_record, NAME(cuEventRecord)},
    {ft_cuda_symbol_event_synchronize, NAME(cuEventSynchronize)},
    {ft_cuda_symbol_event_query, NAME(cuEventQuery)},
    {ft_cuda_symbol_event_elapsed_time, "cuEventElapsedTime"}, // drivers before 12.8 have no _v2, later ones have both
    {ft_cuda_symbol_capture_begin, NAME(cuStreamBeginCapture)},
    {ft_cuda_symbol_capture_end, NAME(cuStreamEndCapture)},
    {ft_cuda_symbol_graph_instantiate, NAME(cuGraphInstantiate)},
    {ft_cuda_symbol_graph_launch, NAME(cuGraphLaunch)},
    {ft_cuda_symbol_graph_destroy, NAME(cuGraphDestroy)},
    {ft_cuda_symbol_graph_exec_destroy, NAME(cuGraphExecDestroy)},
    {ft_cuda_symbol_mem_get_info, NAME(cuMemGetInfo)},
    {ft_cuda_symbol_mem_alloc, NAME(cuMemAlloc)},
    {ft_cuda_symbol_mem_free, NAME(cuMemFree)},
    {ft_cuda_symbol_host_alloc, NAME(cuMemHostAlloc)},
    {ft_cuda_symbol_host_free, NAME(cuMemFreeHost)},
    {ft_cuda_symbol_copy_to_device, NAME(cuMemcpyHtoDAsync)},
    {ft_cuda_symbol_copy_to_host, NAME(cuMemcpyDtoHAsync)},
    {ft_cuda_symbol_copy_on_device, NAME(cuMemcpyDtoDAsync)},
    {ft_cuda_symbol_set_bytes, NAME(cuMemsetD8Async)},
    {ft_cuda_symbol_granularity, NAME(cuMemGetAllocationGranularity)},
    {ft_cuda_symbol_address_reserve, NAME(cuMemAddressReserve)},
    {ft_cuda_symbol_address_free, NAME(cuMemAddressFree)},
    {ft_cuda_symbol_mem_create, NAME(cuMemCreate)},
    {ft_cuda_symbol_mem_release, NAME(cuMemRelease)},
    {ft_cuda_symbol_mem_map, NAME(cuMemMap)},
    {ft_cuda_symbol_mem_unmap, NAME(cuMemUnmap)},
    {ft_cuda_symbol_mem_set_access, NAME(cuMemSetAccess)},
    {ft_cuda_symbol_tensor_map_encode, NAME(cuTensorMapEncodeTiled)},
};
enum {
    CALLS = 0
#define FT_CUDA_CALL(field, symbol, parameters) +1
#include "kernels/cuda/driver/driver.def"
#undef FT_CUDA_CALL
};
_Static_assert(sizeof names / sizeof *names == CALLS, "a call without its name in NVIDIA's header");

static void names_are_nvidias(void **state) {
    for (size_t i = 0; i < CALLS; i++)
        assert_string_equal(names[i].ours, names[i].theirs);
}
#else
static void names_are_nvidias(void **state) { skip(); }
#endif

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_nvidias)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
