// sizes.h - the sizes in which micro-batches of training come, and one of them through the model with nothing learned:
// the shapes of a run's matrix products are those of its sizes, and are measured so.
#ifndef FT_STEP_SIZES_H
#define FT_STEP_SIZES_H

#include "engine/train/step/step.h"

// A product's shape depends on the tokens of a batch, and in the head on its sequences; both with what fills it up.
typedef struct ft_batch_size {
    int64_t tokens, sequences;
    int64_t first, count; // of the order of the first epoch: the first micro-batch of this size
    int64_t times;        // in the first epoch
} ft_batch_size;

// Those of the first epoch, as they come in it; free() them. Of a step with a layout, none of whose steps is on its
// way.
ft_status ft_sizes_find(ft_step *step, ft_batch_size **sizes, size_t *count);
// The first micro-batch of that size, forward and backward; the device is waited for. Weights and moments stay,
// gradients are those of no step: the next one clears them as any does.
ft_status ft_sizes_run(ft_step *step, const ft_batch_size *size);

#endif
