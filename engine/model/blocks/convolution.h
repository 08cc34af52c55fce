// convolution.h - the block behind encoder layer 0 of DeBERTa's v2-x models, which is trained with that layer.
#ifndef FT_CONVOLUTION_H
#define FT_CONVOLUTION_H

#include "engine/model/blocks/layers.h"

typedef struct ft_convolution {
    int taps;
    ft_activation activation;
    ft_linear linear; // of windows; its parts are the groups
    ft_norm norm;
} ft_convolution;

void ft_convolution_build(ft_builder *b); // where the model has one

// What the block keeps for its backward pass; `gradient` of the convolution's output, from one
// half of that pass to the other.
typedef struct ft_convolution_saved {
    ft_tensor h, sum;
    ft_norm_saved norm;
    ft_tensor gradient;
} ft_convolution_saved;
// e: [T,H] input of layer 0. y and wide: its output becomes that of the block, and the former is freed.
ft_status ft_convolution_forward(ft_pass *pass, ft_tensor e, ft_tensor wide, bool keep, ft_convolution_saved *saved, ft_tensor *y);
// In front of layer 0's backward pass: dy (fp32) becomes the gradient of that layer's output, in place.
ft_status ft_convolution_backward(ft_pass *pass, ft_tensor e, ft_convolution_saved *saved, ft_tensor dy);
// Behind it: dx [T,H] (fp32) += what reaches e through the convolution; dx may be absent. Frees `saved`.
ft_status ft_convolution_input_gradient(ft_pass *pass, ft_convolution_saved *saved, ft_tensor dx);
void ft_convolution_saved_free(ft_pass *pass, ft_convolution_saved *saved);

#endif
