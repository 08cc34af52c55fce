// gpus.c - what devices.h says of GPUs, from the CUDA back end.
#include "base/arena.h"
#include "kernels/cuda/driver/chips.h"
#include "kernels/cuda/driver/nvml.h"
#include "kernels/cuda/kernels.h"
#include "kernels/devices/devices.h"
#include "kernels/devices/product_check.h"

#include <stdlib.h>

struct ft_gpus {
    ft_cuda_driver *driver;
};

ft_status ft_gpus_open(ft_gpus **gpus) {
    ft_cuda_driver *driver;
    *gpus = NULL;
    FT_TRY(ft_cuda_driver_open(NULL, &driver));
    *gpus = ft_calloc(1, sizeof **gpus, "the CUDA driver");
    if (*gpus == NULL) {
        ft_cuda_driver_close(driver);
        return FT_NO_MEMORY;
    }
    (*gpus)->driver = driver;
    return FT_OK;
}

void ft_gpus_close(ft_gpus *gpus) {
    if (gpus == NULL) return;
    ft_cuda_driver_close(gpus->driver);
    free(gpus);
}

ft_gpus_driver ft_gpus_driver_of(const ft_gpus *gpus) {
    const ft_cuda_driver *driver = gpus->driver;
    return (ft_gpus_driver){.path = driver->path, .release = driver->release, .version = driver->version};
}

ft_status ft_gpus_count(const ft_gpus *gpus, int *count) { return ft_cuda_chip_count(gpus->driver, count); }

ft_status ft_gpus_read(const ft_gpus *gpus, int ordinal, ft_gpu *gpu) { return ft_cuda_chip_read(gpus->driver, ordinal, gpu); }

ft_status ft_gpus_free_bytes(const ft_gpus *gpus, const ft_gpu *gpu, size_t *bytes) {
    return ft_cuda_chip_free_bytes(gpus->driver, gpu, bytes);
}

ft_status ft_gpu_check(const ft_gpu *gpu) { return ft_cuda_chip_check(gpu); }

ft_status ft_gpus_check_libraries(const ft_gpus *gpus, ft_gpu_kernels *kernels) { return ft_cuda_look_for_kernels(gpus->driver, kernels); }

ft_status ft_gpu_processes_read(const ft_gpu *gpu, ft_gpu_processes *processes) { return ft_cuda_processes_read(gpu, processes); }

void ft_gpu_processes_free(ft_gpu_processes *processes) { ft_cuda_processes_free(processes); }

ft_status ft_gpu_sensors_read(const ft_gpu *gpu, ft_gpu_sensors *sensors) { return ft_cuda_sensors_read(gpu, sensors); }

// ---- matrix products ----------------------------------------------------------------------------------------------------

bool ft_gemms_have(const ft_device *device) { return device->target.backend == FT_BACKEND_CUDA; }

size_t ft_gemms_library(const ft_device *device) { return ft_cuda_gemms_library(device); }

void ft_gemms_driver(const ft_device *device, char text[FT_GEMM_DRIVER]) { ft_cuda_gemms_driver(device, text); }

// Choices may name kernels of our own, and measuring tries them: where they are right.
ft_status ft_gemms_use(ft_device *device, const ft_gemm_choice *choices, size_t count) {
    bool own = false;
    for (size_t i = 0; i < count; i++)
        own = own || (choices[i].shape.epilogue != FT_GEMM_NO_EPILOGUE && choices[i].algorithm.data[0] == FT_GEMM_OWN);
    if (own) FT_TRY(ft_cuda_product_check(ft_cuda_of(ft_device_under(device))));
    return ft_cuda_gemms_use(device, choices, count);
}

ft_status ft_gemms_check(ft_device *device) { return ft_cuda_product_check(ft_cuda_of(ft_device_under(device))); }

ft_status ft_gemms_measure(ft_device *device) {
    FT_TRY(ft_cuda_product_check(ft_cuda_of(ft_device_under(device))));
    return ft_cuda_gemms_measure(device);
}

void ft_gemms_forget(ft_device *device) { ft_cuda_gemms_forget(device); }

const ft_gemm_choice *ft_gemms_choices(const ft_device *device, size_t *count) { return ft_cuda_gemms_choices(device, count); }
