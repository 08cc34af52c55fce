// gradient.h - what both forms of attention's backward on mma.sync (backward.cu, owner.cu) do with a strip
// of 16 own rows, queries or keys, and a tile of N rows of the other side: from two products the probabilities and their gradients.
#ifndef FT_CUDA_ATTENTION_GRADIENT_H
#define FT_CUDA_ATTENTION_GRADIENT_H

#include "kernels/cuda/attention/softmax.h"
#include "kernels/cuda/tile/fragment.h"

// p += own0 other0^T, the scores, and ds += own1 other1^T, which is <dout, V>: left0 and left1 are 16 columns of the own rows, from
// `column` on, and these are multiplied.
template <int D, int N, class T>
FT_DEVICE void ft_score_step(float (&p)[N][4], float (&ds)[N][4], const unsigned (&left0)[4], const unsigned (&left1)[4],
                             const T *other0, const T *other1, int column) {
#pragma unroll
    for (int n = 0; n < N / 2; n++) {
        unsigned b[4];
        ft_right_of_rows<D>(b, other0, n * 16, column);
        ft_mma<T>(p[2 * n], left0, b[0], b[1]);
        ft_mma<T>(p[2 * n + 1], left0, b[2], b[3]);
        ft_right_of_rows<D>(b, other1, n * 16, column);
        ft_mma<T>(ds[2 * n], left1, b[0], b[1]);
        ft_mma<T>(ds[2 * n + 1], left1, b[2], b[3]);
    }
}

// All columns, of rows `row`.. of the own tiles.
template <int D, int N, class T>
FT_DEVICE void ft_score_products(float (&p)[N][4], float (&ds)[N][4], const T *own0, const T *own1, int row, const T *other0,
                                 const T *other1) {
#pragma unroll
    for (int c = 0; c < D / 16; c++) {
        unsigned left0[4], left1[4];
        ft_left<D>(left0, own0, row, c * 16);
        ft_left<D>(left1, own1, row, c * 16);
        ft_score_step<D>(p, ds, left0, left1, other0, other1, c * 16);
    }
}

// The same with own rows that stay in registers from tile to tile, where there is room for them.
template <int D> struct ft_own_rows {
    unsigned of0[D / 16][4], of1[D / 16][4];

    template <class T> FT_METHOD void load(const T *own0, const T *own1, int row) {
#pragma unroll
        for (int c = 0; c < D / 16; c++) {
            ft_left<D>(of0[c], own0, row, c * 16);
            ft_left<D>(of1[c], own1, row, c * 16);
        }
    }
    template <int N, class T> FT_METHOD void products(float (&p)[N][4], float (&ds)[N][4], const T *other0, const T *other1) const {
#pragma unroll
        for (int c = 0; c < D / 16; c++)
            ft_score_step<D>(p, ds, of0[c], of1[c], other0, other1, c * 16);
    }
};

// Of 16 columns, accumulators 2c and 2c + 1: p becomes P (for keys, of what was kept), ds dS. The strip begins at row `row` of its
// sequence, the tile at row `column` of its. lse(h, n), delta(h, n): of own row g + 8h and the tile's row n; the lse in powers of two.
template <bool OF_KEYS, int N, class Lse, class Delta>
FT_DEVICE void ft_score_gradients(float (&p)[N][4], float (&ds)[N][4], int c, const ft_score_filter &filter, int row, int column,
                                  float factor, float keep_scale, Lse lse, Delta delta) {
    const int t = int(threadIdx.x) % 4 * 2;
    auto finish = [&](int q, bool keep) {
        const int n = 2 * c + q / 4, e = q % 4, there = n * 8 + t + e % 2;
        const float probability = ft_exp2(fmaf(p[n][e], factor, -lse(e / 2, there)));
        const float gradient = keep ? ds[n][e] : 0.0f;
        ds[n][e] = probability * fmaf(gradient, keep_scale, -delta(e / 2, there));
        p[n][e] = keep ? probability : 0.0f;
    };
    if (filter.threshold != 0) {
        const ft_kept_16x16 kept = ft_kept_of_16x16<OF_KEYS>(filter, row, column + c * 16);
#pragma unroll
        for (int q = 0; q < 8; q++)
            finish(q, ft_is_kept<OF_KEYS>(kept, q));
    } else {
#pragma unroll
        for (int q = 0; q < 8; q++)
            finish(q, true);
    }
}

#endif
