// repeat.h - one configuration trained several times: a run for each of train.seeds and data.folds, or of data.shares, and what they come to.
//
// The runs are ordinary ones in directories of their own inside the run directory (seed-1, fold-2, fold-2-seed-1), each with
// a config.ini that runs again as it is. Beside them:
//     run.json          as of a single run, with means over the runs as metrics, their sample standard deviations (n - 1) as
//                       metrics_sd, sums of steps, tokens and seconds, the memory of the run that took most, and `runs`
//     metrics.jsonl     a line when a run has ended: `step` is how many have, evaluations are the means so far
//     predictions.jsonl every example once, with the mean probabilities (or values) of the runs that judged it; id: the row
//                       of the file, from 0. Of folds these are out of fold: from models that were not trained on it.
//                       Decided by the largest mean, several labels by 0.5: thresholds that were tuned are of one model. Words and
//                       answers: join.h. Documents have places by their means, queries numbers of their own
// Of data.shares (share-9, share-3, share-1) no means are taken: metrics and predictions are those of the last run, on all texts, and a
// line of metrics.jsonl has the evaluations of its run, with `step` in parts of the smallest share's size: 1, 3, 9. In a trial of a study a
// smaller share leaves no model and no checkpoint once it has ended.
// Whoever reads run directories (studies, compare, report) need not know.
#ifndef FT_REPEAT_H
#define FT_REPEAT_H

#include "base/log_copy.h"
#include "engine/memory/memory.h"
#include "engine/train/train.h"

#include <jansson.h>

// ft_train() once, or for every fold and seed, or share: all are planned before the first, so that what will not fit is refused then. Stops at the first run that does not end well, with its status; with
// output.exists = resume it goes on there. In a trial of a study (observer.taken) each run is on the disk before the next.
ft_status ft_train_all(const ft_config *config, ft_memory_refusal *refusal);

// The directories of the runs inside a run directory, by fold and seed, shares from the smallest; count 0: it is a single run, or none.
ft_status ft_repeat_members(const char *dir, ft_arena *arena, const char ***members, int *count);
// Those whose models it stands for: of shares the last one, on all texts; FT_INVALID where that has none yet.
ft_status ft_repeat_models(const char *dir, ft_arena *arena, const char ***members, int *count);
// Is a member, by its directory, a run on a share of the texts, and of which (1: of all of them)?
bool ft_repeat_is_share(const char *member, int64_t *one_in);

// ---- internal -------------------------------------------------------------------------------------------------------------
typedef struct ft_repeat_run {
    const char *name, *dir;
    int64_t fold, seed; // fold 0: not of a fold
    int64_t share;      // 0: not of a share
    json_t *json;       // what is kept of its run.json (ft_repeat_load); NULL: it did not get that far
} ft_repeat_run;

typedef struct ft_repeat {
    const ft_config *config;
    const char *dir;
    int lock;
    ft_log_copy *log;    // train.log, with the lines of all runs
    char *before;        // [before_length] config.ini as it was found, NULL: there was none
    size_t before_length;
    ft_repeat_run *runs; // [count]
    int count, done;     // those in front have ended well
    ft_arena arena;
} ft_repeat;

// files.c; predictions.c
// What is needed of a run's run.json, to be given back.
ft_status ft_repeat_load(const char *path, json_t **json);
ft_status ft_repeat_write_metrics(ft_repeat *r);
ft_status ft_repeat_write_predictions(ft_repeat *r);
ft_status ft_repeat_write_json(ft_repeat *r, ft_status outcome);
// The first of the first `runs` runs whose figures make theirs: of shares the last one is alone.
int ft_repeat_first(const ft_repeat *r, int runs);
// Mean and sample standard deviation of a metric over the runs that are done; false when one of them lacks it. sd is NaN
// for one run.
bool ft_repeat_mean(const ft_repeat *r, const char *metric, double *mean, double *sd);

#endif
