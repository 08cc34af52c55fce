// decay.h - the weight decay of many steps at once, of parameters whose gradient was zero in all of them:
//
//   x[i] = x[i] factors[0] factors[1] ... factors[count - 1], from the left, every product rounded to fp32
//
// which is what adamw.h leaves of a parameter whose moments are zero, to the bit (it subtracts an exact 0), if factors are
// the ft_adamw_keep of the steps that were not skipped.
#ifndef FT_DECAY_H
#define FT_DECAY_H
#include "kernels/ops/op.h"

typedef struct ft_decay_args {
    ft_tensor parameter;  // [n] fp32, flat
    const float *factors; // [count], device
    int64_t count;
    ft_workspace workspace;
} ft_decay_args;
size_t ft_decay_workspace(const ft_target *target, const ft_decay_args *args);
ft_status ft_decay_check(const ft_target *target, const ft_decay_args *args);
#endif
