#include "engine/data/augment/augment.h"

#include "base/heap.h"
#include "engine/data/augment/draws.h"
#include "engine/images/adjust.h"
#include "engine/images/move.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 10, COLOURS = 4 };

// ---- options ------------------------------------------------------------------------------------------------------

// One number for brightness, contrast and saturation, or these three, or with hue four.
static ft_status parse_colours(const char *text, ft_augment *a) {
    double value[COLOURS];
    int count = 0;
    const char *at = text;
    for (char *end; count < COLOURS; at = end + 1) {
        value[count] = strtod(at, &end);
        if (end == at || !(value[count] >= 0) || !isfinite(value[count])) break;
        count++;
        end += strspn(end, " \t");
        if (*end == '\0' && (count == 1 || count >= 3)) {
            a->brightness = value[0];
            a->contrast = value[count == 1 ? 0 : 1];
            a->saturation = value[count == 1 ? 0 : 2];
            a->hue = count == 4 ? value[3] : 0;
            if (a->hue <= 0.5) return FT_OK;
            return ft_fail(FT_INVALID, "augment.color_jitter", "hue is turned by at most 0.5, not %g", a->hue);
        }
        if (*end != ',') break;
    }
    ft_fail(FT_INVALID, "augment.color_jitter",
            "\"%s\" is neither one number, nor three or four from 0 on, separated by commas", text);
    ft_hint("brightness, contrast, saturation, hue: 0.4 or 0.4,0.4,0.4,0.1");
    return FT_INVALID;
}

ft_status ft_augment_parse(const ft_config *config, ft_augment *a) {
    *a = (ft_augment){.crop = config->augment.crop,
                      .scale = {config->augment.crop_least, config->augment.crop_most},
                      .ratio = {config->augment.crop_narrowest, config->augment.crop_widest},
                      .flip = config->augment.flip,
                      .operations = (int)config->augment.randaugment,
                      .magnitude = (int)config->augment.magnitude,
                      .erasing = config->augment.erasing,
                      .mixup = config->augment.mixup,
                      .cutmix = config->augment.cutmix};
    if (a->scale[0] > a->scale[1])
        return ft_fail(FT_INVALID, "augment.crop_least", "%g is more than augment.crop_most, %g", a->scale[0],
                       a->scale[1]);
    if (a->ratio[0] > a->ratio[1])
        return ft_fail(FT_INVALID, "augment.crop_narrowest", "%g is more than augment.crop_widest, %g", a->ratio[0],
                       a->ratio[1]);
    return parse_colours(config->augment.color_jitter, a);
}

static bool jitters(const ft_augment *a) {
    return a->brightness > 0 || a->contrast > 0 || a->saturation > 0 || a->hue > 0;
}
bool ft_augment_changes(const ft_augment *a) {
    return a->crop || a->flip > 0 || jitters(a) || a->operations > 0 || a->erasing > 0;
}
bool ft_augment_mixes(const ft_augment *a) { return a->mixup > 0 || a->cutmix > 0; }

// ---- boxes --------------------------------------------------------------------------------------------------------

// Whole numbers of pixels, halves to the even one, as Python rounds.
static int32_t to_pixels(double x) { return (int32_t)nearbyint(x < 1e9 ? x : 1e9); }

// Where no box was found: the largest one in the middle whose shape is allowed.
static ft_box middle(const ft_augment *a, int32_t width, int32_t height) {
    const double shape = (double)width / height;
    ft_box box = {.width = width, .height = height};
    if (shape < a->ratio[0])
        box.height = to_pixels(width / a->ratio[0]);
    else if (shape > a->ratio[1])
        box.width = to_pixels(height * a->ratio[1]);
    if (box.width < 1) box.width = 1;
    if (box.height < 1) box.height = 1;
    box.left = (width - box.width) / 2;
    box.top = (height - box.height) / 2;
    return box;
}

ft_box ft_augment_crop(const ft_augment *a, uint64_t seed, int64_t epoch, int64_t picture, int32_t width,
                       int32_t height) {
    ft_draws d = ft_draws_of(seed, epoch, picture, FT_DRAWS_CROP);
    const double area = (double)width * height, low = log(a->ratio[0]), high = log(a->ratio[1]);
    for (int i = 0; i < TRIES; i++) {
        const double wanted = area * ft_draw_between(&d, a->scale[0], a->scale[1]),
                     shape = exp(ft_draw_between(&d, low, high));
        ft_box box = {.width = to_pixels(sqrt(wanted * shape)), .height = to_pixels(sqrt(wanted / shape))};
        if (box.width < 1 || box.height < 1 || box.width > width || box.height > height) continue;
        box.top = (int32_t)ft_draw_below(&d, height - box.height + 1);
        box.left = (int32_t)ft_draw_below(&d, width - box.width + 1);
        return box;
    }
    return middle(a, width, height);
}

