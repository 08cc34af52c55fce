// layernorm.h - y = LayerNorm(residual + dropout(x + bias)) * gamma + beta, fused, and its gradients; RMSNorm the same way.
//
// rms: the norm does not centre. The mean is 0 below, in rstd too (so 1/sqrt(mean square + eps)) and in what is kept of it, and ds has no mean(g).
// forward:  s = residual + dropout(x + bias);  mean, rstd = 1/sqrt(var + eps) with the biased variance, per row, fp32;
//           y = (s - mean) * rstd * gamma + beta.  bias, residual, beta and dropout are optional (absent / probability 0).
//           s may alias x, residual or y; when s is absent it is not kept (inference). mean and rstd are optional too.
//           Of 16 bits, s is rounded where it is kept; statistics and y come from the sum before that. `wide` is then y
//           once more, before it is rounded: the residual of the next sum. It may alias this one's. `stream` is s once more before it
//           is rounded, in every precision: what the next sum adds to where norms stand in front of blocks; it may alias the residual.
//           Where y is of 16 bits, x may be fp32, and then has neither bias, residual nor dropout: the norm of what was a stream.
//           Statistics and y come from the sum in front of all rounding, that of a stream of 16 bits too.
// backward: with xhat = (s - mean) * rstd and g = dy * gamma,
//           ds = rstd * (g - mean(g) - xhat * mean(g * xhat))       (over the columns of a row)
//           with `past` (the gradient of s from elsewhere) ds = past + that; it may alias ds
//           dx = dropout mask and scale applied to ds
//           dgamma += sum dy * xhat, dbeta += sum dy, dbias += sum dx: one chain per column in row order.
//           Each output is optional: an absent one is not computed. ds may alias dy. With dropout 0, dx may be absent and
//           ds stands for both (dbias is then the sum of ds).
// gamma and beta are fp32 in every precision: weights that stand near 1, where bf16 has two digits. What products read and what is kept is H.
// R is the type of what adds up from layer to layer, residual, stream, dy, past and ds, one for an op: fp32, or H. With R = H there
// is no `wide`: y is the residual of the next sum.
#ifndef FT_LAYERNORM_H
#define FT_LAYERNORM_H
#include "kernels/ops/op.h"

typedef struct ft_layernorm_forward_args {
    ft_tensor x, bias, residual;     // [T,H]; optional [H]; optional [T,H] R
    ft_tensor gamma, beta;           // [H] fp32; beta optional
    float epsilon;
    bool rms;
    ft_dropout dropout;              // of x + bias
    ft_tensor s, y;                  // [T,H]
    ft_tensor wide;                  // [T,H] fp32, optional, only where x is of 16 bits and the residual is not
    ft_tensor stream;                // [T,H] R, optional
    ft_tensor mean, rstd;            // [T] fp32, optional
    ft_workspace workspace;
} ft_layernorm_forward_args;
size_t ft_layernorm_forward_workspace(const ft_target *target, const ft_layernorm_forward_args *args);
ft_status ft_layernorm_forward_check(const ft_target *target, const ft_layernorm_forward_args *args);

typedef struct ft_layernorm_backward_args {
    ft_tensor dy, s;                 // [T,H] R, [T,H]
    ft_tensor past;                  // [T,H] R, optional
    ft_tensor mean, rstd, gamma;     // [T], [T], [H] fp32
    bool rms;                        // the forward's
    ft_dropout dropout;              // the forward's
    ft_tensor ds, dx;                // [T,H] R, [T,H], optional
    ft_tensor dgamma, dbeta, dbias;  // [H] fp32, accumulated, optional
    ft_workspace workspace;
} ft_layernorm_backward_args;
size_t ft_layernorm_backward_workspace(const ft_target *target, const ft_layernorm_backward_args *args);
ft_status ft_layernorm_backward_check(const ft_target *target, const ft_layernorm_backward_args *args);
#endif
