// picture_families.c - the families that read pictures: a class token, patches, and layers with their norms in front.
#include "engine/model/spec/families.h"

#include <stdio.h>
#include <string.h>

#define KEYS(...)                                                                                                      \
    {.hidden = "hidden_size", .layers = "num_hidden_layers", .heads = "num_attention_heads", .activation = "hidden_act", \
     .hidden_dropout = "hidden_dropout_prob", .attention_dropout = "attention_probs_dropout_prob",                     \
     .epsilon = "layer_norm_eps", __VA_ARGS__}

#define LAYER(...)                                                                                                     \
    {.query = "attention.attention.query", .key = "attention.attention.key", .value = "attention.attention.value",    \
     .output = "attention.output.dense", .last_norm = "layernorm", __VA_ARGS__}

#define PATCHES                                                                                                        \
    .weight = "embeddings.patch_embeddings.projection.weight", .bias = "embeddings.patch_embeddings.projection.bias", \
    .first = "embeddings.cls_token", .position = "embeddings.position_embeddings"

// The defaults are those of the configuration classes of transformers 5.24. No word stands in a table.
#define SIZES .vocabulary = 1, .hidden = 768, .layers = 12, .heads = 12, .intermediate = 3072, .undropped = true

#define COMMON                                                                                                         \
    .layer = "encoder.layer", .blocks = {FT_BLOCK_ATTENTION, FT_BLOCK_FEED_FORWARD}, .positions = FT_POSITIONS_TABLE, \
    .norms_in_front = true, .first_norm_in_front = true, .attention_output_dropout = true, .classifier = "classifier"

static const ft_patch_names patches = {PATCHES};
static const ft_patch_names distilled_patches = {PATCHES, .second = "embeddings.distillation_token"};

#define ATTENTION_MODULES                                                                                              \
    {"attention.attention.query", "attention.q_proj"}, {"attention.attention.key", "attention.k_proj"},                \
        {"attention.attention.value", "attention.v_proj"}, {"attention.output.dense", "attention.o_proj"}
static const ft_module_alias vit_modules[] = {{"encoder.layer.", "layers."},   ATTENTION_MODULES, {"intermediate.dense", "mlp.fc1"},
                                              {"output.dense", "mlp.fc2"}, {NULL, NULL}};
static const ft_module_alias dinov2_modules[] = {ATTENTION_MODULES, {NULL, NULL}};

// Each of them once.
void ft_family_module(const ft_family *family, const char *name, char *out, size_t room) {
    snprintf(out, room, "%s", name);
    for (const ft_module_alias *a = family->modules; a != NULL && a->file != NULL; a++) {
        char *at = strstr(out, a->file);
        const size_t before = (size_t)(at - out), was = strlen(a->file), is = strlen(a->module);
        if (at == NULL || strlen(out) - was + is >= room) continue;
        memmove(at + is, at + was, strlen(at + was) + 1);
        memcpy(out + before, a->module, is);
    }
}

const ft_family ft_picture_families[FT_PICTURE_FAMILIES] = {
    {.model_type = "vit",
     .classifier_class = "ViTForImageClassification",
     .prefix = "vit.",
     .keys = KEYS(.intermediate = "intermediate_size"),
     .defaults = {SIZES, .epsilon = 1e-12},
     .embeddings = {.norm = "encoder.layer.0.layernorm_before"},
     .patches = &patches,
     .modules = vit_modules,
     .names = LAYER(.norm[0] = "layernorm_after", .norm[1] = "layernorm_before", .up = "intermediate.dense", .down = "output.dense"),
     COMMON},
    {.model_type = "deit",
     .classifier_class = "DeiTForImageClassification",
     .prefix = "deit.",
     .keys = KEYS(.intermediate = "intermediate_size"),
     .defaults = {SIZES, .epsilon = 1e-12},
     .embeddings = {.norm = "encoder.layer.0.layernorm_before"},
     .patches = &distilled_patches,
     .modules = vit_modules,
     .names = LAYER(.norm[0] = "layernorm_after", .norm[1] = "layernorm_before", .up = "intermediate.dense", .down = "output.dense"),
     COMMON},
    {.model_type = "dinov2",
     .classifier_class = "Dinov2ForImageClassification",
     .prefix = "dinov2.",
     .keys = KEYS(.off = {"use_swiglu_ffn", "drop_path_rate"}), // mlp_ratio instead of a width
     .defaults = {SIZES, .epsilon = 1e-6},
     .embeddings = {.norm = "encoder.layer.0.norm1"},
     .patches = &patches,
     .modules = dinov2_modules,
     .first_and_mean = true,
     .names = LAYER(.norm[0] = "norm2", .norm[1] = "norm1", .up = "mlp.fc1", .down = "mlp.fc2",
                    .scale = {"layer_scale1.lambda1", "layer_scale2.lambda1"}),
     COMMON},
};
