// resize.h - a picture in another size, bit for bit as Pillow (up to 12) makes it: filters that grow with the step (antialiasing), weights of 22
// bits, rows first and then columns, bytes in between.
#ifndef FT_RESIZE_H
#define FT_RESIZE_H

#include "engine/images/picture.h"

// As Pillow numbers them; what is not here is not supported.
typedef enum ft_resample { FT_RESAMPLE_LANCZOS = 1, FT_RESAMPLE_BILINEAR = 2, FT_RESAMPLE_BICUBIC = 3 } ft_resample;

// out: [height, width, 3], the caller's. FT_NO_MEMORY alone can go wrong. Sizes are at least 1.
ft_status ft_picture_resize(const ft_picture *picture, ft_resample filter, int32_t width, int32_t height, uint8_t *out);

#endif
