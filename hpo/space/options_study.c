// options_study.c - [study], how `ftengine tune` searches, and [space], what; for engine/config, which knows neither.
#define FT_ROWS_OF ft_study_values
#define FT_ROWS_IN ft_study_section
#include "hpo/space/options_study.h"
#include "hpo/space/space.h"

#include "engine/config/option_rows.h"

#include <math.h>
#include <string.h>

// The fields are called as the options are: study.trials.
typedef struct ft_study_values {
    ft_study_options study;
} ft_study_values;

static const ft_option_choice sampler_choices[] = {
    {"tpe", 0},    {"auto", 0}, {"gp", 0},           {"cmaes", 0},
    {"random", 0}, {"grid", 0}, {"quasi_random", 0}, {"qmc", 0}, {NULL, 0}};
static const ft_option_choice bandwidth_choices[] = {{"auto", 0}, {"fine", 0}, {"optuna", 0}, {NULL, 0}};
static const ft_option_choice multivariate_choices[] = {{"auto", 0}, {"on", 0}, {"off", 0}, {NULL, 0}};
static const ft_option_choice pruner_choices[] = {{"none", 0},    {"median", 0},    {"percentile", 0},
                                                  {"halving", 0}, {"hyperband", 0}, {"threshold", 0},
                                                  {"wilcoxon", 0}, {"freeze_thaw", 0}, {NULL, 0}};
static const ft_option_choice fidelity_choices[] = {{"steps", 0}, {"data", 0}, {"auto", 0}, {NULL, 0}};
static const ft_option_choice memory_policy_choices[] = {{"fit", 0}, {"constrain", 0}, {"prune", 0}, {NULL, 0}};
static const ft_option_choice share_choices[] = {{"auto", 0}, {"always", 0}, {"never", 0}, {NULL, 0}};
static const ft_option_choice keep_choices[] = {{"best", 0}, {"top-k", 0}, {"all", 0}, {"none", 0}, {NULL, 0}};

