// tensor_copy.h - tiles that the copy engine brings (cp.async.bulk.tensor, sm_90): one thread asks for a box of a matrix, and an
// mbarrier says when its bytes are there. A tile is 64 columns of 16 bits wide, its rows 128 bytes apart and swizzled as wgmma.h
// wants it; what lies outside of the matrix comes as zeros.
//
//     FT_TRY(ft_tensor_map_of(device, view, rows_of_box, &map));              // on the host
//     FT_KERNEL void k(FT_MAP_ARGUMENT(map)) {
//         ft_mbarrier_arrive_expect(full, rows * FT_TENSOR_ROW);              // by one thread
//         ft_tensor_copy(tile, map, column, row, full);
//
// The matrix of the map is the whole packed one: a box at a sequence's end has rows of the next one behind it, which whoever uses
// the tile must not let through.
#ifndef FT_CUDA_TILE_TENSOR_COPY_H
#define FT_CUDA_TILE_TENSOR_COPY_H

#include "kernels/cuda/tile/mbarrier.h"
#include "kernels/cuda/unit.h"

enum { FT_TENSOR_COLUMNS = 64, FT_TENSOR_ROW = 128, FT_TENSOR_PATTERN = 1024 }; // a row and eight of them, in bytes

// Where the 16 bytes number `chunk` of a row are, in bytes from the tile's begin, which is aligned to FT_TENSOR_PATTERN.
FT_HOST_DEVICE constexpr int ft_tensor_place(int row, int chunk) { return row * FT_TENSOR_ROW + (chunk ^ row % 8) * 16; }

#ifdef __CUDACC__
#define FT_MAP_ARGUMENT(name) const __grid_constant__ ft_cu_tensor_map name
FT_DEVICE void ft_tensor_copy(void *tile, const ft_cu_tensor_map &map, int column, int row, ft_mbarrier *arrives) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                     ft_shared_address(tile)),
                 "l"(&map), "r"(column), "r"(row), "r"(ft_shared_address(arrives))
                 : "memory");
}
#else
#define FT_MAP_ARGUMENT(name) const ft_cu_tensor_map name
#include <simt/tensor_copy.h>
#endif

// A map of boxes of `rows` rows of a view of bf16 or fp16, whose rows begin at 16 bytes.
static inline ft_status ft_tensor_map_of(ft_device *device, const ft_tensor &view, int rows, ft_cu_tensor_map *map) {
    const uint64_t sizes[] = {uint64_t(view.cols), uint64_t(view.rows)}, strides[] = {uint64_t(view.stride) * 2};
    const uint32_t box[] = {FT_TENSOR_COLUMNS, uint32_t(rows)}, steps[] = {1, 1};
    const int result = ft_cuda_of(device)->driver->tensor_map_encode(
        map, view.dtype == FT_F16 ? FT_CU_TENSOR_F16 : FT_CU_TENSOR_BF16, 2, view.data, sizes, strides, box, steps, 0,
        FT_CU_TENSOR_SWIZZLE_128, FT_CU_TENSOR_L2_256, 0);
    if (result == FT_CU_SUCCESS) return FT_OK;
    return ft_fail(FT_FAILED, "cuTensorMapEncodeTiled", "%lld x %lld, rows of %lld: error %d", (long long)view.rows,
                   (long long)view.cols, (long long)view.stride, result);
}

#endif
