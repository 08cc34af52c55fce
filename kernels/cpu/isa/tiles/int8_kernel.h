// int8_kernel.h - a tile of a product of 8 bits: sums of m rows and nv strips of 16 outputs stay in registers while k runs.
//
// Sums of int32 are exact, so every instruction set has its own ways: VPDPBUSD, which multiplies u8 by s8 and adds four products, of AVX-512
// or of AVX2 alone (AVX-VNNI); or both widened to 16 bits, the even bytes of a word apart from the odd ones, and VPMADDWD. (VPMADDUBSW
// saturates.) On ARM USDOT is VPDPBUSD. SDOT, which more chips have, and SMULL, which all have, take s8 by s8: codes less 128, and 128 times
// the sum of an output's weights to begin with. (USMMLA would be twice as wide and wants other strips.)
#ifndef FT_CPU_INT8_KERNEL_H
#define FT_CPU_INT8_KERNEL_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/int8_plan.h"
#include "kernels/cpu/isa/lanes/vec.h"
#include "kernels/cpu/isa/tiles/amx.h"

typedef struct int8_tile {
    int64_t words;        // of four numbers along k
    const uint8_t *a;     // row i at a + i * length
    int64_t length;
    const int8_t *b;      // strip j at b + j * 16 * length
    const float *steps;   // of the tile's rows
    const int32_t *zeros;
    const int32_t *sums;  // of the tile's outputs
    const float *scales;
    const float *bias[FT_INT8_STRIPS]; // of every strip; NULL: none
    float *c[FT_INT8_STRIPS];          // row 0 of every strip
    int lanes[FT_INT8_STRIPS];         // outputs of every strip, 1..16
    int64_t ldc;
} int8_tile;

