// adjust.h - the colours of a picture changed in place, bit for bit as Pillow does it: ImageEnhance and ImageOps, and
// hue as torchvision turns it with Pillow's HSV. A picture is [count] or [height, width] pixels of red, green and blue
// bytes.
//
// factor: 0 is the picture without what is adjusted (black, its mean grey, grey, smoothed), 1 the picture itself, above
// 1 more of it.
#ifndef FT_ADJUST_H
#define FT_ADJUST_H

#include "engine/images/picture.h"

void ft_adjust_brightness(uint8_t *pixels, size_t count, double factor);
void ft_adjust_contrast(uint8_t *pixels, size_t count, double factor);
void ft_adjust_saturation(uint8_t *pixels, size_t count, double factor);
// Whose colours are turned by `factor` of a circle, [-0.5, 0.5].
void ft_adjust_hue(uint8_t *pixels, size_t count, double factor);
// room: [height, width, 3], written.
void ft_adjust_sharpness(uint8_t *pixels, int32_t width, int32_t height, double factor, uint8_t *room);
// The upper `bits` (0 to 8) of each byte are kept.
void ft_posterize(uint8_t *pixels, size_t count, int bits);
// Bytes that are not below `threshold` are inverted.
void ft_solarize(uint8_t *pixels, size_t count, double threshold);
// Each channel is stretched to all of 0 to 255.
void ft_autocontrast(uint8_t *pixels, size_t count);
// Of each channel every stretch of values gets as many pixels.
void ft_equalize(uint8_t *pixels, size_t count);

#endif
