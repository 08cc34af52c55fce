#include "engine/images/rules.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/heap.h"
#include "base/json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_FILE = 1 << 20, LONGEST_SIDE = 16384 };

#define OPENAI_MEAN {0.48145466, 0.4578275, 0.40821073}
#define OPENAI_DEVIATION {0.26862954, 0.26130258, 0.27577711}
#define HALVES {0.5, 0.5, 0.5}

// What a processor does where its file does not say.
typedef struct processor {
    const char *name;
    bool shortest; // a size that is one number is that of the shorter side
    int32_t size, crop; // crop 0: none
    ft_resample filter;
    double mean[FT_PICTURE_CHANNELS], deviation[FT_PICTURE_CHANNELS];
} processor;

static const processor processors[] = {
    {"ViT", false, 224, 0, FT_RESAMPLE_BILINEAR, HALVES, HALVES},
    {"DeiT", false, 256, 224, FT_RESAMPLE_BICUBIC, HALVES, HALVES},
    {"Bit", true, 224, 224, FT_RESAMPLE_BICUBIC, OPENAI_MEAN, OPENAI_DEVIATION},
};
enum { PROCESSORS = sizeof processors / sizeof processors[0] };

typedef struct reading {
    const json_t *json;
    const char *path;
    const processor *by;
    ft_picture_rules *rules;
} reading;

// "ViTImageProcessor", "ViTImageProcessorFast", "ViTImageProcessorPil" or "ViTFeatureExtractor".
static bool is_named(const char *type, const char *name) {
    static const char *const kinds[] = {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"};
    const size_t length = strlen(name);
    if (strncmp(type, name, length) != 0) return false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(type + length, kinds[i]) == 0) return true;
    return false;
}

static ft_status find_processor(reading *r) {
    const char *type;
    FT_TRY(ft_json_string(r->json, r->path, "image_processor_type", NULL, &type));
    if (type == NULL) FT_TRY(ft_json_string(r->json, r->path, "feature_extractor_type", NULL, &type));
    for (int i = 0; i < PROCESSORS && type != NULL; i++)
        if (is_named(type, processors[i].name)) r->by = &processors[i];
    if (r->by != NULL) return FT_OK;
    if (type == NULL) ft_fail(FT_INVALID, r->path, "\"image_processor_type\" is missing: is this the file of an image processor?");
    else ft_fail(FT_INVALID, r->path, "\"image_processor_type\" \"%.60s\" is not supported", type);
    ft_hint("supported: ViTImageProcessor, DeiTImageProcessor, BitImageProcessor");
    return FT_INVALID;
}

static ft_status side(const reading *r, const json_t *sizes, const char *key, int32_t *out) {
    int64_t value;
    FT_TRY(ft_json_int(sizes, r->path, key, 0, 1, LONGEST_SIDE, &value));
    *out = (int32_t)value;
    return FT_OK;
}

// A number, or {"height", "width"}, or, where `shortest` is asked for, {"shortest_edge"}.
static ft_status read_size(const reading *r, const char *key, int32_t fallback, int32_t *width, int32_t *height, int32_t *shortest) {
    const json_t *given = json_object_get(r->json, key);
    const bool by_shortest = shortest != NULL && r->by->shortest;
    if (json_is_object(given)) {
        FT_TRY(side(r, given, "height", height));
        FT_TRY(side(r, given, "width", width));
        if (shortest != NULL) FT_TRY(side(r, given, "shortest_edge", shortest));
        if (*height > 0 && *width > 0) return FT_OK;
        if (shortest != NULL && *shortest > 0) return FT_OK;
        return ft_fail(FT_INVALID, r->path, "\"%s\" must have \"height\" and \"width\"%s", key, shortest != NULL ? ", or \"shortest_edge\"" : "");
    }
    int64_t value;
    FT_TRY(ft_json_int(r->json, r->path, key, fallback, 1, LONGEST_SIDE, &value));
    if (by_shortest) *shortest = (int32_t)value;
    else *height = *width = (int32_t)value;
    return FT_OK;
}

