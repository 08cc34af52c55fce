// options_study.h - the options of a study, which the engine does not know: their sections are handed to whatever loads a
// configuration (engine/config/options.h), and their values lie here.
//
// "auto" for numbers is FT_AUTO (whole ones) or a NaN. Strings are never NULL ("" = not given).
#ifndef FT_OPTIONS_STUDY_H
#define FT_OPTIONS_STUDY_H

#include "engine/config/config.h"

struct ft_space;

typedef struct ft_study_options {
    const char *name, *storage; // "": the config's name; studies/NAME/study.db
    const char *objective;      // "maximize eval.accuracy, minimize seconds.total"; "": eval.metric
    const char *constraints;    // "memory.peak_reserved_bytes <= 8GiB"; "": none
    int64_t trials;             // finished ones; 0: no end
    double timeout;             // seconds; 0: none
    double reconnect;           // seconds that a server which is gone is waited for
    int64_t seed;
    const char *sampler; // tpe | auto | gp | cmaes | random | grid | quasi_random | qmc, which is the same
    const char *learn_from; // "a, studies/b, sqlite:///FILE#c"; "": nothing
    int64_t startup_trials, candidates;
    bool quasi_startup, group, constant_liar, count_failed, branch_split, branch_joint;
    const char *multivariate; // auto | on | off
    const char *bandwidth;    // auto | fine | optuna
    int64_t grid_points;
    const char *pruner; // none | median | percentile | halving | hyperband | threshold
    const char *fidelity; // steps | data | auto
    double pruner_percentile;
    int64_t pruner_startup_trials, pruner_warmup_steps, pruner_interval_steps, pruner_min_trials;
    int64_t pruner_min_resource, pruner_max_resource, pruner_reduction_factor; // FT_AUTO: the pruner's default
    int64_t pruner_min_early_stopping_rate, pruner_bootstrap_count;
    double pruner_lower, pruner_upper; // NaN: no bound
    int64_t pruner_patience;
    double pruner_min_delta;
    double target;                         // NaN: none
    int64_t no_improvement, completed;     // trials; 0: never; FT_AUTO: when nothing better is to be expected
    int64_t max_failures;                  // in a row; 0: never
    int64_t parallel;                      // workers; FT_AUTO: as many as suit the machine
    const char *share_devices;             // auto | always | never
    int64_t pack;                          // trials of a worker at a time; FT_AUTO: what pays
    int64_t devices_per_trial;             // ranks of a trial
    int64_t worker_trials;                 // after which a worker is replaced; 0: never
    int64_t max_retries;                   // of a trial that something else broke off
    double heartbeat_timeout;              // seconds without a sign of life; 0: never
    const char *memory_policy;             // fit | constrain | prune
    int64_t report_memory_over;            // bytes; 0: no list
    int64_t min_free_disk;                 // bytes; 0: by what trials have needed
    const char *keep;                      // best | top-k | all | none
    int64_t keep_count;
    int64_t keep_pruned;                   // bytes; 0: nothing is kept of pruned trials
} ft_study_options;

extern const struct ft_section ft_study_section; // [study]; its values are a ft_study_options
extern const struct ft_section ft_space_section; // [space]; keeps lines, whose meaning is space.h's business
extern const struct ft_section *const ft_study_sections[]; // both, as the program hands them over

// ft_config_load with both.
ft_status ft_study_config_load(ft_config *config, int file_count, const char *const *files, int override_count,
                               const char *const *overrides);
// [study] of a configuration that was loaded with it. Lives as long as the configuration.
const ft_study_options *ft_study_options_of(const ft_config *config);
// study.sampler, and what its auto stands for in a study that shall have many trials: these are cheap, and would wait for a Gaussian process.
// cmaes where all parameters are numbers (space.h; NULL: they are not known), of one objective and with nothing to learn from; else tpe.
enum { FT_AUTO_MANY_TRIALS = 1000 }; // and no more
const char *ft_study_sampler_name(const ft_study_options *options, const struct ft_space *space, int objectives);
// With a memory policy other than fit nothing is fitted: what is at auto becomes what the trial would like best.
void ft_study_refuse_fitting(ft_config *config);

#endif
