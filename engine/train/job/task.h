// task.h - what a run predicts and makes small: from the options and the training data.
#ifndef FT_TRAIN_TASK_H
#define FT_TRAIN_TASK_H

#include "engine/train/job/job.h"

// job->task, and the outputs with their names, from the tables. FT_INVALID when there is nothing to learn, when the labels are
// no classes or no numbers, or when an option does not fit the task.
ft_status ft_task_choose(ft_job *job);
// The same without data: job->labels.count is known.
ft_status ft_task_assume(ft_job *job);
// job->loss, once the data sets have their labels (or none, without data).
ft_status ft_task_set_loss(ft_job *job);

// data.truncation; where it is auto, what the task has: the head of a text, or windows where every word is to have a tag.
const char *ft_task_truncation(const ft_config *config, const ft_task_spec *task);
// The thresholds (decision.h) before anything is judged, in `arena`; NULL: 1/2, the largest.
ft_status ft_task_thresholds(const ft_job *job, ft_arena *arena, double **thresholds);
// A threshold from text: FT_OK and *value, NaN for "auto" and "tuned". FT_INVALID else.
ft_status ft_threshold_parse(const char *text, const ft_task_spec *task, double *value);

#endif
