// attention.h - what the two attention kernels share: tiles of the score matrix, dropout bits, the queue of work.
//
// A piece of work is one (sequence, head), in the forward pass further cut into runs of FT_QUERY_RUN queries; threads take
// the next one from a counter. A piece's result depends on its own rows alone: every sum is one chain of fused
// multiply-adds in a fixed order, so packing, threads and instruction set change no bit.
#ifndef FT_CPU_ISA_ATTENTION_H
#define FT_CPU_ISA_ATTENTION_H

#include "kernels/cpu/attention_scratch.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/isa/vec.h"
#include "kernels/cpu/isa/vmath.h"
#include "kernels/philox.h"

#include <stdatomic.h>

// A [rows, cols] block of a strided view.
typedef struct block {
    const float *data;
    int64_t stride;
} block;

FT_VEC block block_of(ft_tensor t, int64_t row, int64_t col) {
    return (block){(const float *)t.data + row * t.stride + col, t.stride};
}

// to[c * ld + j] = from row j, column c; rows up to `ld` are zero, so that whole vectors can be used.
static inline void transpose(block from, int64_t rows, int64_t cols, float *to, int64_t ld) {
    int64_t padded = ft_attention_round(rows);
    for (int64_t c = 0; c < cols; c++) {
        float *out = to + c * ld;
        for (int64_t j = 0; j < rows; j++) out[j] = from.data[j * from.stride + c];
        for (int64_t j = rows; j < padded; j++) out[j] = 0.0f;
    }
}

// out[r][j] = scale * sum over c of a[r][c] * bt[c][j] for r < ROWS and j < keys, rounded up to whole vectors.
#define PRODUCT_ROWS(ROWS)                                                                                             \
    FT_VEC void product_##ROWS(block a, const float *bt, int64_t ld, int64_t keys, int64_t d, float scale, float *out) { \
        for (int64_t j = 0; j < keys; j += 2 * FT_LANES) {                                                             \
            bool two = j + FT_LANES < keys;                                                                            \
            v16 sum[ROWS][2];                                                                                          \
            for (int r = 0; r < ROWS; r++) sum[r][0] = sum[r][1] = v_zero();                                           \
            for (int64_t c = 0; c < d; c++) {                                                                          \
                const float *b = bt + c * ld + j;                                                                      \
                v16 b0 = v_load(b), b1 = two ? v_load(b + FT_LANES) : v_zero();                                        \
                for (int r = 0; r < ROWS; r++) {                                                                       \
                    v16 x = v_set1(a.data[r * a.stride + c]);                                                          \
                    sum[r][0] = v_fma(x, b0, sum[r][0]);                                                               \
                    sum[r][1] = v_fma(x, b1, sum[r][1]);                                                               \
                }                                                                                                      \
            }                                                                                                          \
            for (int r = 0; r < ROWS; r++) {                                                                           \
                v_store(out + r * ld + j, v_mul(sum[r][0], v_set1(scale)));                                            \
                if (two) v_store(out + r * ld + j + FT_LANES, v_mul(sum[r][1], v_set1(scale)));                        \
            }                                                                                                          \
        }                                                                                                              \
    }
PRODUCT_ROWS(1)
PRODUCT_ROWS(4)

// Rows of a block of FT_ATT_ROWS: four at once, the rest one by one (the same chains).
FT_VEC void product(int rows, block a, const float *bt, int64_t ld, int64_t keys, int64_t d, float scale, float *out) {
    if (rows == 4) product_4(a, bt, ld, keys, d, scale, out);
    else
        for (int r = 0; r < rows; r++) product_1((block){a.data + r * a.stride, a.stride}, bt, ld, keys, d, scale, out + r * ld);
}

