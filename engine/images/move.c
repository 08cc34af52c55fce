#include "engine/images/move.h"

#include <math.h>
#include <string.h>

enum { CHANNELS = FT_PICTURE_CHANNELS };

void ft_picture_flip(uint8_t *pixels, int32_t width, int32_t height) {
    for (int32_t y = 0; y < height; y++) {
        uint8_t *left = pixels + (size_t)y * (size_t)width * CHANNELS, *right = left + (size_t)(width - 1) * CHANNELS;
        for (; left < right; left += CHANNELS, right -= CHANNELS) {
            uint8_t pixel[CHANNELS];
            memcpy(pixel, left, CHANNELS);
            memcpy(left, right, CHANNELS);
            memcpy(right, pixel, CHANNELS);
        }
    }
}

void ft_picture_shift(const uint8_t *from, int32_t width, int32_t height, int32_t right, int32_t down, uint8_t *to) {
    const int32_t first = right > 0 ? right : 0, end = right < 0 ? width + right : width;
    const size_t stride = (size_t)width * CHANNELS;
    memset(to, 0, stride * (size_t)height);
    for (int32_t y = 0; y < height; y++) {
        const int32_t source = y - down;
        if (source < 0 || source >= height || first >= end) continue;
        memcpy(to + (size_t)y * stride + (size_t)first * CHANNELS,
               from + (size_t)source * stride + (size_t)(first - right) * CHANNELS, (size_t)(end - first) * CHANNELS);
    }
}

// Pixel (x, y) is that of (m0 x + m1 y + m2, m3 x + m4 y + m5), in numbers of 16 bits behind the point, from the middle
// of pixels.
static int32_t fixed(double x) { return (int32_t)floor(x * 65536 + 0.5); }

static void map(const uint8_t *from, int32_t width, int32_t height, const double m[6], uint8_t *to) {
    const int32_t across_x = fixed(m[0]), across_y = fixed(m[3]), down_x = fixed(m[1]), down_y = fixed(m[4]);
    int32_t row_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), row_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
    memset(to, 0, (size_t)width * (size_t)height * CHANNELS);
    for (int32_t y = 0; y < height; y++, row_x += down_x, row_y += down_y) {
        int32_t at_x = row_x, at_y = row_y;
        for (int32_t x = 0; x < width; x++, to += CHANNELS, at_x += across_x, at_y += across_y) {
            const int32_t source_x = at_x >> 16, source_y = at_y >> 16;
            if (source_x >= 0 && source_x < width && source_y >= 0 && source_y < height)
                memcpy(to, from + ((size_t)source_y * (size_t)width + (size_t)source_x) * CHANNELS, CHANNELS);
        }
    }
}

// torchvision takes an angle in degrees, whose tangent it is: the same roundings here.
static double tangent(double slope) { return tan(atan(slope) * (180 / M_PI) * (M_PI / 180)); }

void ft_picture_shear_rows(const uint8_t *from, int32_t width, int32_t height, double slope, uint8_t *to) {
    map(from, width, height, (const double[]){1, tangent(slope), 0, 0, 1, 0}, to);
}

void ft_picture_shear_columns(const uint8_t *from, int32_t width, int32_t height, double slope, uint8_t *to) {
    map(from, width, height, (const double[]){1, 0, 0, tangent(slope), 1, 0}, to);
}

// Pillow rounds to 15 digits.
static double digits(double x) { return nearbyint(x * 1e15) / 1e15; }

void ft_picture_turn(const uint8_t *from, int32_t width, int32_t height, double degrees, uint8_t *to) {
    const double angle = -degrees * (M_PI / 180), x = width / 2.0, y = height / 2.0;
    const double c = digits(cos(angle)), s = digits(sin(angle));
    map(from, width, height, (const double[]){c, s, c * -x + s * -y + x, -s, c, -s * -x + c * -y + y}, to);
}

void ft_picture_cut(const ft_picture *from, int32_t left, int32_t top, ft_picture *to) {
    const size_t stride = (size_t)to->width * CHANNELS;
    for (size_t y = 0; y < (size_t)to->height; y++)
        memcpy(to->pixels + y * stride,
               from->pixels + (((size_t)top + y) * (size_t)from->width + (size_t)left) * CHANNELS, stride);
}
