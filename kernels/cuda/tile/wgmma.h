// wgmma.h - products of a warpgroup, four warps from a multiple of four on, on the tensor cores of sm_90a: 64 rows and N columns, 16
// terms a sum, fp32 sums in registers. They run beside the threads until they are waited for.
//
//     ft_wgmma_hold(left);       // written until here, and kept until the wait: products read the left operand while they run
//     ft_wgmma_fence(sums);      // registers were written by other instructions (_new: and what is in `sums` does not matter)
//     ft_wgmma<T, N, false>(sums, left, ft_wgmma_rows(tile, bytes, n), add); // as many as one likes
//     ft_wgmma_of_rows<T>(sums, ft_wgmma_rows(left_tile, bytes, n), ft_wgmma_rows(tile, bytes, n), add); // or with nothing in registers
//     ft_wgmma_of_tiles<T, true, true>(sums, ft_wgmma_columns(left_tile, bytes, n), ft_wgmma_columns(tile, bytes, n), add); // or by columns
//     ft_wgmma_wide<T, false>(sums, ft_wgmma_rows(left_tile, bytes, n), ft_wgmma_rows(tile, bytes, n), add); // 256 columns
//     ft_wgmma_commit();         // they are a group now
//     ft_wgmma_wait<0>(sums);    // all groups but the newest 0 are done (without `sums`: they stay the products', which go on adding)
//     ft_wgmma_hold(left);       // others may come into its registers
//
// Each warp has 16 rows; sums and the left operand lie in its registers as those of mma.m16n8k16 do (fragment.h): sums[n] are the 16 x 8
// accumulators of columns 8n.., `left` is one operand of 16 x 16. So what is made of sums there is made of them here.
// The right operand is a tile in shared memory as tensor_copy.h brings it: columns of 64 numbers, 128 bytes, of which 16 bytes number
// c of row r lie at c ^ r % 8, and 64 columns more in the next tile. It begins at a multiple of 1,024 bytes.
//     rows     (K-major)  its rows are columns of the product, and 16 of its columns are summed over
//     columns  (MN-major) its columns are columns of the product, and 16 of its rows are summed over
// A left operand in shared memory is 64 such rows, or columns, of which a warp has its 16 (ft_wgmma_of_tiles): a warp that is done with its products
// does not say that the other three have read theirs.
// (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout"; tests/emulator/pieces/hopper_checks.c has both against plain sums)
#ifndef FT_CUDA_TILE_WGMMA_H
#define FT_CUDA_TILE_WGMMA_H

#include "kernels/cuda/tile/tensor_copy.h"

// Where an operand is: its address, the distance of one tile of 64 columns from the next, that of eight rows from the next eight,
// and how rows are swizzled. A step along it adds `offset` bytes to the address, in the lower word alone: an address has 14 bits there and no carry, so
// that of the products of a tile each costs one addition, where the address as a whole is cut and shifted once.
FT_DEVICE uint64_t ft_wgmma_descriptor(const void *matrix, unsigned next_tile, unsigned offset) {
    const unsigned base = (ft_shared_address(matrix) & 0x3ffff) >> 4 | next_tile >> 4 << 16;
    return uint64_t(1u << 30 | FT_TENSOR_PATTERN >> 4) << 32 | (base + (offset >> 4));
}
// Terms 16 * step.. of a tile's rows; `tile_bytes` is its size, so that steps may go on into the next one.
FT_DEVICE uint64_t ft_wgmma_rows(const void *tiles, unsigned tile_bytes, int step) {
    const int steps = FT_TENSOR_COLUMNS / 16;
    return ft_wgmma_descriptor(tiles, 0, step / steps * tile_bytes + step % steps * 32);
}
// The same from the descriptor of step 0, without the address.
FT_DEVICE uint64_t ft_wgmma_rows_at(uint64_t tiles, unsigned tile_bytes, int step) {
    const int steps = FT_TENSOR_COLUMNS / 16;
    return tiles + (step / steps * tile_bytes + step % steps * 32) / 16;
}
// Terms 16 * step.. of a tile's columns, and of those of the tiles behind it if N is larger than 64.
FT_DEVICE uint64_t ft_wgmma_columns(const void *tiles, unsigned tile_bytes, int step) {
    return ft_wgmma_descriptor(tiles, tile_bytes, step * 16 * FT_TENSOR_ROW);
}

