#include "engine/images/thumbnail.h"

#include "base/heap.h"
#include "engine/images/resize.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

enum { QUALITY = 80 };

typedef struct encoder {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf out;
    bool done;
    unsigned char *bytes; // of the library's malloc
    unsigned long length;
} encoder;

// Of an encoder that is given pixels only memory can be short.
static _Noreturn void leave(j_common_ptr jpeg) {
    encoder *e = jpeg->client_data;
    longjmp(e->out, 1);
}

static void encode(encoder *e, const ft_thumbnail *t, uint8_t *pixels) {
    struct jpeg_compress_struct *jpeg = &e->jpeg;
    jpeg_create_compress(jpeg);
    jpeg_mem_dest(jpeg, &e->bytes, &e->length);
    jpeg->image_width = (JDIMENSION)t->width;
    jpeg->image_height = (JDIMENSION)t->height;
    jpeg->input_components = FT_PICTURE_CHANNELS;
    jpeg->in_color_space = JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, QUALITY, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    while (jpeg->next_scanline < jpeg->image_height) {
        JSAMPROW row = pixels + (size_t)jpeg->next_scanline * (size_t)t->width * FT_PICTURE_CHANNELS;
        jpeg_write_scanlines(jpeg, &row, 1);
    }
    jpeg_finish_compress(jpeg);
    e->done = true;
}

static ft_status compress(ft_thumbnail *t, uint8_t *pixels) {
    encoder e = {.bytes = NULL};
    e.jpeg.err = jpeg_std_error(&e.errors);
    e.jpeg.client_data = &e;
    e.errors.error_exit = leave;
    if (setjmp(e.out) == 0) encode(&e, t, pixels);
    jpeg_destroy_compress(&e.jpeg);
    t->bytes = e.bytes;
    t->length = e.length;
    return e.done ? FT_OK : ft_fail_memory(0, "a thumbnail");
}

// Of the shorter side, to the nearest, at least one pixel.
static int32_t scaled(int32_t size, int32_t longer, int32_t side) {
    const int32_t to = (int32_t)(((int64_t)size * side + longer / 2) / longer);
    return to < 1 ? 1 : to;
}

ft_status ft_thumbnail_make(const ft_picture *p, int32_t side, ft_thumbnail *t) {
    const int32_t longer = p->width > p->height ? p->width : p->height, most = longer < side ? longer : side;
    *t = (ft_thumbnail){.width = scaled(p->width, longer, most), .height = scaled(p->height, longer, most)};
    uint8_t *pixels = ft_calloc((size_t)t->width * (size_t)t->height, FT_PICTURE_CHANNELS, "a thumbnail");
    if (pixels == NULL) return FT_NO_MEMORY;
    ft_status status = ft_picture_resize(p, FT_RESAMPLE_BILINEAR, t->width, t->height, pixels);
    if (status == FT_OK) status = compress(t, pixels);
    free(pixels);
    if (status != FT_OK) ft_thumbnail_free(t);
    return status;
}

void ft_thumbnail_free(ft_thumbnail *t) {
    free(t->bytes);
    *t = (ft_thumbnail){.bytes = NULL};
}
