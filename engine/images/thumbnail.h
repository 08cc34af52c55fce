// thumbnail.h - a small JPEG of a picture, for pages.
#ifndef FT_THUMBNAIL_H
#define FT_THUMBNAIL_H

#include "engine/images/picture.h"

// Its longer side has at most `side` pixels, 1 to FT_THUMBNAIL_MOST; smaller pictures stay as large as they are. *bytes: free() them.
enum { FT_THUMBNAIL_MOST = 512 };
typedef struct ft_thumbnail {
    int32_t width, height;
    uint8_t *bytes; // [length]
    size_t length;
} ft_thumbnail;
ft_status ft_thumbnail_make(const ft_picture *picture, int32_t side, ft_thumbnail *thumbnail);
void ft_thumbnail_free(ft_thumbnail *thumbnail); // {0} is fine

#endif
