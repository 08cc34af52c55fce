// vec_neon.h - vec.h for 64-bit ARM: lanes 4 i to 4 i + 3 in q[i]. Include vec.h, not this.
//
// The bits are those of x86-64, where an instruction of the same purpose often has others. Hence: maxima by comparison
// (FMAX has opinions on NaN and zeros), what fits no int32 becomes 0x80000000, sums in the order of vec.h (not
// FADDP's), shifts of 32 and more give 0, and neither FRECPE nor FRSQRTE.
#ifndef FT_CPU_VEC_NEON_H
#define FT_CPU_VEC_NEON_H

typedef struct v16 {
    float32x4_t q[4];
} v16;
typedef struct u16x {
    uint32x4_t q[4];
} u16x;
typedef u16x m16; // all ones or all zeros a lane

#define FT_1(type, f, a) ((type){{f((a).q[0]), f((a).q[1]), f((a).q[2]), f((a).q[3])}})
#define FT_2(type, f, a, b)                                                                                            \
    ((type){{f((a).q[0], (b).q[0]), f((a).q[1], (b).q[1]), f((a).q[2], (b).q[2]), f((a).q[3], (b).q[3])}})
#define FT_3(type, f, a, b, c)                                                                                         \
    ((type){{f((a).q[0], (b).q[0], (c).q[0]), f((a).q[1], (b).q[1], (c).q[1]), f((a).q[2], (b).q[2], (c).q[2]),        \
             f((a).q[3], (b).q[3], (c).q[3])}})
#define FT_ALL(type, x) ((type){{x, x, x, x}})

FT_VEC u16x u_set1(uint32_t a) { return FT_ALL(u16x, vdupq_n_u32(a)); }
FT_VEC u16x u_load(const uint32_t *p) {
    return (u16x){{vld1q_u32(p), vld1q_u32(p + 4), vld1q_u32(p + 8), vld1q_u32(p + 12)}};
}
FT_VEC void u_store(uint32_t *p, u16x a) {
    for (int i = 0; i < 4; i++)
        vst1q_u32(p + 4 * i, a.q[i]);
}
FT_VEC u16x u_iota(void) {
    static const uint32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return u_load(lanes);
}
FT_VEC u16x u_load_n(const uint32_t *p, int n) {
    uint32_t x[16] = {0};
    if (n > 0) memcpy(x, p, (size_t)(n < 16 ? n : 16) * sizeof *x);
    return u_load(x);
}
FT_VEC void u_store_n(uint32_t *p, u16x a, int n) {
    uint32_t x[16];
    u_store(x, a);
    if (n > 0) memcpy(p, x, (size_t)(n < 16 ? n : 16) * sizeof *x);
}
FT_VEC u16x u_load_u16(const uint16_t *p) {
    const uint16x8_t low = vld1q_u16(p), high = vld1q_u16(p + 8);
    return (u16x){
        {vmovl_u16(vget_low_u16(low)), vmovl_high_u16(low), vmovl_u16(vget_low_u16(high)), vmovl_high_u16(high)}};
}
FT_VEC u16x u_load_u16_n(const uint16_t *p, int n) {
    uint16_t x[16] = {0};
    if (n > 0) memcpy(x, p, (size_t)(n < 16 ? n : 16) * sizeof *x);
    return u_load_u16(x);
}
FT_VEC void u_store_u16(uint16_t *p, u16x a) {
    vst1q_u16(p, vmovn_high_u32(vmovn_u32(a.q[0]), a.q[1]));
    vst1q_u16(p + 8, vmovn_high_u32(vmovn_u32(a.q[2]), a.q[3]));
}
FT_VEC void u_store_u16_n(uint16_t *p, u16x a, int n) {
    uint16_t x[16];
    u_store_u16(x, a);
    if (n > 0) memcpy(p, x, (size_t)(n < 16 ? n : 16) * sizeof *x);
}
FT_VEC u16x u_add(u16x a, u16x b) { return FT_2(u16x, vaddq_u32, a, b); }
FT_VEC u16x u_sub(u16x a, u16x b) { return FT_2(u16x, vsubq_u32, a, b); }
FT_VEC u16x u_mul(u16x a, u16x b) { return FT_2(u16x, vmulq_u32, a, b); }
FT_VEC void u_mul_wide(u16x a, u16x b, u16x *high, u16x *low) {
    for (int i = 0; i < 4; i++) {
        const uint32x4_t first = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(a.q[i]), vget_low_u32(b.q[i])));
        const uint32x4_t second = vreinterpretq_u32_u64(vmull_high_u32(a.q[i], b.q[i]));
        low->q[i] = vuzp1q_u32(first, second);
        high->q[i] = vuzp2q_u32(first, second);
    }
}
FT_VEC u16x u_and(u16x a, u16x b) { return FT_2(u16x, vandq_u32, a, b); }
FT_VEC u16x u_andnot(u16x a, u16x b) { return FT_2(u16x, vbicq_u32, b, a); } // b and not a
FT_VEC u16x u_or(u16x a, u16x b) { return FT_2(u16x, vorrq_u32, a, b); }
FT_VEC u16x u_xor(u16x a, u16x b) { return FT_2(u16x, veorq_u32, a, b); }
FT_VEC u16x u_shift(u16x a, int32_t left) {
    const int32x4_t count = vdupq_n_s32(left);
    return (u16x){
        {vshlq_u32(a.q[0], count), vshlq_u32(a.q[1], count), vshlq_u32(a.q[2], count), vshlq_u32(a.q[3], count)}};
}
// The instruction takes the low byte of a count.
FT_VEC u16x u_shl(u16x a, unsigned n) { return u_shift(a, n < 32 ? (int32_t)n : 32); }
FT_VEC u16x u_shr(u16x a, unsigned n) { return u_shift(a, n < 32 ? -(int32_t)n : -32); }
FT_VEC m16 u_lt(u16x a, u16x b) { return FT_2(m16, vcltq_u32, a, b); }
FT_VEC m16 u_eq(u16x a, u16x b) { return FT_2(m16, vceqq_u32, a, b); }
FT_VEC u16x u_select(m16 m, u16x yes, u16x no) { return FT_3(u16x, vbslq_u32, m, yes, no); }

