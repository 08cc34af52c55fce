// segment_product.h - several products of one kind in one launch, each with matrices of its own (segments): what trials that train beside one
// frozen model compute at the same place of their passes (engine/model/state/pack.h). C_i (=|+=) op(A_i) op(B_i) (+ bias_i), or
// C_i = scale_i op(A_i) op(B_i), as gemm.h has one of them.
//
// All have the same types, trans_a, trans_b and accumulate, and none has `more`; shapes, strides, a bias and a scale are each one's own. Not
// trans_a and trans_b at once. No C overlaps another matrix of the call. The workspaces of the products are not looked at.
// Bits: on CUDA an element is one sum over k in order - of fp32 one chain of fused multiply-adds from 0, of 16 bits what the tensor cores
// make of 16 k at a time -, then times the scale, plus the bias, plus C, then rounded. It depends neither on the other rows nor on the other products
// of the call nor on how many there are: a trial has the same bits whoever is beside it. On the CPU every product is gemm's.
#ifndef FT_SEGMENT_PRODUCT_H
#define FT_SEGMENT_PRODUCT_H
#include "kernels/ops/gemm.h"

typedef struct ft_segment_product_args {
    const ft_gemm_args *const *product; // [count]
    int count;
    ft_workspace workspace;
} ft_segment_product_args;
size_t ft_segment_product_workspace(const ft_target *target, const ft_segment_product_args *args);
ft_status ft_segment_product_check(const ft_target *target, const ft_segment_product_args *args);
#endif