// out[r][c] = factor[r] * sum over j of w[r][j] * b[j][c].
#define WEIGHTED_ROWS(ROWS)                                                                                            \
    FT_VEC void weighted_##ROWS(const float *w, int64_t ld, block b, int64_t keys, int64_t d, const float *factor, float *out,   \
                                int64_t out_stride) {                                                                  \
        for (int64_t c = 0; c < d; c += 2 * FT_LANES) {                                                                \
            int64_t n0 = d - c, n1 = d - c - FT_LANES;                                                                 \
            v16 sum[ROWS][2];                                                                                          \
            for (int r = 0; r < ROWS; r++) sum[r][0] = sum[r][1] = v_zero();                                           \
            for (int64_t j = 0; j < keys; j++) {                                                                       \
                const float *row = b.data + j * b.stride + c;                                                          \
                v16 b0 = v_load_any(row, n0), b1 = n1 > 0 ? v_load_any(row + FT_LANES, n1) : v_zero();                 \
                for (int r = 0; r < ROWS; r++) {                                                                       \
                    v16 x = v_set1(w[r * ld + j]);                                                                     \
                    sum[r][0] = v_fma(x, b0, sum[r][0]);                                                               \
                    sum[r][1] = v_fma(x, b1, sum[r][1]);                                                               \
                }                                                                                                      \
            }                                                                                                          \
            for (int r = 0; r < ROWS; r++) {                                                                           \
                v_store_any(out + r * out_stride + c, v_mul(sum[r][0], v_set1(factor[r])), n0);                        \
                if (n1 > 0) v_store_any(out + r * out_stride + c + FT_LANES, v_mul(sum[r][1], v_set1(factor[r])), n1); \
            }                                                                                                          \
        }                                                                                                              \
    }
WEIGHTED_ROWS(1)
WEIGHTED_ROWS(4)

FT_VEC void weighted(int rows, const float *w, int64_t ld, block b, int64_t keys, int64_t d, const float *factor, float *out,
                     int64_t out_stride) {
    if (rows == 4) weighted_4(w, ld, b, keys, d, factor, out, out_stride);
    else
        for (int r = 0; r < rows; r++) weighted_1(w + r * ld, ld, b, keys, d, factor + r, out + r * out_stride, out_stride);
}

// ---- dropout --------------------------------------------------------------------------------------------------------------

typedef struct score_dropout {
    uint64_t key;
    uint32_t threshold;
    float scale;
} score_dropout;

FT_VEC score_dropout score_dropout_of(const ft_score_dropout *d) {
    if (d->probability <= 0) return (score_dropout){0, 0, 1.0f};
    uint32_t threshold = ft_dropout_threshold(d->probability);
    return (score_dropout){ft_dropout_key(d->step->seed, d->step->step, d->layer, d->site), threshold, ft_dropout_scale(threshold)};
}

// The 16 random bits of scores (first + r, j) for r < 16 (only pairs of rows below `rows` are made) and j < keys; first is
// a multiple of 16. One call serves rows r, r + 1, r + 8, r + 9 of sixteen keys (see philox.h): lanes 0-7 row r, 8-15 r + 1.
static inline void score_bits(const score_dropout *d, uint32_t slot, uint32_t head, int64_t first, int64_t rows, int64_t keys, int64_t ld,
                              uint16_t *bits) {
    u16x lane = u_iota(), column = u_and(lane, u_set1(7)), upper = u_shr(lane, 3);
    u16x c1 = u_set1(slot << 8 | head);
    for (int64_t j = 0; j < keys; j += 16) {
        for (uint32_t r = 0; r < 8 && r < rows; r += 2) {
            u16x low = u_or(u_shl(u_add(upper, u_set1(r)), 3), column);
            u16x a = u_or(u_set1((uint32_t)(first >> 4) << 22 | (uint32_t)(j >> 4) << 12), low), b = c1;
            uint32_t key = (uint32_t)d->key;
            for (int round = 0; round < 7; round++, key += 0x9E3779B9u) {
                u16x high, product_low;
                u_mul_wide(a, u_set1(0xD256D193u), &high, &product_low);
                a = u_xor(u_xor(high, u_set1(key)), b);
                b = product_low;
            }
            uint32_t word[2][16];
            u_store(word[0], a);
            u_store(word[1], b);
            for (int half = 0; half < 2; half++)
                for (int pair = 0; pair < 2; pair++) {
                    uint16_t *out = bits + (8 * half + (int)r + pair) * ld + j;
                    for (int i = 0; i < 8; i++) out[i] = (uint16_t)word[half][8 * pair + i];
                    for (int i = 0; i < 8; i++) out[8 + i] = (uint16_t)(word[half][8 * pair + i] >> 16);
                }
        }
    }
}

FT_VEC v16 score_factor(const score_dropout *d, const uint16_t *bits) {
    return v_select(u_lt(u_load_u16(bits), u_set1(d->threshold)), v_zero(), v_set1(d->scale));
}

#endif
