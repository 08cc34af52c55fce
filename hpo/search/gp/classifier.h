// classifier.h - which points come to an end: a Gaussian process over a latent value whose logistic function is the
// chance, with Laplace's approximation (Rasmussen & Williams 2006, algorithms 3.1, 3.2 and 5.1).
#ifndef FT_HPO_GP_CLASSIFIER_H
#define FT_HPO_GP_CLASSIFIER_H

#include "hpo/search/gp/model.h"

// ln p(labels | theta), approximately, and its gradient [axes + 1] by ln variance and ln weights (theta has no noise).
// good [points]; offset: the latent value far from all points. mode [points]: the start of Newton's method, and the
// most probable latent values (less the offset) afterwards. -INFINITY where doubles do not suffice.
double ft_gp_classifier_evidence(const ft_gp_pairs *pairs, const bool *good, double offset, const double *theta,
                                 ft_gp_scratch *scratch, double *mode, double *gradient);
// Its latent process, to be asked as any other.
ft_status ft_gp_classifier_of(const ft_gp_points *points, const bool *good, double offset, const double *theta,
                              ft_arena *arena, ft_gp_model *out);

// ln of the chance for a latent value of that mean and variance (MacKay's approximation), and its derivatives.
double ft_gp_log_odds(double mean, double variance, double *by_mean, double *by_variance);

#endif