// a: four codes of a row in every lane; b: of 16 outputs. wide_*: the same as the tile multiplies them by 16 bits.
#if defined(FT_ISA_avx512)
enum { INT8_TILE_ROWS = 8, INT8_TILE_STRIPS = 3 };
typedef struct wide_words {
    __m512i even, odd;
} wide_words;
FT_VEC u16x word_of(const uint8_t *p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm512_set1_epi32(word);
}
FT_VEC u16x words_of(const int8_t *p) { return _mm512_loadu_si512(p); }
FT_VEC wide_words wide_codes(u16x a) {
    const __m512i low = _mm512_set1_epi16(0xFF);
    return (wide_words){_mm512_and_si512(a, low), _mm512_srli_epi16(a, 8)};
}
FT_VEC wide_words wide_weights(u16x b) {
    return (wide_words){_mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8), _mm512_srai_epi16(b, 8)};
}
FT_VEC void add_wide(u16x *sum, wide_words a, wide_words b) {
    *sum = _mm512_add_epi32(*sum, _mm512_madd_epi16(a.even, b.even));
    *sum = _mm512_add_epi32(*sum, _mm512_madd_epi16(a.odd, b.odd));
}
// By hand: of the intrinsic gcc 12 copies every sum.
FT_VEC void add_dot(u16x *sum, u16x a, u16x b) { __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b)); }
#elif defined(FT_ISA_avx2)
enum { INT8_TILE_ROWS = 4, INT8_TILE_STRIPS = 1 };
typedef struct wide_words {
    __m256i even[2], odd[2];
} wide_words;
FT_VEC u16x word_of(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return u_set1(word);
}
FT_VEC u16x words_of(const int8_t *p) { return u_load((const uint32_t *)(const void *)p); }
FT_VEC wide_words wide_codes(u16x a) {
    const __m256i low = _mm256_set1_epi16(0xFF);
    return (wide_words){{_mm256_and_si256(a.lo, low), _mm256_and_si256(a.hi, low)},
                        {_mm256_srli_epi16(a.lo, 8), _mm256_srli_epi16(a.hi, 8)}};
}
FT_VEC wide_words wide_weights(u16x b) {
    return (wide_words){{_mm256_srai_epi16(_mm256_slli_epi16(b.lo, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(b.hi, 8), 8)},
                        {_mm256_srai_epi16(b.lo, 8), _mm256_srai_epi16(b.hi, 8)}};
}
FT_VEC void add_wide(u16x *sum, wide_words a, wide_words b) {
    sum->lo = _mm256_add_epi32(sum->lo, _mm256_madd_epi16(a.even[0], b.even[0]));
    sum->hi = _mm256_add_epi32(sum->hi, _mm256_madd_epi16(a.even[1], b.even[1]));
    sum->lo = _mm256_add_epi32(sum->lo, _mm256_madd_epi16(a.odd[0], b.odd[0]));
    sum->hi = _mm256_add_epi32(sum->hi, _mm256_madd_epi16(a.odd[1], b.odd[1]));
}
#ifndef FT_VNNI_ENCODING // a test asks for AVX-512's, %{evex%}, of the same operation
#define FT_VNNI_ENCODING "%{vex%}"
#endif
FT_VEC void add_dot(u16x *sum, u16x a, u16x b) {
    __asm__(FT_VNNI_ENCODING " vpdpbusd %2, %1, %0" : "+x"(sum->lo) : "x"(a.lo), "x"(b.lo));
    __asm__(FT_VNNI_ENCODING " vpdpbusd %2, %1, %0" : "+x"(sum->hi) : "x"(a.hi), "x"(b.hi));
}
#elif defined(FT_ISA_neon)
enum { INT8_TILE_ROWS = 4, INT8_TILE_STRIPS = 1 };
typedef u16x wide_words; // bytes as they are: SMULL widens them
FT_VEC u16x word_of(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return u_set1(word);
}
FT_VEC u16x words_of(const int8_t *p) { return u_load((const uint32_t *)(const void *)p); }
FT_VEC wide_words wide_codes(u16x a) { return u_xor(a, u_set1(0x80808080u)); } // less 128, as s8
FT_VEC wide_words wide_weights(u16x b) { return b; }
// Pairs of products of an output, added as 32 bits, twice.
FT_VEC void add_wide(u16x *sum, wide_words a, wide_words b) {
    for (int i = 0; i < 4; i++) {
        const int8x16_t x = vreinterpretq_s8_u32(a.q[i]), y = vreinterpretq_s8_u32(b.q[i]);
        const int32x4_t first = vpaddlq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(y))), second = vpaddlq_s16(vmull_high_s8(x, y));
        sum->q[i] = vaddq_u32(sum->q[i], vreinterpretq_u32_s32(vpaddq_s32(first, second)));
    }
}
// By hand: intrinsics would want a compiler told that every chip has them. The assembler is told, for good.
#define FT_ARM_UNITS ".arch armv8.2-a+dotprod+i8mm\n\t"
FT_VEC void add_dot(u16x *sum, u16x a, u16x b) {
    for (int i = 0; i < 4; i++)
        __asm__(FT_ARM_UNITS "usdot %0.4s, %1.16b, %2.16b" : "+w"(sum->q[i]) : "w"(a.q[i]), "w"(b.q[i]));
}
FT_VEC void add_signed_dot(u16x *sum, u16x a, u16x b) {
    for (int i = 0; i < 4; i++)
        __asm__(FT_ARM_UNITS "sdot %0.4s, %1.16b, %2.16b" : "+w"(sum->q[i]) : "w"(a.q[i]), "w"(b.q[i]));
}
#else
enum { INT8_TILE_ROWS = 4, INT8_TILE_STRIPS = 1 };
typedef struct wide_words {
    const int8_t *b;
} wide_words;
FT_VEC u16x word_of(const uint8_t *p) {
    return u_set1((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
}
#endif

// What a sum begins with.
FT_VEC u16x begun_sum(const int8_tile *t, int j, const ft_int8_unit unit) {
#if defined(FT_ISA_neon)
    if (unit != FT_INT8_BY_DOT) return u_mul(u_set1(128), u_load((const uint32_t *)t->sums + j * FT_INT8_STRIP));
#endif
    return u_set1(0);
}

// The sums are complete: into numbers. Whatever the instruction set, the same operations.
FT_VEC void put_sums(const int8_tile *t, int i, int j, u16x sum) {
    float *c = t->c[j] + i * t->ldc;
    const u16x at_zero = u_mul(u_set1((uint32_t)t->zeros[i]), u_load((const uint32_t *)t->sums + j * FT_INT8_STRIP));
    v16 y = v_mul(v_mul(v_from_i(u_sub(sum, at_zero)), v_set1(t->steps[i])), v_load(t->scales + j * FT_INT8_STRIP));
    if (t->bias[j] != NULL) y = v_add(y, v_load_any(t->bias[j], t->lanes[j]));
    v_store_any(c, y, t->lanes[j]);
}

// m, nv and unit are constants where this is inlined.
FT_VEC void run_int8_tile(const int8_tile *t, const int m, const int nv, const ft_int8_unit unit) {
    u16x sum[INT8_TILE_ROWS][INT8_TILE_STRIPS];
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            sum[i][j] = begun_sum(t, j, unit);
    const uint8_t *a = t->a;
    const int8_t *b = t->b;
    const int64_t strip = FT_INT8_STRIP * t->length;
    for (int64_t p = 0; p < t->words; p++, a += 4, b += 4 * FT_INT8_STRIP) {
#if defined(FT_ISA_portable)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < nv; j++) {
                const uint8_t *x = a + i * t->length;
                const int8_t *y = b + j * strip;
                uint32_t lane[FT_LANES];
                for (int n = 0; n < FT_LANES; n++, y += 4)
                    lane[n] = (uint32_t)(x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3]);
                sum[i][j] = u_add(sum[i][j], u_load(lane));
            }
#else
        u16x x[INT8_TILE_STRIPS];
        wide_words wide[INT8_TILE_STRIPS];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) {
            x[j] = words_of(b + j * strip);
            if (unit == FT_INT8_WIDENED) wide[j] = wide_weights(x[j]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            const u16x y = word_of(a + i * t->length);
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++) {
                if (unit == FT_INT8_WIDENED) add_wide(&sum[i][j], wide_codes(y), wide[j]);
                if (unit == FT_INT8_BY_DOT) add_dot(&sum[i][j], y, x[j]);
#if defined(FT_ISA_neon)
                if (unit == FT_INT8_BY_SIGNED_DOT) add_signed_dot(&sum[i][j], wide_codes(y), x[j]);
#endif
            }
        }
#endif
    }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            put_sums(t, i, j, sum[i][j]);
}