static const ft_option rows[] = {
    STRING(study.name, FREE, "", .elsewhere = "study_name",
           .help = "Name of the study and of its directory in studies/. Empty: the configuration file's."),
    PATH(study.storage, FREE, "", .scheme = "sqlite:///", .elsewhere = "storage_url",
         .help = "Where trials are kept: sqlite:///FILE, journal:FILE (Optuna's journal, for network disks), or "
                 "postgresql://USER@HOST/DATABASE, which "
                 "several machines share. Empty: study.db in the study's directory."),
    DURATION(study.reconnect, FREE, "1h", 0, 1e9,
             .help =
                 "How long a database server that is gone is waited for; trials that run are saved after a minute."),
    STRING(study.objective, FIXED, "", .elsewhere = "directions direction metric_name",
           .help =
               "What is looked for: maximize or minimize, then eval.METRIC, test.METRIC, train.loss, seconds.total, "
               "seconds.train, tokens_per_second, memory.peak_reserved_bytes or the like; several are separated by "
               "commas. Empty: the best eval.metric."),
    STRING(
        study.constraints, FIXED, "",
        .help =
            "What a trial must keep to be the best one, as memory.peak_reserved_bytes <= 8GiB, seconds.total <= 10m; "
            "TPE learns to stay within."),
    INT(study.trials, FREE, "30", 0, ANY, .unit = "trials", .elsewhere = "n_trials num_trials max_trials max_evals",
        .help = "Finished trials (complete, pruned and failed) at which the study ends, whoever ran them. 0: it has no "
                "end."),
    DURATION(study.timeout, FREE, "0", 0, 1e9, .elsewhere = "max_time time_budget_s",
             .help = "Stops after so long; the running trial is saved and goes on the next time. 0: no limit."),
    INT(study.seed, FREE, "42", 0, 4294967295, .elsewhere = "sampler_seed",
        .help = "Seed of the search. The same seed gives the same trials, also after a kill and a resume."),
    NAME(study.sampler, FREE, "auto", sampler_choices, .elsewhere = "search_algorithm search_alg",
         .help = "Who chooses the next values. gp: a Gaussian process, for one objective; it learns from failed and "
                 "diverged trials where not to look. cmaes: CMA-ES, for one objective and many trials; choices are tpe's. "
                 "auto: gp for up to 250 trials of up to 20 parameters and one objective, else tpe; in studies of more than 1,000 trials "
                 "cmaes where all parameters are numbers, else tpe; with pruner = freeze_thaw: where the trials around let most expect, paused ones too. "
                 "grid tries every combination once. qmc is quasi_random."),
    STRING(study.learn_from, FREE, "", .files = ".jsonl .jsonl.gz", .elsewhere = "warm_start prior_studies",
           .help = "What to learn from, several separated by commas: studies of the same space (other data, other models) by "
                   "name, directory, or sqlite:///FILE#NAME and the like; and exported ones, FILE.jsonl or FILE.jsonl.gz, of "
                   "which what this study searches too is used; configs/priors has some. gp, auto and tpe. They count as "
                   "much as they rank the trials of this study right; the configuration's own values are tried first. "
                   "What was learnt is fixed when the study is made. Empty: none."),
    INT(study.startup_trials, FREE, "10", 0, 1 << 30, .unit = "trials",
        .elsewhere = "n_startup_trials n_initial_points",
        .help = "Trials that ended before the search begins. tpe: until then values are random, and failed ones count where "
                "study.count_failed says so. gp and cmaes: until then values are quasi-random; gp with learn_from: half as many more."),
    BOOL(study.quasi_startup, FREE, "false",
         .help = "Spread the first trials evenly (quasi-random) instead of at random."),
    INT(study.candidates, FREE, "24", 1, 1 << 20, .elsewhere = "n_ei_candidates",
        .help = "Points that TPE draws, of which it takes the most promising one."),
    NAME(study.multivariate, FREE, "auto", multivariate_choices,
         .help = "Whether TPE draws parameters together. auto: with one objective."),
    BOOL(study.group, FREE, "false", .elsewhere = "group_decomposed",
         .help = "Draw together what always came together, for spaces with conditions."),
    BOOL(study.constant_liar, FREE, "true", .help = "Count running trials as bad ones, so that no two try the same."),
    BOOL(study.count_failed, FREE, "true",
         .help = "TPE counts failed and diverged trials as the worst ones, so that few are tried where others failed. false: "
                 "it forgets them, as Optuna does. gp and cmaes always learn from them."),
    BOOL(study.branch_split, FREE, "true",
         .help = "Tell good trials from others among those that have a parameter, so that a rare branch of the space "
                 "learns from its own trials. false: among all trials, as Optuna does."),
    BOOL(study.branch_joint, FREE, "true",
         .help = "Draw what only some trials have together with what always comes with it, to go with the values that "
                 "the trial has already. false: each alone, as Optuna does."),
    NAME(study.bandwidth, FREE, "auto", bandwidth_choices,
         .help = "How near to good trials the next one may be. fine: the more trials, the nearer; of more than 2,048 "
                 "that are not good it looks at every second, fourth ... one. optuna: never nearer than about a 27th of a "
                 "range; it looks at all. auto: fine with one objective."),
    INT(study.grid_points, FREE, "5", 2, 1 << 20, .unit = "values",
        .help = "Values of a float without a step in a grid, evenly spaced (in logarithms where it is log)."),
    NAME(study.pruner, FREE, "none", pruner_choices,
         .help = "Who stops trials that will not become good, judging by the objective at every evaluation. wilcoxon: "
                 "by the "
                 "runs of data.folds or train.seeds, each held against the same one of the best trial; stops what a "
                 "signed-rank test finds worse with p < 0.1, which takes four runs. freeze_thaw pauses trials instead: after each "
                 "evaluation the one goes on, or begins, whose next evaluation is worth most for the seconds that it is "
                 "predicted to take; what will hardly become the best one is pruned when study.trials have begun."),
    NAME(study.fidelity, FREE, "steps", fidelity_choices,
         .help = "What the pruner sees of a trial before its end. steps: the evaluations of one training. data: whole trainings, each with its "
                 "complete schedule, on a ninth, a third and all of the training texts (by study.pruner_reduction_factor, 3 if it is auto, or the "
                 "shares in data.shares); every trial has the same texts. A trial that is pruned has paid for a ninth, one that is not for all "
                 "of them, 1.44 times the whole. Reports are at 1, 3 and 9 ninths, in which the pruner's options count too. auto: steps, for data "
                 "ranked trials no better where it was measured."),
    FLOAT(study.pruner_percentile, FREE, "50", 0, 100,
          .help = "percentile: how many of a hundred completed trials count as good at an evaluation."),
    INT(study.pruner_startup_trials, FREE, "5", 0, 1 << 30, .unit = "trials",
        .help = "median, percentile: completed trials before it begins."),
    INT(study.pruner_warmup_steps, FREE, "0", 0, ANY, .unit = "optimizer steps", .elsewhere = "n_warmup_steps",
        .help = "median, percentile, threshold: no trial is stopped before."),
    INT(study.pruner_interval_steps, FREE, "1", 1, ANY, .unit = "optimizer steps",
        .help = "median, percentile, threshold: steps between two looks at a trial."),
    INT(study.pruner_min_trials, FREE, "1", 1, 1 << 30, .unit = "trials", .elsewhere = "n_min_trials",
        .help = "median, percentile: completed trials that must have a value at a step."),
    INT(study.pruner_min_resource, FREE, "auto", 1, ANY, .automatic = true, .unit = "optimizer steps",
        .elsewhere = "min_resource grace_period",
        .help = "halving, hyperband: the first rung. auto: a hundredth of the longest trial (halving), 1 (hyperband, and with fidelity = data)."),
    INT(study.pruner_max_resource, FREE, "auto", 1, ANY, .automatic = true, .unit = "optimizer steps",
        .elsewhere = "max_resource", .help = "hyperband: the last rung. auto: the longest completed trial."),
    INT(study.pruner_reduction_factor, FREE, "auto", 2, 1 << 20, .automatic = true, .elsewhere = "reduction_factor",
        .help = "halving, hyperband: one trial of so many goes on at a rung. auto: 4 (halving), 3 (hyperband, and with fidelity = data)."),
    INT(study.pruner_min_early_stopping_rate, FREE, "0", 0, 1024, .elsewhere = "min_early_stopping_rate",
        .help = "halving: so many rungs are left out at the beginning."),
    INT(study.pruner_bootstrap_count, FREE, "0", 0, 1 << 30, .unit = "trials", .elsewhere = "bootstrap_count",
        .help = "halving, hyperband: a rung promotes nobody before more trials than that reached it."),
    FLOAT(study.pruner_lower, FREE, "auto", -INFINITY, INFINITY, .automatic = true,
          .help = "threshold: below this value a trial is stopped. auto: never."),
    FLOAT(study.pruner_upper, FREE, "auto", -INFINITY, INFINITY, .automatic = true,
          .help = "threshold: above this value a trial is stopped. auto: never."),
    INT(study.pruner_patience, FREE, "0", 0, 1 << 30, .unit = "evaluations",
        .help = "The pruner is asked only about trials without improvement for so many evaluations; with pruner = none "
                "those are stopped. 0: it is always asked."),
    FLOAT(study.pruner_min_delta, FREE, "0", 0, INFINITY, .help = "A change up to this is no improvement."),
    FLOAT(study.target, FREE, "auto", -INFINITY, INFINITY, .automatic = true, .elsewhere = "target_value stop_at_value",
          .help = "Ends the study when a trial is as good as this in the first objective. auto: never."),
    INT(study.no_improvement, FREE, "0", 0, 1 << 30, .automatic = true, .unit = "trials", .elsewhere = "early_stopping_trials",
        .help = "Ends the study after so many finished trials without a new best one. 0: never. auto: when a Gaussian process "
                "of the trials believes with 95% that no point of the space is better than the best trial by more than noise, "
                "or by a hundredth of what the best gains on a middling one; from 20 trials on, with one objective. "
                "`ftengine study show` tells the probability."),
    INT(study.completed, FREE, "0", 0, 1 << 30, .unit = "trials", .elsewhere = "max_completed",
        .help = "Ends the study at so many completed trials, pruned and failed ones not counted. 0: never."),
    INT(study.max_failures, FREE, "5", 0, 1 << 30, .unit = "trials",
        .help = "Gives up after so many failures in a row; running out of memory and diverging are results, and not "
                "counted. 0: never."),
    INT(study.parallel, FREE, "1", 1, 256, .automatic = true, .unit = "trials", .elsewhere = "n_jobs max_concurrent",
        .help = "Trials that run at the same time, each in a worker process of its own (or several, study.pack); with "
                "device.threads = 0 they "
                "share the cores. auto: one a core, at most 8, and at least one for each set of GPUs "
                "(study.devices_per_trial). Fewer where the memory of so many processes is not "
                "there beside the "
                "coordinator's, which plans of the space tell before the first trial."),
    INT(study.pack, FREE, "1", 1, 256, .automatic = true, .unit = "trials", .elsewhere = "trials_per_worker share_trunk",
        .help = "How many of the trials that run at the same time share a worker process and one copy of a frozen "
                "model: of a study of adapters whose "
                "trials differ in what is trained (adapter.*), learning rates, seeds, batches and the like. The model "
                "is in memory once, and their "
                "micro-batches go through its weights together. On the CPU results are those of trials that run alone, to the "
                "bit; on a GPU they do not depend on who is beside a trial, and agree with those of one alone up to "
                "rounding. A worker "
                "that is killed costs each of its trials one retry. Trials that cannot share a model run in turn. At "
                "least so many run at the same time, whatever study.parallel is. "
                "auto: all of study.parallel where there is no memory for as many processes or copies of the model, or where a plan "
                "predicts at least 20% less time; else 1."),
    NAME(study.share_devices, FREE, "auto", share_choices,
         .help = "Whether trials that run at the same time may be on one device. auto: one more comes to a GPU, or to the "
                 "cores of a CPU, only where that is predicted to do more than a tenth of a trial more in the time of one, by what "
                 "steps keep busy of arithmetic, memory, link and cores; until then it waits with its memory planned. "
                 "always: wherever there is memory for it. never: one trial a device. Trials of a pack (study.pack) are one. "
                 "What was predicted and seen is in `ftengine study show` and on the study's page."),
    INT(study.devices_per_trial, FREE, "1", 1, 64, .unit = "devices", .elsewhere = "gpus_per_trial resources_per_trial",
        .help = "How many devices train a trial together, as a run with so many in device.name: 2 with "
                "device.name=cpu is two processes that divide the threads of the trial's worker, with the results of "
                "one device, to the bit. Of the GPUs in device.name (cuda:0,cuda:1,cuda:2,cuda:3 or cuda:all) each "
                "trial takes so many, one set after the other, and has the results of ftengine train on as many. Not "
                "with study.pack, several seeds or folds, train.deadline, models of pictures, heads alone on frozen "
                "models, and on the CPU memory.offload."),
    INT(study.worker_trials, FREE, "0", 0, 1 << 30, .unit = "trials",
        .elsewhere = "max_tasks_per_child maxtasksperchild",
        .help = "A worker process that has run so many trials is replaced by a new one: 50 is a usual figure where "
                "memory is feared that "
                "libraries and drivers never give back. No result changes; one with study.pack above 1 stays. 0: it "
                "stays as long as it is sound."),
    INT(study.max_retries, FREE, "2", 0, 1 << 20, .unit = "times", .elsewhere = "max_retry",
        .help =
            "How often a trial goes on from its checkpoint after its worker was killed, crashed or hung, or a file or "
            "the device failed. A full disk costs none: the trial waits for room. One that diverged or ran out of "
            "memory is "
            "never tried again."),
    DURATION(study.heartbeat_timeout, FREE, "10m", 0, 1e9, .elsewhere = "heartbeat_interval worker_timeout",
             .help =
                 "A worker without a sign of life for so long (no micro-batch, no evaluation, no step) hangs, and is "
                 "replaced. 0: never."),
    NAME(study.memory_policy, FREE, "fit", memory_policy_choices,
         .help =
             "What to do about a trial whose planned memory is more than memory.limit. fit: what is at auto is chosen "
             "so that it fits, with the batch of the trial as it is. constrain: it is not run, and the excess is a "
             "constraint that TPE learns from. prune: it is not run, and counts as pruned. With "
             "these two and activations in memory.offload, train.gradient_checkpointing=auto is on wherever the trial "
             "runs."),
    SIZE(study.report_memory_over, FREE, "auto", 1, 1LL << 50, .automatic = true,
         .elsewhere = "memory_threshold report_threshold_gb",
         .help = "At the end, list the trials whose peak of reserved memory was above this, as 8GiB. auto: no list."),
    SIZE(study.min_free_disk, FREE, "auto", 1, 1LL << 50, .automatic = true, .elsewhere = "min_disk_space",
         .help = "The study pauses while less is free on its disk, as 10GiB. auto: twice what the largest trial has "
                 "left there, "
                 "for each that runs and one more. It pauses too after a trial that found the disk full: until clearly "
                 "more is free, or "
                 "for 1 second, and twice as long each time, up to 10 minutes."),
    NAME(study.keep, FREE, "best", keep_choices,
         .help = "Of which trials model and checkpoint stay on disk; logs and figures stay of all."),
    INT(study.keep_count, FREE, "3", 1, 1 << 30, .unit = "trials", .help = "k of study.keep = top-k."),
    SIZE(study.keep_pruned, FREE, "auto", 1, 1LL << 50, .automatic = true,
         .help = "Checkpoints of trials that were pruned or came to their end may take so much of the disk, as 20GiB: `ftengine study "
                 "thaw STUDY N` goes on with such a trial from its last step, with --epochs to more than it had. Beyond, those of the "
                 "worst trials go first, of equal ones the oldest; what study.keep keeps stays, and does not count. auto: none is kept. "
                 "With pruner = freeze_thaw: those of paused trials, and the worst is pruned beyond it; "
                 "auto: 20GiB."),
};
const ft_section ft_study_section = {.name = "study",
                                     .help = "How `ftengine tune` searches; everything else passes this section over.",
                                     .about = "searches",
                                     .rows = rows,
                                     .count = ROWS,
                                     .size = sizeof(ft_study_values)};
