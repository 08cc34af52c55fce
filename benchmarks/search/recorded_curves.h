// recorded_curves.h - the learning curve that a trial would have had, of a study whose trials were all trained to their
// ends.
//
// A suggestion is answered by a curve that nobody recorded and that is like those: the mean of the recorded ones,
// weighted by a normal kernel over the distance of their parameters, and on it what one of these neighbours, drawn for
// this trial, is away from the mean of its own. (The nearest curve alone would answer all suggestions around it with
// the same luck.) Distances: parameters as parts of their ranges, of logarithms where they are so searched; another
// choice is as far away as the other end. The kernel has a width a parameter, those with which curves are best told
// from the others: with one for all, what the learning rate alone decides would count as luck, and the luckiest of many
// trials would be better than any training can be.
#ifndef FT_RECORDED_CURVES_H
#define FT_RECORDED_CURVES_H

#include "hpo/search/history/trials.h"

#include <stdint.h>

typedef struct recorded_curves {
    const ft_trials *study;
    const ft_trial **trial;   // [count] that can be replayed
    int count, points;        // evaluations of each, and behind them the final value
    double *value, *residual; // [count][points]: as recorded; less the mean of the others around it
    double *width;            // [parameters] of the kernel
} recorded_curves;

// Prints a line of JSON about them.
ft_status recorded_curves_of(const ft_trials *study, recorded_curves *curves);
void recorded_curves_free(recorded_curves *curves);
// curve [points] of a trial with these values [parameters]; of one seed and number the same, as far as the values are.
void recorded_curves_draw(const recorded_curves *curves, int64_t seed, int64_t number, const double *values,
                          double *curve);
// The same without what is drawn: what trials there have on average.
void recorded_curves_mean(const recorded_curves *curves, const double *values, double *curve);

#endif
