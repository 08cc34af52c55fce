// targets.h - what ended trials have told: a loss, values of constraints, or that they came to no end. Failed, diverged
// and refused trials have no loss and are not good: a classifier learns from them. A pruned trial's last value is taken
// for no better than the middle of the completed ones.
#ifndef FT_HPO_GP_TARGETS_H
#define FT_HPO_GP_TARGETS_H

#include "hpo/search/history/trials.h"

typedef struct ft_gp_targets {
    int64_t *number;    // [count] of the trial
    double *loss;       // [count] smaller is better; NaN: none
    bool *good;         // [count] it came to its end
    bool *keeps;        // [count] good, complete and within all limits: it may be the best one
    double *constraint; // [limits][count] NaN: not known
    int *limit;         // [limits] the constraints that every completed trial has: ids, by name, bytewise
    int count, losses, bad, limits;
} ft_gp_targets;

// Of a study with one objective.
ft_status ft_gp_targets_of(const ft_trials *trials, ft_arena *arena, ft_gp_targets *out);

typedef enum ft_gp_warp {
    FT_GP_PLAIN, // nothing but mean 0 and variance 1
    FT_GP_HALF,  // losses above the median by rank: a disaster says no more than a bad trial
    FT_GP_LOG,   // and logarithms of the distance from the best
    FT_GP_CUT    // plain, but for disasters: what is much worse than the first trials, which are spread over the space
} ft_gp_warp;

// y [n] = losses [n] in the order of the trials, made comparable: mean 0, variance 1.
ft_status ft_gp_warp_losses(ft_gp_warp warp, const double *loss, int n, ft_arena *arena, double *y);
// y [n] = values of a constraint in logarithms on both sides of 0, of variance 1 about *mean; *mean is in the same
// units.
void ft_gp_warp_limit(const double *value, int n, double *y, double *mean);

#endif
