// improvement.h - logarithms that stay exact where the numbers themselves are nothing: expected improvement, and the
// chance of keeping a limit.
#ifndef FT_HPO_IMPROVEMENT_H
#define FT_HPO_IMPROVEMENT_H

// ln h(z), h = phi(z) + z Phi(z): the expected improvement of a normal value whose mean is z deviations better than the
// best so far, in deviations. *slope = its derivative, Phi / h.
double ft_log_improvement(double z, double *slope);
// ln Phi(z); *slope = its derivative.
double ft_log_chance(double z, double *slope);

#endif
