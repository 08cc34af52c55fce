// column_tiles.h - sums over rows, in a fixed order and without atomics. A block walks 256 columns of 64 rows, warp w
// taking rows w, w + 8, ...; its partial sums go to scratch, [sum][tile][column], and a second kernel adds the tiles in
// order. What is done to each unit on the way is the body: reading, writing, adding to its sums.
#ifndef FT_CUDA_COLUMN_TILES_H
#define FT_CUDA_COLUMN_TILES_H

#include "kernels/cuda/unit.h"

enum { FT_TILE_COLUMNS = FT_WARP * FT_CUDA_UNIT };

template <int SUMS> struct ft_sums { ft_unit of[SUMS]; };

// Stores a unit of fp32 in whole sectors: neighbouring lanes exchange halves, so that the two first write the unit of the
// even one and then that of the odd one. All of `lanes` call it, an even number from lane 0 on, in neighbouring columns.
FT_DEVICE void ft_store_in_pairs(float *to, const ft_unit &u, unsigned lanes) {
    const bool odd = threadIdx.x % 2 != 0;
    float first[4], second[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float theirs = __shfl_xor_sync(lanes, odd ? u.v[i] : u.v[i + 4], 1);
        first[i] = odd ? theirs : u.v[i];
        second[i] = odd ? u.v[i + 4] : theirs;
    }
    __syncwarp(lanes); // the neighbour has read what may lie here
    to -= odd ? FT_CUDA_UNIT - 4 : 0;
    *reinterpret_cast<float4 *>(to) = make_float4(first[0], first[1], first[2], first[3]);
    *reinterpret_cast<float4 *>(to + FT_CUDA_UNIT) = make_float4(second[0], second[1], second[2], second[3]);
}

// body(row, col, n, lanes, sums), lanes: of the warp, those that have columns and call it together; wanted: bit s is set when
// sum s goes to scratch.
template <int SUMS, class Body>
FT_KERNEL void __launch_bounds__(FT_BLOCK)
    ft_column_tiles_kernel(Body body, int64_t rows, int cols, unsigned wanted, float *partial) {
    enum { PITCH = FT_WARP + 4 }; // reads across warps, eight columns of four units, then spread over all banks as stores do
    FT_SHARED(float, shared, FT_BLOCK_WARPS *FT_CUDA_UNIT *PITCH);
    const int lane = threadIdx.x % FT_WARP, warp = threadIdx.x / FT_WARP;
    const int col = ((int)blockIdx.y * FT_WARP + lane) * FT_CUDA_UNIT;
    const int64_t first = (int64_t)blockIdx.x * FT_CUDA_TILE_ROWS;
    const int64_t last = rows < first + FT_CUDA_TILE_ROWS ? rows : first + FT_CUDA_TILE_ROWS;
    ft_sums<SUMS> sums;
#pragma unroll
    for (int s = 0; s < SUMS; s++)
        sums.of[s] = ft_unit_zero();
    const unsigned lanes = __ballot_sync(FT_ALL_LANES, col < cols);
    if (col < cols)
        for (int64_t row = first + warp; row < last; row += FT_BLOCK_WARPS)
            body(row, col, cols - col < FT_CUDA_UNIT ? cols - col : FT_CUDA_UNIT, lanes, sums);
    const int mine = (int)blockIdx.y * FT_TILE_COLUMNS + threadIdx.x;
#pragma unroll
    for (int s = 0; s < SUMS; s++) {
        if ((wanted >> s & 1) == 0) continue;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < FT_CUDA_UNIT; i++)
            shared[(warp * FT_CUDA_UNIT + i) * PITCH + lane] = sums.of[s].v[i];
        __syncthreads();
        float total = 0.0f;
        for (int w = 0; w < FT_BLOCK_WARPS; w++)
            total += shared[(w * FT_CUDA_UNIT + threadIdx.x % FT_CUDA_UNIT) * PITCH + threadIdx.x / FT_CUDA_UNIT];
        if (mine < cols) partial[((int64_t)s * gridDim.x + blockIdx.x) * cols + mine] = total;
    }
}

template <int SUMS> struct ft_sum_outputs {
    float *out[SUMS]; // [cols] each, accumulated; NULL: not wanted
};

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

// scratch: ft_cuda_tile_sum_bytes(rows, cols, SUMS); unused when no output is there.
template <int SUMS, class Body>
static ft_status ft_column_tiles(const char *op, ft_device *device, Body body, int64_t rows, int64_t cols,
                                 ft_sum_outputs<SUMS> outputs, void *scratch) {
    if (rows == 0 || cols == 0) return FT_OK;
    unsigned wanted = 0;
    for (int s = 0; s < SUMS; s++)
        if (outputs.out[s] != nullptr) wanted |= 1u << s;
    const int64_t tiles = ft_cuda_tiles(rows);
    dim3 grid((unsigned)tiles, (unsigned)((cols + FT_TILE_COLUMNS - 1) / FT_TILE_COLUMNS));
    FT_TRY(ft_launch(op, ft_column_tiles_kernel<SUMS, Body>, grid, dim3(FT_BLOCK), 0, ft_stream(device), body, rows,
                     (int)cols, wanted, (float *)scratch));
    if (wanted == 0) return FT_OK;
    static_assert(SUMS <= 3, "parameters of the kernel");
    float *out[3] = {};
    for (int s = 0; s < SUMS; s++)
        out[s] = outputs.out[s];
    return ft_launch(op, ft_add_tiles_kernel, dim3((unsigned)((cols + FT_WARP - 1) / FT_WARP), SUMS), dim3(FT_BLOCK), 0,
                     ft_stream(device), (const float *)scratch, tiles, (int)cols, out[0], out[1], out[2]);
}

#endif
