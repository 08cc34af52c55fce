// score_window.h - scores of pairs that a window, or causality (attention.h), keeps apart. They lie as in streaming_softmax.h.
#ifndef FT_CPU_SCORE_WINDOW_H
#define FT_CPU_SCORE_WINDOW_H

#include "kernels/cpu/isa/lanes/vec.h"
#include "kernels/ops/attention.h"

#include <math.h>
#include <stdbool.h>

// Do all of queries [query, query + rows) see all of keys [key, key + keys)?
static bool sees_all(int64_t query, int64_t rows, int64_t key, int64_t keys, ft_attention_band band) {
    return key + band.behind >= query + rows - 1 && query + band.ahead >= key + keys - 1;
}

// Scores of queries from `query` on, in `lanes` lanes, and keys from `key` on that are further apart become minus infinity: their
// exponentials are 0.
static void mask_scores(float *scores, int64_t row, int64_t query, int64_t lanes, int64_t key, int64_t keys,
                        ft_attention_band band) {
    const v16 none = v_set1(-INFINITY), behind = v_set1((float)band.behind), ahead = v_set1((float)-band.ahead);
    for (int64_t i = 0; i < lanes; i += FT_LANES)
        for (int64_t j = 0; j < keys; j++) { // distances are far below 2^24, and so exact
            const v16 distance = v_add(v_from_i(u_iota()), v_set1((float)(query + i - key - j)));
            float *p = scores + j * row + i;
            v_store(p, v_select(v_gt(distance, behind), none, v_select(v_gt(ahead, distance), none, v_load(p))));
        }
}

#endif
