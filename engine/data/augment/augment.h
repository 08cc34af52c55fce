// augment.h - what becomes of a picture in training, with torchvision's definitions: RandomResizedCrop,
// RandomHorizontalFlip, ColorJitter, RandAugment, RandomErasing, in this order; and of a batch MixUp or CutMix. What is
// drawn depends on (seed, epoch, picture), of a batch on (seed, epoch, batch), and on nothing else.
#ifndef FT_AUGMENT_H
#define FT_AUGMENT_H

#include "engine/config/config.h"
#include "engine/images/rules.h"

typedef struct ft_augment {
    bool crop;
    double scale[2], ratio[2]; // of a crop: shares of the area; width / height
    double flip;               // probability
    double brightness, contrast, saturation, hue;
    int operations, magnitude; // of RandAugment; 0: none
    double erasing;            // probability
    double mixup, cutmix;      // alpha of Beta(alpha, alpha); 0: none
} ft_augment;

// FT_INVALID with the option.
ft_status ft_augment_parse(const ft_config *config, ft_augment *augment);
bool ft_augment_changes(const ft_augment *augment); // pictures one by one
bool ft_augment_mixes(const ft_augment *augment);

// A box of pixels; no width: none.
typedef struct ft_box {
    int32_t left, top, width, height;
} ft_box;

// The pieces, for tests: of a picture of any size, and of one of the size that the model reads.
ft_box ft_augment_crop(const ft_augment *augment, uint64_t seed, int64_t epoch, int64_t picture, int32_t width,
                       int32_t height);
ft_box ft_augment_erased(const ft_augment *augment, uint64_t seed, int64_t epoch, int64_t picture, int32_t width,
                         int32_t height);

// RandAugment's operations, in the order of torchvision's table.
typedef enum ft_operation {
    FT_OP_IDENTITY,
    FT_OP_SHEAR_X,
    FT_OP_SHEAR_Y,
    FT_OP_TRANSLATE_X,
    FT_OP_TRANSLATE_Y,
    FT_OP_ROTATE,
    FT_OP_BRIGHTNESS,
    FT_OP_COLOR,
    FT_OP_CONTRAST,
    FT_OP_SHARPNESS,
    FT_OP_POSTERIZE,
    FT_OP_SOLARIZE,
    FT_OP_AUTOCONTRAST,
    FT_OP_EQUALIZE,
    FT_OPERATIONS
} ft_operation;
enum { FT_MAGNITUDES = 31 };
// How much of it, for a picture of that size: slopes, pixels, degrees, what is added to a factor of 1, bits, a
// threshold. fp32, as torchvision's.
double ft_operation_amount(ft_operation operation, int magnitude, int32_t width, int32_t height);
bool ft_operation_has_sign(ft_operation operation);
// amount: with its sign. room: as large as the picture.
void ft_operation_apply(ft_operation operation, double amount, uint8_t *pixels, int32_t width, int32_t height,
                        uint8_t *room);

// A picture as it stands in one epoch: `pixels` [rules->height, rules->width, 3]. With a crop it comes from `whole`,
// resized by the model's own filter; else it lies there already, resized as ever. room: as large. *erased: what is 0
// for the model, whatever its pixels are.
ft_status ft_augment_picture(const ft_augment *augment, const ft_picture_rules *rules, uint64_t seed, int64_t epoch,
                             int64_t picture, const ft_picture *whole, uint8_t *pixels, uint8_t *room, ft_box *erased);
// Bytes of the heap that a crop takes of a picture of that size, at most, beside the picture itself.
size_t ft_augment_crop_bytes(const ft_picture_rules *rules, int32_t width, int32_t height);

// What becomes of a batch. share: of a picture's own label; the rest is of the one that it is mixed with.
typedef struct ft_mix {
    bool cuts;
    double share; // of all numbers of the picture (MixUp); of its area that is left (CutMix)
    ft_box box;   // CutMix: from the other picture
} ft_mix;
ft_mix ft_augment_mix(const ft_augment *augment, uint64_t seed, int64_t epoch, int64_t batch, int32_t width,
                      int32_t height);

#endif
