// sampler.h - what value a parameter takes next: one interface over TPE, a Gaussian process, CMA-ES, random,
// grid and quasi-random search.
//
// The study asks for each parameter when the trial needs it, so spaces may have conditions. The answer is, in this
// order: the value the trial already has; the only value of a single distribution; the value drawn jointly for this
// trial, if it lies in the range asked for; a value drawn for this parameter alone. The study stores it
// (ft_trials_set_param) before the next question. Fixed values of enqueued trials are the study's: it does not ask for
// them.
//
// A suggestion is a function of seed, trial number, names and history (with branch_joint also of the values that the
// trial has by then): a killed and resumed study repeats bit for bit. To the history belongs what a running trial has drawn and may
// still ask for: one that has asked for all forgets it (ft_trials_forget_relative), or whoever reads the study from a file suggests otherwise.
#ifndef FT_HPO_SAMPLER_H
#define FT_HPO_SAMPLER_H

#include "hpo/search/gp/gp.h"
#include "hpo/search/grid.h"
#include "hpo/search/history/trials.h"

typedef enum ft_sampler_kind {
    FT_SAMPLER_TPE,
    FT_SAMPLER_RANDOM,
    FT_SAMPLER_GRID,
    FT_SAMPLER_QUASI_RANDOM,
    FT_SAMPLER_GP,
    FT_SAMPLER_AUTO, // GP for few trials of few parameters and one objective, else TPE
    FT_SAMPLER_CMAES // the numbers that every trial has; others by TPE
} ft_sampler_kind;
typedef enum ft_switch { FT_SWITCH_AUTO, FT_SWITCH_ON, FT_SWITCH_OFF } ft_switch;

typedef struct ft_sampler_options {
    ft_sampler_kind kind;
    uint64_t seed;
    // TPE
    int startup_trials; // COMPLETE + PRUNED ones before TPE begins, and FAIL ones where they count
    bool quasi_startup; // they are quasi-random, not random
    int candidates;
    ft_switch multivariate; // AUTO: on for one objective
    bool group;             // joint within the parts of a conditional space; switches multivariate on
    ft_switch fine;         // narrower kernels, see tpe.h; AUTO: for one objective. OFF = Optuna
    bool constant_liar;     // running trials of others count as bad
    bool failed;            // failed ones count as the worst, also among startup_trials. Off = Optuna: they are forgotten
    bool branch_split;      // see tpe.h; off = Optuna
    bool branch_joint;      // what a joint sample leaves out is drawn with all that always comes with it, to go with
                            // the values that the trial has; multivariate only. Off = Optuna: each alone
    bool plain;             // nothing kept from trial to trial: slow, the same answers
    // GP and CMA-ES, and what AUTO begins with: startup_trials (ended ones, failed ones among them, and quasi-random always; with
    // lessons half as many more) and
    // constant_liar (running trials of others count)
    ft_gp_options gp;
    bool long_cmaes; // AUTO goes on by CMA-ES where all parameters are numbers: for comparison, not shown to be better
    // TPE, GP, AUTO of one objective: what other studies have found (gp/lessons.h; adopt.h says how it is used). It must
    // outlive the sampler. NULL: nothing
    const ft_lessons *lessons;
    // GRID only
    const ft_grid_axis *axes;
    int axis_count;
} ft_sampler_options;

ft_sampler_options ft_sampler_defaults(void); // Optuna 5's TPE: 10 start-up trials, 24 candidates, constant liar

// AUTO is GP up to so many ended trials and so many names of parameters, then TPE (what it is in long studies says space/options_study.h). Beyond, a suggestion
// would take longer than it is better. What comes then begins from all of these.
enum { FT_AUTO_GP_TRIALS = 250, FT_AUTO_GP_PARAMETERS = 20 };

typedef struct ft_sampler ft_sampler;
// The trials must outlive the sampler. It interns names and distributions and sets `relative` of the trial it draws
// for.
ft_status ft_sampler_new(const ft_sampler_options *options, ft_trials *trials, ft_sampler **out);
void ft_sampler_free(ft_sampler *sampler); // NULL is fine

ft_status ft_sampler_suggest(ft_sampler *sampler, int64_t number, const char *name, const ft_distribution *distribution,
                             double *value);

// What is drawn jointly for the trial, made once: its `relative`. ft_sampler_suggest does it by itself, at the first question.
ft_status ft_sampler_draw(ft_sampler *sampler, int64_t number);

// GRID: how many points no trial has taken yet; ask before a trial is started. 2^62 for the others, which never end.
ft_status ft_sampler_left(ft_sampler *sampler, int64_t *left);

// The value that a uniform number in [0, 1) stands for; equal parts of the range (of its logarithm) get equal chances.
double ft_value_of_uniform(const ft_distribution *distribution, double uniform);
// Element `index` (from 0) of a permuted Halton sequence for the name; `dimension` numbers the parameters from 0.
double ft_halton(uint64_t seed, const char *name, int dimension, int64_t index);

#endif
