// decoder_config.c - what config.json of Qwen and Llama says of rotary positions, causal windows and biases.
//
// Angles: rope_parameters, as transformers 5 writes it, or rope_theta and rope_scaling of files from before. Forms of scaled angles other
// than those below are refused by name.
#include "base/json/json.h"
#include "engine/model/spec/model_config.h"

#include <string.h>

enum { MOST_WINDOW = 1 << 20 };

static ft_status above(const json_t *object, const char *path, const char *key, double least, double fallback, double *value) {
    FT_TRY(ft_json_number(object, path, key, fallback, value));
    if (*value >= least && *value < 1e12) return FT_OK;
    return ft_fail(FT_INVALID, path, "\"%s\" must be at least %g and below 1e12, not %g", key, least, *value);
}

static ft_status read_scaling(const json_t *rope, const char *path, ft_rope_scaling *scaling) {
    static const char *const kinds[] = {[FT_ROPE_DEFAULT] = "default", [FT_ROPE_LINEAR] = "linear", [FT_ROPE_LLAMA3] = "llama3"};
    const char *old, *type;
    int kind = 0;
    FT_TRY(ft_json_string(rope, path, "type", kinds[FT_ROPE_DEFAULT], &old)); // the key's first name
    FT_TRY(ft_json_string(rope, path, "rope_type", old, &type));
    while (kind < 3 && strcmp(type, kinds[kind]) != 0) kind++;
    if (kind == 3) {
        ft_fail(FT_INVALID, path, "\"rope_type\" \"%.60s\" is not supported", type);
        ft_hint("supported: default, linear, llama3");
        return FT_INVALID;
    }
    *scaling = (ft_rope_scaling){.kind = (ft_rope_kind)kind};
    if (kind == FT_ROPE_DEFAULT) return FT_OK;
    FT_TRY(above(rope, path, "factor", 1, 0, &scaling->factor));
    if (kind == FT_ROPE_LINEAR) return FT_OK;
    FT_TRY(above(rope, path, "low_freq_factor", 1e-6, 0, &scaling->low));
    FT_TRY(above(rope, path, "high_freq_factor", 1e-6, 0, &scaling->high));
    FT_TRY(above(rope, path, "original_max_position_embeddings", 1, 0, &scaling->original));
    if (scaling->high > scaling->low) return FT_OK;
    return ft_fail(FT_INVALID, path, "\"high_freq_factor\" %g must be above \"low_freq_factor\" %g", scaling->high, scaling->low);
}

static ft_status read_angles(const ft_model_config *c, const char *path, ft_layer_sight *sight) {
    const json_t *old = json_object_get(c->json, "rope_scaling"), *rope = json_is_object(old) ? old : json_object_get(c->json, "rope_parameters");
    if (rope == NULL || json_is_null(rope)) rope = c->json;
    if (!json_is_object(rope)) return ft_fail(FT_INVALID, path, "\"rope_parameters\" must be an object");
    if (json_object_get(rope, "full_attention") != NULL || json_object_get(rope, "sliding_attention") != NULL)
        return ft_fail(FT_INVALID, path, "\"rope_parameters\" by type of layer is not supported for \"%s\"", c->model_type);
    double part;
    FT_TRY(above(c->json, path, "rope_theta", 1, c->family->theta, &sight->theta));
    FT_TRY(above(rope, path, "rope_theta", 1, sight->theta, &sight->theta));
    FT_TRY(ft_json_number(c->json, path, "partial_rotary_factor", 1, &part));
    FT_TRY(ft_json_number(rope, path, "partial_rotary_factor", part, &part));
    if (part != 1) return ft_fail(FT_INVALID, path, "\"partial_rotary_factor\" must be 1: heads that turn in part are not supported");
    sight->scaling = (ft_rope_scaling){.kind = FT_ROPE_DEFAULT};
    return rope == c->json ? FT_OK : read_scaling(rope, path, &sight->scaling);
}

// Tokens in front of a token that it sees, in layers with a window: a window counts the token itself.
static ft_status read_window(const ft_model_config *c, const char *path, int32_t *behind) {
    bool slides;
    int64_t window;
    *behind = 0;
    FT_TRY(ft_json_bool(c->json, path, "use_sliding_window", false, &slides));
    if (!slides || !c->family->windows) return FT_OK;
    FT_TRY(ft_json_int(c->json, path, "sliding_window", 4096, 2, MOST_WINDOW, &window));
    *behind = (int32_t)window - 1;
    return FT_OK;
}

static ft_status slides(const ft_model_config *c, const char *path, const json_t *types, int64_t layer, int64_t full, bool *slides) {
    *slides = layer >= full;
    if (types == NULL || json_is_null(types)) return FT_OK;
    const char *type = json_string_value(json_array_get(types, (size_t)layer));
    *slides = type != NULL && strcmp(type, "sliding_attention") == 0;
    if (*slides || (type != NULL && strcmp(type, "full_attention") == 0)) return FT_OK;
    return ft_fail(FT_INVALID, path, "\"layer_types\" must be \"full_attention\" or \"sliding_attention\" for each of %lld layers: layer %lld is %.60s",
                   (long long)c->num_hidden_layers, (long long)layer, type != NULL ? type : "missing");
}

static ft_status read_sights(ft_model_config *c, const char *path) {
    const json_t *types = c->family->windows ? json_object_get(c->json, "layer_types") : NULL;
    ft_layer_sight sight;
    int32_t behind;
    int64_t full; // layers in front of those with a window
    FT_TRY(read_angles(c, path, &sight));
    FT_TRY(read_window(c, path, &behind));
    FT_TRY(ft_json_int(c->json, path, "max_window_layers", 28, 0, 1 << 20, &full));
    c->sights = ft_arena_alloc(&c->arena, (size_t)c->num_hidden_layers * sizeof *c->sights);
    if (c->sights == NULL) return FT_NO_MEMORY;
    for (int64_t l = 0; l < c->num_hidden_layers; l++) {
        bool window;
        FT_TRY(slides(c, path, types, l, full, &window));
        if (window && behind == 0 && types != NULL && !json_is_null(types))
            return ft_fail(FT_INVALID, path, "\"layer_types\" has \"sliding_attention\" and \"use_sliding_window\" is false");
        c->sights[l] = sight;
        c->sights[l].window = window ? behind : 0;
    }
    return FT_OK;
}

// Where the family leaves them to config.json.
static ft_status read_biases(ft_model_config *c, const char *path) {
    bool attention, feed_forward;
    if (c->family->names.unbiased != 0) return FT_OK;
    FT_TRY(ft_json_bool(c->json, path, "attention_bias", false, &attention));
    FT_TRY(ft_json_bool(c->json, path, "mlp_bias", false, &feed_forward));
    c->unbiased = (attention ? 0 : FT_LINEAR_QKV | FT_LINEAR_OUTPUT) | (feed_forward ? 0 : FT_LINEAR_UP | FT_LINEAR_DOWN);
    return FT_OK;
}

ft_status ft_decoder_config_read(ft_model_config *c, const char *path) {
    FT_TRY(read_biases(c, path));
    c->last_pooling = true;
    FT_TRY(ft_json_bool(c->json, path, "tie_word_embeddings", false, &c->tied));
    return read_sights(c, path);
}
