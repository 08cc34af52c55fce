// kernels.h - a CUDA device that computes: memory and stream of device.h, the module's kernels and cuBLASLt's products.
//
//     FT_TRY(ft_cuda_open_with_kernels(0, &device));
//     FT_TRY(FT_RUN(device, gemm, &args));
//     ft_device_close(device);
#ifndef FT_CUDA_KERNELS_H
#define FT_CUDA_KERNELS_H

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/opened.h"
#include "kernels/cuda/ops.h"
#include "kernels/gpu.h"

// driver, module and library are opened and belong to the device. FT_NO_DEVICE with what is missing.
ft_status ft_cuda_open_with_kernels(int ordinal, ft_device **device);
// What a run on that device would lack, without a context on it: FT_OK or FT_NO_DEVICE. kernels: which would be used; NULL is fine.
ft_status ft_cuda_look_for_kernels(const ft_cuda_driver *driver, ft_gpu_kernels *kernels);

#endif
