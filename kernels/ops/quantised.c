// How matrices of few bits are made.
//
// Every product and quotient below is one rounding of fp32, in bitsandbytes' order: the bytes are those that it writes.
#include "kernels/ops/quantised.h"

#include "base/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float smallest_scale = 1e-38f; // of a block of zeros, to divide by

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

// Dettmers et al. 2021, "8-bit optimizers via block-wise quantization": a decimal exponent of 0 to 6, and with every step up one
// more bit of what follows: the middles of equal parts of [0.1, 1]. bitsandbytes computes it in fp32, up to 6e-8 from this; a matrix
// brings the map that it was made with.
void ft_nf4_scale_map(float map[FT_NF4_MAP]) {
    int n = 0;
    for (int exponent = 0; exponent < 7; exponent++) {
        const int parts = 1 << exponent;
        for (int i = 0; i < parts; i++) {
            const double middle = 0.1 + 0.9 * (i + 0.5) / parts;
            map[n] = (float)(pow(10, exponent - 6) * middle);
            map[n + 1] = -map[n];
            n += 2;
        }
    }
    map[n] = 0;
    map[n + 1] = 1;
    qsort(map, FT_NF4_MAP, sizeof *map, by_value);
}

// Which of `values`, rising, is nearest; half-way the lower one.
static int nearest(const float *values, int count, float x) {
    int low = 0, high = count - 1; // the answer is in [low, high]
    while (low < high) {
        const int middle = (low + high) / 2;
        if ((values[middle] + values[middle + 1]) / 2 < x)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Codes of x over the largest magnitude, which is returned. A block that ends early is divided, a whole one multiplied by the inverse.
static float quantise_block(const float *x, int64_t n, int64_t block, const float *values, int value_count, uint8_t *codes) {
    float most = 0;
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
    const float by = fmaxf(most, smallest_scale), inverse = 1.0f / by;
    for (int64_t i = 0; i < n; i++) {
        const float scaled = n == block ? x[i] * inverse : x[i] / by;
        codes[i] = (uint8_t)nearest(values, value_count, fminf(fmaxf(scaled, -1.0f), 1.0f));
    }
    return n == block ? most : by;
}

static void quantise_nf4(const float *x, int64_t count, uint8_t *codes, float *scales) {
    uint8_t of_block[FT_NF4_BLOCK];
    for (int64_t first = 0; first < count; first += FT_NF4_BLOCK) {
        const int64_t n = count - first < FT_NF4_BLOCK ? count - first : FT_NF4_BLOCK;
        scales[first / FT_NF4_BLOCK] = quantise_block(x + first, n, FT_NF4_BLOCK, ft_nf4_values, 16, of_block);
        if (n % 2) of_block[n] = 7; // zero
        for (int64_t i = 0; i < n; i += 2) codes[(first + i) / 2] = (uint8_t)(of_block[i] << 4 | of_block[i + 1]);
    }
}

// To the nearest whole number, halves to even, as nearbyintf: of what is far below 2^22. Loops of it become vectors on every processor.
static float nearest_whole(float x) {
    const float far = 12582912.0f; // 1.5 * 2^23
    return x + far - far;
}

static void quantise_int8(const float *x, int64_t rows, int64_t cols, int8_t *codes, float *scales) {
    for (int64_t row = 0; row < rows; row++) {
        const float *from = x + row * cols;
        float most = 0;
        for (int64_t i = 0; i < cols; i++) most = most < fabsf(from[i]) ? fabsf(from[i]) : most;
        scales[row] = most;
        const float by = most > 1e-36f ? 1.0f / most * 127.0f : 0; // below, the factor is infinite
        for (int64_t i = 0; i < cols; i++) codes[row * cols + i] = (int8_t)nearest_whole(from[i] * by);
    }
}

size_t ft_quantised_code_bytes(ft_quantisation format, int64_t count) { return (size_t)(format == FT_INT8 ? count : (count + 1) / 2); }

ft_status ft_quantise_piece(ft_quantisation format, int64_t cols, int64_t first, int64_t count, const float *values, uint8_t *codes,
                            float *scales) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return ft_fail(FT_INVALID, "quantise", "number %lld is not finite: it cannot be stored in few bits", (long long)(first + i));
    if (format != FT_INT8) quantise_nf4(values, count, codes, scales);
    else if (cols > 0) quantise_int8(values, count / cols, cols, (int8_t *)codes, scales);
    return FT_OK;
}

void ft_quantise_scales(const ft_quantised_layout *l, const float *scales, void *from_scales) {
    unsigned char *to = from_scales;
    float *map = (float *)(void *)(to + (l->map - l->scales)), *groups = (float *)(void *)(to + (l->groups - l->scales));
    float rest[FT_NF4_GROUP];
    double sum = 0;
    for (int64_t i = 0; i < l->scale_count; i++) sum += (double)scales[i];
    const float mean = l->scale_count > 0 ? (float)(sum / (double)l->scale_count) : 0;
    memcpy(to + (l->mean - l->scales), &mean, sizeof mean);
    ft_nf4_scale_map(map);
    for (int64_t first = 0; first < l->scale_count; first += FT_NF4_GROUP) {
        const int64_t n = l->scale_count - first < FT_NF4_GROUP ? l->scale_count - first : FT_NF4_GROUP;
        for (int64_t i = 0; i < n; i++) rest[i] = scales[first + i] - mean;
        groups[first / FT_NF4_GROUP] = quantise_block(rest, n, FT_NF4_GROUP, map, FT_NF4_MAP, to + first);
    }
}

void ft_dequantise_numbers(ft_quantisation format, const ft_quantised_layout *l, int64_t cols, int64_t first, int64_t count,
                           const uint8_t *codes, const void *from_scales, float *values) {
    const int64_t of_scale = format == FT_INT8 ? cols : FT_NF4_BLOCK;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = first + i;
        const float scale = ft_quantised_scale(format, l, from_scales, at / of_scale);
        const uint8_t code = format == FT_INT8 ? codes[i] : codes[at / 2 - first / 2];
        values[i] = format == FT_INT8 ? (float)(int8_t)code * scale * (1.0f / 127.0f) : ft_nf4_values[at % 2 == 0 ? code >> 4 : code & 15] * scale;
    }
}

ft_status ft_quantise(ft_quantisation format, int64_t rows, int64_t cols, const float *values, void *buffer) {
    const ft_quantised_layout l = ft_quantised_layout_of(format, rows, cols);
    unsigned char *to = buffer;
    memset(to, 0, l.bytes);
    if (format != FT_NF4_DOUBLE) return ft_quantise_piece(format, cols, 0, rows * cols, values, to, (float *)(void *)(to + l.scales));
    float *scales = ft_calloc((size_t)l.scale_count + 1, sizeof *scales, "scales of a matrix");
    if (scales == NULL) return FT_NO_MEMORY;
    ft_status status = ft_quantise_piece(format, cols, 0, rows * cols, values, to, scales);
    if (status == FT_OK) ft_quantise_scales(&l, scales, to + l.scales);
    free(scales);
    return status;
}