#ifdef __CUDACC__
// That these registers are used there: the compiler moves nothing of them across.
template <int N> FT_DEVICE void ft_wgmma_hold(float (&sums)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            asm volatile("" : "+f"(sums[n][e])::"memory");
}
template <int N> FT_DEVICE void ft_wgmma_hold(unsigned (&left)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int q = 0; q < 4; q++)
            asm volatile("" : "+r"(left[n][q])::"memory");
}
// A descriptor that the compiler takes for a new one: what it adds to it is made here, and not kept in registers around a loop.
FT_DEVICE uint64_t ft_wgmma_made_here(uint64_t descriptor) {
    asm volatile("" : "+l"(descriptor));
    return descriptor;
}
FT_DEVICE int ft_wgmma_made_here(int number) { // and any number
    asm volatile("" : "+r"(number));
    return number;
}
template <int N> FT_DEVICE void ft_wgmma_fence(float (&sums)[N][4]) {
    ft_wgmma_hold(sums);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// The same where the first product does not add: registers that hold nothing until then are free for others.
template <int N> FT_DEVICE void ft_wgmma_fence_new(float (&sums)[N][4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            asm volatile("" : "=f"(sums[n][e])::"memory");
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Between products whose sums nobody else has touched since the last fence.
FT_DEVICE void ft_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
FT_DEVICE void ft_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int NEWEST, int N> FT_DEVICE void ft_wgmma_wait(float (&sums)[N][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(NEWEST) : "memory");
    ft_wgmma_hold(sums);
}
template <int NEWEST> FT_DEVICE void ft_wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(NEWEST) : "memory"); }

// Of eight columns, and of many: operands and their names.
#define FT_SUMS_8(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define FT_SUMS_32 FT_SUMS_8(0), FT_SUMS_8(1), FT_SUMS_8(2), FT_SUMS_8(3)
#define FT_SUMS_64 FT_SUMS_32, FT_SUMS_8(4), FT_SUMS_8(5), FT_SUMS_8(6), FT_SUMS_8(7)
#define FT_SUMS_128                                                                                                    \
    FT_SUMS_64, FT_SUMS_8(8), FT_SUMS_8(9), FT_SUMS_8(10), FT_SUMS_8(11), FT_SUMS_8(12), FT_SUMS_8(13), FT_SUMS_8(14), \
        FT_SUMS_8(15)
#define FT_SUMS_256                                                                                                     \
    FT_SUMS_128, FT_SUMS_8(16), FT_SUMS_8(17), FT_SUMS_8(18), FT_SUMS_8(19), FT_SUMS_8(20), FT_SUMS_8(21),              \
        FT_SUMS_8(22), FT_SUMS_8(23), FT_SUMS_8(24), FT_SUMS_8(25), FT_SUMS_8(26), FT_SUMS_8(27), FT_SUMS_8(28),        \
        FT_SUMS_8(29), FT_SUMS_8(30), FT_SUMS_8(31)
#define FT_NAMES_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define FT_NAMES_64 FT_NAMES_32 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FT_NAMES_128                                                                                                   \
    FT_NAMES_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, "    \
                "%51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FT_NAMES_256                                                                                                   \
    FT_NAMES_128 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                  \
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                    \
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "        \
                 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define FT_WGMMA(shape, type, names, sums, left, right, adds, columns)                                                 \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " adds ", 0;\n"                                                     \
                 "wgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" names "}, " left ", " right          \
                 ", p, 1, 1, " columns ";\n}"                                                                          \
                 : sums                                                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)), "n"(int(COLUMNS))                \
                 : "memory")
