// vec_avx512.h - vec.h for AVX-512 (F, VL, BW, DQ). Include vec.h, not this.
#ifndef FT_CPU_VEC_AVX512_H
#define FT_CPU_VEC_AVX512_H

typedef __m512 v16;
typedef __m512i u16x;
typedef __mmask16 m16;

FT_VEC m16 m_first(int n) { return (m16)(n >= 16 ? 0xFFFF : (1u << n) - 1); }
FT_VEC m16 m_and(m16 a, m16 b) { return (m16)(a & b); }
FT_VEC m16 m_or(m16 a, m16 b) { return (m16)(a | b); }
FT_VEC m16 m_not(m16 a) { return (m16)~a; }
FT_VEC int m_any(m16 a) { return a != 0; }

FT_VEC v16 v_load(const float *p) { return _mm512_loadu_ps(p); }
FT_VEC void v_store(float *p, v16 a) { _mm512_storeu_ps(p, a); }
FT_VEC v16 v_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(m_first(n), p); }
FT_VEC void v_store_n(float *p, v16 a, int n) { _mm512_mask_storeu_ps(p, m_first(n), a); }
FT_VEC v16 v_set1(float a) { return _mm512_set1_ps(a); }
FT_VEC v16 v_zero(void) { return _mm512_setzero_ps(); }
FT_VEC v16 v_add(v16 a, v16 b) { return _mm512_add_ps(a, b); }
FT_VEC v16 v_sub(v16 a, v16 b) { return _mm512_sub_ps(a, b); }
FT_VEC v16 v_mul(v16 a, v16 b) { return _mm512_mul_ps(a, b); }
FT_VEC v16 v_div(v16 a, v16 b) { return _mm512_div_ps(a, b); }
FT_VEC v16 v_fma(v16 a, v16 b, v16 c) { return _mm512_fmadd_ps(a, b, c); }
FT_VEC v16 v_fnma(v16 a, v16 b, v16 c) { return _mm512_fnmadd_ps(a, b, c); }
FT_VEC v16 v_fms(v16 a, v16 b, v16 c) { return _mm512_fmsub_ps(a, b, c); }
FT_VEC v16 v_max(v16 a, v16 b) { return _mm512_max_ps(a, b); }
FT_VEC v16 v_min(v16 a, v16 b) { return _mm512_min_ps(a, b); }
FT_VEC v16 v_sqrt(v16 a) { return _mm512_sqrt_ps(a); }
FT_VEC v16 v_round(v16 a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
FT_VEC v16 v_floor(v16 a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
FT_VEC m16 v_lt(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
FT_VEC m16 v_le(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
FT_VEC m16 v_gt(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
FT_VEC m16 v_eq(v16 a, v16 b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
FT_VEC m16 v_is_nan(v16 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
FT_VEC v16 v_select(m16 m, v16 yes, v16 no) { return _mm512_mask_blend_ps(m, no, yes); }

FT_VEC float v_hsum(v16 a) {
    __m256 x = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}
FT_VEC float v_hmax(v16 a) {
    __m256 x = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

FT_VEC u16x u_set1(uint32_t a) { return _mm512_set1_epi32((int)a); }
FT_VEC u16x u_iota(void) { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
FT_VEC u16x u_load(const uint32_t *p) { return _mm512_loadu_si512(p); }
FT_VEC void u_store(uint32_t *p, u16x a) { _mm512_storeu_si512(p, a); }
FT_VEC u16x u_load_n(const uint32_t *p, int n) { return _mm512_maskz_loadu_epi32(m_first(n), p); }
FT_VEC void u_store_n(uint32_t *p, u16x a, int n) { _mm512_mask_storeu_epi32(p, m_first(n), a); }
FT_VEC u16x u_load_u16(const uint16_t *p) { return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)); }
FT_VEC u16x u_load_u16_n(const uint16_t *p, int n) { return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m_first(n), p)); }
FT_VEC void u_store_u16(uint16_t *p, u16x a) { _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(a)); }
FT_VEC void u_store_u16_n(uint16_t *p, u16x a, int n) { _mm256_mask_storeu_epi16(p, m_first(n), _mm512_cvtepi32_epi16(a)); }
FT_VEC u16x u_add(u16x a, u16x b) { return _mm512_add_epi32(a, b); }
FT_VEC u16x u_sub(u16x a, u16x b) { return _mm512_sub_epi32(a, b); }
FT_VEC u16x u_mul(u16x a, u16x b) { return _mm512_mullo_epi32(a, b); }
FT_VEC void u_mul_wide(u16x a, u16x b, u16x *high, u16x *low) {
    __m512i even = _mm512_mul_epu32(a, b);
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32));
    *low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    *high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
}
FT_VEC u16x u_and(u16x a, u16x b) { return _mm512_and_si512(a, b); }
FT_VEC u16x u_andnot(u16x a, u16x b) { return _mm512_andnot_si512(a, b); }
FT_VEC u16x u_or(u16x a, u16x b) { return _mm512_or_si512(a, b); }
FT_VEC u16x u_xor(u16x a, u16x b) { return _mm512_xor_si512(a, b); }
FT_VEC u16x u_shl(u16x a, unsigned n) { return _mm512_sll_epi32(a, _mm_cvtsi32_si128((int)n)); }
FT_VEC u16x u_shr(u16x a, unsigned n) { return _mm512_srl_epi32(a, _mm_cvtsi32_si128((int)n)); }
FT_VEC m16 u_lt(u16x a, u16x b) { return _mm512_cmplt_epu32_mask(a, b); }
FT_VEC m16 u_eq(u16x a, u16x b) { return _mm512_cmpeq_epi32_mask(a, b); }
FT_VEC u16x u_select(m16 m, u16x yes, u16x no) { return _mm512_mask_blend_epi32(m, no, yes); }
FT_VEC u16x u_bits(v16 a) { return _mm512_castps_si512(a); }
FT_VEC v16 v_bits(u16x a) { return _mm512_castsi512_ps(a); }
FT_VEC v16 v_from_i(u16x a) { return _mm512_cvtepi32_ps(a); }
FT_VEC u16x u_from_v(v16 a) { return _mm512_cvtps_epi32(a); }

// out[0..3] in memory order = a0 b0 c0 d0 a1 b1 c1 d1 ... d15.
FT_VEC void u_interleave4(u16x a, u16x b, u16x c, u16x d, u16x out[4]) {
    __m512i ab0 = _mm512_unpacklo_epi32(a, b), ab1 = _mm512_unpackhi_epi32(a, b); // 128-bit lane i holds quad 4i..4i+3
    __m512i cd0 = _mm512_unpacklo_epi32(c, d), cd1 = _mm512_unpackhi_epi32(c, d);
    __m512i q0 = _mm512_unpacklo_epi64(ab0, cd0), q1 = _mm512_unpackhi_epi64(ab0, cd0); // quads 0,4,8,12 and 1,5,9,13
    __m512i q2 = _mm512_unpacklo_epi64(ab1, cd1), q3 = _mm512_unpackhi_epi64(ab1, cd1); // 2,6,10,14 and 3,7,11,15
    __m512i x0 = _mm512_shuffle_i32x4(q0, q1, 0x44), x1 = _mm512_shuffle_i32x4(q2, q3, 0x44); // 0 4 1 5 and 2 6 3 7
    __m512i y0 = _mm512_shuffle_i32x4(q0, q1, 0xEE), y1 = _mm512_shuffle_i32x4(q2, q3, 0xEE); // 8 12 9 13, 10 14 11 15
    out[0] = _mm512_shuffle_i32x4(x0, x1, 0x88);
    out[1] = _mm512_shuffle_i32x4(x0, x1, 0xDD);
    out[2] = _mm512_shuffle_i32x4(y0, y1, 0x88);
    out[3] = _mm512_shuffle_i32x4(y0, y1, 0xDD);
}

#endif
