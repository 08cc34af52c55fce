// vec_avx2.h - vec.h for AVX2 and FMA: lanes 0-7 in lo, 8-15 in hi. Include vec.h, not this.
#ifndef FT_CPU_VEC_AVX2_H
#define FT_CPU_VEC_AVX2_H

typedef struct v16 {
    __m256 lo, hi;
} v16;
typedef struct u16x {
    __m256i lo, hi;
} u16x;
typedef u16x m16; // all ones or all zeros a lane

#define FT_V1(f, a) ((v16){f((a).lo), f((a).hi)})
#define FT_V2(f, a, b) ((v16){f((a).lo, (b).lo), f((a).hi, (b).hi)})
#define FT_V3(f, a, b, c) ((v16){f((a).lo, (b).lo, (c).lo), f((a).hi, (b).hi, (c).hi)})
#define FT_U2(f, a, b) ((u16x){f((a).lo, (b).lo), f((a).hi, (b).hi)})
#define FT_CMP(a, b, how)                                                                                              \
    ((m16){_mm256_castps_si256(_mm256_cmp_ps((a).lo, (b).lo, how)),                                                    \
           _mm256_castps_si256(_mm256_cmp_ps((a).hi, (b).hi, how))})

FT_VEC m16 m_first(int n) {
    static const int32_t ones[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    const int32_t *p = ones + 16 - (n > 16 ? 16 : n);
    return (m16){_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)(p + 8))};
}
FT_VEC m16 m_and(m16 a, m16 b) { return FT_U2(_mm256_and_si256, a, b); }
FT_VEC m16 m_or(m16 a, m16 b) { return FT_U2(_mm256_or_si256, a, b); }
FT_VEC m16 m_not(m16 a) {
    __m256i ones = _mm256_set1_epi32(-1);
    return (m16){_mm256_andnot_si256(a.lo, ones), _mm256_andnot_si256(a.hi, ones)};
}
FT_VEC int m_any(m16 a) {
    __m256i any = _mm256_or_si256(a.lo, a.hi);
    return !_mm256_testz_si256(any, any);
}

