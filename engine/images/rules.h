// rules.h - preprocessor_config.json: from a picture of any size to the numbers that a model reads.
//
//     FT_TRY(ft_picture_rules_load(model_dir, &rules));
//     FT_TRY(ft_picture_prepare(&rules, &picture, path, bytes));    // [rules.height, rules.width, 3]
//     number = rules.value[channel][bytes[(y * rules.width + x) * 3 + channel]];
#ifndef FT_PICTURE_RULES_H
#define FT_PICTURE_RULES_H

#include "engine/images/picture.h"
#include "engine/images/resize.h"

#include <stdbool.h>

typedef struct ft_picture_rules {
    int32_t width, height; // of what comes out
    bool resizes, crops;
    int32_t to_width, to_height; // resized to; 0: see `shortest`
    int32_t shortest;            // so long becomes the shorter side; 0: see above
    ft_resample filter;
    float value[FT_PICTURE_CHANNELS][256]; // rescaled and normalised, as transformers computes it in fp32
} ft_picture_rules;

#define FT_PICTURE_RULES_FILE "preprocessor_config.json"

// model_dir/preprocessor_config.json, of ViT's, DeiT's and BiT's image processors (DINOv2 has the last), in the forms of transformers 4 and 5.
// FT_INVALID with file and key: it is missing, another processor, or asks for what is not supported; sizes that do not end in one size.
ft_status ft_picture_rules_load(const char *model_dir, ft_picture_rules *rules);
ft_status ft_picture_rules_parse(const char *text, size_t length, const char *path, ft_picture_rules *rules);

// The smallest picture that is not made larger by that; 0: it is taken as it is.
void ft_picture_rules_least(const ft_picture_rules *rules, int32_t *width, int32_t *height);

// Resized, and the centre of it. out: [height, width, 3], the caller's. path: of the picture, for messages.
// FT_INVALID: the rules do not resize, and it has another size.
ft_status ft_picture_prepare(const ft_picture_rules *rules, const ft_picture *picture, const char *path, uint8_t *out);

#endif
