// rotary.h - rotary positions (kernels/ops/rope.h): which angles a layer turns by, and how far its tokens see. Internal to the blocks.
#ifndef FT_ROTARY_H
#define FT_ROTARY_H

#include "engine/model/blocks/layers.h"

enum { FT_ROTARY_TABLES = 2 };

typedef struct ft_rotary_layer {
    int32_t window; // ft_attention_shape.window
    int table;
} ft_rotary_layer;

typedef struct ft_rotary {
    double theta[FT_ROTARY_TABLES];
    ft_rope_scaling scaling; // of all of them
    ft_tensor table[FT_ROTARY_TABLES]; // [positions, head width] fp32, device
    int tables;
    ft_rotary_layer *layer; // [layers]
} ft_rotary;

// Where config.json asks for it, its place in the model; on the device the angles of `positions` positions.
ft_status ft_rotary_create(ft_model *model, const ft_model_config *config);
ft_status ft_rotary_upload(ft_model *model, int32_t positions);
void ft_rotary_free(ft_model *model);

int32_t ft_rotary_window(const ft_model *model, int layer); // 0: the layer has none
// Turns x, heads of queries or keys at the places of the rows, in place, or back; nothing for a model without rotary positions.
ft_status ft_rotary_turn(ft_pass *pass, ft_rows_kind kind, int layer, bool back, ft_tensor x);

#endif
