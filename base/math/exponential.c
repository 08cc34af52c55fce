// exponential.c - exp, exp2, expm1, tanh. 2^(n/128) from a table, a polynomial of the rest; errors are below 0.52 ulp,
// of expm1 below 1.5, of tanh below 3.
#include "base/math/parts.h"

#include <math.h>

#include "base/math/tables.inc"

// e^r - 1 of |r + low| < 0.003, r large of both.
static double of_rest(double r, double low) {
    const double s = r + low;
    return r + (low + s * s * (0.5 + s * (1.0 / 6 + s * (1.0 / 24 + s * (1.0 / 120 + s * (1.0 / 720))))));
}

static ft_scaled times_power(int n, double rest) {
    const double hi = POWERS[n & 127].hi;
    return (ft_scaled){{hi, POWERS[n & 127].lo + hi * rest}, (n - (n & 127)) / 128};
}

ft_scaled ft_exp_parts(double x, double low) {
    const double n = ft_nearest(x * PER_LN2);
    return times_power((int)n, of_rest(x - n * LN2_128_HI, low - n * LN2_128_LO));
}

static double power_of_2(int power) { return ft_of_bits((uint64_t)(power + 1023) << 52); }

double ft_scale(double value, int power) {
    if (power >= -1021 && power <= 1022) return value * power_of_2(power);
    if (power > 0) return value * power_of_2(1022) * power_of_2(power > 2044 ? 1022 : power - 1022);
    return value * power_of_2(-1000) * power_of_2(power < -2022 ? -1022 : power + 1000);
}

static double value_of(ft_scaled s) { return ft_scale(s.value.hi + s.value.lo, s.power); }

double exp(double x) {
    if (isnan(x)) return x + x;
    if (x > 710) return INFINITY;
    if (x < -746) return 0;
    return value_of(ft_exp_parts(x, 0));
}

double exp2(double x) {
    if (isnan(x)) return x + x;
    if (x >= 1024) return INFINITY;
    if (x < -1076) return 0;
    const double n = ft_nearest(x * 128);
    return value_of(times_power((int)n, of_rest((x - n / 128) * LN_2, 0)));
}

double expm1(double x) {
    if (isnan(x) || fabs(x) < 0x1p-54) return x;
    if (x > 710) return INFINITY;
    if (x < -40) return -1;
    if (fabs(x) < 0.0027) return of_rest(x, 0);
    const ft_scaled s = ft_exp_parts(x, 0);
    if (s.power > 60) return value_of(s);
    const ft_pair less = ft_sum(s.value.hi * power_of_2(s.power), -1);
    return less.hi + (less.lo + s.value.lo * power_of_2(s.power));
}

double tanh(double x) {
    const double size = fabs(x);
    if (isnan(x) || size < 0x1p-28) return x;
    if (size > 22) return copysign(1, x);
    const double t = expm1(2 * size);
    return copysign(size >= 1 ? 1 - 2 / (t + 2) : t / (t + 2), x);
}
