// warpgroup.h - what attention's kernels on warpgroups of sm_90a share, forward and backward: a block of one warp that asks the
// copy engine for tiles, and of two warpgroups that multiply them, 64 rows each. A matrix of D columns lies in D / 64 tiles
// (tile/tensor_copy.h), one behind the other.
#ifndef FT_CUDA_ATTENTION_WARPGROUP_H
#define FT_CUDA_ATTENTION_WARPGROUP_H

#include "kernels/cuda/tile/fragment.h"
#include "kernels/cuda/tile/wgmma.h"

constexpr int FT_GROUP = 4 * FT_WARP, FT_GROUPS = 2, FT_GROUP_ROWS = 64; // threads of a group, groups of a block, rows of a group
constexpr int FT_GROUPS_ROWS = FT_GROUPS * FT_GROUP_ROWS, FT_GROUPS_THREADS = (1 + FT_GROUPS) * FT_GROUP;
// Of a block's registers those who only copy need few. Taken can be only what was given of those that the block began with: per
// thread LAUNCHED, the most that a launch of so many threads may have (test_sass.sh: the compiler does not choose fewer).
constexpr int FT_COPY_REGISTERS = 24, FT_PRODUCT_REGISTERS = 240, FT_LAUNCHED_REGISTERS = 65536 / FT_GROUPS_THREADS / 8 * 8;
static_assert(FT_COPY_REGISTERS + FT_GROUPS * FT_PRODUCT_REGISTERS <= (1 + FT_GROUPS) * FT_LAUNCHED_REGISTERS,
              "more would be taken than was given: a hang");

// A lane leaves the wait when it has seen the phase; instructions of whole warps behind it want all of them.
FT_DEVICE void ft_wait_together(ft_mbarrier *barrier, unsigned parity) {
    ft_mbarrier_wait(barrier, parity);
    __syncwarp();
}

// By one lane: the tiles of a matrix, whose boxes are of `tile_bytes`, from (row, column) on.
template <int D>
FT_DEVICE void ft_copy_matrix(unsigned char *to, const ft_cu_tensor_map &map, int tile_bytes, int column, int row, ft_mbarrier *arrives) {
    for (int i = 0; i < D / FT_TENSOR_COLUMNS; i++)
        ft_tensor_copy(to + i * tile_bytes, map, column + i * FT_TENSOR_COLUMNS, row, arrives);
}

// By one warp: rows from..to-1 become zeros that products see, once its arrival has told them. Rows behind a sequence belong to the
// next one: what they have comes to 0 in a product, unless it is NaN.
template <int D> FT_DEVICE void ft_zero_rows(unsigned char *matrix, int tile_bytes, int from, int to) {
    for (int i = 0; i < D / FT_TENSOR_COLUMNS; i++) {
        unsigned char *const begin = matrix + i * tile_bytes + from * FT_TENSOR_ROW;
#pragma unroll 1 // (copying warps have few registers)
        for (int n = int(threadIdx.x) % FT_WARP; n < (to - from) * 8; n += FT_WARP) // whole rows: swizzled or not
            reinterpret_cast<uint4 *>(begin)[n] = make_uint4(0, 0, 0, 0);
        ft_async_fence(begin, size_t(to - from) * FT_TENSOR_ROW);
    }
}

// A warp's 16 rows from `own` on of a matrix in shared memory as left operands.
template <int D> FT_DEVICE void ft_left_of_matrix(unsigned (&left)[D / 16][4], const unsigned char *matrix, int tile_bytes, int own) {
    const int lane = int(threadIdx.x) % FT_WARP;
#pragma unroll
    for (int c = 0; c < D / 16; c++)
        ft_ldmatrix_x4(left[c], matrix + c / 4 * tile_bytes + ft_tensor_place(own + lane % 16, c % 4 * 2 + lane / 16));
}

// Sums, each of two rows of a lane times its factor, to those rows of a matrix in shared memory, rounded; and from there, which only
// this warp uses, to `global`, 16 bytes a store. Rows from `valid` on are not there.
template <class T, int D>
FT_DEVICE void ft_sums_to_matrix(unsigned char *matrix, int tile_bytes, int own, const float (&sums)[D / 8][4], const float (&factor)[2]) {
    const int lane = int(threadIdx.x) % FT_WARP;
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int n = 0; n < D / 8; n++)
            *reinterpret_cast<unsigned *>(matrix + n / 8 * tile_bytes + ft_tensor_place(own + lane / 4 + h * 8, n % 8) + lane % 4 * 4) =
                ft_pack<T>(sums[n][h * 2] * factor[h], sums[n][h * 2 + 1] * factor[h]);
}
template <class T, int D>
FT_DEVICE void ft_store_matrix(T *global, int64_t stride, const unsigned char *matrix, int tile_bytes, int own, int valid) {
    const int lane = int(threadIdx.x) % FT_WARP;
#pragma unroll
    for (int i = 0; i < 16 * D / 8 / FT_WARP; i++) {
        const int n = i * FT_WARP + lane, row = n / (D / 8), chunk = n % (D / 8);
        if (row < valid)
            *reinterpret_cast<uint4 *>(global + row * stride + chunk * 8) =
                *reinterpret_cast<const uint4 *>(matrix + chunk / 8 * tile_bytes + ft_tensor_place(own + row, chunk % 8));
    }
}

#endif
