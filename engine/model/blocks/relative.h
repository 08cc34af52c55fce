// relative.h - DeBERTa's table of relative positions, projected for all layers once a step (relative.c).
#ifndef FT_RELATIVE_H
#define FT_RELATIVE_H

#include "engine/model/blocks/layers.h"

// Memory for the projections of all layers and the sums of their gradients in the trained ones: ft_model_hold_positions.
ft_status ft_relative_hold(ft_model *model, ft_capacity train, ft_capacity predict);
void ft_relative_release(ft_model *model);
// Around the micro-batches of a step, or, without a step, of a pass of prediction: ft_model_begin_step and its like. Nothing to do for a
// model without relative positions.
ft_status ft_relative_begin(ft_model *model, ft_capacity capacity, const ft_step_state *step);
ft_status ft_relative_end(ft_model *model, ft_capacity capacity, const ft_step_state *step); // step NULL: forgets the projections
void ft_relative_mark(ft_model *model, ft_capacity capacity, bool begun); // ft_model_mark_step

// rows 0: the model has no such table.
ft_relative_window ft_relative_window_of(const ft_model *model, int32_t longest);
// PK and PQ of a layer in the step or pass under way, and where their gradients add up; absent what the model lacks, or does
// not train.
typedef struct ft_layer_positions {
    ft_tensor key, query, dkey, dquery;
} ft_layer_positions;
ft_layer_positions ft_relative_tables(const ft_pass *pass, int layer);
// FT_FAILED: no step or pass of this capacity has begun.
ft_status ft_relative_check(const ft_pass *pass);

#endif
