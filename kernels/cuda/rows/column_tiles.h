// column_tiles.h - sums over rows, in a fixed order and without atomics. A block walks 256 columns of a tile, warp w
// taking rows w, w + 8, ...; its partial sums go to scratch, [tile][column], and a second kernel adds the tiles in
// order, here and for layernorm_backward. What is done to each unit on the way is the body: reading, writing, adding to its sums.
#ifndef FT_CUDA_COLUMN_TILES_H
#define FT_CUDA_COLUMN_TILES_H

#include "kernels/cuda/unit.h"

enum { FT_TILE_COLUMNS = FT_WARP * FT_CUDA_UNIT };

// body(row, col, n, sums)
template <class Body>
FT_KERNEL void __launch_bounds__(FT_BLOCK) ft_column_tiles_kernel(Body body, int64_t rows, int cols, int tile, float *partial) {
    enum { PITCH = FT_WARP + 4 }; // reads across warps, eight columns of four units, then spread over all banks as stores do
    FT_SHARED(float, shared, FT_BLOCK_WARPS *FT_CUDA_UNIT *PITCH);
    const int lane = threadIdx.x % FT_WARP, warp = threadIdx.x / FT_WARP;
    const int col = ((int)blockIdx.y * FT_WARP + lane) * FT_CUDA_UNIT;
    const int64_t first = (int64_t)blockIdx.x * tile, last = rows < first + tile ? rows : first + tile;
    ft_unit sums = ft_unit_zero();
    if (col < cols)
        for (int64_t row = first + warp; row < last; row += FT_BLOCK_WARPS)
            body(row, col, cols - col < FT_CUDA_UNIT ? cols - col : FT_CUDA_UNIT, sums);
    if (partial == nullptr) return; // the whole grid alike
    const int mine = (int)blockIdx.y * FT_TILE_COLUMNS + threadIdx.x;
#pragma unroll
    for (int i = 0; i < FT_CUDA_UNIT; i++)
        shared[(warp * FT_CUDA_UNIT + i) * PITCH + lane] = sums.v[i];
    __syncthreads();
    float total = 0.0f;
    for (int w = 0; w < FT_BLOCK_WARPS; w++)
        total += shared[(w * FT_CUDA_UNIT + threadIdx.x % FT_CUDA_UNIT) * PITCH + threadIdx.x / FT_CUDA_UNIT];
    if (mine < cols) partial[(int64_t)blockIdx.x * cols + mine] = total;
}

// Group g of a column's eight threads adds tiles g, g + 8, ...; then the groups follow each other. blockIdx.y: which
// sum. (The outputs are three parameters: an array of them, indexed by a block, would be copied to local memory.)
FT_KERNEL void __launch_bounds__(FT_BLOCK)
    ft_add_tiles_kernel(const float *partial, int64_t tiles, int cols, float *first, float *second, float *third) {
    FT_SHARED(float, shared, FT_BLOCK);
    const int lane = threadIdx.x % FT_WARP, group = threadIdx.x / FT_WARP;
    const int col = (int)blockIdx.x * FT_WARP + lane;
    float *out = blockIdx.y == 0 ? first : blockIdx.y == 1 ? second : third;
    if (out == nullptr) return; // the whole block alike
    const float *from = partial + (int64_t)blockIdx.y * tiles * cols + col;
    float sum = 0.0f;
    if (col < cols)
        for (int64_t tile = group; tile < tiles; tile += FT_BLOCK_WARPS)
            sum += from[tile * cols];
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (group > 0 || col >= cols) return;
    for (int g = 1; g < FT_BLOCK_WARPS; g++)
        sum += shared[g * FT_WARP + lane];
    out[col] += sum;
}

// Up to three sums of [tile][column] each, behind one another; out[s]: [cols], accumulated, NULL: not wanted.
template <int SUMS> struct ft_sum_outputs { float *out[SUMS]; };

template <int SUMS>
static ft_status ft_add_tiles(const char *op, ft_device *device, const float *partial, int64_t rows, int64_t cols,
                              ft_sum_outputs<SUMS> outputs) {
    static_assert(SUMS <= 3, "parameters of the kernel");
    float *out[3] = {};
    bool wanted = false;
    for (int s = 0; s < SUMS; s++) {
        out[s] = outputs.out[s];
        wanted = wanted || out[s] != nullptr;
    }
    if (!wanted) return FT_OK;
    return ft_launch(op, ft_add_tiles_kernel, dim3((unsigned)((cols + FT_WARP - 1) / FT_WARP), SUMS), dim3(FT_BLOCK), 0,
                     ft_stream(device), partial, ft_cuda_tiles(rows), (int)cols, out[0], out[1], out[2]);
}

// out: [cols], accumulated; NULL: the body is run, and nothing summed. scratch: ft_cuda_tile_sum_bytes(rows, cols, 1).
template <class Body>
static ft_status ft_column_tiles(const char *op, ft_device *device, Body body, int64_t rows, int64_t cols, ft_tensor out,
                                 void *scratch) {
    if (rows == 0 || cols == 0) return FT_OK;
    float *partial = out.data != NULL ? (float *)scratch : NULL;
    dim3 grid((unsigned)ft_cuda_tiles(rows), (unsigned)((cols + FT_TILE_COLUMNS - 1) / FT_TILE_COLUMNS));
    FT_TRY(ft_launch(op, ft_column_tiles_kernel<Body>, grid, dim3(FT_BLOCK), 0, ft_stream(device), body, rows, (int)cols,
                     ft_cuda_tile_rows(rows), partial));
    return ft_add_tiles<1>(op, device, partial, rows, cols, {{(float *)out.data}});
}

#endif
