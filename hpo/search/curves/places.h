// places.h - where in the space a new trial begins: the most promising of some points all over it and around the best
// trials, where less is known counting for it.
#ifndef FT_HPO_PLACES_H
#define FT_HPO_PLACES_H

#include "hpo/search/curves/nearby.h"
#include "hpo/search/gp/axes.h"
#include "hpo/search/history/random_stream.h"

typedef struct ft_place {
    double expected;        // a final value, better when higher
    double *at;             // [axes] as in ft_nearby
    ft_trial_param *params; // [axes] each with the range that the latest trial which has it had
} ft_place;

// In the arena. Without axes there is nothing to choose: the place has no parameters.
ft_status ft_places_propose(const ft_trials *trials, const ft_gp_axes *axes, const ft_nearby *nearby,
                            ft_random_stream *stream, ft_arena *arena, ft_place *place);

#endif
