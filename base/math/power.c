// power.c - pow: exp(y log x), the logarithm and the product with twice the digits. The error is below 0.52 ulp.
#include "base/math/parts.h"

#include <math.h>

// 0: no integer, 1: odd, 2: even.
static int integer_kind(double y) {
    if (!(fabs(y) < 0x1p53)) return 2;
    const int64_t n = (int64_t)y;
    return (double)n != y ? 0 : n % 2 != 0 ? 1 : 2;
}

// |x|^y, x neither 0 nor infinite, y finite.
static double magnitude(double x, double y) {
    const ft_pair logarithm = ft_log_parts(x);
    if (!(fabs(y * logarithm.hi) < 1000)) return y * logarithm.hi > 0 ? INFINITY : 0;
    if (fabs(y) < 0x1p-200) return 1; // so small that its parts would not be numbers
    const ft_pair p = ft_product(y, logarithm.hi), exponent = ft_sum_ordered(p.hi, p.lo + y * logarithm.lo);
    const ft_scaled s = ft_exp_parts(exponent.hi, exponent.lo);
    return ft_scale(s.value.hi + s.value.lo, s.power);
}

double pow(double x, double y) {
    if (y == 0 || x == 1) return 1;
    if (isnan(x) || isnan(y)) return x + y;
    const double size = fabs(x);
    if (isinf(y)) return size == 1 ? 1 : (size > 1) == (y > 0) ? INFINITY : 0;
    const int kind = integer_kind(y);
    const double sign = signbit(x) && kind == 1 ? -1 : 1;
    if (size == 0) return sign * (y > 0 ? 0 : INFINITY);
    if (isinf(size)) return sign * (y > 0 ? INFINITY : 0);
    if (x < 0 && kind == 0) return NAN;
    return sign * magnitude(size, y);
}
