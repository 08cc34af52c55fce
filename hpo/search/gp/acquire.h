// acquire.h - how much a point promises: ln of the expected improvement on the best trial so far, + ln of the chance
// that it keeps every limit, + ln of the chance that it comes to an end at all, as often as caution says.
#ifndef FT_HPO_GP_ACQUIRE_H
#define FT_HPO_GP_ACQUIRE_H

#include "hpo/search/gp/belief.h"

typedef struct ft_gp_acquisition {
    ft_gp_model objective;
    ft_gp_belief *belief; // NULL: `objective` is of the losses; else of what teachers leave of them
    ft_gp_model *limit;   // [limits] each <= 0 is kept
    ft_gp_model odds;     // a classifier's
    double best;          // of the objective's values
    double caution;       // 1: as expected gains want it
    bool improves;        // there is an objective and a best trial; else only chances count
    bool doubts;          // some trial came to no end
    bool exploits;        // the mean, smaller is better, in place of ln of the improvement: what is not known promises nothing
    int limits, axes;
    double *scratch; // [2 axes]
} ft_gp_acquisition;

// What is known of the objective at a point; gradients as of ft_gp_ask.
void ft_gp_believe(ft_gp_acquisition *acquisition, const double *point, double *mean, double *variance,
                   double *mean_gradient, double *variance_gradient);
// ln of the chance that a trial comes to its end there, within all limits.
double ft_gp_chance(ft_gp_acquisition *acquisition, const double *point);
// gradient [axes] by the coordinates of numbers, or NULL.
double ft_gp_acquire(ft_gp_acquisition *acquisition, const double *point, double *gradient);

#endif
