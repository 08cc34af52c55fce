// elementwise.h - shapes of work that both the scratch sizes and the kernels must know.
#ifndef FT_CPU_ELEMENTWISE_H
#define FT_CPU_ELEMENTWISE_H

// Elements of the flat gradient whose squares one task sums; the partial sums are added in order. Fixed, so that the norm
// depends on neither threads nor instruction set.
enum { FT_NORM_CHUNK = 1 << 15 };

#endif
