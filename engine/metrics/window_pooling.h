// window_pooling.h - what the windows of a long text say together.
#ifndef FT_WINDOW_POOLING_H
#define FT_WINDOW_POOLING_H

#include "engine/config/config.h"
#include "engine/data/dataset.h"

// The windows of one text.
typedef struct ft_windows {
    const float *logits; // [count, outputs]
    int64_t count;
    int outputs;
} ft_windows;

// What output k of all of them comes to: a logit again, so that whatever is done with logits is done with it. Computed in double
// from logarithms of probabilities, so that none underflows.
typedef double ft_pool(const ft_windows *windows, ft_window_pooling pooling, int k);

// MEAN (and AUTO): softmax(logits) is the mean of the windows' softmax. MAX: it is the largest probability of every class over the
// windows, divided by the sum of these.
ft_pool ft_pool_softmax;
// sigmoid(logits) is the mean of the windows' sigmoids, or the largest of each.
ft_pool ft_pool_sigmoids;
// The mean value, or the largest.
ft_pool ft_pool_numbers;

// windows [sequences, outputs]: logits of every sequence. logits [examples, outputs]: those of an example with one sequence as
// they are, else pooled.
void ft_pool_windows(const ft_dataset *data, ft_pool *pool, int outputs, ft_window_pooling pooling, const float *windows,
                     float *logits);

#endif