static ft_status read_geometry(const reading *r) {
    ft_picture_rules *o = r->rules;
    const processor *p = r->by;
    int64_t filter;
    FT_TRY(ft_json_bool(r->json, r->path, "do_resize", true, &o->resizes));
    FT_TRY(ft_json_bool(r->json, r->path, "do_center_crop", p->crop > 0, &o->crops));
    FT_TRY(ft_json_int(r->json, r->path, "resample", p->filter, 0, 5, &filter));
    o->filter = (ft_resample)filter;
    FT_TRY(read_size(r, "size", p->size, &o->to_width, &o->to_height, &o->shortest));
    if (o->resizes && (filter < FT_RESAMPLE_LANCZOS || filter > FT_RESAMPLE_BICUBIC))
        return ft_fail(FT_INVALID, r->path, "\"resample\" %lld is not supported: 1 (Lanczos), 2 (bilinear) and 3 (bicubic) are", (long long)filter);
    if (!o->resizes) o->filter = FT_RESAMPLE_BILINEAR; // which is not run
    o->width = o->to_width;
    o->height = o->to_height;
    if (o->crops) FT_TRY(read_size(r, "crop_size", p->crop > 0 ? p->crop : p->size, &o->width, &o->height, NULL));
    if (o->width == 0) {
        ft_fail(FT_INVALID, r->path, "\"do_center_crop\" must be true beside \"size\" {\"shortest_edge\"}: pictures would have several sizes");
        return FT_INVALID;
    }
    const int32_t least_width = o->shortest > 0 ? o->shortest : o->to_width, least_height = o->shortest > 0 ? o->shortest : o->to_height;
    if (o->crops && o->resizes && (o->width > least_width || o->height > least_height))
        return ft_fail(FT_INVALID, r->path, "\"crop_size\" %d x %d is larger than what \"size\" leaves of a picture", o->height, o->width);
    return FT_OK;
}

static ft_status read_channels(const reading *r, const char *key, const double *fallback, double *out) {
    const json_t *given = json_object_get(r->json, key);
    for (size_t c = 0; c < FT_PICTURE_CHANNELS; c++) {
        const json_t *value = json_array_get(given, c);
        out[c] = given == NULL ? fallback[c] : json_number_value(value);
        if (given != NULL && (json_array_size(given) != FT_PICTURE_CHANNELS || !json_is_number(value)))
            return ft_fail(FT_INVALID, r->path, "\"%s\" must be three numbers, of red, green and blue", key);
    }
    return FT_OK;
}

// transformers folds the factor into mean and deviation, and computes in fp32.
static ft_status read_values(const reading *r) {
    double factor, mean[FT_PICTURE_CHANNELS], deviation[FT_PICTURE_CHANNELS];
    bool rescales, normalises;
    FT_TRY(ft_json_bool(r->json, r->path, "do_rescale", true, &rescales));
    FT_TRY(ft_json_bool(r->json, r->path, "do_normalize", true, &normalises));
    FT_TRY(ft_json_number(r->json, r->path, "rescale_factor", 1.0 / 255, &factor));
    FT_TRY(read_channels(r, "image_mean", r->by->mean, mean));
    FT_TRY(read_channels(r, "image_std", r->by->deviation, deviation));
    if (rescales && !(factor > 0)) return ft_fail(FT_INVALID, r->path, "\"rescale_factor\" must be above 0, not %g", factor);
    const float inverse = rescales ? (float)(1 / factor) : 1;
    for (int c = 0; c < FT_PICTURE_CHANNELS; c++) {
        if (normalises && !(deviation[c] > 0)) return ft_fail(FT_INVALID, r->path, "\"image_std\" must be above 0, not %g", deviation[c]);
        const float from = (float)mean[c] * inverse, by = (float)deviation[c] * inverse;
        for (int v = 0; v < 256; v++) {
            const float scaled = rescales ? (float)v * (float)factor : (float)v;
            r->rules->value[c][v] = normalises ? ((float)v - from) / by : scaled;
            if (!isfinite(r->rules->value[c][v]))
                return ft_fail(FT_INVALID, r->path, "\"rescale_factor\", \"image_mean\" and \"image_std\" make of %d what is not finite", v);
        }
    }
    return FT_OK;
}

