// patches.h - what stands below the layers where pictures are read. Internal to the blocks.
//
//     row 0 (and 1) of a picture: vector of the model + position;  the others: W patch + b + position
//
// Batches bring a row of numbers for every row, which is zero in front of the patches (ft_batch.patch), and in `ids` which vector is added to a
// row: 0 the bias of W, 1 the first of the model's own, 2 the second.
#ifndef FT_PATCHES_H
#define FT_PATCHES_H

#include "engine/model/blocks/layers.h"

enum { FT_PATCH_VECTORS = 3 };

typedef struct ft_patches {
    int weight;                   // registry: [hidden, inputs]
    int vector[FT_PATCH_VECTORS]; // registry, in the order of ids
    int vectors;                  // 2, or 3
    int64_t height, width;        // of a picture, in patches
    int64_t inputs;               // numbers of a patch: channels, rows and columns of it
} ft_patches;

// Of a model that reads texts: nothing. FT_NO_MEMORY.
ft_status ft_patches_build(ft_builder *b);
// sum [T,H], written.
ft_status ft_patches_forward(ft_pass *pass, ft_tensor sum);
// dx (fp32) [T,H]: gradient of the sum.
ft_status ft_patches_backward(ft_pass *pass, ft_tensor dx);

#endif
