// error_function.c - erf and erfc: a series near 0, else exp(-x^2) times a table of polynomials. Errors are below 2
// ulp.
#include "base/math/parts.h"

#include <math.h>

#include "base/math/tables.inc"

// x >= 0.5.
static double tail(double x) {
    if (x > 28) return 0;
    const double from = (double)(int)(64 * (4 / (4 + x))), upper = ft_upper(x);
    // y - from = (256 - from (4 + x)) / (4 + x), without the digits that y itself would lose
    const double u = 2 * (((256 - 4 * from) - from * upper) - from * (x - upper)) / (4 + x) - 1;
    const double *c = TAILS[(int)from - FIRST_TAIL];
    double g = c[TAIL_TERMS - 1];
    for (int i = TAIL_TERMS - 2; i >= 0; i--)
        g = g * u + c[i];
    const ft_pair square = ft_product(x, x);
    const ft_scaled s = ft_exp_parts(-square.hi, -square.lo);
    // The product may be as small as 0.02: ft_scale wants it near 1.
    return ft_scale((s.value.hi + s.value.lo) * (g * 64), s.power - 6);
}

// |x| < 0.5: 2/sqrt(pi) sum (-1)^n x^(2n+1) / (n! (2n+1)), 1 x apart.
static double middle(double x) {
    const double z = x * x, of = 0x1.20dd750429b6dp+0;
    double p = of / 11975040000.0;
    p = p * z - of / 918086400.0;
    p = p * z + of / 76204800.0;
    p = p * z - of / 6894720.0;
    p = p * z + of / 685440.0;
    p = p * z - of / 75600.0;
    p = p * z + of / 9360.0;
    p = p * z - of / 1320.0;
    p = p * z + of / 216.0;
    p = p * z - of / 42.0;
    p = p * z + of / 10.0;
    p = p * z - of / 3.0;
    return x + x * (0x1.06eba8214db69p-3 + z * p);
}

double erf(double x) {
    const double size = fabs(x);
    if (isnan(x)) return x + x;
    if (size < 0.5) return middle(x);
    return copysign(size > 6.5 ? 1 : 1 - tail(size), x);
}

double erfc(double x) {
    if (isnan(x)) return x + x;
    if (x >= 0.5) return tail(x);
    if (x > -0.5) return 1 - middle(x);
    return x < -6.5 ? 2 : 2 - tail(-x);
}
