// png.c - PNG files by libpng.
#include "engine/images/formats.h"

#include <setjmp.h>
#include <string.h>

#include <png.h>

enum { MOST_ANCILLARY = 8 << 20, LONGEST_SIDE = 0x7FFFFFFF }; // bytes that a chunk beside the pixels may unpack to

typedef struct decoder {
    png_structp png;
    png_infop info;
    jmp_buf out;
    size_t at; // bytes that were read
    ft_status status;
    ft_picture_file *file;
    ft_picture *picture;
} decoder;

static void PNGCBAPI leave(png_structp png, png_const_charp text) {
    decoder *d = png_get_error_ptr(png);
    d->status = ft_fail(FT_INVALID, d->file->path, "broken PNG picture: %.150s", text);
    longjmp(d->out, 1);
}

static void PNGCBAPI quiet(png_structp png, png_const_charp text) { (void)png, (void)text; }

static void PNGCBAPI give(png_structp png, png_bytep to, size_t length) {
    decoder *d = png_get_io_ptr(png);
    if (length > d->file->length - d->at) {
        d->status = ft_fail(FT_INVALID, d->file->path, "truncated PNG picture: the file ends in the middle of it");
        longjmp(d->out, 1);
    }
    memcpy(to, d->file->bytes + d->at, length);
    d->at += length;
}

static int orientation_of(const decoder *d) {
    png_uint_32 length;
    png_bytep exif;
    return png_get_eXIf_1(d->png, d->info, &length, &exif) != 0 ? ft_exif_orientation(exif, length) : 1;
}

// Whatever it is becomes three bytes a pixel.
static void ask_for_rgb(const decoder *d) {
    png_set_palette_to_rgb(d->png);
    png_set_expand_gray_1_2_4_to_8(d->png);
    png_set_strip_16(d->png);
    png_set_strip_alpha(d->png);
    png_set_gray_to_rgb(d->png);
}

static void decode(decoder *d) {
    png_set_read_fn(d->png, d, give);
    png_set_user_limits(d->png, LONGEST_SIDE, LONGEST_SIDE); // ft_picture_allocate has the bound
    png_set_chunk_malloc_max(d->png, MOST_ANCILLARY);
    png_read_info(d->png, d->info);
    const png_uint_32 width = png_get_image_width(d->png, d->info), height = png_get_image_height(d->png, d->info);
    d->status = ft_picture_allocate(d->file, width, height, d->picture);
    if (d->status != FT_OK) return;
    ask_for_rgb(d);
    const int passes = png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
    const size_t stride = (size_t)width * FT_PICTURE_CHANNELS;
    if (png_get_rowbytes(d->png, d->info) != stride) {
        d->status = ft_fail(FT_INVALID, d->file->path, "PNG picture of an unknown kind");
        return;
    }
    for (int pass = 0; pass < passes; pass++)
        for (png_uint_32 y = 0; y < height; y++) png_read_row(d->png, d->picture->pixels + y * stride, NULL);
    png_read_end(d->png, d->info);
    d->file->orientation = orientation_of(d);
}

ft_status ft_png_decode(ft_picture_file *file, ft_picture *picture) {
    decoder d = {.file = file, .picture = picture};
    d.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &d, leave, quiet);
    d.info = d.png != NULL ? png_create_info_struct(d.png) : NULL;
    if (d.info == NULL) d.status = ft_fail_memory(0, "a PNG decoder");
    else if (setjmp(d.out) == 0) decode(&d);
    png_destroy_read_struct(&d.png, &d.info, NULL);
    return d.status;
}
