// row_softmax.h - softmax.h and its dropout where a thread has a row of scores to itself.
#ifndef FT_CUDA_ATTENTION_ROW_SOFTMAX_H
#define FT_CUDA_ATTENTION_ROW_SOFTMAX_H

#include "kernels/cuda/attention/softmax.h"

struct ft_row_softmax {
    float base2 = -INFINITY, sum = 0.0f;
};

// ft_next_scores of one row. True, of the whole warp: what was summed before of this row is to be multiplied by *shrink, for some row by less than 1.
// Largest and sum go four ways, which do not wait for each other.
template <int N> FT_DEVICE bool ft_next_row(ft_row_softmax &r, float (&s)[N], float factor, float *shrink) {
    float ways[4];
#pragma unroll
    for (int n = 0; n < N; n++)
        ways[n % 4] = n < 4 ? s[n] : fmaxf(ways[n % 4], s[n]);
    const float over = fmaf(fmaxf(fmaxf(ways[0], ways[1]), fmaxf(ways[2], ways[3])), factor, -FT_SOFTMAX_SLACK); // the largest, less the slack
    const bool shrinks = __any_sync(FT_ALL_LANES, over > r.base2); // (beyond minus infinity is everything else)
    if (shrinks) {
        const float base = over > r.base2 ? over + FT_SOFTMAX_SLACK : r.base2;
        *shrink = ft_exp2(r.base2 - base);
        r.base2 = base;
        r.sum *= *shrink;
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        s[n] = ft_exp2(fmaf(s[n], factor, -r.base2));
        ways[n % 4] = n < 4 ? s[n] : ways[n % 4] + s[n];
    }
    r.sum += (ways[0] + ways[1]) + (ways[2] + ways[3]);
    return shrinks;
}

// Of 16 scores of a query, from key `column` on, which is a multiple of 16, those become 0 that are dropped. A call decides about keys 8 apart, of two
// queries 8 apart: lanes that have these make half of the calls each. Lanes are queries, from a multiple of 32 on.
FT_DEVICE void ft_drop_16_of_row(float *s, const ft_score_filter &f, int query, int column) {
    const uint32_t place = uint32_t(query) / 16 << 22 | uint32_t(column) / 16 << 12 | uint32_t(query) % 8 << 3, below = uint32_t(query) / 8 % 2;
    const uint32_t least = f.threshold << 16;
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t bits[2] = {place | (j + 4 * below), f.slot_head}; // keys j.. of the upper query's lane, 4 + j.. of the lower one's
        ft_philox2x32_7(bits, f.key);
        const uint32_t mine = below != 0 ? bits[1] : bits[0], of_other = __shfl_xor_sync(FT_ALL_LANES, below != 0 ? bits[0] : bits[1], 8);
        const uint32_t first = below != 0 ? of_other : mine, second = below != 0 ? mine : of_other; // of keys j, and of 4 + j
        if (first << 16 < least) s[j] = 0.0f;
        if (first < least) s[j + 8] = 0.0f;
        if (second << 16 < least) s[j + 4] = 0.0f;
        if (second < least) s[j + 12] = 0.0f;
    }
}

#endif
