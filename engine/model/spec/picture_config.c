// picture_config.c - config.json of models that read pictures: sizes, patches, and the rows of positions that follow.
#include "base/json/json.h"
#include "engine/model/spec/model_config.h"

enum { MOST_SIDE = 16384, MOST_PATCH = 1024 };

// A number, or a list of height and width.
static ft_status read_pair(const json_t *json, const char *path, const char *key, int64_t fallback, int64_t most, int64_t out[2]) {
    json_t *given = json_object_get(json, key);
    if (!json_is_array(given)) {
        FT_TRY(ft_json_int(json, path, key, fallback, 1, most, &out[0]));
        out[1] = out[0];
        return FT_OK;
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_array_get(given, i);
        out[i] = json_integer_value(value);
        if (json_array_size(given) != 2 || !json_is_integer(value) || out[i] < 1 || out[i] > most)
            return ft_fail(FT_INVALID, path, "\"%s\" must be a number or two, height and width, from 1 to %lld", key, (long long)most);
    }
    return FT_OK;
}

static ft_status count_rows(ft_model_config *c, const char *where) {
    ft_picture_config *p = &c->picture;
    if (p->height % p->patch != 0 || p->width % p->patch != 0)
        return ft_fail(FT_INVALID, where, "pictures of %lld x %lld are no whole patches of %lld x %lld", (long long)p->height, (long long)p->width,
                       (long long)p->patch, (long long)p->patch);
    c->position_rows = p->tokens + (p->height / p->patch) * (p->width / p->patch);
    c->max_position_embeddings = c->position_rows;
    if (c->position_rows <= FT_MOST_POSITIONS) return FT_OK;
    return ft_fail(FT_INVALID, where, "pictures of %lld x %lld have %lld patches, at most %d can be read", (long long)p->height, (long long)p->width,
                   (long long)(c->position_rows - p->tokens), FT_MOST_POSITIONS - (int)p->tokens);
}

// DINOv2's: a vector that hides patches in pretraining. A classifier has none.
static ft_status drop_mask_token(ft_model_config *c) {
    if (!c->family->first_and_mean) return FT_OK;
    return json_object_set_new(c->json, "use_mask_token", json_false()) == 0 ? FT_OK : ft_fail_memory(64, "config.json");
}

ft_status ft_picture_config_read(ft_model_config *c, const char *path) {
    ft_picture_config *p = &c->picture;
    int64_t size[2], patch[2];
    bool biased;
    FT_TRY(read_pair(c->json, path, "image_size", 224, MOST_SIDE, size));
    FT_TRY(read_pair(c->json, path, "patch_size", 16, MOST_PATCH, patch));
    if (patch[0] != patch[1]) return ft_fail(FT_INVALID, path, "\"patch_size\" must be a square's");
    FT_TRY(ft_json_int(c->json, path, "num_channels", 3, 1, MOST_PATCH, &p->channels));
    if (p->channels != 3) return ft_fail(FT_INVALID, path, "\"num_channels\" must be 3, red, green and blue");
    FT_TRY(ft_json_bool(c->json, path, "qkv_bias", true, &biased));
    if (!biased) c->unbiased |= FT_LINEAR_QKV;
    if (c->family->keys.intermediate == NULL) {
        double ratio;
        FT_TRY(ft_json_number(c->json, path, "mlp_ratio", 4, &ratio));
        if (!(ratio > 0 && ratio * (double)c->hidden_size >= 1 && ratio <= 64)) return ft_fail(FT_INVALID, path, "\"mlp_ratio\" must be from above 0 to 64, not %g", ratio);
        c->intermediate_size = (int64_t)((double)c->hidden_size * ratio);
    }
    FT_TRY(ft_json_number(c->json, path, "layerscale_value", 1, &p->scale));
    p->height = size[0];
    p->width = size[1];
    p->patch = patch[0];
    p->tokens = c->family->patches->second != NULL ? 2 : 1;
    FT_TRY(drop_mask_token(c));
    return count_rows(c, path);
}

ft_status ft_model_config_set_picture(ft_model_config *c, int64_t height, int64_t width, const char *where) {
    ft_picture_config *p = &c->picture;
    if (height == p->height && width == p->width) return FT_OK;
    if (p->height != p->width)
        return ft_fail(FT_INVALID, where, "pictures of %lld x %lld, and the model has positions for %lld x %lld: only those of squares are interpolated",
                       (long long)height, (long long)width, (long long)p->height, (long long)p->width);
    const ft_picture_config before = *p;
    p->height = height;
    p->width = width;
    const ft_status status = count_rows(c, where);
    if (status != FT_OK) *p = before;
    FT_TRY(status);
    json_t *size = height == width ? json_integer(height) : json_pack("[I, I]", (json_int_t)height, (json_int_t)width);
    return json_object_set_new(c->json, "image_size", size) == 0 ? FT_OK : ft_fail_memory(64, "config.json");
}
