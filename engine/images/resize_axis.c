#include "engine/images/resize_axis.h"

#include "base/heap.h"

#include <math.h>
#include <stdlib.h>

static double bilinear(double x) {
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static double bicubic(double x) {
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double sinc(double x) {
    if (x == 0) return 1;
    x *= M_PI;
    return sin(x) / x;
}
static double lanczos(double x) { return -3 <= x && x < 3 ? sinc(x) * sinc(x / 3) : 0; }

static const struct {
    double (*value)(double x);
    double support;
} filters[] = {[FT_RESAMPLE_LANCZOS] = {lanczos, 3}, [FT_RESAMPLE_BILINEAR] = {bilinear, 1}, [FT_RESAMPLE_BICUBIC] = {bicubic, 2}};

static void weigh(ft_resize_axis *a, ft_resample filter, int32_t in, int32_t i, double scale, double stretch, double *k) {
    const double support = filters[filter].support * stretch, centre = (i + 0.5) * scale;
    int32_t first = (int32_t)(centre - support + 0.5), end = (int32_t)(centre + support + 0.5);
    if (first < 0) first = 0;
    if (end > in) end = in;
    double sum = 0;
    for (int32_t j = 0; j < end - first; j++) {
        k[j] = filters[filter].value((j + first - centre + 0.5) * (1 / stretch));
        sum += k[j];
    }
    a->spans[i] = (ft_resize_span){.first = first, .count = end - first};
    for (int32_t j = 0; j < end - first; j++) {
        const double share = (sum != 0 ? k[j] / sum : k[j]) * (1 << FT_RESIZE_BITS);
        a->weight[(size_t)i * (size_t)a->most + (size_t)j] = (int32_t)(share < 0 ? share - 0.5 : share + 0.5);
    }
}

static void pair_up(ft_resize_axis *a, int32_t i) {
    const int32_t *weight = a->weight + (size_t)i * (size_t)a->most;
    for (int32_t j = 0; j < a->pairs; j++) {
        const int32_t first = weight[2 * j], second = 2 * j + 1 < a->most ? weight[2 * j + 1] : 0, low = (1 << FT_RESIZE_LOW_BITS) - 1;
        const uint32_t upper = (uint32_t)(first >> FT_RESIZE_LOW_BITS) & 0xffff, upper2 = (uint32_t)(second >> FT_RESIZE_LOW_BITS) & 0xffff;
        int32_t *pair = a->pair + 2 * ((size_t)i * (size_t)a->pairs + (size_t)j);
        pair[0] = (int32_t)(upper | upper2 << 16);
        pair[1] = (first & low) | (second & low) << 16;
    }
}

void ft_resize_axis_free(ft_resize_axis *a) {
    free(a->spans);
    free(a->weight);
    free(a->pair);
}

ft_status ft_resize_axis_make(ft_resample filter, int32_t in, int32_t out, ft_resize_axis *a) {
    const double scale = (double)in / out, stretch = scale < 1 ? 1 : scale;
    a->most = (int32_t)ceil(filters[filter].support * stretch) * 2 + 1;
    a->pairs = (a->most + 1) / 2;
    a->spans = ft_calloc((size_t)out, sizeof *a->spans, "weights of a picture");
    a->weight = ft_calloc((size_t)out * (size_t)a->most, sizeof *a->weight, "weights of a picture");
    a->pair = ft_calloc((size_t)out * (size_t)a->pairs, 2 * sizeof *a->pair, "weights of a picture");
    double *k = ft_calloc((size_t)a->most, sizeof *k, "weights of a picture");
    const bool there = a->spans != NULL && a->weight != NULL && a->pair != NULL && k != NULL;
    for (int32_t i = 0; there && i < out; i++) {
        weigh(a, filter, in, i, scale, stretch, k);
        pair_up(a, i);
    }
    free(k);
    return there ? FT_OK : FT_NO_MEMORY;
}

static uint8_t rounded(int32_t sum) {
    sum >>= FT_RESIZE_BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void along_row(const ft_resize_axis *a, const uint8_t *from, int32_t width, uint8_t *to) {
    for (int32_t x = 0; x < width; x++, to += FT_PICTURE_CHANNELS) {
        const ft_resize_span s = a->spans[x];
        const int32_t *weight = a->weight + (size_t)x * (size_t)a->most;
        const uint8_t *pixel = from + (size_t)s.first * FT_PICTURE_CHANNELS;
        int32_t red = 1 << (FT_RESIZE_BITS - 1), green = red, blue = red;
        for (int32_t j = 0; j < s.count; j++, pixel += FT_PICTURE_CHANNELS) {
            red += pixel[0] * weight[j];
            green += pixel[1] * weight[j];
            blue += pixel[2] * weight[j];
        }
        to[0] = rounded(red);
        to[1] = rounded(green);
        to[2] = rounded(blue);
    }
}

static void along_rows(const ft_resize_axis *a, const uint8_t *from, size_t from_stride, int32_t width, int32_t count, uint8_t *to) {
    for (int32_t y = 0; y < count; y++) along_row(a, from + (size_t)y * from_stride, width, to + (size_t)y * (size_t)width * FT_PICTURE_CHANNELS);
}

void ft_resize_columns_from(const ft_resize_axis *a, int32_t y, const uint8_t *from, size_t stride, size_t begin, uint8_t *to) {
    enum { BLOCK = 64 };
    const ft_resize_span s = a->spans[y];
    const int32_t *weight = a->weight + (size_t)y * (size_t)a->most;
    int32_t sum[BLOCK];
    for (; begin < stride; begin += BLOCK) {
        const size_t count = stride - begin < BLOCK ? stride - begin : BLOCK;
        for (size_t i = 0; i < count; i++) sum[i] = 1 << (FT_RESIZE_BITS - 1);
        for (int32_t j = 0; j < s.count; j++) {
            const uint8_t *row = from + (size_t)(s.first + j) * stride + begin;
            for (size_t i = 0; i < count; i++) sum[i] += row[i] * weight[j];
        }
        for (size_t i = 0; i < count; i++) to[begin + i] = rounded(sum[i]);
    }
}

static void along_columns(const ft_resize_axis *a, int32_t y, const uint8_t *from, size_t stride, uint8_t *to) {
    ft_resize_columns_from(a, y, from, stride, 0, to);
}

const ft_resize_functions ft_resize_plain = {.rows = along_rows, .columns = along_columns};