const ft_section ft_space_section = {
    .name = "space",
    .help = "What `ftengine tune` searches: any option, as float(LOW, HIGH), float(LOW, HIGH, log), float(LOW, HIGH, step=S), "
            "int(LOW, HIGH), int(LOW, HIGH, log), int(LOW, HIGH, step=S), choice(A, B, ...) with lists as [512, 256], or a "
            "value that is the same in every trial. Behind it may stand a condition: if train.batch_size < 32 and "
            "model.path in (bert-large-uncased, roberta-large), with =, !=, <, <=, >, >=, in and not in; an option may have "
            "several lines with conditions, of which the first that holds counts. An empty value takes an option of an "
            "earlier file out again. Example: train.learning_rate = float(1e-6, 1e-4, log).",
    .about = "searches",
    .lines = true};
const ft_section *const ft_study_sections[] = {&ft_study_section, &ft_space_section, NULL};

const ft_study_options *ft_study_options_of(const ft_config *config) {
    return &((const ft_study_values *)ft_config_values(config, &ft_study_section))->study;
}

ft_status ft_study_config_load(ft_config *config, int file_count, const char *const *files, int override_count,
                               const char *const *overrides) {
    return ft_config_load_with(ft_study_sections, config, file_count, files, override_count, overrides);
}

