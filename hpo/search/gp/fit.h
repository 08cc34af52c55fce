// fit.h - scales from the history: theta at the maximum of likelihood times prior (MAP), from fixed starts, so that it
// is a function of the values alone.
//
// Priors of values' scales, for values of variance 1: e^(-0.1/weight - 0.1 weight), flat over lengths from 0.3 to 3 of an axis
// and steep beyond, since ten trials fit many axes by ignoring most of them; variance e^-variance; noise^0.3 e^(-30 noise),
// for with 1.1 what differs between near trials passes for noise, and suggestions bunch together.
// An axis that some points lack may be ignored: ln length ~ N(sqrt 2 + ln(axes) / 2, sqrt 3) (Hvarfner et al. 2024), or no
// branch would learn from another. So are a classifier's, ln variance ~ N(ln 10, 1).
#ifndef FT_HPO_GP_FIT_H
#define FT_HPO_GP_FIT_H

#include "hpo/search/gp/model.h"

// theta [axes + 2] for values y of mean 0 and variance 1. *evidence, where wanted: ln of likelihood times prior there.
ft_status ft_gp_fit(const ft_gp_points *points, const double *y, ft_arena *arena, double *theta, double *evidence);
// theta [axes + 2] for labels; its noise means nothing.
ft_status ft_gp_fit_classifier(const ft_gp_points *points, const bool *good, double offset, ft_arena *arena,
                               double *theta);

#endif
