// recorded_curves.h - the learning curve that a trial would have had, of a study whose trials were all trained to their
// ends.
//
// A suggestion is answered by the mean of the recorded curves, weighted by a normal kernel over the distance of their
// parameters, and on it the luck of a run: normal, with the mean covariance of the curves of three settings that were trained
// several times, with seeds alone that differ. They are those whose final values are nearest to the mean's: near the best a seed changes
// less than where training may or may not begin. (What a recorded trial is away from its neighbours is no luck: it is the same
// for all who go there, so each of them would be better there than what trials there have on average.) Distances: parameters as parts of
// their ranges, of logarithms where they are so searched; another choice is as far away as the other end. The kernel has a width a
// parameter, those with which curves are best told from the others.
#ifndef FT_RECORDED_CURVES_H
#define FT_RECORDED_CURVES_H

#include "hpo/search/history/trials.h"

#include <stdint.h>

typedef struct recorded_curves {
    const ft_trials *study;
    const ft_trial **trial;   // [count] that can be replayed
    int count, points;        // evaluations of each, and behind them the final value
    double *value;            // [count][points] as recorded
    double *width;            // [parameters] of the kernel
    int settings, runs;       // trained again; each so often
    double *level;            // [settings] the mean of its final values
    double *luck;             // [settings][runs][points] away from the mean
} recorded_curves;

// `again`: trials of settings of the study, of each equally many, at least two, with other seeds. Prints a line of JSON about them.
ft_status recorded_curves_of(const ft_trials *study, const ft_trials *again, recorded_curves *curves);
void recorded_curves_free(recorded_curves *curves);
// curve [points] of a trial with these values [parameters]; of one seed and number the same, as far as the values are.
void recorded_curves_draw(const recorded_curves *curves, int64_t seed, int64_t number, const double *values,
                          double *curve);
// The same without what is drawn: what trials there have on average.
void recorded_curves_mean(const recorded_curves *curves, const double *values, double *curve);

// How far a study has come. `best` is of the complete trials (NaN: there is none), `place` what trials have on average where
// the best one is: it has no luck. Of these two, after how many steps they were as good as a goal's and stayed so; 0: never.
typedef struct recorded_race {
    double best, place;
    int64_t steps, best_since, place_since;
} recorded_race;

// After a trial with these values has ended with `value`; curve [points] is lost. Without a goal (NULL), *_since are of the best itself.
void recorded_race_add(recorded_race *race, const recorded_curves *curves, const double *values, double value, const recorded_race *goal,
                       double *curve);
// It has all of the goal, or taken its steps. Without a goal never.
bool recorded_race_over(const recorded_race *race, const recorded_race *goal);

#endif
