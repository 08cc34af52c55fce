// freeze_thaw.h - which trial goes on for one more evaluation: one that was paused, or a new one.
//
// Each trial's final value is expected from what it has shown (curve_model.h, learnt from all of them), and the one
// whose next stage is worth most for what it costs goes on (worth.h). A new trial is worth what trials of late have
// been: the sampler that proposes it has moved to where they were good.
//
// A function of its arguments alone: the same history gives the same choice, to the bit.
#ifndef FT_HPO_FREEZE_THAW_H
#define FT_HPO_FREEZE_THAW_H

#include "hpo/search/curves/worth.h"

#include <stdbool.h>

typedef struct ft_freeze_thaw_trial {
    const double *value; // [known] as ft_curve's, in the study's own direction
    int known;           // stages + 1: it has ended
    bool waits;          // it may go on; else it has ended, or somebody trains it now
    double seconds;      // that its next stage takes
} ft_freeze_thaw_trial;

typedef struct ft_freeze_thaw_options {
    int stages; // evaluations of a whole trial
    bool maximize;
    double new_seconds; // that the first stage of a new trial takes
    bool may_begin;     // a new trial is one of the choices
    int whole; // trials that are trained to their ends first, in their order: there is nothing to compare with before
    double memory; // trials, counted from the newest, until one counts 1/e for what is learnt; at least half of them
} ft_freeze_thaw_options;
ft_freeze_thaw_options ft_freeze_thaw_defaults(int stages, bool maximize);

enum { FT_FREEZE_THAW_NEW = -1, FT_FREEZE_THAW_NONE = -2 }; // nothing waits, and nothing may begin

typedef struct ft_freeze_thaw_choice {
    int64_t trial;           // or one of the above
    double worth, worth_new; // expected improvement a second: of the choice, of a new trial
    double *expected;        // [count] final values: those that are, and those that are to be expected
    double *deviation;       // [count] of these, 0 where it is known
} ft_freeze_thaw_choice;

// What is believed of curves, learnt from trials [count] in the order of their numbers; in the arena.
ft_status ft_freeze_thaw_believe(const ft_freeze_thaw_trial *trials, int64_t count,
                                 const ft_freeze_thaw_options *options, ft_arena *arena, ft_curve_model *belief);
// The choice of these by it; in the arena.
ft_status ft_freeze_thaw_pick(const ft_curve_model *belief, const ft_freeze_thaw_trial *trials, int64_t count,
                              const ft_freeze_thaw_options *options, ft_arena *arena, ft_freeze_thaw_choice *choice);
// Both.
ft_status ft_freeze_thaw_choose(const ft_freeze_thaw_trial *trials, int64_t count,
                                const ft_freeze_thaw_options *options, ft_arena *arena, ft_freeze_thaw_choice *choice);

#endif
