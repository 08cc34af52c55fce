// mlflow_study.h - a study told to MLflow: a run of its own, and a run nested in it for every trial.
//
//     study   name; metrics completed_trials, pruned_trials, failed_trials, oom_trials, best_value by finished trials;
//     best.ini trial   "trial 7"; the drawn values as params, metrics.jsonl, at its end its objectives and figures as
//     metrics, what is known of an
//             error as tags (error_message, oom_error, error_traceback); FINISHED, also when it was pruned (tag
//             pruned), FAILED, KILLED
#ifndef FT_HPO_MLFLOW_STUDY_H
#define FT_HPO_MLFLOW_STUDY_H

#include "engine/track/follow.h"
#include "hpo/storage/locate.h"

// All of a study, once or while it goes on; what was told is in DIRECTORY/mlflow.json.
ft_status ft_mlflow_track_study(const ft_follow *follow, const ft_study_place *place);

#endif
