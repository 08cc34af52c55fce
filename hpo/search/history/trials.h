// trials.h - the history of a study in memory: all trials with what samplers and pruners read. Storage fills it and
// keeps it up to date; nothing here knows of files.
//
// 1. trials.trial[i] has number i: numbers run from 0 without gaps, and no trial is ever removed.
// 2. Finished trials (COMPLETE, PRUNED, FAIL) never change: every setter refuses with FT_FAILED.
// 3. Names and distributions are interned: equal ids mean equal things, over the whole study. Ids count from 0 in the
// order
//    of first use.
// 4. Change trials through these functions only: they count `revision`, by which samplers see what is new.
#ifndef FT_HPO_TRIALS_H
#define FT_HPO_TRIALS_H

#include "hpo/search/history/distribution.h"

typedef enum ft_trial_state { FT_RUNNING, FT_COMPLETE, FT_PRUNED, FT_FAIL, FT_WAITING } ft_trial_state;
const char *ft_trial_state_name(ft_trial_state state); // "RUNNING", ... as Optuna writes them
static inline bool ft_trial_finished(ft_trial_state state) {
    return state == FT_COMPLETE || state == FT_PRUNED || state == FT_FAIL;
}

typedef struct ft_trial_param {
    int name, distribution; // ids; of this trial's own distribution, ranges may differ between trials
    double value;           // internal, see distribution.h
} ft_trial_param;

typedef struct ft_trial_report {
    int64_t step;
    double value; // may be NaN or infinite
} ft_trial_report;

typedef struct ft_trial_constraint {
    int name; // id of its own table: ft_trials.constraint_names
    double value;
} ft_trial_constraint;

typedef struct ft_trial {
    int64_t number;
    ft_trial_state state;
    uint32_t revision;
    double *values; // [value_count] objectives: all of them when COMPLETE; PRUNED: the last report or none
    ft_trial_param *params;
    ft_trial_param *relative; // RUNNING: drawn jointly beforehand, not yet asked for (Optuna's tpe:relative_params)
    ft_trial_report *reports; // by step, ascending
    ft_trial_constraint *constraints; // <= 0 is feasible; in order of setting
    double *rungs;                    // successive halving: the value at each completed rung
    int value_count, param_count, relative_count, report_count, constraint_count, rung_count;
    int param_capacity, relative_capacity, report_capacity, constraint_capacity, rung_capacity;
} ft_trial;

typedef struct ft_names {
    const char **name;
    int count, capacity;
} ft_names;

typedef struct ft_trials {
    ft_trial *trial;
    int64_t count, capacity;
    int objectives;
    bool *maximize; // [objectives]
    ft_names names, constraint_names;
    const ft_distribution **distributions; // [distribution_count]
    int distribution_count, distribution_capacity;
    int64_t finished;  // COMPLETE + PRUNED, what start-up phases count
    int64_t failed;    // FAIL
    uint64_t revision; // counts all changes
    uint64_t states;   // counts changes of a state and new trials: between two of them no split changes
    ft_arena arena;    // names and distributions
} ft_trials;

ft_status ft_trials_init(ft_trials *trials, int objectives, const bool *maximize);
void ft_trials_free(ft_trials *trials); // {0} is fine

// Ids, given on first use. The distribution is copied.
ft_status ft_trials_name(ft_trials *trials, const char *name, int *id);
ft_status ft_trials_constraint_name(ft_trials *trials, const char *name, int *id);
ft_status ft_trials_distribution(ft_trials *trials, const ft_distribution *distribution, int *id);
int ft_trials_find_name(const ft_trials *trials, const char *name); // -1 when no trial used it

// Appends a trial, RUNNING or WAITING; its number is written to *number.
ft_status ft_trials_append(ft_trials *trials, ft_trial_state state, int64_t *number);
// WAITING -> RUNNING.
ft_status ft_trials_start(ft_trials *trials, int64_t number);
// Sets or replaces.
ft_status ft_trials_set_param(ft_trials *trials, int64_t number, int name, int distribution, double value);
ft_status ft_trials_set_relative(ft_trials *trials, int64_t number, int name, int distribution, double value);
// The trial has asked for all that it needs: what else was drawn for it is no part of the history, which others read from a file.
ft_status ft_trials_forget_relative(ft_trials *trials, int64_t number);
ft_status ft_trials_set_constraint(ft_trials *trials, int64_t number, int name, double value); // NaN is refused
// A second report for a step is ignored, as Optuna does. Steps are >= 0.
ft_status ft_trials_report(ft_trials *trials, int64_t number, int64_t step, double value);
// Appends the next completed rung.
ft_status ft_trials_add_rung(ft_trials *trials, int64_t number, double value);
// RUNNING or WAITING -> COMPLETE (count = objectives, no NaN), PRUNED (count 0, or 1 with one objective) or FAIL (count
// 0).
ft_status ft_trials_finish(ft_trials *trials, int64_t number, ft_trial_state state, const double *values, int count);

// NULL when the trial has no such parameter.
const ft_trial_param *ft_trial_find_param(const ft_trial *trial, int name);
const ft_trial_param *ft_trial_find_relative(const ft_trial *trial, int name);
// Sum of the positive constraint values; 0 is feasible, and so is a trial without constraints.
double ft_trial_violation(const ft_trial *trial);

#endif
