// cross_entropy.h - softmax cross-entropy over rows of logits.
//
// losses[i] = log sum_c exp(logits[i,c]) - logits[i, labels[i]]  (not divided);
// dlogits[i,c] = (softmax(logits[i])_c - [c == labels[i]]) * step->loss_factor * step->loss_scale, which may alias logits.
// Labels lie in [0, C). fp32 throughout, in every precision.
#ifndef FT_CROSS_ENTROPY_H
#define FT_CROSS_ENTROPY_H
#include "kernels/ops/op.h"

typedef struct ft_cross_entropy_args {
    ft_tensor logits;              // [B,C]
    const int32_t *labels;         // [B], device
    const ft_step_state *step;     // device
    ft_tensor losses;              // [B] fp32
    ft_tensor dlogits;             // [B,C], optional
    ft_workspace workspace;
} ft_cross_entropy_args;
size_t ft_cross_entropy_workspace(const ft_target *target, const ft_cross_entropy_args *args);
ft_status ft_cross_entropy_check(const ft_target *target, const ft_cross_entropy_args *args);
#endif
