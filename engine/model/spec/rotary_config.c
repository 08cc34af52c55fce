// rotary_config.c - rotary positions: one base for all layers, or ModernBERT's keys of config.json: which layers see how far, by which angles they turn, which biases there are, the head.
// Published files say global_attn_every_n_layers, global_rope_theta and local_rope_theta, those of transformers 5 layer_types and
// rope_parameters; both are read, the latter first.
#include "base/json/json.h"
#include "engine/model/spec/model_config.h"

#include <string.h>

enum { MOST_WINDOW = 1 << 20 };

static ft_status read_theta(const json_t *object, const char *path, const char *key, double fallback, double *theta) {
    FT_TRY(ft_json_number(object, path, key, fallback, theta));
    if (*theta > 1 && *theta < 1e12) return FT_OK;
    return ft_fail(FT_INVALID, path, "\"%s\" must be above 1 and below 1e12, not %g", key, *theta);
}

static ft_status refuse_type(const char *path, const char *type) {
    ft_fail(FT_INVALID, path, "\"rope_type\" \"%.60s\" is not supported", type);
    ft_hint("supported: default");
    return FT_INVALID;
}

// Of one kind of layer.
static ft_status read_angles(const ft_model_config *c, const char *path, const char *kind, const char *old, double fallback, double *theta) {
    const json_t *all = json_object_get(c->json, "rope_parameters"), *own = json_object_get(all, kind);
    const char *type;
    FT_TRY(read_theta(c->json, path, old, fallback, theta));
    if (json_is_object(own)) FT_TRY(read_theta(own, path, "rope_theta", *theta, theta));
    FT_TRY(ft_json_string(json_is_object(own) ? own : c->json, path, "rope_type", "default", &type));
    return strcmp(type, "default") == 0 ? FT_OK : refuse_type(path, type);
}

static ft_status refuse_scaling(const ft_model_config *c, const char *path) {
    const json_t *scaling = json_object_get(c->json, "rope_scaling");
    if (scaling == NULL || json_is_null(scaling)) return FT_OK;
    return ft_fail(FT_INVALID, path, "\"rope_scaling\" must be null: scaled rotary positions are not supported");
}

static ft_status read_layer(const ft_model_config *c, const char *path, const json_t *types, int64_t every, int64_t layer, bool *full) {
    *full = layer % every == 0;
    if (types == NULL || json_is_null(types)) return FT_OK;
    const char *type = json_string_value(json_array_get(types, (size_t)layer));
    *full = type != NULL && strcmp(type, "full_attention") == 0;
    if (*full || (type != NULL && strcmp(type, "sliding_attention") == 0)) return FT_OK;
    return ft_fail(FT_INVALID, path, "\"layer_types\" must be \"full_attention\" or \"sliding_attention\" for each of %lld layers: layer %lld is %.60s",
                   (long long)c->num_hidden_layers, (long long)layer, type != NULL ? type : "missing");
}

static ft_status read_sights(ft_model_config *c, const char *path) {
    const json_t *types = json_object_get(c->json, "layer_types");
    int64_t window, every;
    double far, near;
    FT_TRY(refuse_scaling(c, path));
    FT_TRY(read_angles(c, path, "full_attention", "global_rope_theta", 160000, &far));
    FT_TRY(read_angles(c, path, "sliding_attention", "local_rope_theta", 10000, &near));
    FT_TRY(ft_json_int(c->json, path, "local_attention", 128, 2, MOST_WINDOW, &window)); // tokens of both sides
    FT_TRY(ft_json_int(c->json, path, "global_attn_every_n_layers", 3, 1, c->num_hidden_layers + 3, &every));
    c->sights = ft_arena_alloc(&c->arena, (size_t)c->num_hidden_layers * sizeof *c->sights);
    if (c->sights == NULL) return FT_NO_MEMORY;
    for (int64_t l = 0; l < c->num_hidden_layers; l++) {
        bool full;
        FT_TRY(read_layer(c, path, types, every, l, &full));
        c->sights[l] = (ft_layer_sight){.window = full ? 0 : (int32_t)(window / 2), .theta = full ? far : near};
    }
    return FT_OK;
}

static ft_status read_biases(ft_model_config *c, const char *path) {
    bool attention, feed_forward, norms, pooler;
    FT_TRY(ft_json_bool(c->json, path, "attention_bias", false, &attention));
    FT_TRY(ft_json_bool(c->json, path, "mlp_bias", false, &feed_forward));
    FT_TRY(ft_json_bool(c->json, path, "norm_bias", false, &norms));
    FT_TRY(ft_json_bool(c->json, path, "classifier_bias", false, &pooler));
    c->unbiased = (attention ? 0 : FT_LINEAR_QKV | FT_LINEAR_OUTPUT) | (feed_forward ? 0 : FT_LINEAR_UP | FT_LINEAR_DOWN) |
                  (pooler ? 0 : FT_LINEAR_POOLER);
    c->unbiased_norms = !norms;
    return FT_OK;
}

