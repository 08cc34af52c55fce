// reciprocal.h - 1 / x, as the special function units have it.
#ifndef FT_CUDA_TILE_RECIPROCAL_H
#define FT_CUDA_TILE_RECIPROCAL_H

#include "kernels/cuda/simt.h"

// One instruction, off by one unit in the last place at most (PTX ISA, rcp.approx); an x or a result below normal
// numbers is taken for 0. The rounded quotient of CUDA costs eight more, and a call for numbers of extreme exponents.
#ifdef __CUDACC__
FT_DEVICE float ft_reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
FT_DEVICE float ft_reciprocal(float x) {
    const float y = 1.0f / x;
    return y < 1.17549435e-38f && y > -1.17549435e-38f ? 0.0f : y; // (NaN stays; an x below normal numbers is not met)
}
#endif

#endif
