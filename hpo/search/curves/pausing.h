// pausing.h - what a study that pauses its trials does next: which of them goes on to its next evaluation, or where a
// new one begins. freeze_thaw.h on a study's history.
//
// Curves are compared by the part of the way that they have come: those of the first complete trial are the stages, so
// trials may differ in length. What the places of trials let expect of them (nearby.h) stands before each curve, as one
// more stage: the regressions find out how much it has told.
//
// A function of the history, of who trains now and of the widths that the trials before were begun with: the same
// choice, to the bit. What an ft_pausing keeps saves time alone.
#ifndef FT_HPO_PAUSING_H
#define FT_HPO_PAUSING_H

#include "hpo/search/curves/freeze_thaw.h"
#include "hpo/search/history/trials.h"

typedef struct ft_pausing_trial {
    bool waits;          // it is RUNNING, and nobody trains it now
    bool first;          // it goes on before any other, whatever it promises
    int64_t steps;       // of the whole trial; 0: as many as the first complete one has
    double step_seconds; // 0: not known
} ft_pausing_trial;

// Of the kernel of nearby.h, by the name's id; fitted 0: none yet. Found anew as trials add up, and kept with the trial
// that begins by them.
typedef struct ft_pausing_widths {
    int64_t fitted; // trials that there were
    int count;      // names
    double *width;  // [count]
} ft_pausing_widths;

typedef struct ft_pausing_options {
    uint64_t seed;
    bool may_begin; // a new trial
    bool places;    // it begins where the trials around let most expect; false: where a sampler says
} ft_pausing_options;

typedef struct ft_pausing_choice {
    int64_t trial; // its number, FT_FREEZE_THAW_NEW or FT_FREEZE_THAW_NONE
    // Of each trial of the study, NaN where there is nothing to say: its final value, in the study's direction, and the
    // chance that it will be better than the best one.
    double *expected, *chance;
    ft_trial_param
        *place; // [place_count] of a new trial, where it was chosen: more than its branch of the space may ask for
    int place_count;
    ft_pausing_widths widths;
} ft_pausing_choice;

typedef struct ft_pausing {
    double *kernel, *at, *width; // of the last choice
    int64_t room, count;
    int axes;
} ft_pausing; // {0}: nothing yet
void ft_pausing_free(ft_pausing *pausing);

// view [trials->count]. The study has one objective. The choice is in the arena.
ft_status ft_pausing_choose(ft_pausing *pausing, const ft_trials *trials, const ft_pausing_trial *view,
                            const ft_pausing_widths *widths, const ft_pausing_options *options, ft_arena *arena,
                            ft_pausing_choice *choice);

#endif
