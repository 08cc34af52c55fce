// climb.h - where in a branch an acquisition is largest: quasi-random points and points around the best trials, then
// steps from the most promising ones, by gradient along continuous axes and value by value along the others.
#ifndef FT_HPO_GP_CLIMB_H
#define FT_HPO_GP_CLIMB_H

#include "hpo/search/gp/acquire.h"
#include "hpo/search/gp/branches.h"

typedef struct ft_gp_climb {
    const ft_trials *trials;
    const ft_gp_axes *axes;
    const ft_gp_branches *branches;
    ft_gp_acquisition *acquisition;
    const double *fixed; // [axes] values that the trial has already; NaN: free
    const double *elite; // [elites][axes] the best trials, the best first
    int elites;
    uint64_t seed;
    int64_t number;
    int candidates, starts; // of all branches together
} ft_gp_climb;

// point [axes] and branch: the best of all that fit the fixed values and that no trial has tried; *branch = -1: none
// fits.
ft_status ft_gp_climb_run(const ft_gp_climb *climb, ft_arena *arena, double *point, int *branch);
// points [most][axes]: candidates, half of them the most promising ones, half evenly from the others. *count of them.
ft_status ft_gp_climb_list(const ft_gp_climb *climb, ft_arena *arena, int most, double *points, int *count);

#endif
