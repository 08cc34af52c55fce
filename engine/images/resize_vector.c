// The sums of a resized picture in AVX2. A product of 8 and 23 bits in one lane of 32 is slow (and one input a lane); weights in two parts of 12 bits
// make it two products of 16 bits, each of which takes two inputs and adds them: sum = (upper parts << 11) + lower parts, the same integer.
#include "engine/images/resize_axis.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))

// Eight sums to bytes of 0 to 255 in lanes of 16 bits' packs: sum of both parts, rounded.
AVX2 static inline __m256i joined(__m256i upper, __m256i lower) {
    const __m256i half = _mm256_set1_epi32(1 << (FT_RESIZE_BITS - 1));
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_add_epi32(_mm256_slli_epi32(upper, FT_RESIZE_LOW_BITS), lower), half), FT_RESIZE_BITS);
}

// Two rows at a time, one in each half of a register. Reads 8 bytes where two pixels are, up to 5 behind the last of a row: a row must follow.
AVX2 static void two_rows(const ft_resize_axis *a, const uint8_t *from, size_t from_stride, int32_t width, uint8_t *to) {
    const __m256i spread = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1)); // two reds, two greens, two blues
    uint8_t *second = to + (size_t)width * FT_PICTURE_CHANNELS;
    for (int32_t x = 0; x < width; x++, to += FT_PICTURE_CHANNELS, second += FT_PICTURE_CHANNELS) {
        const ft_resize_span s = a->spans[x];
        const int32_t *pair = a->pair + 2 * (size_t)x * (size_t)a->pairs;
        const uint8_t *pixel = from + (size_t)s.first * FT_PICTURE_CHANNELS;
        __m256i upper = _mm256_setzero_si256(), lower = upper;
        for (int32_t j = 0; j < s.count; j += 2, pair += 2, pixel += 2 * FT_PICTURE_CHANNELS) {
            const __m128i one = _mm_loadl_epi64((const void *)pixel), other = _mm_loadl_epi64((const void *)(pixel + from_stride));
            const __m256i inputs = _mm256_shuffle_epi8(_mm256_set_m128i(other, one), spread);
            upper = _mm256_add_epi32(upper, _mm256_madd_epi16(inputs, _mm256_set1_epi32(pair[0])));
            lower = _mm256_add_epi32(lower, _mm256_madd_epi16(inputs, _mm256_set1_epi32(pair[1])));
        }
        __m256i bytes = joined(upper, lower);
        bytes = _mm256_packs_epi32(bytes, bytes);
        bytes = _mm256_packus_epi16(bytes, bytes);
        const int32_t first_pixel = _mm256_extract_epi32(bytes, 0), second_pixel = _mm256_extract_epi32(bytes, 4);
        memcpy(to, &first_pixel, FT_PICTURE_CHANNELS);
        memcpy(second, &second_pixel, FT_PICTURE_CHANNELS);
    }
}

AVX2 static void along_rows(const ft_resize_axis *a, const uint8_t *from, size_t from_stride, int32_t width, int32_t count, uint8_t *to) {
    const size_t stride = (size_t)width * FT_PICTURE_CHANNELS;
    int32_t y = 0;
    for (; from_stride >= 8 && y + 2 < count; y += 2, from += 2 * from_stride, to += 2 * stride) two_rows(a, from, from_stride, width, to);
    ft_resize_plain.rows(a, from, from_stride, width, count - y, to);
}

AVX2 static void along_columns(const ft_resize_axis *a, int32_t y, const uint8_t *from, size_t stride, uint8_t *to) {
    const ft_resize_span s = a->spans[y];
    const uint8_t *rows = from + (size_t)s.first * stride;
    size_t i = 0;
    for (; i + 16 <= stride; i += 16) {
        const int32_t *pair = a->pair + 2 * (size_t)y * (size_t)a->pairs;
        __m256i upper[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, lower[2] = {upper[0], upper[1]};
        for (int32_t j = 0; j < s.count; j += 2, pair += 2) {
            const uint8_t *row = rows + (size_t)j * stride + i, *next = j + 1 < s.count ? row + stride : row; // times 0 then
            const __m256i one = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)row)), other = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)next));
            const __m256i inputs[2] = {_mm256_unpacklo_epi16(one, other), _mm256_unpackhi_epi16(one, other)};
            for (int half = 0; half < 2; half++) {
                upper[half] = _mm256_add_epi32(upper[half], _mm256_madd_epi16(inputs[half], _mm256_set1_epi32(pair[0])));
                lower[half] = _mm256_add_epi32(lower[half], _mm256_madd_epi16(inputs[half], _mm256_set1_epi32(pair[1])));
            }
        }
        const __m256i words = _mm256_packs_epi32(joined(upper[0], lower[0]), joined(upper[1], lower[1])); // in order: halves were split alike
        const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
        _mm_storeu_si128((void *)(to + i), bytes);
    }
    ft_resize_columns_from(a, y, from, stride, i, to);
}

static const ft_resize_functions avx2 = {.rows = along_rows, .columns = along_columns};
#endif

const ft_resize_functions *ft_resize_best(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return &avx2;
#endif
    return &ft_resize_plain;
}
