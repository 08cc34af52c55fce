// task.h - what a run predicts and makes small: from the options and the training data.
#ifndef FT_TRAIN_TASK_H
#define FT_TRAIN_TASK_H

#include "engine/train/trainer.h"

// t->task, and the outputs with their names, from the tables. FT_INVALID when there is nothing to learn, when the labels are
// no classes or no numbers, or when an option does not fit the task.
ft_status ft_task_choose(ft_trainer *t);
// The same without data: t->labels.count is known.
ft_status ft_task_assume(ft_trainer *t);
// t->loss, once the data sets have their labels (or none, without data).
ft_status ft_task_set_loss(ft_trainer *t);

// t->temperature and t->threshold as they are before anything is judged.
ft_status ft_task_set_decision(ft_trainer *t);
// A threshold from text: FT_OK and *value, NaN for "auto" and "tuned". FT_INVALID else.
ft_status ft_threshold_parse(const char *text, double *value);

#endif