static ft_status read_head(ft_model_config *c, const char *path) {
    const char *pooling, *activation;
    FT_TRY(ft_json_string(c->json, path, "classifier_pooling", "cls", &pooling));
    c->mean_pooling = strcmp(pooling, "mean") == 0;
    if (!c->mean_pooling && strcmp(pooling, "cls") != 0)
        return ft_fail(FT_INVALID, path, "\"classifier_pooling\" must be \"cls\" or \"mean\", not \"%.60s\"", pooling);
    FT_TRY(ft_json_string(c->json, path, "classifier_activation", "gelu", &activation));
    ft_status status = ft_activation_from_name(activation, &c->relative.pooler_activation);
    if (status != FT_OK) ft_error_where_default("%s: \"classifier_activation\"", path);
    return status;
}

// The same in all layers, nomic_bert and gte: rope_parameters, or rope_theta in files from before transformers 5.
static ft_status read_one(ft_model_config *c, const char *path) {
    const json_t *all = json_object_get(c->json, "rope_parameters");
    const char *type;
    double theta, part;
    FT_TRY(refuse_scaling(c, path));
    FT_TRY(read_theta(c->json, path, "rope_theta", c->family->theta, &theta));
    if (json_is_object(all)) FT_TRY(read_theta(all, path, "rope_theta", theta, &theta));
    FT_TRY(ft_json_string(json_is_object(all) ? all : c->json, path, "rope_type", "default", &type));
    FT_TRY(ft_json_number(c->json, path, "rotary_emb_fraction", 1, &part));
    if (part != 1) return ft_fail(FT_INVALID, path, "\"rotary_emb_fraction\" must be 1: heads that turn in part are not supported");
    if (strcmp(type, "default") != 0) return refuse_type(path, type);
    c->sights = ft_arena_alloc(&c->arena, (size_t)c->num_hidden_layers * sizeof *c->sights);
    if (c->sights == NULL) return FT_NO_MEMORY;
    for (int64_t l = 0; l < c->num_hidden_layers; l++) c->sights[l] = (ft_layer_sight){.theta = theta};
    return FT_OK;
}

// EuroBERT: the classifier's layers read the first row, the mean of all, or all of them, and then the mean is behind the first layer.
static ft_status read_plain_biases(ft_model_config *c, const char *path) {
    static const char *const poolings[] = {"bos", "mean", "late"};
    const char *pooling;
    bool attention, feed_forward;
    FT_TRY(ft_json_bool(c->json, path, "attention_bias", false, &attention));
    FT_TRY(ft_json_bool(c->json, path, "mlp_bias", false, &feed_forward));
    c->unbiased = (attention ? 0 : FT_LINEAR_QKV | FT_LINEAR_OUTPUT) | (feed_forward ? 0 : FT_LINEAR_UP | FT_LINEAR_DOWN);
    FT_TRY(ft_json_string(c->json, path, "classifier_pooling", "late", &pooling));
    int i = 0;
    while (i < 3 && strcmp(pooling, poolings[i]) != 0) i++;
    if (i == 3) return ft_fail(FT_INVALID, path, "\"classifier_pooling\" must be \"bos\", \"mean\" or \"late\", not \"%.60s\"", pooling);
    c->mean_pooling = i > 0;
    c->late_pooling = i == 2;
    return FT_OK;
}

ft_status ft_rotary_config_read(ft_model_config *c, const char *path) {
    if (c->head_width % 2 != 0)
        return ft_fail(FT_INVALID, path, "heads of \"hidden_size\" / \"num_attention_heads\" = %lld columns have no pairs to turn: an even number is needed",
                       (long long)c->head_width);
    if (c->family->rotary == FT_ROTARY_DECODER) return ft_decoder_config_read(c, path);
    if (c->family->rotary == FT_ROTARY_BIASES) FT_TRY(read_plain_biases(c, path));
    if (c->family->rotary != FT_ROTARY_BY_LAYER) return read_one(c, path);
    FT_TRY(ft_json_number(c->json, path, "embedding_dropout", 0, &c->embedding_dropout));
    if (!(c->embedding_dropout >= 0 && c->embedding_dropout < 1))
        return ft_fail(FT_INVALID, path, "\"embedding_dropout\" must be at least 0 and below 1, not %g", c->embedding_dropout);
    FT_TRY(read_sights(c, path));
    FT_TRY(read_biases(c, path));
    return read_head(c, path);
}
