// dequantise.h - y = a matrix of 8 or 4 bits a number (quantised.h), in the type that products read.
//
// nf4: y = value of the code x scale; a scale of 8 bits is value of the map x scale of its group + mean, a rounding of fp32 each.
// int8: y = (code x scale) x fp32(1 / 127). Then y is rounded to its type, to the nearest, ties to even.
#ifndef FT_DEQUANTISE_H
#define FT_DEQUANTISE_H
#include "kernels/ops/op.h"
#include "kernels/ops/quantised.h"

typedef struct ft_dequantise_args {
    ft_quantisation format;
    ft_tensor x; // uint8 [ft_quantised_layout.bytes], on 16 bytes: of a matrix of y's shape
    ft_tensor y; // [rows, cols] fp32, bf16 or fp16, rows back to back
    ft_workspace workspace;
} ft_dequantise_args;
size_t ft_dequantise_workspace(const ft_target *target, const ft_dequantise_args *args);
ft_status ft_dequantise_check(const ft_target *target, const ft_dequantise_args *args);
#endif
