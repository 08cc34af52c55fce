// streaming_softmax.h - softmax over keys that come block by block. Scores lie keys down, `row` apart, and queries
// across the lanes: maximum, exponential and sum are plain vector loops. score_gradient.h is the way back.
#ifndef FT_CPU_STREAMING_SOFTMAX_H
#define FT_CPU_STREAMING_SOFTMAX_H

#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/isa/lanes/vmath.h"
#include "kernels/cpu/isa/tiles/score_dropout.h"

#include <math.h>

// Running maximum and sum of the exponentials of a block's queries, and by how much the last block of keys shrank what
// was summed before.
typedef struct softmax_state {
    _Alignas(64) float max[FT_ATTENTION_QUERIES], sum[FT_ATTENTION_QUERIES], shrink[FT_ATTENTION_QUERIES];
} softmax_state;

// log x for finite x >= 1 (NaN gives NaN), to about 1 ulp: x = 2^e m with m in [sqrt(1/2), sqrt(2)), log m = 2
// artanh((m - 1) / (m + 1)).
FT_VMATH v16 log_above_one(v16 x) {
    u16x shifted = u_add(u_bits(x), u_set1(0x3F800000u - 0x3F3504F3u));
    v16 e = v_sub(v_from_i(u_shr(shifted, 23)), v_set1(127.0f));
    v16 m = v_bits(u_add(u_and(shifted, u_set1(0x007FFFFFu)), u_set1(0x3F3504F3u)));
    v16 s = v_div(v_sub(m, v_set1(1.0f)), v_add(m, v_set1(1.0f))), z = v_mul(s, s);
    v16 q = v_set1(1.0f / 9);
    q = v_fma(q, z, v_set1(1.0f / 7));
    q = v_fma(q, z, v_set1(1.0f / 5));
    q = v_fma(q, z, v_set1(1.0f / 3));
    v16 log_m = v_fma(v_mul(v_add(s, s), z), q, v_add(s, s));
    v16 log = v_fma(e, v_set1(0x1.62e430p-1f), v_fma(e, v_set1(-0x1.05c610p-29f), log_m));
    return v_select(v_is_nan(x), x, log);
}

// Turns the scores of `keys` keys and 16 queries into exponentials. A query that has met no key yet, all scores of which are minus
// infinity (score_window.h), takes them relative to 0: their exponentials are 0, and so is what was summed before.
static void softmax_step(softmax_state *state, float *scores, int64_t row, int64_t lane, int64_t keys, bool first) {
    const v16 none = v_set1(-INFINITY);
    v16 before = v_load(state->max + lane), max = first ? v_load(scores) : before;
    for (int64_t j = first; j < keys; j++)
        max = v_max(max, v_load(scores + j * row));
    const v16 highest = v_select(v_eq(max, none), v_zero(), max);
    v16 shrink = first ? v_zero() : v_exp(v_sub(before, highest));
    v16 sum = first ? v_zero() : v_mul(v_load(state->sum + lane), shrink);
    for (int64_t j = 0; j < keys; j++) {
        v16 p = v_exp(v_sub(v_load(scores + j * row), highest));
        sum = v_add(sum, p);
        v_store(scores + j * row, p);
    }
    v_store(state->max + lane, max);
    v_store(state->sum + lane, sum);
    v_store(state->shrink + lane, shrink);
}

static void drop_scores(const ft_score_stream *stream, float *scores, int64_t row, int64_t query, int64_t key,
                        int64_t keys) {
    for (int64_t j = 0; j < keys; j += 16) {
        u16x words[8];
        ft_score_dropout_words(stream, (uint32_t)query, (uint32_t)(key + j), words);
        for (int64_t r = 0; r < 16 && j + r < keys; r++) {
            float *p = scores + (j + r) * row;
            v_store(p, v_mul(v_load(p), ft_score_dropout_factor(stream, words[r & 7], r >> 3)));
        }
    }
}

// Row i times factor[i].
static void scale_rows(float *x, int64_t stride, int64_t rows, int64_t cols, const float *factor) {
    for (int64_t i = 0; i < rows; i++, x += stride) {
        v16 f = v_set1(factor[i]);
        for (int64_t c = 0; c < cols; c += FT_LANES)
            v_store_any(x + c, v_mul(v_load_any(x + c, cols - c), f), cols - c);
    }
}

#endif
