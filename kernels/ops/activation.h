// activation.h - y = act(x + bias), and its gradient.
//
// forward:  h = x + bias (written when present; may alias x), y = act(h) (may alias x or h when h is not needed later).
// backward: dx = dy * act'(h) (may alias dy); dbias += sum over rows of dx, one chain per column in row order;
//           y (optional, may alias h) = act(h) again, so that the forward need not keep it.
// gelu is x/2 (1 + erf(x / sqrt 2)); gelu_tanh is x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))); quick_gelu is
// x sigmoid(1.702 x); silu is x sigmoid(x); mish is x tanh(log(1 + e^x)); gelu_10 is gelu cut at 10; leaky_relu is x / 100 below 0;
// relu6 is relu cut at 6; hardswish is x relu6(x + 3) / 6; laplace is Phi((x - 0.707107) / 0.282095); sqrtsoftplus is
// sqrt(log(1 + e^x)). All H, but dbias. Of 16 bits, y comes from the h
// before it is rounded.
#ifndef FT_ACTIVATION_H
#define FT_ACTIVATION_H
#include "kernels/ops/op.h"

typedef enum ft_activation {
    FT_ACT_IDENTITY = 0, FT_ACT_GELU, FT_ACT_GELU_TANH, FT_ACT_RELU, FT_ACT_TANH, FT_ACT_SILU, FT_ACT_QUICK_GELU, FT_ACT_MISH,
    FT_ACT_GELU_10, FT_ACT_SIGMOID, FT_ACT_LEAKY_RELU, FT_ACT_RELU6, FT_ACT_HARDSWISH, FT_ACT_LAPLACE, FT_ACT_SQRTSOFTPLUS, // checkpoints have the numbers
    FT_ACT_COUNT
} ft_activation;

// The name that Hugging Face configurations use ("gelu_new" for FT_ACT_GELU_TANH); "?" when out of range.
const char *ft_activation_name(ft_activation kind);
// Accepts every Hugging Face spelling of the above (gelu_python for gelu, gelu_fast for gelu_new, swish for silu, ...); FT_INVALID with
// the nearest of them otherwise.
ft_status ft_activation_from_name(const char *name, ft_activation *out);

typedef struct ft_activation_forward_args {
    ft_activation kind;
    ft_tensor x, bias; // [T,N]; optional [N]
    ft_tensor h, y;    // [T,N]; h optional
    ft_workspace workspace;
} ft_activation_forward_args;
size_t ft_activation_forward_workspace(const ft_target *target, const ft_activation_forward_args *args);
ft_status ft_activation_forward_check(const ft_target *target, const ft_activation_forward_args *args);

typedef struct ft_activation_backward_args {
    ft_activation kind;
    ft_tensor h, dy;    // [T,N]
    ft_tensor dx;       // [T,N]
    ft_tensor y, dbias; // optional: [T,N]; [N] fp32, accumulated
    ft_workspace workspace;
} ft_activation_backward_args;
size_t ft_activation_backward_workspace(const ft_target *target, const ft_activation_backward_args *args);
ft_status ft_activation_backward_check(const ft_target *target, const ft_activation_backward_args *args);
#endif
