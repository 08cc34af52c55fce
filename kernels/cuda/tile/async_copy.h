// async_copy.h - copies from global to shared memory that run beside the arithmetic (cp.async, sm_80 and later).
//
//     ft_copy_async16(to, from);      // any number of copies
//     ft_copy_async_commit();         // they are a group now
//     ft_copy_async_wait<1>();        // all groups but the newest one are there, for this thread
//     __syncthreads();                // for all threads
#ifndef FT_CUDA_TILE_ASYNC_COPY_H
#define FT_CUDA_TILE_ASYNC_COPY_H

#include "kernels/cuda/simt.h"

#ifdef __CUDACC__
FT_DEVICE unsigned ft_shared_address(const void *shared) { return (unsigned)__cvta_generic_to_shared(shared); }

// 16 bytes, both addresses aligned to 16.
FT_DEVICE void ft_copy_async16(void *shared, const void *global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(ft_shared_address(shared)), "l"(global) : "memory");
}
// `valid`: 16 bytes are copied; else 16 zeros are written and `global` is not read, but must still be an address.
FT_DEVICE void ft_copy_async16_or_zero(void *shared, const void *global, bool valid) {
    int bytes = valid ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(ft_shared_address(shared)), "l"(global), "r"(bytes)
                 : "memory");
}
FT_DEVICE void ft_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int NEWEST> FT_DEVICE void ft_copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(NEWEST) : "memory");
}
#else
#include <simt/async_copy.h>
#endif

#endif
