// formats.h - what picture.c asks the decoders. Internal to this room.
#ifndef FT_IMAGE_FORMATS_H
#define FT_IMAGE_FORMATS_H

#include "engine/images/picture.h"

// The bytes of a file, and what is said of it.
typedef struct ft_picture_file {
    const uint8_t *bytes;
    size_t length;
    const char *path;
    int32_t least_width, least_height; // of the picture, turned: JPEG may come in so much less than it is; 0: whole
    int orientation; // 1 to 8, as EXIF counts them: found while decoding; 1: as it lies
} ft_picture_file;

// Is it a size that is read?
ft_status ft_picture_check(const ft_picture_file *file, uint64_t width, uint64_t height);
// Bounds the size and takes memory for it.
ft_status ft_picture_allocate(const ft_picture_file *file, uint64_t width, uint64_t height, ft_picture *picture);

// On failure what was taken is in *picture, for the caller to free.
ft_status ft_jpeg_decode(ft_picture_file *file, ft_picture *picture);
ft_status ft_png_decode(ft_picture_file *file, ft_picture *picture);
ft_status ft_webp_decode(ft_picture_file *file, ft_picture *picture);

// The orientation that the TIFF structure of EXIF data says; 1 where it says none.
int ft_exif_orientation(const uint8_t *tiff, size_t length);

#endif
