// vec.h - 16 lanes of fp32 or uint32, whatever the machine: one AVX-512 register, two AVX2 registers, four NEON registers, or a plain array.
//
// The four give the SAME BITS for every function here (NaN payloads aside), because each lane does the same IEEE
// operations in the same order: fused where the name says fma, never contracted elsewhere (-ffp-contract=off), and
// reductions have one fixed tree. Kernels written only with these therefore do not depend on the instruction set.
//
//   v16 16 floats (v_*), u16x 16 uint32 (u_*), m16 16 truths (m_*). Loads and stores need no alignment.
//   *_load_n / *_store_n touch only the memory of the first n lanes (0 <= n <= 16; missing lanes load as 0).
//   v_fma(a,b,c) = a*b+c, v_fnma = -a*b+c, v_fms = a*b-c, each rounded once.
//   v_max(a,b) is a > b ? a : b and v_min(a,b) is a < b ? a : b: with a NaN the SECOND operand is the result.
//   v_hsum: x[i] + x[i+8] for i < 8, then + [i+4], + [i+2], + [1]. v_hmax: the same tree.
//   u_from_v rounds to nearest even, as int32; v_from_i takes int32. v_bits / u_bits keep the bits and change the type.
//   u_load_u16 widens 16 numbers of 16 bits; u_store_u16 stores lanes that are below 65536.
//   u_mul_wide: 32x32 -> 64 bits, in halves. u_andnot(a,b) = ~a & b. u_lt is unsigned.
#ifndef FT_CPU_VEC_H
#define FT_CPU_VEC_H

#include <stdint.h>
#include <string.h>

#if defined(FT_ISA_avx2) || defined(FT_ISA_avx512)
#include <immintrin.h>
#elif defined(FT_ISA_neon)
#include <arm_neon.h>
#endif

enum { FT_LANES = 16 };
#define FT_VEC static inline __attribute__((always_inline, unused))

#if defined(FT_ISA_avx512)
#include "kernels/cpu/isa/lanes/vec_avx512.h"
#elif defined(FT_ISA_avx2)
#include "kernels/cpu/isa/lanes/vec_avx2.h"
#elif defined(FT_ISA_neon)
#include "kernels/cpu/isa/lanes/vec_neon.h"
#else
#include "kernels/cpu/isa/lanes/vec_portable.h"
#endif

// ---- built from the above, the same for all ----------------------------------------------------------------------

FT_VEC v16 v_abs(v16 a) { return v_bits(u_and(u_bits(a), u_set1(0x7FFFFFFFu))); }
FT_VEC v16 v_neg(v16 a) { return v_bits(u_xor(u_bits(a), u_set1(0x80000000u))); }
// |a| with the sign of s.
FT_VEC v16 v_copysign(v16 a, v16 s) {
    u16x sign = u_set1(0x80000000u);
    return v_bits(u_or(u_and(u_bits(s), sign), u_andnot(sign, u_bits(a))));
}
// a where m holds, else +0.
FT_VEC v16 v_keep(m16 m, v16 a) { return v_select(m, a, v_zero()); }
// 2^n for integral n in [-126, 127] given as float.
FT_VEC v16 v_pow2i(v16 n) { return v_bits(u_shl(u_add(u_from_v(n), u_set1(127)), 23)); }
FT_VEC u16x u_mulhi(u16x a, u16x b) {
    u16x high, low;
    u_mul_wide(a, b, &high, &low);
    return high;
}
FT_VEC v16 v_load_any(const float *p, int64_t n) { return n >= FT_LANES ? v_load(p) : v_load_n(p, (int)n); }
FT_VEC void v_store_any(float *p, v16 a, int64_t n) {
    if (n >= FT_LANES)
        v_store(p, a);
    else
        v_store_n(p, a, (int)n);
}

#endif
