// fit.h - scales from the history: theta at the maximum of likelihood times prior (MAP), from fixed starts, so that it
// is a function of the values alone.
//
// Priors of values' scales, for values of variance 1: e^(-0.1/weight - s weight), flat over lengths from 0.3 (s = 0.1) to 3 of an axis and
// steep beyond, since ten trials fit many axes by ignoring most of them; variance e^-variance; noise^0.3 e^(-30 noise), for with 1.1 what
// differs between near trials passes for noise, and suggestions bunch together. Where values may be rough, s is 0.01 an axis, 0.1 at most,
// and e^(-axes^2 rough): the more axes, the less few trials tell of what lies between them.
// An axis that some points lack may be ignored: ln length ~ N(sqrt 2 + ln(axes) / 2, sqrt 3) (Hvarfner et al. 2024), or no
// branch would learn from another. So are a classifier's, ln variance ~ N(ln 10, 1).
#ifndef FT_HPO_GP_FIT_H
#define FT_HPO_GP_FIT_H

#include "hpo/search/gp/model.h"

// theta [axes + 3] for values y of mean 0 and variance 1, smooth ones or (`rough`) such as may be rough. *evidence, where wanted: ln of
// likelihood times prior there.
ft_status ft_gp_fit(const ft_gp_points *points, const double *y, bool rough, ft_arena *arena, double *theta, double *evidence);
// theta [axes + 3] for labels; its noise and roughness mean nothing.
ft_status ft_gp_fit_classifier(const ft_gp_points *points, const bool *good, double offset, ft_arena *arena,
                               double *theta);

#endif
