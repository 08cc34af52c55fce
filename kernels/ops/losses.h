// losses.h - losses other than plain softmax cross-entropy (cross_entropy.h), a row at a time, with their gradients.
//
// All: fp32 in and out, computed in double and rounded once; losses[i] is not divided by the number of rows, the gradients
// are multiplied by step->loss_factor and step->loss_scale; dlogits may alias logits and may be absent, and then step is
// not read.
//
// weighted_cross_entropy, labels y in [0, C), p = softmax(logits), w the class weights (absent: all 1):
//   gamma 0: (1 - s) w_y (-log p_y) + s / C * sum over c of w_c (-log p_c), s the smoothing, as torch.nn.CrossEntropyLoss
//            (weight, label_smoothing) sums it; its mean divides by the sum of w_y, which is loss_factor's business.
//            With a second label o and the share m of the first: m times w_y (-log p_y) plus (1 - m) w_o (-log p_o) in place of the first term.
//   gamma > 0: w_y (1 - p_y)^gamma (-log p_y), the focal loss (Lin et al. 2017); smoothing must be 0, and there is one label.
// binary_cross_entropy, targets t in [0, 1], p = sigmoid(logits), v the positive weights (absent: all 1): the mean over the
//   C labels of  t v (1 - p)^gamma (-log p) + (1 - t) p^gamma (-log(1 - p)).  gamma 0: torch.nn.BCEWithLogitsLoss(pos_weight);
//   else the focal loss, as torchvision.ops.sigmoid_focal_loss has it for targets 0 and 1.
// squared_error: the mean over the C targets of (x - t)^2; torch.nn.MSELoss.
#ifndef FT_LOSSES_H
#define FT_LOSSES_H
#include "kernels/ops/op.h"

typedef struct ft_weighted_cross_entropy_args {
    ft_tensor logits;          // [B,C]
    const int32_t *labels;     // [B], device
    const int32_t *other;      // [B], device: a second label of every row; NULL: none
    const float *share;        // [B], device, in [0, 1]: of the first one, where there are two
    ft_tensor class_weight;    // [C], optional
    float smoothing, gamma;
    const ft_step_state *step; // device
    ft_tensor losses;          // [B]
    ft_tensor dlogits;         // [B,C], optional
    ft_workspace workspace;
} ft_weighted_cross_entropy_args;
size_t ft_weighted_cross_entropy_workspace(const ft_target *target, const ft_weighted_cross_entropy_args *args);
ft_status ft_weighted_cross_entropy_check(const ft_target *target, const ft_weighted_cross_entropy_args *args);

typedef struct ft_binary_cross_entropy_args {
    ft_tensor logits;          // [B,C]
    ft_tensor targets;         // [B,C]
    ft_tensor positive_weight; // [C], optional
    float gamma;
    const ft_step_state *step; // device
    ft_tensor losses;          // [B]
    ft_tensor dlogits;         // [B,C], optional
    ft_workspace workspace;
} ft_binary_cross_entropy_args;
size_t ft_binary_cross_entropy_workspace(const ft_target *target, const ft_binary_cross_entropy_args *args);
ft_status ft_binary_cross_entropy_check(const ft_target *target, const ft_binary_cross_entropy_args *args);

typedef struct ft_squared_error_args {
    ft_tensor logits;          // [B,C]: the predictions
    ft_tensor targets;         // [B,C]
    const ft_step_state *step; // device
    ft_tensor losses;          // [B]
    ft_tensor dlogits;         // [B,C], optional
    ft_workspace workspace;
} ft_squared_error_args;
size_t ft_squared_error_workspace(const ft_target *target, const ft_squared_error_args *args);
ft_status ft_squared_error_check(const ft_target *target, const ft_squared_error_args *args);
#endif
