// driver.h - NVIDIA's driver library, opened when somebody asks for it. Nothing of CUDA is needed to build this or to
// start the program: the few types and numbers stand here as the driver's binary interface has them, and the functions
// are looked up by name.
//
//     ft_cuda_driver *driver;
//     FT_TRY(ft_cuda_driver_open(NULL, &driver));
//     FT_TRY(FT_CUDA(driver, mem_get_info, &free, &total));
//     ft_cuda_driver_close(driver);
#ifndef FT_CUDA_DRIVER_H
#define FT_CUDA_DRIVER_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

// ---- the driver's types -----------------------------------------------------------------------------------------

typedef struct ft_cu_context_object *ft_cu_context;
typedef struct ft_cu_stream_object *ft_cu_stream;
typedef struct ft_cu_event_object *ft_cu_event;
typedef struct ft_cu_graph_object *ft_cu_graph;           // work that was captured
typedef struct ft_cu_graph_exec_object *ft_cu_graph_exec; // and made ready to run
typedef unsigned long long ft_cu_address; // of device memory; the host sees the same number as a pointer
typedef unsigned long long ft_cu_handle;  // memory without an address

typedef struct ft_cu_uuid {
    char bytes[16];
} ft_cu_uuid;

typedef struct ft_cu_location {
    int type; // FT_CU_LOCATION_DEVICE
    int id;   // its ordinal
} ft_cu_location;

typedef struct ft_cu_memory { // what kind of memory cuMemCreate shall give
    int type;                 // FT_CU_MEMORY_PINNED
    int shareable;            // 0: stays in this process
    ft_cu_location location;
    void *windows_attributes;
    struct {
        unsigned char compression, direct_access;
        unsigned short usage;
        unsigned char reserved[4];
    } flags;
} ft_cu_memory;

typedef struct ft_cu_access {
    ft_cu_location location; // who
    int rights;              // FT_CU_ACCESS_READ_WRITE
} ft_cu_access;

typedef struct ft_cu_tensor_map { // of a matrix, for the copy engine of sm_90; only the driver knows what is in it
    uint64_t words[16];
} __attribute__((aligned(64))) ft_cu_tensor_map;

enum {
    FT_CU_SUCCESS = 0,
    FT_CU_OUT_OF_MEMORY = 2,
    FT_CU_STUB_LIBRARY = 34,
    FT_CU_DEVICE_UNAVAILABLE = 46,
    FT_CU_NO_DEVICE = 100,
    FT_CU_ECC_UNCORRECTABLE = 214,
    FT_CU_NVLINK_UNCORRECTABLE = 220,
    FT_CU_CONTAINED = 226,
    FT_CU_NOT_READY = 600,
    FT_CU_HARDWARE_STACK_ERROR = 714,
    FT_CU_LAUNCH_FAILED = 719,
    FT_CU_SYSTEM_DRIVER_MISMATCH = 803,
    FT_CU_UNKNOWN = 999,

    FT_CU_LOCATION_DEVICE = 1,
    FT_CU_MEMORY_PINNED = 1,
    FT_CU_ACCESS_READ_WRITE = 3,
    FT_CU_GRANULARITY_MINIMUM = 0,
    FT_CU_STREAM_NON_BLOCKING = 1,
    FT_CU_EVENT_DISABLE_TIMING = 2,
    FT_CU_EVENT_WAIT_DEFAULT = 0,
    FT_CU_CAPTURE_THREAD_LOCAL = 1,
    FT_CU_CAPTURE_RELAXED = 2,
    FT_CU_TENSOR_F16 = 6,
    FT_CU_TENSOR_BF16 = 9,
    FT_CU_TENSOR_SWIZZLE_128 = 3,
    FT_CU_TENSOR_L2_256 = 3,

    FT_CU_ATTRIBUTE_MULTIPROCESSORS = 16,
    FT_CU_ATTRIBUTE_PCI_BUS = 33,
    FT_CU_ATTRIBUTE_PCI_DEVICE = 34,
    FT_CU_ATTRIBUTE_PCI_DOMAIN = 50,
    FT_CU_ATTRIBUTE_CAPABILITY_MAJOR = 75,
    FT_CU_ATTRIBUTE_CAPABILITY_MINOR = 76,
    FT_CU_ATTRIBUTE_VIRTUAL_MEMORY = 102,
};

// ---- the library ------------------------------------------------------------------------------------------------

// Versions as the driver counts them: 1000 * major + 10 * minor. Modules built with any CUDA 12 run from 12.0 on.
enum { FT_CUDA_MINIMUM_VERSION = 12000 };

typedef struct ft_cuda_driver {
    void *library;
    char path[256];   // of the file that was opened
    char release[32]; // "535.129.03", read off the file's name; "" where it does not say
    int version;      // the newest CUDA that it supports: 12020 is 12.2
    int (*init)(unsigned flags);
    int (*driver_get_version)(int *version);
    int (*get_error_name)(int result, const char **name);
    int (*get_error_string)(int result, const char **text);
#define FT_CUDA_CALL(field, symbol, parameters) int(*field) parameters;
#include "kernels/cuda/driver/driver.def"
#undef FT_CUDA_CALL
} ft_cuda_driver;

// Opens and initialises the driver. path: NULL for the system's own libcuda.so.1, else a file (tests). FT_NO_DEVICE
// says what is missing: the library, a function of it, a newer version, a GPU. *driver is then NULL.
ft_status ft_cuda_driver_open(const char *path, ft_cuda_driver **driver);
// Frees the handle; NULL is fine. The library's code stays mapped: its threads outlive every user of it.
void ft_cuda_driver_close(ft_cuda_driver *driver);

// The error of a call: its name and the driver's own words for the result. Out of memory is FT_NO_MEMORY, no device is
// FT_NO_DEVICE, everything else FT_FAILED; what a device that breaks or is lost leads to is of that device (status.h).
ft_status ft_cuda_fail(const ft_cuda_driver *driver, const char *call, int result);

// A call as a status, with the error set.
#define FT_CUDA(driver, field, ...) ft_cuda_check((driver), ft_cuda_symbol_##field, (driver)->field(__VA_ARGS__))
static inline ft_status ft_cuda_check(const ft_cuda_driver *driver, const char *call, int result) {
    return result == FT_CU_SUCCESS ? FT_OK : ft_cuda_fail(driver, call, result);
}
#define FT_CUDA_CALL(field, symbol, parameters) extern const char ft_cuda_symbol_##field[];
#include "kernels/cuda/driver/driver.def"
#undef FT_CUDA_CALL

#endif
