// relative.h - DeBERTa's table of relative positions, projected for all layers once a step (relative.c).
#ifndef FT_RELATIVE_H
#define FT_RELATIVE_H

#include "engine/model/blocks/layers.h"
#include "engine/model/gradients/chain_parts.h"

// PK and PQ of a layer are made by linear layers; weight -1: it has none of the kind. They may be parts of what makes its keys and queries.
typedef struct ft_relative_projections {
    ft_linear key, query;
} ft_relative_projections;

typedef struct ft_relative {
    ft_relative_rule rule;
    int32_t rows, reach;
    int table; // registry
    ft_norm norm;
    ft_relative_projections *layer; // [layers]
    int32_t *slots;                 // [2*reach + 1] device: which row a distance has; with the two below in one block
    int32_t *row_number, *zero;     // [rows]: where a row stands for its dropout, and that no sequence owns it
    // PK and PQ of every layer and the sums of dPK and dPQ: one block each, layer after layer.
    void *projected, *gradients; // device, of the type of the model and fp32; NULL: none held
    size_t projected_bytes, gradient_bytes;
    int32_t longest; // ft_capacity.longest of the step or pass under way; 0: none is
    bool training;   // it is a step
} ft_relative;

// relative_tables.c: what there is of it. Making a model: where config.json asks for it, its place in the model; the projections of a
// layer, behind that layer's queries and keys; the table; on the device the numbers that attention and dropout read.
ft_status ft_relative_create(ft_model *model, const ft_model_config *config);
void ft_relative_build_layer(ft_builder *b, int layer);
void ft_relative_build_table(ft_builder *b);
ft_status ft_relative_upload(ft_model *model, int32_t positions);
void ft_relative_free(ft_model *model);

// Memory for the projections of all layers and the sums of their gradients in the trained ones: ft_model_hold_positions.
ft_status ft_relative_hold(ft_model *model, ft_capacity train, ft_capacity predict);
ft_status ft_relative_add_parts(const ft_model *model, ft_chain_parts *parts); // ft_model_add_chain_parts
void ft_relative_release(ft_model *model);
// Around the micro-batches of a step, or, without a step, of a pass of prediction: ft_model_begin_step and its like. Nothing to do for a
// model without relative positions.
ft_status ft_relative_begin(ft_model *model, ft_capacity capacity, const ft_step_state *step);
ft_status ft_relative_end(ft_model *model, ft_capacity capacity, const ft_step_state *step); // step NULL: forgets the projections
void ft_relative_mark(ft_model *model, ft_capacity capacity, bool begun); // ft_model_mark_step

// rows 0: the model has no such table.
ft_relative_window ft_relative_window_of(const ft_model *model, int32_t longest);
int ft_relative_kinds(const ft_model *model); // of a layer: how many of PK and PQ; 0: its attention is a plain one
size_t ft_relative_table_bytes(const ft_model *model, ft_dtype dtype, int32_t layers, int32_t longest); // of those of so many layers
// PK and PQ of a layer in the step or pass under way, and where their gradients add up; absent what the model lacks, or does
// not train.
typedef struct ft_layer_positions {
    ft_tensor key, query, dkey, dquery;
} ft_layer_positions;
ft_layer_positions ft_relative_tables(const ft_pass *pass, int layer);
// FT_FAILED: no step or pass of this capacity has begun.
ft_status ft_relative_check(const ft_pass *pass);

// What attention reads of them: the shape with the slots, and the tables as the slots count their rows, those of no distance within reach not
// to be touched. Of a model without relative positions a shape without slots, and nothing.
ft_disentangled_shape ft_relative_shape(const ft_pass *pass, ft_rows_kind queries, int layer);
ft_layer_positions ft_relative_whole_tables(const ft_pass *pass, int layer);

// The attention of such a model; the shape is filled in.
ft_status ft_relative_attention_forward(ft_pass *pass, ft_rows_kind queries, int layer, ft_attention_forward_args args);
ft_status ft_relative_attention_backward(ft_pass *pass, ft_rows_kind queries, int layer, ft_attention_backward_args args);

#endif
