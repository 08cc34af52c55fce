// mlflow_run.h - a run directory, told to MLflow: options as params, metrics.jsonl under the Trainer's names, what
// run.json says at its end.
#ifndef FT_TRACK_MLFLOW_RUN_H
#define FT_TRACK_MLFLOW_RUN_H

#include "engine/track/feed.h"
#include "engine/track/follow.h"

// What metrics.jsonl has that is new, in as many pieces as it takes. *changed: the record is to be kept.
ft_status ft_mlflow_tell_lines(ft_mlflow *client, json_t *record, ft_feed *feed, bool *changed);
// The figures of a run.json: the test set's, times, memory planned and metered, by category; why it failed. step:
// behind all others.
ft_status ft_mlflow_figures(const json_t *run, int64_t step, int64_t time, ft_mlflow_batch *batch);
const char *ft_mlflow_status_of(const json_t *run); // "FINISHED", "FAILED", "KILLED" of a run.json; of none "KILLED"

// All of a run, once or while it goes on: the record is DIRECTORY/mlflow.json. FT_INVALID: it is no run directory.
ft_status ft_mlflow_track_run(const ft_follow *follow, const char *directory);

#endif
