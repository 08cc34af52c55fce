#include "engine/data/picture_fill.h"

#include "engine/data/input.h"
#include "engine/data/picture_feed.h"
#include "engine/data/picture_set.h"
#include "kernels/half.h"

#include <string.h>

enum { PIECE = 64 }; // numbers that are made narrow at once

static size_t offset_of(const ft_picture_set *set, int32_t y, int32_t x) {
    return ((size_t)y * (size_t)set->width + (size_t)x) * FT_PICTURE_CHANNELS;
}

// ---- as they lie there --------------------------------------------------------------------------------------------

// A patch as (channel, row, column).
static void fill_floats(const ft_picture_set *set, const uint8_t *corner, float *out) {
    const size_t stride = (size_t)set->width * FT_PICTURE_CHANNELS;
    for (int c = 0; c < FT_PICTURE_CHANNELS; c++)
        for (int32_t y = 0; y < set->patch; y++) {
            const uint8_t *pixel = corner + (size_t)y * stride + c;
            for (int32_t x = 0; x < set->patch; x++, pixel += FT_PICTURE_CHANNELS)
                *out++ = set->rules.value[c][*pixel];
        }
}

static void fill_halves(const ft_picture_set *set, uint16_t (*value)[256], const uint8_t *corner, uint16_t *out) {
    const size_t stride = (size_t)set->width * FT_PICTURE_CHANNELS;
    for (int c = 0; c < FT_PICTURE_CHANNELS; c++)
        for (int32_t y = 0; y < set->patch; y++) {
            const uint8_t *pixel = corner + (size_t)y * stride + c;
            for (int32_t x = 0; x < set->patch; x++, pixel += FT_PICTURE_CHANNELS)
                *out++ = value[c][*pixel];
        }
}

// ---- erased and mixed ---------------------------------------------------------------------------------------------

static bool is_inside(ft_box box, int32_t y, int32_t x) {
    return x >= box.left && x < box.left + box.width && y >= box.top && y < box.top + box.height;
}

static float number_of(const ft_picture_set *set, const uint8_t *pixels, ft_box erased, int c, int32_t y, int32_t x) {
    return is_inside(erased, y, x) ? 0 : set->rules.value[c][pixels[offset_of(set, y, x) + (size_t)c]];
}

// As torchvision's MixUp sums it: the other picture times 1 - share, and then this one times its share.
static float mixed_number(const ft_picture_set *set, const ft_fed_picture *p, int c, int32_t y, int32_t x) {
    const float own = number_of(set, p->pixels, p->erased, c, y, x);
    if (p->mix.share == 1) return own;
    if (p->mix.cuts && !is_inside(p->mix.box, y, x)) return own;
    const float other = number_of(set, p->other, p->other_erased, c, y, x);
    return p->mix.cuts ? other : other * (float)(1 - p->mix.share) + own * (float)p->mix.share;
}

static void fill_mixed(const ft_picture_set *set, const ft_fed_picture *p, int32_t top, int32_t left, ft_dtype type,
                       char *out) {
    float piece[PIECE];
    for (int c = 0; c < FT_PICTURE_CHANNELS; c++)
        for (int32_t y = top; y < top + set->patch; y++)
            for (int32_t x = left, count; x < left + set->patch;
                 x += count, out += (size_t)count * ft_dtype_size(type)) {
                count = left + set->patch - x < PIECE ? left + set->patch - x : PIECE;
                for (int32_t i = 0; i < count; i++)
                    piece[i] = mixed_number(set, p, c, y, x + i);
                if (type == FT_F32)
                    memcpy(out, piece, (size_t)count * sizeof *piece);
                else
                    ft_narrow(type, piece, (uint16_t *)(void *)out, count);
            }
}

// ---- a picture ----------------------------------------------------------------------------------------------------

// In front of the patches a row's id says which vector it is; patches have 0 (model/blocks/patches.h).
void ft_picture_fill(const ft_dataset *data, int64_t sequence, ft_batch *batch, int32_t row) {
    const ft_picture_set *set = data->pictures;
    const ft_dtype type = batch->format.patch_type;
    const size_t bytes = (size_t)ft_picture_set_numbers(set) * ft_dtype_size(type);
    ft_fed_picture fed = {.mix = {.share = 1}};
    if (batch->feed != NULL)
        fed = ft_picture_feed_at(batch->feed, row / ft_picture_set_rows(set));
    else
        fed.pixels = ft_picture_set_at(set, ft_dataset_example(data, sequence));
    const bool plain = fed.erased.width == 0 && fed.mix.share == 1;
    uint16_t halves[FT_PICTURE_CHANNELS][256];
    char *out = (char *)batch->patch + (size_t)row * bytes;
    for (int c = 0; c < FT_PICTURE_CHANNELS && ft_is_half(type); c++)
        ft_narrow(type, set->rules.value[c], halves[c], 256);
    for (int32_t i = 0; i < set->tokens; i++, row++, out += bytes) {
        batch->ids[row] = i + 1;
        batch->token_type[row] = 0;
        memset(out, 0, bytes);
    }
    for (int32_t y = 0; y < set->height; y += set->patch)
        for (int32_t x = 0; x < set->width; x += set->patch, row++, out += bytes) {
            const uint8_t *corner = fed.pixels + offset_of(set, y, x);
            batch->ids[row] = batch->token_type[row] = 0;
            if (!plain)
                fill_mixed(set, &fed, y, x, type, out);
            else if (type == FT_F32)
                fill_floats(set, corner, (float *)(void *)out);
            else
                fill_halves(set, halves, corner, (uint16_t *)(void *)out);
        }
}
