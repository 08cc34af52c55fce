// cast.h - y = x in another type: fp32 to bf16 or fp16, rounded to the nearest (ties to even), or back, which is exact.
//
// NaN stays NaN; what is beyond the largest fp16 number (from 65520 on) becomes infinity, as it does in PyTorch.
#ifndef FT_CAST_H
#define FT_CAST_H
#include "kernels/ops/op.h"

typedef struct ft_cast_args {
    ft_tensor x, y; // [n] each, flat; one of them fp32, the other of 16 bits
    ft_workspace workspace;
} ft_cast_args;
size_t ft_cast_workspace(const ft_target *target, const ft_cast_args *args);
ft_status ft_cast_check(const ft_target *target, const ft_cast_args *args);
#endif
