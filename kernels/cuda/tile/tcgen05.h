// tcgen05.h - products on the tensor cores of sm_100a and sm_100f: 128 rows and N columns, 16 terms a step, of bf16 or fp16 into fp32. Sums lie in tensor
// memory, 128 lanes of 512 columns of 32 bits beside the registers, of which a block allocates columns. One thread asks for products; both operands
// are in shared memory; a commit arrives at an mbarrier when all that the thread has asked for is done.
//
//     one warp:   ft_tensor_allocate<256>(&place);   ... ft_tensor_told(); __syncthreads(); ft_tensor_heard(); ...   ft_tensor_free<256>(place);
//     one thread: ft_mbarrier_wait(full, ..); ft_tensor_heard(); ft_tcgen05<T, N, false>(place, a, b, false); ...; ft_tcgen05_commit(done);
//     four warps: ft_mbarrier_wait(done, ..); ft_tensor_heard(); ft_tensor_load(x, place + quarter); ft_tensor_loaded(x); ft_tensor_told(); arrive
//
// Loads, stores and products are asynchronous to the threads: what a warp did there it tells by an arrival behind ft_tensor_told, when it has waited
// for it; what it has heard at a barrier counts behind ft_tensor_heard. A warp reaches 32 lanes, those of its number modulo 4.
// Operands are tiles as tensor_copy.h brings them (wgmma.h: by rows or by columns); the descriptor is another one than wgmma's.
// (PTX ISA, "TensorCore 5th Generation Family Instructions"; bit by bit, and where others use the same words: tests/ptx/descriptors.md)
#ifndef FT_CUDA_TILE_TCGEN05_H
#define FT_CUDA_TILE_TCGEN05_H

#include "kernels/cuda/tile/tensor_copy.h"

#include <type_traits>

constexpr int FT_TENSOR_ROWS = 128; // of a product: a lane each

// An address in tensor memory: a lane above, a column below. Where the warp's lanes begin:
FT_DEVICE unsigned ft_tensor_quarter() { return threadIdx.x / FT_WARP % 4 * FT_WARP << 16; }

// Of an operand in shared memory: its address, how far 64 columns further are, and that eight rows are a pattern of 1,024 bytes, swizzled by 128.
FT_DEVICE uint64_t ft_tcgen05_descriptor(const void *matrix, unsigned next_tile, unsigned offset) {
    const unsigned low = (ft_shared_address(matrix) & 0x3ffff) >> 4 | next_tile >> 4 << 16;
    constexpr unsigned HIGH = 2u << 29 | 1u << 14 | FT_TENSOR_PATTERN >> 4;
    return uint64_t(HIGH) << 32 | (low + (offset >> 4));
}
// Terms 16 * step.. of a tile's rows; `tile_bytes` is its size, so that steps may go on into the next one.
FT_DEVICE uint64_t ft_tcgen05_rows(const void *tiles, unsigned tile_bytes, int step) {
    const int steps = FT_TENSOR_COLUMNS / 16;
    return ft_tcgen05_descriptor(tiles, 0, step / steps * tile_bytes + step % steps * 32);
}
// Terms 16 * step.. of a tile's columns, and of those of the tiles behind it if N is larger than 64.
FT_DEVICE uint64_t ft_tcgen05_columns(const void *tiles, unsigned tile_bytes, int step) {
    return ft_tcgen05_descriptor(tiles, tile_bytes, step * 16 * FT_TENSOR_ROW);
}
// What a product is: fp32 sums, the type of both operands, whether the right one lies by columns, its size.
template <class T, int N, bool COLUMNS> FT_HOST_DEVICE constexpr unsigned ft_tcgen05_kind() {
    static_assert(N % 16 == 0 && N >= 16 && N <= 256, "columns of the product");
    constexpr unsigned TYPE = std::is_same<T, __half>::value ? 0 : 1;
    return 1u << 4 | TYPE << 7 | TYPE << 10 | unsigned(COLUMNS) << 16 | unsigned(N / 8) << 17 | unsigned(FT_TENSOR_ROWS / 16) << 24;
}

#ifdef __CUDACC__
// Bodies of kernels that need these stand under this: other targets trap. 100a is for 10.0 alone; 100f, which CUDA 12.9 and later know, for 10.3
// too, whose own are 103a and 103f.
#ifdef __CUDA_ARCH_FEAT_SM100_ALL
#define FT_SM_100A 1
#elif defined __CUDA_ARCH_FAMILY_SPECIFIC__
#if __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1000 && __CUDA_ARCH_FAMILY_SPECIFIC__ < 1100
#define FT_SM_100A 1
#endif
#endif

template <int COLUMNS> FT_DEVICE void ft_tensor_allocate(unsigned *to) { // a power of two from 32 on; by a warp
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(ft_shared_address(to)), "n"(COLUMNS) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
template <int COLUMNS> FT_DEVICE void ft_tensor_free(unsigned from) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(from), "n"(COLUMNS) : "memory");
}
FT_DEVICE void ft_tensor_told() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
FT_DEVICE void ft_tensor_heard() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

#define FT_EIGHT(x, n) x(n), x(n + 1), x(n + 2), x(n + 3), x(n + 4), x(n + 5), x(n + 6), x(n + 7)
#define FT_THIRTY_TWO(x) FT_EIGHT(x, 0), FT_EIGHT(x, 8), FT_EIGHT(x, 16), FT_EIGHT(x, 24)
#define FT_NAMES                                                                                                              \
    "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, " \
    "%26, %27, %28, %29, %30, %31}"
#define FT_READ(n) "=f"(x[n])
#define FT_WRITTEN(n) "f"(x[n])
// 32 columns of the warp's lanes, a number a column of the calling thread's own. What they are, ft_tensor_loaded says.
FT_DEVICE void ft_tensor_load(float *x, unsigned from) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 " FT_NAMES ", [%32];" : FT_THIRTY_TWO(FT_READ) : "r"(from) : "memory");
}
FT_DEVICE void ft_tensor_store(unsigned to, const float *x) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%32], " FT_NAMES ";" ::FT_THIRTY_TWO(FT_WRITTEN), "r"(to) : "memory");
}
#undef FT_EIGHT
#undef FT_THIRTY_TWO
#undef FT_NAMES
#undef FT_READ
#undef FT_WRITTEN
// Everything that was loaded is there: the compiler uses none of it before.
template <int N> FT_DEVICE void ft_tensor_loaded(float (&x)[N]) {
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
#pragma unroll
    for (int n = 0; n < N; n++)
        asm volatile("" : "+f"(x[n])::"memory");
}
FT_DEVICE void ft_tensor_stored() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

// By one thread: to = a b, or to += a b if `add`. T: __nv_bfloat16 or __half; COLUMNS: how the right operand lies.
template <class T, int N, bool COLUMNS> FT_DEVICE void ft_tcgen05(unsigned to, uint64_t a, uint64_t b, bool add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}" ::"r"(to),
                 "l"(a), "l"(b), "r"(ft_tcgen05_kind<T, N, COLUMNS>()), "r"(int(add))
                 : "memory");
}
FT_DEVICE void ft_tcgen05_commit(ft_mbarrier *arrives) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(ft_shared_address(arrives)) : "memory");
}
#else
#define FT_SM_100A 1
#include <simt/tcgen05.h>
#endif

#endif
