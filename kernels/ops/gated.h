// gated.h - a gated activation (GeGLU where act is gelu): y = act(a) * g, of a and g that one product made side by side.
//
// forward:  a = columns [0, N) of x, g = columns [N, 2N);  y = act(a) * g.
// backward: of the same x (h here): dx's first half = dy * g * act'(a), second half = dy * act(a); dx may alias h. y (optional) = act(a) * g
//           again, with the bits of the forward, so that that need not be kept.
// All H. Activations as in activation.h.
#ifndef FT_GATED_H
#define FT_GATED_H
#include "kernels/ops/activation.h"

typedef struct ft_gated_forward_args {
    ft_activation kind;
    ft_tensor x; // [T,2N]
    ft_tensor y; // [T,N]
    ft_workspace workspace;
} ft_gated_forward_args;
size_t ft_gated_forward_workspace(const ft_target *target, const ft_gated_forward_args *args);
ft_status ft_gated_forward_check(const ft_target *target, const ft_gated_forward_args *args);

typedef struct ft_gated_backward_args {
    ft_activation kind;
    ft_tensor h, dy; // [T,2N], [T,N]
    ft_tensor dx;    // [T,2N]
    ft_tensor y;     // [T,N], optional
    ft_workspace workspace;
} ft_gated_backward_args;
size_t ft_gated_backward_workspace(const ft_target *target, const ft_gated_backward_args *args);
ft_status ft_gated_backward_check(const ft_target *target, const ft_gated_backward_args *args);
#endif
