// options_augment.c - [augment]: what training changes in pictures. Names and definitions are torchvision's.
#define FT_ROWS_OF ft_config
#define FT_ROWS_IN ft_augment_section
#include "engine/config/option_rows.h"

static const ft_option rows[] = {
    BOOL(augment.crop, FIXED, "false", .elsewhere = "random_resized_crop rrc",
         .help = "Every picture is read anew in every epoch, and a part of it by chance, resized to the model's size, is learned. false: the whole picture, as in "
                 "evaluation."),
    FLOAT(augment.crop_least, FIXED, "0.08", 0, 1, .low_open = true, .elsewhere = "scale crop_scale min_scale crop_min",
          .help = "The least share of a picture's area that augment.crop takes."),
    FLOAT(augment.crop_most, FIXED, "1", 0, 1, .low_open = true, .help = "The largest share of a picture's area that augment.crop takes."),
    FLOAT(augment.crop_narrowest, FIXED, "0.75", 0.01, 100, .elsewhere = "ratio crop_ratio aspect_ratio",
          .help = "The least width / height of what augment.crop takes."),
    FLOAT(augment.crop_widest, FIXED, "1.3333333333333333", 0.01, 100, .help = "The largest width / height of what augment.crop takes."),
    FLOAT(augment.flip, FIXED, "0", 0, 1, .elsewhere = "hflip horizontal_flip random_horizontal_flip fliplr",
          .help = "How likely a picture is mirrored, left to right. Usual: 0.5."),
    STRING(augment.color_jitter, FIXED, "0", .elsewhere = "colorjitter jitter jitter_param",
           .help = "By how much brightness, contrast and saturation vary (0.4: factors from 0.6 to 1.4): one number for all three, or three; and as a fourth by how much "
                   "hue does, at most 0.5. As 0.4 or 0.4,0.4,0.4,0.1. 0: not at all."),
    INT(augment.randaugment, FIXED, "0", 0, 14, .unit = "operations", .elsewhere = "num_ops rand_augment randaug aa auto_augment",
        .help = "RandAugment: so many of 14 operations by chance on every picture. Usual: 2. 0: none."),
    INT(augment.magnitude, FIXED, "9", 0, 30, .elsewhere = "randaugment_magnitude", .help = "How strong the operations of augment.randaugment are, of 30."),
    FLOAT(augment.erasing, FIXED, "0", 0, 1, .elsewhere = "random_erasing reprob random_erase cutout",
          .help = "How likely a box of a picture is erased, 0.02 to 0.33 of its area: it is 0 for the model. Usual: 0.25."),
    FLOAT(augment.mixup, FIXED, "0", 0, 1000, .elsewhere = "mixup_alpha",
          .help = "A picture and the one before it in its batch are mixed, and so are their labels, by a share of Beta(alpha, alpha): this alpha. Usual: 0.2 to 1. "
                  "0: not. With augment.cutmix too, every batch has one of the two. single_label with cross_entropy only."),
    FLOAT(augment.cutmix, FIXED, "0", 0, 1000, .elsewhere = "cutmix_alpha",
          .help = "A box of a picture is that of the one before it in its batch, and their labels are mixed by areas, which follow Beta(alpha, alpha): this alpha. "
                  "Usual: 1. 0: not."),
};
const ft_section ft_augment_section = {.name = "augment", .help = "What training changes in pictures; evaluation and prediction never do.", .rows = rows, .count = ROWS};
