// span_cross_entropy.h - softmax cross-entropy along the rows of every sequence, a column at a time: which row of a sequence is the one that
// is looked for (the first row of an answer, and the last).
//
// A column c of sequence s has the row r of it whose marks[r] has bit c; of several the first one. With C columns
//     losses[r] = 1/C * the sum, over the columns whose row r is, of (log sum_t exp(logits[t,c]) - logits[r,c]), t over the rows of s; else 0
//     dlogits[t,c] = (softmax over s of column c at t - [t is the column's row]) / C * step->loss_factor * step->loss_scale
// A column that has no row in a sequence has no loss there, and gradients of 0. dlogits may alias logits. fp32 throughout, in every precision.
#ifndef FT_SPAN_CROSS_ENTROPY_H
#define FT_SPAN_CROSS_ENTROPY_H
#include "kernels/ops/op.h"

typedef struct ft_span_cross_entropy_args {
    ft_tensor logits;           // [B,C], C <= 31
    int32_t sequences;
    const int32_t *cu_rows;     // [sequences + 1] device: their rows, which are all B
    const int32_t *marks;       // [B] device
    const ft_step_state *step;  // device
    ft_tensor losses;           // [B] fp32
    ft_tensor dlogits;          // [B,C], optional
    ft_workspace workspace;
} ft_span_cross_entropy_args;
size_t ft_span_cross_entropy_workspace(const ft_target *target, const ft_span_cross_entropy_args *args);
ft_status ft_span_cross_entropy_check(const ft_target *target, const ft_span_cross_entropy_args *args);
#endif
