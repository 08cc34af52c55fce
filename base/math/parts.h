// parts.h - numbers in two parts, and what the functions of this folder are made of. Nobody outside includes it: who
// wants exp says <math.h>.
#ifndef FT_MATH_PARTS_H
#define FT_MATH_PARTS_H

#include <stdint.h>
#include <string.h>

// hi + lo, lo below an ulp of hi.
typedef struct ft_pair {
    double hi, lo;
} ft_pair;

static inline uint64_t ft_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double ft_of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// The upper 26 bits of a number: a product of two such is exact.
static inline double ft_upper(double x) { return ft_of_bits(ft_bits(x) & ~(uint64_t)0x7ffffff); }

// a + b, |a| >= |b| or a = 0.
static inline ft_pair ft_sum_ordered(double a, double b) {
    const double s = a + b;
    return (ft_pair){s, b - (s - a)};
}

static inline ft_pair ft_sum(double a, double b) {
    const double s = a + b, of_b = s - a;
    return (ft_pair){s, (a - (s - of_b)) + (b - of_b)};
}

// a b, both far from the ends of the range.
static inline ft_pair ft_product(double a, double b) {
    const double p = a * b, ah = ft_upper(a), bh = ft_upper(b), al = a - ah, bl = b - bh;
    return (ft_pair){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

// Rounded to an integer, ties to even; |x| < 2^51.
static inline double ft_nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

// e^(x + low) = 2^power (value.hi + value.lo), hi in [1, 2); |x| < 1100, |low| below an ulp of x.
typedef struct ft_scaled {
    ft_pair value;
    int power;
} ft_scaled;
ft_scaled ft_exp_parts(double x, double low);
// 2^power value, rounded once; value in (0.5, 4).
double ft_scale(double value, int power);
// log x, x > 0 and finite; relative error 2^-67.
ft_pair ft_log_parts(double x);

#endif
