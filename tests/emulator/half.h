// half.h - bf16 and fp16 for tests in C: bits to a number exactly, a number to the nearest bits (ties to even).
#ifndef FT_TEST_HALF_H
#define FT_TEST_HALF_H

#include "kernels/dtype.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double half_value(ft_dtype dtype, uint16_t bits) {
    if (dtype == FT_BF16) {
        uint32_t wide = (uint32_t)bits << 16;
        float x;
        memcpy(&x, &wide, sizeof x);
        return (double)x;
    }
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 0    ? ldexp(fraction, -24)
                  : exponent == 31 ? (fraction != 0 ? (double)NAN : (double)INFINITY)
                                   : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -size : size;
}

static inline uint16_t half_bits(ft_dtype dtype, double x) {
    if (dtype == FT_BF16) {
        float single = (float)x;
        uint32_t wide;
        memcpy(&wide, &single, sizeof wide);
        if (isnan(x)) return 0x7fc0;
        return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
    }
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double size = fabs(x);
    if (isnan(x)) return 0x7e00;
    if (size == 0) return sign;
    if (size >= 65520) return sign | 0x7c00;
    int exponent;
    frexp(size, &exponent); // size = [0.5, 1) * 2^exponent
    if (exponent < -13) exponent = -13;
    double steps = nearbyint(ldexp(size, 11 - exponent)); // of the last bit
    // A carry out of the fraction goes into the exponent by itself.
    return (uint16_t)(sign | (uint16_t)((exponent + 13) * 1024 + (int)steps));
}

#endif