#define FT_WGMMA_32(type) FT_WGMMA("m64n32k16", type, FT_NAMES_32, FT_SUMS_32, "{%16, %17, %18, %19}", "%20", "%21", "%22")
#define FT_WGMMA_64(type) FT_WGMMA("m64n64k16", type, FT_NAMES_64, FT_SUMS_64, "{%32, %33, %34, %35}", "%36", "%37", "%38")
#define FT_WGMMA_128(type) FT_WGMMA("m64n128k16", type, FT_NAMES_128, FT_SUMS_128, "{%64, %65, %66, %67}", "%68", "%69", "%70")

// d = a b, or d += a b if `add`. T: __nv_bfloat16 or __half; COLUMNS: how the right operand lies, see above.
template <class T, int N, bool COLUMNS>
FT_DEVICE void ft_wgmma(float (&d)[N / 8][4], const unsigned (&a)[4], uint64_t b, bool add) {
    static_assert(N == 32 || N == 64 || N == 128, "columns of the product");
    constexpr bool IS_HALF = std::is_same<T, __half>::value;
    if constexpr (N == 32 && IS_HALF) FT_WGMMA_32("f16");
    if constexpr (N == 32 && !IS_HALF) FT_WGMMA_32("bf16");
    if constexpr (N == 64 && IS_HALF) FT_WGMMA_64("f16");
    if constexpr (N == 64 && !IS_HALF) FT_WGMMA_64("bf16");
    if constexpr (N == 128 && IS_HALF) FT_WGMMA_128("f16");
    if constexpr (N == 128 && !IS_HALF) FT_WGMMA_128("bf16");
}
#define FT_WGMMA_OF_TILES(type)                                                                                        \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"                                                          \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" FT_NAMES_64                          \
                 "}, %32, %33, p, 1, 1, %35, %36;\n}"                                                                  \
                 : FT_SUMS_64                                                                                          \
                 : "l"(a), "l"(b), "r"(int(add)), "n"(int(LEFT_COLUMNS)), "n"(int(COLUMNS))                            \
                 : "memory")
// The same for 64 columns, both operands in shared memory. LEFT_COLUMNS: the left one's tile has its rows as columns.
template <class T, bool LEFT_COLUMNS, bool COLUMNS> FT_DEVICE void ft_wgmma_of_tiles(float (&d)[8][4], uint64_t a, uint64_t b, bool add) {
    if constexpr (std::is_same<T, __half>::value) FT_WGMMA_OF_TILES("f16");
    else FT_WGMMA_OF_TILES("bf16");
}
#define FT_WGMMA_WIDE(type)                                                                                            \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"                                                         \
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" FT_NAMES_256                        \
                 "}, %128, %129, p, 1, 1, 0, %131;\n}"                                                                 \
                 : FT_SUMS_256                                                                                         \
                 : "l"(a), "l"(b), "r"(int(add)), "n"(int(COLUMNS))                                                    \
                 : "memory")
// The same for 256 columns; the left operand by rows.
template <class T, bool COLUMNS> FT_DEVICE void ft_wgmma_wide(float (&d)[32][4], uint64_t a, uint64_t b, bool add) {
    if constexpr (std::is_same<T, __half>::value) FT_WGMMA_WIDE("f16");
    else FT_WGMMA_WIDE("bf16");
}
#undef FT_WGMMA_WIDE
#undef FT_WGMMA_OF_TILES
#undef FT_WGMMA_128
#undef FT_WGMMA_64
#undef FT_WGMMA_32
#undef FT_WGMMA
#undef FT_NAMES_256
#undef FT_NAMES_128
#undef FT_NAMES_64
#undef FT_NAMES_32
#undef FT_SUMS_256
#undef FT_SUMS_128
#undef FT_SUMS_64
#undef FT_SUMS_32
#undef FT_SUMS_8
#else
#include <simt/wgmma.h>
#endif

// Both by rows.
template <class T> FT_DEVICE void ft_wgmma_of_rows(float (&d)[8][4], uint64_t a, uint64_t b, bool add) {
    ft_wgmma_of_tiles<T, false, false>(d, a, b, add);
}

#endif
