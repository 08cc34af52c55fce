// bf16_words.h - rows of bf16 packed into the words of 32 bits that a unit's inner loop reads.
//
// Of a block of 32 k and a row of A or a column of B:
//     WIDE    32 words, word k: element k as fp32
//     SPLIT   16 words, 2 j: elements 4 j (high half) and 4 j + 2, 2 j + 1: elements 4 j + 1 (high) and 4 j + 3, so
//     that
//             VDPBF16PS, which takes the high half first, runs the even chain with one word and the odd one with the
//             next
//     PAIRED  16 words, word j: elements 2 j (low half) and 2 j + 1, as they lie
// A: a row's words lie side by side. B: panels of `width` columns, word by word of all its columns. Missing k are
// zeros.
#ifndef FT_CPU_BF16_WORDS_H
#define FT_CPU_BF16_WORDS_H

#include "kernels/cpu/gemm_bf16_plan.h"
#include "kernels/cpu/isa/tiles/reg.h"

typedef enum bf16_words { WIDE, SPLIT, PAIRED } bf16_words;
enum { BF16_BLOCK = FT_BF16_BLOCK };
static inline int words_of_block(bf16_words words) { return words == WIDE ? BF16_BLOCK : BF16_BLOCK / 2; }

// The words of 32 elements.
FT_VEC void block_words(const uint16_t *x, const bf16_words words, float *out) {
    uint32_t w[BF16_BLOCK];
    if (words == PAIRED) {
        memcpy(out, x, BF16_BLOCK * sizeof *x);
        return;
    }
    if (words == WIDE) {
        for (int k = 0; k < BF16_BLOCK; k++)
            w[k] = (uint32_t)x[k] << 16;
        memcpy(out, w, sizeof w);
        return;
    }
#if defined(FT_ISA_avx512)
    static const uint16_t order[BF16_BLOCK] = {2,  0,  3,  1,  6,  4,  7,  5,  10, 8,  11, 9,  14, 12, 15, 13,
                                               18, 16, 19, 17, 22, 20, 23, 21, 26, 24, 27, 25, 30, 28, 31, 29};
    _mm512_storeu_si512(out, _mm512_permutexvar_epi16(_mm512_loadu_si512(order), _mm512_loadu_si512(x)));
#else
    for (int j = 0; j < BF16_BLOCK / 2; j++)
        w[j] = (uint32_t)x[j / 2 * 4 + j % 2] << 16 | x[j / 2 * 4 + j % 2 + 2];
    memcpy(out, w, BF16_BLOCK / 2 * sizeof *w);
#endif
}

// The last k of a row, filled up.
FT_VEC void tail_words(const uint16_t *x, int64_t k, const bf16_words words, float *out) {
    uint16_t filled[BF16_BLOCK] = {0};
    memcpy(filled, x, (size_t)k * sizeof *x);
    block_words(filled, words, out);
}

// A row, or zeros where there is none.
FT_VEC void row_words(const uint16_t *x, int64_t k, const bf16_words words, float *out) {
    const int size = words_of_block(words);
    for (; k >= BF16_BLOCK; k -= BF16_BLOCK, x += BF16_BLOCK, out += size)
        block_words(x, words, out);
    if (k > 0) tail_words(x, k, words, out);
}

// One panel of `width` columns, a multiple of 8, n of them real; b: B as [n][k], rows ldb apart.
FT_VEC void panel_of_rows(const uint16_t *b, int64_t ldb, int64_t k, int n, int width, const bf16_words words,
                          float *out) {
    const int size = words_of_block(words);
    for (int j = 0; j < width; j += 8, b += 8 * ldb) {
        const int real = n - j < 8 ? n - j : 8;
        for (int64_t p = 0; p < k; p += BF16_BLOCK) {
            float w[8][BF16_BLOCK], *to = out + p / BF16_BLOCK * size * width + j;
            for (int i = 0; i < 8; i++) {
                if (i >= real)
                    memset(w[i], 0, sizeof w[i]);
                else if (k - p >= BF16_BLOCK)
                    block_words(b + i * ldb + p, words, w[i]);
                else
                    tail_words(b + i * ldb + p, k - p, words, w[i]);
            }
            for (int at = 0; at < size; at += 8)
                transpose8(&w[0][at], BF16_BLOCK, to + at * width, width);
        }
    }
}

// The same; b: B as [k][n]. A word is a row's number above another one's.
FT_VEC void panel_of_columns(const uint16_t *b, int64_t ldb, int64_t k, int n, int width, const bf16_words words,
                             float *out) {
    static const uint16_t zeros[FT_GEMM_BF16_PANEL];
    const int size = words_of_block(words);
    for (int64_t p = 0; p < k; p += BF16_BLOCK)
        for (int at = 0; at < size; at++, out += width) {
            const int64_t high = p + (words == WIDE ? at : words == PAIRED ? 2 * at + 1 : at / 2 * 4 + at % 2);
            const int64_t low = words == PAIRED ? high - 1 : high + 2;
            const uint16_t *above = high < k ? b + high * ldb : zeros,
                           *below = words != WIDE && low < k ? b + low * ldb : zeros;
            for (int j = 0; j < width; j += 8) {
                uint32_t w[8] = {0};
                if (n - j >= 8)
                    for (int i = 0; i < 8; i++)
                        w[i] = (uint32_t)above[j + i] << 16 | below[j + i];
                else
                    for (int i = 0; i < n - j; i++)
                        w[i] = (uint32_t)above[j + i] << 16 | below[j + i];
                memcpy(out + j, w, sizeof w);
            }
        }
}

#endif
