// normal.h - the normal distribution in logarithms, cut to an interval: what kernels of a Parzen estimator are made of.
//
// The formulas are those of Optuna 5 (which took them from SciPy), step by step: where they lose digits, ours lose the
// same ones, and densities agree to rounding. A better formula would be a worse one here.
#ifndef FT_HPO_NORMAL_H
#define FT_HPO_NORMAL_H

// log of the mass below t.
double ft_log_normal_cdf(double t);
// log of the mass between a and b, a < b. -INFINITY when nothing of it is left in a double.
double ft_log_normal_mass(double a, double b);
// The z in [a, b] below which lies the part u, 0 <= u < 1, of the mass between a and b.
double ft_truncated_normal_quantile(double u, double a, double b);

#endif
