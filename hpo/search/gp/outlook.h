// outlook.h - whether going on pays: how much better than the best trial so far the best point of the space is, as the
// Gaussian process believes. Draws of all its candidates together, so that what is known of one place counts at the
// next (Wilson 2024, stopping by a bound on the regret that holds with a probability).
#ifndef FT_HPO_GP_OUTLOOK_H
#define FT_HPO_GP_OUTLOOK_H

#include "hpo/search/gp/gp.h"

typedef struct ft_gp_outlook {
    bool known;       // one objective, and enough trials (FT_OUTLOOK_TRIALS with a loss)
    double gain;      // expected, in units of the objective
    double tolerance; // what would not be told from noise, or a hundredth of what the search has gained on a middling
                      // trial
    double enough;    // the probability that no more than `tolerance` is left
    bool stop;        // enough >= FT_OUTLOOK_SURE
} ft_gp_outlook;

enum { FT_OUTLOOK_TRIALS = 20 };
#define FT_OUTLOOK_SURE 0.95

// A function of the trials and the options' seed.
ft_status ft_gp_outlook_of(const ft_trials *trials, const ft_gp_options *options, ft_gp_outlook *outlook);

#endif
