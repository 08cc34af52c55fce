// product_slope.h - dx = (dout W) act'(h): what gemm and activation_backward are one after the other, the first of which writes its product to dx.
// (The gradient of h where y = act(h) goes into a product with W.)
//
// y (optional, may alias h) and dbias as in activation_backward. The product is rounded before it is multiplied, as where the pass reads it. All H
// but dbias.
// On the CPU these two ops, in their bits. On CUDA these two as well, unless a kernel of our own was found right on the device and faster
// for the shape (kernels/cuda/product.h): that one's sums are one chain over K in fp32, and dbias is summed by tiles of its own. Whether y or
// dbias are wanted changes no bit of the others.
#ifndef FT_PRODUCT_SLOPE_H
#define FT_PRODUCT_SLOPE_H
#include "kernels/ops/product_activation.h"

typedef struct ft_product_slope_args {
    ft_activation kind;
    ft_tensor dout, w;  // [T,K], [K,N]
    ft_tensor h, dx;    // [T,N]
    ft_tensor y, dbias; // optional: [T,N]; [N] fp32, accumulated
    ft_workspace workspace;
} ft_product_slope_args;
size_t ft_product_slope_workspace(const ft_target *target, const ft_product_slope_args *args);
ft_status ft_product_slope_check(const ft_target *target, const ft_product_slope_args *args);

// The two ops, in their order, with the same scratch.
static inline ft_gemm_args ft_product_slope_product(const ft_product_slope_args *a) {
    const ft_gemm_args product = {a->dout, a->w, a->dx, false, false, false, ft_absent(), NULL, 0, 0, a->workspace};
    return product;
}
static inline ft_activation_backward_args ft_product_slope_rest(const ft_product_slope_args *a) {
    const ft_activation_backward_args rest = {a->kind, a->h, a->dx, a->dx, a->y, a->dbias, a->workspace};
    return rest;
}

// Sums of dx by columns, of our own kernel: a row of N for each of the three warps that have a third of 128 rows. Never less than for fewer rows.
enum { FT_CUDA_SLOPE_ROWS = 128, FT_CUDA_SLOPE_SUMS = 3 };
static inline int64_t ft_cuda_slope_sums(int64_t rows) { return (rows + FT_CUDA_SLOPE_ROWS - 1) / FT_CUDA_SLOPE_ROWS * FT_CUDA_SLOPE_SUMS; }

// Are these arguments that a kernel of our own takes? As of product_activation.
static inline bool ft_product_slope_own(const ft_product_slope_args *a) {
    return (a->dout.dtype == FT_BF16 || a->dout.dtype == FT_F16) && a->kind <= FT_ACT_MISH && a->dx.rows > 0 && a->dx.cols > 0 && a->dx.cols % 8 == 0 &&
           a->dout.cols > 0 && ft_product_is_whole(a->dout) && ft_product_is_whole(a->w) && ft_product_is_whole(a->h) && ft_product_is_whole(a->dx) &&
           ft_product_is_whole(a->y);
}
#endif
