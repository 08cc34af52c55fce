// move.h - a picture flipped, shifted, sheared and turned, nearest pixels, bit for bit as Pillow and torchvision do it:
// what comes from outside is black.
#ifndef FT_MOVE_H
#define FT_MOVE_H

#include "engine/images/picture.h"

// Left becomes right, in place.
void ft_picture_flip(uint8_t *pixels, int32_t width, int32_t height);
// All of these: from and to [height, width, 3], not the same.
void ft_picture_shift(const uint8_t *from, int32_t width, int32_t height, int32_t right, int32_t down, uint8_t *to);
// Rows are moved by `slope` pixels a row, columns by `slope` pixels a column, from the corner at the top left; |slope|
// <= 1.
void ft_picture_shear_rows(const uint8_t *from, int32_t width, int32_t height, double slope, uint8_t *to);
void ft_picture_shear_columns(const uint8_t *from, int32_t width, int32_t height, double slope, uint8_t *to);
// Against the clock, about the centre.
void ft_picture_turn(const uint8_t *from, int32_t width, int32_t height, double degrees, uint8_t *to);
// A box of a picture as a picture of its own, whose pixels are the caller's: [height, width, 3]. The box lies inside.
void ft_picture_cut(const ft_picture *from, int32_t left, int32_t top, ft_picture *to);

#endif
