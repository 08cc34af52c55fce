#include "engine/images/resize.h"

#include "base/heap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BITS = 22 }; // of a weight behind the point

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

// One dimension: output i is the sum of `count` inputs from `first` on, times weight[i * most + ...].
typedef struct span {
    int32_t first, count;
} span;
typedef struct axis {
    span *spans;
    int32_t *weight;
    int32_t most;
} axis;

static void free_axis(axis *a) {
    free(a->spans);
    free(a->weight);
}

static void weigh(axis *a, ft_resample filter, int32_t in, int32_t i, double scale, double stretch, double *k) {
    const double support = filters[filter].support * stretch, centre = (i + 0.5) * scale;
    int32_t first = (int32_t)(centre - support + 0.5), end = (int32_t)(centre + support + 0.5);
    if (first < 0) first = 0;
    if (end > in) end = in;
    double sum = 0;
    for (int32_t j = 0; j < end - first; j++) {
        k[j] = filters[filter].value((j + first - centre + 0.5) * (1 / stretch));
        sum += k[j];
    }
    a->spans[i] = (span){.first = first, .count = end - first};
    for (int32_t j = 0; j < end - first; j++) {
        const double share = (sum != 0 ? k[j] / sum : k[j]) * (1 << BITS);
        a->weight[(size_t)i * (size_t)a->most + (size_t)j] = (int32_t)(share < 0 ? share - 0.5 : share + 0.5);
    }
}

static ft_status make_axis(ft_resample filter, int32_t in, int32_t out, axis *a) {
    const double scale = (double)in / out, stretch = scale < 1 ? 1 : scale;
    a->most = (int32_t)ceil(filters[filter].support * stretch) * 2 + 1;
    a->spans = ft_calloc((size_t)out, sizeof *a->spans, "weights of a picture");
    a->weight = ft_calloc((size_t)out * (size_t)a->most, sizeof *a->weight, "weights of a picture");
    double *k = ft_calloc((size_t)a->most, sizeof *k, "weights of a picture");
    const bool there = a->spans != NULL && a->weight != NULL && k != NULL;
    for (int32_t i = 0; there && i < out; i++) weigh(a, filter, in, i, scale, stretch, k);
    free(k);
    return there ? FT_OK : FT_NO_MEMORY;
}

static uint8_t rounded(int32_t sum) {
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

static void along_row(const axis *a, const uint8_t *from, int32_t width, uint8_t *to) {
    for (int32_t x = 0; x < width; x++, to += FT_PICTURE_CHANNELS) {
        const span s = a->spans[x];
        const int32_t *weight = a->weight + (size_t)x * (size_t)a->most;
        const uint8_t *pixel = from + (size_t)s.first * FT_PICTURE_CHANNELS;
        int32_t red = 1 << (BITS - 1), green = red, blue = red;
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

// A row of the result from rows of `stride` bytes; sums: [stride].
static void along_columns(const axis *a, int32_t y, const uint8_t *from, size_t stride, int32_t *sums, uint8_t *to) {
    const span s = a->spans[y];
    const int32_t *weight = a->weight + (size_t)y * (size_t)a->most;
    for (size_t i = 0; i < stride; i++) sums[i] = 1 << (BITS - 1);
    for (int32_t j = 0; j < s.count; j++) {
        const uint8_t *row = from + (size_t)(s.first + j) * stride;
        const int32_t w = weight[j];
        for (size_t i = 0; i < stride; i++) sums[i] += row[i] * w;
    }
    for (size_t i = 0; i < stride; i++) to[i] = rounded(sums[i]);
}

static ft_status rows_then_columns(const ft_picture *p, int32_t width, int32_t height, const axis *across, const axis *down, uint8_t *between,
                                   int32_t *sums, uint8_t *out) {
    const size_t in_stride = (size_t)p->width * FT_PICTURE_CHANNELS, stride = (size_t)width * FT_PICTURE_CHANNELS;
    const uint8_t *rows = p->pixels;
    if (width != p->width) {
        uint8_t *to = height != p->height ? between : out;
        for (int32_t y = 0; y < p->height; y++) along_row(across, p->pixels + (size_t)y * in_stride, width, to + (size_t)y * stride);
        rows = to;
    }
    if (height != p->height)
        for (int32_t y = 0; y < height; y++) along_columns(down, y, rows, stride, sums, out + (size_t)y * stride);
    else if (rows != out) memcpy(out, rows, stride * (size_t)height);
    return FT_OK;
}

ft_status ft_picture_resize(const ft_picture *p, ft_resample filter, int32_t width, int32_t height, uint8_t *out) {
    axis across = {.spans = NULL}, down = {.spans = NULL};
    const size_t stride = (size_t)width * FT_PICTURE_CHANNELS;
    uint8_t *between = ft_calloc(stride * (size_t)p->height, 1, "a picture on its way to another size");
    int32_t *sums = ft_calloc(stride, sizeof *sums, "a row of a picture");
    ft_status status = between != NULL && sums != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK) status = make_axis(filter, p->width, width, &across);
    if (status == FT_OK) status = make_axis(filter, p->height, height, &down);
    if (status == FT_OK) status = rows_then_columns(p, width, height, &across, &down, between, sums, out);
    free_axis(&across);
    free_axis(&down);
    free(between);
    free(sums);
    return status;
}
