// logarithm.c - log, log2, log10, log1p and logf. x = 2^e c (1 + r), c a multiple of 1/128 whose logarithm is in a
// table, and a series of r; r is known to twice the digits, since pow wants them. Errors are below 0.51 ulp, of log1p
// below 1.
#include "base/math/parts.h"

#include <math.h>

#include "base/math/tables.inc"

// base.hi + base.lo + log(1 + r + low); r has 26 bits, and is smaller than base.hi, if that is not 0.
static ft_pair series(ft_pair base, double r, double low) {
    const double s = r + low, half_square = r * r * 0.5, cross = low * (r + 0.5 * low);
    const double of_cubes =
        s * s * s *
        (1.0 / 3 - s * (1.0 / 4 - s * (1.0 / 5 - s * (1.0 / 6 - s * (1.0 / 7 - s * (1.0 / 8 - s * (1.0 / 9)))))));
    const ft_pair first = ft_sum_ordered(base.hi, r), second = ft_sum_ordered(first.hi, -half_square);
    return ft_sum_ordered(second.hi, first.lo + second.lo + base.lo + (low - cross + of_cubes));
}

// log(x + more), more far below x, or 0.
static ft_pair log_of(double x, double more) {
    int power = 0;
    if (x < 0x1p-1022) x *= 0x1p54, power = -54;
    const uint64_t above = ft_bits(x) - 0x3fe6a09e667f3bcdULL; // beside the root of 1/2
    const uint64_t sign = above >> 63;
    const int e = (int)(above >> 52) - (int)(sign << 12);
    const double z = ft_of_bits(ft_bits(x) - ((uint64_t)(int64_t)e << 52)), n = ft_nearest((z - 1) * 128),
                 c = 1 + n / 128;
    power += e;
    const double d = z - c, r = ft_upper(d / c), low = (d - r * c) / c;
    const int at = (int)n - FIRST_LOGARITHM;
    const ft_pair base = {power * LN2_HI + LOGARITHMS[at].hi, power * LN2_LO + LOGARITHMS[at].lo + more / x};
    return series(base, r, low);
}

ft_pair ft_log_parts(double x) { return log_of(x, 0); }

// What is no number of its own; true: *out is the result.
static int is_special(double x, double *out) {
    if (x > 0 && x <= 0x1.fffffffffffffp1023) return 0;
    *out = isnan(x) || x > 0 ? x + x : x < 0 ? NAN : -INFINITY;
    return 1;
}

double log(double x) {
    double special;
    return is_special(x, &special) ? special : log_of(x, 0).hi;
}

float logf(float x) { return (float)log((double)x); }

// Times a number in two parts.
static double times(ft_pair a, double hi, double lo) {
    const ft_pair p = ft_product(a.hi, hi);
    return p.hi + (p.lo + (a.hi * lo + a.lo * hi));
}

double log2(double x) {
    double special;
    return is_special(x, &special) ? special : times(log_of(x, 0), LN2_PER_HI, LN2_PER_LO);
}

double log10(double x) {
    double special;
    return is_special(x, &special) ? special : times(log_of(x, 0), LN10_PER_HI, LN10_PER_LO);
}

double log1p(double x) {
    double special;
    if (is_special(1 + x, &special)) return x == INFINITY || isnan(x) ? x + x : special;
    if (fabs(x) < 0x1p-54) return x;
    if (fabs(x) < 1.0 / 256) {
        const double r = ft_upper(x);
        return series((ft_pair){0, 0}, r, x - r).hi;
    }
    const double sum = 1 + x;
    return log_of(sum, fabs(x) < 1 ? x - (sum - 1) : 1 - (sum - x)).hi;
}
