// belief.h - the objective of this study as a correction of what its teachers expect:
//
//     mean = base + slope * (the teachers' weighted mean) + scale * (mean of a process of the residuals)
//
// with slope and base by least squares. It is believed where the trials are more likely so than under a process of
// their own (by more than the slope and the base cost, BIC); else nothing is learnt from others, to the bit. And only
// in every other trial, up to FT_TEACHERS_HEARD of them.
#ifndef FT_HPO_GP_BELIEF_H
#define FT_HPO_GP_BELIEF_H

#include "hpo/search/gp/axes.h"
#include "hpo/search/gp/teachers.h"

typedef struct ft_gp_belief {
    ft_gp_teachers *teachers;
    double base, slope, scale;
    double *weight;           // [sources] of sum 1
    int *axis;                // [axes of lessons] this study's, -1: none
    double *shift, *stretch;  // [axes of lessons] from this study's coordinates to theirs
    double *point, *gradient; // [axes of lessons] scratch
} ft_gp_belief;

// *trusted = false: no teacher ranks the trials of this study better than chance, or there are too few.
ft_status ft_gp_belief_of(ft_gp_teachers *teachers, const ft_trials *trials, const ft_gp_axes *axes, ft_arena *arena,
                          ft_gp_belief *belief, bool *trusted);
// Base, slope and scale for values y [n] at points [n][axes of this study]; residual [n]: of mean 0 and variance 1.
// false: the teachers' mean does not go with the values.
bool ft_gp_belief_regress(ft_gp_belief *belief, const double *const *points, const double *y, int n, double *residual);
// What evidence of n residuals has to give up beside that of values as they are.
double ft_gp_belief_cost(const ft_gp_belief *belief, int n);
// A process's answer about residuals, with or without gradients [axes of this study], becomes one about the objective.
void ft_gp_belief_add(ft_gp_belief *belief, int axes, const double *point, double *mean, double *variance,
                      double *mean_gradient, double *variance_gradient);

#endif
