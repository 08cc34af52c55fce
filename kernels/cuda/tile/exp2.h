// exp2.h - powers of two, as the special function units have them.
#ifndef FT_CUDA_TILE_EXP2_H
#define FT_CUDA_TILE_EXP2_H

#include "kernels/cuda/simt.h"

// 2^x in one instruction: relative error below 2^-22 (PTX ISA, ex2.approx); 0 where the result is smaller than normal
// numbers, so 2^-inf = 0. CUDA's exp2f scales such arguments up and down again, which costs three instructions more.
#ifdef __CUDACC__
FT_DEVICE float ft_exp2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
FT_DEVICE float ft_exp2(float x) {
    const float y = exp2f(x);
    return y < 1.17549435e-38f ? 0.0f : y; // (NaN stays)
}
#endif

#endif