FT_VEC m16 m_first(int n) { return u_lt(u_iota(), u_set1(n > 0 ? (uint32_t)n : 0)); }
FT_VEC m16 m_and(m16 a, m16 b) { return u_and(a, b); }
FT_VEC m16 m_or(m16 a, m16 b) { return u_or(a, b); }
FT_VEC m16 m_not(m16 a) { return FT_1(m16, vmvnq_u32, a); }
FT_VEC int m_any(m16 a) { return vmaxvq_u32(vorrq_u32(vorrq_u32(a.q[0], a.q[1]), vorrq_u32(a.q[2], a.q[3]))) != 0; }

FT_VEC u16x u_bits(v16 a) { return FT_1(u16x, vreinterpretq_u32_f32, a); }
FT_VEC v16 v_bits(u16x a) { return FT_1(v16, vreinterpretq_f32_u32, a); }
FT_VEC v16 v_load(const float *p) {
    return (v16){{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}
FT_VEC void v_store(float *p, v16 a) {
    for (int i = 0; i < 4; i++)
        vst1q_f32(p + 4 * i, a.q[i]);
}
FT_VEC v16 v_load_n(const float *p, int n) {
    float x[16] = {0};
    if (n > 0) memcpy(x, p, (size_t)(n < 16 ? n : 16) * sizeof *x);
    return v_load(x);
}
FT_VEC void v_store_n(float *p, v16 a, int n) {
    float x[16];
    v_store(x, a);
    if (n > 0) memcpy(p, x, (size_t)(n < 16 ? n : 16) * sizeof *x);
}
FT_VEC v16 v_set1(float a) { return FT_ALL(v16, vdupq_n_f32(a)); }
FT_VEC v16 v_zero(void) { return v_set1(0.0f); }
FT_VEC v16 v_add(v16 a, v16 b) { return FT_2(v16, vaddq_f32, a, b); }
FT_VEC v16 v_sub(v16 a, v16 b) { return FT_2(v16, vsubq_f32, a, b); }
FT_VEC v16 v_mul(v16 a, v16 b) { return FT_2(v16, vmulq_f32, a, b); }
FT_VEC v16 v_div(v16 a, v16 b) { return FT_2(v16, vdivq_f32, a, b); }
FT_VEC v16 v_fma(v16 a, v16 b, v16 c) { return FT_3(v16, vfmaq_f32, c, a, b); }
FT_VEC v16 v_fnma(v16 a, v16 b, v16 c) { return FT_3(v16, vfmsq_f32, c, a, b); }
FT_VEC v16 v_fms(v16 a, v16 b, v16 c) {
    const v16 less = FT_1(v16, vnegq_f32, c);
    return FT_3(v16, vfmaq_f32, less, a, b);
}
FT_VEC m16 v_lt(v16 a, v16 b) { return FT_2(m16, vcltq_f32, a, b); }
FT_VEC m16 v_le(v16 a, v16 b) { return FT_2(m16, vcleq_f32, a, b); }
FT_VEC m16 v_gt(v16 a, v16 b) { return FT_2(m16, vcgtq_f32, a, b); }
FT_VEC m16 v_eq(v16 a, v16 b) { return FT_2(m16, vceqq_f32, a, b); }
FT_VEC m16 v_is_nan(v16 a) { return m_not(FT_2(m16, vceqq_f32, a, a)); }
FT_VEC v16 v_select(m16 m, v16 yes, v16 no) { return FT_3(v16, vbslq_f32, m, yes, no); }
FT_VEC v16 v_max(v16 a, v16 b) { return v_select(v_gt(a, b), a, b); }
FT_VEC v16 v_min(v16 a, v16 b) { return v_select(v_lt(a, b), a, b); }
FT_VEC v16 v_sqrt(v16 a) { return FT_1(v16, vsqrtq_f32, a); }
FT_VEC v16 v_round(v16 a) { return FT_1(v16, vrndnq_f32, a); }
FT_VEC v16 v_floor(v16 a) { return FT_1(v16, vrndmq_f32, a); }
FT_VEC v16 v_from_i(u16x a) {
    v16 r;
    for (int i = 0; i < 4; i++)
        r.q[i] = vcvtq_f32_s32(vreinterpretq_s32_u32(a.q[i]));
    return r;
}
FT_VEC u16x u_from_v(v16 a) {
    u16x r;
    for (int i = 0; i < 4; i++) {
        const uint32x4_t fits =
            vandq_u32(vcgeq_f32(a.q[i], vdupq_n_f32(-0x1p31f)), vcltq_f32(a.q[i], vdupq_n_f32(0x1p31f)));
        r.q[i] = vbslq_u32(fits, vreinterpretq_u32_s32(vcvtnq_s32_f32(a.q[i])), vdupq_n_u32(0x80000000u));
    }
    return r;
}

FT_VEC float v_hsum(v16 a) {
    const float32x4_t x = vaddq_f32(vaddq_f32(a.q[0], a.q[2]), vaddq_f32(a.q[1], a.q[3]));
    const float32x2_t y = vadd_f32(vget_low_f32(x), vget_high_f32(x));
    return vget_lane_f32(y, 0) + vget_lane_f32(y, 1);
}
FT_VEC float v_hmax(v16 a) {
    const v16 swapped = {{a.q[2], a.q[3], a.q[0], a.q[1]}}, x = v_max(a, swapped);
    float y[8];
    vst1q_f32(y, x.q[0]);
    vst1q_f32(y + 4, x.q[1]);
    for (int width = 4; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            y[i] = y[i] > y[i + width] ? y[i] : y[i + width];
    return y[0];
}

// out[0..3] in memory order = a0 b0 c0 d0 a1 b1 c1 d1 ... d15.
FT_VEC uint32x4_t u_low_pairs(uint32x4_t a, uint32x4_t b) {
    return vreinterpretq_u32_u64(vzip1q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)));
}
FT_VEC uint32x4_t u_high_pairs(uint32x4_t a, uint32x4_t b) {
    return vreinterpretq_u32_u64(vzip2q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)));
}
FT_VEC void u_interleave4(u16x a, u16x b, u16x c, u16x d, u16x out[4]) {
    for (int i = 0; i < 4; i++) {
        const uint32x4_t ab = vzip1q_u32(a.q[i], b.q[i]), cd = vzip1q_u32(c.q[i], d.q[i]);
        const uint32x4_t ab2 = vzip2q_u32(a.q[i], b.q[i]), cd2 = vzip2q_u32(c.q[i], d.q[i]);
        out[i].q[0] = u_low_pairs(ab, cd);
        out[i].q[1] = u_high_pairs(ab, cd);
        out[i].q[2] = u_low_pairs(ab2, cd2);
        out[i].q[3] = u_high_pairs(ab2, cd2);
    }
}

#undef FT_1
#undef FT_2
#undef FT_3
#undef FT_ALL

#endif