// torchvision's defaults: 0.02 to 0.33 of the area, 0.3 to 3.3 times as high as wide.
ft_box ft_augment_erased(const ft_augment *a, uint64_t seed, int64_t epoch, int64_t picture, int32_t width,
                         int32_t height) {
    static const double least = 0.02, most = 0.33;
    ft_draws d = ft_draws_of(seed, epoch, picture, FT_DRAWS_ERASING);
    const double area = (double)width * height, low = log(0.3), high = log(3.3);
    if (ft_draw(&d) >= a->erasing) return (ft_box){0};
    for (int i = 0; i < TRIES; i++) {
        const double wanted = area * ft_draw_between(&d, least, most), shape = exp(ft_draw_between(&d, low, high));
        ft_box box = {.height = to_pixels(sqrt(wanted * shape)), .width = to_pixels(sqrt(wanted / shape))};
        if (box.width < 1 || box.height < 1 || box.width >= width || box.height >= height) continue;
        box.top = (int32_t)ft_draw_below(&d, height - box.height + 1);
        box.left = (int32_t)ft_draw_below(&d, width - box.width + 1);
        return box;
    }
    return (ft_box){0};
}

// ---- colours ------------------------------------------------------------------------------------------------------

static double factor_of(ft_draws *d, double range) { return ft_draw_between(d, range < 1 ? 1 - range : 0, 1 + range); }

// In any order; each has its number drawn, also where it is not asked for.
static void jitter(const ft_augment *a, ft_draws *d, uint8_t *pixels, size_t count) {
    int order[COLOURS] = {0, 1, 2, 3};
    for (int i = COLOURS - 1; i > 0; i--) {
        const int64_t k = ft_draw_below(d, i + 1);
        const int other = order[k];
        order[k] = order[i];
        order[i] = other;
    }
    const double brightness = factor_of(d, a->brightness), contrast = factor_of(d, a->contrast),
                 saturation = factor_of(d, a->saturation);
    const double hue = ft_draw_between(d, -a->hue, a->hue);
    for (int i = 0; i < COLOURS; i++) {
        if (order[i] == 0 && a->brightness > 0) ft_adjust_brightness(pixels, count, brightness);
        if (order[i] == 1 && a->contrast > 0) ft_adjust_contrast(pixels, count, contrast);
        if (order[i] == 2 && a->saturation > 0) ft_adjust_saturation(pixels, count, saturation);
        if (order[i] == 3 && a->hue > 0) ft_adjust_hue(pixels, count, hue);
    }
}

// ---- RandAugment --------------------------------------------------------------------------------------------------

// Element i of torch.linspace(first, last, FT_MAGNITUDES), which counts from the nearer end, in fp32.
static double between(float first, float last, int i) {
    const float step = (last - first) / (float)(FT_MAGNITUDES - 1);
    return i < FT_MAGNITUDES / 2 ? (double)(first + step * (float)i)
                                 : (double)(last - step * (float)(FT_MAGNITUDES - 1 - i));
}

double ft_operation_amount(ft_operation operation, int magnitude, int32_t width, int32_t height) {
    switch (operation) {
    case FT_OP_SHEAR_X:
    case FT_OP_SHEAR_Y: return between(0, 0.3f, magnitude);
    case FT_OP_TRANSLATE_X: return between(0, (float)(150.0 / 331.0 * width), magnitude);
    case FT_OP_TRANSLATE_Y: return between(0, (float)(150.0 / 331.0 * height), magnitude);
    case FT_OP_ROTATE: return between(0, 30, magnitude);
    case FT_OP_BRIGHTNESS:
    case FT_OP_COLOR:
    case FT_OP_CONTRAST:
    case FT_OP_SHARPNESS: return between(0, 0.9f, magnitude);
    case FT_OP_POSTERIZE: return 8 - nearbyint(magnitude / ((FT_MAGNITUDES - 1) / 4.0));
    case FT_OP_SOLARIZE: return between(255, 0, magnitude);
    default: return 0;
    }
}

bool ft_operation_has_sign(ft_operation operation) {
    return operation >= FT_OP_SHEAR_X && operation <= FT_OP_SHARPNESS;
}

void ft_operation_apply(ft_operation operation, double amount, uint8_t *pixels, int32_t width, int32_t height,
                        uint8_t *room) {
    const size_t count = (size_t)width * (size_t)height;
    switch (operation) {
    case FT_OP_SHEAR_X: ft_picture_shear_rows(pixels, width, height, amount, room); break;
    case FT_OP_SHEAR_Y: ft_picture_shear_columns(pixels, width, height, amount, room); break;
    case FT_OP_TRANSLATE_X: ft_picture_shift(pixels, width, height, (int32_t)amount, 0, room); break;
    case FT_OP_TRANSLATE_Y: ft_picture_shift(pixels, width, height, 0, (int32_t)amount, room); break;
    case FT_OP_ROTATE: ft_picture_turn(pixels, width, height, amount, room); break;
    case FT_OP_BRIGHTNESS: ft_adjust_brightness(pixels, count, 1 + amount); return;
    case FT_OP_COLOR: ft_adjust_saturation(pixels, count, 1 + amount); return;
    case FT_OP_CONTRAST: ft_adjust_contrast(pixels, count, 1 + amount); return;
    case FT_OP_SHARPNESS: ft_adjust_sharpness(pixels, width, height, 1 + amount, room); return;
    case FT_OP_POSTERIZE: ft_posterize(pixels, count, (int)amount); return;
    case FT_OP_SOLARIZE: ft_solarize(pixels, count, amount); return;
    case FT_OP_AUTOCONTRAST: ft_autocontrast(pixels, count); return;
    case FT_OP_EQUALIZE: ft_equalize(pixels, count); return;
    default: return;
    }
    memcpy(pixels, room, count * FT_PICTURE_CHANNELS); // what was moved
}

