// loss.h - what a model is trained to make small: of classes or numbers, with weights of classes, smoothing or focus.
#ifndef FT_MODEL_LOSS_H
#define FT_MODEL_LOSS_H

#include "engine/config/config.h"

// Kernels and formulas: kernels/ops/cross_entropy.h, kernels/ops/losses.h. All zero is plain cross-entropy.
typedef struct ft_loss {
    ft_loss_choice kind;       // CROSS_ENTROPY (and AUTO): of a class each; BCE: of classes; MSE: of numbers, both targets
    float smoothing;           // CROSS_ENTROPY
    float gamma;               // of the focal loss; 0: none
    bool mixes;                // a row has two labels, the first by a share (CROSS_ENTROPY without gamma)
    const float *class_weight; // [outputs], host; NULL: all 1. Of BCE the weight of the positive examples
} ft_loss;

#endif