static ft_status read_rules(reading *r) {
    if (!json_is_object(r->json)) return ft_fail(FT_INVALID, r->path, "a JSON object is needed here");
    FT_TRY(find_processor(r));
    FT_TRY(read_geometry(r));
    return read_values(r);
}

ft_status ft_picture_rules_parse(const char *text, size_t length, const char *path, ft_picture_rules *rules) {
    json_t *json;
    *rules = (ft_picture_rules){.width = 0};
    FT_TRY(ft_json_parse(text, length, path, &json));
    const ft_status status = read_rules(&(reading){.json = json, .path = path, .rules = rules});
    json_decref(json);
    return status;
}

ft_status ft_picture_rules_load(const char *model_dir, ft_picture_rules *rules) {
    ft_arena arena = {0};
    char *text = NULL;
    size_t length;
    const char *path = ft_path_join(&arena, model_dir, FT_PICTURE_RULES_FILE);
    ft_status status = path != NULL ? FT_OK : FT_NO_MEMORY;
    if (status == FT_OK) status = ft_read_file(path, LARGEST_FILE, &text, &length);
    if (status == FT_INVALID) ft_hint("a model of pictures needs the file of its image processor beside config.json");
    if (status == FT_OK) status = ft_picture_rules_parse(text, length, path, rules);
    free(text);
    ft_arena_free(&arena);
    return status;
}

// ---- a picture -----------------------------------------------------------------------------------------------------------

static void crop(const uint8_t *from, int32_t width, int32_t height, const ft_picture_rules *r, uint8_t *out) {
    const size_t left = (size_t)((width - r->width) / 2), top = (size_t)((height - r->height) / 2);
    const size_t stride = (size_t)r->width * FT_PICTURE_CHANNELS;
    for (size_t y = 0; y < (size_t)r->height; y++)
        memcpy(out + y * stride, from + ((top + y) * (size_t)width + left) * FT_PICTURE_CHANNELS, stride);
}

void ft_picture_rules_least(const ft_picture_rules *r, int32_t *width, int32_t *height) {
    *width = !r->resizes ? 0 : r->shortest > 0 ? r->shortest : r->to_width;
    *height = !r->resizes ? 0 : r->shortest > 0 ? r->shortest : r->to_height;
}

ft_status ft_picture_prepare(const ft_picture_rules *r, const ft_picture *p, const char *path, uint8_t *out) {
    int32_t width = p->width, height = p->height;
    if (r->resizes && r->shortest > 0) {
        const bool wide = width >= height; // the longer side: cut, not rounded
        const int64_t other = (int64_t)r->shortest * (wide ? width : height) / (wide ? height : width);
        if (other > FT_PICTURE_MOST_PIXELS / r->shortest) return ft_fail(FT_INVALID, path, "a picture of %d x %d pixels is too narrow to be resized", p->width, p->height);
        width = wide ? (int32_t)other : r->shortest;
        height = wide ? r->shortest : (int32_t)other;
    } else if (r->resizes) {
        width = r->to_width;
        height = r->to_height;
    }
    if (width < r->width || height < r->height || (!r->crops && (width != r->width || height != r->height)))
        return ft_fail(FT_INVALID, path, "a picture of %d x %d pixels, and the model wants %d x %d without resizing (" FT_PICTURE_RULES_FILE ")", p->width, p->height,
                       r->width, r->height);
    if (!r->crops) return ft_picture_resize(p, r->filter, width, height, out);
    uint8_t *whole = ft_calloc((size_t)width * (size_t)height, FT_PICTURE_CHANNELS, "a picture in another size");
    if (whole == NULL) return FT_NO_MEMORY;
    const ft_status status = ft_picture_resize(p, r->filter, width, height, whole);
    if (status == FT_OK) crop(whole, width, height, r, out);
    free(whole);
    return status;
}
