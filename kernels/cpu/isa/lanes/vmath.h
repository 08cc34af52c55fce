// vmath.h - elementary functions of 16 lanes, the same bits on every instruction set. NaN gives NaN.
//
// The polynomials are minimax fits of this project (Lawson's iteration on a Chebyshev grid in double); the errors named
// below are measured over all floats of the range by tests/kernels/test_vmath.c.
#ifndef FT_CPU_VMATH_H
#define FT_CPU_VMATH_H

#include "kernels/cpu/isa/lanes/vec.h"

// For functions of many operations. Sixteen scalars of the portable kind are a heap of code: inlined everywhere it
// takes minutes to compile with sanitizers, and gains nothing, since each of its multiply-adds is a library call
// already.
#if !defined(FT_ISA_portable)
#define FT_VMATH FT_VEC
#else
#define FT_VMATH static __attribute__((noinline, unused))
#endif

// e^x to 1.1 ulp. Infinity above 88.72; 0 below -86.98, a little before the smallest normal number.
FT_VMATH v16 v_exp(v16 x) {
    // The bounds keep n in [-126, 128]. The order of operands lets a NaN through.
    x = v_min(v_set1(89.0f), v_max(v_set1(-87.5f), x));
    v16 n = v_round(v_mul(x, v_set1(0x1.715476p+0f)));
    v16 r = v_fnma(n, v_set1(0x1.62e430p-1f), x); // ln 2 in two parts
    r = v_fnma(n, v_set1(-0x1.05c610p-29f), r);
    v16 q = v_set1(1.3814597e-3f); // (e^r - 1 - r) / r^2
    q = v_fma(q, r, v_set1(8.3687170e-3f));
    q = v_fma(q, r, v_set1(4.1668388e-2f));
    q = v_fma(q, r, v_set1(1.6666521e-1f));
    q = v_fma(q, r, v_set1(4.9999993e-1f));
    v16 e = v_add(v_fma(v_mul(r, r), q, r), v_set1(1.0f));
    // 2 * 2^(n-1): 2^128 is no float, and 2^(-126-1) comes out as the 0 that is wanted there.
    v16 scale = v_bits(u_shl(u_add(u_from_v(n), u_set1(126)), 23));
    return v_mul(v_add(e, e), scale);
}

// 1 / (1 + e^-x) with an absolute error of 1e-7.
FT_VMATH v16 v_sigmoid(v16 x) { return v_div(v_set1(1.0f), v_add(v_set1(1.0f), v_exp(v_neg(x)))); }

// tanh to 2 ulp.
FT_VMATH v16 v_tanh(v16 x) {
    v16 a = v_abs(x), s = v_mul(x, x);
    v16 q = v_set1(-5.8951474e-3f); // (tanh a - a) / a^3 for a < 0.6
    q = v_fma(q, s, v_set1(2.0795963e-2f));
    q = v_fma(q, s, v_set1(-5.3783827e-2f));
    q = v_fma(q, s, v_set1(1.3331924e-1f));
    q = v_fma(q, s, v_set1(-3.3333299e-1f));
    v16 small = v_fma(v_mul(a, s), q, a);
    v16 large = v_sub(v_set1(1.0f), v_div(v_set1(2.0f), v_add(v_exp(v_add(a, a)), v_set1(1.0f))));
    return v_copysign(v_select(v_lt(a, v_set1(0.6f)), small, large), x);
}

// The lower tail Phi(-a) of the standard normal distribution for a >= 0 with an absolute error of 2e-7 (1e-7 of itself
// per unit of a^2), and e^(-a^2/2) in *bell: what GELU and its derivative are made of. With t = 1 / (1 + 0.3 a) the
// ratio of tail and bell is close to a polynomial in t over the whole half-line.
FT_VMATH v16 v_normal_tail(v16 a, v16 *bell) {
    *bell = v_exp(v_mul(v_mul(a, a), v_set1(-0.5f)));
    v16 t = v_div(v_set1(1.0f), v_fma(a, v_set1(0.3f), v_set1(1.0f)));
    v16 q = v_set1(3.6249581e-2f);
    q = v_fma(q, t, v_set1(-1.5936549e-1f));
    q = v_fma(q, t, v_set1(2.0965747e-1f));
    q = v_fma(q, t, v_set1(-5.6322024e-2f));
    q = v_fma(q, t, v_set1(1.2974158e-1f));
    q = v_fma(q, t, v_set1(9.9620299e-2f));
    q = v_fma(q, t, v_set1(1.2079112e-1f));
    q = v_fma(q, t, v_set1(1.1962746e-1f));
    return v_mul(v_mul(q, t), *bell);
}

#endif