static void operate(const ft_augment *a, ft_draws *d, uint8_t *pixels, int32_t width, int32_t height, uint8_t *room) {
    for (int i = 0; i < a->operations; i++) {
        const ft_operation operation = (ft_operation)ft_draw_below(d, FT_OPERATIONS);
        const bool negative = ft_draw(d) < 0.5;
        const double amount = ft_operation_amount(operation, a->magnitude, width, height);
        ft_operation_apply(operation, negative && ft_operation_has_sign(operation) ? -amount : amount, pixels, width,
                           height, room);
    }
}

// ---- a picture ----------------------------------------------------------------------------------------------------

size_t ft_augment_crop_bytes(const ft_picture_rules *rules, int32_t width, int32_t height) {
    return (size_t)FT_PICTURE_CHANNELS * (size_t)height *
           ((size_t)width + (size_t)rules->width); // the box, and its rows in their new width
}

static ft_status crop(const ft_picture *whole, ft_box box, const ft_picture_rules *rules, uint8_t *pixels) {
    ft_picture part = {.width = box.width, .height = box.height};
    part.pixels = ft_calloc((size_t)box.width * (size_t)box.height, FT_PICTURE_CHANNELS, "a part of a picture");
    if (part.pixels == NULL) return FT_NO_MEMORY;
    ft_picture_cut(whole, box.left, box.top, &part);
    const ft_status status = ft_picture_resize(&part, rules->filter, rules->width, rules->height, pixels);
    ft_picture_free(&part);
    return status;
}

ft_status ft_augment_picture(const ft_augment *a, const ft_picture_rules *rules, uint64_t seed, int64_t epoch,
                             int64_t picture, const ft_picture *whole, uint8_t *pixels, uint8_t *room, ft_box *erased) {
    const int32_t width = rules->width, height = rules->height;
    if (a->crop)
        FT_TRY(crop(whole, ft_augment_crop(a, seed, epoch, picture, whole->width, whole->height), rules, pixels));
    ft_draws flips = ft_draws_of(seed, epoch, picture, FT_DRAWS_FLIP),
             colours = ft_draws_of(seed, epoch, picture, FT_DRAWS_COLOURS);
    ft_draws operations = ft_draws_of(seed, epoch, picture, FT_DRAWS_RANDAUGMENT);
    if (a->flip > 0 && ft_draw(&flips) < a->flip) ft_picture_flip(pixels, width, height);
    if (jitters(a)) jitter(a, &colours, pixels, (size_t)width * (size_t)height);
    operate(a, &operations, pixels, width, height, room);
    *erased = a->erasing > 0 ? ft_augment_erased(a, seed, epoch, picture, width, height) : (ft_box){0};
    return FT_OK;
}

// ---- a batch ------------------------------------------------------------------------------------------------------

static int32_t inside(double x, int32_t end) { return x < 0 ? 0 : x > end ? end : (int32_t)x; }

// With both, one of them, as likely.
ft_mix ft_augment_mix(const ft_augment *a, uint64_t seed, int64_t epoch, int64_t batch, int32_t width, int32_t height) {
    ft_draws d = ft_draws_of(seed, epoch, batch, FT_DRAWS_MIX);
    const bool second = ft_draw(&d) < 0.5;
    ft_mix mix = {.cuts = a->cutmix > 0 && (a->mixup == 0 || second), .share = 1};
    if (!ft_augment_mixes(a)) return mix;
    mix.share = ft_draw_beta(&d, mix.cuts ? a->cutmix : a->mixup);
    if (!mix.cuts) return mix;
    const int64_t x = ft_draw_below(&d, width), y = ft_draw_below(&d, height);
    const double half = 0.5 * sqrt(1 - mix.share);
    const int32_t across = (int32_t)(half * width), down = (int32_t)(half * height);
    const int32_t left = inside((double)(x - across), width), right = inside((double)(x + across), width);
    const int32_t top = inside((double)(y - down), height), bottom = inside((double)(y + down), height);
    mix.box = (ft_box){.left = left, .top = top, .width = right - left, .height = bottom - top};
    mix.share = 1 - (double)mix.box.width * mix.box.height / ((double)width * height);
    return mix;
}
