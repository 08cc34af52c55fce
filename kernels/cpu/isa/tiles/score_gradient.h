// score_gradient.h - from scores and the gradients of dropped probabilities to probabilities and the gradients of
// scores, by the log-sum-exp that the forward left. Both lie as in streaming_softmax.h.
#ifndef FT_CPU_SCORE_GRADIENT_H
#define FT_CPU_SCORE_GRADIENT_H

#include "kernels/cpu/isa/lanes/vmath.h"
#include "kernels/cpu/isa/tiles/score_dropout.h"

// p holds scores, ds dP; they become dropout(P) and dS, for 16 queries.
FT_VEC void gradient_row(float *p, float *ds, v16 lse, v16 dot, v16 scale, v16 factor, bool drop) {
    v16 probability = v_exp(v_sub(v_load(p), lse)), dp = v_load(ds);
    if (drop) dp = v_mul(dp, factor);
    v_store(p, drop ? v_mul(probability, factor) : probability);
    v_store(ds, v_mul(v_mul(probability, scale), v_sub(dp, dot)));
}

// A tile: queries from `query` on, a multiple of 16, in `lanes` lanes, a multiple of 16, whose log-sum-exp and D are in
// lse and dot; keys from `key` on.
static void gradient_scores(const float *lse, const float *dot, int64_t query, int64_t lanes, int64_t key, int64_t keys,
                            const ft_score_stream *stream, float scale_of_scores, float *p, float *ds, int64_t row) {
    const v16 scale = v_set1(scale_of_scores);
    for (int64_t i = 0; i < lanes; i += FT_LANES) {
        v16 l = v_load(lse + i), d = v_load(dot + i);
        if (!stream->threshold) {
            for (int64_t j = 0; j < keys; j++)
                gradient_row(p + j * row + i, ds + j * row + i, l, d, scale, scale, false);
            continue;
        }
        for (int64_t j = 0; j < keys; j += 16) {
            u16x words[8];
            ft_score_dropout_words(stream, (uint32_t)(query + i), (uint32_t)(key + j), words);
            for (int64_t r = 0; r < 16 && j + r < keys; r++)
                gradient_row(p + (j + r) * row + i, ds + (j + r) * row + i, l, d, scale,
                             ft_score_dropout_factor(stream, words[r & 7], r >> 3), true);
        }
    }
}

#endif
