#include "engine/images/picture.h"

#include "base/files.h"
#include "base/heap.h"
#include "engine/images/formats.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *magic;
    size_t at, length;
    ft_status (*decode)(ft_picture_file *file, ft_picture *picture); // NULL: known, and not supported
} formats[] = {
    {"JPEG", "\xFF\xD8\xFF", 0, 3, ft_jpeg_decode}, {"PNG", "\x89PNG\r\n\x1A\n", 0, 8, ft_png_decode}, {"WebP", "WEBP", 8, 4, ft_webp_decode},
    {"GIF", "GIF8", 0, 4, NULL},                    {"BMP", "BM", 0, 2, NULL},                         {"TIFF", "II*\0", 0, 4, NULL},
    {"TIFF", "MM\0*", 0, 4, NULL},                  {"HEIF or AVIF", "ftyp", 4, 4, NULL},              {"JPEG 2000", "\0\0\0\fjP  ", 0, 8, NULL},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

ft_status ft_picture_check(const ft_picture_file *file, uint64_t width, uint64_t height) {
    if (width < 1 || height < 1) return ft_fail(FT_INVALID, file->path, "a picture without pixels");
    if (width > FT_PICTURE_MOST_PIXELS / height) {
        ft_fail(FT_INVALID, file->path, "a picture of %llu x %llu pixels: at most %d can be read", (unsigned long long)width, (unsigned long long)height,
                FT_PICTURE_MOST_PIXELS);
        ft_hint("is it a decompression bomb? A picture that is one should be made smaller first");
        return FT_INVALID;
    }
    return FT_OK;
}

ft_status ft_picture_allocate(const ft_picture_file *file, uint64_t width, uint64_t height, ft_picture *picture) {
    FT_TRY(ft_picture_check(file, width, height));
    picture->width = (int32_t)width;
    picture->height = (int32_t)height;
    picture->pixels = ft_calloc((size_t)(width * height), FT_PICTURE_CHANNELS, "a picture");
    return picture->pixels != NULL ? FT_OK : FT_NO_MEMORY;
}

void ft_picture_free(ft_picture *picture) {
    free(picture->pixels);
    *picture = (ft_picture){.pixels = NULL};
}

// Where pixel (y, x) of the picture that is turned comes from.
static size_t source_of(const ft_picture *p, int orientation, int32_t y, int32_t x) {
    const int32_t right = p->width - 1, bottom = p->height - 1;
    const int32_t rows[] = {y, y, bottom - y, bottom - y, x, bottom - x, bottom - x, x};
    const int32_t columns[] = {x, right - x, right - x, x, y, y, right - y, right - y};
    return (size_t)rows[orientation - 1] * (size_t)p->width + (size_t)columns[orientation - 1];
}

static ft_status turn(ft_picture *p, int orientation) {
    if (orientation == 1) return FT_OK;
    const bool lies = orientation >= 5; // on its side
    ft_picture turned = {.width = lies ? p->height : p->width, .height = lies ? p->width : p->height};
    turned.pixels = ft_calloc((size_t)p->width * (size_t)p->height, FT_PICTURE_CHANNELS, "a picture");
    if (turned.pixels == NULL) return FT_NO_MEMORY;
    uint8_t *to = turned.pixels;
    for (int32_t y = 0; y < turned.height; y++)
        for (int32_t x = 0; x < turned.width; x++, to += FT_PICTURE_CHANNELS)
            memcpy(to, p->pixels + source_of(p, orientation, y, x) * FT_PICTURE_CHANNELS, FT_PICTURE_CHANNELS);
    ft_picture_free(p);
    *p = turned;
    return FT_OK;
}

static ft_status refuse(const ft_picture_file *file, const char *name) {
    if (name == NULL) ft_fail(FT_INVALID, file->path, file->length == 0 ? "an empty file, not a picture" : "not a picture");
    else ft_fail(FT_INVALID, file->path, "a %s picture: this format is not supported", name);
    ft_hint("JPEG, PNG and WebP can be read");
    return FT_INVALID;
}

static ft_status decode(ft_picture_file *file, ft_picture *picture) {
    for (int i = 0; i < FORMATS; i++) {
        if (file->length < formats[i].at + formats[i].length || memcmp(file->bytes + formats[i].at, formats[i].magic, formats[i].length) != 0) continue;
        if (formats[i].decode == NULL) return refuse(file, formats[i].name);
        FT_TRY(formats[i].decode(file, picture));
        return turn(picture, file->orientation);
    }
    return refuse(file, NULL);
}

ft_status ft_picture_decode(const void *bytes, size_t length, const char *path, ft_picture *picture) {
    return ft_picture_decode_scaled(bytes, length, path, 0, 0, picture);
}

ft_status ft_picture_decode_scaled(const void *bytes, size_t length, const char *path, int32_t least_width, int32_t least_height, ft_picture *picture) {
    *picture = (ft_picture){.pixels = NULL};
    ft_picture_file file = {.bytes = bytes, .length = length, .path = path, .least_width = least_width, .least_height = least_height, .orientation = 1};
    const ft_status status = decode(&file, picture);
    if (status != FT_OK) ft_picture_free(picture);
    return status;
}

ft_status ft_picture_read(const char *path, ft_picture *picture) {
    const void *bytes;
    size_t length;
    *picture = (ft_picture){.pixels = NULL};
    FT_TRY(ft_map_file(path, &bytes, &length));
    const ft_status status = ft_picture_decode(bytes, length, path, picture);
    ft_unmap_file(bytes, length);
    return status;
}
