// softmax.h - the softmax of streaming attention, tile of keys after tile: of scores that lie in accumulators as tile/fragment.h
// has them, whichever instruction made them. It is fp32 and counts in powers of two.
#ifndef FT_CUDA_ATTENTION_SOFTMAX_H
#define FT_CUDA_ATTENTION_SOFTMAX_H

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/tile/exp2.h"

constexpr float FT_LOG2_E = 1.4426950408889634f, FT_LN_2 = 0.6931471805599453f;

// The softmax so far of rows g and g + 8 of a strip.
struct ft_running_softmax {
    // base2: most * factor as it was rounded once, so that whatever was taken relative to it agrees
    float most[2] = {-INFINITY, -INFINITY}, base2[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
};

// Scores of a tile become probabilities relative to the largest score so far; what was summed before is to be multiplied
// with shrink. MASKED: there may be rows all scores of which were minus infinity so far; theirs are taken relative to 0, and are 0.
template <bool MASKED = false, int N> FT_DEVICE void ft_next_scores(ft_running_softmax &r, float (&s)[N][4], float factor, float (&shrink)[2]) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float largest = r.most[h];
#pragma unroll
        for (int n = 0; n < N; n++)
            largest = fmaxf(largest, fmaxf(s[n][h * 2], s[n][h * 2 + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(FT_ALL_LANES, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(FT_ALL_LANES, largest, 2));
        const float highest = MASKED && largest == -INFINITY ? 0.0f : largest * factor;
        shrink[h] = ft_exp2(r.base2[h] - highest);
        r.most[h] = largest;
        r.base2[h] = MASKED && largest == -INFINITY ? -INFINITY : highest;
        float part = 0.0f;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &x = s[n][h * 2 + e];
                x = ft_exp2(fmaf(x, factor, -highest));
                part += x;
            }
        r.sum[h] = fmaf(r.sum[h], shrink[h], part);
    }
}

#endif
