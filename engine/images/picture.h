// picture.h - a picture file as rows of red, green and blue bytes.
//
//     FT_TRY(ft_picture_read("x.jpg", &picture));
//     ... picture.pixels[(y * picture.width + x) * 3 + channel]
//     ft_picture_free(&picture);
#ifndef FT_PICTURE_H
#define FT_PICTURE_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum { FT_PICTURE_CHANNELS = 3 };

// More pixels than that are refused before memory is taken for them: where Pillow speaks of a decompression bomb.
enum { FT_PICTURE_MOST_PIXELS = 178956970 };

typedef struct ft_picture {
    int32_t width, height;
    uint8_t *pixels; // [height, width, 3], of the heap
} ft_picture;

// A JPEG, PNG or WebP file (found by its content) as Pillow's convert("RGB") has it: grey three times, colours of palettes, alpha left out,
// CMYK by Adobe's rule, of 16 bits the high byte; then turned as EXIF's orientation says. The first frame is all of an animated PNG.
// FT_INVALID with the path: no such picture, another format (named), too large, truncated, damaged. *picture is {0} on failure.
ft_status ft_picture_read(const char *path, ft_picture *picture);
// The same of bytes in memory; path: for messages.
ft_status ft_picture_decode(const void *bytes, size_t length, const char *path, ft_picture *picture);
// The same, but a JPEG picture is decoded at 1/2, 1/4 or 1/8 of its size where it then still is so large, as Pillow's draft() has it: faster, and with other
// pixels. 0: as it is.
ft_status ft_picture_decode_scaled(const void *bytes, size_t length, const char *path, int32_t least_width, int32_t least_height, ft_picture *picture);
void ft_picture_free(ft_picture *picture); // {0} is fine

#endif
