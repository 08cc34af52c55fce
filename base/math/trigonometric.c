// trigonometric.c - sin and cos, of any size of x: what is left of multiples of pi/2 in two parts, and Taylor's series.
// Errors are below 0.8 ulp.
#include "base/math/parts.h"

#include <math.h>

#include "base/math/tables.inc"

void sincos(double x, double *sine, double *cosine); // of GNU's: a compiler makes one call of both

typedef struct reduced {
    ft_pair rest; // in [-pi/4, pi/4], about
    int quarter;  // quarters of a circle, modulo 4
} reduced;

// x = m 2^e: of 2/pi only those bits count whose product with 2^e is no multiple of 4, and 192 of them are enough.
static reduced reduce_large(double x) {
    const uint64_t m = (ft_bits(x) & 0xfffffffffffffULL) | 0x10000000000000ULL;
    const int e = (int)(ft_bits(x) >> 52 & 0x7ff) - 1075, skipped = e > 2 ? e - 2 : 0, word = skipped / 64,
              shift = skipped % 64;
    uint64_t bits[3], product[4] = {0};
    for (int i = 0; i < 3; i++) {
        const uint64_t hi = BITS_OF_TWO_PER_PI[word + i], lo = BITS_OF_TWO_PER_PI[word + i + 1];
        bits[i] = shift == 0 ? hi : hi << shift | lo >> (64 - shift);
    }
    __extension__ typedef unsigned __int128 wide;
    wide carry = 0;
    for (int i = 2; i >= 0; i--) { // product[0] is the uppermost
        carry += (wide)bits[i] * m;
        product[i + 1] = (uint64_t)carry;
        carry >>= 64;
    }
    product[0] = (uint64_t)carry;
    // The point stands 192 - (e - skipped) bits from the end; two bits before it are the quarters.
    int left = 62 + (e - skipped);
    uint64_t upper[3];
    const int words = left / 64, rest = left % 64;
    for (int i = 0; i < 3; i++) {
        const uint64_t hi = product[words + i], lo = words + i + 1 < 4 ? product[words + i + 1] : 0;
        upper[i] = rest == 0 ? hi : hi << rest | lo >> (64 - rest);
    }
    int quarter = (int)(upper[0] >> 62);
    uint64_t hi = upper[0] << 2 | upper[1] >> 62, lo = upper[1] << 2 | upper[2] >> 62;
    double sign = 1;
    if (hi >> 63) { // more than a half: from the next quarter backwards
        quarter++;
        sign = -1;
        lo = ~lo + 1;
        hi = ~hi + (lo == 0);
    }
    const ft_pair part = ft_sum((double)(hi >> 11) * 0x1p-53, (double)(hi << 53 | lo >> 11) * 0x1p-117);
    const ft_pair p = ft_product(part.hi, HALF_PI_HI);
    const ft_pair angle = ft_sum_ordered(p.hi, p.lo + (part.hi * HALF_PI_LO + part.lo * HALF_PI_HI));
    return (reduced){{sign * angle.hi, sign * angle.lo}, quarter};
}

// x >= 0 and finite.
static reduced reduce(double x) {
    if (x <= 0x1.921fb54442d18p-1) return (reduced){{x, 0}, 0};
    if (x >= 0x1p20) return reduce_large(x);
    const double n = ft_nearest(x * TWO_PER_PI);
    const ft_pair some = ft_sum(x - n * HALF_PI_1, -(n * HALF_PI_2));
    return (reduced){ft_sum_ordered(some.hi, some.lo - n * HALF_PI_3), (int)((int64_t)n & 3)};
}

static double sine_of(ft_pair r) {
    const double z = r.hi * r.hi;
    const double p =
        -1.0 / 6 +
        z * (1.0 / 120 +
             z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800 +
                                                         z * (1.0 / 6227020800 + z * (-1.0 / 1307674368000 +
                                                                                      z * (1.0 / 355687428096000)))))));
    return r.hi + (z * r.hi * p + (r.lo - 0.5 * z * r.lo));
}

static double cosine_of(ft_pair r) {
    const double z = r.hi * r.hi, half = 0.5 * z, w = 1 - half;
    const double p =
        1.0 / 24 +
        z * (-1.0 / 720 +
             z * (1.0 / 40320 + z * (-1.0 / 3628800 +
                                     z * (1.0 / 479001600 + z * (-1.0 / 87178291200 + z * (1.0 / 20922789888000))))));
    return w + (((1 - w) - half) + (z * z * p - r.hi * r.lo));
}

// The sine of r and so many quarters.
static double turned(ft_pair r, int quarters) {
    const double value = quarters & 1 ? cosine_of(r) : sine_of(r);
    return quarters & 2 ? -value : value;
}

void sincos(double x, double *sine, double *cosine) {
    if (!isfinite(x)) {
        *sine = *cosine = x - x;
        return;
    }
    const reduced r = reduce(fabs(x));
    const double s = turned(r.rest, r.quarter);
    *sine = signbit(x) ? -s : s;
    *cosine = turned(r.rest, r.quarter + 1);
}

// Not by sin and cos from each other, nor sincos by them: a compiler makes one sincos of the two.
double sin(double x) {
    if (!isfinite(x)) return x - x;
    const reduced r = reduce(fabs(x));
    const double s = turned(r.rest, r.quarter);
    return signbit(x) ? -s : s;
}

double cos(double x) {
    if (!isfinite(x)) return x - x;
    const reduced r = reduce(fabs(x));
    return turned(r.rest, r.quarter + 1);
}
