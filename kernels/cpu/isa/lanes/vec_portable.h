// vec_portable.h - vec.h in plain C, for other processors and as the reference in tests. Include vec.h, not this.
#ifndef FT_CPU_VEC_PORTABLE_H
#define FT_CPU_VEC_PORTABLE_H

#include <math.h>

typedef struct v16 {
    float x[16];
} v16;
typedef struct u16x {
    uint32_t x[16];
} u16x;
typedef u16x m16; // all ones or all zeros a lane

#define FT_EACH(type, expression)                                                                                      \
    do {                                                                                                               \
        type r_;                                                                                                       \
        for (int i = 0; i < 16; i++)                                                                                   \
            r_.x[i] = (expression);                                                                                    \
        return r_;                                                                                                     \
    } while (0)
#define FT_TRUTH(condition) ((condition) ? 0xFFFFFFFFu : 0u)

FT_VEC m16 m_first(int n) { FT_EACH(m16, FT_TRUTH(i < n)); }
FT_VEC m16 m_and(m16 a, m16 b) { FT_EACH(m16, a.x[i] & b.x[i]); }
FT_VEC m16 m_or(m16 a, m16 b) { FT_EACH(m16, a.x[i] | b.x[i]); }
FT_VEC m16 m_not(m16 a) { FT_EACH(m16, ~a.x[i]); }
FT_VEC int m_any(m16 a) {
    uint32_t any = 0;
    for (int i = 0; i < 16; i++)
        any |= a.x[i];
    return any != 0;
}

FT_VEC v16 v_load(const float *p) { FT_EACH(v16, p[i]); }
FT_VEC void v_store(float *p, v16 a) { memcpy(p, a.x, sizeof a.x); }
FT_VEC v16 v_load_n(const float *p, int n) { FT_EACH(v16, i < n ? p[i] : 0.0f); }
FT_VEC void v_store_n(float *p, v16 a, int n) {
    for (int i = 0; i < n && i < 16; i++)
        p[i] = a.x[i];
}
FT_VEC v16 v_set1(float a) { FT_EACH(v16, a); }
FT_VEC v16 v_zero(void) { FT_EACH(v16, 0.0f); }
FT_VEC v16 v_add(v16 a, v16 b) { FT_EACH(v16, a.x[i] + b.x[i]); }
FT_VEC v16 v_sub(v16 a, v16 b) { FT_EACH(v16, a.x[i] - b.x[i]); }
FT_VEC v16 v_mul(v16 a, v16 b) { FT_EACH(v16, a.x[i] * b.x[i]); }
FT_VEC v16 v_div(v16 a, v16 b) { FT_EACH(v16, a.x[i] / b.x[i]); }
FT_VEC v16 v_fma(v16 a, v16 b, v16 c) { FT_EACH(v16, fmaf(a.x[i], b.x[i], c.x[i])); }
FT_VEC v16 v_fnma(v16 a, v16 b, v16 c) { FT_EACH(v16, fmaf(-a.x[i], b.x[i], c.x[i])); }
FT_VEC v16 v_fms(v16 a, v16 b, v16 c) { FT_EACH(v16, fmaf(a.x[i], b.x[i], -c.x[i])); }
FT_VEC v16 v_max(v16 a, v16 b) { FT_EACH(v16, a.x[i] > b.x[i] ? a.x[i] : b.x[i]); }
FT_VEC v16 v_min(v16 a, v16 b) { FT_EACH(v16, a.x[i] < b.x[i] ? a.x[i] : b.x[i]); }
FT_VEC v16 v_sqrt(v16 a) { FT_EACH(v16, sqrtf(a.x[i])); }
FT_VEC v16 v_round(v16 a) { FT_EACH(v16, rintf(a.x[i])); }
FT_VEC v16 v_floor(v16 a) { FT_EACH(v16, floorf(a.x[i])); }
FT_VEC m16 v_lt(v16 a, v16 b) { FT_EACH(m16, FT_TRUTH(a.x[i] < b.x[i])); }
FT_VEC m16 v_le(v16 a, v16 b) { FT_EACH(m16, FT_TRUTH(a.x[i] <= b.x[i])); }
FT_VEC m16 v_gt(v16 a, v16 b) { FT_EACH(m16, FT_TRUTH(a.x[i] > b.x[i])); }
FT_VEC m16 v_eq(v16 a, v16 b) { FT_EACH(m16, FT_TRUTH(a.x[i] == b.x[i])); }
FT_VEC m16 v_is_nan(v16 a) { FT_EACH(m16, FT_TRUTH(isnan(a.x[i]))); }
FT_VEC v16 v_select(m16 m, v16 yes, v16 no) { FT_EACH(v16, m.x[i] ? yes.x[i] : no.x[i]); }

