// position_bias.h - MPNet's biases by distance and head: one table for all layers, whose numbers attention adds to the scores
// (kernels/ops/attention.h).
//
// Every layer adds to the table's gradient. Each has a sum of its own, to which the sequences of a step add in order; at the end of the
// step the layers' sums are added, in order. So the same bits for any split into micro-batches.
#ifndef FT_POSITION_BIAS_H
#define FT_POSITION_BIAS_H

#include "engine/model/blocks/layers.h"
#include "engine/model/gradients/chain_parts.h"

typedef struct ft_position_bias {
    int table;        // registry
    int64_t rows;
    int32_t *slots;   // [2*reach + 1] device: which row a distance has
    float *sums;      // [layers, rows * heads] device; NULL: none held
} ft_position_bias;

// Making a model: where config.json asks for it, its table, and on the device which rows distances have.
ft_status ft_position_bias_create(ft_model *model, const ft_model_config *config);
void ft_position_bias_build(ft_builder *b);
ft_status ft_position_bias_upload(ft_model *model);
void ft_position_bias_free(ft_model *model);
// Memory for the sums of training steps, where the table is trained; and around the micro-batches of a step. Nothing to do without a table.
ft_status ft_position_bias_hold(ft_model *model, bool trains);
ft_status ft_position_bias_add_parts(const ft_model *model, ft_chain_parts *parts); // ft_model_add_chain_parts
void ft_position_bias_release(ft_model *model);
ft_status ft_position_bias_begin(ft_model *model);
ft_status ft_position_bias_end(ft_model *model, ft_capacity capacity, const ft_step_state *step);

// What attention adds, and where a layer's gradient of it goes; absent without a table, or where nothing is trained.
ft_attention_bias ft_position_bias_of(const ft_model *model);
ft_tensor ft_position_bias_gradient(const ft_pass *pass, int layer);

// Which row the distance query - key has: 0 to 15 for keys in front of the query and its own, 16 to 31 behind; of large distances several share one.
int32_t ft_position_bias_slot(int32_t delta);

#endif
