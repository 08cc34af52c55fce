// bf16.h - the sum of a product of bf16 rows on the CPU, in plain C: what every instruction set computes, to the bit.
//
// It is what TDPBF16PS (AMX) does, since that instruction cannot do another one and all others can do this one at their
// full rate. k is cut into blocks of 32, the last one filled up with zeros. Of a block and an element of C, each from
// +0:
//     E = a chain of fused multiply-adds over the even k, O = one over the odd k, in order; then C = C + (E + O)
// Every step is rounded to the nearest (ties to even). Denormal operands, of C too, count as zeros of their sign, and a
// result below 2^-126 becomes one: judged behind its rounding to 24 bits, as if exponents had no end. So 2^-126 -
// 2^-150 becomes 0 and 2^-126 - 2^-151, a tie, 2^-126. A NaN is a NaN, whatever its payload.
//
// Hence splitting m and n changes no bit; splitting k over accumulating calls changes none at multiples of 32.
// The functions say this with double precision: a product of two bf16 is exact there, and rounding a sum twice, to 53
// bits and to 24, is rounding it once: the shorter operand has 24 bits, so whatever lies near a tie of 24 bits is exact
// in 53.
#ifndef FT_CPU_BF16_H
#define FT_CPU_BF16_H

#include <math.h>
#include <stdint.h>

enum { FT_BF16_BLOCK = 32 };

static inline float ft_bf16_flushed(double sum) {
    return fabs(sum) < 0x1p-126 - 0x1p-151 ? copysignf(0.0f, (float)sum) : (float)sum;
}
static inline float ft_bf16_operand(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }
// a, b: bf16, none of them denormal. c: not denormal.
static inline float ft_bf16_fma(float a, float b, float c) { return ft_bf16_flushed((double)a * b + c); }
// Neither denormal.
static inline float ft_bf16_add(float a, float b) { return ft_bf16_flushed((double)a + b); }

#endif
