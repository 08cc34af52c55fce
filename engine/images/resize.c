#include "engine/images/resize_axis.h"

#include "base/heap.h"

#include <stdlib.h>
#include <string.h>

static void rows_then_columns(const ft_picture *p, int32_t width, int32_t height, const ft_resize_axis *across, const ft_resize_axis *down,
                              uint8_t *between, uint8_t *out) {
    const size_t in_stride = (size_t)p->width * FT_PICTURE_CHANNELS, stride = (size_t)width * FT_PICTURE_CHANNELS;
    const ft_resize_functions *sums = ft_resize_best();
    const uint8_t *rows = p->pixels;
    if (width != p->width) {
        uint8_t *to = height != p->height ? between : out;
        sums->rows(across, rows, in_stride, width, p->height, to);
        rows = to;
    }
    if (height != p->height)
        for (int32_t y = 0; y < height; y++) sums->columns(down, y, rows, stride, out + (size_t)y * stride);
    else if (rows != out) memcpy(out, rows, stride * (size_t)height);
}

ft_status ft_picture_resize(const ft_picture *p, ft_resample filter, int32_t width, int32_t height, uint8_t *out) {
    ft_resize_axis across = {.spans = NULL}, down = {.spans = NULL};
    const size_t stride = (size_t)width * FT_PICTURE_CHANNELS;
    uint8_t *between = ft_calloc(stride * (size_t)p->height, 1, "a picture on its way to another size");
    ft_status status = between != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK) status = ft_resize_axis_make(filter, p->width, width, &across);
    if (status == FT_OK) status = ft_resize_axis_make(filter, p->height, height, &down);
    if (status == FT_OK) rows_then_columns(p, width, height, &across, &down, between, out);
    ft_resize_axis_free(&across);
    ft_resize_axis_free(&down);
    free(between);
    return status;
}
