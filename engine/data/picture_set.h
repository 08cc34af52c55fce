// picture_set.h - the pictures of a data set, decoded and in the size that the model reads: bytes, whatever a model makes numbers of them.
#ifndef FT_PICTURE_SET_H
#define FT_PICTURE_SET_H

#include "engine/data/dataset.h"
#include "engine/images/rules.h"

typedef struct ft_picture_set {
    int32_t height, width; // pixels
    int32_t patch, tokens; // pixels of a side of a patch; rows in front of the patches
    ft_picture_rules rules; // how they came to that size, and which numbers their bytes are
    uint8_t *pixels; // [examples, height, width, 3] (base/spill.h)
    int32_t *key;    // [examples] what a picture is known by in drawing (augment.h): its line in the file, whatever was left out; the same
    size_t largest;  // bytes that reading one of them in its full size takes of the heap, at most
    struct ft_picture_files *files; // whose they are (pictures/picture_files.h)
} ft_picture_set;

static inline size_t ft_picture_set_bytes(const ft_picture_set *set) { return (size_t)set->height * (size_t)set->width * FT_PICTURE_CHANNELS; }
static inline const uint8_t *ft_picture_set_at(const ft_picture_set *set, int64_t example) { return set->pixels + (size_t)example * ft_picture_set_bytes(set); }
// Rows of a picture, those in front of the patches included; numbers of a patch.
static inline int32_t ft_picture_set_rows(const ft_picture_set *set) {
    return set->tokens + (set->height / set->patch) * (set->width / set->patch);
}
static inline int64_t ft_picture_set_numbers(const ft_picture_set *set) { return (int64_t)FT_PICTURE_CHANNELS * set->patch * set->patch; }

// A data set of `pictures` (taken, also on failure), whose lengths are filled in here. labels NULL: unlabelled.
ft_status ft_picture_set_own(ft_picture_set *pictures, int64_t examples, ft_dataset *data);
// What the table calls the picture of an example.
const char *ft_picture_set_name(const ft_picture_set *set, int64_t example);
void ft_picture_set_free(ft_picture_set *set); // NULL is fine
size_t ft_picture_set_host_bytes(const ft_picture_set *set); // NULL: 0

#endif
