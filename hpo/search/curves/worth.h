// worth.h - what one more stage of a trial is worth: the expected improvement on the best final value for each second
// that it takes, when the trial is stopped as soon as going on does not pay.
//
// The expectation of a trial's final value moves from stage to stage by normal steps of known size (ft_curve_news). If
// a second had a price, a trial would be worth its expected improvement less the price of the stages that it will see;
// its index is the price at which it is worth nothing (Gittins, Weitzman). The trial of the highest index goes on.
#ifndef FT_HPO_WORTH_H
#define FT_HPO_WORTH_H

#include "hpo/search/curves/curve_model.h"

// Values of all stages at a ladder of prices.
typedef struct ft_worth {
    int stages, prices, points;
    double unit;   // of values
    double *price; // [prices] for a stage, in units, falling
    double *value; // [prices][stages + 1][points] of having seen so many stages, over the distance to the best
} ft_worth;

ft_status ft_worth_of(const ft_curve_model *model, ft_arena *arena, ft_worth *worth);
// In values per stage: of a trial that has seen `known` of them and whose final value is expected to be `ahead` better
// than the best one (usually less than 0). 0: less than the lowest price.
double ft_worth_index(const ft_worth *worth, int known, double ahead);

#endif
