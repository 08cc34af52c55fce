// reg.h - one register of fp32, whatever its width, and the tile of a matrix product that the registers hold.
#ifndef FT_CPU_REG_H
#define FT_CPU_REG_H

#include "kernels/cpu/isa/lanes/vec.h"

#if defined(FT_ISA_avx512)
typedef __m512 reg;
enum { REG_LANES = 16, TILE_ROWS = 8, TILE_REGS = 3 };
FT_VEC reg reg_load(const float *p) { return _mm512_loadu_ps(p); }
FT_VEC reg reg_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
FT_VEC void reg_store(float *p, reg a) { _mm512_storeu_ps(p, a); }
FT_VEC void reg_store_n(float *p, reg a, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), a); }
FT_VEC reg reg_set1(float a) { return _mm512_set1_ps(a); }
FT_VEC reg reg_zero(void) { return _mm512_setzero_ps(); }
FT_VEC reg reg_add(reg a, reg b) { return _mm512_add_ps(a, b); }
FT_VEC reg reg_fma(reg a, reg b, reg c) { return _mm512_fmadd_ps(a, b, c); }
#elif defined(FT_ISA_avx2)
typedef __m256 reg;
enum { REG_LANES = 8, TILE_ROWS = 6, TILE_REGS = 2 };
FT_VEC __m256i reg_first(int n) {
    static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(ones + 8 - n));
}
FT_VEC reg reg_load(const float *p) { return _mm256_loadu_ps(p); }
FT_VEC reg reg_load_n(const float *p, int n) { return _mm256_maskload_ps(p, reg_first(n)); }
FT_VEC void reg_store(float *p, reg a) { _mm256_storeu_ps(p, a); }
FT_VEC void reg_store_n(float *p, reg a, int n) { _mm256_maskstore_ps(p, reg_first(n), a); }
FT_VEC reg reg_set1(float a) { return _mm256_set1_ps(a); }
FT_VEC reg reg_zero(void) { return _mm256_setzero_ps(); }
FT_VEC reg reg_add(reg a, reg b) { return _mm256_add_ps(a, b); }
FT_VEC reg reg_fma(reg a, reg b, reg c) { return _mm256_fmadd_ps(a, b, c); }
#elif defined(FT_ISA_neon)
typedef float32x4_t reg;
enum { REG_LANES = 4, TILE_ROWS = 8, TILE_REGS = 3 };
FT_VEC reg reg_load(const float *p) { return vld1q_f32(p); }
FT_VEC reg reg_load_n(const float *p, int n) {
    float x[4] = {0};
    memcpy(x, p, (size_t)n * sizeof *x);
    return vld1q_f32(x);
}
FT_VEC void reg_store(float *p, reg a) { vst1q_f32(p, a); }
FT_VEC void reg_store_n(float *p, reg a, int n) {
    float x[4];
    vst1q_f32(x, a);
    memcpy(p, x, (size_t)n * sizeof *x);
}
FT_VEC reg reg_set1(float a) { return vdupq_n_f32(a); }
FT_VEC reg reg_zero(void) { return vdupq_n_f32(0); }
FT_VEC reg reg_add(reg a, reg b) { return vaddq_f32(a, b); }
FT_VEC reg reg_fma(reg a, reg b, reg c) { return vfmaq_f32(c, a, b); }
#else
typedef struct reg {
    float x[4];
} reg;
enum { REG_LANES = 4, TILE_ROWS = 4, TILE_REGS = 4 };
#define FT_EACH(expression)                                                                                            \
    do {                                                                                                               \
        reg r_;                                                                                                        \
        for (int i = 0; i < 4; i++)                                                                                    \
            r_.x[i] = (expression);                                                                                    \
        return r_;                                                                                                     \
    } while (0)
FT_VEC reg reg_load(const float *p) { FT_EACH(p[i]); }
FT_VEC reg reg_load_n(const float *p, int n) { FT_EACH(i < n ? p[i] : 0.0f); }
FT_VEC void reg_store(float *p, reg a) { memcpy(p, a.x, sizeof a.x); }
FT_VEC void reg_store_n(float *p, reg a, int n) {
    for (int i = 0; i < n; i++)
        p[i] = a.x[i];
}
FT_VEC reg reg_set1(float a) { FT_EACH(a); }
FT_VEC reg reg_zero(void) { FT_EACH(0.0f); }
FT_VEC reg reg_add(reg a, reg b) { FT_EACH(a.x[i] + b.x[i]); }
FT_VEC reg reg_fma(reg a, reg b, reg c) { FT_EACH(fmaf(a.x[i], b.x[i], c.x[i])); }
#undef FT_EACH
#endif
enum { PANEL = REG_LANES * TILE_REGS };

// An 8 x 8 block: out[p * out_row + i] = in[i * in_row + p].
#if defined(FT_ISA_portable)
FT_VEC void transpose8(const float *in, int64_t in_row, float *out, int64_t out_row) {
    for (int p = 0; p < 8; p++)
        for (int i = 0; i < 8; i++)
            out[p * out_row + i] = in[i * in_row + p];
}
#elif defined(FT_ISA_neon)
FT_VEC void transpose8(const float *in, int64_t in_row, float *out, int64_t out_row) {
    for (int i = 0; i < 8; i += 4)
        for (int p = 0; p < 8; p += 4) { // four registers of a block come out as its columns
            const float *from = in + i * in_row + p;
            const float32x4_t a = vld1q_f32(from), b = vld1q_f32(from + in_row), c = vld1q_f32(from + 2 * in_row),
                              d = vld1q_f32(from + 3 * in_row);
            const float32x4_t ac = vzip1q_f32(a, c), bd = vzip1q_f32(b, d), ac2 = vzip2q_f32(a, c), bd2 = vzip2q_f32(b, d);
            float *to = out + p * out_row + i;
            vst1q_f32(to, vzip1q_f32(ac, bd));
            vst1q_f32(to + out_row, vzip2q_f32(ac, bd));
            vst1q_f32(to + 2 * out_row, vzip1q_f32(ac2, bd2));
            vst1q_f32(to + 3 * out_row, vzip2q_f32(ac2, bd2));
        }
}
#else
// Rows i and i+4 are loaded as halves of one register: what is left are swaps inside 128 bits.
FT_VEC __m256 load_pair(const float *low, const float *high) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}
FT_VEC void transpose8(const float *in, int64_t in_row, float *out, int64_t out_row) {
    for (int half = 0; half < 8; half += 4) {
        const float *p = in + half;
        __m256 r0 = load_pair(p, p + 4 * in_row), r1 = load_pair(p + in_row, p + 5 * in_row);
        __m256 r2 = load_pair(p + 2 * in_row, p + 6 * in_row), r3 = load_pair(p + 3 * in_row, p + 7 * in_row);
        __m256 x = _mm256_unpacklo_ps(r0, r1), y = _mm256_unpackhi_ps(r0, r1);
        __m256 z = _mm256_unpacklo_ps(r2, r3), w = _mm256_unpackhi_ps(r2, r3);
        float *q = out + half * out_row;
        _mm256_storeu_ps(q, _mm256_shuffle_ps(x, z, 0x44));
        _mm256_storeu_ps(q + out_row, _mm256_shuffle_ps(x, z, 0xEE));
        _mm256_storeu_ps(q + 2 * out_row, _mm256_shuffle_ps(y, w, 0x44));
        _mm256_storeu_ps(q + 3 * out_row, _mm256_shuffle_ps(y, w, 0xEE));
    }
}
#endif

#endif