FT_VEC v16 v_load(const float *p) { return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
FT_VEC void v_store(float *p, v16 a) {
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
FT_VEC v16 v_load_n(const float *p, int n) {
    m16 m = m_first(n);
    return (v16){_mm256_maskload_ps(p, m.lo), _mm256_maskload_ps(p + 8, m.hi)};
}
FT_VEC void v_store_n(float *p, v16 a, int n) {
    m16 m = m_first(n);
    _mm256_maskstore_ps(p, m.lo, a.lo);
    _mm256_maskstore_ps(p + 8, m.hi, a.hi);
}
FT_VEC v16 v_set1(float a) { return (v16){_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
FT_VEC v16 v_zero(void) { return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
FT_VEC v16 v_add(v16 a, v16 b) { return FT_V2(_mm256_add_ps, a, b); }
FT_VEC v16 v_sub(v16 a, v16 b) { return FT_V2(_mm256_sub_ps, a, b); }
FT_VEC v16 v_mul(v16 a, v16 b) { return FT_V2(_mm256_mul_ps, a, b); }
FT_VEC v16 v_div(v16 a, v16 b) { return FT_V2(_mm256_div_ps, a, b); }
FT_VEC v16 v_fma(v16 a, v16 b, v16 c) { return FT_V3(_mm256_fmadd_ps, a, b, c); }
FT_VEC v16 v_fnma(v16 a, v16 b, v16 c) { return FT_V3(_mm256_fnmadd_ps, a, b, c); }
FT_VEC v16 v_fms(v16 a, v16 b, v16 c) { return FT_V3(_mm256_fmsub_ps, a, b, c); }
FT_VEC v16 v_max(v16 a, v16 b) { return FT_V2(_mm256_max_ps, a, b); }
FT_VEC v16 v_min(v16 a, v16 b) { return FT_V2(_mm256_min_ps, a, b); }
FT_VEC v16 v_sqrt(v16 a) { return FT_V1(_mm256_sqrt_ps, a); }
FT_VEC v16 v_round(v16 a) {
    return (v16){_mm256_round_ps(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
                 _mm256_round_ps(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
FT_VEC v16 v_floor(v16 a) { return FT_V1(_mm256_floor_ps, a); }
FT_VEC m16 v_lt(v16 a, v16 b) { return FT_CMP(a, b, _CMP_LT_OQ); }
FT_VEC m16 v_le(v16 a, v16 b) { return FT_CMP(a, b, _CMP_LE_OQ); }
FT_VEC m16 v_gt(v16 a, v16 b) { return FT_CMP(a, b, _CMP_GT_OQ); }
FT_VEC m16 v_eq(v16 a, v16 b) { return FT_CMP(a, b, _CMP_EQ_OQ); }
FT_VEC m16 v_is_nan(v16 a) { return FT_CMP(a, a, _CMP_UNORD_Q); }
FT_VEC v16 v_select(m16 m, v16 yes, v16 no) {
    return (v16){_mm256_blendv_ps(no.lo, yes.lo, _mm256_castsi256_ps(m.lo)),
                 _mm256_blendv_ps(no.hi, yes.hi, _mm256_castsi256_ps(m.hi))};
}

FT_VEC float v_hsum(v16 a) {
    __m256 x = _mm256_add_ps(a.lo, a.hi);
    __m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_add_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}
FT_VEC float v_hmax(v16 a) {
    __m256 x = _mm256_max_ps(a.lo, a.hi);
    __m128 y = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    y = _mm_max_ps(y, _mm_movehl_ps(y, y));
    return _mm_cvtss_f32(_mm_max_ss(y, _mm_movehdup_ps(y)));
}

FT_VEC u16x u_set1(uint32_t a) { return (u16x){_mm256_set1_epi32((int)a), _mm256_set1_epi32((int)a)}; }
FT_VEC u16x u_iota(void) {
    return (u16x){_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}
FT_VEC u16x u_load(const uint32_t *p) {
    return (u16x){_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)(p + 8))};
}
FT_VEC void u_store(uint32_t *p, u16x a) {
    _mm256_storeu_si256((__m256i *)p, a.lo);
    _mm256_storeu_si256((__m256i *)(p + 8), a.hi);
}
FT_VEC u16x u_load_n(const uint32_t *p, int n) {
    m16 m = m_first(n);
    return (u16x){_mm256_maskload_epi32((const int *)p, m.lo), _mm256_maskload_epi32((const int *)(p + 8), m.hi)};
}
FT_VEC void u_store_n(uint32_t *p, u16x a, int n) {
    m16 m = m_first(n);
    _mm256_maskstore_epi32((int *)p, m.lo, a.lo);
    _mm256_maskstore_epi32((int *)(p + 8), m.hi, a.hi);
}
FT_VEC u16x u_load_u16(const uint16_t *p) {
    return (u16x){_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)),
                  _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
FT_VEC u16x u_load_u16_n(const uint16_t *p, int n) {
    uint16_t x[16] = {0};
    if (n > 0) memcpy(x, p, (size_t)(n < 16 ? n : 16) * sizeof *x);
    return u_load_u16(x);
}
FT_VEC void u_store_u16(uint16_t *p, u16x a) { // packing goes by halves of registers
    _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(_mm256_packus_epi32(a.lo, a.hi), 0xD8));
}
FT_VEC void u_store_u16_n(uint16_t *p, u16x a, int n) {
    uint16_t x[16];
    u_store_u16(x, a);
    if (n > 0) memcpy(p, x, (size_t)(n < 16 ? n : 16) * sizeof *x);
}
FT_VEC u16x u_add(u16x a, u16x b) { return FT_U2(_mm256_add_epi32, a, b); }
FT_VEC u16x u_sub(u16x a, u16x b) { return FT_U2(_mm256_sub_epi32, a, b); }
FT_VEC u16x u_mul(u16x a, u16x b) { return FT_U2(_mm256_mullo_epi32, a, b); }
FT_VEC void u_mul_wide_half(__m256i a, __m256i b, __m256i *high, __m256i *low) {
    __m256i even = _mm256_mul_epu32(a, b);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32));
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}
FT_VEC void u_mul_wide(u16x a, u16x b, u16x *high, u16x *low) {
    u_mul_wide_half(a.lo, b.lo, &high->lo, &low->lo);
    u_mul_wide_half(a.hi, b.hi, &high->hi, &low->hi);
}
FT_VEC u16x u_and(u16x a, u16x b) { return FT_U2(_mm256_and_si256, a, b); }
FT_VEC u16x u_andnot(u16x a, u16x b) { return FT_U2(_mm256_andnot_si256, a, b); }
FT_VEC u16x u_or(u16x a, u16x b) { return FT_U2(_mm256_or_si256, a, b); }
FT_VEC u16x u_xor(u16x a, u16x b) { return FT_U2(_mm256_xor_si256, a, b); }
FT_VEC u16x u_shl(u16x a, unsigned n) {
    __m128i count = _mm_cvtsi32_si128((int)n);
    return (u16x){_mm256_sll_epi32(a.lo, count), _mm256_sll_epi32(a.hi, count)};
}
FT_VEC u16x u_shr(u16x a, unsigned n) {
    __m128i count = _mm_cvtsi32_si128((int)n);
    return (u16x){_mm256_srl_epi32(a.lo, count), _mm256_srl_epi32(a.hi, count)};
}
FT_VEC m16 u_lt(u16x a, u16x b) { // AVX2 compares signed only: flipping the top bit maps one order onto the other
    u16x top = u_set1(0x80000000u);
    a = u_xor(a, top);
    b = u_xor(b, top);
    return FT_U2(_mm256_cmpgt_epi32, b, a);
}
FT_VEC m16 u_eq(u16x a, u16x b) { return FT_U2(_mm256_cmpeq_epi32, a, b); }
FT_VEC u16x u_select(m16 m, u16x yes, u16x no) {
    return (u16x){_mm256_blendv_epi8(no.lo, yes.lo, m.lo), _mm256_blendv_epi8(no.hi, yes.hi, m.hi)};
}
FT_VEC u16x u_bits(v16 a) { return (u16x){_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
FT_VEC v16 v_bits(u16x a) { return (v16){_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
FT_VEC v16 v_from_i(u16x a) { return (v16){_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
FT_VEC u16x u_from_v(v16 a) { return (u16x){_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }

// out[0..3] in memory order = a0 b0 c0 d0 a1 b1 c1 d1 ... d15.
FT_VEC void u_interleave4_half(__m256i a, __m256i b, __m256i c, __m256i d, u16x out[2]) {
    __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
    __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
    __m256i q0 = _mm256_unpacklo_epi64(ab0, cd0), q1 = _mm256_unpackhi_epi64(ab0, cd0); // quads 0,4 and 1,5
    __m256i q2 = _mm256_unpacklo_epi64(ab1, cd1), q3 = _mm256_unpackhi_epi64(ab1, cd1); // quads 2,6 and 3,7
    out[0] = (u16x){_mm256_permute2x128_si256(q0, q1, 0x20), _mm256_permute2x128_si256(q2, q3, 0x20)};
    out[1] = (u16x){_mm256_permute2x128_si256(q0, q1, 0x31), _mm256_permute2x128_si256(q2, q3, 0x31)};
}
FT_VEC void u_interleave4(u16x a, u16x b, u16x c, u16x d, u16x out[4]) {
    u_interleave4_half(a.lo, b.lo, c.lo, d.lo, out);
    u_interleave4_half(a.hi, b.hi, c.hi, d.hi, out + 2);
}

#undef FT_V1
#undef FT_V2
#undef FT_V3
#undef FT_U2
#undef FT_CMP

#endif
