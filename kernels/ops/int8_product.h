// int8_product.h - Y = X W^T (+ bias) with numbers of 8 bits: weights that are kept so (quantised.h, int8), and rows of X that are made so
// here, each by itself. For prediction on CPUs: a CUDA device refuses it (FT_INVALID).
//
// A row of X, whose largest and smallest element are `high` and `low`, 0 taken in, has a step s = (high - low) / 255, a zero
// z = round(-low / s) and the codes min(max(round(x (1/s)) + z, 0), 255); all in fp32, every operation rounded once, halves to even. Of the
// weight w = scale / 127 (times fp32(1 / 127)) is the step of an output, and its codes are c. Then
//     y = (float)(sum over k of (code - z) c) s w + bias
// with products and sums in int32, which are exact (K <= FT_INT8_MOST_COLUMNS), and the two multiplications and the addition rounded one after
// the other. So the bits depend neither on the order of sums nor on rows beside it. A row with a step below 2^-126 is taken for zeros;
// one with NaN or infinity in it, or with a step that is infinite, gives NaN.
//
// Weights of several matrices, one below the other, are one call: X is made into codes once.
#ifndef FT_INT8_PRODUCT_H
#define FT_INT8_PRODUCT_H
#include "kernels/ops/op.h"

enum { FT_INT8_MOST_COLUMNS = 65536, FT_INT8_MOST_PARTS = 4 };

// Outputs [first, first + outputs) of a matrix [rows, K].
typedef struct ft_int8_part {
    ft_tensor w; // uint8 [ft_quantised_layout.bytes] of int8, on 16 bytes
    int64_t rows, first, outputs;
} ft_int8_part;

typedef struct ft_int8_product_args {
    ft_tensor x; // [M,K] fp32
    ft_tensor y; // [M, outputs of all parts] fp32, written; no alias of x
    ft_tensor bias; // optional [outputs of all parts]
    ft_int8_part part[FT_INT8_MOST_PARTS];
    int parts;
    ft_workspace workspace;
} ft_int8_product_args;
size_t ft_int8_product_workspace(const ft_target *target, const ft_int8_product_args *args);
ft_status ft_int8_product_check(const ft_target *target, const ft_int8_product_args *args);
#endif
