#include "engine/train/step/attention_path.h"

#include "base/log.h"
#include "kernels/devices/devices.h"

#include <string.h>

// What keeps a model's attention from tensor memory, of which one layer is enough to have some; "": nothing.
static const char *without_tensor_memory(const ft_model_config *c, ft_precision precision) {
    if (c->family == NULL) return ""; // no model was read
    bool all = c->sights == NULL;
    for (int64_t i = 0; c->sights != NULL && i < c->num_hidden_layers; i++)
        all |= c->sights[i].window == 0;
    if (!ft_precision_is_half(precision)) return "it computes in fp32"; // auto and int8 too
    if (c->positions & FT_POSITIONS_RELATIVE) return "disentangled attention";
    if (c->family->causal) return "causal attention";
    if (c->bias_rows > 0) return "scores with a bias by distance";
    if (c->key_value_heads != c->num_attention_heads) return "heads that share keys";
    if (c->head_width != 64 && c->head_width != 128) return "heads of another width";
    return all ? "" : "attention within windows";
}

const char *ft_attention_name(const ft_device *device, const ft_model_config *model, ft_precision precision) {
    const char *name = ft_device_attention(device);
    return strcmp(name, "tcgen05") == 0 && without_tensor_memory(model, precision)[0] != '\0' ? "mma.sync" : name;
}

void ft_attention_tell(const ft_device *device, const ft_model_config *model, ft_precision precision) {
    if (strcmp(ft_device_attention(device), ft_attention_name(device, model, precision)) == 0) return;
    ft_warn("FTENGINE_ATTENTION=tcgen05 is for full attention in 16 bits with heads of 64 or 128, and this model has none (%s): mma.sync computes it",
            without_tensor_memory(model, precision));
}
