#include "engine/images/adjust.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { CHANNELS = FT_PICTURE_CHANNELS, VALUES = 256 };

typedef uint8_t table[VALUES];

static uint8_t clipped(double x) { return (uint8_t)(x <= 0 ? 0 : x >= 255 ? 255 : x); }

static void look_up(uint8_t *pixels, size_t count, table *of) {
    for (size_t i = 0; i < count; i++, pixels += CHANNELS)
        for (int c = 0; c < CHANNELS; c++)
            pixels[c] = of[c][pixels[c]];
}

static void look_up_all(uint8_t *pixels, size_t count, const uint8_t *of) {
    for (size_t i = 0; i < count * CHANNELS; i++)
        pixels[i] = of[pixels[i]];
}

// In fp32, as Pillow's blend: between two pictures it cuts, beyond them it is clipped too. Its ends are the pictures
// themselves.
static uint8_t blended(uint8_t without, uint8_t with, float factor) {
    if (factor == 1) return with;
    const float x = (float)without + factor * (float)((int)with - (int)without);
    return x <= 0 ? 0 : x >= 255 ? 255 : (uint8_t)x;
}

static uint8_t grey_of(const uint8_t *pixel) {
    return (uint8_t)((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

static void blend_with(uint8_t *pixels, size_t count, uint8_t without, double factor) {
    table of;
    for (int v = 0; v < VALUES; v++)
        of[v] = blended(without, (uint8_t)v, (float)factor);
    look_up_all(pixels, count, of);
}

void ft_adjust_brightness(uint8_t *pixels, size_t count, double factor) { blend_with(pixels, count, 0, factor); }

void ft_adjust_contrast(uint8_t *pixels, size_t count, double factor) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += grey_of(pixels + i * CHANNELS);
    blend_with(pixels, count, (uint8_t)((double)sum / (double)count + 0.5), factor);
}

void ft_adjust_saturation(uint8_t *pixels, size_t count, double factor) {
    for (size_t i = 0; i < count; i++, pixels += CHANNELS) {
        const uint8_t grey = grey_of(pixels);
        for (int c = 0; c < CHANNELS; c++)
            pixels[c] = blended(grey, pixels[c], (float)factor);
    }
}

// ---- hue ----------------------------------------------------------------------------------------------------------

// Pillow's HSV has a byte each, by fp32 here and double there; what it cuts and rounds is part of what a turn does.
static void to_hsv(const uint8_t *rgb, uint8_t *hsv) {
    const uint8_t r = rgb[0], g = rgb[1], b = rgb[2];
    const uint8_t most = r > g ? (r > b ? r : b) : g > b ? g : b, least = r < g ? (r < b ? r : b) : g < b ? g : b;
    hsv[0] = hsv[1] = 0;
    hsv[2] = most;
    if (most == least) return;
    const float range = (float)(most - least), red = (float)(most - r) / range, green = (float)(most - g) / range,
                blue = (float)(most - b) / range;
    const float h = r == most   ? blue - green
                    : g == most ? (float)(2.0 + (double)red - (double)blue)
                                : (float)(4.0 + (double)green - (double)red);
    const float turn = (float)fmod((double)h / 6.0 + 1.0, 1.0), s = range / (float)most;
    hsv[0] = clipped((double)turn * 255.0);
    hsv[1] = clipped((double)s * 255.0);
}

static void from_hsv(const uint8_t *hsv, uint8_t *rgb) {
    const uint8_t v = hsv[2];
    const double sixth = (double)hsv[0] * 6.0 / 255.0;
    const int i = (int)floor(sixth);
    const double f = (double)(float)(sixth - (double)i), s = (double)(float)((double)hsv[1] / 255.0);
    const uint8_t p = clipped(round((double)v * (1.0 - s))), q = clipped(round((double)v * (1.0 - s * f))),
                  t = clipped(round((double)v * (1.0 - s * (1.0 - f))));
    const uint8_t rows[6][CHANNELS] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
    if (hsv[1] == 0)
        memset(rgb, v, CHANNELS);
    else
        memcpy(rgb, rows[i % 6], CHANNELS);
}

void ft_adjust_hue(uint8_t *pixels, size_t count, double factor) {
    const uint8_t turn = (uint8_t)(int)(factor * 255);
    for (size_t i = 0; i < count; i++, pixels += CHANNELS) {
        uint8_t hsv[CHANNELS];
        to_hsv(pixels, hsv);
        hsv[0] = (uint8_t)(hsv[0] + turn);
        from_hsv(hsv, pixels);
    }
}

// ---- sharpness ----------------------------------------------------------------------------------------------------

// (1 1 1; 1 5 1; 1 1 1) / 13, to the nearest: there are no halves of 13ths. Pixels of the border are as they were.
static void smooth(const uint8_t *from, int32_t width, int32_t height, uint8_t *to) {
    const size_t stride = (size_t)width * CHANNELS;
    memcpy(to, from, stride * (size_t)height);
    for (int32_t y = 1; y < height - 1; y++)
        for (size_t x = CHANNELS; x + CHANNELS < stride; x++) {
            const uint8_t *at = from + (size_t)y * stride + x;
            unsigned sum = 4u * at[0];
            for (int k = -1; k <= 1; k++) {
                const uint8_t *row = k < 0 ? at - stride : k > 0 ? at + stride : at;
                sum += (unsigned)row[-CHANNELS] + row[0] + row[CHANNELS];
            }
            to[(size_t)y * stride + x] = (uint8_t)((2 * sum + 13) / 26);
        }
}

void ft_adjust_sharpness(uint8_t *pixels, int32_t width, int32_t height, double factor, uint8_t *room) {
    const size_t bytes = (size_t)width * (size_t)height * CHANNELS;
    smooth(pixels, width, height, room);
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = blended(room[i], pixels[i], (float)factor);
}

// ---- tables of a byte ---------------------------------------------------------------------------------------------

void ft_posterize(uint8_t *pixels, size_t count, int bits) {
    const uint8_t mask = (uint8_t)(0xFFu << (8 - bits));
    for (size_t i = 0; i < count * CHANNELS; i++)
        pixels[i] &= mask;
}

void ft_solarize(uint8_t *pixels, size_t count, double threshold) {
    table of;
    for (int v = 0; v < VALUES; v++)
        of[v] = (uint8_t)(v < threshold ? v : 255 - v);
    look_up_all(pixels, count, of);
}

typedef struct histogram {
    uint64_t of[CHANNELS][VALUES];
} histogram;

static void count_values(const uint8_t *pixels, size_t count, histogram *h) {
    memset(h, 0, sizeof *h);
    for (size_t i = 0; i < count; i++, pixels += CHANNELS)
        for (int c = 0; c < CHANNELS; c++)
            h->of[c][pixels[c]]++;
}

static void ends(const uint64_t *of, int *low, int *high) {
    *low = 0;
    *high = VALUES - 1;
    while (*low < VALUES - 1 && of[*low] == 0)
        ++*low;
    while (*high > 0 && of[*high] == 0)
        --*high;
}

void ft_autocontrast(uint8_t *pixels, size_t count) {
    histogram h;
    table of[CHANNELS];
    count_values(pixels, count, &h);
    for (int c = 0; c < CHANNELS; c++) {
        int low, high;
        ends(h.of[c], &low, &high);
        const double scale = 255.0 / (high > low ? high - low : 1), offset = -low * scale;
        for (int v = 0; v < VALUES; v++)
            of[c][v] = high > low ? clipped((double)(int)(v * scale + offset)) : (uint8_t)v;
    }
    look_up(pixels, count, of);
}

// In whole numbers; a channel of one value, or with so few pixels that a step would be none, is left.
void ft_equalize(uint8_t *pixels, size_t count) {
    histogram h;
    table of[CHANNELS];
    count_values(pixels, count, &h);
    for (int c = 0; c < CHANNELS; c++) {
        int low, high;
        ends(h.of[c], &low, &high);
        const uint64_t step = (count - h.of[c][high]) / 255;
        uint64_t before = step / 2;
        for (int v = 0; v < VALUES; before += h.of[c][v], v++)
            of[c][v] = step > 0 && low < high ? clipped((double)(before / step)) : (uint8_t)v;
    }
    look_up(pixels, count, of);
}
