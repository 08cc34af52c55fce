// kernel.h - CUDA C++ for the host compiler: what kernels/cuda/simt.h includes where there is no nvcc. NVIDIA's own headers
// give the vector and half types; everything that runs is ours.
#ifndef FT_SIMT_KERNEL_H
#define FT_SIMT_KERNEL_H

#include <cuda_runtime_api.h>
#include <vector_functions.h>
// (after the runtime, whose vector types they use)
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/emulator/simt/control.h"
#include "tests/emulator/simt/launch.h"
#include "tests/emulator/simt/scheduler.h"

#include "tests/emulator/simt/intrinsics.h"
#include "tests/emulator/simt/warp.h"

#undef __launch_bounds__
#define __launch_bounds__(...)
#define FT_DEVICE [[maybe_unused]] static inline
#define FT_KERNEL [[maybe_unused]] static
// The address of a variable inside a lambda names the array: one for each place, and for each instance of a template.
#define FT_SHARED(type, name, count)                                                                                   \
    type(&name)[count] = *static_cast<type(*)[count]>(::simt::shared_array(                                            \
        [] {                                                                                                           \
            static char place;                                                                                         \
            return static_cast<const void *>(&place);                                                                  \
        }(),                                                                                                           \
        sizeof(type) * (count), alignof(type)))
#define FT_DYNAMIC_SHARED(name) unsigned char *const name = ::simt::block.dynamic_shared
#define threadIdx (::simt::current->index)
#define blockIdx (::simt::block.index)
#define blockDim (::simt::block.threads)
#define gridDim (::simt::block.grid)

#endif
