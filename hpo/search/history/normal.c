#include "hpo/search/history/normal.h"

#include <float.h>
#include <math.h>

static const double LOG_SQRT_2PI = 0.91893853320467274178;
static const double PI = 3.14159265358979323846;

// The mass below t where |t| is moderate: three formulas, so that neither tail is a difference of near-equal numbers.
static double normal_cdf(double t) {
    double s = t / sqrt(2.0), edge = 1 / sqrt(2.0);
    if (s < -edge) return 0.5 * erfc(-s);
    if (s < edge) return 0.5 + 0.5 * erf(s);
    return 1.0 - 0.5 * erfc(s);
}

double ft_log_normal_cdf(double t) {
    if (t > 6) return -normal_cdf(-t);
    if (t > -20) return log(normal_cdf(t));
    // Asymptotic series 1 - 1/t^2 + 3/t^4 - 15/t^6 ..., until a term no longer changes it.
    double head = -0.5 * t * t - log(-t) - LOG_SQRT_2PI;
    double sum = 1, last = 0, term = 1, inverse = 1 / (t * t);
    for (int i = 1; fabs(last - sum) > DBL_EPSILON; i++) {
        last = sum;
        term *= -(2 * i - 1) * inverse;
        sum += term;
    }
    return head + log(sum);
}

static double left_mass(double a, double b) {
    double p = ft_log_normal_cdf(b), q = ft_log_normal_cdf(a);
    return p + log1p(-exp(q - p));
}

double ft_log_normal_mass(double a, double b) {
    if (b <= 0) return left_mass(a, b);
    if (a > 0) return left_mass(-b, -a); // the right tail by symmetry: it has more digits on the left
    double outside = (0.5 + 0.5 * erf(a / sqrt(2.0))) + (0.5 + 0.5 * erf(-b / sqrt(2.0)));
    return outside < 1 ? log1p(-outside) : -INFINITY;
}

// The z with ft_log_normal_cdf(z) = y, by Newton's method.
static double inverse_log_cdf(double y) {
    // Close to 1 the cdf itself says little; its complement does.
    double flip = y > -1e-2 ? -1 : 1;
    if (flip < 0) y = log(-expm1(y));
    // Far out log cdf(z) ~ -z^2/2 - log sqrt(2 pi); nearer the logistic curve is close enough to start from.
    double z = y < -5 ? -sqrt(-2 * (y + LOG_SQRT_2PI)) : -sqrt(3.0) / PI * log(expm1(-y));
    for (int i = 0; i < 100; i++) {
        double l = ft_log_normal_cdf(z);
        double step = (l - y) * exp(l + 0.5 * z * z + LOG_SQRT_2PI);
        z -= step;
        if (!(fabs(step) >= 1e-10 * fabs(z))) break;
    }
    return flip * z;
}

static double log_add(double p, double q) { return p > q ? p + log1p(exp(q - p)) : q + log1p(exp(p - q)); }

double ft_truncated_normal_quantile(double u, double a, double b) {
    double mass = ft_log_normal_mass(a, b), z;
    if (a < 0)
        z = u > 0 ? inverse_log_cdf(log_add(ft_log_normal_cdf(a), log(u) + mass)) : a;
    else
        z = -inverse_log_cdf(log_add(ft_log_normal_cdf(-b), log1p(-u) + mass));
    // Also where rounding left no number: 0 and 1 have no finite logarithm or quantile.
    if (!(z > a)) return a;
    return z < b ? z : b;
}
