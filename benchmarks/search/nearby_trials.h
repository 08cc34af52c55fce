// nearby_trials.h - what the parameters of a trial let expect of it: the mean of trials around it, by a normal kernel
// whose widths are those with which trials are best told from the others. And points of the space that are worth a
// trial.
#ifndef FT_NEARBY_TRIALS_H
#define FT_NEARBY_TRIALS_H

#include "hpo/search/history/random_stream.h"
#include "hpo/search/history/trials.h"

typedef struct nearby_trials {
    int parameters;
    const ft_distribution *const *distribution; // [parameters]
    int64_t count, fitted;                      // trials; how many there were when the widths were found
    double *at;                                 // [count][parameters] parts of the ranges; a choice's index
    double *value,
        *trust; // [count] final value, as it is or as expected (better when higher), and how far that is known, 0 to 1
    double *width;  // [parameters]
    double *kernel; // [count][room] of each pair, with these widths: trials are asked about again and again
    int64_t room;
    double mean, spread; // of all trials; of a new trial's final value
} nearby_trials;

// values [parameters] of a trial as parts of the ranges.
void nearby_place(const nearby_trials *nearby, const double *values, double *at);
// Expected at a place, without trial `without` (-1: of all); *mass: how much is known there.
double nearby_ask(const nearby_trials *nearby, const double *at, int64_t without, double *mass);
// The same of a trial's own place, without itself.
double nearby_expect(const nearby_trials *nearby, int64_t trial);
// Kernels of the trials from `first` on, with all; after nearby_fit and where `room` is another one, of all.
void nearby_weigh(nearby_trials *nearby, int64_t first);
void nearby_fit(nearby_trials *nearby);
// values [parameters] and at [parameters] of the most promising of some points all over the space and around the best
// trials, where less is known counting for it; returns what is expected there. room [2][parameters].
double nearby_propose(const nearby_trials *nearby, ft_random_stream *stream, double *room, double *values, double *at);

#endif
