// predict.h - a model over a whole data set: logits and losses on the host.
#ifndef FT_PREDICT_H
#define FT_PREDICT_H

#include "engine/config/config.h"
#include "engine/tasks/tasks.h"
#include "engine/train/step/pass.h"

// One micro-batch of that size, whatever the device computes.
ft_status ft_predict_rehearse(ft_model *model, ft_capacity capacity);

// Logits of every example, or of every row that is read where those have labels of their own, put into `logits` (which is rewound) as they
// come, in order; an example in several windows has what they
// come to (window_pooling.h). Tensors have the size of `capacity`, which is at least ft_eval_capacity(data, limits): that of training
// lets an evaluation live in the arena of a step. losses (optional): [ft_dataset_rows] the plain loss of the task against the data
// set's labels. Sequences are taken in order in micro-batches of at most `limits`; logits do not depend on how.
// progress is optional.
ft_status ft_predict_dataset(ft_model *model, const ft_task_spec *task, const ft_dataset *data, ft_batch_limits limits,
                             ft_capacity capacity, ft_window_pooling pooling, ft_logits *logits, float *losses,
                             ft_predict_progress progress, void *context);
// Bytes of the host that a pass takes while it goes on: logits on their way, and those of the windows of one text.
size_t ft_predict_host_bytes(const ft_dataset *data, int outputs, ft_capacity capacity);
// Bytes of the host that an evaluation of the data set takes in all: the pass, the logits, the losses and the figures.
size_t ft_evaluation_host_bytes(const ft_task_spec *task, const ft_dataset *data, int outputs, ft_capacity capacity);

#endif