// Of every size its own code: 1, 2, 4 and, where there are registers for it, 8 rows.
typedef void int8_tile_function(const int8_tile *t);
#define FT_INT8_TILE(unit, m, nv)                                                                                      \
    static __attribute__((noinline)) void int8_tile_##unit##_##m##_##nv(const int8_tile *t) {                          \
        run_int8_tile(t, m, nv, unit);                                                                                 \
    }
#if defined(FT_ISA_avx512)
#define FT_INT8_TILES(unit, m) FT_INT8_TILE(unit, m, 1) FT_INT8_TILE(unit, m, 2) FT_INT8_TILE(unit, m, 3)
#define FT_INT8_NAMES(unit, m)                                                                                         \
    { int8_tile_##unit##_##m##_1, int8_tile_##unit##_##m##_2, int8_tile_##unit##_##m##_3 }
#define FT_INT8_UNIT(unit)                                                                                             \
    FT_INT8_TILES(unit, 1) FT_INT8_TILES(unit, 2) FT_INT8_TILES(unit, 4) FT_INT8_TILES(unit, 8)
#define FT_INT8_ROW(unit)                                                                                              \
    { FT_INT8_NAMES(unit, 1), FT_INT8_NAMES(unit, 2), FT_INT8_NAMES(unit, 4), FT_INT8_NAMES(unit, 8) }
enum { INT8_SIZES = 4 };
#else
#define FT_INT8_UNIT(unit) FT_INT8_TILE(unit, 1, 1) FT_INT8_TILE(unit, 2, 1) FT_INT8_TILE(unit, 4, 1)
#define FT_INT8_ROW(unit)                                                                                              \
    { {int8_tile_##unit##_1_1}, {int8_tile_##unit##_2_1}, {int8_tile_##unit##_4_1} }
enum { INT8_SIZES = 3 };
#endif
FT_INT8_UNIT(FT_INT8_WIDENED)
#if !defined(FT_ISA_portable)
FT_INT8_UNIT(FT_INT8_BY_DOT)
#endif
#if defined(FT_ISA_neon)
FT_INT8_UNIT(FT_INT8_BY_SIGNED_DOT)
#endif
// [unit][log2 rows][strips - 1]; none of a unit that the instruction set has not. What tiles of AMX leave over is BY_DOT's.
static int8_tile_function *const int8_tiles[FT_INT8_UNITS][INT8_SIZES][INT8_TILE_STRIPS] = {
    [FT_INT8_WIDENED] = FT_INT8_ROW(FT_INT8_WIDENED),
#if !defined(FT_ISA_portable)
    [FT_INT8_BY_DOT] = FT_INT8_ROW(FT_INT8_BY_DOT),
#endif
#if defined(FT_ISA_neon)
    [FT_INT8_BY_SIGNED_DOT] = FT_INT8_ROW(FT_INT8_BY_SIGNED_DOT),
#endif
#if defined(FT_ISA_avx512)
    [FT_INT8_BY_AMX] = FT_INT8_ROW(FT_INT8_BY_DOT),
#endif
};
#undef FT_INT8_TILE
#undef FT_INT8_TILES
#undef FT_INT8_NAMES
#undef FT_INT8_UNIT
#undef FT_INT8_ROW

#if defined(FT_ISA_avx512)
// ---- AMX ------------------------------------------------------------------------------------------------------------

// 32 or 16 rows beside two strips or one: four tiles of sums at most, 64 numbers of k a step. What is left of k, less than a step, is BY_DOT's.
// m: sixteens of rows.
static inline FT_AMX_INT8 __attribute__((always_inline)) void run_amx_int8(const int8_tile *t, const int m, const int nv) {
    enum { STEP = 64, SIDE = FT_AMX_SIDE, BYTES = 2 * SIDE * (int)sizeof(int32_t) };
    const int64_t length = t->length, strip = FT_INT8_STRIP * length;
    int32_t sums[2 * SIDE][2 * SIDE];
    const uint8_t *a = t->a;
    const int8_t *b = t->b;
    int64_t left = t->words * 4;
    __asm__ volatile("" ::: "memory"); // the compiler does not know that tiles are memory read
    _tile_zero(0);
    if (nv > 1) _tile_zero(1);
    if (m > 1) _tile_zero(2);
    if (m > 1 && nv > 1) _tile_zero(3);
    for (; left >= STEP; left -= STEP, a += STEP, b += STEP * FT_INT8_STRIP) {
        _tile_loadd(6, b, STEP);
        _tile_loadd(4, a, length);
        if (nv > 1) _tile_loadd(7, b + strip, STEP);
        _tile_dpbusd(0, 4, 6);
        if (m > 1) _tile_loadd(5, a + SIDE * length, length);
        if (nv > 1) _tile_dpbusd(1, 4, 7);
        if (m > 1) _tile_dpbusd(2, 5, 6);
        if (m > 1 && nv > 1) _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, sums[0], BYTES);
    if (nv > 1) _tile_stored(1, sums[0] + SIDE, BYTES);
    if (m > 1) _tile_stored(2, sums[SIDE], BYTES);
    if (m > 1 && nv > 1) _tile_stored(3, sums[SIDE] + SIDE, BYTES);
    __asm__ volatile("" ::: "memory");
    for (int i = 0; i < m * SIDE; i++)
        for (int j = 0; j < nv; j++) {
            u16x sum = u_load((const uint32_t *)sums[i] + j * SIDE);
            for (int64_t p = 0; p < left; p += 4)
                add_dot(&sum, word_of(a + i * length + p), words_of(b + j * strip + p * FT_INT8_STRIP));
            put_sums(t, i, j, sum);
        }
}
#define FT_AMX_TILE(m, nv)                                                                                             \
    static FT_AMX_INT8 __attribute__((noinline)) void amx_int8_##m##_##nv(const int8_tile *t) { run_amx_int8(t, m, nv); }
FT_AMX_TILE(1, 1)
FT_AMX_TILE(1, 2)
FT_AMX_TILE(2, 1)
FT_AMX_TILE(2, 2)
#undef FT_AMX_TILE
static int8_tile_function *const amx_int8_tiles[2][2] = {{amx_int8_1_1, amx_int8_1_2}, {amx_int8_2_1, amx_int8_2_2}};
#endif

// ---- all rows of some strips ----------------------------------------------------------------------------------------

FT_VEC int int8_strips_of(const ft_int8_unit unit) { return unit == FT_INT8_BY_AMX ? 2 : INT8_TILE_STRIPS; } // at most

// t is of the first row; of AMX the thread's tiles are configured (amx.h).
FT_VEC void run_int8_rows(int8_tile t, int64_t rows, int count, ft_int8_unit unit) {
    for (int64_t some; rows > 0; rows -= some) {
        int8_tile_function *run = NULL;
#if defined(FT_ISA_avx512)
        if (unit == FT_INT8_BY_AMX && rows >= FT_AMX_SIDE) {
            some = rows >= 2 * FT_AMX_SIDE ? 2 * FT_AMX_SIDE : FT_AMX_SIDE;
            run = amx_int8_tiles[some / FT_AMX_SIDE - 1][count - 1];
        }
#endif
        if (run == NULL) {
            int size = 0;
            while ((2 << size) <= rows && (2 << size) <= INT8_TILE_ROWS)
                size++;
            some = 1 << size;
            run = int8_tiles[unit][size][count - 1];
        }
        run(&t);
        t.a += some * t.length;
        t.steps += some;
        t.zeros += some;
        for (int j = 0; j < count; j++)
            t.c[j] += some * t.ldc;
    }
}

#endif
