// window_pooling.h - what the windows of a long text say together.
#ifndef FT_WINDOW_POOLING_H
#define FT_WINDOW_POOLING_H

#include "engine/config/config.h"

#include <stdint.h>

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

// logits [outputs] of the example that the windows are of: those of the only one as they are, else pooled.
void ft_pool_example(const ft_windows *windows, ft_pool *pool, ft_window_pooling pooling, float *logits);

#endif