const char *ft_study_sampler_name(const ft_study_options *o, const ft_space *space, int objectives) {
    if (strcmp(o->sampler, "qmc") == 0) return "quasi_random";
    if (strcmp(o->sampler, "auto") != 0 || strcmp(o->pruner, "freeze_thaw") == 0 || o->trials <= FT_AUTO_MANY_TRIALS) return o->sampler;
    return space != NULL && objectives == 1 && o->learn_from[0] == '\0' && ft_space_is_numbers(space) ? "cmaes" : "tpe";
}

void ft_study_refuse_fitting(ft_config *c) {
    if (c->train.micro_batch == FT_AUTO && c->train.micro_batch_tokens == FT_AUTO)
        c->train.micro_batch = c->train.batch_size * c->train.gradient_accumulation_steps;
    if (c->train.gradient_checkpointing == FT_AUTO) // which activations on the host would be without (memory.offload)
        c->train.gradient_checkpointing = (c->memory.offload & FT_OFFLOAD_ACTIVATIONS) != 0 ? 1 : 0;
    if (c->memory.recompute_activation == FT_RECOMPUTE_AUTO && !ft_precision_is_half(c->train.precision))
        c->memory.recompute_activation = FT_RECOMPUTE_FALSE;
    if (c->memory.recompute_layernorm == FT_RECOMPUTE_AUTO) c->memory.recompute_layernorm = FT_RECOMPUTE_FALSE;
    if (c->memory.offload == FT_OFFLOAD_AUTO) c->memory.offload = FT_OFFLOAD_NONE;
}
