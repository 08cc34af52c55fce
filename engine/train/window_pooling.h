// window_pooling.h - what the windows of a long text say together.
#ifndef FT_WINDOW_POOLING_H
#define FT_WINDOW_POOLING_H

#include "engine/config/config.h"
#include "engine/data/dataset.h"

// windows [sequences, outputs]: logits of every sequence. logits [examples, outputs]: those of an example with one sequence as
// they are; else numbers whose probabilities are the pooled ones, so that whatever is done with logits is done with them:
//   MEAN (and AUTO)  softmax(logits) is the mean of the windows' softmax, sigmoid(logits) that of their sigmoids; of a
//                    regression the mean value
//   MAX              softmax(logits) is the largest probability of every class over the windows, divided by the sum of these;
//                    sigmoid(logits) the largest of each; of a regression the largest value
// task: not AUTO. Computed in double from logarithms of probabilities, so that none underflows.
void ft_pool_windows(const ft_dataset *data, ft_task task, int outputs, ft_window_pooling pooling, const float *windows,
                     float *logits);

#endif
