// nvml.h - who uses the memory of a CUDA device, and how it is, by NVIDIA's management library (libnvidia-ml.so.1, which comes
// with the driver). Only for telling people: nothing is decided by it. Makes no context.
#ifndef FT_CUDA_NVML_H
#define FT_CUDA_NVML_H

#include "base/status.h"
#include "kernels/gpu.h"

// Of a slice (MIG) its own processes and memory, where it is found by its UUID. FT_NO_DEVICE with the reason where nobody can say. To be given to ft_cuda_processes_free in any case.
ft_status ft_cuda_processes_read(const ft_gpu *gpu, ft_gpu_processes *processes);
void ft_cuda_processes_free(ft_gpu_processes *processes);
// What of it the chip and the library tell; temperature and load are the whole chip's. FT_NO_DEVICE as above, where they tell nothing.
ft_status ft_cuda_sensors_read(const ft_gpu *gpu, ft_gpu_sensors *sensors);

#endif
