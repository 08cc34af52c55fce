// reachable.h - for kernels of tests that run on the emulator and on a GPU: the caller's memory where a kernel can reach it.
#ifndef FT_REACHABLE_H
#define FT_REACHABLE_H

#include "kernels/cuda/simt.h"

#include <initializer_list>

#ifdef __CUDACC__
static inline ft_status cuda_status(const char *what, cudaError_t error) {
    return error == cudaSuccess ? FT_OK : ft_fail(FT_FAILED, what, "%s", cudaGetErrorString(error));
}
// A copy of `bytes` bytes on the GPU; `back` gets what the kernels made of it.
struct reachable {
    void *host, *device = nullptr;
    size_t bytes;
    ft_status status;
    reachable(const void *memory, size_t size) : host(const_cast<void *>(memory)), bytes(size) {
        status = cuda_status("cudaMalloc", cudaMalloc(&device, bytes));
        if (status == FT_OK) status = cuda_status("cudaMemcpy", cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
    }
    ~reachable() { cudaFree(device); }
    ft_status back() { return cuda_status("cudaMemcpy", cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost)); }
};
#else
struct reachable {
    void *device;
    ft_status status = FT_OK;
    reachable(const void *memory, size_t) : device(const_cast<void *>(memory)) {}
    ft_status back() { return FT_OK; }
};
#endif
template <class T> static inline T *in(const reachable &memory) { return static_cast<T *>(memory.device); }

#endif
