// mbarrier.h - barriers in shared memory that count arrivals of threads and bytes of copies (sm_90): how those who fill tiles and
// those who use them wait for each other, without the rest of the block.
//
//     if (threadIdx.x == 0) ft_mbarrier_init(full, 1), ft_mbarrier_init(empty, 2), ft_mbarrier_init_done();
//     __syncthreads();
//     filling: ft_mbarrier_wait(empty, parity ^ 1); ft_mbarrier_arrive_expect(full, bytes); ... copies that name `full`
//     using:   ft_mbarrier_wait(full, parity); ...; ft_mbarrier_arrive(empty);
//
// A barrier goes from phase to phase: one is complete when as many arrivals as init said have come and all bytes that were expected.
// Phases are told apart by parity: wait(b, p) returns when the last complete phase has parity p; of a new barrier that is 1.
#ifndef FT_CUDA_TILE_MBARRIER_H
#define FT_CUDA_TILE_MBARRIER_H

#include "kernels/cuda/tile/async_copy.h"

struct ft_mbarrier {
    uint64_t state; // the hardware's
};

#ifdef __CUDACC__
// The bodies of kernels that need sm_90a stand under this: every target has the kernel, others trap.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define FT_SM_90A 1
#endif

FT_DEVICE void ft_mbarrier_init(ft_mbarrier *b, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(ft_shared_address(b)), "r"(arrivals) : "memory");
}
// Copies may name the barriers that the calling thread has initialised; a barrier of the block tells the other threads.
FT_DEVICE void ft_mbarrier_init_done() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
FT_DEVICE void ft_mbarrier_arrive(ft_mbarrier *b) {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(ft_shared_address(b)) : "memory");
}
// Arrives, and the phase is not complete before copies have brought `bytes` bytes more.
FT_DEVICE void ft_mbarrier_arrive_expect(ft_mbarrier *b, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(ft_shared_address(b)), "r"(bytes)
                 : "memory");
}
FT_DEVICE void ft_mbarrier_wait(ft_mbarrier *b, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(done)
                     : "r"(ft_shared_address(b)), "r"(parity)
                     : "memory");
    } while (done == 0);
}
// What the calling thread stored to these bytes, tensor cores and copies see from here on: between ordinary stores to a tile and
// the arrival that hands it over. All lanes of a warp come. (The hardware takes no range; the emulator holds it against the stores.)
FT_DEVICE void ft_async_fence(const void *, size_t) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
FT_DEVICE void ft_async_fence(const void *, size_t, const void *, size_t, const void *, size_t) { ft_async_fence(nullptr, 0); } // three of them

// Registers that each thread of a warpgroup has from here on: what some give up, others may take. All four warps come.
template <int REGISTERS> FT_DEVICE void ft_registers_give() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> FT_DEVICE void ft_registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
#else
#define FT_SM_90A 1
#include <simt/mbarrier.h>
#endif

#endif
