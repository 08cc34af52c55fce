// bands.h - what both ways through a backward pass of disentangled attention (backward.cu, warpgroup_backward.cu) have
// in common: its arguments, and gradients of scores by distance, in shared memory, and from there, with the own rows,
// into a block's slab.
#ifndef FT_CUDA_DISENTANGLED_BANDS_H
#define FT_CUDA_DISENTANGLED_BANDS_H

#include "kernels/cuda/disentangled/sweep.h"

template <class T> struct ft_disentangled_pass { // its arguments
    ft_view<const T> own[2], other[2];           // Q and dout, or K and V
    ft_view<T> result[2];
    ft_view<const float> lse;
    const float *delta; // [queries, heads]
    ft_sweep_tables<T> tables;
    ft_slabs slabs;
    ft_attention_problem problem;
    int items;
};

// What a block of either pass does: its slab is zeros, then `sweep(at, slab)` for each of its items.
template <int D, bool OF_KEYS, class T, class Sweep>
FT_DEVICE void ft_sweep_items(const ft_disentangled_pass<T> &a, Sweep sweep) {
    float *slab = nullptr;
    if (a.slabs.data != nullptr) {
        slab = a.slabs.of(int(blockIdx.x), int(blockIdx.y), a.problem.heads, D);
        for (int i = int(threadIdx.x) * 4; i < a.slabs.distances * D; i += FT_SWEEP_THREADS * 4)
            *reinterpret_cast<float4 *>(slab + i) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    for (int item = int(blockIdx.x); item < a.items; item += int(gridDim.x)) {
        const ft_attention_place at = ft_attention_place_of(a.problem, item);
        if (at.tile * FT_SWEEP_ROWS >= (OF_KEYS ? at.keys : at.queries)) continue; // the whole block alike
        sweep(at, slab);
    }
}

// 16 rows of the strip by 16 distances in 16 bits; the halves of a row change places every four rows, so that eight
// rows of a half lie in different banks.
constexpr int FT_BAND_ELEMENTS = FT_CUDA_STRIP * FT_CUDA_STRIP;
FT_DEVICE int ft_band_place(int row, int side) { return row * FT_CUDA_STRIP + (side ^ (row / 4 % 2)) * 8; }

template <class T> FT_DEVICE void ft_store_band(T *to, const unsigned (&band)[4]) {
    const int lane = int(threadIdx.x) % FT_WARP, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int q = 0; q < 4; q++)
        *reinterpret_cast<unsigned *>(to + ft_band_place(g + q % 2 * 8, q / 2) + t * 2) = band[q];
}
// As a left operand whose rows are the distances.
template <class T> FT_DEVICE void ft_load_band(unsigned (&left)[4], const T *from) {
    const int lane = int(threadIdx.x) % FT_WARP;
    ft_ldmatrix_x4_transposed(left, from + ft_band_place(lane / 16 * 8 + lane % 8, lane / 8 % 2));
}

// Chunks of the slab that are complete, `first` <= index < `end` in the order in which they become so: chunk
// newest - index is the sum over the strips of band^T own rows. A warp has half of the columns of AT_ONCE chunks;
// BANDS: of a strip.
template <int D, int BANDS, int AT_ONCE, class T>
FT_DEVICE void ft_flush_bands(const T *own_rows, const T *bands, float *slab_row, int newest, int first, int end,
                              int strips, int steps) {
    constexpr int HALF = D / 2, CHUNK = ft_chunk_elements(D), PAIRS = HALF / 16, STEP = FT_CUDA_STRIP,
                  STRIPS = FT_SWEEP_STRIPS;
    const int lane = int(threadIdx.x) % FT_WARP, warp = int(threadIdx.x) / FT_WARP, g = lane / 4, t = lane % 4;
    const int column = warp % 2 * HALF, lane_plain = ft_chunk_lane_of<D>().plain;
    for (int index = first + warp / 2 * AT_ONCE; index < end; index += STRIPS / 2 * AT_ONCE) {
        // Row o of the chunk is u = 16 chunk - o; of the accumulators, rows are spread.
        float *const to = slab_row + (int64_t(newest - index) * STEP - ft_spread(g)) * D + column + t * 2;
        float acc[AT_ONCE][2 * PAIRS][4] = {};
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
            for (int n = 0; n < 2 * PAIRS; n++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    if (index + i >= end) continue;
                    const float2 before = *reinterpret_cast<const float2 *>(to - (i * STEP + h * 8) * D + n * 8);
                    acc[i][n][2 * h] = before.x;
                    acc[i][n][2 * h + 1] = before.y;
                }
#pragma unroll
        for (int strip = 0; strip < STRIPS; strip++) {
            const int step = index - (strips - 1 - strip); // of the strip, when it met the first of the chunks
            if (strip >= strips || step + AT_ONCE - 1 < 0 || step > steps) continue;
            unsigned own[PAIRS][4];
#pragma unroll
            for (int n = 0; n < PAIRS; n++)
                ft_ldmatrix_x4_transposed(own[n], own_rows + strip * CHUNK + lane_plain + column + n * 16);
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++) {
                if (step + i < 0 || step + i > steps || index + i >= end) continue;
                unsigned left[4];
                ft_load_band(left, bands + (strip * BANDS + (step + i) % BANDS) * FT_BAND_ELEMENTS);
#pragma unroll
                for (int n = 0; n < PAIRS; n++) {
                    ft_mma<T>(acc[i][2 * n], left, own[n][0], own[n][1]);
                    ft_mma<T>(acc[i][2 * n + 1], left, own[n][2], own[n][3]);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
#pragma unroll
            for (int n = 0; n < 2 * PAIRS; n++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    if (index + i >= end) continue;
                    *reinterpret_cast<float2 *>(to - (i * STEP + h * 8) * D + n * 8) =
                        make_float2(acc[i][n][2 * h], acc[i][n][2 * h + 1]);
                }
    }
}

// Heads of 64 on warpgroups of sm_90a (warpgroup_backward.cu): the same pass, blocks, slabs and bits of dropout.
ft_status ft_disentangled_warpgroup_pass(ft_device *device, const ft_disentangled_pass<__half> &pass, bool of_keys,
                                         dim3 grid);
ft_status ft_disentangled_warpgroup_pass(ft_device *device, const ft_disentangled_pass<__nv_bfloat16> &pass,
                                         bool of_keys, dim3 grid);

#endif