FT_VEC float v_hsum(v16 a) {
    for (int width = 8; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            a.x[i] = a.x[i] + a.x[i + width];
    return a.x[0];
}
FT_VEC float v_hmax(v16 a) {
    for (int width = 8; width > 0; width /= 2)
        for (int i = 0; i < width; i++)
            a.x[i] = a.x[i] > a.x[i + width] ? a.x[i] : a.x[i + width];
    return a.x[0];
}

FT_VEC u16x u_set1(uint32_t a) { FT_EACH(u16x, a); }
FT_VEC u16x u_iota(void) { FT_EACH(u16x, (uint32_t)i); }
FT_VEC u16x u_load(const uint32_t *p) { FT_EACH(u16x, p[i]); }
FT_VEC void u_store(uint32_t *p, u16x a) { memcpy(p, a.x, sizeof a.x); }
FT_VEC u16x u_load_n(const uint32_t *p, int n) { FT_EACH(u16x, i < n ? p[i] : 0); }
FT_VEC void u_store_n(uint32_t *p, u16x a, int n) {
    for (int i = 0; i < n && i < 16; i++)
        p[i] = a.x[i];
}
FT_VEC u16x u_load_u16(const uint16_t *p) { FT_EACH(u16x, p[i]); }
FT_VEC u16x u_load_u16_n(const uint16_t *p, int n) { FT_EACH(u16x, i < n ? p[i] : 0); }
FT_VEC void u_store_u16(uint16_t *p, u16x a) {
    for (int i = 0; i < 16; i++)
        p[i] = (uint16_t)a.x[i];
}
FT_VEC void u_store_u16_n(uint16_t *p, u16x a, int n) {
    for (int i = 0; i < n && i < 16; i++)
        p[i] = (uint16_t)a.x[i];
}
FT_VEC u16x u_add(u16x a, u16x b) { FT_EACH(u16x, a.x[i] + b.x[i]); }
FT_VEC u16x u_sub(u16x a, u16x b) { FT_EACH(u16x, a.x[i] - b.x[i]); }
FT_VEC u16x u_mul(u16x a, u16x b) { FT_EACH(u16x, a.x[i] * b.x[i]); }
FT_VEC void u_mul_wide(u16x a, u16x b, u16x *high, u16x *low) {
    for (int i = 0; i < 16; i++) {
        uint64_t product = (uint64_t)a.x[i] * b.x[i];
        high->x[i] = (uint32_t)(product >> 32);
        low->x[i] = (uint32_t)product;
    }
}
FT_VEC u16x u_and(u16x a, u16x b) { FT_EACH(u16x, a.x[i] & b.x[i]); }
FT_VEC u16x u_andnot(u16x a, u16x b) { FT_EACH(u16x, ~a.x[i] & b.x[i]); }
FT_VEC u16x u_or(u16x a, u16x b) { FT_EACH(u16x, a.x[i] | b.x[i]); }
FT_VEC u16x u_xor(u16x a, u16x b) { FT_EACH(u16x, a.x[i] ^ b.x[i]); }
FT_VEC u16x u_shl(u16x a, unsigned n) { FT_EACH(u16x, n < 32 ? a.x[i] << n : 0); }
FT_VEC u16x u_shr(u16x a, unsigned n) { FT_EACH(u16x, n < 32 ? a.x[i] >> n : 0); }
FT_VEC m16 u_lt(u16x a, u16x b) { FT_EACH(m16, FT_TRUTH(a.x[i] < b.x[i])); }
FT_VEC m16 u_eq(u16x a, u16x b) { FT_EACH(m16, FT_TRUTH(a.x[i] == b.x[i])); }
FT_VEC u16x u_select(m16 m, u16x yes, u16x no) { FT_EACH(u16x, m.x[i] ? yes.x[i] : no.x[i]); }
FT_VEC u16x u_bits(v16 a) {
    u16x r;
    memcpy(&r, &a, sizeof r);
    return r;
}
FT_VEC v16 v_bits(u16x a) {
    v16 r;
    memcpy(&r, &a, sizeof r);
    return r;
}
FT_VEC v16 v_from_i(u16x a) { FT_EACH(v16, (float)(int32_t)a.x[i]); }
// What does not fit becomes 0x80000000, as the x86 instruction answers.
FT_VEC u16x u_from_v(v16 a) {
    FT_EACH(u16x, a.x[i] >= -0x1p31f && a.x[i] < 0x1p31f ? (uint32_t)(int32_t)rintf(a.x[i]) : 0x80000000u);
}

// out[0..3] in memory order = a0 b0 c0 d0 a1 b1 c1 d1 ... d15.
FT_VEC void u_interleave4(u16x a, u16x b, u16x c, u16x d, u16x out[4]) {
    for (int i = 0; i < 16; i++) {
        uint32_t *quad = &out[i / 4].x[i % 4 * 4];
        quad[0] = a.x[i];
        quad[1] = b.x[i];
        quad[2] = c.x[i];
        quad[3] = d.x[i];
    }
}

#undef FT_EACH
#undef FT_TRUTH

#endif
