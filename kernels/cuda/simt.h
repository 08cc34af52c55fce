// simt.h - what every kernel file includes first. Under nvcc it is thin words over CUDA C++ and PTX; under the host
// compiler the same source runs on an emulator, one fiber per CUDA thread: whoever builds it so gives the folder in which
// <simt/...> lies.
//
//     FT_KERNEL void double_it(float *x, int n) {
//         FT_SHARED(float, part, 256);
//         FT_DYNAMIC_SHARED(bytes);
//         ...
//     }
//     return ft_launch("double", double_it, dim3(blocks), dim3(256), 0, stream, x, n);
//
// Rules that keep a kernel runnable in both worlds
// - Inline PTX stands in wrapper functions only (here and in tile/), each with a twin of the emulator.
// - Shared memory comes from the two macros, launches from ft_launch; no <<< >>>.
// - No grid-wide synchronisation, no waiting for another block, no textures, no printf, no device malloc.
// - At most 99 KiB of shared memory a block: what the smallest of our targets (sm_86, 89, 120) has. A kernel for sm_90a alone: 227.
// - Warp operations name their lanes (FT_ALL_LANES); lanes that returned early may not be named.
// - File-local functions are FT_DEVICE, kernels FT_KERNEL: both are static, so two files may use one name.
#ifndef FT_CUDA_SIMT_H
#define FT_CUDA_SIMT_H

extern "C" {
#include "kernels/ops/op.h"
#include "kernels/philox.h"
}

#ifdef __CUDACC__
#include <cuda_runtime.h>
// (after the runtime, whose vector types they use)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define FT_DEVICE static __device__ __forceinline__
#define FT_KERNEL static __global__
#define FT_SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define FT_DYNAMIC_SHARED(name) extern __shared__ __align__(1024) unsigned char name[]
#else
#include <simt/kernel.h>
#endif

#include <type_traits>
#include <utility>

enum { FT_WARP = 32 };
#define FT_ALL_LANES 0xffffffffu

enum { FT_SHARED_LIMIT = 99 * 1024 }; // bytes of shared memory that a block may have on every target

#ifdef __CUDACC__
static inline ft_status ft_launch_failed(const char *op, cudaError_t error) {
    // Kernels are loaded when they are first launched, into memory that no plan of ours holds.
    const ft_status code = error == cudaErrorMemoryAllocation ? FT_NO_MEMORY : FT_FAILED;
    return ft_fail(code, op, "launch: %s (%s)", cudaGetErrorString(error), cudaGetErrorName(error));
}
// Queues a kernel. `shared` is the dynamic part of its shared memory in bytes. Errors of the launch itself come back;
// errors while it runs come from the next synchronisation.
template <class... P, class... A>
static inline ft_status ft_launch(const char *op, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                                  cudaStream_t stream, A &&...arguments) {
    cudaError_t error = cudaSuccess;
    if (shared > 48 * 1024) // more than the default must be asked for
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (error == cudaSuccess) {
        kernel<<<grid, block, shared, stream>>>(std::forward<A>(arguments)...);
        error = cudaGetLastError();
    }
    return error == cudaSuccess ? FT_OK : ft_launch_failed(op, error);
}
#else
template <class... P, class... A>
static inline ft_status ft_launch(const char *op, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                                  cudaStream_t stream, A &&...arguments) {
    if (simt::launch(op, kernel, grid, block, shared, stream, std::forward<A>(arguments)...)) return FT_OK;
    return ft_fail(FT_FAILED, op, "launch: %s", simt_fault());
}
#endif

// ---- over the lanes of a whole warp; every lane gets the result, in an order of additions that never changes ----------
FT_DEVICE float ft_warp_sum(float value) {
#pragma unroll
    for (int distance = FT_WARP / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(FT_ALL_LANES, value, distance);
    return value;
}
FT_DEVICE float ft_warp_max(float value) {
#pragma unroll
    for (int distance = FT_WARP / 2; distance > 0; distance /= 2)
        value = fmaxf(value, __shfl_xor_sync(FT_ALL_LANES, value, distance));
    return value;
}

// ---- storage types: fp32, bf16 and fp16 in memory, fp32 in registers -------------------------------------------------
FT_DEVICE float ft_to_float(float x) { return x; }
FT_DEVICE float ft_to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
FT_DEVICE float ft_to_float(__half x) { return __half2float(x); }
template <class T> FT_DEVICE T ft_from_float(float x) {
    if constexpr (sizeof(T) == sizeof(float))
        return x;
    else if constexpr (std::is_same<T, __half>::value)
        return __float2half_rn(x);
    else
        return __float2bfloat16_rn(x);
}

// Two numbers rounded to T, the first in the low half.
template <class T> FT_DEVICE unsigned ft_pack(float first, float second) {
    if constexpr (std::is_same<T, __half>::value) {
        __half2 pair = __floats2half2_rn(first, second);
        return *reinterpret_cast<unsigned *>(&pair);
    } else {
        __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
        return *reinterpret_cast<unsigned *>(&pair);
    }
}
// And back: both halves of a word.
template <class T> FT_DEVICE float2 ft_unpack(unsigned word) {
    if constexpr (std::is_same<T, __half>::value)
        return __half22float2(*reinterpret_cast<const __half2 *>(&word));
    else
        return make_float2(__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u));
}

#endif
