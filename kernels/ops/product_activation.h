// product_activation.h - h = x W^T + bias and y = act(h): what gemm and activation_forward are one after the other.
//
// h: optional; where it is absent only y is kept. y comes from h as it is rounded (activation_forward reads it). All H.
// On the CPU these two ops, in their bits. On CUDA these two as well, unless a kernel of our own was found right on the device and faster
// for the shape (kernels/cuda/product.h): that one's sums are one chain over K in fp32.
#ifndef FT_PRODUCT_ACTIVATION_H
#define FT_PRODUCT_ACTIVATION_H
#include "kernels/ops/activation.h"
#include "kernels/ops/gemm.h"

typedef struct ft_product_activation_args {
    ft_activation kind;
    ft_tensor x, w; // [T,K], [N,K]
    ft_tensor bias; // optional [N]
    ft_tensor h, y; // [T,N]; h optional, not y
    ft_workspace workspace;
} ft_product_activation_args;
size_t ft_product_activation_workspace(const ft_target *target, const ft_product_activation_args *args);
ft_status ft_product_activation_check(const ft_target *target, const ft_product_activation_args *args);

// The two ops, in their order, with the same scratch.
static inline ft_gemm_args ft_product_activation_product(const ft_product_activation_args *a) {
    const ft_gemm_args product = {a->x, a->w, a->h.data != NULL ? a->h : a->y, false, true, false, a->bias, NULL, 0, 0, a->workspace};
    return product;
}
static inline ft_activation_forward_args ft_product_activation_rest(const ft_product_activation_args *a) {
    const ft_activation_forward_args rest = {a->kind, a->h.data != NULL ? a->h : a->y, ft_absent(), ft_absent(), a->y, a->workspace};
    return rest;
}

// Where it may be more than the two ops: on chips that our kernels are for.
static inline bool ft_product_activation_may(const ft_target *target, ft_dtype dtype) {
    return target->backend == FT_BACKEND_CUDA && target->compute_capability == 90 && (dtype == FT_BF16 || dtype == FT_F16);
}
// Are these arguments that a kernel of our own takes? 16 bits, whole units of eight columns at 16 bytes, one of the usual activations.
static inline bool ft_product_is_whole(ft_tensor t) {
    return t.data == NULL || ((uintptr_t)t.data % 16 == 0 && t.stride % 8 == 0 && t.rows < 1 << 30 && t.cols < 1 << 30);
}
static inline bool ft_product_activation_own(const ft_product_activation_args *a) {
    return (a->x.dtype == FT_BF16 || a->x.dtype == FT_F16) && a->kind <= FT_ACT_MISH && a->y.rows > 0 && a->y.cols > 0 && a->y.cols % 8 == 0 &&
           a->x.cols > 0 && ft_product_is_whole(a->x) && ft_product_is_whole(a->w) && ft_product_is_whole(a->h) && ft_product_is_whole(a->y);
}
#endif
