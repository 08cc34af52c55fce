// points.h - what the backward pass comes to, counted: parameters say at which points their gradients arrive and are complete
// (gradients/gradients.h has what is done there).
#ifndef FT_POINTS_H
#define FT_POINTS_H

#include <limits.h>

// Block 0 is the head, block n + 1 the layer with n others above it, behind the layers the embeddings and then the end of the step.
// Half 0 of a layer is its feed-forward, half 1 its attention.
static inline int ft_backward_point(int block, int half) { return 2 * block + half; }
static inline int ft_backward_block(int point) { return point / 2; }
static inline int ft_backward_half(int point) { return point % 2; }
enum { FT_BACKWARD_DONE = INT_MAX }; // behind the step's end: all are complete

#endif
