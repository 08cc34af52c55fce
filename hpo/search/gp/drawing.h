// drawing.h - what a suggestion of the Gaussian process is made of, for gp.c, outlook.c and insight.c alone.
#ifndef FT_HPO_GP_DRAWING_H
#define FT_HPO_GP_DRAWING_H

#include "hpo/search/gp/climb.h"
#include "hpo/search/gp/gp.h"

typedef struct ft_gp_drawing {
    const ft_trials *trials;
    const ft_gp_options *options;
    int64_t number;
    ft_arena arena;
    ft_gp_axes axes;
    ft_gp_targets targets;
    double *points; // [targets][axes]
    ft_gp_acquisition acquisition;
    double unit;   // what 1 of the model's values is as a loss, 0: not known
    double zero;   // what their 0 is as one
    double noise;  // variance, in the objective model's values
    double *elite; // [elites][axes] the best trials, the best first
    int elites;
} ft_gp_drawing;

// Models of all that is known. name, distribution: of one more parameter, -1: none.
ft_status ft_gp_prepare(ft_gp_drawing *drawing, int name, int distribution);
ft_status ft_gp_all_branches(ft_gp_drawing *drawing, ft_gp_branches *branches);
// The climb to where most is expected, for a trial of this number that has the values of fixed [axes] already (NaN: free). Points into all of these.
ft_gp_climb ft_gp_climb_of(ft_gp_drawing *drawing, const ft_gp_branches *branches, const double *fixed, int64_t number);

#endif
