// webp.c - WebP files by libwebp: one picture, with loss or without.
#include "engine/images/formats.h"

#include <string.h>

#include <webp/decode.h>

enum { CHUNK = 8, RIFF = 12, EXTENDED_HEADER = 10 };

static size_t little(const uint8_t *at) { return (size_t)at[0] | (size_t)at[1] << 8 | (size_t)at[2] << 16 | (size_t)at[3] << 24; }

// In a chunk of its own, in some files with the prefix that JPEG has.
static int orientation_of(const ft_picture_file *f) {
    for (size_t at = RIFF; at + CHUNK <= f->length;) {
        const size_t length = little(f->bytes + at + 4);
        const uint8_t *data = f->bytes + at + CHUNK;
        if (length > f->length - at - CHUNK) return 1;
        if (memcmp(f->bytes + at, "EXIF", 4) == 0) {
            const size_t prefix = length >= 6 && memcmp(data, "Exif\0", 6) == 0 ? 6 : 0;
            return ft_exif_orientation(data + prefix, length - prefix);
        }
        at += CHUNK + length + (length & 1);
    }
    return 1;
}

static ft_status broken(const ft_picture_file *f, VP8StatusCode code) {
    if (code == VP8_STATUS_OUT_OF_MEMORY) return ft_fail_memory(0, f->path);
    if (code == VP8_STATUS_NOT_ENOUGH_DATA) return ft_fail(FT_INVALID, f->path, "truncated WebP picture: the file ends in the middle of it");
    return ft_fail(FT_INVALID, f->path, "broken WebP picture (status %d of libwebp)", (int)code);
}

ft_status ft_webp_decode(ft_picture_file *f, ft_picture *picture) {
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config)) return ft_fail(FT_FAILED, f->path, "libwebp is another version than its headers");
    VP8StatusCode code = WebPGetFeatures(f->bytes, f->length, &config.input);
    if (code != VP8_STATUS_OK) return broken(f, code);
    if (config.input.has_animation) return ft_fail(FT_INVALID, f->path, "animated WebP pictures are not supported");
    FT_TRY(ft_picture_allocate(f, (uint64_t)config.input.width, (uint64_t)config.input.height, picture));
    f->orientation = orientation_of(f);
    const size_t stride = (size_t)picture->width * FT_PICTURE_CHANNELS;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = (WebPRGBABuffer){.rgba = picture->pixels, .stride = (int)stride, .size = stride * (size_t)picture->height};
    code = WebPDecode(f->bytes, f->length, &config);
    WebPFreeDecBuffer(&config.output);
    return code == VP8_STATUS_OK ? FT_OK : broken(f, code);
}
