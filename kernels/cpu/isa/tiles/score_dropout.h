// score_dropout.h - the dropout factors of attention scores, a tile of 16 queries x 16 keys at a time: kernels/philox.h
// with a counter a lane.
//
//     ft_score_stream s = ft_score_stream_of(&stream, slot, head);
//     u16x words[8];
//     ft_score_dropout_words(&s, i, j, words);                 // i, j: multiples of 16
//     p = v_mul(p, ft_score_dropout_factor(&s, words[r], 0));  // key j + r of queries i .. i + 15; 1: key j + 8 + r
#ifndef FT_CPU_SCORE_DROPOUT_H
#define FT_CPU_SCORE_DROPOUT_H

#include "kernels/cpu/isa/lanes/vec.h"
#include "kernels/ops/op.h"
#include "kernels/philox.h"

typedef struct ft_score_stream {
    uint32_t key, threshold, high_word; // high_word: slot and head
    float scale;
} ft_score_stream;

FT_VEC ft_score_stream ft_score_stream_begin(const ft_score_dropout *d) {
    if (d->probability == 0.0f) return (ft_score_stream){0, 0, 0, 1.0f};
    uint32_t threshold = ft_dropout_threshold(d->probability);
    return (ft_score_stream){(uint32_t)ft_dropout_key(d->step->seed, d->step->step, d->layer, d->site), threshold, 0,
                             ft_dropout_scale(threshold)};
}
FT_VEC ft_score_stream ft_score_stream_of(const ft_score_stream *of_op, int32_t slot, int32_t head) {
    ft_score_stream s = *of_op;
    s.high_word = (uint32_t)slot << 8 | (uint32_t)head;
    return s;
}

// Lanes 0-7 of a and b next to each other, and lanes 8-15.
FT_VEC void u_join_halves(u16x a, u16x b, u16x *low, u16x *high) {
#if defined(FT_ISA_avx512)
    *low = _mm512_shuffle_i32x4(a, b, 0x44);
    *high = _mm512_shuffle_i32x4(a, b, 0xEE);
#elif defined(FT_ISA_avx2)
    *low = (u16x){a.lo, b.lo};
    *high = (u16x){a.hi, b.hi};
#elif defined(FT_ISA_neon)
    *low = (u16x){{a.q[0], a.q[1], b.q[0], b.q[1]}};
    *high = (u16x){{a.q[2], a.q[3], b.q[2], b.q[3]}};
#else
    for (int i = 0; i < 8; i++) {
        low->x[i] = a.x[i];
        low->x[i + 8] = b.x[i];
        high->x[i] = a.x[i + 8];
        high->x[i + 8] = b.x[i + 8];
    }
#endif
}

// A call's 16 counters are 8 queries x 2 keys; of its two words the first is for queries i .. i + 7, the second for the
// next eight. Out of line: it wants all registers there are.
static __attribute__((noinline, unused)) void ft_score_dropout_words(const ft_score_stream *s, uint32_t i, uint32_t j,
                                                                     u16x words[8]) {
    u16x lane = u_iota(), seven = u_set1(7);
    u16x counter = u_or(u_shl(u_and(lane, seven), 3), u_shr(lane, 3));
    counter = u_or(counter, u_set1((i >> 4) << 22 | (j >> 4) << 12));
    for (int pair = 0; pair < 4; pair++) {
        u16x c0 = u_or(counter, u_set1(2 * (uint32_t)pair)), c1 = u_set1(s->high_word);
        uint32_t key = s->key;
        for (int round = 0; round < 7; round++, key += 0x9E3779B9u) {
            u16x high, low;
            u_mul_wide(c0, u_set1(0xD256D193u), &high, &low);
            c0 = u_xor(u_xor(high, u_set1(key)), c1);
            c1 = low;
        }
        u_join_halves(c0, c1, &words[2 * pair], &words[2 * pair + 1]);
    }
}

// 0 or the scale, from the low (half 0) or high (1) 16 bits of the words.
FT_VEC v16 ft_score_dropout_factor(const ft_score_stream *s, u16x words, int half) {
    u16x bits = half ? u_shr(words, 16) : u_and(words, u_set1(0xFFFF));
    return v_select(u_lt(bits, u_set1(s->threshold)), v_zero(), v_set1(s->scale));
}

#endif
