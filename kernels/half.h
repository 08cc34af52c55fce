// half.h - bf16 and fp16 on the host: a number from its bits, exactly, and the bits nearest to a number (ties to even).
//
// Without branches, so that loops over them become vector code. NaN stays NaN (quiet); beyond the largest fp16 number,
// from 65520 on, is infinity.
#ifndef FT_HALF_H
#define FT_HALF_H

#include "kernels/dtype.h"
#include "kernels/split.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool ft_is_half(ft_dtype dtype) { return dtype == FT_BF16 || dtype == FT_F16; }

static inline uint32_t ft_float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float ft_bits_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float ft_from_bf16(uint16_t bits) { return ft_bits_float((uint32_t)bits << 16); }
static inline uint16_t ft_to_bf16(float x) {
    uint32_t bits = ft_float_bits(x), nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7FFFFFFF) > 0x7F800000 ? bits >> 16 | 0x40 : nearest);
}

// Shifted into place an fp16 number lacks 112 in its exponent. The tiny ones, below 2^-14, get one more and with it a
// leading 1 that they do not have, and lose it again; so no fp32 number here is tiny, which processors are slow with.
static inline float ft_from_fp16(uint16_t bits) {
    uint32_t size = bits & 0x7FFF, wide = (size << 13) + (112u << 23);
    uint32_t tiny = ft_float_bits(ft_bits_float(wide + (1u << 23)) - 0x1p-14f);
    uint32_t special = size >= 0x7C00 ? 0x7F800000 : 0;
    return ft_bits_float((uint32_t)(bits & 0x8000) << 16 | special | (size < 0x400 ? tiny : wide));
}
static inline uint16_t ft_to_fp16(float x) {
    uint32_t bits = ft_float_bits(x), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    // Below 2^-14 the last place is 2^-24, as it is of fp32 between 1/2 and 1: adding rounds there.
    uint32_t tiny = ft_float_bits(ft_bits_float(size) + 0.5f) - 0x3F000000;
    uint32_t normal = ((size + 0xFFF + (size >> 13 & 1)) >> 13) - (112 << 10);
    uint32_t finite = size < 0x38800000 ? tiny : normal;
    uint32_t large = size > 0x7F800000 ? 0x7E00 : 0x7C00;
    return (uint16_t)(sign | (size >= 0x477FF000 ? large : finite));
}

// n numbers of one type as the other.
static inline void ft_widen(ft_dtype from_type, const uint16_t *from, float *to, int64_t n) {
    if (from_type == FT_BF16)
        for (int64_t i = 0; i < n; i++)
            to[i] = ft_from_bf16(from[i]);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = ft_from_fp16(from[i]);
}
static inline void ft_narrow(ft_dtype to_type, const float *from, uint16_t *to, int64_t n) {
    if (to_type == FT_BF16)
        for (int64_t i = 0; i < n; i++)
            to[i] = ft_to_bf16(from[i]);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = ft_to_fp16(from[i]);
}

// n numbers as pairs (split.h), and back.
static inline void ft_split_all(const float *from, uint16_t *high, uint16_t *tail, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const uint32_t pair = ft_split(ft_float_bits(from[i]));
        high[i] = (uint16_t)(pair >> 16);
        tail[i] = (uint16_t)pair;
    }
}
static inline void ft_join_all(const uint16_t *high, const uint16_t *tail, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = ft_bits_float(ft_join((uint32_t)high[i] << 16 | tail[i]));
}

// A weight in 16 bits. In bf16 ties go away from zero, as in the upper half of a pair: a weight that is not trained, or that
// is only predicted with, is the same as in training.
static inline void ft_narrow_weights(ft_dtype to_type, const float *from, uint16_t *to, int64_t n) {
    if (to_type != FT_BF16) {
        ft_narrow(to_type, from, to, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = (uint16_t)(ft_split(ft_float_bits(from[i])) >> 16);
}

#endif
