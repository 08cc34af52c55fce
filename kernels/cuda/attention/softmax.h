// softmax.h - the softmax of streaming attention, tile of keys after tile: of scores that lie in accumulators as tile/fragment.h
// has them, whichever instruction made them. It is fp32 and counts in powers of two.
#ifndef FT_CUDA_ATTENTION_SOFTMAX_H
#define FT_CUDA_ATTENTION_SOFTMAX_H

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/tile/exp2.h"

constexpr float FT_LOG2_E = 1.4426950408889634f, FT_LN_2 = 0.6931471805599453f;

// By how much, in powers of two, scores may exceed what a row is taken relative to before its sums are made anew: probabilities are up to 2^8 then,
// as exact in bf16, fp16 and fp32 as those up to 1. Of 512 keys a row's largest score grows three or four times and some row of a warp at nearly every
// tile, but by so much almost never.
constexpr float FT_SOFTMAX_SLACK = 8.0f;

// The softmax so far of rows g and g + 8 of a strip.
struct ft_running_softmax {
    float base2[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f}; // what scores are taken relative to, in powers of two
};

// Scores of a tile become 2^score relative to base2, which is a largest score so far, or at most FT_SOFTMAX_SLACK below it. Where that changes for a
// row of the warp, which is seldom, shrink_sums(shrink) is called, for all rows of the warp: with shrink[h] what was summed before is to be multiplied,
// 1 for a row whose base2 stays. MASKED: there may be rows all scores of which were minus infinity so far; theirs are taken relative to 0, and are 0.
template <bool MASKED = false, int N, class Shrink>
FT_DEVICE void ft_next_scores(ft_running_softmax &r, float (&s)[N][4], float factor, Shrink shrink_sums) {
    float over[2]; // the largest score, less the slack
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float largest = s[0][h * 2];
#pragma unroll
        for (int n = 0; n < N; n++)
            largest = fmaxf(largest, fmaxf(s[n][h * 2], s[n][h * 2 + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(FT_ALL_LANES, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(FT_ALL_LANES, largest, 2));
        over[h] = fmaf(largest, factor, -FT_SOFTMAX_SLACK);
    }
    if (__any_sync(FT_ALL_LANES, over[0] > r.base2[0] || over[1] > r.base2[1])) { // (beyond minus infinity is everything else)
        float shrink[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float base = over[h] > r.base2[h] ? over[h] + FT_SOFTMAX_SLACK : r.base2[h];
            shrink[h] = ft_exp2(r.base2[h] - (MASKED && base == -INFINITY ? 0.0f : base));
            r.base2[h] = base;
            r.sum[h] *= shrink[h];
        }
        shrink_sums(shrink);
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float relative = MASKED && r.base2[h] == -INFINITY ? 0.0f : r.base2[h];
        float part = 0.0f;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float &x = s[n][h * 2 + e];
                x = ft_exp2(fmaf(x, factor, -relative));
                part = n + e == 0 ? x : part + x;
            }
        r.sum[h] += part;
    }
}

#endif
