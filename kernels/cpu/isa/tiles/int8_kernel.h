// int8_kernel.h - a tile of a product of 8 bits: sums of m rows and nv strips of 16 outputs stay in registers while k runs.
//
// Sums of int32 are exact, so every instruction set has its own way: VPDPBUSD, which multiplies u8 by s8 and adds four products; or both
// widened to 16 bits, the even bytes of a word apart from the odd ones, and VPMADDWD. (VPMADDUBSW saturates.)
#ifndef FT_CPU_INT8_KERNEL_H
#define FT_CPU_INT8_KERNEL_H

#include "kernels/cpu/int8_plan.h"
#include "kernels/cpu/isa/lanes/vec.h"

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

// a: four codes of a row in every lane; b: of 16 outputs. wide_*: the same as the tile multiplies them.
#if defined(FT_ISA_avx512)
enum { INT8_TILE_ROWS = 8, INT8_TILE_STRIPS = 3 };
typedef struct pairs {
    __m512i even, odd;
} pairs;
FT_VEC u16x word_of(const uint8_t *p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm512_set1_epi32(word);
}
FT_VEC u16x words_of(const int8_t *p) { return _mm512_loadu_si512(p); }
FT_VEC pairs wide_codes(u16x a) {
    const __m512i low = _mm512_set1_epi16(0xFF);
    return (pairs){_mm512_and_si512(a, low), _mm512_srli_epi16(a, 8)};
}
FT_VEC pairs wide_weights(u16x b) { return (pairs){_mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8), _mm512_srai_epi16(b, 8)}; }
FT_VEC u16x add_pairs(u16x sum, pairs a, pairs b) {
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(a.even, b.even));
    return _mm512_add_epi32(sum, _mm512_madd_epi16(a.odd, b.odd));
}
// By hand: of the intrinsic gcc 12 copies every sum.
FT_VEC void add_words(u16x *sum, u16x a, u16x b) { __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b)); }
#elif defined(FT_ISA_avx2)
enum { INT8_TILE_ROWS = 4, INT8_TILE_STRIPS = 1 };
typedef struct pairs {
    __m256i even[2], odd[2];
} pairs;
FT_VEC u16x word_of(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return u_set1(word);
}
FT_VEC u16x words_of(const int8_t *p) { return u_load((const uint32_t *)(const void *)p); }
FT_VEC pairs wide_codes(u16x a) {
    const __m256i low = _mm256_set1_epi16(0xFF);
    return (pairs){{_mm256_and_si256(a.lo, low), _mm256_and_si256(a.hi, low)}, {_mm256_srli_epi16(a.lo, 8), _mm256_srli_epi16(a.hi, 8)}};
}
FT_VEC pairs wide_weights(u16x b) {
    return (pairs){{_mm256_srai_epi16(_mm256_slli_epi16(b.lo, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(b.hi, 8), 8)},
                   {_mm256_srai_epi16(b.lo, 8), _mm256_srai_epi16(b.hi, 8)}};
}
FT_VEC u16x add_pairs(u16x sum, pairs a, pairs b) {
    sum.lo = _mm256_add_epi32(sum.lo, _mm256_madd_epi16(a.even[0], b.even[0]));
    sum.hi = _mm256_add_epi32(sum.hi, _mm256_madd_epi16(a.even[1], b.even[1]));
    sum.lo = _mm256_add_epi32(sum.lo, _mm256_madd_epi16(a.odd[0], b.odd[0]));
    sum.hi = _mm256_add_epi32(sum.hi, _mm256_madd_epi16(a.odd[1], b.odd[1]));
    return sum;
}
#else
enum { INT8_TILE_ROWS = 4, INT8_TILE_STRIPS = 1 };
#endif

#if defined(FT_ISA_avx512) || defined(FT_ISA_avx2)
enum { INT8_PAIRS = 0, INT8_WORDS = 1 }; // ways
#else
enum { INT8_PLAIN = 0 };
FT_VEC u16x word_of(const uint8_t *p) { return u_set1((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24); }
FT_VEC void add_plain(u16x *sum, const uint8_t *a, const int8_t *b) {
    uint32_t lane[FT_LANES];
    for (int j = 0; j < FT_LANES; j++) lane[j] = (uint32_t)(a[0] * b[4 * j] + a[1] * b[4 * j + 1] + a[2] * b[4 * j + 2] + a[3] * b[4 * j + 3]);
    *sum = u_add(*sum, u_load(lane));
}
#endif

// The sums are complete: into numbers. Whatever the instruction set, the same operations.
FT_VEC void put_sums(const int8_tile *t, int i, int j, u16x sum) {
    float *c = t->c[j] + i * t->ldc;
    const u16x at_zero = u_mul(u_set1((uint32_t)t->zeros[i]), u_load((const uint32_t *)t->sums + j * FT_INT8_STRIP));
    v16 y = v_mul(v_mul(v_from_i(u_sub(sum, at_zero)), v_set1(t->steps[i])), v_load(t->scales + j * FT_INT8_STRIP));
    if (t->bias[j] != NULL) y = v_add(y, v_load_any(t->bias[j], t->lanes[j]));
    v_store_any(c, y, t->lanes[j]);
}

// m, nv and way are constants where this is inlined.
FT_VEC void run_int8_tile(const int8_tile *t, const int m, const int nv, const int way) {
    u16x sum[INT8_TILE_ROWS][INT8_TILE_STRIPS];
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) sum[i][j] = u_set1(0);
    const uint8_t *a = t->a;
    const int8_t *b = t->b;
    const int64_t strip = FT_INT8_STRIP * t->length;
    for (int64_t p = 0; p < t->words; p++, a += 4, b += 4 * FT_INT8_STRIP) {
#if defined(FT_ISA_avx512) || defined(FT_ISA_avx2)
        u16x x[INT8_TILE_STRIPS];
        pairs wide[INT8_TILE_STRIPS];
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) {
            x[j] = words_of(b + j * strip);
            if (way == INT8_PAIRS) wide[j] = wide_weights(x[j]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            const u16x y = word_of(a + i * t->length);
#pragma GCC unroll 4
            for (int j = 0; j < nv; j++) {
#if defined(FT_ISA_avx512)
                if (way == INT8_WORDS) add_words(&sum[i][j], y, x[j]);
#endif
                if (way == INT8_PAIRS) sum[i][j] = add_pairs(sum[i][j], wide_codes(y), wide[j]);
            }
        }
#else
        for (int i = 0; i < m; i++)
            for (int j = 0; j < nv; j++) add_plain(&sum[i][j], a + i * t->length, b + j * strip);
#endif
    }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 4
        for (int j = 0; j < nv; j++) put_sums(t, i, j, sum[i][j]);
}

// Of every size its own code: 1, 2, 4 and, where there are registers for it, 8 rows.
typedef void int8_tile_function(const int8_tile *t);
#define FT_INT8_TILE(way, m, nv)                                                                                       \
    static __attribute__((noinline)) void int8_tile_##way##_##m##_##nv(const int8_tile *t) { run_int8_tile(t, m, nv, way); }
#if defined(FT_ISA_avx512)
#define FT_INT8_TILES(way, m) FT_INT8_TILE(way, m, 1) FT_INT8_TILE(way, m, 2) FT_INT8_TILE(way, m, 3)
#define FT_INT8_NAMES(way, m)                                                                                          \
    { int8_tile_##way##_##m##_1, int8_tile_##way##_##m##_2, int8_tile_##way##_##m##_3 }
#define FT_INT8_WAY(way) FT_INT8_TILES(way, 1) FT_INT8_TILES(way, 2) FT_INT8_TILES(way, 4) FT_INT8_TILES(way, 8)
#define FT_INT8_ROW(way)                                                                                               \
    { FT_INT8_NAMES(way, 1), FT_INT8_NAMES(way, 2), FT_INT8_NAMES(way, 4), FT_INT8_NAMES(way, 8) }
FT_INT8_WAY(INT8_PAIRS)
FT_INT8_WAY(INT8_WORDS)
static int8_tile_function *const int8_tiles[2][4][INT8_TILE_STRIPS] = {FT_INT8_ROW(INT8_PAIRS), FT_INT8_ROW(INT8_WORDS)};
#else
#define FT_INT8_WAY(way) FT_INT8_TILE(way, 1, 1) FT_INT8_TILE(way, 2, 1) FT_INT8_TILE(way, 4, 1)
#define FT_INT8_ROW(way)                                                                                               \
    { {int8_tile_##way##_1_1}, {int8_tile_##way##_2_1}, {int8_tile_##way##_4_1} }
#if defined(FT_ISA_avx2)
FT_INT8_WAY(INT8_PAIRS)
static int8_tile_function *const int8_tiles[1][3][INT8_TILE_STRIPS] = {FT_INT8_ROW(INT8_PAIRS)};
#else
FT_INT8_WAY(INT8_PLAIN)
static int8_tile_function *const int8_tiles[1][3][INT8_TILE_STRIPS] = {FT_INT8_ROW(INT8_PLAIN)};
#endif
#endif
#undef FT_INT8_TILE
#undef FT_INT8_TILES
#undef FT_INT8_NAMES
#undef FT_INT8_WAY
#undef FT_INT8_ROW

#endif
