// curve_model.h - what the rest of a learning curve will be: the values of a trial at its evaluations and, behind them,
// its final one are a Gaussian vector whose mean and covariance are learnt from all curves of the study, also from
// those that have only begun. Before there are any, the covariance is that of a mixture of power laws with a late or an
// early start.
//
// A curve that stopped is no hole in the data: whether it went on was decided by what is known of it. So each stage is
// a regression on the stages before it, over the curves that came so far; no iteration, and the same bits every time.
// Values are better when higher. Not finite ones are the caller's: a trial that diverged has no curve.
#ifndef FT_HPO_CURVE_MODEL_H
#define FT_HPO_CURVE_MODEL_H

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

enum { FT_CURVE_STAGES = 64 }; // evaluations, at most

typedef struct ft_curve {
    const double *value; // [known] at its evaluations; behind the last one the final value, where known is stages + 1
    int known;
    double weight; // of its part in what is learnt, 1: whole
} ft_curve;

typedef struct ft_curve_model {
    int stages;     // evaluations of a whole curve
    double scale;   // of one final value, about: a standard deviation
    double *factor; // [stages + 1][stages + 2] stage by stage: a constant, and factors of the stages before it
    double *spread; // [stages + 1] variance of what a stage adds to what these say
    double *pull;   // [stages + 1] how far the final value's expectation follows it
} ft_curve_model;

// FT_INVALID: more stages than FT_CURVE_STAGES, or less than one.
ft_status ft_curve_model_of(const ft_curve *curves, int64_t count, int stages, ft_arena *arena, ft_curve_model *model);

// The final value of a curve that is known so far, as expected, and its variance. Of a new one: known = 0.
void ft_curve_ask(const ft_curve_model *model, const double *value, int known, double *mean, double *variance);
// By how much stage `stage` (from 0) will move the expectation: a variance. All that are left add up to the one above.
double ft_curve_news(const ft_curve_model *model, int stage);

#endif
