// product_norm.h - y = Norm(residual + dropout(x W^T + bias)): what gemm, without a bias, and layernorm_forward are one after the other. The first
// writes its product to norm.x, which may be norm.s; what is there behind the op is nobody's otherwise.
//
// norm: all arguments of layernorm_forward (layernorm.h), but its scratch. The product is rounded before anything is added, as where the pass
// reads it.
// On the CPU these two ops, in their bits. On CUDA these two as well, unless a kernel of our own was found right on the device and faster
// for the shape (kernels/cuda/product.h): that one's sums are one chain over K in fp32, and its epilogue adds bias, dropout and residual, so that the
// norm behind it reads the sum alone, from where stream, or s, or y is. Where the sum is of 16 bits it is rounded before statistics and y are made of it:
// y is the norm of the s that is kept. Of fp32 nothing is rounded that the two ops do not round.
#ifndef FT_PRODUCT_NORM_H
#define FT_PRODUCT_NORM_H
#include "kernels/ops/layernorm.h"
#include "kernels/ops/product_activation.h"

typedef struct ft_product_norm_args {
    ft_tensor x, w;                 // [T,K], [N,K]
    ft_layernorm_forward_args norm; // of [T,N]
    ft_workspace workspace;
} ft_product_norm_args;
size_t ft_product_norm_workspace(const ft_target *target, const ft_product_norm_args *args);
ft_status ft_product_norm_check(const ft_target *target, const ft_product_norm_args *args);

// The two ops, in their order, with the same scratch.
static inline ft_gemm_args ft_product_norm_product(const ft_product_norm_args *a) {
    const ft_gemm_args product = {a->x, a->w, a->norm.x, false, true, false, ft_absent(), NULL, 0, 0, a->workspace};
    return product;
}
static inline ft_layernorm_forward_args ft_product_norm_rest(const ft_product_norm_args *a) {
    ft_layernorm_forward_args rest = a->norm;
    rest.workspace = a->workspace;
    return rest;
}

// Where our own kernel puts the sum, and the norm of it.
static inline ft_tensor ft_product_norm_sum(const ft_product_norm_args *a) {
    return a->norm.stream.data != NULL ? a->norm.stream : a->norm.s.data != NULL ? a->norm.s : a->norm.y;
}
static inline ft_layernorm_forward_args ft_product_norm_of_sum(const ft_product_norm_args *a) {
    const ft_dropout none = {0.0f, 0, 0, NULL, NULL, NULL};
    ft_layernorm_forward_args of = ft_product_norm_rest(a);
    of.x = ft_product_norm_sum(a);
    of.bias = of.residual = ft_absent();
    of.dropout = none;
    if (of.stream.data == NULL) of.s = ft_absent(); // that is the sum, or nobody wants it
    of.stream = ft_absent();
    return of;
}

// Are these arguments that a kernel of our own takes? 16 bits, whole units, and the sum of the residual's type. Not with `wide`: there the sum would lie
// nowhere before it is rounded, and what the norm moves would be as much (kernels/cuda/products/README.md).
static inline bool ft_product_norm_own(const ft_product_norm_args *a) {
    const ft_layernorm_forward_args *n = &a->norm;
    const ft_tensor sum = ft_product_norm_sum(a);
    return (a->x.dtype == FT_BF16 || a->x.dtype == FT_F16) && n->x.dtype == a->x.dtype && n->wide.data == NULL && a->x.rows > 0 && a->x.cols > 0 && n->x.cols > 0 &&
           n->x.cols % 8 == 0 && (n->residual.data == NULL || n->residual.dtype == sum.dtype) && ft_product_is_whole(a->x) && ft_product_is_whole(a->w) &&
           ft_product_is_whole(sum) && ft_product_is_whole(n->residual) && (uintptr_t)n->bias.data % 16 == 0;
}
#endif
